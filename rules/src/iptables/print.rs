//! Printing of rule sets in the format of `iptables-save` (1.8.9).

use super::ast::{Chain, Counters, Policy, Rule, RuleSet};
use super::text::Printer;
use super::values::{Negatable, Network};
use crate::cluster::Family;

/// Prints a rule set as `iptables-save` does and `iptables-restore` accepts it: no comment lines, rules chain by chain.
pub fn print(rules: &RuleSet) -> String {
    let count: usize = rules.tables.iter().flat_map(|table| &table.chains).map(|chain| chain.rules.len() + 1).sum();
    let mut out = Printer { text: String::with_capacity(count * 144), family: rules.family };
    for table in &rules.tables {
        out.push("*");
        line(&mut out, table.name.as_str());
        table.chains.iter().for_each(|chain| declaration(&mut out, chain));
        for chain in &table.chains {
            chain.rules.iter().for_each(|rule| rule_line(&mut out, &chain.name, rule));
        }
        line(&mut out, "COMMIT");
    }
    out.text
}

/// Prints one rule of a chain, without a newline.
pub fn print_rule(family: Family, chain: &str, rule: &Rule) -> String {
    let mut out = Printer { text: String::new(), family };
    rule_line(&mut out, chain, rule);
    out.text.pop();
    out.text
}

/// Appends text and a newline.
fn line(out: &mut Printer, text: &str) {
    out.push(text);
    out.push("\n");
}

fn declaration(out: &mut Printer, chain: &Chain) {
    out.push(":");
    out.push(&chain.name);
    out.push(match chain.policy {
        Some(Policy::Accept) => " ACCEPT ",
        Some(Policy::Drop) => " DROP ",
        None => " - ",
    });
    counters(out, chain.counters);
    out.push("\n");
}

fn counters(out: &mut Printer, Counters { packets, bytes }: Counters) {
    out.push("[");
    out.number(packets);
    out.push(":");
    out.number(bytes);
    out.push("]");
}

fn rule_line(out: &mut Printer, chain: &str, rule: &Rule) {
    if let Some(counted) = rule.counters {
        counters(out, counted);
        out.push(" ");
    }
    out.push("-A ");
    out.push(chain);
    network(out, " -s ", rule.source.as_ref());
    network(out, " -d ", rule.destination.as_ref());
    out.word(" -i ", rule.in_interface.as_ref());
    out.word(" -o ", rule.out_interface.as_ref());
    if let Some(protocol) = &rule.protocol {
        out.option(" -p ", protocol.negated);
        match protocol.value.name() {
            Some(name) => out.push(name),
            None => out.number(u64::from(protocol.value.0)),
        }
    }
    if let Some(fragment) = &rule.fragment {
        out.option(" -f", fragment.negated);
    }
    rule.matches.iter().for_each(|condition| condition.print(out));
    if let Some(target) = &rule.target {
        target.print(out);
    }
    out.push("\n");
}

fn network(out: &mut Printer, name: &str, network: Option<&Negatable<Network>>) {
    let Some(network) = network else { return };
    out.option(name, network.negated);
    match &network.value {
        Network::Prefix(range) => {
            out.address(range.addr());
            out.push("/");
            out.number(u64::from(range.prefix_len()));
        }
        Network::Masked(parts) => {
            out.address(parts.0);
            out.push("/");
            out.address(parts.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use smallvec::smallvec;

    use super::*;
    use crate::iptables::{Match, TableName};

    #[rstest]
    #[case::word("flannel", "flannel")]
    #[case::slash("default/web", "\"default/web\"")]
    #[case::quote("say \"hi\"", "\"say \\\"hi\\\"\"")]
    #[case::apostrophe("it's", "\"it\\'s\"")]
    #[case::empty("", "\"\"")]
    fn comments_are_quoted_as_iptables_does(#[case] text: &str, #[case] shown: &str) {
        let rule = Rule { matches: smallvec![Match::Comment(text.into())], ..Rule::default() };
        assert_eq!(print_rule(Family::Ipv4, "X", &rule), format!("-A X -m comment --comment {shown}"));
    }

    #[test]
    fn a_chain_is_declared_with_policy_and_counters() {
        let mut rules = RuleSet::new(Family::Ipv4);
        let counters = Counters { packets: 7, bytes: 420 };
        let input = Chain { policy: Some(Policy::Drop), counters, ..Chain::builtin("INPUT") };
        rules.table_mut(TableName::Filter).chains = vec![input, Chain::user("KUBE-FORWARD")];
        assert_eq!(print(&rules), "*filter\n:INPUT DROP [7:420]\n:KUBE-FORWARD - [0:0]\nCOMMIT\n");
    }
}
