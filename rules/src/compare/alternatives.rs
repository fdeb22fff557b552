//! Lines that a node may have instead of a rule that kube-proxy writes for what an excerpt shows.
//!
//! An excerpt does not always show the policy of a service, what kind of address one is, or whether there are endpoints. A filter that would
//! hide one of these lines may have hidden it, so the rule is not missing.

use crate::cluster::objects::NODE_PORTS;
use crate::iptables::{ChainKind, Rule};

/// Chains through which external traffic goes on to the chain of a service.
const EXTERNAL: [ChainKind; 5] =
    [ChainKind::Service, ChainKind::Local, ChainKind::ExternalLocal, ChainKind::External, ChainKind::Firewall];

/// Comments of the same rule for another kind of address.
const ADDRESSES: [&str; 2] = [" external IP\"", " loadbalancer IP\""];

/// Returns the other lines for a rule of a chain, given its line.
pub(super) fn lines(chain: &str, rule: &Rule, line: &str) -> Vec<String> {
    let mut all = Vec::new();
    for [one, other] in [ADDRESSES, [ADDRESSES[1], ADDRESSES[0]]] {
        if line.contains(one) {
            all.push(line.replace(one, other));
        }
    }
    let comment = rule.comment().unwrap_or_default();
    let Some(next) = rule.next_chain() else { return all };
    let kind = ChainKind::of(chain).map(|(kind, _)| kind);
    let is_of_external = match kind {
        None => !comment.ends_with(" cluster IP"),
        Some(kind) => matches!(kind, ChainKind::Firewall | ChainKind::External),
    };
    match ChainKind::of(next) {
        // With another traffic policy, or in another release, the same address leads to another chain.
        Some((own, hash)) if is_of_external && EXTERNAL.contains(&own) => {
            let others = EXTERNAL.into_iter().filter(|kind| *kind != own);
            all.extend(others.map(|kind| line.replace(&format!("-j {next}"), &format!("-j {}{hash}", kind.prefix()))));
        }
        // Up to 1.23, connections to node ports with policy Local are not marked.
        None if **next == *"KUBE-MARK-MASQ" && (chain == "KUBE-NODEPORTS" || kind == Some(ChainKind::Firewall)) => {
            all.push(line.replace("-j KUBE-MARK-MASQ", &format!("-j {}", ChainKind::ExternalLocal.prefix())));
        }
        // Without an endpoint on the node there is one rule that drops.
        Some((ChainKind::Endpoint, _)) if matches!(kind, Some(ChainKind::Local | ChainKind::ExternalLocal)) => {
            let service = comment.rsplit(" for ").next().and_then(|rest| rest.split(' ').next()).unwrap_or_default();
            all.push(format!("-A {chain} -m comment --comment \"{service} has no local endpoints\" -j KUBE-MARK-DROP"));
        }
        _ => {}
    }
    all
}

/// Returns the line of a rule without the endpoint in its comment: up to 1.23, comments do not name it.
pub(super) fn without_endpoint(line: &str) -> Option<String> {
    let (before, rest) = line.split_once(" -> ")?;
    Some(format!("{before}{}", &rest[rest.find('"')?..]))
}

/// Returns how the lines start that there are instead of a rule if the service has endpoints.
pub(super) fn starts(rule: &Rule) -> Option<String> {
    let (service, _) = rule.comment()?.split_once(" has no ")?;
    let is_rejection = rule.next_chain().is_none();
    is_rejection.then(|| format!("-A {}X -m comment --comment \"{service}", ChainKind::Service.prefix()))
}

/// Returns the line of a rule for each node port that it may be about.
pub(super) fn of_node_ports(line: &str) -> impl Iterator<Item = String> + '_ {
    let parts = line
        .split_once("--dport ")
        .map(|(before, rest)| (before, rest.trim_start_matches(|letter: char| letter.is_ascii_digit())));
    parts.into_iter().flat_map(|(before, rest)| NODE_PORTS.map(move |port| format!("{before}--dport {port}{rest}")))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::cluster::Family;
    use crate::iptables::parse_rule;

    #[rstest]
    #[case::load_balancer(
        "KUBE-SERVICES",
        "-d 192.0.2.5/32 -p tcp -m comment --comment \"a/b:c external IP\" -m tcp --dport 80 -j KUBE-EXT-AAAAAAAAAAAAAAAA",
        "--comment \"a/b:c loadbalancer IP\""
    )]
    #[case::policy(
        "KUBE-NODEPORTS",
        "-p tcp -m comment --comment \"a/b:c\" -m tcp --dport 30080 -j KUBE-SVC-AAAAAAAAAAAAAAAA",
        "-j KUBE-XLB-AAAAAAAAAAAAAAAA"
    )]
    #[case::mark(
        "KUBE-NODEPORTS",
        "-p tcp -m comment --comment \"a/b:c\" -m tcp --dport 30080 -j KUBE-MARK-MASQ",
        "-j KUBE-XLB-"
    )]
    #[case::no_local_endpoint(
        "KUBE-XLB-AAAAAAAAAAAAAAAA",
        "-m comment --comment \"Balancing rule 0 for a/b:c\" -j KUBE-SEP-BBBBBBBBBBBBBBBB",
        "\"a/b:c has no local endpoints\""
    )]
    fn what_the_text_may_hide_has_other_lines(#[case] chain: &str, #[case] text: &str, #[case] expected: &str) {
        let rule = parse_rule(text, Family::Ipv4).expect("a rule");
        let all = lines(chain, &rule, &format!("-A {chain} {text}"));
        assert!(all.iter().any(|line| line.contains(expected)), "{all:?}");
    }

    #[test]
    fn the_rule_of_a_cluster_ip_is_the_same_with_every_policy_outside() {
        let text = "-d 10.0.0.1/32 -p tcp -m comment --comment \"a/b:c cluster IP\" -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA";
        let rule = parse_rule(text, Family::Ipv4).expect("a rule");
        assert_eq!(lines("KUBE-SERVICES", &rule, text), Vec::<String>::new());
    }

    #[test]
    fn a_node_port_may_be_any() {
        let all: Vec<String> = of_node_ports("-A X --dport 30000 -j Y").collect();
        assert_eq!((all.len(), all[80].as_str()), (2_768, "-A X --dport 30080 -j Y"));
    }
}
