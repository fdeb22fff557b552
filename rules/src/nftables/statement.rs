//! What rules ask for and do.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::name::Name;
use super::ranges::AddressRange;
use crate::cluster::Protocol;

/// A condition of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// `ct state new`: the first packet of a connection.
    New,
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
    /// `tcp dport 80`.
    DestinationPort(Protocol, u16),
    /// `meta l4proto tcp`.
    Protocol(Protocol),
    /// `iif "cni0"`: the interface that the packet came by. It must be there when the rule is loaded.
    InInterface {
        /// True for `!=`.
        negated: bool,
        /// The name.
        name: Box<str>,
    },
    /// `iifname "cali*"`: the name of that interface, with `*` the start of it.
    InInterfaceName {
        /// True for `!=`.
        negated: bool,
        /// The name.
        name: Box<str>,
    },
    /// `fib saddr type local`: one of the addresses is this machine's own.
    Local(Side),
    /// `meta mark & 0x00004000 == 0x00000000`: whether the packet has this mark.
    Mark {
        /// True for `!=`: it has.
        set: bool,
        /// The mark's bit.
        bit: u32,
    },
    /// `ip saddr . ip daddr . meta l4proto . th dport @set`: a set has the key that the packet makes.
    InSet(Vec<LookupKey>, Name),
    /// A condition that is not modelled: what nft shows for it.
    Other(Box<str>),
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

/// What a rule does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// Ends the rule with a verdict.
    Verdict(Verdict),
    /// `reject`: the sender gets an ICMP port unreachable.
    Reject,
    /// `ip daddr . meta l4proto . th dport vmap @map`: the verdict that a map has for the packet, if it has one.
    Lookup(Vec<LookupKey>, Name),
    /// `numgen random mod 2 vmap { 0 : goto a, 1 : goto b }`: one of several chains, all as likely.
    Balance(Vec<Name>),
    /// `dnat ip to numgen random mod 2 map { 0 : 10.0.0.1 . 80, 1 : 10.0.0.2 . 80 }`: one of several destinations, all as
    /// likely.
    BalanceDnat(Vec<SocketAddr>),
    /// `dnat to 10.0.0.1:80`.
    Dnat(SocketAddr),
    /// `masquerade fully-random`.
    Masquerade,
    /// `meta mark set meta mark | 0x00004000`.
    Mark(MarkChange),
    /// `update @set { ip saddr }`: the source is put into a set, for the set's time from now on.
    RememberSource(Name),
    /// A statement that is not modelled, or a condition behind a statement: what nft shows for it. In nft's own text, all
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

/// A change of a bit of the packet's mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MarkChange {
    /// `|`: it is set.
    Set(u32),
    /// `^`: it is turned over.
    Flip(u32),
}
