//! What `-j` and `-g` do.

use std::net::IpAddr;

use super::matches::{Masked, Other, PortRange};
use super::values::ChainName;

/// What happens to a packet that a rule matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `-j CHAIN`: on with that chain, then back.
    Jump(ChainName),
    /// `-g CHAIN`: on with that chain, then back to where this one was called.
    Goto(ChainName),
    /// `ACCEPT`.
    Accept,
    /// `DROP`.
    Drop,
    /// `RETURN`: back to the calling chain, or the policy.
    Return,
    /// `REJECT`.
    Reject(RejectWith),
    /// `MARK --set-xmark`: the bits of the mask are cleared, then those of the value flipped.
    Mark(Masked),
    /// `MASQUERADE`.
    Masquerade {
        /// `--to-ports`.
        ports: Option<PortRange>,
        /// `--random`.
        random: bool,
        /// `--random-fully`.
        random_fully: bool,
    },
    /// `DNAT`.
    Dnat(Nat),
    /// `SNAT`.
    Snat(Nat),
    /// `REDIRECT`, to the machine itself.
    Redirect {
        /// `--to-ports`.
        ports: Option<PortRange>,
        /// `--random`.
        random: bool,
    },
    /// `NOTRACK`, and its newer spelling `CT --notrack`.
    NoTrack {
        /// True where written as `CT --notrack`.
        by_ct: bool,
    },
    /// `TRACE`.
    Trace,
    /// An extension, or an option of one, that is not modelled. What it does is unknown.
    Other(Box<Other>),
}

/// Where `DNAT` and `SNAT` send to or from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Nat {
    /// First and last address.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// First and last port.
    pub ports: Option<PortRange>,
    /// `--random`.
    pub random: bool,
    /// `--random-fully` (SNAT only).
    pub random_fully: bool,
    /// `--persistent`.
    pub persistent: bool,
}

/// What `REJECT` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RejectWith {
    /// A TCP reset.
    TcpReset,
    /// ICMP: the port is closed.
    PortUnreachable,
    /// ICMP: the network is unreachable; IPv6 says no route.
    NetUnreachable,
    /// ICMP: the host is unreachable; IPv6 says address unreachable.
    HostUnreachable,
    /// ICMP: the protocol is unknown; IPv4 only.
    ProtoUnreachable,
    /// ICMP: the network is prohibited; IPv4 only.
    NetProhibited,
    /// ICMP: the host is prohibited; IPv4 only.
    HostProhibited,
    /// ICMP: administratively prohibited.
    AdminProhibited,
    /// ICMPv6: the source address failed a policy.
    PolicyFail,
    /// ICMPv6: a reject route.
    RejectRoute,
}

impl RejectWith {
    /// The words of `--reject-with` for IPv4.
    pub const IPV4: [(&'static str, Self); 8] = [
        ("icmp-port-unreachable", Self::PortUnreachable),
        ("icmp-net-unreachable", Self::NetUnreachable),
        ("icmp-host-unreachable", Self::HostUnreachable),
        ("icmp-proto-unreachable", Self::ProtoUnreachable),
        ("icmp-net-prohibited", Self::NetProhibited),
        ("icmp-host-prohibited", Self::HostProhibited),
        ("icmp-admin-prohibited", Self::AdminProhibited),
        ("tcp-reset", Self::TcpReset),
    ];

    /// The words of `--reject-with` for IPv6.
    pub const IPV6: [(&'static str, Self); 7] = [
        ("icmp6-port-unreachable", Self::PortUnreachable),
        ("icmp6-no-route", Self::NetUnreachable),
        ("icmp6-addr-unreachable", Self::HostUnreachable),
        ("icmp6-adm-prohibited", Self::AdminProhibited),
        ("icmp6-policy-fail", Self::PolicyFail),
        ("icmp6-reject-route", Self::RejectRoute),
        ("tcp-reset", Self::TcpReset),
    ];
}
