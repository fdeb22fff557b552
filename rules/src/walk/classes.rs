//! All packets as disjoint classes, each of packets that are handled alike.

use super::narrowing::Narrowing;
use super::packet::Packet;
use super::region::Region;

/// Goes through regions of packets, and splits them into classes: sets of packets of which all comparisons have the same results.
///
/// A class is found by walking one of its packets, the *witness*, with a [`Narrowing`] that every condition reports its question to.
/// Packets with another result are left for later walks. So classes are disjoint and cover the regions, whatever is walked; and conditions
/// have one definition for packets and for sets. Several walks with one narrowing, as of two rule sets, give the classes whose
/// packets each of them handles alike.
///
/// ```
/// use svclab_rules::cluster::{Family, Protocol};
/// use svclab_rules::iptables::{evaluate::Program, parse};
/// use svclab_rules::walk::{Arrival, Classes, Environment, Hook, Narrowed, Packet, Region, Tracking, Transport};
///
/// let text = "*filter\n-A FORWARD -s 10.0.0.0/8 -p tcp -m tcp --dport 80 -j DROP\nCOMMIT\n";
/// let program = Program::compile(&parse(text, Family::Ipv4).unwrap().rules).unwrap();
/// let environment = Environment::default();
/// let like = Packet::new([10, 0, 0, 9].into(), [10, 0, 0, 1].into(), Transport::opening(Protocol::Tcp, 40_000, 443));
/// let mut classes = Classes::of([Region::all(Family::Ipv4)], like);
/// let mut dropped = Vec::new();
/// while let Some(class) = classes.next_by(|witness, narrowing| {
///     let tracking = Tracking::first(witness);
///     let arrival = Arrival { environment: &environment, hook: Hook::Forward, packet: witness, tracking };
///     program.walk_with(arrival, Narrowed::by(Some(narrowing)))
/// }) {
///     if class.found[0].outcome != svclab_rules::walk::HookVerdict::Accept {
///         dropped.push(class.region.to_string());
///     }
/// }
/// assert_eq!(dropped, ["tcp from 10.0.0.0-10.255.255.255 port 80"]);
/// ```
#[derive(Debug, Clone)]
pub struct Classes {
    /// The region to go on with is the last.
    todo: Vec<Region>,
    like: Packet,
}

/// Packets for which all comparisons have the same results.
#[derive(Debug, Clone)]
pub struct Class<R> {
    /// The packets.
    pub region: Region,
    /// The one of them that was walked.
    pub witness: Packet,
    /// The outcome of it.
    pub found: R,
}

impl Classes {
    /// The classes of disjoint regions. Witnesses are as `like`, as far as their regions have such packets.
    pub fn of(regions: impl IntoIterator<Item = Region>, like: Packet) -> Self {
        let mut todo: Vec<Region> = regions.into_iter().filter(|region| !region.is_empty()).collect();
        todo.reverse();
        Self { todo, like }
    }

    /// The next class, found by what is walked; `None` where all packets are in one.
    pub fn next_by<R>(&mut self, walk: impl FnOnce(&Packet, &Narrowing) -> R) -> Option<Class<R>> {
        let region = self.todo.pop()?;
        let witness = region.witness(&self.like)?;
        let narrowing = Narrowing::of(region, &witness);
        let found = walk(&witness, &narrowing);
        self.todo.extend(narrowing.take_rest().into_iter().rev());
        Some(Class { region: narrowing.own_region(), witness, found })
    }

    /// Adds packets, which are disjoint with all others.
    pub fn add(&mut self, regions: Vec<Region>) {
        self.todo.extend(regions.into_iter().rev());
    }

    /// How many regions are left, each of at least one class.
    pub fn left(&self) -> usize {
        self.todo.len()
    }
}
