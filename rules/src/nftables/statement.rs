//! Conditions and statements of rules.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use ipnet::IpNet;
use smallvec::{SmallVec, smallvec};

use super::name::Name;
use super::numgen::Numgen;
use super::ranges::{self, AddressRange};
use crate::cluster::{Family, Protocol};
use crate::walk::{Packet, RejectResponse};

/// A condition of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// `ct state established,related`: the connection tracking state of the packet.
    State {
        /// True for `!=`.
        negated: bool,
        /// The states, at least one.
        states: Vec<ConnectionState>,
    },
    /// `ct status dnat`: the connection's destination was translated.
    Translated,
    /// `ip saddr 10.0.0.1`: one of the packet's addresses.
    Address {
        /// Which of the two.
        side: Side,
        /// True for `!=`.
        negated: bool,
        /// What it is compared with.
        value: Addresses,
    },
    /// `tcp dport 80`, `th sport != { 22, 80-90 }`: ports, and the protocol if it is named.
    Ports {
        /// The protocol; any that has ports for `th`.
        protocol: Option<Protocol>,
        /// Which of the two.
        side: Side,
        /// True for `!=`.
        negated: bool,
        /// The ports, at least one range.
        ports: SmallVec<[RangeInclusive<u16>; 1]>,
    },
    /// `meta l4proto tcp`, `meta l4proto { icmp, 112 }`.
    Protocols {
        /// True for `!=`.
        negated: bool,
        /// The protocols' numbers, at least one.
        numbers: SmallVec<[u8; 8]>,
    },
    /// `meta nfproto ipv4`, in tables of family `inet`; keys of one family imply it.
    Family(Family),
    /// `iif "cni0"`, `oifname { "eth0", "cali*" }`: an interface.
    Interfaces {
        /// Whether it is the one that the packet leaves by.
        output: bool,
        /// True for `iifname` and `oifname`, where a name that ends in `*` is a prefix. Otherwise the interface must exist when the
        /// rule is loaded.
        by_name: bool,
        /// True for `!=`.
        negated: bool,
        /// The names, at least one.
        names: Vec<Box<str>>,
    },
    /// `fib saddr type local`: one of the addresses is this machine's own.
    Local(Side),
    /// `meta mark & 0x00004000 == 0x00000000`: bits of the packet's mark.
    Mark {
        /// True for `!=`.
        negated: bool,
        /// The bits to compare.
        mask: u32,
        /// Their value.
        value: u32,
    },
    /// `ip saddr . ip daddr . meta l4proto . th dport @set`: a set has the key that the packet makes.
    InSet(Vec<LookupKey>, Name),
    /// A condition that is not modelled, as text.
    Other(Box<str>),
}

impl Condition {
    /// `ct state new`: the first packet of a connection.
    pub fn new_connection() -> Self {
        Self::State { negated: false, states: vec![ConnectionState::New] }
    }

    /// `tcp dport 80`.
    pub fn destination_port(protocol: Protocol, port: u16) -> Self {
        let ports = smallvec![port..=port];
        Self::Ports { protocol: Some(protocol), side: Side::Destination, negated: false, ports }
    }

    /// The protocol and port of `tcp dport 80`.
    pub fn as_destination_port(&self) -> Option<(Protocol, u16)> {
        match self {
            Self::Ports { protocol, side: Side::Destination, negated: false, ports } => match ports.as_slice() {
                [range] if range.start() == range.end() => Some(((*protocol)?, *range.start())),
                _ => None,
            },
            _ => None,
        }
    }

    /// `meta l4proto tcp`.
    pub fn protocol(protocol: Protocol) -> Self {
        Self::Protocols { negated: false, numbers: smallvec![protocol.number()] }
    }

    /// The protocol of `meta l4proto tcp`.
    pub fn as_protocol(&self) -> Option<Protocol> {
        match self {
            Self::Protocols { negated: false, numbers } if numbers.len() == 1 => Protocol::of_number(numbers[0]),
            _ => None,
        }
    }

    /// `iif "cni0"`, or `iifname "cni0"`.
    pub fn input(by_name: bool, negated: bool, name: impl Into<Box<str>>) -> Self {
        Self::Interfaces { output: false, by_name, negated, names: vec![name.into()] }
    }

    /// `meta mark & 0x00004000 != 0x00000000`, or with `==` where the bit must not be set.
    pub fn mark_bit(set: bool, bit: u32) -> Self {
        Self::Mark { negated: set, mask: bit, value: 0 }
    }

