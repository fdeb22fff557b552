//! The kinds of addresses in a cluster.

use std::collections::HashMap;
use std::net::IpAddr;

use svclab_rules::cluster::Cluster;

use super::verification::AddressKind;

/// The kind of every address that occurs in a cluster.
pub(super) struct Kinds(HashMap<IpAddr, AddressKind>);

impl Kinds {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let mut kinds = HashMap::new();
        // If an address is of several kinds, the last one below counts.
        kinds.extend(cluster.nodes.iter().flat_map(|node| node.addresses()).map(|ip| (ip, AddressKind::NodePort)));
        for service in &cluster.services {
            kinds.extend(service.load_balancer.iter().map(|ingress| (ingress.ip, AddressKind::LoadBalancer)));
        }
        for service in &cluster.services {
            kinds.extend(service.external_ips.iter().map(|ip| (*ip, AddressKind::ExternalIp)));
        }
        for service in &cluster.services {
            kinds.extend(service.cluster_ips.iter().map(|ip| (*ip, AddressKind::ClusterIp)));
        }
        Self(kinds)
    }

    /// The kind of an address.
    pub(super) fn kind(&self, address: IpAddr) -> AddressKind {
        if address.is_loopback() {
            AddressKind::Loopback
        } else {
            self.0.get(&address).copied().unwrap_or(AddressKind::Other)
        }
    }
}
