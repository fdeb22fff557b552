//! Cleanup by comparison: kube-proxy 1.32 and later deletes conntrack entries that lead to no serving endpoint (`CleanStaleEntries` in
//! `pkg/proxy/conntrack/cleanup.go`).

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use crate::cluster::{Cluster, EndpointSlice, Family, Node, ObjectName, Protocol};
use crate::profile::Profile;
use crate::selection::{ServicePortView, service_ports};

/// An entry of a conntrack table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The protocol.
    pub protocol: Protocol,
    /// The original destination.
    pub original_destination: SocketAddr,
    /// The source of replies: the endpoint, if the destination was translated.
    pub reply_source: SocketAddr,
}

/// The UDP frontends of a cluster's services, and the endpoints that serve them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Serving {
    /// Endpoints by address and port of a service; the port is `None` for releases that ignore it.
    addresses: HashMap<(IpAddr, Option<u16>), HashSet<Backend>>,
    /// Endpoints by family and node port.
    node_ports: HashMap<(Family, u16), HashSet<Backend>>,
    compares_service_ports: bool,
    compares_endpoint_ports: bool,
}

/// An endpoint to compare entries with; the port is `None` for releases that ignore it.
type Backend = (IpAddr, Option<u16>);

impl Serving {
    /// Returns what a node's kube-proxy compares its conntrack table with when objects change from `old` to `new`.
    ///
    /// It does so for a family only if slices of a service with UDP endpoints have changed (`ConntrackCleanupRequired`); else nothing is
    /// stale. An endpoint counts if its `serving` condition is true or unset, terminating or not; traffic policies and topology hints do
    /// not matter. If two services have the same address and port, kube-proxy takes a random one; this function takes the last by name.
    pub(super) fn after(old: &Cluster, new: &Cluster, node: &Node, profile: Profile) -> Self {
        let mut serving = Self {
            compares_service_ports: !profile.compares_connections_on_any_port(),
            compares_endpoint_ports: profile.compares_endpoint_ports(),
            ..Self::default()
        };
        for family in Family::ALL.into_iter().filter(|family| udp_endpoints_changed(old, new, *family)) {
            for view in service_ports(new, node, family, profile) {
                serving.add(&view, family, profile);
            }
        }
        serving
    }

    fn add(&mut self, view: &ServicePortView<'_>, family: Family, profile: Profile) {
        if view.port.protocol != Protocol::Udp {
            return;
        }
        let serving = view.endpoints.iter().filter(|endpoint| endpoint.endpoint.serving.unwrap_or(true));
        let backends: HashSet<Backend> = serving.map(|endpoint| self.backend(endpoint.address)).collect();
        if backends.is_empty() && !profile.compares_connections_without_endpoints() {
            return;
        }
        let all = std::iter::once(&view.cluster_ip).chain(&view.load_balancer_ips).chain(&view.external_ips);
        for address in all {
            let frontend = self.frontend(SocketAddr::new(*address, view.port.port));
            self.addresses.insert(frontend, backends.clone());
        }
        if let Some(number) = view.port.node_port {
            self.node_ports.insert((family, number), backends);
        }
    }

    /// Returns whether nothing can be stale.
    pub(crate) fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.node_ports.is_empty()
    }

    /// Returns whether kube-proxy deletes an entry: a UDP flow to a service's address and port, or to a node port **on any address**, that
    /// leads to none of the service's serving endpoints.
    pub fn is_stale(&self, flow: &Flow) -> bool {
        if flow.protocol != Protocol::Udp {
            return false;
        }
        let Flow { original_destination, reply_source, .. } = *flow;
        let by_address = self.addresses.get(&self.frontend(original_destination));
        let family = Family::of(original_destination.ip());
        let by_port = self.node_ports.get(&(family, original_destination.port()));
        let backend = self.backend(reply_source);
        by_address.into_iter().chain(by_port).any(|backends| !backends.contains(&backend))
    }

    fn frontend(&self, address: SocketAddr) -> (IpAddr, Option<u16>) {
        (address.ip(), self.compares_service_ports.then_some(address.port()))
    }

    fn backend(&self, address: SocketAddr) -> Backend {
        (address.ip(), self.compares_endpoint_ports.then_some(address.port()))
    }
}

/// Returns whether slices changed of a service that has, or had, UDP endpoints.
fn udp_endpoints_changed(old: &Cluster, new: &Cluster, family: Family) -> bool {
    let (before, after) = (slices(old, family), slices(new, family));
    let services: HashSet<_> = before.keys().chain(after.keys()).copied().collect();
    services.into_iter().any(|service| {
        let (before, after) = (before.get(service), after.get(service));
        before != after && before.into_iter().chain(after).flatten().any(|slice| has_udp_endpoints(slice))
    })
}

fn has_udp_endpoints(slice: &EndpointSlice) -> bool {
    !slice.endpoints.is_empty() && slice.ports.iter().any(|port| port.protocol == Protocol::Udp)
}

/// Returns the slices of each service, by name.
fn slices(cluster: &Cluster, family: Family) -> HashMap<&ObjectName, Vec<&EndpointSlice>> {
    let mut slices: HashMap<_, Vec<_>> = HashMap::new();
    for slice in cluster.slices.iter().filter(|slice| slice.family == family) {
        slices.entry(&slice.service).or_default().push(slice);
    }
    slices.values_mut().for_each(|slices: &mut Vec<&EndpointSlice>| slices.sort_by(|a, b| a.name.cmp(&b.name)));
    slices
}
