//! Describes the conditions of an nftables rule.

use svclab_rules::nftables::{Condition, LookupKey, Rule, Statement};

/// Describes the conditions of a rule, as a fragment: `of a new connection, to 10.96.0.10`. A map lookup is one of them.
pub(super) fn words(rule: &Rule) -> String {
    let lookup = |statement: &Statement| match statement {
        Statement::Lookup(key, map) => Some(format!("with its {} in the map {map}", LookupKey::explain(key))),
        _ => None,
    };
    let asked = rule.conditions.iter().map(Condition::explain);
    let words: Vec<String> = asked.chain(rule.statements.iter().filter_map(lookup)).collect();
    if words.is_empty() { "every packet".to_owned() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use svclab_rules::nftables::parse;

    use super::*;

    #[rstest]
    #[case::nothing("jump services", "every packet")]
    #[case::new("ct state new jump services", "of a new connection")]
    #[case::map(
        "ip daddr . meta l4proto . th dport vmap @service-ips",
        "with its destination, protocol and port in the map service-ips"
    )]
    #[case::set_and_map(
        "ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports",
        "to an address in the set nodeport-ips, with its protocol and port in the map service-nodeports"
    )]
    #[case::service(
        "ip daddr 10.96.0.80 tcp dport 80 ip saddr != 10.244.0.0/16 jump services",
        "to 10.96.0.80, tcp, to port 80, not from 10.244.0.0/16"
    )]
    #[case::unmarked("meta mark & 0x00004000 == 0x00000000 return", "not marked 0x4000")]
    #[case::local("fib daddr type local jump services", "to an address of this machine")]
    #[case::interface("iifname != \"cali*\" drop", "not in by cali*")]
    #[case::states("ct state established,related accept", "in the connection state one of established, related")]
    #[case::ports("tcp dport { 22, 80-90 } accept", "tcp, to port one of 22, 80-90")]
    #[case::port("udp sport != 53 drop", "udp, not from port 53")]
    #[case::interfaces("oifname { \"eth0\", \"cali*\" } drop", "out by one of eth0, cali*")]
    #[case::mark("meta mark & 0xff == 0x1 drop", "marked 0x1 under 0xff")]
    fn conditions_are_explained(#[case] rule: &str, #[case] expected: &str) {
        let text = format!(
            "table ip kube-proxy {{\n\tset nodeport-ips {{\n\t\ttype ipv4_addr\n\t}}\n\n\tmap service-ips {{\n\t\ttype ipv4_addr . \
             inet_proto . inet_service : verdict\n\t}}\n\n\tmap service-nodeports {{\n\t\ttype inet_proto . inet_service : \
             verdict\n\t}}\n\n\tchain services {{\n\t}}\n\n\tchain c {{\n\t\t{rule}\n\t}}\n}}\n"
        );
        let rules = parse(&text).unwrap().rules;
        assert_eq!(words(&rules.tables[0].chain("c").unwrap().rules[0]), expected);
    }
}
