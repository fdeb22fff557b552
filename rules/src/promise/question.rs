//! What is asked.

use std::net::{IpAddr, SocketAddr};

use crate::cluster::{ObjectName, Protocol};

/// A new connection: its sender and its destination.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    /// The sender.
    pub from: VantagePoint,
    /// The destination on the wire.
    pub to: SocketAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// The node that the network hands an outside host's packet to, if the destination is no node's own address:
    /// the routed one, or the one that a load balancer chose. Packets of pods and nodes start on their own node, and
    /// this says nothing of them.
    pub via: Option<String>,
}

/// Where a connection starts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VantagePoint {
    /// A pod. One with `hostNetwork` is a process of its node.
    Pod(ObjectName),
    /// A process on the node of this name, which leaves the choice of a source address to the kernel.
    Node(String),
    /// A process on the node of this name that sends from 127.0.0.1 or `::1`.
    Localhost(String),
    /// A machine outside of the cluster that has this address.
    Outside(IpAddr),
}
