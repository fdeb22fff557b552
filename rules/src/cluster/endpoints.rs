//! Endpoints.

use std::net::IpAddr;

use super::{Family, ObjectName, Protocol};

/// Some of a Service's endpoints, all of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSlice {
    /// Namespace and name of the slice itself.
    pub name: ObjectName,
    /// The service that the `kubernetes.io/service-name` label names.
    pub service: ObjectName,
    /// `addressType`; FQDN slices are not kept.
    pub family: Family,
    /// The ports that every endpoint of the slice serves.
    pub ports: Vec<EndpointPort>,
    /// The endpoints.
    pub endpoints: Vec<Endpoint>,
}

/// A port of a slice, matched by name with the service's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointPort {
    /// The name of the service port; empty if that has none.
    pub name: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The port on the endpoint. `None` stands for all ports, which kube-proxy ignores.
    pub port: Option<u16>,
}

impl Endpoint {
    /// Returns whether kube-proxy may send connections here: it is ready, or serves while it terminates.
    pub fn may_serve(&self) -> bool {
        self.ready || self.terminating && self.serving.unwrap_or(true)
    }
}

/// One endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its addresses; consumers use the first (EndpointSlice API).
    pub addresses: Vec<IpAddr>,
    /// `conditions.ready`; the API says to read a missing value as true.
    pub ready: bool,
    /// `conditions.serving`. A missing value means true; up to 1.33 the API documentation said the same as `ready`, which kube-proxy never
    /// implemented.
    pub serving: Option<bool>,
    /// `conditions.terminating`; false if missing.
    pub terminating: bool,
    /// `nodeName`.
    pub node: Option<String>,
    /// `zone`.
    pub zone: Option<String>,
    /// `hints.forZones`; `None` if the endpoint has no hints.
    pub zone_hints: Option<Vec<String>>,
    /// `hints.forNodes`.
    pub node_hints: Option<Vec<String>>,
    /// The pod that `targetRef` names.
    pub pod: Option<ObjectName>,
}
