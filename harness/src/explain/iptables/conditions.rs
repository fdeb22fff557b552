//! Describes the conditions of a rule.

use svclab_rules::cluster::ProtocolNumber;
use svclab_rules::iptables::{Match, Network, Rule};

/// Describes the conditions of a rule, as a fragment: `to 10.96.0.10, tcp, to port 80`. A random match is omitted.
pub(super) fn words(rule: &Rule) -> String {
    let mut words: Vec<String> = Vec::new();
    words.extend(rule.source.as_ref().map(|source| format!("{}from {}", source.negation(), network(&source.value))));
    words.extend(rule.destination.as_ref().map(|to| format!("{}to {}", to.negation(), network(&to.value))));
    words.extend(rule.in_interface.as_ref().map(|name| format!("{}in by {}", name.negation(), name.value)));
    words.extend(rule.out_interface.as_ref().map(|name| format!("{}out by {}", name.negation(), name.value)));
    words.extend(
        rule.protocol.as_ref().map(|protocol| format!("{}{}", protocol.negation(), protocol_name(protocol.value))),
    );
    words.extend(rule.matches.iter().filter_map(Match::explain));
    if words.is_empty() { "every packet".to_owned() } else { words.join(", ") }
}

/// Returns the probability of a rule that matches at random.
pub(super) fn probability(rule: &Rule) -> Option<f64> {
    rule.matches.iter().find_map(|one| match one {
        Match::Statistic(statistic) => Some(statistic.share()),
        _ => None,
    })
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
        "from an address that is in the recent list KUBE-SEP-A (last 10800 s)"
    )]
    #[case::unknown("-m ttl --ttl-lt 5 -j DROP", "matches `-m ttl` (not modelled)")]
    fn conditions_are_explained(#[case] rule: &str, #[case] expected: &str) {
        let text = format!("*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD {rule}\nCOMMIT\n");
        let rules = parse(&text, Family::Ipv4).unwrap().rules;
        assert_eq!(words(&rules.rules(TableName::Filter, "FORWARD")[0]), expected);
    }
}
