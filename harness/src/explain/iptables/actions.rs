//! Describes what a rule does.

use std::net::IpAddr;

use svclab_rules::iptables::{ChainKind, Nat, PortRange, RejectWith, Rule, Target};

use super::super::phrases;

/// Describes what a rule does with a packet, as a fragment.
pub(super) fn words(rule: &Rule) -> String {
    let Some(target) = &rule.target else { return "only counts it".to_owned() };
    match target {
        Target::Jump(chain) => phrases::jumps(chain, role(chain)),
        Target::Goto(chain) => phrases::goes(chain, role(chain)),
        Target::Accept => "accepts it: the remaining rules of this table at this hook are skipped".to_owned(),
        Target::Drop => phrases::DROPS.to_owned(),
        Target::Return => phrases::RETURNS.to_owned(),
        Target::Reject(RejectWith::TcpReset) => phrases::RESETS.to_owned(),
        Target::Reject(RejectWith::PortUnreachable) => phrases::CLOSES_PORT.to_owned(),
        Target::Reject(_) => phrases::REJECTS.to_owned(),
        Target::Mark(mark) if mark.value == 0 => format!("clears the mark's bits {:#x}", mark.mask),
        Target::Mark(mark) if mark.mask == 0 => phrases::flips_mark(mark.value),
        Target::Mark(mark) => phrases::marks(&mark.explain()),
        Target::Masquerade { .. } => phrases::MASQUERADES.to_owned(),
        Target::Dnat(nat) => phrases::translates_destination(&translated(nat)),
        Target::Snat(nat) => phrases::translates_source(&translated(nat)),
        Target::Redirect { ports, .. } => {
            let ports = ports.map(|ports| format!(", port {}", range(ports))).unwrap_or_default();
            format!("redirects it to this machine{ports}")
        }
        Target::NoTrack { .. } => "excludes it from connection tracking, so that nothing is translated".to_owned(),
        Target::Trace => "traces it".to_owned(),
        Target::Other(other) => format!("`-j {}` (not explained)", other.name),
    }
}

/// Returns the purpose of one of kube-proxy's chains.
fn role(chain: &str) -> Option<&'static str> {
    let roles = [
        ("KUBE-SERVICES", "the addresses of all services"),
        ("KUBE-EXTERNAL-SERVICES", "addresses from outside that have no endpoint"),
        ("KUBE-NODEPORTS", "the node ports of all services"),
        ("KUBE-POSTROUTING", "masquerades what is marked for it"),
        ("KUBE-MARK-MASQ", "marks packets to be masqueraded in POSTROUTING"),
        ("KUBE-MARK-DROP", "marks what is to be dropped"),
        ("KUBE-PROXY-FIREWALL", "load balancers' source ranges"),
        ("KUBE-PROXY-CANARY", "shows kube-proxy whether rules were flushed"),
        ("KUBE-FIREWALL", "drops what is marked for it"),
        ("KUBE-FORWARD", "lets service traffic be forwarded"),
        (ChainKind::Service.prefix(), "chooses an endpoint of the service"),
        (ChainKind::Local.prefix(), "chooses an endpoint of the service on this node"),
        (ChainKind::Endpoint.prefix(), "one endpoint"),
        (ChainKind::External.prefix(), "external traffic of the service"),
        (ChainKind::ExternalLocal.prefix(), "external traffic of the service, for this node's endpoints"),
        (ChainKind::Firewall.prefix(), "source ranges of the service's load balancer"),
    ];
    phrases::role_of(chain, &roles)
}

fn translated(nat: &Nat) -> String {
    let address = nat.addresses.map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("one of {first} to {last}"),
    });
    match (address, nat.ports, nat.addresses) {
        (Some(_), Some(ports), Some((IpAddr::V6(first), last))) if last == first => {
            format!("[{first}]:{}", range(ports))
        }
        (Some(address), Some(ports), _) => format!("{address}:{}", range(ports)),
        (Some(address), None, _) => address,
        (None, Some(ports), _) => format!("port {}", range(ports)),
        (None, None, _) => "nothing else".to_owned(),
    }
}

fn range(ports: PortRange) -> String {
    if ports.first == ports.last { ports.first.to_string() } else { format!("{}-{}", ports.first, ports.last) }
}
