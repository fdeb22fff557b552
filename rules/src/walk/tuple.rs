//! One direction of a connection.

use std::net::IpAddr;

/// Protocol, addresses and ports of one direction. For ICMP both ports are the identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// The protocol's number.
    pub protocol: u8,
    /// The source address.
    pub source: IpAddr,
    /// The source port.
    pub source_port: u16,
    /// The destination address.
    pub destination: IpAddr,
    /// The destination port.
    pub destination_port: u16,
}

impl Tuple {
    /// Returns the tuple of the opposite direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            source: self.destination,
            source_port: self.destination_port,
            destination: self.source,
            destination_port: self.source_port,
            ..self
        }
    }
}
