//! `addrtype`: the types of the addresses in the routing table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Condition, Extension, Listed, Match, Parsed};
use crate::iptables::Negatable;
use crate::iptables::text::{KeptOption, Options, Printer};
use crate::walk::{Edges, Environment, Field, Held, Interface, Trace, Walker, bits};

/// Options of `addrtype`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AddressType {
    /// `--src-type`.
    pub source: Option<Negatable<RouteType>>,
    /// `--dst-type`.
    pub destination: Option<Negatable<RouteType>>,
}

/// A route's type in the sense of `ip route`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RouteType {
    /// Unspecified.
    Unspec,
    /// A unicast address elsewhere.
    Unicast,
    /// An address of this machine.
    Local,
    /// A broadcast address.
    Broadcast,
    /// An anycast address.
    Anycast,
    /// A multicast group.
    Multicast,
    /// Packets are dropped silently.
    Blackhole,
    /// Packets are rejected as unreachable.
    Unreachable,
    /// Packets are rejected as prohibited.
    Prohibit,
}

impl RouteType {
    /// The types with their names.
    pub const NAMES: [(&'static str, Self); 9] = [
        ("UNSPEC", Self::Unspec),
        ("UNICAST", Self::Unicast),
        ("LOCAL", Self::Local),
        ("BROADCAST", Self::Broadcast),
        ("ANYCAST", Self::Anycast),
        ("MULTICAST", Self::Multicast),
        ("BLACKHOLE", Self::Blackhole),
        ("UNREACHABLE", Self::Unreachable),
        ("PROHIBIT", Self::Prohibit),
    ];

    fn parse(text: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(name, _)| *name == text).map(|(_, kind)| kind)
    }

    fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(_, other)| *other == self).map_or("", |(name, _)| name)
    }

    fn explain(self) -> String {
        match self {
            Self::Local => "an address of this machine".to_owned(),
            other => format!("an address of type {}", other.name()),
        }
    }
}

/// `addrtype` with all its options. The types of a side are a bit set, by their position in [`RouteType`].
#[derive(Debug, Clone, Default)]
pub(in crate::iptables) struct AddressTypes {
    source: Option<Negatable<u16>>,
    destination: Option<Negatable<u16>>,
    /// `--limit-iface-in`.
    limit_input: bool,
    /// `--limit-iface-out`.
    limit_output: bool,
}

pub(super) const ADDRTYPE: Extension =
    Extension { name: "addrtype", options: &["--src-type", "--dst-type"], parse, parse_listed };

/// Returns nothing if several types are given for one side.
fn parse(options: &Options<'_>) -> Parsed {
    let mut types = AddressType::default();
    for option in options.iter() {
        if option.value()?.contains(',') {
            return Ok(None);
        }
        let kind = option.negatable("route type", RouteType::parse)?;
        match option.name {
            "--src-type" => types.source = Some(kind),
            _ => types.destination = Some(kind),
        }
    }
    Ok((!options.is_empty()).then_some(Match::AddressType(types)))
}

/// `ADDRTYPE match src-type !LOCAL dst-type LOCAL`.
fn parse_listed(words: &[&str], negated: bool) -> Listed {
    let words = words.strip_prefix(&["ADDRTYPE", "match"]).filter(|_| !negated)?;
    let mut found = AddressType::default();
    let mut taken = 0;
    while let Some([side @ ("src-type" | "dst-type"), rest @ ..]) = words.get(taken..) {
        let (negated, text, length) = super::listed_word(rest)?;
        let value = RouteType::parse(text)?;
        let own = if *side == "src-type" { &mut found.source } else { &mut found.destination };
        *own = Some(Negatable { negated, value });
        taken += 1 + length;
    }
    // The other options of `addrtype` in listings are not modelled.
    let is_more = words.get(taken).is_some_and(|word| word.starts_with("limit-"));
    (taken > 0 && !is_more).then_some((Match::AddressType(found), 2 + taken))
}

impl AddressType {
    pub(super) fn print(&self, out: &mut Printer) {
        out.push(" -m addrtype");
        for (name, kind) in [(" --src-type ", self.source), (" --dst-type ", self.destination)] {
            let Some(kind) = kind else { continue };
            out.option(name, kind.negated);
            out.push(kind.value.name());
        }
    }

    pub(super) fn compile(&self) -> Condition {
        let side = |side: Option<Negatable<RouteType>>| {
            side.map(|side| Negatable { negated: side.negated, value: 1 << side.value as u16 })
        };
        let (source, destination) = (side(self.source), side(self.destination));
        Condition::AddressType(Box::new(AddressTypes { source, destination, ..AddressTypes::default() }))
    }

