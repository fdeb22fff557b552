//! Statements of rules. Statements with several forms have a file with their parsing, printing and compilation.
//!
//! A [`Statement`] is the value in a rule; an [`Action`] is its compiled form.

mod mark;
mod nat;
mod reject;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub use self::mark::MarkChange;
use super::conditions::names_interface_index;
use super::key::{LookupKey, Side};
use super::name::Name;
use super::numgen::{Draws, Numgen};
use super::positions::Positions;
use super::text::{Line, family};
use super::unmodelled;
use super::verdict::Verdict;
use crate::cluster::Family;
use crate::walk::{Destination, Hook, RejectResponse, Source, SourceAddress};

/// A statement of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// Ends the rule with a verdict.
    Verdict(Verdict),
    /// `reject`: the sender gets an error, ICMP port unreachable by default.
    Reject(RejectResponse),
    /// `ip daddr . meta l4proto . th dport vmap @map`: the verdict of a map for the packet, if any.
    Lookup(Vec<LookupKey>, Name),
    /// `numgen random mod 2 vmap { 0 : goto a, 1 : goto b }`: one of several verdicts. Kube-proxy writes chains only.
    Balance(Numgen<Verdict>),
    /// `dnat ip to numgen random mod 2 map { 0 : 10.0.0.1 . 80, 1 : 10.0.0.2 . 80 }`: one of several destinations.
    BalanceDnat(Numgen<SocketAddr>),
    /// `dnat to 10.0.0.1:80`.
    Dnat(SocketAddr),
    /// `dnat to 10.0.0.1`: the port is kept.
    DnatAddress(IpAddr),
    /// `snat to 10.0.0.1`, or `snat to 10.0.0.1:80`.
    Snat(IpAddr, Option<u16>),
    /// `masquerade`.
    Masquerade {
        /// Whether the port is chosen at random: `fully-random`.
        random: bool,
    },
    /// `meta mark set meta mark | 0x00004000`.
    Mark(MarkChange),
    /// `update @set { ip saddr }`: one of the packet's addresses is added to a set, and its timeout restarts.
    Remember(Side, Name),
    /// A statement that is not modelled, or a condition after a statement, as text. In nft's own text, it includes the rest of the rule,
    /// with any conditions.
    Other(Box<str>),
}

/// A statement of a compiled rule.
#[derive(Debug, Clone)]
pub(super) enum Action {
    Verdict(Verdict<u32>),
    Reject(RejectResponse),
    /// The verdict of a map, by position, for the packet's key; without one, the rule ends.
    Lookup {
        key: Box<[LookupKey]>,
        map: u32,
    },
    /// One of these verdicts.
    Balance(Box<Draws<Verdict<u32>>>),
    /// One of these destinations.
    Dnat(Box<Draws<Destination>>),
    Snat(Source),
    /// The bits of the mask are cleared in the mark, then those of the value flipped.
    Mark {
        mask: u32,
        value: u32,
    },
    /// One of the packet's addresses is added to a list.
    Remember(Side, Arc<str>),
    /// Not modelled, for the given reason.
    Unknown(Arc<str>),
}

/// Parses the next statement; nothing if it is not modelled.
pub(super) fn parse(line: &mut Line<'_, '_>) -> Option<Statement> {
    if let Some(found) = line.attempt(parse_lookup) {
        return Some(found);
    }
    match line.next() {
        "numgen" => {
            Numgen::parse("vmap", line, |line| Verdict::parse(line.next(), || line.next())).map(Statement::Balance)
        }
        "dnat" => nat::parse_dnat(line),
        "snat" => nat::parse_snat(line),
        "masquerade" => nat::parse_masquerade(line),
        "reject" => reject::parse(line),
        "update" => parse_update(line),
        "meta" => (line.take("mark") && line.take("set")).then(|| mark::parse(line))?,
        "mark" => line.take("set").then(|| mark::parse(line))?,
        word => Verdict::parse(word, || line.next()).map(Statement::Verdict),
    }
}

/// `ip daddr . meta l4proto . th dport vmap @map`.
fn parse_lookup(line: &mut Line<'_, '_>) -> Option<Statement> {
    let key = LookupKey::parse(line)?;
    line.take("vmap").then_some(())?;
    Some(Statement::Lookup(key, Name::from_reference(line.next())?))
}

/// Parses what follows `update`: `@set { ip saddr }`.
fn parse_update(line: &mut Line<'_, '_>) -> Option<Statement> {
    let set = Name::from_reference(line.next())?;
    let words = [line.next(), line.next(), line.next(), line.next()];
    let ["{", "ip" | "ip6", side, "}"] = words else { return None };
    Some(Statement::Remember(Side::parse(side)?, set))
}

impl Statement {
    /// Returns the chains that it names.
    pub(crate) fn chains(&self) -> impl Iterator<Item = &Name> {
        let verdicts: &[Verdict] = match self {
            Self::Verdict(verdict) => std::slice::from_ref(verdict),
            Self::Balance(verdicts) => verdicts,
            _ => &[],
        };
        verdicts.iter().filter_map(Verdict::chain)
    }

