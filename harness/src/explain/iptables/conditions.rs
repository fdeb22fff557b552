//! What a rule asks for, in words.

use svclab_rules::cluster::ProtocolNumber;
use svclab_rules::iptables::{
    AddressType, Masked, Match, Negatable, Network, PortRange, Recent, RecentAction, RouteType, Rule, Side, States,
    Statistic,
};

/// What a rule asks of packets, as a fragment: `to 10.96.0.10, tcp, to port 80`. Chance is left out.
pub(super) fn words(rule: &Rule) -> String {
    let mut words: Vec<String> = Vec::new();
    words.extend(rule.source.as_ref().map(|source| format!("{}from {}", not(source), network(&source.value))));
    words.extend(rule.destination.as_ref().map(|to| format!("{}to {}", not(to), network(&to.value))));
    words.extend(rule.in_interface.as_ref().map(|name| format!("{}in by {}", not(name), name.value)));
    words.extend(rule.out_interface.as_ref().map(|name| format!("{}out by {}", not(name), name.value)));
    words.extend(rule.protocol.as_ref().map(|protocol| format!("{}{}", not(protocol), protocol_name(protocol.value))));
    words.extend(rule.matches.iter().filter_map(one_match));
    if words.is_empty() { "every packet".to_owned() } else { words.join(", ") }
}

/// The probability of a rule that asks chance, as it is written.
pub(super) fn probability(rule: &Rule) -> Option<f64> {
    rule.matches.iter().find_map(|one| match one {
        Match::Statistic(Statistic::Random(probability)) if probability.negated => {
            Some(1.0 - probability.value.share())
        }
        Match::Statistic(Statistic::Random(probability)) => Some(probability.value.share()),
        Match::Statistic(Statistic::Nth { every, .. }) => Some(1.0 / f64::from(every.value.max(1))),
        _ => None,
    })
}

fn not<T>(condition: &Negatable<T>) -> &'static str {
    if condition.negated { "not " } else { "" }
}

fn network(network: &Network) -> String {
    match network {
        Network::Prefix(range) if range.prefix_len() == range.max_prefix_len() => range.addr().to_string(),
        Network::Prefix(range) => range.to_string(),
        Network::Masked(masked) => format!("{}/{}", masked.0, masked.1),
    }
}

fn protocol_name(protocol: ProtocolNumber) -> String {
    protocol.name().map_or_else(|| format!("protocol {}", protocol.0), str::to_owned)
}

fn one_match(one: &Match) -> Option<String> {
    Some(match one {
        Match::Comment(_) | Match::Nfacct(_) | Match::Statistic(_) => return None,
        Match::Ports(ports) => {
            let source = ports.source.map(|port| format!("{}from port {}", not(&port), range(port.value)));
            let destination = ports.destination.map(|port| format!("{}to port {}", not(&port), range(port.value)));
            let flags = ports.flags.map(|flags| format!("{}with certain TCP flags", not(&flags)));
            let words: Vec<String> = [source, destination, flags].into_iter().flatten().collect();
            if words.is_empty() {
                return None;
            }
            words.join(", ")
        }
        Match::Mark(mark) => format!("{}marked {}", not(mark), masked(mark.value)),
        Match::Connmark(mark) => format!("its connection {}marked {}", not(mark), masked(mark.value)),
        Match::State { states: of, .. } => format!("{}in state {}", not(of), states(of.value)),
        Match::AddressType(types) => address_types(types),
        Match::Recent(recent) => recent_words(recent),
        Match::Physdev(_) => "at certain ports of a bridge".to_owned(),
        Match::Multiport(ports) => {
            let list: Vec<String> = ports.ports.value.iter().map(|port| range(*port)).collect();
            let side = match ports.side {
                Side::Source => "from",
                Side::Destination => "to",
                Side::Either => "from or to",
            };
            format!("{}{side} one of the ports {}", not(&ports.ports), list.join(", "))
        }
        Match::Set(set) => format!("{}in the ipset {}", not(set), set.value.name),
        Match::Other(other) => format!("what `-m {}` asks, which svclab does not know", other.name),
    })
}