    pub(super) fn explain(&self) -> String {
        let source = self.source.map(|one| format!("{}from {}", one.negation(), one.value.explain()));
        let destination = self.destination.map(|one| format!("{}to {}", one.negation(), one.value.explain()));
        [source, destination].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Compiles options that are kept as text.
pub(super) fn compile(options: &[KeptOption<'_>]) -> Option<Condition> {
    let mut types = AddressTypes::default();
    for option in options {
        let side = || {
            let bits = option
                .argument()?
                .split(',')
                .try_fold(0, |bits, word| Some(bits | 1 << RouteType::parse(word)? as u16));
            Some(Some(Negatable { negated: option.negated, value: bits? }))
        };
        match option.name {
            "--src-type" => types.source = side()?,
            "--dst-type" => types.destination = side()?,
            "--limit-iface-in" => types.limit_input = true,
            "--limit-iface-out" => types.limit_output = true,
            _ => return None,
        }
    }
    Some(Condition::AddressType(Box::new(types)))
}

impl AddressTypes {
    /// `addrtype_mt_v1`.
    pub(super) fn holds<T: Trace>(&self, walker: &Walker<T>, environment: &Environment) -> Held {
        let packet = &walker.packet;
        // If the packet has no such interface, the match is not limited.
        let limit = match (self.limit_input, self.limit_output) {
            (true, _) => packet.input,
            (false, true) => packet.output,
            (false, false) => None,
        };
        let sides =
            [(self.source, Field::Source, packet.source), (self.destination, Field::Destination, packet.destination)];
        for (side, field, address) in sides {
            let Some(Negatable { negated, value }) = side else { continue };
            let is_of = |address: IpAddr| match address {
                IpAddr::V4(address) => Some(value & 1 << type_of(address, limit, environment) as u16 != 0),
                IpAddr::V6(_) => has_types(address, value, limit, environment),
            };
            walker.is_alike(field, is_of, || edges(environment));
            match is_of(address) {
                None => return Held::Unknown("`addrtype` matches routes that are not modelled".into()),
                Some(holds) if holds == negated => return Held::No,
                Some(_) => {}
            }
        }
        Held::Yes
    }

    pub(super) fn edges(&self, edges: &mut Edges) {
        edges.local_source |= self.source.is_some();
        edges.local_destination |= self.destination.is_some();
    }
}

/// `__inet_dev_addr_type`: only the table `local` is looked up; with a limit, an address of another interface counts as unicast.
fn type_of(address: Ipv4Addr, limit: Option<Interface>, environment: &Environment) -> RouteType {
    let table = &environment.addresses;
    let here = |interface: Interface| limit.is_none_or(|limit| limit == interface);
    if address.is_unspecified() || address.is_broadcast() {
        RouteType::Broadcast
    } else if address.is_multicast() {
        RouteType::Multicast
    } else if let Some(interface) = table.broadcast_of(address.into()) {
        if here(interface) { RouteType::Broadcast } else { RouteType::Unicast }
    } else if table.interface_of(address.into()).is_some_and(here) {
        RouteType::Local
    } else {
        RouteType::Unicast
    }
}

/// Returns the lowest address of each range in which all addresses have the same types.
fn edges(environment: &Environment) -> Vec<u128> {
    const V6: [Ipv6Addr; 4] = [
        // IPv4 addresses, and their end.
        Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0),
        Ipv6Addr::new(0, 0, 0, 0, 1, 0, 0, 0),
        // Multicast.
        Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0),
        Ipv6Addr::LOCALHOST,
    ];
    const V4: [Ipv4Addr; 4] =
        [Ipv4Addr::new(0, 0, 0, 1), Ipv4Addr::new(224, 0, 0, 0), Ipv4Addr::new(240, 0, 0, 0), Ipv4Addr::BROADCAST];
    let fixed = V6.map(|address| bits(address.into())).into_iter().chain(V4.map(|address| bits(address.into())));
    environment.addresses.edges().into_iter().chain(fixed).collect()
}

/// `match_type6`: all types in the mask must fit, and a local address is unicast as well. `None` if that is not modelled.
fn has_types(address: IpAddr, types: u16, limit: Option<Interface>, environment: &Environment) -> Option<bool> {
    let IpAddr::V6(v6) = address else { return Some(false) };
    let asked = |kind: RouteType| types & 1 << kind as u16 != 0;
    let mapped = v6.to_ipv4_mapped().is_some();
    let unicast = !v6.is_multicast() && !v6.is_unspecified() && !mapped;
    if (asked(RouteType::Multicast) && !v6.is_multicast())
        || (asked(RouteType::Unicast) && !unicast)
        || (asked(RouteType::Unspec) && !v6.is_unspecified())
    {
        return Some(false);
    }
    let interface = environment.addresses.interface_of(address);
    let local = interface.is_some_and(|interface| limit.is_none_or(|limit| limit == interface));
    if asked(RouteType::Local) && local {
        return Some(true);
    }
    let is_unknown = asked(RouteType::Anycast) || asked(RouteType::Unreachable);
    (!is_unknown).then(|| !asked(RouteType::Local))
}
