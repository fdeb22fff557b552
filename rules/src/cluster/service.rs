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
    /// Labels; kube-proxy ignores services with the label `service.kubernetes.io/service-proxy-name`.
    pub labels: BTreeMap<String, String>,
    /// Annotations; the topology mode is one.
    pub annotations: BTreeMap<String, String>,
    /// `spec.type`.
    pub kind: ServiceType,
    /// `spec.clusterIPs`; empty for headless and ExternalName services.
    pub cluster_ips: Vec<IpAddr>,
    /// True if `clusterIP` is `None`.
    pub headless: bool,
    /// `spec.ipFamilies` as given; empty if omitted.
    pub families: Vec<Family>,
    /// `spec.ports`.
    pub ports: Vec<ServicePort>,
    /// `spec.selector`.
    pub selector: BTreeMap<String, String>,
    /// `spec.externalIPs`.
    pub external_ips: Vec<IpAddr>,
    /// The entries of `status.loadBalancer.ingress` with an address.
    pub load_balancer: Vec<LoadBalancerIngress>,
    /// `spec.loadBalancerSourceRanges`, exactly as written after trimming, in order.
    pub source_ranges: Vec<IpNet>,
    /// `spec.externalTrafficPolicy`.
    pub external_traffic_policy: ExternalTrafficPolicy,
    /// `spec.internalTrafficPolicy`.
    pub internal_traffic_policy: InternalTrafficPolicy,
    /// The timeout of `sessionAffinity: ClientIP` in seconds; `None` without affinity.
    pub affinity_seconds: Option<u32>,
    /// `spec.healthCheckNodePort`.
    pub health_check_node_port: Option<u16>,
    /// `spec.publishNotReadyAddresses`.
    pub publish_not_ready_addresses: bool,
    /// `spec.trafficDistribution`.
    pub traffic_distribution: Option<String>,
}

/// Labels that make kube-proxy ignore a Service or EndpointSlice.
pub(crate) const NOT_FOR_KUBE_PROXY: [&str; 2] =
    ["service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless"];

impl Service {
    /// Returns why kube-proxy writes no rules for this service, if it does not.
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

    /// Returns whether the selector matches a pod, so that the EndpointSlice controller adds it as an endpoint; without a selector it adds
    /// none.
    pub fn selects(&self, pod: &Pod) -> bool {
        let matches = || self.selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value));
        !self.selector.is_empty() && pod.name.namespace == self.name.namespace && matches()
    }

    /// Returns the address that kube-proxy serves in a family: without `ipFamilies`, which an API server would set, it uses only the first
    /// address (`GetClusterIPByFamily` in its `pkg/proxy/util`).
    pub(crate) fn served_cluster_ip(&self, family: Family) -> Option<IpAddr> {
        let known = if self.families.is_empty() { 1 } else { self.cluster_ips.len() };
        self.cluster_ips.iter().copied().take(known).find(|ip| Family::of(*ip) == family)
    }

    /// Returns the cluster IP of a family.
    pub fn cluster_ip(&self, family: Family) -> Option<IpAddr> {
        self.cluster_ips.iter().copied().find(|ip| Family::of(*ip) == family)
    }
}

/// The type of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ServiceType {
    /// ClusterIP: a virtual address inside the cluster.
    #[default]
    ClusterIp,
    /// NodePort: also a port on every node.
    NodePort,
    /// LoadBalancer: also the addresses of a load balancer.
    LoadBalancer,
    /// ExternalName: a DNS alias, which kube-proxy ignores.
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
    /// `targetPort`, a number or the name of a container port; `port` if omitted.
    pub target_port: Option<String>,
}

/// One address that a load balancer serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadBalancerIngress {
    /// The address.
    pub ip: IpAddr,
    /// Whether nodes handle packets to it themselves.
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

/// The endpoints for traffic from outside the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExternalTrafficPolicy {
    /// All endpoints; the source is masqueraded.
    #[default]
    Cluster,
    /// Endpoints on the node that received the packet; the source is preserved.
    Local,
}

/// The endpoints for traffic from inside the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InternalTrafficPolicy {
    /// All endpoints.
    #[default]
    Cluster,
    /// Endpoints on the client's own node.
    Local,
}
