//! Extensions that rule sets keep as text, as far as they decide on a packet.

use std::net::IpAddr;
use std::sync::Arc;

use super::condition::{AddressTypes, Between, Condition, ConnectionPart, Conntrack, Field};
use crate::cluster::{Family, ProtocolNumber};
use crate::iptables::parse::values;
use crate::iptables::{Negatable, Other};
use crate::walk::{Direction, bits};

/// The condition of a match; nothing where it always holds.
pub(super) fn condition(other: &Other, family: Family) -> Option<Condition> {
    let options = options(&other.text);
    let known = match (&*other.name, &options) {
        ("limit", _) => Some(Condition::Limit),
        ("conntrack", Some(options)) => {
            conntrack(options, family).map(|options| Condition::Conntrack(Box::new(options)))
        }
        ("addrtype", Some(options)) => address_types(options).map(|types| Condition::AddressType(Box::new(types))),
        ("icmp", Some(options)) if family == Family::Ipv4 => icmp(options, &ICMP, false),
        ("icmp6" | "ipv6-icmp" | "icmpv6", Some(options)) => icmp(options, &ICMP6, true),
        ("iprange", Some(options)) => return Some(between(options, family).unwrap_or_else(|| unknown("match", other))),
        _ => None,
    };
    Some(known.unwrap_or_else(|| unknown("match", other)))
}

/// Says that an extension is not modelled.
pub(super) fn unknown(what: &str, other: &Other) -> Condition {
    Condition::Unknown(reason(what, other))
}

/// Why an extension cannot be evaluated.
pub(super) fn reason(what: &str, other: &Other) -> Arc<str> {
    let blank = if other.text.is_empty() { "" } else { " " };
    format!("{what} `{}{blank}{}` is not modelled", other.name, other.text).into()
}

/// An option: whether `!` stands before it, its name, its arguments.
pub(super) struct Opt<'a> {
    pub(super) negated: bool,
    pub(super) name: &'a str,
    pub(super) arguments: Vec<&'a str>,
}

/// The options of a text; nothing where there are quotes in it or words before the first option.
pub(super) fn options(text: &str) -> Option<Vec<Opt<'_>>> {
    let mut options: Vec<Opt<'_>> = Vec::new();
    let mut negated = false;
    for word in text.split_whitespace() {
        match word {
            "!" => negated = true,
            _ if word.contains(['"', '\'']) => return None,
            _ if word.starts_with("--") => {
                options.push(Opt { negated, name: word, arguments: Vec::new() });
                negated = false;
            }
            _ => options.last_mut()?.arguments.push(word),
        }
    }
    Some(options)
}

impl<'a> Opt<'a> {
    /// The only argument.
    pub(super) fn argument(&self) -> Option<&'a str> {
        match self.arguments[..] {
            [argument] => Some(argument),
            _ => None,
        }
    }
}

