//! Classes of packets to a few changes.

use std::collections::{BTreeMap, BTreeSet};

use svclab_rules::walk::{Packet, Transport};

use super::compare::Differing;
use super::known::{Known, known};
use super::outcome::{kind, words};
use super::side::Side;
use super::target::{Target, Targets};
use crate::scenario::Vantage;

/// A change for packets that are sent to the same kind of destination and treated alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// What the packets are sent to.
    pub(crate) target: Target,
    /// What became of them.
    pub was: String,
    /// What becomes of them.
    pub is: String,
    /// The services that they are sent to.
    pub services: BTreeSet<String>,
    /// The kinds of vantage points that send them, with their number: `3 pods`.
    pub origins: Vec<(String, usize)>,
    /// How many classes of packets change in this way.
    pub classes: usize,
    /// One of the packets; `None` where no first packet shows the change.
    pub example: Option<Example>,
    /// The rule of each side that decides about the example.
    pub rules: [Option<String>; 2],
    /// The release or mode that brings the change, where it can be told: `1.28`, `nftables mode`.
    pub since: Option<String>,
    /// The documented difference that it is.
    pub known: Option<Known>,
    /// Why it is accepted, if it is.
    pub accepted: Option<String>,
}

/// One of the packets of a change.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// Who sends it.
    pub from: Vantage,
    /// The node that an outside host hands it to.
    pub via: Option<String>,
    /// The packet.
    pub packet: Packet,
    /// All packets of its class, in words.
    pub class: String,
    /// What became of it, each outcome with its share.
    pub was: Vec<String>,
    /// What becomes of it.
    pub is: Vec<String>,
}

impl Change {
    /// A name for programs and for files of accepted changes: that of the documented difference, or one made of what changes, as
    /// `cluster-ip/delivered/rejected`.
    pub fn id(&self) -> String {
        if let Some(known) = self.known {
            return known.code.to_owned();
        }
        let word = |outcome: &str| {
            let words = outcome.split(", or ").map(|one| {
                let letters = one.replace(", ", "-").replace(' ', "-");
                letters.replace("delivered-to-an-endpoint", "delivered")
            });
            words.collect::<Vec<_>>().join("+")
        };
        format!("{}/{}/{}", self.target.code(), word(&self.was), word(&self.is))
    }
}

impl Example {
    /// Where the packet is sent, as `svclab explain --to` takes it.
    pub(crate) fn to(&self) -> String {
        let address = self.packet.destination;
        let to = match self.packet.transport.ports() {
            Some((_, port)) => std::net::SocketAddr::new(address, port).to_string(),
            None => address.to_string(),
        };
        self.via.as_ref().map_or(to.clone(), |node| format!("{to} by way of node/{node}"))
    }

    /// The protocol.
    pub(crate) fn protocol(&self) -> String {
        match self.packet.transport {
            Transport::Tcp { .. } => "tcp".to_owned(),
            Transport::Udp { .. } => "udp".to_owned(),
            Transport::Sctp { .. } => "sctp".to_owned(),
            Transport::Icmp { v6: false, .. } => "icmp".to_owned(),
            Transport::Icmp { v6: true, .. } => "icmpv6".to_owned(),
            Transport::Other(number) => format!("protocol {number}"),
        }
    }
}

/// Where the kind of outcome is the same, what differs.
const OTHER: &str = "other endpoints, shares or addresses";

/// Puts classes together that change by the same documented difference, or that are sent to the same kind of destination and change in the
/// same way; the most frequent change comes first.
pub(super) fn merge(differing: &[Differing], sides: [&Side<'_>; 2]) -> Vec<Change> {
    let targets = Targets::of(sides.map(|side| &side.scenario.cluster));
    let proxies = sides.map(|side| &side.scenario.cluster.proxy);
    let mut groups: BTreeMap<(Target, Result<Known, [String; 2]>), Group<'_>> = BTreeMap::new();
    for one in differing {
        let (target, service) = targets.find(&one.witness);
        let target = one.special().unwrap_or(target);
        let [was, is] = one.found.each_ref().map(|found| kind(found.as_ref(), &one.witness));
        let is = if was == is { format!("{is}, with {OTHER}") } else { is };
        let cause = known(target, [&was, &is], proxies).ok_or_else(|| [was.clone(), is.clone()]);
        let group = groups.entry((target, cause)).or_insert_with(|| Group::of(one));
        *group.outcomes.entry([was, is]).or_default() += 1;
        group.services.extend(service);
        group.origins.insert(one.from.to_string());
        group.classes += 1;
        // What an address stands for is easier to follow where the packet is of TCP and its sender is a machine of its own.
        if rank(one) < rank(group.example) {
            group.example = one;
        }
    }
    let changes = groups.into_iter().map(|((target, cause), group)| group.change(target, cause.ok()));
    let mut changes: Vec<Change> = changes.collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.classes));
    changes
}

impl Differing {
    /// The kind of packets that they are, whatever they are sent to: those that only a rule for invalid packets drops, and those from a
    /// loopback address to another one.
    fn special(&self) -> Option<Target> {
        let is_invalid = |rule: &String| rule.contains("--ctstate INVALID");
        if self.rules.iter().flatten().any(is_invalid) {
            return Some(Target::Invalid);
        }
        let leaves = matches!(self.from, Vantage::Localhost(_)) && !self.witness.destination.is_loopback();
        leaves.then_some(Target::FromLoopback)
    }
}

fn rank(one: &Differing) -> (bool, bool) {
    (!matches!(one.witness.transport, Transport::Tcp { .. }), one.via.is_some())
}

struct Group<'d> {
    services: BTreeSet<String>,
    origins: BTreeSet<String>,
    classes: usize,
    /// What became and becomes of them, with the number of classes.
    outcomes: BTreeMap<[String; 2], usize>,
    example: &'d Differing,
}

/// How many kinds of outcomes are listed.
const MOST_KINDS: usize = 3;

/// The most frequent words.
fn frequent(outcomes: &BTreeMap<[String; 2], usize>, side: usize) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (words, classes) in outcomes {
        *counts.entry(&words[side]).or_default() += classes;
    }
    let mut words: Vec<(&str, usize)> = counts.into_iter().collect();
    words.sort_by_key(|(_, classes)| std::cmp::Reverse(*classes));
    let more = if words.len() > MOST_KINDS { "; or else" } else { "" };
    let listed: Vec<&str> = words.into_iter().take(MOST_KINDS).map(|(words, _)| words).collect();
    format!("{}{more}", listed.join("; or "))
}

impl<'d> Group<'d> {
    fn of(example: &'d Differing) -> Self {
        Self { services: BTreeSet::new(), origins: BTreeSet::new(), classes: 0, outcomes: BTreeMap::new(), example }
    }

    fn change(self, target: Target, known: Option<Known>) -> Change {
        let Differing { from, via, region, witness, found, rules } = self.example;
        let mut origins: BTreeMap<String, usize> = BTreeMap::new();
        for name in &self.origins {
            let kind = name.split(['/', '@']).next().unwrap_or_default();
            *origins.entry(kind.to_owned()).or_default() += 1;
        }
        let example = Example {
            from: from.clone(),
            via: via.clone(),
            packet: *witness,
            class: region.to_string(),
            was: words(found[0].as_ref()),
            is: words(found[1].as_ref()),
        };
        Change {
            target,
            was: frequent(&self.outcomes, 0),
            is: frequent(&self.outcomes, 1),
            services: self.services,
            origins: origins.into_iter().collect(),
            classes: self.classes,
            example: Some(example),
            rules: rules.clone(),
            since: None,
            known,
            accepted: None,
        }
    }
}
