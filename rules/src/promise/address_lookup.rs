//! Lookup of the service port for an address and port.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::clause::Clause;
use super::node_ports;
use crate::cluster::{
    Cluster, Family, IpMode, Node, ObjectName, Protocol, ProxyConfig, ProxyMode, Service, ServicePort, ServiceType,
};
use crate::profile::Profile;

/// A kind of service address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressKind {
    ClusterIp,
    ExternalIp,
    LoadBalancerIp,
    NodePort,
}

impl AddressKind {
    /// Returns the clause by which nodes handle this kind of address.
    pub(super) fn clause(self) -> Clause {
        match self {
            Self::ClusterIp => Clause::ClusterIp,
            Self::ExternalIp => Clause::ExternalIp,
            Self::LoadBalancerIp => Clause::LoadBalancerIp,
            Self::NodePort => Clause::NodePort,
        }
    }
}

/// An address of a service port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim<'a> {
    pub(super) service: &'a Service,
    pub(super) port: &'a ServicePort,
    pub(super) kind: AddressKind,
}

impl Claim<'_> {
    /// `namespace/name:port`.
    pub(super) fn name(&self) -> String {
        let ObjectName { namespace, name } = &self.service.name;
        match self.port.name.as_str() {
            "" => format!("{namespace}/{name}:{}", self.port.port),
            port => format!("{namespace}/{name}:{port}"),
        }
    }

    fn is_same_port(&self, other: &Self) -> bool {
        self.service.name == other.service.name && self.port == other.port
    }
}

/// How a node handles a destination.
#[derive(Debug, Clone, Copy)]
pub(super) enum Meaning<'a> {
    /// It is an address of this service port.
    Service(Claim<'a>),
    /// Several service ports claim it.
    AddressConflict,
    /// It is a cluster IP with a port that its service does not have.
    UnusedPort,
    /// It is an unallocated address in a cluster IP range.
    Unallocated,
    /// kube-proxy has no rules for it.
    Unknown,
}

/// The addresses of all services.
pub(super) struct Claims<'a> {
    config: &'a ProxyConfig,
    profile: Profile,
    addresses: HashMap<(SocketAddr, Protocol), Vec<Claim<'a>>>,
    node_ports: HashMap<(u16, Protocol, Family), Vec<Claim<'a>>>,
    cluster_ips: HashSet<IpAddr>,
    /// The ranges of cluster IPs, if kube-proxy watches them.
    service_ranges: Vec<IpNet>,
}

impl<'a> Claims<'a> {
    pub(super) fn of(cluster: &'a Cluster, profile: Profile) -> Self {
        let mut claims = Self {
            config: &cluster.proxy,
            profile,
            addresses: HashMap::new(),
            node_ports: HashMap::new(),
            cluster_ips: HashSet::new(),
            service_ranges: watched_ranges(cluster, profile),
        };
        for service in cluster.services.iter().filter(|service| is_proxied(service)) {
            claims.cluster_ips.extend(service.cluster_ips.iter().filter(|ip| has_family(service, Family::of(**ip))));
            for port in &service.ports {
                claims.add(service, port);
            }
        }
        claims
    }

    fn add(&mut self, service: &'a Service, port: &'a ServicePort) {
        let addresses = addresses(service, self.profile, self.config);
        for (ip, kind) in addresses {
            let key = (SocketAddr::new(ip, port.port), port.protocol);
            self.addresses.entry(key).or_default().push(Claim { service, port, kind });
        }
        for (number, family) in node_ports_of(service, port) {
            let claim = Claim { service, port, kind: AddressKind::NodePort };
            self.node_ports.entry((number, port.protocol, family)).or_default().push(claim);
        }
    }

    /// Returns how a node's kube-proxy handles a destination.
    pub(super) fn meaning(&self, node: &Node, to: SocketAddr, protocol: Protocol) -> Meaning<'a> {
        let family = Family::of(to.ip());
        if !serves_family(self.profile, node, family) {
            return Meaning::Unknown;
        }
        if let Some(claims) = self.addresses.get(&(to, protocol)) {
            return undisputed(claims);
        }
        if let Some(claims) = self.node_ports.get(&(to.port(), protocol, family))
            && node_ports::are_served(node, to.ip(), self.config, self.profile)
        {
            return undisputed(claims);
        }
        if self.cluster_ips.contains(&to.ip()) {
            Meaning::UnusedPort
        } else if self.service_ranges.iter().any(|range| range.contains(&to.ip())) {
            Meaning::Unallocated
        } else {
            Meaning::Unknown
        }
    }

    /// Returns the service port with this node port, on whatever addresses nodes serve it.
    pub(super) fn node_port(&self, port: u16, protocol: Protocol, family: Family) -> Option<Claim<'a>> {
        self.node_ports.get(&(port, protocol, family))?.first().copied()
    }
}

