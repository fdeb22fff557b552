//! kube-proxy's rules for a node, as its `syncProxyRules` writes them (`pkg/proxy/iptables/proxier.go`).
//!
//! The chains that exist independently of services are in [`frame`], with what distinguishes `local` traffic; the rules of a service port are in
//! [`external`] (from 1.24) or [`before_1_24`] (up to 1.23), which share [`balancing`]. All build them with `rule`. The kubelet's own chains of its time
//! belong to the document, since a node has a kubelet.

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

/// The rules of one family that a node's kube-proxy writes, and the kubelet's of that time.
///
/// The same objects give the same rules, in whatever order they are listed. The chains of a table are sorted as
/// `iptables-save` sorts them: the kernel's own by hook, then the others by name.
///
/// # Errors
///
/// Where the node's release is not known.
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

/// More endpoints than that, and rules lose comments.
const LARGE_CLUSTER: usize = 1000;

/// The family of a single-stack kube-proxy: that of the node's first address.
fn node_family(node: &Node) -> Family {
    node.addresses().next().map_or(Family::Ipv4, Family::of)
}

/// What rules are made from, and the rules made so far.
struct Generator<'a> {
    cluster: &'a Cluster,
    config: &'a ProxyConfig,
    node: &'a Node,
    family: Family,
    profile: Profile,
    local: LocalDetector,
    node_ports: NodePortAddresses,
    large: bool,
    /// The chance of one in n, at position n; those below two are not used.
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

/// Rules that services add to chains of `nat`, and the chains of their own.
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

/// A service port with all that its rules share.
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