    /// Whether it compares an interface's index (`iif`, `oif`), so that the interface must exist when the rule is loaded.
    pub(crate) fn needs_interface(&self) -> bool {
        match self {
            Self::Interfaces { by_name: false, .. } => true,
            Self::Other(text) => text.split_whitespace().any(|word| matches!(word, "iif" | "oif")),
            _ => false,
        }
    }
}

/// A connection tracking state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// It opens a connection.
    New,
    /// Packets of its connection went both ways.
    Established,
    /// It belongs to what another connection announced, or is an error about one.
    Related,
    /// It belongs to no connection, and opens none.
    Invalid,
    /// The table does not look at it.
    Untracked,
}

impl ConnectionState {
    /// All there are.
    pub const ALL: [Self; 5] = [Self::New, Self::Established, Self::Related, Self::Invalid, Self::Untracked];

    /// nft's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Established => "established",
            Self::Related => "related",
            Self::Invalid => "invalid",
            Self::Untracked => "untracked",
        }
    }
}

/// One of a packet's two addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// `saddr`.
    Source,
    /// `daddr`.
    Destination,
}

impl Side {
    /// nft's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Source => "saddr",
            Self::Destination => "daddr",
        }
    }

    /// That address of a packet.
    pub(crate) fn of(self, packet: &Packet) -> IpAddr {
        match self {
            Self::Source => packet.source,
            Self::Destination => packet.destination,
        }
    }
}

/// What an address is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addresses {
    /// One address.
    One(IpAddr),
    /// A range by prefix.
    Prefix(IpNet),
    /// Several ranges, written in braces.
    Ranges(Vec<AddressRange>),
    /// The elements of a set.
    Set(Name),
}

impl Addresses {
    /// What nft makes of ranges that a rule lists in braces: none around a single one; the others sorted, and joined where
    /// they overlap or touch. Nothing for no range.
    pub(super) fn in_braces(listed: &[AddressRange]) -> Option<Self> {
        match listed {
            [] => None,
            [single] => Some(single.prefix().map_or_else(|| Self::Ranges(listed.to_vec()), Self::Prefix)),
            several => Some(Self::Ranges(ranges::join(several.to_vec()))),
        }
    }
}

/// What a rule does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// Ends the rule with a verdict.
    Verdict(Verdict),
    /// `reject`: the sender gets an error, ICMP port unreachable by default.
    Reject(RejectResponse),
    /// `ip daddr . meta l4proto . th dport vmap @map`: the verdict that a map has for the packet, if it has one.
    Lookup(Vec<LookupKey>, Name),
    /// `numgen random mod 2 vmap { 0 : goto a, 1 : goto b }`: one of several chains.
    Balance(Numgen<Name>),
    /// `dnat ip to numgen random mod 2 map { 0 : 10.0.0.1 . 80, 1 : 10.0.0.2 . 80 }`: one of several destinations.
    BalanceDnat(Numgen<SocketAddr>),
    /// `dnat to 10.0.0.1:80`.
    Dnat(SocketAddr),
    /// `dnat to 10.0.0.1`: the port stays.
    DnatAddress(IpAddr),
    /// `snat to 10.0.0.1`, or `snat to 10.0.0.1:80`.
    Snat(IpAddr, Option<u16>),
    /// `masquerade`.
    Masquerade {
        /// Whether the port is chosen by chance: `fully-random`.
        random: bool,
    },
    /// `meta mark set meta mark | 0x00004000`.
    Mark(MarkChange),
    /// `update @set { ip saddr }`: one of the packet's addresses is put into a set, for the set's time from now on.
    Remember(Side, Name),
    /// A statement that is not modelled, or a condition behind a statement: as text. In nft's own text, all
    /// that follows it in the rule too, conditions among it.
    Other(Box<str>),
}

/// What becomes of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on to the next chain that a hook has.
    Accept,
    /// It disappears.
    Drop,
    /// It goes on behind the rule that jumped here.
    Return,
    /// It goes through a chain and comes back.
    Jump(Name),
    /// It goes through a chain and comes back to where this one was jumped from.
    Goto(Name),
}

/// One part of the key that a packet makes for a set or map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LookupKey {
    /// One of the addresses.
    Address(Side),
    /// `meta l4proto`.
    Protocol,
    /// `th dport`.
    DestinationPort,
}

/// A change of the packet's mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MarkChange {
    /// `|`: a bit is set.
    Set(u32),
    /// `^`: a bit is turned over.
    Flip(u32),
    /// `meta mark & 0xffffff00 | 0x00000001`: bits are kept, others set; without any that are kept, the mark is this number.
    Write {
        /// The bits that are kept.
        kept: u32,
        /// The bits that are set.
        set: u32,
    },
}