fn range(ports: PortRange) -> String {
    if ports.first == ports.last { ports.first.to_string() } else { format!("{} to {}", ports.first, ports.last) }
}

/// A mark: `0x4000`, or with its mask where that says more.
pub(super) fn masked(mark: Masked) -> String {
    let Masked { value, mask } = mark;
    if mask == value || mask == u32::MAX { format!("{value:#x}") } else { format!("{value:#x} in the bits {mask:#x}") }
}

fn states(states: States) -> String {
    let names = States::NAMES.into_iter().filter(|(_, one)| states.intersects(*one)).map(|(name, _)| name);
    names.collect::<Vec<_>>().join(" or ")
}

fn address_types(types: &AddressType) -> String {
    let name = |of: RouteType| match of {
        RouteType::Local => "an address of this machine".to_owned(),
        other => {
            let known = RouteType::NAMES.into_iter().find(|(_, one)| *one == other).map_or("?", |(name, _)| name);
            format!("an address of type {known}")
        }
    };
    let source = types.source.map(|one| format!("{}from {}", not(&one), name(one.value)));
    let destination = types.destination.map(|one| format!("{}to {}", not(&one), name(one.value)));
    [source, destination].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn recent_words(recent: &Recent) -> String {
    let list = &recent.name;
    let within = recent.seconds.map(|seconds| format!(" in the last {seconds} s")).unwrap_or_default();
    match (recent.action.value, recent.action.negated) {
        (RecentAction::Set, _) => format!("noting its address in the list {list}"),
        (_, false) => format!("from an address that the list {list} has noted{within}"),
        (_, true) => format!("from an address that the list {list} has not noted{within}"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use svclab_rules::cluster::Family;
    use svclab_rules::iptables::{TableName, parse};

    use super::*;

    #[rstest]
    #[case::nothing("-j ACCEPT", "every packet")]
    #[case::service(
        "-d 10.96.0.10/32 -p tcp -m comment --comment \"a b\" -m tcp --dport 80 -j ACCEPT",
        "to 10.96.0.10, tcp, to port 80"
    )]
    #[case::off_cluster(
        "! -s 10.244.0.0/16 -p udp -m udp --sport 53:99 -j ACCEPT",
        "not from 10.244.0.0/16, udp, from port 53 to 99"
    )]
    #[case::mark("-m mark ! --mark 0x4000/0x4000 -j RETURN", "not marked 0x4000")]
    #[case::part_of_a_mark("-m mark --mark 0x1/0x3 -j RETURN", "marked 0x1 in the bits 0x3")]
    #[case::state("-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", "in state RELATED or ESTABLISHED")]
    #[case::local("-m addrtype --dst-type LOCAL -j ACCEPT", "to an address of this machine")]
    #[case::interface("! -i lo -o eth+ -j ACCEPT", "not in by lo, out by eth+")]
    #[case::chance("-m statistic --mode random --probability 0.5 -j ACCEPT", "every packet")]
    #[case::ports("-p tcp -m multiport --dports 80,443:445 -j ACCEPT", "tcp, to one of the ports 80, 443 to 445")]
    #[case::recent(
        "-m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-A --mask 255.255.255.255 --rsource -j ACCEPT",
        "from an address that the list KUBE-SEP-A has noted in the last 10800 s"
    )]
    #[case::unknown("-m ttl --ttl-lt 5 -j DROP", "what `-m ttl` asks, which svclab does not know")]
    fn conditions_are_told_in_words(#[case] rule: &str, #[case] expected: &str) {
        let text = format!("*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD {rule}\nCOMMIT\n");
        let rules = parse(&text, Family::Ipv4).unwrap().rules;
        assert_eq!(words(&rules.rules(TableName::Filter, "FORWARD")[0]), expected);
    }
}
