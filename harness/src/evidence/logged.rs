//! What kube-proxy's log shows.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use svclab_rules::cluster::Family;

/// What kube-proxy's log says of a port of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortEvent {
    /// The Service, `NAMESPACE/NAME`.
    pub(crate) service: String,
    /// The name of the port; empty if it has none.
    pub(crate) port: String,
    /// What happened to it.
    pub(crate) change: PortChange,
}

/// A change of a port of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PortChange {
    /// It has this frontend: an address, and a protocol.
    Set(SocketAddr, String),
    /// It is removed from one of its families.
    Removed,
    /// It has these endpoints, of one family; without a family, none.
    Endpoints(Option<Family>, BTreeSet<SocketAddr>),
}

/// What kube-proxy's log complains about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Complaint {
    /// Rules could not be written.
    Sync,
    /// It cannot recognise local traffic.
    NoClusterCidr,
    /// The API has no node of the name that it was started with.
    NodeName,
    /// Another process listens on a node port.
    PortInUse,
    /// It does not get Services or endpoints from the API server.
    Watch {
        /// Whether the log is known to be kube-proxy's: other programs say the same in theirs.
        is_of_proxy: bool,
        /// Whether later lines say that rules were written, or that the objects are known again.
        is_over: bool,
    },
}

/// A line of a log in which kube-proxy complains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The line, from 1.
    pub(crate) line: usize,
    /// What kind of failure it is.
    pub(crate) complaint: Complaint,
    /// What failed, as the log says it.
    pub(crate) what: String,
    /// Why.
    pub(crate) why: String,
}
