//! What single matches compare.

use std::net::{IpAddr, Ipv4Addr};

use super::condition::{AddressTypes, ConnectionPart, Conntrack, Name, PhysdevPorts, SetLookup};
use crate::iptables::{Multiport, Negatable, RouteType, Side, States};
use crate::walk::{Direction, Environment, Held, Interface, Packet, Part, State, Tracked, Tracking, Transport, bits};

/// The bit that `xt_state` and `xt_conntrack` have for a packet.
pub(super) fn state(tracking: &Tracking) -> States {
    match tracking {
        Tracking::Invalid => States::INVALID,
        Tracking::Untracked => States::UNTRACKED,
        Tracking::Tracked(Tracked { state: State::New, .. }) => States::NEW,
        Tracking::Tracked(Tracked { state: State::Established, .. }) => States::ESTABLISHED,
        Tracking::Tracked(Tracked { state: State::Related, .. }) => States::RELATED,
    }
}

/// `--ctstate`: the state, and whether the connection is translated.
pub(super) fn in_state(tracking: &Tracking, states: Negatable<States>) -> bool {
    let mut is = state(tracking);
    if let Some(connection) = tracking.connection() {
        is = if connection.is_snat() { is.and(States::SNAT) } else { is };
        is = if connection.is_dnat() { is.and(States::DNAT) } else { is };
    }
    states.value.intersects(is) ^ states.negated
}

/// `conntrack_mt`: without a connection only the state is compared, and the rest makes it fail only if it is alone.
pub(super) fn conntrack(tracking: &Tracking, options: &Conntrack) -> bool {
    if options.state.is_some_and(|states| !in_state(tracking, states)) {
        return false;
    }
    let Tracking::Tracked(tracked) = tracking else { return options.state.is_some() };
    options.parts.iter().all(|part| is_like(tracked, &part.value) ^ part.negated)
}

fn is_like(tracked: &Tracked, part: &ConnectionPart) -> bool {
    let tuple = |direction: Direction| match direction {
        Direction::Original => &tracked.connection.original,
        Direction::Reply => &tracked.connection.reply,
    };
    match *part {
        ConnectionPart::Direction(direction) => tracked.direction == direction,
        ConnectionPart::Protocol(number) => tracked.connection.original.protocol == number,
        ConnectionPart::Address { direction, source, value, mask } => {
            let tuple = tuple(direction);
            bits(if source { tuple.source } else { tuple.destination }) & mask == value
        }
        ConnectionPart::Port { direction, source, range } => {
            let tuple = tuple(direction);
            let port = if source { tuple.source_port } else { tuple.destination_port };
            (range.first..=range.last).contains(&port)
        }
    }
}

/// `addrtype_mt_v1`.
pub(super) fn address_types(types: &AddressTypes, packet: &Packet, environment: &Environment) -> Held {
    // Without the interface that it is limited to, the match is not limited.
    let limit = match (types.limit_input, types.limit_output) {
        (true, _) => packet.input,
        (false, true) => packet.output,
        (false, false) => None,
    };
    for (side, address) in [(types.source, packet.source), (types.destination, packet.destination)] {
        let Some(Negatable { negated, value }) = side else { continue };
        let held = match address {
            IpAddr::V4(address) => (value & 1 << type_of(address, limit, environment) as u16 != 0).into(),
            IpAddr::V6(_) => has_types(address, value, limit, environment),
        };
        match (held, negated) {
            (Held::Yes, false) | (Held::No, true) => {}
            (unknown @ Held::Unknown(_), _) => return unknown,
            _ => return Held::No,
        }
    }
    Held::Yes
}

/// `__inet_dev_addr_type`: only the table `local` is asked, and an address of another interface than the one that the
/// match is limited to is as good as a foreign one.
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

/// `match_type6`: all types asked for must fit, and a local address is unicast as well.
fn has_types(address: IpAddr, types: u16, limit: Option<Interface>, environment: &Environment) -> Held {
    let IpAddr::V6(v6) = address else { return Held::No };
    let asked = |kind: RouteType| types & 1 << kind as u16 != 0;
    let mapped = v6.to_ipv4_mapped().is_some();
    let unicast = !v6.is_multicast() && !v6.is_unspecified() && !mapped;
    if (asked(RouteType::Multicast) && !v6.is_multicast())
        || (asked(RouteType::Unicast) && !unicast)
        || (asked(RouteType::Unspec) && !v6.is_unspecified())
    {
        return Held::No;
    }
    let interface = environment.addresses.interface_of(address);
    let local = interface.is_some_and(|interface| limit.is_none_or(|limit| limit == interface));
    if asked(RouteType::Local) && local {
        return Held::Yes;
    }
    if asked(RouteType::Anycast) || asked(RouteType::Unreachable) {
        return Held::Unknown("`addrtype` asks for routes that are not modelled".into());
    }
    (!asked(RouteType::Local)).into()
}

/// `physdev_mt`.
pub(super) fn physdev(ports: &PhysdevPorts, packet: &Packet) -> bool {
    let bridge = packet.bridge.unwrap_or_default();
    let is = |asked: Option<bool>, is: bool| asked.is_none_or(|asked| asked == is);
    if !is(ports.is_bridged, bridge.bridged)
        || !is(ports.is_input, bridge.input.is_some())
        || !is(ports.is_output, bridge.output.is_some())
    {
        return false;
    }
    // A packet that crosses no bridge matches no name, not even `+`.
    let named = |asked: Option<Negatable<Name>>, port: Option<Interface>| {
        asked.is_none_or(|Negatable { negated, value }| {
            let same = packet.bridge.is_some() && Interface::number(port) & value.mask == value.value;
            same ^ negated
        })
    };
    named(ports.input, bridge.input) && named(ports.output, bridge.output)
}

pub(super) fn multiport(ports: &Multiport, transport: Transport) -> bool {
    let Some((source, destination)) = transport.ports() else { return false };
    let listed = |port: u16| ports.ports.value.iter().any(|range| (range.first..=range.last).contains(&port));
    let found = match ports.side {
        Side::Source => listed(source),
        Side::Destination => listed(destination),
        Side::Either => listed(source) || listed(destination),
    };
    found ^ ports.ports.negated
}

pub(super) fn in_set(lookup: &Negatable<SetLookup>, packet: &Packet, environment: &Environment) -> Held {
    let Negatable { negated, value: SetLookup { name, sources } } = lookup;
    let Some(set) = environment.sets.get(name) else {
        return Held::Unknown(format!("nothing is known of the ipset `{name}`").into());
    };
    let fits = |part: &Part, source: bool| match *part {
        Part::Address(range) => range.contains(if source { &packet.source } else { &packet.destination }),
        Part::Port { protocol, first, last } => packet.transport.ports().is_some_and(|ports| {
            let port = if source { ports.0 } else { ports.1 };
            packet.transport.protocol() == protocol && (first..=last).contains(&port)
        }),
    };
    // An entry of more parts than directions are named is never found (`ip_set_test` compares the dimensions).
    let found = set.entries.iter().any(|entry| {
        entry.len() <= sources.len() && entry.iter().zip(sources).all(|(part, source)| fits(part, *source))
    });
    (found ^ negated).into()
}
