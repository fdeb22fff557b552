//! What is promised.

use std::fmt;
use std::net::SocketAddr;

use super::clause::Clause;
use super::known_bug::KnownBug;
use crate::cluster::ObjectName;

/// What must happen to a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// The outcome of its packets.
    pub outcome: PromisedOutcome,
    /// The node whose kube-proxy treats them; `None` where none does.
    pub node: Option<String>,
    /// The service and port that the address belongs to, as `namespace/name:port`.
    pub service: Option<String>,
    /// The clauses that lead to this, in the order in which they were used.
    pub because: Vec<Clause>,
    /// The release is known not to keep the promise here.
    pub known_bug: Option<KnownBug>,
}

/// The outcome of a connection's packets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PromisedOutcome {
    /// Each new connection comes out at one of these.
    Delivered {
        /// The endpoints that serve, sorted by address; at least one.
        endpoints: Vec<PromisedEndpoint>,
        /// With session affinity: for how many seconds a client stays with the endpoint of its first connection.
        affinity_seconds: Option<u32>,
    },
    /// The client gets a rejection at once.
    Rejected(Rejection),
    /// The packets are lost, and the client gets no rejection.
    Dropped,
    /// The packets are rejected or dropped; which of the two is not promised.
    Fails,
    /// No kube-proxy on the way takes the address for a service's: packets go where it leads.
    NotAService(Owner),
    /// The documents do not specify this.
    NotPromised,
}

impl PromisedOutcome {
    /// The endpoint that serves at an address, where there is one.
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
    /// Its part of new connections (without session affinity: of all).
    pub share: Share,
    /// The source that it sees.
    pub source: Source,
    /// What the client sees of the reply.
    pub reply: Reply,
}

/// One part in this many: shares of a service port are all the same.
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
    /// An address of this node. Which of its addresses is the network's choice: the one of the interface by which the
    /// packet leaves, be that the node's own link, a bridge to pods or a tunnel.
    Node(String),
    /// The client's own, or one of this node: kube-proxy leaves the source alone, but a CNI may masquerade what pods
    /// send to others than pods.
    PreservedOrNode(String),
}

/// The source of the reply, as the client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The address and port that the client sent to.
    FromDestination,
    /// The reply bypasses the node that translated: it bears the endpoint's own address, or a node on its path drops
    /// it as belonging to no connection.
    BypassesNode,
    /// Whether a reply arrives depends on the network.
    Unspecified,
}

/// What a client gets for a rejected packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// ICMP or ICMPv6 port unreachable, whatever the protocol.
    PortUnreachable,
    /// What a kernel sends for a port that no process listens on: to TCP a segment with RST, to UDP port unreachable,
    /// to SCTP an ABORT, or protocol unreachable where the kernel has no SCTP.
    NoListener,
}

/// The owner of an address that is not a service's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// This node: its processes are reached, and where none listens its kernel rejects
    /// ([`Rejection::NoListener`]).
    Node(String),
    /// This pod, with the source that it sees.
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
