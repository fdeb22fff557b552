//! Conntrack entries.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use svclab_rules::cluster::Protocol;

/// An initial conntrack entry of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ConntrackEntry {
    /// The node.
    pub node: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The source of the first packet.
    pub from: SocketAddr,
    /// Its destination, before any translation.
    pub to: SocketAddr,
    /// The source of replies: the destination that the node sends packets to.
    pub reply_from: SocketAddr,
    /// The destination of replies: the source of packets as the node sends them.
    pub reply_to: SocketAddr,
    /// Whether no reply was seen yet.
    pub unreplied: bool,
}

/// Displayed as conntrack(8) lists it, without timeouts and states.
impl fmt::Display for ConntrackEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tuple = |from: SocketAddr, to: SocketAddr| {
            format!("src={} dst={} sport={} dport={}", from.ip(), to.ip(), from.port(), to.port())
        };
        let protocol = self.protocol.to_string().to_lowercase();
        let unreplied = if self.unreplied { " [UNREPLIED]" } else { "" };
        let (there, back) = (tuple(self.from, self.to), tuple(self.reply_from, self.reply_to));
        write!(f, "{protocol} {there}{unreplied} {back}")
    }
}
