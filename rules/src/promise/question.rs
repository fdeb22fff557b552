//! The connection that a promise is about.

use std::net::{IpAddr, SocketAddr};

use crate::cluster::{ObjectName, Protocol};

/// A new connection: its sender and its destination.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    /// The sender.
    pub from: VantagePoint,
    /// The original destination.
    pub to: SocketAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// The node that receives an outside host's packet, if the destination is not a node's own address: the routed node, or the one that a
    /// load balancer chose. Ignored for packets from pods and nodes, which start on their own node.
    pub via: Option<String>,
}

/// Where a connection starts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VantagePoint {
    /// A pod. One with `hostNetwork` is a process of its node.
    Pod(ObjectName),
    /// A process on the node of this name; the kernel chooses its source address.
    Node(String),
    /// A process on the node of this name that sends from 127.0.0.1 or `::1`.
    Localhost(String),
    /// A machine outside the cluster with this address.
    Outside(IpAddr),
}
