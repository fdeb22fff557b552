//! Addresses, keys and elements.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use ipnet::IpNet;

use super::super::ast::{Datatype, Element, Key};
use super::super::name::Name;
use super::super::numgen::{Numgen, NumgenMode};
use super::super::ranges::AddressRange;
use super::super::statement::{Addresses, LookupKey, Side, Verdict};
use super::json;
use super::json::{Made, Value};
use crate::cluster::{Family, Protocol};

/// The type that nft calls so; none where it is not one of kube-proxy's.
pub(super) fn datatype(name: &str) -> Option<Datatype> {
    let all = [Datatype::Address(Family::Ipv4), Datatype::Address(Family::Ipv6), Datatype::Protocol, Datatype::Port];
    all.into_iter().find(|datatype| datatype.as_str() == name)
}

/// An element of a set, or with its verdict of a map.
pub(super) fn element(value: &Value, key: &[Datatype], is_map: bool) -> Option<Element> {
    let (value, verdict) = match value {
        Value::List(pair) if is_map => match pair.as_slice() {
            [value, Value::Made(made)] => match &**made {
                Made::Verdict(found) => (value, Some(verdict(found))),
                _ => return None,
            },
            _ => return None,
        },
        _ if is_map => return None,
        value => (value, None),
    };
    let (value, comment) = match value {
        Value::Made(made) => match &**made {
            Made::Elem(elem) => (&elem.val, elem.comment.as_deref().map(Into::into)),
            _ => (value, None),
        },
        _ => (value, None),
    };
    let parts = parts(value);
    let fits = parts.len() == key.len();
    let key: Option<Vec<Key>> = parts.iter().zip(key).map(|(part, datatype)| key_part(part, *datatype)).collect();
    Some(Element { key: key.filter(|_| fits)?, comment, verdict })
}

/// The parts of a concatenation; a single value is its own.
fn parts(value: &Value) -> &[Value] {
    if let Value::Made(made) = value
        && let Made::Concat(parts) = &**made
    {
        return parts;
    }
    std::slice::from_ref(value)
}

fn key_part(value: &Value, datatype: Datatype) -> Option<Key> {
    match (datatype, value) {
        (Datatype::Address(_), value) => address(value).map(Key::Address),
        (Datatype::Protocol, value) => protocol(value).map(Key::Protocol),
        (Datatype::Port, Value::Number(port)) => u16::try_from(*port).ok().map(Key::Port),
        (Datatype::Port, _) => None,
    }
}

/// `tcp`, or 6 as `nft -n` prints it.
pub(super) fn protocol(value: &Value) -> Option<Protocol> {
    match value {
        Value::Text(name) => name.parse().ok(),
        Value::Number(number) => Protocol::of_number(u8::try_from(*number).ok()?),
        _ => None,
    }
}

pub(super) fn verdict(found: &json::Verdict) -> Verdict {
    match found {
        json::Verdict::Accept(()) => Verdict::Accept,
        json::Verdict::Drop(()) => Verdict::Drop,
        json::Verdict::Return(()) => Verdict::Return,
        json::Verdict::Jump { target } => Verdict::Jump(Name::from(target.as_str())),
        json::Verdict::Goto { target } => Verdict::Goto(Name::from(target.as_str())),
    }
}

pub(super) fn address(value: &Value) -> Option<IpAddr> {
    match value {
        Value::Text(text) => text.parse().ok(),
        _ => None,
    }
}

/// What an address is compared with.
pub(super) fn addresses(value: &Value) -> Option<Addresses> {
    match value {
        Value::Text(text) => match set(text) {
            Some(name) => Some(Addresses::Set(name)),
            None => text.parse().ok().map(Addresses::One),
        },
        Value::Made(made) => match &**made {
            Made::Prefix { addr, len } => prefix(addr, *len).map(Addresses::Prefix),
            Made::Range(_) => range(value).map(|range| Addresses::Ranges(vec![range])),
            Made::Set(members) => members.iter().map(range).collect::<Option<_>>().map(Addresses::Ranges),
            _ => None,
        },
        Value::Number(_) | Value::List(_) | Value::Other(_) => None,
    }
}

fn prefix(address: &str, length: u8) -> Option<IpNet> {
    IpNet::new(address.parse().ok()?, length).ok().map(|range| range.trunc())
}

fn range(value: &Value) -> Option<AddressRange> {
    let Value::Made(made) = value else { return address(value).map(AddressRange::from) };
    match &**made {
        Made::Prefix { addr, len } => prefix(addr, *len).map(AddressRange::from),
        Made::Range([first, last]) => {
            let (first, last) = (address(first)?, address(last)?);
            (first.is_ipv4() == last.is_ipv4() && first <= last).then_some(AddressRange { first, last })
        }
        _ => None,
    }
}

/// The name of `@name`.
pub(super) fn set(text: &str) -> Option<Name> {
    text.strip_prefix('@').map(Name::from)
}

/// The key that a packet makes.
pub(super) fn lookup_key(value: &Value) -> Option<Vec<LookupKey>> {
    parts(value).iter().map(lookup_part).collect()
}

fn lookup_part(value: &Value) -> Option<LookupKey> {
    let Value::Made(made) = value else { return None };
    match &**made {
        Made::Payload { protocol, field } if protocol == "th" && field == "dport" => Some(LookupKey::DestinationPort),
        Made::Payload { protocol, field } => address_field(protocol, field).map(LookupKey::Address),
        Made::Meta { key } if key == "l4proto" => Some(LookupKey::Protocol),
        _ => None,
    }
}

/// Which address a field of the IP header is.
pub(super) fn address_field(protocol: &str, field: &str) -> Option<Side> {
    let is_ip = matches!(protocol, "ip" | "ip6");
    side(field).filter(|_| is_ip)
}

pub(super) fn side(field: &str) -> Option<Side> {
    [Side::Source, Side::Destination].into_iter().find(|side| side.as_str() == field)
}

/// What a map has for the numbers of `numgen`.
pub(super) fn numgen<'a>(key: &Value, data: &'a Value) -> Option<Numgen<&'a Value>> {
    let (Value::Made(key), Value::Made(data)) = (key, data) else { return None };
    let (Made::Numgen { mode, modulus, offset: 0 }, Made::Set(pairs)) = (&**key, &**data) else { return None };
    Numgen::new(NumgenMode::of(mode)?, *modulus, pairs.iter().map(numbered).collect::<Option<_>>()?)
}

fn numbered(pair: &Value) -> Option<(RangeInclusive<u32>, &Value)> {
    let Value::List(pair) = pair else { return None };
    match pair.as_slice() {
        [Value::Number(number), value] => Some((*number..=*number, value)),
        [Value::Made(made), value] => match &**made {
            Made::Range([Value::Number(first), Value::Number(last)]) => Some((*first..=*last, value)),
            _ => None,
        },
        _ => None,
    }
}

/// `10.0.0.1 . 80`.
pub(super) fn socket(value: &Value) -> Option<SocketAddr> {
    match parts(value) {
        [ip, Value::Number(port)] => Some(SocketAddr::new(address(ip)?, u16::try_from(*port).ok()?)),
        _ => None,
    }
}
