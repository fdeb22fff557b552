//! `icmp` and `icmp6`: the type and code of an ICMP packet. Rule sets keep their options as text.

use super::Condition;
use crate::iptables::text::KeptOption;
use crate::walk::{Field, Held, Trace, Walker};

/// A type, and a range of its codes.
#[derive(Debug, Clone, Copy)]
pub(in crate::iptables) struct IcmpType {
    v6: bool,
    negated: bool,
    kind: u8,
    first: u8,
    last: u8,
}

type Names = [(&'static str, u8, Option<u8>)];

/// Names of `iptables -p icmp -h` that are common in practice.
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

/// The types of `ip6tables`.
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

/// Compiles options that are kept as text.
pub(super) fn compile(options: &[KeptOption<'_>], v6: bool) -> Option<Condition> {
    let [option] = options else { return None };
    if !matches!(option.name, "--icmp-type" | "--icmpv6-type") {
        return None;
    }
    let text = option.argument()?;
    if matches!((v6, text), (false, "any" | "255")) {
        let any = Condition::Protocol { negated: false, number: 1 };
        return Some(if option.negated { Condition::Never } else { any });
    }
    let names: &Names = if v6 { &ICMP6 } else { &ICMP };
    let american = text.replace("neighbor", "neighbour");
    let (kind, code) = match names.iter().find(|(name, ..)| *name == american) {
        Some((_, kind, code)) => (*kind, *code),
        None => {
            let (kind, code) = text.split_once('/').map_or((text, None), |(kind, code)| (kind, Some(code)));
            (kind.parse().ok()?, code.map(str::parse).transpose().ok()?)
        }
    };
    let (first, last) = code.map_or((0, u8::MAX), |code| (code, code));
    Some(Condition::Icmp(IcmpType { v6, negated: option.negated, kind, first, last }))
}

impl IcmpType {
    pub(super) fn holds<T: Trace>(self, walker: &Walker<T>) -> Held {
        // There are no packets of the other family's ICMP here.
        let is_own = walker.packet.destination.is_ipv6() == self.v6;
        if !walker.is_protocol(&[if self.v6 { 58 } else { 1 }]) || !is_own {
            return Held::No;
        }
        let number = |code: u8| u128::from(self.kind) << 8 | u128::from(code);
        (walker.is_between(Field::Icmp, number(self.first), number(self.last)) ^ self.negated).into()
    }
}
