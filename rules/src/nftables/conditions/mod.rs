//! Conditions of rules. Each kind has a file with its value, parsing, printing, explanation and evaluation, and the values at which its
//! result changes.
//!
//! A [`Condition`] is the value in a rule; a [`Comparison`] is its compiled form.

mod address;
mod connection;
mod interfaces;
mod local;
mod mark;
mod ports;
mod protocols;

use std::sync::Arc;

use smallvec::smallvec;

pub use self::address::Addresses;
pub use self::connection::{ConnectionState, States};
pub use self::interfaces::Interfaces;
pub use self::mark::Mark;
pub use self::ports::Ports;
pub use self::protocols::Protocols;
use super::elements::Elements;
use super::key::{LookupKey, Side};
use super::name::Name;
use super::positions::Positions;
use super::text::Line;
use crate::cluster::{Family, Protocol, ProtocolNumber};
use crate::walk::{Edges, Environment, Held, Trace, Walker};

/// A condition of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// `ct state established,related`: the connection tracking state of the packet.
    State(States),
    /// `ct status dnat`: the connection's destination was translated.
    Translated,
    /// `ip saddr 10.0.0.1`: one of the packet's addresses.
    Address {
        /// Source or destination.
        side: Side,
        /// True for `!=`.
        negated: bool,
        /// The addresses to compare with.
        value: Addresses,
    },
    /// `tcp dport 80`, `th sport != { 22, 80-90 }`: ports, and the protocol if it is named.
    Ports(Ports),
    /// `meta l4proto tcp`, `meta l4proto { icmp, 112 }`.
    Protocols(Protocols),
    /// `meta nfproto ipv4`, in tables of family `inet`; keys of one family imply it.
    Family(Family),
    /// `iif "cni0"`, `oifname { "eth0", "cali*" }`: an interface.
    Interfaces(Interfaces),
    /// `fib saddr type local`: one of the addresses is local.
    Local(Side),
    /// `meta mark & 0x00004000 == 0x00000000`: bits of the packet's mark.
    Mark(Mark),
    /// `ip saddr . ip daddr . meta l4proto . th dport @set`: a set contains the packet's key.
    InSet(Vec<LookupKey>, Name),
    /// A condition that is not modelled, as text.
    Other(Box<str>),
}

/// A condition of a compiled rule: a comparison of numbers.
#[derive(Debug, Clone)]
pub(super) enum Comparison {
    State(States),
    /// `ct status dnat`.
    Translated,
    Between(address::Between),
    Ports(Ports),
    Protocols(Protocols),
    Interface(interfaces::InterfaceNames),
    Local(Side),
    Mark(Mark),
    /// A set, by position, contains the packet's key.
    InSet {
        negated: bool,
        key: Box<[LookupKey]>,
        set: u32,
    },
    /// Constant.
    Always(bool),
    /// Not modelled, for the given reason.
    Unknown(Arc<str>),
}

/// Returns whether text that is not modelled compares an interface index.
pub(super) fn names_interface_index(text: &str) -> bool {
    text.split_whitespace().any(|word| matches!(word, "iif" | "oif"))
}

/// Parses the next condition; nothing if it is not modelled.
pub(super) fn parse(line: &mut Line<'_, '_>) -> Option<Condition> {
    if let Some(found) = line.attempt(parse_keyed) {
        return Some(found);
    }
    let word = line.next();
    let word = if word == "meta" { line.next() } else { word };
    match word {
        "ct" => connection::parse(line),
        "fib" => local::parse(line),
        "iif" | "iifname" | "oif" | "oifname" => interfaces::parse(word, line),
        "ip" | "ip6" => matches!(line.next(), "protocol" | "nexthdr").then(|| protocols::parse(line))?,
        "mark" => mark::parse(line),
        "nfproto" => match line.next() {
            "ipv4" => Some(Condition::Family(Family::Ipv4)),
            "ipv6" => Some(Condition::Family(Family::Ipv6)),
            _ => None,
        },
        "tcp" | "udp" | "sctp" => ports::parse(Some(ProtocolNumber::parse(word)?.transport()?), line),
        "th" => ports::parse(None, line),
        _ => None,
    }
}

