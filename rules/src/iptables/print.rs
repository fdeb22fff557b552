//! Rule sets as text, in the form of `iptables-save` (1.8.9).

use std::fmt::Write;
use std::net::IpAddr;

use super::ast::{Chain, Counters, Policy, Rule, RuleSet};
use super::values::{Negatable, Network};
use crate::cluster::{Family, ProtocolNumber};
use crate::digits;

mod matches;
mod target;

/// A rule set as `iptables-save` shows it and `iptables-restore` loads it: no comment lines, rules chain by chain.
pub fn print(rules: &RuleSet) -> String {
    let count: usize = rules.tables.iter().flat_map(|table| &table.chains).map(|chain| chain.rules.len() + 1).sum();
    let mut out = Printer { text: String::with_capacity(count * 144), family: rules.family };
    for table in &rules.tables {
        out.push("*");
        out.line(table.name.as_str());
        table.chains.iter().for_each(|chain| out.declaration(chain));
        for chain in &table.chains {
            chain.rules.iter().for_each(|rule| out.rule(&chain.name, rule));
        }
        out.line("COMMIT");
    }
    out.text
}

/// One rule of a chain, as a line without its end.
pub fn print_rule(family: Family, chain: &str, rule: &Rule) -> String {
    let mut out = Printer { text: String::new(), family };
    out.rule(chain, rule);
    out.text.pop();
    out.text
}

struct Printer {
    text: String,
    family: Family,
}

impl Printer {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn line(&mut self, text: &str) {
        self.push(text);
        self.text.push('\n');
    }

    fn declaration(&mut self, chain: &Chain) {
        self.push(":");
        self.push(&chain.name);
        self.push(match chain.policy {
            Some(Policy::Accept) => " ACCEPT ",
            Some(Policy::Drop) => " DROP ",
            None => " - ",
        });
        self.counters(chain.counters);
        self.text.push('\n');
    }

    fn counters(&mut self, Counters { packets, bytes }: Counters) {
        self.push("[");
        self.number(packets);
        self.push(":");
        self.number(bytes);
        self.push("]");
    }

    fn rule(&mut self, chain: &str, rule: &Rule) {
        if let Some(counters) = rule.counters {
            self.counters(counters);
            self.push(" ");
        }
        self.push("-A ");
        self.push(chain);
        self.network(" -s ", rule.source.as_ref());
        self.network(" -d ", rule.destination.as_ref());
        self.word(" -i ", rule.in_interface.as_ref());
        self.word(" -o ", rule.out_interface.as_ref());
        if let Some(protocol) = &rule.protocol {
            self.option(" -p ", protocol.negated);
            self.protocol(protocol.value);
        }
        if let Some(fragment) = &rule.fragment {
            self.option(" -f", fragment.negated);
        }
        for condition in &rule.matches {
            self.condition(condition);
        }
        if let Some(target) = &rule.target {
            self.target(target);
        }
        self.text.push('\n');
    }

    /// An option's name with its leading blank, behind a `!` where it is negated.
    fn option(&mut self, name: &str, negated: bool) {
        if negated {
            self.push(" !");
        }
        self.push(name);
    }

    fn network(&mut self, name: &str, network: Option<&Negatable<Network>>) {
        let Some(network) = network else { return };
        self.option(name, network.negated);
        match &network.value {
            Network::Prefix(range) => {
                self.address(range.addr());
                self.push("/");
                self.number(u64::from(range.prefix_len()));
            }
            Network::Masked(parts) => {
                self.address(parts.0);
                self.push("/");
                self.address(parts.1);
            }
        }
    }

    fn word(&mut self, name: &str, word: Option<&Negatable<Box<str>>>) {
        if let Some(word) = word {
            self.option(name, word.negated);
            self.push(&word.value);
        }
    }

    fn protocol(&mut self, protocol: ProtocolNumber) {
        match protocol.name() {
            Some(name) => self.push(name),
            None => self.number(u64::from(protocol.0)),
        }
    }

    fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.push(&digits::ipv4(address)),
            IpAddr::V6(address) => self.display(address),
        }
    }

    fn number(&mut self, number: u64) {
        self.push(&digits::decimal(number));
    }

    fn hex(&mut self, number: u32) {
        self.display(format_args!("{number:#x}"));
    }

    fn display(&mut self, value: impl std::fmt::Display) {
        // Writing to a buffer in memory cannot fail.
        let _ = write!(self.text, "{value}");
    }

    /// Text as `xtables_save_string` shows it: bare where it is a word, else in quotes.
    fn quoted(&mut self, text: &str) {
        let bare = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
        if !text.is_empty() && text.bytes().all(bare) {
            return self.push(text);
        }
        self.push("\"");
        if text.contains(['"', '\\', '\'']) {
            for character in text.chars() {
                if matches!(character, '"' | '\\' | '\'') {
                    self.text.push('\\');
                }
                self.text.push(character);
            }
        } else {
            self.push(text);
        }
        self.push("\"");
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
