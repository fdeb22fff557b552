//! The state of a Kubernetes cluster: nodes, pods, services, endpoints, and the configuration of kube-proxy.
//!
//! Every stage after parsing starts from a [`Cluster`]. The types hold only what affects Service traffic; field names follow the Kubernetes
//! API.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use ipnet::IpNet;

mod endpoints;
mod kernel;
mod link;
mod names;
mod node;
pub mod objects;
mod pod;
mod protocol;
mod proxy;
mod service;

pub use endpoints::{Endpoint, EndpointPort, EndpointSlice};
pub use kernel::Kernel;
pub use link::{Impairment, Link, LinkOwner, LinkState, Percentage};
pub use names::{Family, ObjectName};
pub use node::Node;
pub use pod::{ContainerPort, Pod};
pub use protocol::{Protocol, ProtocolNumber, UnknownProtocol};
pub use proxy::{ConntrackCleanup, DetectLocal, ProxyConfig, ProxyMode, UnknownMode};
pub use service::{
    ExternalTrafficPolicy, InternalTrafficPolicy, IpMode, LoadBalancerIngress, Service, ServicePort, ServiceType,
};

/// All objects of one cluster, and the configuration that every node's kube-proxy runs with.
///
/// The lists are in the order of the input. Names are unique within a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cluster {
    /// The machines that run kube-proxy.
    pub nodes: Vec<Node>,
    /// The pods, wherever they run.
    pub pods: Vec<Pod>,
    /// The services, headless and ExternalName ones included.
    pub services: Vec<Service>,
    /// The endpoint slices of all services.
    pub slices: Vec<EndpointSlice>,
    /// The ranges that cluster IPs are allocated from, of all ServiceCIDR objects.
    pub service_cidrs: Vec<IpNet>,
    /// kube-proxy's configuration.
    pub proxy: ProxyConfig,
    /// The nodes whose kube-proxy is stopped, each with the cluster at that time: their rules are still those of that time.
    pub stopped: BTreeMap<String, Arc<Cluster>>,
    /// The links that are not in their default state.
    pub links: BTreeMap<LinkOwner, Link>,
    /// The kernel of all nodes.
    pub kernel: Kernel,
}

impl Cluster {
    /// Returns the cluster that a node's rules reflect: this one or, if the node's kube-proxy is stopped, the cluster at that time. The
    /// configuration is that of all nodes.
    pub fn synced_on(&self, node: &str) -> Cow<'_, Self> {
        match self.stopped.get(node) {
            Some(then) => {
                let mut then = Self { proxy: self.proxy.clone(), ..Self::clone(then) };
                then.copy_releases_from(self);
                Cow::Owned(then)
            }
            None => Cow::Borrowed(self),
        }
    }

    /// Stops a node's kube-proxy; no effect if it is already stopped.
    pub fn stop_proxy(&mut self, node: &str) {
        if !self.stopped.contains_key(node) {
            let now = Self { stopped: BTreeMap::new(), ..self.clone() };
            self.stopped.insert(node.to_owned(), Arc::new(now));
        }
    }

    /// Returns the release of a node's kube-proxy.
    pub fn release_on<'a>(&'a self, node: &'a Node) -> &'a str {
        node.release.as_deref().unwrap_or(&self.proxy.version)
    }

    /// Copies the kube-proxy releases of the cluster and its nodes from another state.
    pub fn copy_releases_from(&mut self, other: &Self) {
        self.proxy.version.clone_from(&other.proxy.version);
        for node in &mut self.nodes {
            node.release = other.node(&node.name).and_then(|node| node.release.clone());
        }
    }

    /// Returns the releases of all nodes' kube-proxies without duplicates, the cluster's first.
    pub fn releases(&self) -> Vec<&str> {
        let mut releases = vec![self.proxy.version.as_str()];
        for release in self.nodes.iter().filter_map(|node| node.release.as_deref()) {
            if !releases.contains(&release) {
                releases.push(release);
            }
        }
        releases
    }

    /// Returns whether a node is off.
    pub fn is_off(&self, node: &str) -> bool {
        let link = self.links.get(&LinkOwner::Node(node.to_owned()));
        link.is_some_and(|link| link.state == LinkState::MachineOff)
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// The pod of this name.
    pub fn pod(&self, name: &ObjectName) -> Option<&Pod> {
        self.pods.iter().find(|pod| &pod.name == name)
    }

    /// The service of this name.
    pub fn service(&self, name: &ObjectName) -> Option<&Service> {
        self.services.iter().find(|service| &service.name == name)
    }

    /// The slices that belong to a service.
    pub fn slices_of<'a>(&'a self, service: &'a ObjectName) -> impl Iterator<Item = &'a EndpointSlice> {
        self.slices.iter().filter(move |slice| &slice.service == service)
    }

    /// Returns the endpoints of a service port in a family, each with its address and port.
    pub fn endpoints_of<'a>(
        &'a self,
        service: &'a ObjectName,
        port: &'a ServicePort,
        family: Family,
    ) -> impl Iterator<Item = (&'a Endpoint, SocketAddr)> {
        self.slices_of(service).filter(move |slice| slice.family == family).flat_map(|slice| {
            let own = slice.ports.iter().find(|own| own.name == port.name && own.protocol == port.protocol);
            let number = own.and_then(|own| own.port);
            let reached =
                move |endpoint: &'a Endpoint| Some((endpoint, SocketAddr::new(*endpoint.addresses.first()?, number?)));
            slice.endpoints.iter().filter_map(reached)
        })
    }
}
