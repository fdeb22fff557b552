//! Groups of classes to a few changes.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

use svclab_rules::cluster::ProxyConfig;

use super::fate::{Contrast, Delivered};
use super::group::{Example, Group, Key};
use super::known_differences::{Known, known};
use super::live_result::Live;
use super::release::{Boundary, ChangedAt};
use super::target::Target;
use crate::scenario::{Vantage, VantageKind};

/// A change: of packets that change by the same documented difference or release, or that are sent to the same kind of destination and change
/// in the same way.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// What the packets are sent to, the most frequent first.
    pub(crate) targets: Vec<Target>,
    /// The outcome of them before and after: the gravest first, and of these the most frequent.
    pub outcomes: Vec<OutcomeChange>,
    /// The services that they are sent to.
    pub services: BTreeSet<String>,
    /// The kinds of vantage points that send them, with their number: `3 pods`.
    pub(crate) origins: Vec<(VantageKind, usize)>,
    /// How many classes of packets change in this way.
    pub classes: usize,
    /// One of the packets; `None` where no first packet shows the change.
    pub example: Option<Example>,
    /// The release or mode that brings the change, where it is known.
    pub(crate) since: Option<Boundary>,
    /// The documented cause.
    pub known: Option<Known>,
    /// The later releases or modes that change some of the packets once more.
    pub(crate) then: Vec<Again>,
    /// Why it is accepted, if it is.
    pub accepted: Option<String>,
    /// What the kernel did with the example, where it was sent.
    pub live: Option<Live>,
}

/// The outcome of packets before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeChange {
    /// The outcome of them before and after.
    pub(crate) contrast: Contrast,
    /// How many classes of packets.
    pub classes: usize,
}

/// A release or mode that changes once more what an earlier one has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Again {
    /// The release or mode.
    pub(crate) since: Boundary,
    /// The documented cause.
    pub(crate) known: Option<Known>,
    /// How many classes of packets.
    pub(crate) classes: usize,
}

/// What a change is to those whose packets change, the gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gravity {
    /// Packets that were delivered are not delivered any more, or fewer of them.
    Lost,
    /// They are delivered otherwise.
    Otherwise,
    /// Packets that were lost are delivered now, or more of them.
    Gained,
    /// They were lost, and are lost in another way.
    LostOtherwise,
}

impl Gravity {
    pub(super) fn of(contrast: &Contrast) -> Self {
        let (was, is) = (contrast.was.delivered(), contrast.is.delivered());
        match is.cmp(&was) {
            Ordering::Less => Self::Lost,
            Ordering::Greater => Self::Gained,
            Ordering::Equal if was == Delivered::None => Self::LostOtherwise,
            Ordering::Equal => Self::Otherwise,
        }
    }
}

/// What is shown first: what is graver, and of that what differs by more than the endpoint or the machine.
fn weight(contrast: &Contrast) -> (Gravity, bool) {
    (Gravity::of(contrast), !contrast.aspects.is_empty())
}

