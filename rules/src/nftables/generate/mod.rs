//! Generation of kube-proxy's table for a node and a family, as its `syncProxyRules` writes it (`pkg/proxy/nftables/proxier.go`).
//!
//! Everything independent of services is in [`frame`], with the detection of `local` traffic. For a service port, `plan` decides where its
//! traffic goes; it adds `elements` to sets and maps ([`addresses`]), which lead to the service port's chains ([`chains`]), built with
//! `rule`.

mod addresses;
mod chains;
mod elements;
mod frame;
mod local;
mod plan;
mod rule;

use self::elements::Elements;
use self::plan::Plan;
use super::ast::{Chain, Rule, Ruleset, Set};
use super::{MarkChange, Statement};
use crate::cluster::{Cluster, Family, Node, ProxyConfig, ProxyMode};
use crate::profile::{Profile, UnknownVersion};
use crate::selection::{LocalTraffic, NodePortAddresses, ServicePortView, service_ports};

/// The reason why there are no nftables rules for a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// The release is unknown.
    #[error(transparent)]
    Version(#[from] UnknownVersion),
    /// The release has no nftables mode, or one that is not modelled.
    #[error("kube-proxy {0}: nftables mode is modelled from 1.30 on")]
    Release(Profile),
    /// A service's name makes the comment of an element too long, and the kernel rejects the whole table.
    #[error("kube-proxy {release} fails to sync: the comment `{comment}` is longer than the kernel's 128 bytes")]
    Comment {
        /// The release.
        release: Profile,
        /// The comment, a service port's name.
        comment: String,
    },
    /// `detectLocal.interfaceNamePrefix` needs `iifname`, but the release writes `iif`, and nft rejects the whole table.
    #[error("kube-proxy {release} fails to sync: it writes `iif {prefix}*`, but `iif` does not accept a name prefix")]
    InterfacePrefix {
        /// The release.
        release: Profile,
        /// The prefix of interface names.
        prefix: String,
    },
    /// Two service ports have the same address, protocol and port. Which of them gets the traffic is random, or the whole
    /// table is rejected.
    #[error("service ports {first} and {second} are both reached at {at}")]
    Collision {
        /// The element's key.
        at: String,
        /// The chain that one leads to.
        first: String,
        /// The chain that the other leads to.
        second: String,
    },
}

/// Generates the rules of one family that a node's kube-proxy writes in nftables mode: one table.
///
/// The same objects give the same rules, in whatever order they are listed. The elements of sets are sorted.
///
/// # Errors
///
/// If the release is unknown or its nftables mode is not modelled, or if a real kube-proxy would fail to write its table.
pub fn generate(cluster: &Cluster, node: &Node, family: Family) -> Result<Ruleset, Unsupported> {
    let profile: Profile = cluster.release_on(node).parse()?;
    if !profile.nftables() {
        return Err(Unsupported::Release(profile));
    }
    let mut generator = Generator::new(cluster, node, family, profile);
    for view in &service_ports(cluster, node, family, profile) {
        generator.service_port(view)?;
    }
    Ok(Ruleset { tables: vec![generator.table()?] })
}

/// The input of generation, and the rules generated so far.
struct Generator<'a> {
    cluster: &'a Cluster,
    config: &'a ProxyConfig,
    node: &'a Node,
    family: Family,
    profile: Profile,
    local: LocalTraffic,
    node_ports: NodePortAddresses,
    elements: Elements,
    affinity_sets: Vec<Set>,
    chains: Vec<Chain>,
}

impl<'a> Generator<'a> {
    fn new(cluster: &'a Cluster, node: &'a Node, family: Family, profile: Profile) -> Self {
        let config = &cluster.proxy;
        Self {
            cluster,
            config,
            node,
            family,
            profile,
            local: LocalTraffic::of(config, node, family),
            node_ports: NodePortAddresses::of(config, node, family, ProxyMode::Nftables, profile),
            elements: Elements::default(),
            affinity_sets: Vec::new(),
            chains: Vec::new(),
        }
    }

    /// Adds everything for a service port.
    fn service_port(&mut self, view: &ServicePortView<'_>) -> Result<(), Unsupported> {
        let selected = view.select(self.cluster, self.node, self.profile);
        let plan = Plan::new(view, selected, self.profile);
        self.hairpins(&plan);
        self.addresses(&plan)?;
        self.service_chains(&plan)
    }

    /// Makes a rule mark packets for masquerading.
    fn mark(&self, rule: Rule) -> Rule {
        if self.profile.nftables_marks_inline() {
            rule.then(Statement::Mark(MarkChange::Set(self.masquerade_mark())))
        } else {
            rule.jump("mark-for-masquerade")
        }
    }

    /// Returns the masquerade mark, one bit.
    fn masquerade_mark(&self) -> u32 {
        1_u32.checked_shl(u32::from(self.config.masquerade_bit)).unwrap_or_default()
    }
}
