//! Expected results of probes.

use std::net::IpAddr;

use super::during::Bounds;
use crate::wire::RejectKind;

/// The expected result of a probe. Every field that is `Some` must hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Expectation {
    /// The expected outcome of a packet.
    pub outcome: Option<ExpectedOutcome>,
    /// The source that the receiver sees.
    pub source: Option<SourceExpectation>,
    /// The reply that the sender sees.
    pub reply: Option<ReplyExpectation>,
    /// The expected balance of flows among endpoints.
    pub balance: Option<Balance>,
    /// Whether all flows of one client go to one endpoint.
    pub affinity: Option<bool>,
    /// The number of fragments that the receiver gets.
    pub fragments: Option<u16>,
    /// The allowed number of lost flows, if some may be lost.
    pub lost: Option<Bounds>,
}

/// The expected outcome of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpectedOutcome {
    /// It is delivered to one of these.
    Delivered(Vec<Target>),
    /// It is delivered to the same destination as the previous probe of the same test and family.
    SameAsBefore,
    /// The sender receives a rejection (REJECT).
    Rejected(RejectKind),
    /// It is larger than the MTU of a link on its path, and the sender gets an ICMP error.
    TooBig(TooBig),
    /// It is not delivered, and the sender receives nothing.
    Dropped(DropPlace),
    /// It is not delivered, whether or not the sender receives a rejection, and wherever it is dropped.
    Fails,
}

/// The expected ICMP error for a packet that is too big: ICMP "fragmentation needed", or ICMPv6 "packet too big".
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TooBig {
    /// The MTU that it reports, in bytes.
    pub mtu: Option<u16>,
    /// The source of the error as the sender sees it: as written, and the corresponding addresses.
    pub from: Option<(String, Vec<IpAddr>)>,
}

/// Where a packet must be dropped. Only known for single flows: many flows are only counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DropPlace {
    /// On any node, or in any pod with its own rules: the packet does not leave the cluster.
    InCluster,
    /// On this node or pod: `node/worker`, `pod/svclb`.
    At(String),
    /// On the network between nodes, or outside: no node dropped it, and no machine received it.
    Underlay,
}

/// A destination that packets can be delivered to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// As in the scenario: `pod/nginx:80`.
    pub label: String,
    /// The address.
    pub address: IpAddr,
    /// The port; `None` for any.
    pub port: Option<u16>,
}

/// The source address that the receiver sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceExpectation {
    /// The sender's own.
    Preserved,
    /// An address of a node that differs from the original source; for a single flow, a different port of the same address is enough.
    Masqueraded,
    /// This one.
    Address(IpAddr),
}

/// The expected reply, as the sender sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyExpectation {
    /// It comes from the address and port that the probe was sent to.
    FromVip,
    /// It comes from this address.
    From(IpAddr),
    /// There is no reply.
    Nothing,
}

/// The shares of endpoints.
#[derive(Debug, Clone, PartialEq)]
pub enum Balance {
    /// All expected targets get the same share.
    Even,
    /// All expected targets get some flows, whatever their shares.
    All,
    /// Each of these gets this share; shares add up to 1.
    Shares(Vec<(Target, f64)>),
}
