//! The endpoints of a service port, from all slices of its service.

use std::net::SocketAddr;

use arrayvec::ArrayString;

use crate::cluster::{Endpoint, EndpointSlice, Node, ObjectName, Protocol, ServicePort};
use crate::digits;
use crate::profile::Profile;

/// An endpoint's address and port: `10.244.1.2:8080`, `[fd00::2]:8080`.
pub(crate) type EndpointText = ArrayString<47>;

/// An endpoint on the port that serves a service port.
#[derive(Debug, Clone)]
pub(crate) struct EndpointView<'a> {
    /// Address and port.
    pub(crate) address: SocketAddr,
    /// The address as text.
    pub(crate) text: EndpointText,
    /// Whether it is on kube-proxy's own node.
    pub(crate) local: bool,
    /// The endpoint itself.
    pub(crate) endpoint: &'a Endpoint,
}

/// Returns whether an endpoint is terminating but still serving. kube-proxy treats a missing `serving` as true, whatever `ready` is
/// (`addEndpoints` in its `pkg/proxy/endpointslicecache.go`).
pub(super) fn serves_while_terminating(endpoint: &Endpoint) -> bool {
    endpoint.serving.unwrap_or(true) && endpoint.terminating
}

/// A slice with its ports indexed by name and protocol.
pub(crate) struct Listed<'a> {
    slice: &'a EndpointSlice,
    /// Sorted; of ports with the same name and protocol, the first in the slice.
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

    /// Returns the slice's name.
    pub(super) fn name(&self) -> &'a ObjectName {
        &self.slice.name
    }

    /// Returns the port on its endpoints for a service port.
    fn number(&self, port: &ServicePort) -> Option<u16> {
        let wanted = (port.name.as_str(), port.protocol);
        let at = self.numbers.binary_search_by_key(&wanted, |(name, protocol, _)| (*name, *protocol)).ok()?;
        self.numbers.get(at).map(|(_, _, number)| *number)
    }
}

/// Returns the endpoints of a service port from all slices of its service: without duplicates, sorted as text (so that `10.0.0.10` comes
/// before `10.0.0.9`).
///
/// If several entries have the same address, a local one wins, or from 1.36 on one that is not terminating; then a ready one, then the
/// first by slice name. (kube-proxy only implements the first criterion.)
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
            let local = endpoint.node.as_deref() == Some(node.proxy_name());
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
