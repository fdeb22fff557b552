//! Groups of classes to a few changes.

use std::collections::{BTreeMap, BTreeSet};

use svclab_rules::cluster::ProxyConfig;

use super::fate::Contrast;
use super::group::{Example, Group, Key};
use super::known::{Known, known};
use super::live::Live;
use super::release::Boundary;
use super::target::Target;

/// A change: of packets that change by the same documented difference or release, or that are sent to the same kind of destination and change
/// in the same way.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// What the packets are sent to, the most frequent first.
    pub(crate) targets: Vec<Target>,
    /// What became and becomes of them, the most frequent first.
    pub outcomes: Vec<OutcomeChange>,
    /// The services that they are sent to.
    pub services: BTreeSet<String>,
    /// The kinds of vantage points that send them, with their number: `3 pods`.
    pub origins: Vec<(String, usize)>,
    /// How many classes of packets change in this way.
    pub classes: usize,
    /// One of the packets; `None` where no first packet shows the change.
    pub example: Option<Example>,
    /// The release or mode that brings the change, where it can be told.
    pub(crate) since: Option<Boundary>,
    /// The documented difference that it is.
    pub known: Option<Known>,
    /// Why it is accepted, if it is.
    pub accepted: Option<String>,
    /// What the kernel did with the example, where it was sent.
    pub live: Option<Live>,
}

/// What became of packets, and what becomes of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeChange {
    /// What became and becomes of them.
    pub(crate) contrast: Contrast,
    /// How many classes of packets.
    pub classes: usize,
}

/// What a change is to those whose packets change, the gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gravity {
    /// Packets are not delivered any more.
    Lost,
    /// They are delivered otherwise.
    Otherwise,
    /// They are delivered now.
    Gained,
    /// They are lost in another way.
    LostOtherwise,
}

impl Change {
    /// A name for programs and for files of accepted changes: that of the documented difference; or the release or mode with what packets are
    /// sent to; or one made of what changes, as `cluster-ip/delivered/rejected`.
    pub fn id(&self) -> String {
        if let Some(known) = self.known {
            return known.code.to_owned();
        }
        let target = self.targets.first().map_or("", |target| target.code());
        if let Some(since) = &self.since {
            return format!("{}/{target}", since.code());
        }
        let contrast = self.outcomes.first().map(|first| first.contrast.code()).unwrap_or_default();
        format!("{target}/{contrast}")
    }

    pub(super) fn gravity(&self) -> Gravity {
        let of = |OutcomeChange { contrast, .. }: &OutcomeChange| match (
            contrast.was.are_delivered(),
            contrast.is.are_delivered(),
        ) {
            (true, false) => Gravity::Lost,
            (true, true) => Gravity::Otherwise,
            (false, true) => Gravity::Gained,
            (false, false) => Gravity::LostOtherwise,
        };
        self.outcomes.iter().map(of).min().unwrap_or(Gravity::LostOtherwise)
    }
}

/// What makes groups one change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    Known(Known),
    /// A release or mode, for packets of a kind.
    Boundary(Boundary, Target),
    /// The objects, for packets of a kind that change in the same way.
    Objects(Target, Contrast),
}

/// Puts groups together by what causes them. Changes come first that make packets get lost, and of these those of most classes.
pub(super) fn merge(
    groups: BTreeMap<Key, Group>,
    boundaries: Vec<Option<Boundary>>,
    proxies: [&ProxyConfig; 2],
) -> Vec<Change> {
    let mut merged: BTreeMap<Cause, Merged> = BTreeMap::new();
    for ((key, group), boundary) in groups.into_iter().zip(boundaries) {
        let target = key.shown();
        let cause = match (known(&key, boundary.as_ref(), proxies), boundary) {
            (Some(known), boundary) => (Cause::Known(known), boundary),
            (None, Some(boundary)) => (Cause::Boundary(boundary.clone(), target), Some(boundary)),
            (None, None) => (Cause::Objects(target, key.contrast.clone()), None),
        };
        let entry = merged.entry(cause.0).or_insert_with(|| Merged::of(cause.1, group.example.clone()));
        entry.add(&key, target, group);
    }
    let changes = merged.into_iter().map(|(cause, merged)| merged.change(matching_known(&cause)));
    let mut changes: Vec<Change> = changes.collect();
    changes.sort_by_key(|change| (change.gravity(), std::cmp::Reverse(change.classes)));
    changes
}

fn matching_known(cause: &Cause) -> Option<Known> {
    match cause {
        Cause::Known(known) => Some(*known),
        Cause::Boundary(..) | Cause::Objects(..) => None,
    }
}

impl Key {
    /// What a change says that packets are sent to: packets in the state INVALID are of a kind of their own, whatever they are sent to, and so
    /// are those from a loopback address that no service claims.
    fn shown(&self) -> Target {
        match self.target {
            _ if self.is_invalid => Target::Invalid,
            Target::Elsewhere | Target::Node if self.leaves_loopback => Target::FromLoopback,
            target => target,
        }
    }
}

/// Groups of one cause.
struct Merged {
    boundary: Option<Boundary>,
    targets: BTreeMap<Target, usize>,
    outcomes: BTreeMap<Contrast, usize>,
    services: BTreeSet<String>,
    origins: BTreeSet<String>,
    classes: usize,
    example: Example,
}

impl Merged {
    fn of(boundary: Option<Boundary>, example: Example) -> Self {
        Self {
            boundary,
            targets: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            services: BTreeSet::new(),
            origins: BTreeSet::new(),
            classes: 0,
            example,
        }
    }

    fn add(&mut self, key: &Key, target: Target, group: Group) {
        *self.targets.entry(target).or_default() += group.classes;
        *self.outcomes.entry(key.contrast.clone()).or_default() += group.classes;
        self.services.extend(group.services.iter().map(ToString::to_string));
        self.origins.extend(group.origins);
        self.classes += group.classes;
        if group.example.rank < self.example.rank {
            self.example = group.example;
        }
    }

    fn change(self, known: Option<Known>) -> Change {
        let mut origins: BTreeMap<String, usize> = BTreeMap::new();
        for name in &self.origins {
            let kind = name.split(['/', '@']).next().unwrap_or_default();
            *origins.entry(kind.to_owned()).or_default() += 1;
        }
        let outcomes = frequent(self.outcomes).into_iter();
        Change {
            targets: frequent(self.targets).into_iter().map(|(target, _)| target).collect(),
            outcomes: outcomes.map(|(contrast, classes)| OutcomeChange { contrast, classes }).collect(),
            services: self.services,
            origins: origins.into_iter().collect(),
            classes: self.classes,
            example: Some(self.example),
            since: self.boundary,
            known,
            accepted: None,
            live: None,
        }
    }
}

fn frequent<T: Ord>(counts: BTreeMap<T, usize>) -> Vec<(T, usize)> {
    let mut counts: Vec<(T, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, classes)| std::cmp::Reverse(*classes));
    counts
}