/// Parses a comparison of a packet's key: with values if the key has one part, otherwise with a set.
fn parse_keyed(line: &mut Line<'_, '_>) -> Option<Condition> {
    let key = LookupKey::parse(line)?;
    match *key.as_slice() {
        [LookupKey::Address(side)] => address::parse(side, line),
        [LookupKey::Protocol] => protocols::parse(line),
        _ => Some(Condition::InSet(key, Name::from_reference(line.next())?)),
    }
}

impl Condition {
    /// `ct state new`: the first packet of a connection.
    pub(crate) fn new_connection() -> Self {
        Self::State(States { negated: false, states: vec![ConnectionState::New] })
    }

    /// `tcp dport 80`.
    pub(crate) fn destination_port(protocol: Protocol, port: u16) -> Self {
        let ports = smallvec![port..=port];
        Self::Ports(Ports { protocol: Some(protocol), side: Side::Destination, negated: false, ports })
    }

    /// The protocol and port of `tcp dport 80`.
    pub(crate) fn as_destination_port(&self) -> Option<(Protocol, u16)> {
        match self {
            Self::Ports(Ports { protocol, side: Side::Destination, negated: false, ports }) => match ports.as_slice() {
                [range] if range.start() == range.end() => Some(((*protocol)?, *range.start())),
                _ => None,
            },
            _ => None,
        }
    }

    /// `meta l4proto tcp`.
    pub fn protocol(protocol: Protocol) -> Self {
        Self::Protocols(Protocols { negated: false, numbers: smallvec![protocol.number()] })
    }

    /// The protocol of `meta l4proto tcp`.
    pub(crate) fn as_protocol(&self) -> Option<Protocol> {
        match self {
            Self::Protocols(Protocols { negated: false, numbers }) if numbers.len() == 1 => {
                Protocol::from_number(numbers[0])
            }
            _ => None,
        }
    }

    /// `iif "cni0"`, or `iifname "cni0"`.
    pub fn input(by_name: bool, negated: bool, name: impl Into<Box<str>>) -> Self {
        Self::Interfaces(Interfaces { output: false, by_name, negated, names: vec![name.into()] })
    }

    /// `meta mark & 0x00004000 != 0x00000000`, or with `==` if the bit must not be set.
    pub(crate) fn mark_bit(set: bool, bit: u32) -> Self {
        Self::Mark(Mark { negated: set, mask: bit, value: 0 })
    }

    /// Returns whether it compares an interface index (`iif`, `oif`), so that the interface must exist when the rule is loaded.
    pub(crate) fn needs_interface(&self) -> bool {
        match self {
            Self::Interfaces(interfaces) => !interfaces.by_name,
            Self::Other(text) => names_interface_index(text),
            _ => false,
        }
    }

    /// Returns the set that it looks up, with the key.
    pub(crate) fn set(&self) -> Option<(&Name, Vec<LookupKey>)> {
        match self {
            Self::InSet(key, set) => Some((set, key.clone())),
            Self::Address { side, value: Addresses::Set(set), .. } => Some((set, vec![LookupKey::Address(*side)])),
            _ => None,
        }
    }

    pub(super) fn print(&self, out: &mut String, ip: Family) {
        match self {
            Self::State(states) => states.print(out),
            Self::Translated => out.push_str("ct status dnat"),
            Self::Address { side, negated, value } => address::print(*side, *negated, value, out, ip),
            Self::Ports(ports) => ports.print(out),
            Self::Protocols(protocols) => protocols.print(out),
            Self::Family(Family::Ipv4) => out.push_str("meta nfproto ipv4"),
            Self::Family(Family::Ipv6) => out.push_str("meta nfproto ipv6"),
            Self::Interfaces(interfaces) => interfaces.print(out),
            Self::Local(side) => local::print(*side, out),
            Self::Mark(mark) => mark.print(out),
            Self::InSet(key, set) => {
                LookupKey::print(key, out, ip);
                out.extend([" @", &**set]);
            }
            Self::Other(text) => out.push_str(text),
        }
    }

