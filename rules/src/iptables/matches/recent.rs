//! `recent`: addresses seen before.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::{Condition, Extension, Listed, Match, Parsed};
use crate::cluster::Family;
use crate::iptables::Negatable;
use crate::iptables::text::{Options, Printer, values};
use crate::walk::{Edges, Effect, Field, Held, RecentLists, Trace, Walker, bits};

/// Options of `recent`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recent {
    /// The action on the list.
    pub action: Negatable<RecentAction>,
    /// `--seconds`: maximum age of entries.
    pub seconds: Option<u32>,
    /// `--reap`: purge older entries.
    pub reap: bool,
    /// `--hitcount`: at least this many entries.
    pub hit_count: Option<u32>,
    /// `--rttl`: the TTL must be the same.
    pub same_ttl: bool,
    /// `--name`.
    pub name: Arc<str>,
    /// `--mask`; all bits if omitted.
    pub mask: IpAddr,
    /// `--rdest` instead of `--rsource`.
    pub destination: bool,
}

/// The action of `recent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecentAction {
    /// `--set`: adds the address; always holds.
    Set,
    /// `--rcheck`: holds if the address is in the list.
    Check,
    /// `--update`: the same, and updates the time.
    Update,
    /// `--remove`: the same, and removes the address.
    Remove,
}

pub(super) const RECENT: Extension = Extension {
    name: "recent",
    options: &[
        "--set",
        "--rcheck",
        "--update",
        "--remove",
        "--seconds",
        "--reap",
        "--hitcount",
        "--rttl",
        "--name",
        "--mask",
        "--rsource",
        "--rdest",
    ],
    parse,
    parse_listed,
};

fn parse(options: &Options<'_>) -> Parsed {
    let all: IpAddr = match options.family {
        Family::Ipv4 => Ipv4Addr::BROADCAST.into(),
        Family::Ipv6 => Ipv6Addr::from_bits(u128::MAX).into(),
    };
    let mut action = None;
    let mut recent = Recent {
        action: Negatable::is(RecentAction::Set),
        seconds: None,
        reap: false,
        hit_count: None,
        same_ttl: false,
        name: "DEFAULT".into(),
        mask: all,
        destination: false,
    };
    for option in options.iter() {
        let number = || option.read("number", values::number).map(Some);
        let flag = |value| Some(Negatable { negated: option.negated, value });
        match option.name {
            "--set" => action = flag(RecentAction::Set),
            "--rcheck" => action = flag(RecentAction::Check),
            "--update" => action = flag(RecentAction::Update),
            "--remove" => action = flag(RecentAction::Remove),
            "--seconds" => recent.seconds = number()?,
            "--hitcount" => recent.hit_count = number()?,
            "--reap" => recent.reap = true,
            "--rttl" => recent.same_ttl = true,
            "--name" => recent.name = option.value()?.into(),
            "--mask" => recent.mask = option.read("mask", |text| text.parse().ok())?,
            "--rdest" => recent.destination = true,
            _ => recent.destination = false,
        }
    }
    Ok(action.map(|action| Match::Recent(Box::new(Recent { action, ..recent }))))
}

/// The most words that it prints after `recent:`.
const MOST_WORDS: usize = 13;

/// `recent: CHECK seconds: 10800 reap name: NAME side: source mask: 255.255.255.255`.
fn parse_listed(words: &[&str], negated: bool) -> Listed {
    let words = words.strip_prefix(&["recent:"])?;
    let words = &words[..words.len().min(MOST_WORDS)];
    let action = match *words.first()? {
        "SET" => RecentAction::Set,
        "CHECK" => RecentAction::Check,
        "UPDATE" => RecentAction::Update,
        "REMOVE" => RecentAction::Remove,
        _ => return None,
    };
    let at = |key: &str| words.iter().position(|word| *word == key);
    let value = |key: &str| at(key).and_then(|at| words.get(at + 1)).copied();
    let mask = value("mask:").and_then(|mask| mask.parse().ok());
    // `--name` does not accept an option as a name, and iptables-save prints it without quotes.
    let name = value("name:").filter(|name| !name.starts_with(['-', '!']) && !name.contains(['"', '\'', '\\']))?;
    let recent = Recent {
        action: Negatable { negated, value: action },
        seconds: value("seconds:").and_then(|seconds| seconds.parse().ok()),
        reap: words.contains(&"reap"),
        hit_count: value("hit_count:").and_then(|count| count.parse().ok()),
        same_ttl: words.contains(&"TTL-Match"),
        name: name.into(),
        mask: mask.unwrap_or(IpAddr::from([255; 4])),
        destination: value("side:") == Some("dest"),
    };
    let last = at("mask:").or_else(|| at("side:")).or_else(|| at("name:"));
    Some((Match::Recent(Box::new(recent)), last.map_or(2, |at| at + 3)))
}

