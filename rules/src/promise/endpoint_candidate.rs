//! An endpoint that may serve, and what its conditions say.

use std::net::SocketAddr;

use crate::cluster::{Endpoint, Node};

/// An endpoint with the port on which it serves a service port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) address: SocketAddr,
    pub(super) endpoint: &'a Endpoint,
}

impl Candidate<'_> {
    /// It may be used in the first place.
    ///
    /// EndpointConditions `ready`. With `publishNotReadyAddresses` the condition is true whatever the pod says, and
    /// consumers of EndpointSlices may rely on that.
    pub(super) fn is_ready(&self) -> bool {
        self.endpoint.ready
    }

    /// It is being shut down, and still serves.
    ///
    /// EndpointConditions `serving` and `terminating`; KEP-1672. A missing `serving` is to be read as true: until 1.33 the
    /// text said that it is to be read as `ready`, which no consumer did.
    pub(super) fn is_serving_terminating(&self) -> bool {
        self.endpoint.serving.unwrap_or(true) && self.endpoint.terminating
    }

    /// It is on this node.
    ///
    /// Endpoint `nodeName`.
    pub(super) fn is_on(&self, node: &Node) -> bool {
        self.endpoint.node.as_ref() == Some(&node.name)
    }
}