fn conntrack(options: &[Opt<'_>], family: Family) -> Option<Conntrack> {
    let mut conntrack = Conntrack::default();
    for option in options {
        let text = option.argument()?;
        let negated = option.negated;
        if option.name == "--ctstate" {
            conntrack.state = Some(Negatable { negated, value: values::states(text)? });
            continue;
        }
        let value = match option.name {
            "--ctproto" => ConnectionPart::Protocol(ProtocolNumber::parse(text)?.0),
            "--ctdir" => ConnectionPart::Direction(match text {
                "ORIGINAL" => Direction::Original,
                "REPLY" => Direction::Reply,
                _ => return None,
            }),
            name => tuple_part(name, text, family)?,
        };
        conntrack.parts.push(Negatable { negated, value });
    }
    Some(conntrack)
}

/// `--ctorigsrc 10.0.0.0/8`, `--ctrepldstport 80:90`.
fn tuple_part(name: &str, text: &str, family: Family) -> Option<ConnectionPart> {
    let (name, is_port) = name.strip_suffix("port").map_or((name, false), |name| (name, true));
    let (direction, source) = match name {
        "--ctorigsrc" => (Direction::Original, true),
        "--ctorigdst" => (Direction::Original, false),
        "--ctreplsrc" => (Direction::Reply, true),
        "--ctrepldst" => (Direction::Reply, false),
        _ => return None,
    };
    if is_port {
        return Some(ConnectionPart::Port { direction, source, range: values::ports(text, ':')? });
    }
    let all = u128::MAX >> (128 - family.bits());
    let (value, mask) = match text.split_once('/') {
        None => (number(text, family)?, all),
        Some((address, mask)) => {
            let by_length = |length: u32| all.checked_shl(u32::from(family.bits()) - length).unwrap_or(0) & all;
            let length = mask.parse().ok().filter(|length| *length <= u32::from(family.bits()));
            (number(address, family)?, length.map(by_length).or_else(|| number(mask, family))?)
        }
    };
    Some(ConnectionPart::Address { direction, source, value: value & mask, mask })
}

fn address_types(options: &[Opt<'_>]) -> Option<AddressTypes> {
    let mut types = AddressTypes::default();
    for option in options {
        let side = || {
            let bits = option
                .argument()?
                .split(',')
                .try_fold(0, |bits, word| Some(bits | 1 << values::route_type(word)? as u16));
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
    Some(types)
}

type IcmpNames = [(&'static str, u8, Option<u8>)];

/// Names of `iptables -p icmp -h` that are seen in practice.
const ICMP: [(&str, u8, Option<u8>); 13] = [
    ("echo-reply", 0, None),
    ("pong", 0, None),
    ("destination-unreachable", 3, None),
    ("network-unreachable", 3, Some(0)),
    ("host-unreachable", 3, Some(1)),
    ("port-unreachable", 3, Some(3)),
    ("fragmentation-needed", 3, Some(4)),
    ("source-quench", 4, None),
    ("redirect", 5, None),
    ("echo-request", 8, None),
    ("ping", 8, None),
    ("time-exceeded", 11, None),
    ("parameter-problem", 12, None),
];

/// The same of `ip6tables`.
const ICMP6: [(&str, u8, Option<u8>); 13] = [
    ("destination-unreachable", 1, None),
    ("no-route", 1, Some(0)),
    ("address-unreachable", 1, Some(3)),
    ("port-unreachable", 1, Some(4)),
    ("packet-too-big", 2, None),
    ("time-exceeded", 3, None),
    ("parameter-problem", 4, None),
    ("echo-request", 128, None),
    ("echo-reply", 129, None),
    ("router-solicitation", 133, None),
    ("router-advertisement", 134, None),
    ("neighbour-solicitation", 135, None),
    ("neighbour-advertisement", 136, None),
];

fn icmp(options: &[Opt<'_>], names: &IcmpNames, v6: bool) -> Option<Condition> {
    let [option] = options else { return None };
    if !matches!(option.name, "--icmp-type" | "--icmpv6-type") {
        return None;
    }
    let text = option.argument()?;
    if matches!((v6, text), (false, "any" | "255")) {
        let any = Condition::Protocol { negated: false, number: 1 };
        return Some(if option.negated { Condition::Never } else { any });
    }
    let american = text.replace("neighbor", "neighbour");
    let (kind, code) = match names.iter().find(|(name, ..)| *name == american) {
        Some((_, kind, code)) => (*kind, *code),
        None => {
            let (kind, code) = text.split_once('/').map_or((text, None), |(kind, code)| (kind, Some(code)));
            (kind.parse().ok()?, code.map(str::parse).transpose().ok()?)
        }
    };
    let (first, last) = code.map_or((0, u8::MAX), |code| (code, code));
    Some(Condition::Icmp { v6, negated: option.negated, kind, first, last })
}

fn between(options: &[Opt<'_>], family: Family) -> Option<Condition> {
    let [option] = options else { return None };
    let field = match option.name {
        "--src-range" => Field::Source,
        "--dst-range" => Field::Destination,
        _ => return None,
    };
    let text = option.argument()?;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first, family)?, number(last, family)?);
    Some(Condition::Between(Box::new(Between { field, negated: option.negated, first, last })))
}

/// The number of an address, of the family that the rules are for.
fn number(text: &str, family: Family) -> Option<u128> {
    let address: IpAddr = text.parse().ok()?;
    (Family::of(address) == family).then(|| bits(address))
}