/// Who sends the packets of a change, those first whom most people would miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// Pods or outside hosts, as the clients of services are.
    Clients,
    /// Processes of nodes.
    Nodes,
    /// Processes of nodes, from a loopback address.
    Loopback,
    /// Whoever sends segments of connections that conntrack does not know: asymmetric routes and attacks.
    Unconnected,
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

    /// The gravity of its gravest outcome.
    pub(super) fn gravity(&self) -> Gravity {
        let of_outcomes = self.outcomes.iter().map(|one| Gravity::of(&one.contrast));
        of_outcomes.min().unwrap_or(Gravity::LostOtherwise)
    }

    /// How many classes of packets are lost, gained or handled differently, as its gravity says.
    pub(super) fn grave_classes(&self) -> usize {
        let gravity = self.gravity();
        let grave = self.outcomes.iter().filter(|one| Gravity::of(&one.contrast) == gravity);
        grave.map(|one| one.classes).sum()
    }

    fn reach(&self) -> Reach {
        let is_from = |wanted: VantageKind| self.origins.iter().any(|(kind, _)| *kind == wanted);
        if self.targets == [Target::Invalid] {
            Reach::Unconnected
        } else if is_from(VantageKind::Pod) || is_from(VantageKind::Host) {
            Reach::Clients
        } else if is_from(VantageKind::Node) {
            Reach::Nodes
        } else {
            Reach::Loopback
        }
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

/// Puts groups together by what causes them. Changes come first that make packets get lost, and of these those that clients notice, and
/// then those of most classes.
pub(super) fn merge(
    groups: BTreeMap<Key, Group>,
    boundaries: Vec<Vec<ChangedAt>>,
    proxies: [&ProxyConfig; 2],
) -> Vec<Change> {
    let mut merged: BTreeMap<Cause, Merged> = BTreeMap::new();
    for ((key, group), boundaries) in groups.into_iter().zip(boundaries) {
        let target = key.shown();
        let mut boundaries = boundaries.into_iter();
        let since = boundaries.next().map(|first| first.boundary);
        let cause = match (known(&key, since.as_ref(), proxies), &since) {
            (Some(known), _) => Cause::Known(known),
            (None, Some(boundary)) => Cause::Boundary(boundary.clone(), target),
            (None, None) => Cause::Objects(target, key.contrast.clone()),
        };
        let entry = merged.entry(cause).or_insert_with(|| Merged::of(since, &key, group.example.clone()));
        for ChangedAt { step, boundary } in boundaries {
            let known = known(&key, Some(&boundary), proxies);
            let again = entry.then.entry(step).or_insert(Again { since: boundary, known, classes: 0 });
            again.known = again.known.or(known);
            again.classes += group.classes;
        }
        entry.add(&key, target, group);
    }
    let mut changes: Vec<Change> = merged.into_iter().map(|(cause, merged)| merged.change(cause.known())).collect();
    changes.sort_by_key(|change| (change.gravity(), change.reach(), Reverse(change.classes)));
    changes
}

impl Cause {
    fn known(&self) -> Option<Known> {
        match self {
            Self::Known(known) => Some(*known),
            Self::Boundary(..) | Self::Objects(..) => None,
        }
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
    since: Option<Boundary>,
    /// What changes them once more, by its step.
    then: BTreeMap<usize, Again>,
    targets: BTreeMap<Target, usize>,
    outcomes: BTreeMap<Contrast, usize>,
    services: BTreeSet<String>,
    origins: BTreeSet<Vantage>,
    classes: usize,
    /// One of the packets of the gravest outcome, with its weight.
    example: ((Gravity, bool), Example),
}

impl Merged {
    fn of(since: Option<Boundary>, key: &Key, example: Example) -> Self {
        Self {
            since,
            then: BTreeMap::new(),
            targets: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            services: BTreeSet::new(),
            origins: BTreeSet::new(),
            classes: 0,
            example: (weight(&key.contrast), example),
        }
    }

    fn add(&mut self, key: &Key, target: Target, group: Group) {
        *self.targets.entry(target).or_default() += group.classes;
        *self.outcomes.entry(key.contrast.clone()).or_default() += group.classes;
        self.services.extend(group.services.iter().map(ToString::to_string));
        self.origins.extend(group.origins);
        self.classes += group.classes;
        let weight = weight(&key.contrast);
        if (weight, group.example.rank) < (self.example.0, self.example.1.rank) {
            self.example = (weight, group.example);
        }
    }

    fn change(self, known: Option<Known>) -> Change {
        let mut origins: BTreeMap<VantageKind, usize> = BTreeMap::new();
        self.origins.iter().for_each(|from| *origins.entry(from.kind()).or_default() += 1);
        let outcomes = frequent(self.outcomes).into_iter();
        let mut outcomes: Vec<OutcomeChange> =
            outcomes.map(|(contrast, classes)| OutcomeChange { contrast, classes }).collect();
        outcomes.sort_by_key(|one| weight(&one.contrast));
        Change {
            targets: frequent(self.targets).into_iter().map(|(target, _)| target).collect(),
            outcomes,
            services: self.services,
            origins: origins.into_iter().collect(),
            classes: self.classes,
            example: Some(self.example.1),
            since: self.since,
            known,
            then: self.then.into_values().collect(),
            accepted: None,
            live: None,
        }
    }
}

fn frequent<T: Ord>(counts: BTreeMap<T, usize>) -> Vec<(T, usize)> {
    let mut counts: Vec<(T, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, classes)| Reverse(*classes));
    counts
}