    /// Returns whether it contains a condition on an interface index, so that the interface must exist when the rule is loaded.
    pub(crate) fn needs_interface(&self) -> bool {
        matches!(self, Self::Other(text) if names_interface_index(text))
    }

    /// Returns the names of the sets whose keys it changes.
    pub(super) fn changed_sets(&self) -> Vec<&str> {
        match self {
            Self::Remember(_, set) => vec![set],
            Self::Other(text) => unmodelled::changed_sets(text),
            _ => Vec::new(),
        }
    }

    /// Returns the set or map that it uses, with the key.
    pub(super) fn set(&self) -> Option<(&Name, Vec<LookupKey>)> {
        match self {
            Self::Lookup(key, map) => Some((map, key.clone())),
            Self::Remember(side, set) => Some((set, vec![LookupKey::Address(*side)])),
            _ => None,
        }
    }

    /// Returns the family of the packets that it translates, if it translates to an address: those of the other family pass it, as in
    /// `inet` tables (`nft_nat_inet_eval`).
    pub(super) fn translated_family(&self) -> Option<Family> {
        let address = match self {
            Self::Dnat(to) => to.ip(),
            Self::DnatAddress(to) | Self::Snat(to, _) => *to,
            Self::BalanceDnat(destinations) => destinations.first()?.ip(),
            _ => return None,
        };
        Some(Family::of(address))
    }

    /// Returns the hooks at which it is allowed, if not at all of them, and whether it needs a chain of type `nat`
    /// (`nft_nat_validate`, `nft_masq_validate`, `nft_reject_validate`).
    pub(super) fn restriction(&self) -> Option<(&'static str, &'static [Hook], bool)> {
        Some(match self {
            Self::Dnat(_) | Self::DnatAddress(_) | Self::BalanceDnat(_) => {
                ("dnat", &[Hook::Prerouting, Hook::Output], true)
            }
            Self::Masquerade { .. } => ("masquerade", &[Hook::Postrouting], true),
            Self::Snat(..) => ("snat", &[Hook::Input, Hook::Postrouting], true),
            Self::Reject(_) => ("reject", &[Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Output], false),
            _ => return None,
        })
    }

    pub(super) fn print(&self, out: &mut String, ip: Family) {
        match self {
            Self::Verdict(verdict) => verdict.print(out),
            Self::Reject(response) => reject::print(*response, out, ip),
            Self::Lookup(key, map) => {
                LookupKey::print(key, out, ip);
                out.extend([" vmap @", &**map]);
            }
            Self::Balance(verdicts) => verdicts.print("vmap", out, ToString::to_string),
            Self::BalanceDnat(destinations) => nat::print_balance(destinations, out, ip),
            Self::Dnat(to) => nat::print("dnat", to.ip(), Some(to.port()), out, ip),
            Self::DnatAddress(to) => nat::print("dnat", *to, None, out, ip),
            Self::Snat(address, port) => nat::print("snat", *address, *port, out, ip),
            Self::Masquerade { random } => out.push_str(if *random { "masquerade fully-random" } else { "masquerade" }),
            Self::Mark(change) => change.print(out),
            Self::Remember(side, set) => out.extend(["update @", &**set, " { ", family(ip), " ", side.as_str(), " }"]),
            Self::Other(text) => out.push_str(text),
        }
    }

    pub(super) fn compile(&self, at: &Positions<'_>) -> Action {
        match self {
            Self::Verdict(verdict) => Action::Verdict(at.verdict(verdict)),
            Self::Reject(response) => Action::Reject(*response),
            Self::Lookup(key, map) => match at.sets.get(&**map) {
                Some(position) => Action::Lookup { key: key.as_slice().into(), map: *position },
                None => Action::Unknown(format!("map {map} is not in these rules").into()),
            },
            Self::Balance(verdicts) => Action::Balance(Box::new(Draws::of(verdicts, |verdict| at.verdict(verdict)))),
            Self::BalanceDnat(destinations) => nat::compile_balance(destinations),
            Self::Dnat(to) => nat::compile_dnat(to.ip(), Some(to.port())),
            Self::DnatAddress(to) => nat::compile_dnat(*to, None),
            Self::Snat(address, port) => nat::compile_snat(SourceAddress::Fixed(*address), *port, false),
            Self::Masquerade { random } => nat::compile_snat(SourceAddress::Masquerade, None, *random),
            Self::Mark(change) => change.compile(),
            Self::Remember(side, set) => Action::Remember(*side, at.list(set)),
            Self::Other(text) => Action::Unknown(format!("statement `{text}` is not modelled").into()),
        }
    }
}

impl Action {
    /// Returns the number of draws for which its map has a value, if it lacks some: for the others, the rule does not match.
    pub(super) fn matching(&self, counted: bool) -> Option<(u32, u64)> {
        match self {
            Self::Balance(verdicts) => verdicts.lacking(counted),
            Self::Dnat(destinations) => destinations.lacking(counted),
            _ => None,
        }
    }

    /// Returns the number of random choices.
    pub(super) fn choices(&self) -> u64 {
        match self {
            Self::Balance(verdicts) => verdicts.len().max(1) as u64,
            Self::Dnat(destinations) => destinations.len().max(1) as u64,
            _ => 1,
        }
    }
}
