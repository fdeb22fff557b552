//! Transport protocols, and the numbers of all protocols.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A transport protocol that a Service port can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Protocol {
    /// TCP, the default of the API.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// Returns the protocol of a number in an IP header.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.number() == number)
    }

    /// The name in iptables' and svclab's spelling: `tcp`, `udp`, `sctp`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }

    /// The protocol's number in an IP header.
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A protocol name other than tcp, udp and sctp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown protocol `{0}`")]
pub struct UnknownProtocol(pub String);

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "tcp" | "TCP" => Ok(Self::Tcp),
            "udp" | "UDP" => Ok(Self::Udp),
            "sctp" | "SCTP" => Ok(Self::Sctp),
            other => Err(UnknownProtocol(other.to_owned())),
        }
    }
}

/// A protocol number in the IP header; in iptables, 0 means any protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProtocolNumber(pub u8);

/// Names that iptables and nft know or find in `/etc/protocols`. The first name of a number is the one printed.
const PROTOCOLS: &[(u8, &str)] = &[
    (0, "all"),
    (1, "icmp"),
    (2, "igmp"),
    (4, "ipencap"),
    (6, "tcp"),
    (17, "udp"),
    (33, "dccp"),
    (41, "ipv6"),
    (47, "gre"),
    (50, "esp"),
    (51, "ah"),
    (58, "ipv6-icmp"),
    (58, "icmpv6"),
    (89, "ospf"),
    (103, "pim"),
    (112, "vrrp"),
    (132, "sctp"),
    (135, "mobility-header"),
    (135, "ipv6-mh"),
    (135, "mh"),
    (136, "udplite"),
];

impl ProtocolNumber {
    /// Parses a name, in upper or lower case, or a number.
    pub fn parse(text: &str) -> Option<Self> {
        let by_name = PROTOCOLS.iter().find(|(_, name)| name.eq_ignore_ascii_case(text)).map(|(number, _)| *number);
        by_name.or_else(|| text.parse().ok()).map(Self)
    }

    /// Returns the name, if the protocol has a well-known one.
    pub fn name(self) -> Option<&'static str> {
        PROTOCOLS.iter().find(|(number, _)| *number == self.0).map(|(_, name)| *name)
    }

    /// Returns the protocol, if a Service port can have it.
    pub fn transport(self) -> Option<Protocol> {
        Protocol::from_number(self.0)
    }
}

impl From<Protocol> for ProtocolNumber {
    fn from(protocol: Protocol) -> Self {
        Self(protocol.number())
    }
}
