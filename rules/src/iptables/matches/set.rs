//! `set`: membership in an ipset.

use super::{Condition, Extension, Listed, Match, Parsed};
use crate::cluster::Family;
use crate::iptables::Negatable;
use crate::iptables::text::{Options, Printer};
use crate::walk::{Environment, Field, Held, Part, Trace, Walker, bits};

/// Options of `set`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpSet {
    /// The set's name.
    pub name: Box<str>,
    /// The directions of the lookup, as `dst,dst`.
    pub directions: Box<str>,
}

/// A lookup in a set, with the side of the packet for every dimension.
#[derive(Debug, Clone)]
pub(in crate::iptables) struct SetLookup {
    name: Box<str>,
    /// True for `src`.
    sources: Vec<bool>,
    negated: bool,
}

pub(super) const SET: Extension = Extension { name: "set", options: &["--match-set"], parse, parse_listed };

fn parse(options: &Options<'_>) -> Parsed {
    let Some(option) = options.iter().next() else { return Ok(None) };
    let (name, directions) = option.pair()?;
    let value = IpSet { name: name.into(), directions: directions.into() };
    Ok(Some(Match::Set(Box::new(Negatable { negated: option.negated, value }))))
}

/// `match-set KUBE-LOOP-BACK dst,dst`.
fn parse_listed(words: &[&str], negated: bool) -> Listed {
    let ["match-set", name, directions, ..] = *words else { return None };
    let value = IpSet { name: name.into(), directions: directions.into() };
    Some((Match::Set(Box::new(Negatable { negated, value })), 3))
}

impl Negatable<IpSet> {
    pub(super) fn print(&self, out: &mut Printer) {
        out.push(" -m set");
        out.option(" --match-set ", self.negated);
        out.push(&self.value.name);
        out.push(" ");
        out.push(&self.value.directions);
    }

    pub(super) fn compile(&self) -> Condition {
        let sources = self.value.directions.split(',').map(|word| match word {
            "src" => Some(true),
            "dst" => Some(false),
            _ => None,
        });
        match sources.collect() {
            Some(sources) => {
                let lookup = SetLookup { name: self.value.name.clone(), sources, negated: self.negated };
                Condition::Set(Box::new(lookup))
            }
            None => Condition::Unknown(format!("`set` with `{}` is not modelled", self.value.directions).into()),
        }
    }

    pub(super) fn explain(&self) -> String {
        format!("{}in the ipset {}", self.negation(), self.value.name)
    }
}

impl SetLookup {
    pub(super) fn holds<T: Trace>(&self, walker: &Walker<T>, environment: &Environment) -> Held {
        let Self { name, sources, negated } = self;
        let Some(set) = environment.sets.get(name) else {
            return Held::Unknown(format!("nothing is known of the ipset `{name}`").into());
        };
        let family = walker.packet.family();
        let fits = |part: &Part, source: bool| match *part {
            Part::Address(range) => {
                let field = if source { Field::Source } else { Field::Destination };
                Family::of(range.addr()) == family
                    && walker.is_between(field, bits(range.network()), bits(range.broadcast()))
            }
            Part::Port { protocol, first, last } => {
                let field = if source { Field::SourcePort } else { Field::DestinationPort };
                walker.ports().is_some()
                    && walker.is_protocol(&[protocol])
                    && walker.is_between(field, first.into(), last.into())
            }
        };
        // A set with more dimensions than directions given never matches (`ip_set_test` compares the dimensions).
        let found = set.entries.iter().any(|entry| {
            entry.len() <= sources.len() && entry.iter().zip(sources).all(|(part, source)| fits(part, *source))
        });
        (found ^ negated).into()
    }
}