impl Recent {
    pub(super) fn print(&self, out: &mut Printer) {
        out.push(" -m recent");
        let action = match self.action.value {
            RecentAction::Set => " --set",
            RecentAction::Check => " --rcheck",
            RecentAction::Update => " --update",
            RecentAction::Remove => " --remove",
        };
        out.option(action, self.action.negated);
        if let Some(seconds) = self.seconds {
            out.push(" --seconds ");
            out.number(u64::from(seconds));
        }
        out.flag(" --reap", self.reap);
        if let Some(count) = self.hit_count {
            out.push(" --hitcount ");
            out.number(u64::from(count));
        }
        out.flag(" --rttl", self.same_ttl);
        out.push(" --name ");
        out.push(&self.name);
        out.push(" --mask ");
        out.address(self.mask);
        out.push(if self.destination { " --rdest" } else { " --rsource" });
    }

    pub(super) fn compile(&self) -> Condition {
        if self.same_ttl && self.action.value != RecentAction::Set {
            return Condition::Unknown("`recent --rttl` depends on the TTL, which is not modelled".into());
        }
        Condition::Recent(Box::new(self.clone()))
    }

    /// `recent_mt` in `xt_recent.c`. `--reap` only frees entries that have expired anyway.
    pub(super) fn holds<T: Trace>(&self, walker: &mut Walker<T>, lists: &RecentLists) -> Held {
        let side = if self.destination { walker.packet.destination } else { walker.packet.source };
        let address = RecentLists::key(side, self.mask);
        if let unknown @ Held::Unknown(_) = self.split_by_entries(walker, side, lists) {
            return unknown;
        }
        let found = || self.ages(walker, address, lists);
        let list = || self.name.clone();
        let negated = self.action.negated;
        match self.action.value {
            RecentAction::Set => {
                walker.effects.push(Effect::Add { list: list(), address });
                (!negated).into()
            }
            RecentAction::Remove => {
                let found = found().is_some();
                if found {
                    walker.effects.push(Effect::Remove { list: list(), address });
                }
                (found ^ negated).into()
            }
            RecentAction::Check | RecentAction::Update => {
                let Some(ages) = found() else { return negated.into() };
                let young = ages.iter().filter(|age| self.seconds.is_none_or(|seconds| **age <= seconds)).count();
                let holds = (young >= self.hit_count.unwrap_or(1).max(1) as usize) ^ negated;
                if holds && self.action.value == RecentAction::Update {
                    walker.effects.push(Effect::Add { list: list(), address });
                }
                holds.into()
            }
        }
    }

    /// Splits a set of packets by the addresses in the list, each separately because entries differ in age. Addresses that this walk added
    /// are in the list for all packets of the set.
    fn split_by_entries<T: Trace>(&self, walker: &Walker<T>, side: IpAddr, lists: &RecentLists) -> Held {
        let field = if self.destination { Field::Destination } else { Field::Source };
        if self.action.value == RecentAction::Set || !walker.trace.is_open(field, bits(side)) {
            return Held::Yes;
        }
        let width = walker.packet.family().bits();
        for added in lists.addresses(&self.name) {
            let held = walker.is_masked(field, bits(side), added & bits(self.mask), bits(self.mask), width);
            if matches!(held, Held::Yes | Held::Unknown(_)) {
                return held;
            }
        }
        Held::Yes
    }

    /// Returns the ages of the list's entry for an address, including changes made earlier by this packet.
    fn ages<T: Trace>(&self, walker: &Walker<T>, address: IpAddr, lists: &RecentLists) -> Option<Vec<u32>> {
        let before = lists.entry(&self.name, address).map(|entry| entry.ages.clone());
        walker.effects.iter().fold(before, |ages, effect| match effect {
            Effect::Add { list, address: added } if *list == self.name && *added == address => {
                Some(ages.into_iter().flatten().chain([0]).collect())
            }
            Effect::Remove { list, address: gone } if *list == self.name && *gone == address => None,
            _ => ages,
        })
    }

    /// Returns whether it changes what later rules see.
    pub(super) fn has_effect(&self) -> bool {
        self.action.value != RecentAction::Check
    }

    pub(super) fn edges(&self, edges: &mut Edges) {
        edges.history |= self.action.value != RecentAction::Set;
    }

    pub(super) fn explain(&self) -> String {
        let list = &self.name;
        let within = self.seconds.map(|seconds| format!(" (last {seconds} s)")).unwrap_or_default();
        match (self.action.value, self.action.negated) {
            (RecentAction::Set, _) => format!("adding its address to the recent list {list}"),
            (_, false) => format!("from an address that is in the recent list {list}{within}"),
            (_, true) => format!("from an address that is not in the recent list {list}{within}"),
        }
    }
}