/// Returns the claim if all are from one service port. The documents do not specify what happens if two services list the same external IP.
fn undisputed<'a>(claims: &[Claim<'a>]) -> Meaning<'a> {
    match claims {
        [first, rest @ ..] if rest.iter().all(|other| other.is_same_port(first)) => Meaning::Service(*first),
        _ => Meaning::AddressConflict,
    }
}

/// Returns whether kube-proxy handles a service: an ExternalName service is a DNS alias, a headless one is a list of endpoints in DNS, and
/// one with the label `service-proxy-name` belongs to another proxy.
///
/// ServiceSpec `type`, `externalName`, `clusterIP`; KEP-2447; Well-Known Labels, `service.kubernetes.io/headless`.
pub(super) fn is_proxied(service: &Service) -> bool {
    service.kind != ServiceType::ExternalName
        && !service.headless
        && !service.cluster_ips.is_empty()
        && !service.labels.contains_key("service.kubernetes.io/service-proxy-name")
        && !service.labels.contains_key("service.kubernetes.io/headless")
}

/// Returns the ranges in which kube-proxy drops unallocated addresses: those of ServiceCIDR objects, in nftables mode.
///
/// KEP-3866, "Behavior of service IPs"; KEP-1880.
fn watched_ranges(cluster: &Cluster, profile: Profile) -> Vec<IpNet> {
    let watches = cluster.proxy.mode == ProxyMode::Nftables && profile.nftables_drops_unallocated(&cluster.proxy);
    if watches { cluster.service_cidrs.clone() } else { Vec::new() }
}

/// Returns the addresses of a service on every node, in its families. A feature gate may disable external IPs.
///
/// ServiceSpec `externalIPs`; feature gate AllowServiceExternalIPs.
pub(super) fn addresses(service: &Service, profile: Profile, config: &ProxyConfig) -> Vec<(IpAddr, AddressKind)> {
    let cluster_ips = service.cluster_ips.iter().map(|ip| (*ip, AddressKind::ClusterIp));
    let external_ips = service.external_ips.iter().filter(|_| profile.serves_external_ips(config));
    let external_ips = external_ips.map(|ip| (*ip, AddressKind::ExternalIp));
    let balanced = load_balancer_ips(service, profile, config).map(|ip| (ip, AddressKind::LoadBalancerIp));
    let all = cluster_ips.chain(external_ips).chain(balanced);
    all.filter(|(ip, _)| has_family(service, Family::of(*ip))).collect()
}

/// Returns the load balancer addresses that nodes serve themselves: those with `ipMode: VIP`. With `Proxy`, packets go to the load
/// balancer, which forwards them to the addresses of nodes or pods.
///
/// LoadBalancerIngress `ipMode`; KEP-1860.
fn load_balancer_ips(service: &Service, profile: Profile, config: &ProxyConfig) -> impl Iterator<Item = IpAddr> {
    let is_balanced = service.kind == ServiceType::LoadBalancer;
    let knows_mode = profile.ip_mode(config);
    let served = service.load_balancer.iter().filter(move |entry| !knows_mode || entry.mode == IpMode::Vip);
    served.filter(move |_| is_balanced).map(|entry| entry.ip)
}

/// Returns the node ports of a service port, in each of the service's families. Services of type LoadBalancer have them too,
/// unless `allocateLoadBalancerNodePorts` is false.
///
/// ServiceSpec `type`, ServicePort `nodePort`; KEP-1864.
pub(super) fn node_ports_of<'a>(
    service: &'a Service,
    port: &'a ServicePort,
) -> impl Iterator<Item = (u16, Family)> + 'a {
    let published = matches!(service.kind, ServiceType::NodePort | ServiceType::LoadBalancer);
    let number = port.node_port.filter(|_| published);
    Family::ALL
        .into_iter()
        .filter(|family| has_family(service, *family))
        .filter_map(move |family| Some((number?, family)))
}

/// Returns whether a service has a family: it has a cluster IP of that family. There is no translation between families.
///
/// ServiceSpec `ipFamilies`, whose entries correspond to those of `clusterIPs`; KEP-563. A Service from an API server has them; one without
/// has only `clusterIP`.
pub(super) fn has_family(service: &Service, family: Family) -> bool {
    let known = if service.families.is_empty() { 1 } else { service.cluster_ips.len() };
    service.cluster_ips.iter().take(known).any(|ip| Family::of(*ip) == family)
}

/// Returns whether a node's kube-proxy serves a family: both from 1.21 on; before, dual-stack is an alpha feature and off, and a node
/// serves the family of its own address.
///
/// KEP-563, "Kube-Proxy".
fn serves_family(profile: Profile, node: &Node, family: Family) -> bool {
    profile.both_families() || node.addresses().next().is_none_or(|ip| Family::of(ip) == family)
}
