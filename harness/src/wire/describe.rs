//! Descriptions of packets in the style of tcpdump.

use std::fmt;
use std::net::IpAddr;

use super::{Chunk, Fragment, Frame, Icmp, IcmpError, Packet, TcpFlags, Transport, Vxlan};

impl fmt::Display for Frame {
    /// Writes only the packet: the Ethernet addresses belong to one link, and say nothing about the flow.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.packet.fmt(f)
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(flow) = self.flow() {
            flow.fmt(f)?;
        }
        match &self.transport {
            Transport::Tcp(tcp) => write!(f, " [{}]", tcp.flags),
            Transport::Sctp(sctp) => match sctp.chunk {
                Some(chunk) => write!(f, " [{chunk}]"),
                None => Ok(()),
            },
            Transport::Udp(_) | Transport::Truncated { .. } => Ok(()),
            Transport::Icmp(icmp) => describe_icmp(self, icmp, f),
            Transport::Vxlan(Vxlan { vni, inner, .. }) => {
                write!(f, "{} > {} vxlan {vni}: ", self.source, self.destination)?;
                match inner {
                    Some(frame) => frame.fmt(f),
                    None => f.write_str("not IP"),
                }
            }
            Transport::Fragment(Fragment { protocol, offset, .. }) => {
                write!(f, "{} > {} fragment of protocol {protocol} at {offset}", self.source, self.destination)
            }
            Transport::Other { protocol } => write!(f, "{} > {} protocol {protocol}", self.source, self.destination),
        }
    }
}

fn describe_icmp(packet: &Packet, icmp: &Icmp, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let version = version(packet.source);
    write!(f, "{version} {} > {}: ", packet.source, packet.destination)?;
    match icmp {
        Icmp::EchoRequest(echo) => write!(f, "echo request (id {}, seq {})", echo.identifier, echo.sequence),
        Icmp::EchoReply(echo) => write!(f, "echo reply (id {}, seq {})", echo.identifier, echo.sequence),
        Icmp::Other { icmp_type, code } => write!(f, "type {icmp_type}, code {code}"),
        Icmp::Error(error) => {
            write!(f, "{}", error_words(error, packet.source.is_ipv4()))?;
            match &error.quoted {
                Some(quoted) => write!(f, " for {quoted}"),
                None => Ok(()),
            }
        }
    }
}

/// The protocol's name for a family.
pub(super) fn version(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "ICMP" } else { "ICMPv6" }
}

/// An error in words, with its numbers: `port unreachable (type 3, code 3)`.
pub(super) fn error_words(error: &IcmpError, ipv4: bool) -> String {
    let IcmpError { icmp_type, code, .. } = *error;
    let name = if ipv4 { icmp_name(icmp_type, code) } else { icmpv6_name(icmp_type, code) };
    let mtu = error.mtu.map(|mtu| format!(", MTU {mtu}")).unwrap_or_default();
    format!("{name} (type {icmp_type}, code {code}{mtu})")
}

/// The names of ICMP errors (RFC 792, RFC 1122, RFC 1812), as in iptables' `--reject-with` if it has one.
fn icmp_name(icmp_type: u8, code: u8) -> &'static str {
    match (icmp_type, code) {
        (3, 0) => "net unreachable",
        (3, 1) => "host unreachable",
        (3, 2) => "protocol unreachable",
        (3, 3) => "port unreachable",
        (3, 4) => "fragmentation needed",
        (3, 9) => "net prohibited",
        (3, 10) => "host prohibited",
        (3, 13) => "admin prohibited",
        (3, _) => "destination unreachable",
        (5, _) => "redirect",
        (11, 0) => "time to live exceeded",
        (11, _) => "reassembly time exceeded",
        _ => "error",
    }
}

/// The names of ICMPv6 errors (RFC 4443).
fn icmpv6_name(icmp_type: u8, code: u8) -> &'static str {
    match (icmp_type, code) {
        (1, 0) => "no route",
        (1, 1) => "admin prohibited",
        (1, 2) => "beyond scope of source",
        (1, 3) => "address unreachable",
        (1, 4) => "port unreachable",
        (1, 5) => "policy fail",
        (1, 6) => "reject route",
        (1, _) => "destination unreachable",
        (2, _) => "packet too big",
        (3, 0) => "hop limit exceeded",
        (3, _) => "reassembly time exceeded",
        (4, 1) => "unknown next header",
        _ => "error",
    }
}

impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // tcpdump's letters, in its order (print-tcp.c).
        const LETTERS: [(u8, &str); 8] =
            [(0x01, "F"), (0x02, "S"), (0x04, "R"), (0x08, "P"), (0x10, "."), (0x20, "U"), (0x40, "E"), (0x80, "W")];
        if self.0 == 0 {
            return f.write_str("none");
        }
        LETTERS.iter().filter(|(bit, _)| self.0 & bit != 0).try_for_each(|(_, letter)| f.write_str(letter))
    }
}

impl fmt::Display for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Chunk types of RFC 9260, section 3.2, in tcpdump's words.
        f.write_str(match self {
            Self::Init(_) => "INIT",
            Self::InitAck(_) => "INIT ACK",
            Self::Abort => "ABORT",
            Self::Other(0) => "DATA",
            Self::Other(1) => "INIT, cut off",
            Self::Other(2) => "INIT ACK, cut off",
            Self::Other(3) => "SACK",
            Self::Other(4) => "HB REQ",
            Self::Other(5) => "HB ACK",
            Self::Other(7) => "SHUTDOWN",
            Self::Other(8) => "SHUTDOWN ACK",
            Self::Other(9) => "OP ERR",
            Self::Other(10) => "COOKIE ECHO",
            Self::Other(11) => "COOKIE ACK",
            Self::Other(14) => "SHUTDOWN COMPLETE",
            Self::Other(kind) => return write!(f, "chunk {kind}"),
        })
    }
}
