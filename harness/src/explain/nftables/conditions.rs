//! The conditions of a rule of nftables, in words.

use std::ops::RangeInclusive;

use svclab_rules::cluster::{Family, Protocol};
use svclab_rules::nftables::{AddressRange, Addresses, Condition, ConnectionState, LookupKey, Rule, Side, Statement};

/// The conditions of a rule, as a fragment: `of a new connection, to 10.96.0.10`. A map lookup is one of them.
pub(super) fn words(rule: &Rule) -> String {
    let lookup = |statement: &Statement| match statement {
        Statement::Lookup(key, map) => Some(format!("with its {} in the map {map}", key_words(key))),
        _ => None,
    };
    let asked = rule.conditions.iter().map(one_condition);
    let words: Vec<String> = asked.chain(rule.statements.iter().filter_map(lookup)).collect();
    if words.is_empty() { "every packet".to_owned() } else { words.join(", ") }
}

fn one_condition(condition: &Condition) -> String {
    match condition {
        Condition::State { negated: false, states } if states.as_slice() == [ConnectionState::New] => {
            "of a new connection".to_owned()
        }
        Condition::State { negated, states } => {
            format!("{}in the connection state {}", not(*negated), one_of(states, |state| state.as_str().to_owned()))
        }
        Condition::Translated => "of a connection whose destination was translated".to_owned(),
        Condition::Address { side, negated, value } => format!("{}{} {}", not(*negated), word(*side), addresses(value)),
        Condition::Ports { protocol, side, negated, ports } => {
            let range = |range: &RangeInclusive<u16>| match (range.start(), range.end()) {
                (first, last) if first == last => first.to_string(),
                (first, last) => format!("{first}-{last}"),
            };
            let protocol = protocol.map(|protocol| format!("{protocol}, ")).unwrap_or_default();
            format!("{protocol}{}{} port {}", not(*negated), word(*side), one_of(ports, range))
        }
        Condition::Protocols { negated, numbers } => {
            let name = |number: &u8| {
                Protocol::of_number(*number).map_or_else(|| format!("protocol {number}"), |one| one.to_string())
            };
            format!("{}{}", not(*negated), one_of(numbers, name))
        }
        Condition::Family(Family::Ipv4) => "IPv4".to_owned(),
        Condition::Family(Family::Ipv6) => "IPv6".to_owned(),
        Condition::Interfaces { output, negated, names, .. } => {
            let way = if *output { "out" } else { "in" };
            format!("{}{way} by {}", not(*negated), one_of(names, ToString::to_string))
        }
        Condition::Local(side) => format!("{} an address of this machine", word(*side)),
        Condition::Mark { negated, mask: u32::MAX, value } => format!("{}marked {value:#x}", not(*negated)),
        Condition::Mark { negated, mask, value: 0 } => format!("{}marked {mask:#x}", not(!*negated)),
        Condition::Mark { negated, mask, value } => format!("{}marked {value:#x} under {mask:#x}", not(*negated)),
        Condition::InSet(key, set) => format!("with its {} in the set {set}", key_words(key)),
        Condition::Other(text) => format!("what `{text}` asks, which svclab does not know"),
    }
}

/// `a`, or `one of a, b`.
fn one_of<T>(items: &[T], word: impl Fn(&T) -> String) -> String {
    let words: Vec<String> = items.iter().map(word).collect();
    if words.len() == 1 { words.concat() } else { format!("one of {}", words.join(", ")) }
}

fn not(negated: bool) -> &'static str {
    if negated { "not " } else { "" }
}

fn word(side: Side) -> &'static str {
    match side {
        Side::Source => "from",
        Side::Destination => "to",
    }
}

fn addresses(value: &Addresses) -> String {
    match value {
        Addresses::One(address) => address.to_string(),
        Addresses::Prefix(prefix) => AddressRange::from(*prefix).to_string(),
        Addresses::Ranges(ranges) => one_of(ranges, ToString::to_string),
        Addresses::Set(set) => format!("an address in the set {set}"),
    }
}

/// The parts of a key: `destination, protocol and port`.
fn key_words(key: &[LookupKey]) -> String {
    let part = |part: &LookupKey| match part {
        LookupKey::Address(Side::Source) => "source",
        LookupKey::Address(Side::Destination) => "destination",
        LookupKey::Protocol => "protocol",
        LookupKey::DestinationPort => "port",
    };
    let parts: Vec<&str> = key.iter().map(part).collect();
    match parts.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
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
