//! What a rule of iptables says by itself.

use std::net::SocketAddr;

use super::naming::Naming;
use crate::cluster::Protocol;
use crate::iptables::{Nat, Rule, Target};

/// The chains of every release.
pub(super) const CHAINS: Naming = Naming { groups: &["KUBE-SVC-", "KUBE-SVL-", "KUBE-XLB-"], endpoint: "KUBE-SEP-" };

/// The protocol that a rule asks for.
pub(super) fn asked(rule: &Rule) -> Option<Protocol> {
    rule.protocol.filter(|protocol| !protocol.negated).and_then(|protocol| protocol.value.transport())
}

/// Where a rule translates to.
pub(super) fn destination(rule: &Rule) -> Option<SocketAddr> {
    match &rule.target {
        Some(Target::Dnat(Nat { addresses: Some((address, _)), ports: Some(ports), .. })) => {
            Some(SocketAddr::new(*address, ports.first))
        }
        _ => None,
    }
}
