//! Generation of kube-proxy's rules for a node, as its `syncProxyRules` writes them (`pkg/proxy/iptables/proxier.go`).
//!
//! The chains that exist independently of services are in [`frame`], with the detection of `local` traffic; the rules of a service port are
//! in [`external`] (from 1.24) or [`before_1_24`] (up to 1.23), which share [`balancing`]. All build rules with `rule`. The kubelet's
//! chains of the same release are included, since every node runs a kubelet.

mod balancing;
mod before_1_24;
mod external;
mod frame;
mod local;
mod rule;

use std::sync::Arc;

use self::balancing::{EndpointChain, one_in};
use self::local::LocalDetector;
use super::ast::{Chain, Rule, RuleSet};
use super::chain_name::{ChainHash, ChainKind};
use super::matches::Probability;
use super::values::ChainName;
use crate::cluster::{Cluster, Family, Node, ProxyConfig, ProxyMode};
use crate::profile::{Profile, UnknownVersion};
use crate::selection::{NodePortAddresses, Selected, ServicePortView, service_ports};

/// Generates the rules of one family that a node's kube-proxy writes, and the kubelet's of the same release.
///
/// The same objects give the same rules, in whatever order they are listed. The chains of a table are sorted as
/// `iptables-save` sorts them: built-in chains by hook, then the others by name.
///
/// # Errors
///
/// If the node's release is unknown.
pub fn generate(cluster: &Cluster, node: &Node, family: Family) -> Result<RuleSet, UnknownVersion> {
    let profile: Profile = cluster.release_on(node).parse()?;
    let mut generator = Generator::new(cluster, node, family, profile);
    if profile.both_families() || node_family(node) == family {
        generator.services();
        Ok(generator.frame())
    } else {
        Ok(generator.kubelet_only())
    }
}

/// Above this number of endpoints, rules have no comments.
const LARGE_CLUSTER: usize = 1000;

/// Returns the family of a single-stack kube-proxy: that of the node's first address.
fn node_family(node: &Node) -> Family {
    node.addresses().next().map_or(Family::Ipv4, Family::of)
}

/// The input of generation, and the rules generated so far.
struct Generator<'a> {
    cluster: &'a Cluster,
    config: &'a ProxyConfig,
    node: &'a Node,
    family: Family,
    profile: Profile,
    local: LocalDetector,
    node_ports: NodePortAddresses,
    large: bool,
    /// The probability 1/n at position n; positions below 2 are unused.
    chances: Vec<Option<Probability>>,
    names: Names,
    filter: FilterRules,
    nat: NatRules,
}

/// Rules that services add to chains of `filter`.
#[derive(Default)]
struct FilterRules {
    services: Vec<Rule>,
    external_services: Vec<Rule>,
    node_ports: Vec<Rule>,
    proxy_firewall: Vec<Rule>,
}

/// Rules that services add to chains of `nat`, and the services' own chains.
#[derive(Default)]
struct NatRules {
    services: Vec<Rule>,
    node_ports: Vec<Rule>,
    chains: Vec<Chain>,
    endpoints: Vec<EndpointChain>,
}

/// Names of chains that many rules jump to.
struct Names {
    mark_masq: ChainName,
    mark_drop: ChainName,
}

/// A service port with data shared by its rules.
struct PortContext<'a> {
    view: &'a ServicePortView<'a>,
    selected: Selected,
    /// `namespace/name:port`.
    name: Arc<str>,
    hash: ChainHash,
}

impl PortContext<'_> {
    fn chain(&self, kind: ChainKind) -> ChainName {
        self.hash.chain(kind)
    }
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
            local: LocalDetector::new(config, node, family),
            node_ports: NodePortAddresses::of(config, node, family, ProxyMode::Iptables, profile),
            large: false,
            chances: Vec::new(),
            names: Names { mark_masq: "KUBE-MARK-MASQ".into(), mark_drop: "KUBE-MARK-DROP".into() },
            filter: FilterRules::default(),
            nat: NatRules::default(),
        }
    }

    fn services(&mut self) {
        let views = service_ports(self.cluster, self.node, self.family, self.profile);
        let endpoints: usize = views.iter().map(|view| view.endpoints.len()).sum();
        self.large = endpoints > LARGE_CLUSTER;
        self.nat.endpoints.reserve(endpoints);
        let most = views.iter().map(|view| view.endpoints.len()).max().unwrap_or_default();
        self.chances = (0..=most).map(|n| one_in(n, self.profile)).collect();
        for view in &views {
            let name = view.name(self.profile);
            let port = PortContext {
                view,
                selected: view.select(self.cluster, self.node, self.profile),
                hash: ChainHash::for_service_port(&name, view.port.protocol),
                name: name.into(),
            };
            if self.profile.external_chains() {
                self.external_layout(&port);
            } else {
                self.xlb_layout(&port);
            }
        }
    }
}
