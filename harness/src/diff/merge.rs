//! Merges groups of classes into a few changes.

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

/// A change: all packets affected by the same documented difference or release, or sent to the same kind of destination and affected in the
/// same way.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The kinds of destinations of the packets, the most frequent first.
    pub(crate) targets: Vec<Target>,
    /// Their outcomes before and after: the most severe first, and among these the most frequent.
    pub outcomes: Vec<OutcomeChange>,
    /// The services that the packets are sent to.
    pub services: BTreeSet<String>,
    /// The kinds of vantage points that send the packets, with their number: `3 pods`.
    pub(crate) origins: Vec<(VantageKind, usize)>,
    /// The number of classes of packets that change in this way.
    pub classes: usize,
    /// One of the packets; `None` if no first packet shows the change.
    pub example: Option<Example>,
    /// The release or mode that introduces the change, if known.
    pub(crate) since: Option<Boundary>,
    /// The documented cause.
    pub known: Option<Known>,
    /// The later releases or modes that change the outcome of some of the packets again.
    pub(crate) then: Vec<Again>,
    /// Why it is accepted, if it is.
    pub accepted: Option<String>,
    /// What the kernel did with the example, if it was sent.
    pub live: Option<Live>,
}

/// The outcome of packets before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeChange {
    /// Their outcome before and after.
    pub(crate) contrast: Contrast,
    /// The number of classes of packets.
    pub classes: usize,
}

/// A release or mode that changes again what an earlier one changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Again {
    /// The release or mode.
    pub(crate) since: Boundary,
    /// The documented cause.
    pub(crate) known: Option<Known>,
    /// The number of classes of packets.
    pub(crate) classes: usize,
}

/// The severity of a change for those whose packets change, the most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// Packets that were delivered are no longer delivered, or fewer of them are.
    Lost,
    /// They are delivered differently.
    Otherwise,
    /// Packets that were lost are delivered now, or more of them are.
    Gained,
    /// They were lost, and are now lost in another way.
    LostOtherwise,
}

impl Severity {
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

/// Returns the sort key: the more severe change first, and among these one that differs by more than the endpoint or the machine.
fn weight(contrast: &Contrast) -> (Severity, bool) {
    (Severity::of(contrast), !contrast.aspects.is_empty())
}

/// The senders of a change's packets, those that matter most to users first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// Pods or outside hosts, which are the usual clients of services.
    Clients,
    /// Processes of nodes.
    Nodes,
    /// Processes of nodes, from a loopback address.
    Loopback,
    /// Senders of segments of connections that conntrack does not know: asymmetric routes and attacks.
    Unconnected,
}

impl Change {
    /// Returns the identifier for programs and for files of accepted changes: the code of the documented difference; or the release or mode
    /// with the kind of destination; or one built from the change, such as `cluster-ip/delivered/rejected`.
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

    /// Returns the severity of its most severe outcome.
    pub(super) fn severity(&self) -> Severity {
        let of_outcomes = self.outcomes.iter().map(|one| Severity::of(&one.contrast));
        of_outcomes.min().unwrap_or(Severity::LostOtherwise)
    }

    /// Returns the number of classes of packets that are lost, gained or handled differently, depending on its severity.
    pub(super) fn most_severe_classes(&self) -> usize {
        let severity = self.severity();
        let most_severe = self.outcomes.iter().filter(|one| Severity::of(&one.contrast) == severity);
        most_severe.map(|one| one.classes).sum()
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

/// The key by which groups are merged into one change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    Known(Known),
    /// A release or mode, for packets to a kind of destination.
    Boundary(Boundary, Target),
    /// The objects, for packets to a kind of destination that change in the same way.
    Objects(Target, Contrast),
}

/// Merges groups by their cause. Changes that lose packets come first, among these first those that clients notice, then those with the
/// most classes.
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
    changes.sort_by_key(|change| (change.severity(), change.reach(), Reverse(change.classes)));
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
    /// Returns the kind of destination that a change shows: packets in the state INVALID have a kind of their own, whatever their
    /// destination, and so have those from a loopback address to a destination that no service has.
    fn shown(&self) -> Target {
        match self.target {
            _ if self.is_invalid => Target::Invalid,
            Target::Elsewhere | Target::Node if self.leaves_loopback => Target::FromLoopback,
            target => target,
        }
    }
}

/// Groups with the same cause.
struct Merged {
    since: Option<Boundary>,
    /// The later changes of the same packets, by step.
    then: BTreeMap<usize, Again>,
    targets: BTreeMap<Target, usize>,
    outcomes: BTreeMap<Contrast, usize>,
    services: BTreeSet<String>,
    origins: BTreeSet<Vantage>,
    classes: usize,
    /// One of the packets with the most severe outcome, with its sort key.
    example: ((Severity, bool), Example),
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
