//! The nodes of endpoints that neither tables nor rules name.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use svclab_rules::cluster::Cluster;

use super::merge::Objects;

/// Sets the node of endpoints without one: that of the pod or node with their address, as the EndpointSlice controller does, because tables
/// and rules do not show nodes. Endpoints that have no node in an EndpointSlice of `objects` keep none.
pub(super) fn assign_nodes(cluster: &mut Cluster, objects: &Objects) {
    let unnamed: BTreeSet<(String, IpAddr)> = objects.endpoints_without_node();
    let of_nodes = cluster.nodes.iter().flat_map(|node| node.addresses().map(move |ip| (ip, node.name.clone())));
    let of_pods = cluster.pods.iter().flat_map(|pod| pod.ips.iter().map(move |ip| (*ip, pod.node.clone())));
    let owners: BTreeMap<IpAddr, String> = of_nodes.chain(of_pods).collect();
    let zone = |name: &String| cluster.nodes.iter().find(|node| node.name == *name)?.zone().map(str::to_owned);
    for slice in &mut cluster.slices {
        let service = slice.service.to_string();
        for endpoint in slice.endpoints.iter_mut().filter(|endpoint| endpoint.node.is_none()) {
            let Some(address) = endpoint.addresses.first() else { continue };
            if !unnamed.contains(&(service.clone(), *address)) {
                endpoint.node = owners.get(address).cloned();
                endpoint.zone = endpoint.zone.take().or_else(|| zone(endpoint.node.as_ref()?));
            }
        }
    }
}

/// Removes the assumed node of endpoints at a node's own addresses that its rules do not treat as local: their EndpointSlice names none, as that
/// of `default/kubernetes`, which the API server writes. Returns the endpoints.
pub(super) fn unassign_non_local(
    cluster: &mut Cluster,
    objects: &Objects,
    node: &str,
    not_local: &BTreeSet<SocketAddr>,
) -> BTreeSet<IpAddr> {
    let named = objects.endpoints_with_node();
    let mut unassigned = BTreeSet::new();
    let own: BTreeSet<IpAddr> = cluster.node(node).map(|node| node.addresses().collect()).unwrap_or_default();
    for slice in &mut cluster.slices {
        let service = slice.service.to_string();
        let ports: Vec<u16> = slice.ports.iter().filter_map(|port| port.port).collect();
        let is_not_local = |ip: &IpAddr| ports.iter().any(|port| not_local.contains(&SocketAddr::new(*ip, *port)));
        for endpoint in slice.endpoints.iter_mut().filter(|endpoint| endpoint.node.as_deref() == Some(node)) {
            let is_named = |ip: &IpAddr| named.contains(&(service.clone(), *ip));
            let found = endpoint.addresses.iter().find(|ip| own.contains(ip) && is_not_local(ip) && !is_named(ip));
            if let Some(address) = found.copied() {
                (endpoint.node, endpoint.zone) = (None, None);
                unassigned.insert(address);
            }
        }
    }
    unassigned
}
