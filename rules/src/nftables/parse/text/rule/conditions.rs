//! Conditions.

use std::net::IpAddr;

use ipnet::IpNet;

use super::super::super::super::statement::{Addresses, Condition, ConnectionState, LookupKey, Side, Statement};
use super::super::super::values;
use super::super::words::{Kind, Word};
use super::scalars::{number, ports, range};
use super::{Line, Part};
use crate::cluster::{Family, Protocol, ProtocolNumber};

impl<'a> Line<'_, 'a> {
    /// Behind `tcp` or `th`: `dport 80`, `sport != { 22, 80-90 }`.
    pub(super) fn ports(&mut self, protocol: Option<Protocol>) -> Option<Part> {
        let side = match self.next() {
            "sport" => Side::Source,
            "dport" => Side::Destination,
            _ => return None,
        };
        let negated = self.negation();
        let ports = self.several(|word| ports(word.text))?.into();
        Some(Condition::Ports { protocol, side, negated, ports }.into())
    }

    /// Behind `meta l4proto` or `ip protocol`.
    pub(super) fn protocols(&mut self) -> Option<Part> {
        let negated = self.negation();
        let numbers = self.several(|word| ProtocolNumber::parse(word.text).map(|protocol| protocol.0))?.into();
        Some(Condition::Protocols { negated, numbers }.into())
    }

    /// What starts with a key that the packet makes; none where no such key comes next.
    pub(super) fn keyed(&mut self) -> Option<Option<Part>> {
        let start = self.at;
        let mut key: Vec<LookupKey> = Vec::new();
        loop {
            let Some(part) = self.key_part() else {
                self.at = start;
                return None;
            };
            key.push(part);
            if !self.take(".") {
                break;
            }
        }
        if self.take("vmap") {
            return Some(values::set(self.next()).map(|map| Statement::Lookup(key, map).into()));
        }
        Some(match *key.as_slice() {
            [LookupKey::Address(side)] => self.addresses(side),
            [LookupKey::Protocol] => self.protocols(),
            [LookupKey::DestinationPort] if values::set(self.peek()).is_none() => {
                self.at = start + 1;
                self.ports(None)
            }
            _ => values::set(self.next()).map(|set| Condition::InSet(key, set).into()),
        })
    }

    fn key_part(&mut self) -> Option<LookupKey> {
        match (self.next(), self.next()) {
            ("ip" | "ip6", field) => values::side(field).map(LookupKey::Address),
            ("meta", "l4proto") => Some(LookupKey::Protocol),
            ("th", "dport") => Some(LookupKey::DestinationPort),
            _ => None,
        }
    }

    fn addresses(&mut self, side: Side) -> Option<Part> {
        let negated = self.negation();
        let value = if self.take("{") {
            let mut ranges = vec![range(self.next())?];
            while self.take(",") {
                ranges.push(range(self.next())?);
            }
            (self.next() == "}").then_some(Addresses::Ranges(ranges))?
        } else {
            let word = self.next();
            match (values::set(word), word.parse::<IpAddr>(), word.parse::<IpNet>()) {
                (Some(set), ..) => Addresses::Set(set),
                (None, Ok(address), _) => Addresses::One(address),
                (None, Err(_), Ok(prefix)) => Addresses::Prefix(prefix.trunc()),
                _ => Addresses::Ranges(vec![range(word)?]),
            }
        };
        Some(Condition::Address { side, negated, value }.into())
    }

    /// Takes `!=` or `==`.
    fn negation(&mut self) -> bool {
        let negated = self.take("!=");
        self.take("==");
        negated
    }

    pub(super) fn connection(&mut self) -> Option<Part> {
        match self.next() {
            "state" => {
                let negated = self.negation();
                let is_set = self.peek() == "{";
                let states =
                    self.several(|word| ConnectionState::ALL.into_iter().find(|state| word.text == state.as_str()))?;
                // `!= new,established` compares all bits at once, of which a packet has one only.
                let is_plain = !negated || is_set || states.len() == 1;
                is_plain.then_some(Condition::State { negated, states }.into())
            }
            "status" => (self.next() == "dnat" && self.peek() != ",").then_some(Condition::Translated.into()),
            _ => None,
        }
    }

    /// The key behind `meta`, a word that nft omits before some keys.
    pub(super) fn meta(&mut self, word: &str) -> Option<Part> {
        match word {
            "mark" => self.mark(),
            "iif" | "iifname" | "oif" | "oifname" => {
                let negated = self.negation();
                let names = self.several(|word| (word.kind != Kind::Sign).then(|| word.text.into()))?;
                let (output, by_name) = (word.starts_with('o'), word.ends_with("name"));
                Some(Condition::Interfaces { output, by_name, negated, names }.into())
            }
            "nfproto" => match self.next() {
                "ipv4" => Some(Condition::Family(Family::Ipv4).into()),
                "ipv6" => Some(Condition::Family(Family::Ipv6).into()),
                _ => None,
            },
            _ => None,
        }
    }

    fn mark(&mut self) -> Option<Part> {
        match self.next() {
            "&" | "and" => {
                let mask = number(self.next())?;
                let negated = self.negation();
                Some(Condition::Mark { negated, mask, value: number(self.next())? }.into())
            }
            "set" => self.mark_change().map(|change| Statement::Mark(change).into()),
            _ => {
                self.at -= 1;
                let negated = self.negation();
                let value = number(self.next())?;
                (self.peek() != ",").then_some(Condition::Mark { negated, mask: u32::MAX, value }.into())
            }
        }
    }

    /// `a`, `a,b`, `{ a, b }`: the values of a comparison.
    fn several<T>(&mut self, read: impl Fn(&Word<'a>) -> Option<T>) -> Option<Vec<T>> {
        let braces = self.take("{");
        let mut values = Vec::new();
        loop {
            values.push(self.words.get(self.at).and_then(&read)?);
            self.at += 1;
            if !self.take(",") {
                break;
            }
        }
        let is_whole = if braces { self.take("}") } else { self.peek() != "|" };
        is_whole.then_some(values)
    }
}
