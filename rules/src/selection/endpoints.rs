//! Endpoints of a service port, and which of them serve.

use std::net::SocketAddr;

use arrayvec::ArrayString;

use super::ServicePortView;
use super::hints::Topology;
use crate::cluster::{Cluster, Endpoint, EndpointSlice, Node, ObjectName, Protocol, ServicePort};
use crate::digits;
use crate::profile::Profile;

/// An endpoint's address and port: `10.244.1.2:8080`, `[fd00::2]:8080`.
pub type EndpointText = ArrayString<47>;

/// An endpoint on the port that serves a service port.
#[derive(Debug, Clone)]
pub struct EndpointView<'a> {
    /// Address and port.
    pub address: SocketAddr,
    /// The same as text.
    pub text: EndpointText,
    /// Whether it is on the proxy's own node.
    pub local: bool,
    /// The endpoint itself.
    pub endpoint: &'a Endpoint,
}

/// Whether an endpoint is shutting down, but still answers. kube-proxy takes `serving` for true where it is missing, whatever
/// `ready` is (`addEndpoints` in its `pkg/proxy/endpointslicecache.go`).
pub(super) fn serves_while_terminating(endpoint: &Endpoint) -> bool {
    endpoint.serving.unwrap_or(true) && endpoint.terminating
}

/// The endpoints that serve a service port, as positions in its list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selected {
    /// Those for traffic with policy Cluster.
    pub cluster: Vec<usize>,
    /// Those for traffic with policy Local.
    pub local: Vec<usize>,
    /// Whether any node could serve; without, traffic is rejected.
    pub any: bool,
}

impl Selected {
    /// All that serve anything on this node, each once, in order.
    pub fn reachable(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.cluster.iter().chain(&self.local).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl ServicePortView<'_> {
    /// Whether some traffic goes to endpoints on any node.
    ///
    /// That is so with the external policy Local too, for what comes from inside the cluster.
    pub fn uses_cluster_endpoints(&self) -> bool {
        !self.internal_local || self.externally_accessible()
    }

    /// Whether some traffic goes to endpoints on this node only.
    pub fn uses_local_endpoints(&self) -> bool {
        self.internal_local || (self.external_local && self.externally_accessible())
    }

    /// Decides which endpoints serve (`CategorizeEndpoints` in kube-proxy's `pkg/proxy/topology.go`).
    ///
    /// Where no endpoint is ready, those that are terminating but still serve stand in, among all endpoints and among
    /// the local ones each by itself. Topology hints count for traffic with policy Cluster only.
    pub fn select(&self, cluster: &Cluster, node: &Node, profile: Profile) -> Selected {
        let stand_in = profile.terminating_endpoints(&cluster.proxy);
        let usable =
            |view: &EndpointView<'_>| view.endpoint.ready || (stand_in && serves_while_terminating(view.endpoint));
        let mut selected = Selected::default();
        if self.uses_cluster_endpoints() {
            let topology = Topology::of(self, cluster, node, profile);
            selected.cluster = self.positions(|view| view.endpoint.ready && topology.admits(view));
            if selected.cluster.is_empty() && stand_in {
                selected.cluster = self.positions(|view| serves_while_terminating(view.endpoint));
            }
        }
        if self.uses_local_endpoints() {
            selected.local = self.positions(|view| view.local && view.endpoint.ready);
            if selected.local.is_empty() && stand_in {
                selected.local = self.positions(|view| view.local && serves_while_terminating(view.endpoint));
            }
            selected.any = self.endpoints.iter().any(usable);
        } else {
            selected.any = !selected.cluster.is_empty();
        }
        selected
    }

    fn positions(&self, admit: impl Fn(&EndpointView<'_>) -> bool) -> Vec<usize> {
        let numbered = self.endpoints.iter().enumerate();
        numbered.filter(|(_, view)| admit(view)).map(|(index, _)| index).collect()
    }
}

/// A slice whose ports are found by name and protocol.
pub(crate) struct Listed<'a> {
    slice: &'a EndpointSlice,
    /// Sorted; of the same name and protocol the first that the slice lists.
    numbers: Vec<(&'a str, Protocol, u16)>,
}

impl<'a> Listed<'a> {
    pub(super) fn new(slice: &'a EndpointSlice) -> Self {
        let numbered = slice.ports.iter().filter_map(|port| Some((port.name.as_str(), port.protocol, port.port?)));
        let mut numbers: Vec<_> = numbered.collect();
        numbers.sort_by_key(|(name, protocol, _)| (*name, *protocol));
        numbers.dedup_by_key(|(name, protocol, _)| (*name, *protocol));
        Self { slice, numbers }
    }

    /// The slice's name.
    pub(super) fn name(&self) -> &'a ObjectName {
        &self.slice.name
    }

    /// The port on its endpoints that serves one of the service's.
    fn number(&self, port: &ServicePort) -> Option<u16> {
        let wanted = (port.name.as_str(), port.protocol);
        let at = self.numbers.binary_search_by_key(&wanted, |(name, protocol, _)| (*name, *protocol)).ok()?;
        self.numbers.get(at).map(|(_, _, number)| *number)
    }
}

/// The endpoints of a service port, from all slices of its service: each address and port once, sorted by their text
/// (so that `10.0.0.10` stands before `10.0.0.9`).
///
/// Where several entries have an address, a local one wins, or from 1.36 on one that is not terminating; then one that is
/// ready, then the first by the slice's name. (kube-proxy has no order there but the first.)
pub(super) fn join<'a>(
    slices: &[Listed<'a>],
    port: &ServicePort,
    node: &Node,
    profile: Profile,
) -> Vec<EndpointView<'a>> {
    let mut views = Vec::with_capacity(slices.iter().map(|listed| listed.slice.endpoints.len()).sum());
    for listed in slices {
        let Some(number) = listed.number(port) else { continue };
        for endpoint in &listed.slice.endpoints {
            let Some(address) = endpoint.addresses.first() else { continue };
            let address = SocketAddr::new(*address, number);
            let local = endpoint.node.as_ref() == Some(&node.name);
            views.push(EndpointView { text: digits::socket(address), address, local, endpoint });
        }
    }
    let rank = |view: &EndpointView<'_>| {
        (profile.prefers_running_endpoint() && !view.endpoint.terminating, view.local, view.endpoint.ready)
    };
    views.sort_by(|a, b| a.text.cmp(&b.text).then_with(|| rank(b).cmp(&rank(a))));
    views.dedup_by(|later, first| later.text == first.text);
    if profile.sorts_endpoints_by_address() {
        views.sort_by_cached_key(|view| view.address.ip().to_string());
    }
    views
}
