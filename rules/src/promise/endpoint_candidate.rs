//! A candidate endpoint and its conditions.

use std::net::SocketAddr;

use crate::cluster::{Endpoint, Node};

/// An endpoint with the port on which it serves a service port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) address: SocketAddr,
    pub(super) endpoint: &'a Endpoint,
}

impl Candidate<'_> {
    /// Returns whether it is ready.
    ///
    /// EndpointConditions `ready`. With `publishNotReadyAddresses` the condition is true whatever the state of the pod, and consumers of
    /// EndpointSlices may rely on that.
    pub(super) fn is_ready(&self) -> bool {
        self.endpoint.ready
    }

    /// Returns whether it is terminating but still serving.
    ///
    /// EndpointConditions `serving` and `terminating`; KEP-1672. A missing `serving` means true: until 1.33 the documentation said that it
    /// means the same as `ready`, which no consumer implemented.
    pub(super) fn is_serving_terminating(&self) -> bool {
        self.endpoint.serving.unwrap_or(true) && self.endpoint.terminating
    }

    /// Returns whether it is on this node.
    ///
    /// Endpoint `nodeName`.
    pub(super) fn is_on(&self, node: &Node) -> bool {
        self.endpoint.node.as_ref() == Some(&node.name)
    }
}
