//! The chain of a rule, inferred from its content.

use std::net::SocketAddr;

use super::super::super::ast::Rule;
use super::super::super::chain_name::{ChainHash, ChainKind};
use super::super::super::matches::{Match, Ports};
use super::super::super::targets::{Nat, Target};
use crate::cluster::{Protocol, ProtocolNumber};

/// Returns the chain of a rule, if kube-proxy writes such a rule only into that chain.
pub(super) fn of(rule: &Rule) -> Option<String> {
    let comment = rule.comment().unwrap_or_default();
    let is_of_list = ["cluster IP", "loadbalancer IP", "external IP"].iter().any(|end| comment.ends_with(end));
    let name = comment.split(' ').find(|word| word.contains('/'));
    if comment.starts_with("kubernetes service nodeports") {
        return Some("KUBE-SERVICES".to_owned());
    }
    if comment == "kubernetes firewall for dropping marked packets" && rule.target == Some(Target::Drop) {
        return Some("KUBE-FIREWALL".to_owned());
    }
    if matches!(rule.target, Some(Target::Reject(_))) && comment.ends_with(" has no endpoints") {
        let chain = if rule.destination.is_some() { "KUBE-SERVICES" } else { "KUBE-EXTERNAL-SERVICES" };
        return Some(chain.to_owned());
    }
    // The policy for outside traffic is Local far more often than that for traffic from within, whose rules are in `KUBE-SERVICES`.
    if rule.target == Some(Target::Drop) && comment.ends_with(" has no local endpoints") {
        return Some("KUBE-EXTERNAL-SERVICES".to_owned());
    }
    // kube-proxy in userspace mode translates from the address of a Service, to itself.
    if let Some(Target::Dnat(Nat { addresses: Some((address, _)), ports: Some(ports), .. })) = &rule.target {
        if rule.destination.is_some() {
            return None;
        }
        let to = SocketAddr::new(*address, ports.first).to_string();
        let hash = ChainHash::for_endpoint(name?, protocol(rule)?, &to);
        return Some(format!("{}{hash}", ChainKind::Endpoint.prefix()));
    }
    let next = rule.next_chain()?;
    // Up to 1.23, packets are marked where they are led to a Service.
    if **next == *"KUBE-MARK-MASQ" && rule.source.is_none() {
        let is_of_address = rule.destination.is_some() && is_of_list && !comment.ends_with("cluster IP");
        let is_of_node_port = rule.destination.is_none() && has_port(rule) && Some(comment) == name;
        return match (is_of_address, is_of_node_port) {
            (true, _) => Some("KUBE-SERVICES".to_owned()),
            (_, true) => Some("KUBE-NODEPORTS".to_owned()),
            _ => None,
        };
    }
    let leads_to_service = ChainKind::of(next).is_some_and(|(kind, _)| kind != ChainKind::Endpoint);
    match (leads_to_service, rule.destination.is_some()) {
        (true, true) if is_of_list => Some("KUBE-SERVICES".to_owned()),
        (true, false) if rule.source.is_none() && protocol(rule).is_some() && name.is_some() => {
            Some("KUBE-NODEPORTS".to_owned())
        }
        _ => None,
    }
}

/// Returns the chain of a rule that marks packets, by the next rule of the text: kube-proxy writes both for the same address and port.
pub(super) fn of_mark(rule: &Rule, next: &Rule) -> Option<String> {
    let marks = rule.next_chain().is_some_and(|next| **next == *"KUBE-MARK-MASQ");
    let is_same = || rule.destination.is_some() && rule.destination == next.destination && ports(rule) == ports(next);
    of(next).filter(|_| marks && has_port(rule) && is_same())
}

fn has_port(rule: &Rule) -> bool {
    ports(rule).is_some()
}

/// Returns the match of destination ports.
fn ports(rule: &Rule) -> Option<&Ports> {
    rule.matches.iter().find_map(|one| match one {
        Match::Ports(ports) if ports.destination.is_some() => Some(ports),
        _ => None,
    })
}

fn protocol(rule: &Rule) -> Option<Protocol> {
    let asked = rule.protocol.filter(|protocol| !protocol.negated).map(|protocol| protocol.value);
    asked.and_then(ProtocolNumber::transport)
}
