//! Services.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{Family, ObjectName, Pod, Protocol};

/// A Service object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Namespace and name.
    pub name: ObjectName,
    /// Labels; `service.kubernetes.io/service-proxy-name` takes a service away from kube-proxy.
    pub labels: BTreeMap<String, String>,
    /// Annotations; the topology mode is one.
    pub annotations: BTreeMap<String, String>,
    /// `spec.type`.
    pub kind: ServiceType,
    /// `spec.clusterIPs`; empty for headless and ExternalName services.
    pub cluster_ips: Vec<IpAddr>,
    /// True if `clusterIP` is `None`.
    pub headless: bool,
    /// `spec.ipFamilies` as given; empty if the object leaves them out.
    pub families: Vec<Family>,
    /// `spec.ports`.
    pub ports: Vec<ServicePort>,
    /// `spec.selector`.
    pub selector: BTreeMap<String, String>,
    /// `spec.externalIPs`.
    pub external_ips: Vec<IpAddr>,
    /// `status.loadBalancer.ingress`, those with an address.
    pub load_balancer: Vec<LoadBalancerIngress>,
    /// `spec.loadBalancerSourceRanges`, exactly as written after trimming, in order.
    pub source_ranges: Vec<IpNet>,
    /// `spec.externalTrafficPolicy`.
    pub external_traffic_policy: ExternalTrafficPolicy,
    /// `spec.internalTrafficPolicy`.
    pub internal_traffic_policy: InternalTrafficPolicy,
    /// With `sessionAffinity: ClientIP`, how many seconds a client stays with its endpoint.
    pub affinity_seconds: Option<u32>,
    /// `spec.healthCheckNodePort`.
    pub health_check_node_port: Option<u16>,
    /// `spec.publishNotReadyAddresses`.
    pub publish_not_ready_addresses: bool,
    /// `spec.trafficDistribution`.
    pub traffic_distribution: Option<String>,
}

/// Labels with which a Service or EndpointSlice is none of kube-proxy's business.
pub(crate) const NOT_FOR_KUBE_PROXY: [&str; 2] =
    ["service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless"];

impl Service {
    /// Why kube-proxy writes no rules for this service, if it does not.
    pub fn skipped(&self) -> Option<&'static str> {
        if self.labels.contains_key(NOT_FOR_KUBE_PROXY[0]) {
            Some("its label service.kubernetes.io/service-proxy-name gives it to another proxy")
        } else if self.kind == ServiceType::ExternalName {
            Some("it is an ExternalName service, a DNS alias")
        } else if self.headless || self.labels.contains_key(NOT_FOR_KUBE_PROXY[1]) {
            Some("it is headless: clients get the endpoints' addresses from DNS")
        } else if self.cluster_ips.is_empty() {
            Some("it has no clusterIP")
        } else {
            None
        }
    }

    /// Whether the selector matches a pod, so that the EndpointSlice controller makes it an endpoint; without a selector it makes none.
    pub fn selects(&self, pod: &Pod) -> bool {
        let matches = || self.selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value));
        !self.selector.is_empty() && pod.name.namespace == self.name.namespace && matches()
    }

    /// The address that kube-proxy serves in a family: without `ipFamilies`, which an API server fills in, it knows the
    /// first one only (`GetClusterIPByFamily` in its `pkg/proxy/util`).
    pub(crate) fn served_cluster_ip(&self, family: Family) -> Option<IpAddr> {
        let known = if self.families.is_empty() { 1 } else { self.cluster_ips.len() };
        self.cluster_ips.iter().copied().take(known).find(|ip| Family::of(*ip) == family)
    }

    /// The service's own address of a family.
    pub fn cluster_ip(&self, family: Family) -> Option<IpAddr> {
        self.cluster_ips.iter().copied().find(|ip| Family::of(*ip) == family)
    }
}

/// What a Service is published as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ServiceType {
    /// A virtual address inside the cluster.
    #[default]
    ClusterIp,
    /// And a port on every node.
    NodePort,
    /// And addresses that a load balancer brings.
    LoadBalancer,
    /// A DNS alias; kube-proxy ignores it.
    ExternalName,
}

/// One port of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    /// The port's name; empty if the only port has none.
    pub name: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The port on the service's addresses.
    pub port: u16,
    /// The port on the nodes' addresses.
    pub node_port: Option<u16>,
    /// `targetPort` as a number or the name of a container's port; the port itself if left out.
    pub target_port: Option<String>,
}

/// One address that a load balancer serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadBalancerIngress {
    /// The address.
    pub ip: IpAddr,
    /// Whether nodes take the short-circuit path for it.
    pub mode: IpMode,
}

/// How packets reach a node from a load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IpMode {
    /// With the load balancer's address as destination: kube-proxy serves that address itself.
    #[default]
    Vip,
    /// With a node's or pod's address as destination: kube-proxy leaves the address alone (from 1.29 on).
    Proxy,
}

/// Which endpoints serve traffic from outside the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExternalTrafficPolicy {
    /// All of them; the source is masqueraded.
    #[default]
    Cluster,
    /// Endpoints on the node that the packet came to; the source is kept.
    Local,
}

/// Which endpoints serve traffic from inside the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InternalTrafficPolicy {
    /// All of them.
    #[default]
    Cluster,
    /// Endpoints on the client's own node.
    Local,
}
