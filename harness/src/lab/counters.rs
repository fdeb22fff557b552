//! The packet counters of rules.

use svclab_rules::cluster::Family;
use svclab_rules::iptables::{self, PortRange, Target};

use super::namespaces::Namespace;
use super::{Backend, Lab, LabError, programs};
use crate::observation::{Destinations, Translations};
use crate::topology::Role;

impl Backend {
    /// The program that lists the installed rules of one family.
    pub(crate) fn saver(self, family: Family) -> &'static str {
        match (family, self) {
            (Family::Ipv4, Self::System) => "iptables-save",
            (Family::Ipv6, Self::System) => "ip6tables-save",
            (Family::Ipv4, Self::Nft) => "iptables-nft-save",
            (Family::Ipv6, Self::Nft) => "ip6tables-nft-save",
            (Family::Ipv4, Self::Legacy) => "iptables-legacy-save",
            (Family::Ipv6, Self::Legacy) => "ip6tables-legacy-save",
        }
    }
}

impl Lab {
    /// Returns the number of connections that the rules of all nodes, and of pods with rules of their own, have translated since they were
    /// installed, by destination.
    ///
    /// This cross-checks what receivers got: see `Prober::cross_checked`.
    ///
    /// kube-proxy's nftables rules have no counters, so they contribute no destinations.
    ///
    /// # Errors
    ///
    /// If the program that lists rules is missing or fails, or its output cannot be parsed.
    pub(crate) fn translations(&self, family: Family) -> Result<Translations, LabError> {
        let mut all = Translations::default();
        let namespaces = self.namespaces.iter().zip(&self.topology.namespaces);
        for (namespace, _) in namespaces.filter(|(_, netns)| matches!(netns.role, Role::Node | Role::RoutingPod)) {
            add(namespace, self.backend.saver(family), family, &mut all)?;
        }
        Ok(all)
    }
}

/// Adds the counts of one namespace's rules.
fn add(namespace: &Namespace, program: &str, family: Family, all: &mut Translations) -> Result<(), LabError> {
    let parsed = iptables::parse(&programs::listing(namespace, program, &["-c", "-t", "nat"])?, family);
    let parsed = parsed.map_err(|errors| match errors.first() {
        Some(error) => programs::failed(namespace, program, error),
        None => programs::failed(namespace, program, &"unreadable"),
    })?;
    for rule in parsed.rules.tables.iter().flat_map(|table| &table.chains).flat_map(|chain| &chain.rules) {
        if let (Some(to), Some(counters)) = (rule.target.as_ref().and_then(destinations), rule.counters) {
            all.add(namespace.name(), to, counters.packets);
        }
    }
    Ok(())
}

/// The destinations that a target translates to; `None` if it does not translate them.
fn destinations(target: &Target) -> Option<Destinations> {
    /// Targets that translate destinations but have options that are not modelled here.
    const TRANSLATING: [&str; 3] = ["DNAT", "REDIRECT", "NETMAP"];
    let range = |ports: PortRange| (ports.first, ports.last);
    match target {
        Target::Dnat(nat) => Some(Destinations { addresses: nat.addresses, ports: nat.ports.map(range) }),
        Target::Redirect { ports, .. } => Some(Destinations { addresses: None, ports: ports.map(range) }),
        Target::Other(other) if TRANSLATING.contains(&&*other.name) => {
            Some(Destinations { addresses: None, ports: None })
        }
        _ => None,
    }
}
