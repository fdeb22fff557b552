//! The 5-tuple of a flow.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use svclab_rules::cluster::Protocol;

/// Protocol, source and destination of a packet, displayed as `10.244.1.3:37328 > 10.96.34.82:80 tcp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Flow {
    /// The protocol.
    pub protocol: Protocol,
    /// The source address and port.
    pub source: SocketAddr,
    /// The destination address and port.
    pub destination: SocketAddr,
}

impl Flow {
    /// A TCP flow.
    pub const fn tcp(source: SocketAddr, destination: SocketAddr) -> Self {
        Self { protocol: Protocol::Tcp, source, destination }
    }

    /// A UDP flow.
    pub const fn udp(source: SocketAddr, destination: SocketAddr) -> Self {
        Self { protocol: Protocol::Udp, source, destination }
    }

    /// An SCTP flow.
    pub const fn sctp(source: SocketAddr, destination: SocketAddr) -> Self {
        Self { protocol: Protocol::Sctp, source, destination }
    }

    /// The flow of the answers.
    pub(crate) const fn reversed(self) -> Self {
        Self { protocol: self.protocol, source: self.destination, destination: self.source }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {} {}", self.source, self.destination, self.protocol)
    }
}
