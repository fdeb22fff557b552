//! Types of promises.

use std::fmt;
use std::net::SocketAddr;

use super::clause::Clause;
use super::known_bug::KnownBug;
use crate::cluster::ObjectName;

/// The promise for a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// The outcome of its packets.
    pub outcome: PromisedOutcome,
    /// The node whose kube-proxy handles them; `None` if none does.
    pub node: Option<String>,
    /// The service and port that the address belongs to, as `namespace/name:port`.
    pub service: Option<String>,
    /// The clauses that apply, in the order of use.
    pub because: Vec<Clause>,
    /// The known bug by which the release breaks the promise.
    pub known_bug: Option<KnownBug>,
}

/// The outcome of a connection's packets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PromisedOutcome {
    /// Each new connection is delivered to one of these.
    Delivered {
        /// The endpoints that serve, sorted by address; at least one.
        endpoints: Vec<PromisedEndpoint>,
        /// With session affinity: the timeout in seconds.
        affinity_seconds: Option<u32>,
    },
    /// The client gets a rejection at once.
    Rejected(Rejection),
    /// The packets are dropped, and the client gets no rejection.
    Dropped,
    /// The packets are rejected or dropped; which of the two is unspecified.
    Fails,
    /// No kube-proxy on the path handles the address as a service address: packets are routed normally.
    NotAService(Owner),
    /// The documents do not specify this.
    NotPromised,
}

impl PromisedOutcome {
    /// Returns the endpoint at an address, if any.
    pub fn endpoint(&self, address: SocketAddr) -> Option<&PromisedEndpoint> {
        let Self::Delivered { endpoints, .. } = self else { return None };
        let at = endpoints.binary_search_by_key(&address, |endpoint| endpoint.address).ok()?;
        endpoints.get(at)
    }
}

/// An endpoint that serves, and how it sees the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromisedEndpoint {
    /// Its address and port.
    pub address: SocketAddr,
    /// Its share of new connections (without session affinity: of all).
    pub share: Share,
    /// The source that it sees.
    pub source: Source,
    /// The reply that the client sees.
    pub reply: Reply,
}

/// A share of 1/n: all endpoints of a service port have the same share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// The number of endpoints, at least 1.
    pub one_in: usize,
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1/{}", self.one_in)
    }
}

/// The source address that a receiver sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The client's own.
    Preserved,
    /// An address of this node. Which one depends on the output interface, which may be the node's own link, a bridge to pods or a tunnel.
    Node(String),
    /// The client's own, or one of this node: kube-proxy preserves the source, but a CNI plugin may masquerade traffic from pods to
    /// destinations other than pods.
    PreservedOrNode(String),
}

/// The source of the reply, as the client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The address and port that the client sent to.
    FromDestination,
    /// The reply bypasses the node that translated: it has the endpoint's own address, or a node on its path drops it because it belongs to
    /// no connection.
    BypassesNode,
    /// Whether a reply arrives depends on the network.
    Unspecified,
}

/// The response to a rejected packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// ICMP or ICMPv6 port unreachable, whatever the protocol.
    PortUnreachable,
    /// The kernel's response for a port without a listener: RST for TCP, ICMP port unreachable for UDP, ABORT for SCTP, or ICMP protocol
    /// unreachable if the kernel has no SCTP.
    NoListener,
}

/// The owner of an address that is not a service's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// This node: its processes are reached, and without a listener its kernel rejects ([`Rejection::NoListener`]).
    Node(String),
    /// This pod, with the source address that it sees.
    Pod(ObjectName, Source),
    /// Nothing in the cluster.
    Outside,
}

impl fmt::Display for PromisedOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivered { endpoints, affinity_seconds } => {
                for (position, endpoint) in endpoints.iter().enumerate() {
                    let start = if position == 0 { "delivered to" } else { " or" };
                    write!(f, "{start} {endpoint}")?;
                }
                affinity_seconds.map_or(Ok(()), |seconds| write!(f, ", each client to the same one for {seconds} s"))
            }
            Self::Rejected(rejection) => write!(f, "rejected: {rejection}"),
            Self::Dropped => f.write_str("dropped"),
            Self::Fails => f.write_str("rejected or dropped"),
            Self::NotAService(owner) => write!(f, "not Service traffic: {owner}"),
            Self::NotPromised => f.write_str("nothing is promised"),
        }
    }
}

impl fmt::Display for PromisedEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, share, source, reply } = self;
        match share.one_in {
            1 => write!(f, "{address} (only endpoint; {source}; {reply})"),
            _ => write!(f, "{address} ({share}; {source}; {reply})"),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Preserved => f.write_str("source preserved"),
            Self::Node(node) => write!(f, "source: address of node {node}"),
            Self::PreservedOrNode(node) => write!(f, "source preserved, or an address of node {node}"),
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FromDestination => "reply translated back",
            Self::BypassesNode => "reply from the endpoint's own address or none",
            Self::Unspecified => "reply path unspecified",
        })
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PortUnreachable => "port unreachable",
            Self::NoListener => "no process listens",
        })
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "for the processes of node {node}"),
            Self::Pod(pod, source) => write!(f, "for pod {pod}, {source}"),
            Self::Outside => f.write_str("routed normally"),
        }
    }
}
