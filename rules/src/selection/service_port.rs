//! Service ports as one family's proxy sees them.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::endpoints::{EndpointView, Listed, join};
use crate::cluster::{
    Cluster, ExternalTrafficPolicy, Family, InternalTrafficPolicy, IpMode, Node, ObjectName, Service, ServicePort,
    ServiceType,
};
use crate::profile::Profile;

/// One port of a service, restricted to one family.
#[derive(Debug, Clone)]
pub(crate) struct ServicePortView<'a> {
    /// The service.
    pub(crate) service: &'a Service,
    /// The port.
    pub(crate) port: &'a ServicePort,
    /// The cluster IP.
    pub(crate) cluster_ip: IpAddr,
    /// `externalIPs` of the family that are served, in order.
    pub(crate) external_ips: Vec<IpAddr>,
    /// Whether there are `externalIPs` of the family, served or not.
    pub(crate) has_external_ips: bool,
    /// Load-balancer addresses of the family that nodes serve themselves, in order.
    pub(crate) load_balancer_ips: Vec<IpAddr>,
    /// Source ranges of the family, in order; empty if they allow everyone and the release detects that.
    pub(crate) source_ranges: Vec<IpNet>,
    /// True with `externalTrafficPolicy: Local`, if it applies.
    pub(crate) external_local: bool,
    /// True with `internalTrafficPolicy: Local`, if it applies.
    pub(crate) internal_local: bool,
    /// All endpoints, without duplicates, sorted as text.
    pub(crate) endpoints: Vec<EndpointView<'a>>,
}

impl ServicePortView<'_> {
    /// Returns whether kube-proxy considers it externally accessible: it has more addresses than its cluster IP, including `externalIPs`
    /// that a gate disables.
    pub(crate) fn externally_accessible(&self) -> bool {
        self.port.node_port.is_some() || !self.load_balancer_ips.is_empty() || self.has_external_ips
    }

    /// Returns kube-proxy's name for it: `namespace/name:port`.
    pub(crate) fn name(&self, profile: Profile) -> String {
        let ObjectName { namespace, name } = &self.service.name;
        let port = self.port.name.as_str();
        let colon = if port.is_empty() && !profile.unnamed_port_has_colon() { "" } else { ":" };
        format!("{namespace}/{name}{colon}{port}")
    }
}

/// Returns all service ports of a family, sorted by namespace, name, port name and protocol. The order of the cluster's lists does not
/// matter.
///
/// kube-proxy iterates over hash maps, so its order is random; this one is stable.
pub(crate) fn service_ports<'a>(
    cluster: &'a Cluster,
    node: &'a Node,
    family: Family,
    profile: Profile,
) -> Vec<ServicePortView<'a>> {
    let slices = Slices::new(cluster, family);
    let mut services: Vec<&Service> = cluster.services.iter().filter(|service| service.skipped().is_none()).collect();
    services.sort_by(|a, b| a.name.cmp(&b.name));
    let mut views = Vec::with_capacity(services.len());
    for service in services {
        let Some(cluster_ip) = service.served_cluster_ip(family) else { continue };
        let mut ports: Vec<&ServicePort> = service.ports.iter().collect();
        ports.sort_by(|a, b| (&a.name, a.protocol).cmp(&(&b.name, b.protocol)));
        let listed = || service.external_ips.iter().copied().filter(|ip| Family::of(*ip) == family);
        let serves_external_ips = profile.serves_external_ips(&cluster.proxy);
        for port in ports {
            views.push(ServicePortView {
                service,
                port,
                cluster_ip,
                external_ips: listed().filter(|_| serves_external_ips).collect(),
                has_external_ips: listed().next().is_some(),
                load_balancer_ips: load_balancer_ips(cluster, service, family, profile),
                source_ranges: source_ranges(service, family, profile),
                external_local: external_local(service, profile),
                internal_local: profile.internal_policy()
                    && service.internal_traffic_policy == InternalTrafficPolicy::Local,
                endpoints: slices.endpoints(&service.name, port, node, profile),
            });
        }
    }
    views
}

/// The slices of a family by service, sorted by name.
pub(crate) struct Slices<'a>(HashMap<&'a ObjectName, Vec<Listed<'a>>>);

impl<'a> Slices<'a> {
    /// Collects the slices of a cluster.
    pub(crate) fn new(cluster: &'a Cluster, family: Family) -> Self {
        let mut slices: HashMap<&ObjectName, Vec<Listed<'_>>> = HashMap::with_capacity(cluster.services.len());
        for slice in cluster.slices.iter().filter(|slice| slice.family == family) {
            slices.entry(&slice.service).or_default().push(Listed::new(slice));
        }
        slices.values_mut().for_each(|slices| slices.sort_by_key(Listed::name));
        Self(slices)
    }

    /// Returns the endpoints in slices for a port of a service, whether or not the service exists.
    pub(crate) fn endpoints(
        &self,
        service: &ObjectName,
        port: &ServicePort,
        node: &Node,
        profile: Profile,
    ) -> Vec<EndpointView<'a>> {
        join(self.0.get(service).map(Vec::as_slice).unwrap_or_default(), port, node, profile)
    }
}

fn load_balancer_ips(cluster: &Cluster, service: &Service, family: Family, profile: Profile) -> Vec<IpAddr> {
    if service.kind != ServiceType::LoadBalancer {
        return Vec::new();
    }
    let served = service.load_balancer.iter().filter(|entry| {
        Family::of(entry.ip) == family && !(profile.ip_mode(&cluster.proxy) && entry.mode == IpMode::Proxy)
    });
    served.map(|entry| entry.ip).collect()
}

fn source_ranges(service: &Service, family: Family, profile: Profile) -> Vec<IpNet> {
    let of_family = || service.source_ranges.iter().copied().filter(|range| Family::of(range.addr()) == family);
    if profile.zero_source_range_is_none() && of_family().any(|range| range.prefix_len() == 0) {
        return Vec::new();
    }
    of_family().collect()
}

fn external_local(service: &Service, profile: Profile) -> bool {
    let published = matches!(service.kind, ServiceType::NodePort | ServiceType::LoadBalancer)
        || (profile.external_policy_covers_external_ips() && !service.external_ips.is_empty());
    published && service.external_traffic_policy == ExternalTrafficPolicy::Local
}