    /// Describes what it requires of a packet, as a fragment: `to 10.96.0.10`.
    pub fn explain(&self) -> String {
        match self {
            Self::State(states) => states.explain(),
            Self::Translated => "of a connection whose destination was translated".to_owned(),
            Self::Address { side, negated, value } => address::explain(*side, *negated, value),
            Self::Ports(ports) => ports.explain(),
            Self::Protocols(protocols) => protocols.explain(),
            Self::Family(Family::Ipv4) => "IPv4".to_owned(),
            Self::Family(Family::Ipv6) => "IPv6".to_owned(),
            Self::Interfaces(interfaces) => interfaces.explain(),
            Self::Local(side) => local::explain(*side),
            Self::Mark(mark) => mark.explain(),
            Self::InSet(key, set) => format!("with its {} in the set {set}", LookupKey::explain(key)),
            Self::Other(text) => format!("matches `{text}` (not modelled)"),
        }
    }

    pub(super) fn compile(&self, at: &Positions<'_>) -> Comparison {
        match self {
            Self::State(states) => Comparison::State(states.clone()),
            Self::Translated => Comparison::Translated,
            Self::Address { side, negated, value } => address::compile(*side, *negated, value, at),
            Self::Ports(ports) => Comparison::Ports(ports.clone()),
            Self::Protocols(protocols) => Comparison::Protocols(protocols.clone()),
            Self::Family(family) => Comparison::Always(*family == at.family),
            Self::Interfaces(interfaces) => interfaces.compile(),
            Self::Local(side) => Comparison::Local(*side),
            Self::Mark(mark) => Comparison::Mark(*mark),
            Self::InSet(key, set) => {
                Comparison::InSet { negated: false, key: key.as_slice().into(), set: at.sets[&**set] }
            }
            Self::Other(text) => Comparison::Unknown(format!("condition `{text}` is not modelled").into()),
        }
    }
}

impl Comparison {
    /// Evaluates it for a packet.
    pub(super) fn holds<T: Trace>(&self, walker: &Walker<T>, sets: &[Elements], environment: &Environment) -> Held {
        match self {
            Self::State(states) => states.holds(walker.tracking()).into(),
            Self::Translated => walker.tracking().connection().is_some_and(|connection| connection.is_dnat()).into(),
            Self::Between(between) => between.holds(walker).into(),
            Self::Ports(ports) => ports.holds(walker),
            Self::Protocols(protocols) => protocols.holds(walker).into(),
            Self::Interface(names) => names.holds(walker).into(),
            Self::Local(side) => walker.is_local(side.field(), environment).into(),
            Self::Mark(mark) => mark.holds(&walker.packet).into(),
            Self::InSet { negated, key, set } => {
                let set = &sets[*set as usize];
                match set.find(key, walker) {
                    Ok(found) => ((found.is_some() || set.remembers(key, walker, environment)) ^ negated).into(),
                    Err(why) => Held::Unknown(why),
                }
            }
            Self::Always(holds) => (*holds).into(),
            Self::Unknown(why) => Held::Unknown(why.clone()),
        }
    }

    /// Adds the values at which its result changes.
    pub(super) fn edges(&self, sets: &[Elements], edges: &mut Edges) {
        match self {
            Self::Between(between) => between.edges(edges),
            Self::Ports(ports) => ports.edges(edges),
            Self::Protocols(protocols) => protocols.edges(edges),
            Self::Interface(names) => names.edges(edges),
            Self::Local(side) => local::edges(*side, edges),
            Self::Mark(mark) => mark.edges(edges),
            Self::InSet { key, set, .. } => sets[*set as usize].edges(key, edges),
            // The result is the same for the first packets of all connections, or unknown for all.
            Self::State(_) | Self::Translated | Self::Always(_) | Self::Unknown(_) => {}
        }
    }
}

/// `a`, or `one of a, b`.
fn one_of<T>(items: &[T], word: impl Fn(&T) -> String) -> String {
    let words: Vec<String> = items.iter().map(word).collect();
    if words.len() == 1 { words.concat() } else { format!("one of {}", words.join(", ")) }
}

fn explain_not(negated: bool) -> &'static str {
    if negated { "not " } else { "" }
}
