//! Partition of all packets into disjoint classes, whose packets are handled alike.

use super::narrowing::Narrowing;
use super::packet::Packet;
use super::region::Region;

/// An iterator that splits regions of packets into classes: sets of packets for which all comparisons have the same results.
///
/// A class is found by walking one of its packets, the *witness*, with a [`Narrowing`] to which every condition reports its comparison.
/// Packets with a different result are left for later walks. So classes are disjoint and cover the regions, whatever the rules; and
/// conditions have a single definition for packets and sets. Several walks with one narrowing, for example through two rule sets, give
/// classes whose packets each rule set handles alike.
///
/// ```
/// use svclab_rules::cluster::{Family, Protocol};
/// use svclab_rules::iptables::{evaluate::Program, parse};
/// use svclab_rules::walk::{Arrival, Classes, Environment, Hook, Narrowed, Packet, Region, Transport};
///
/// let text = "*filter\n-A FORWARD -s 10.0.0.0/8 -p tcp -m tcp --dport 80 -j DROP\nCOMMIT\n";
/// let program = Program::compile(&parse(text, Family::Ipv4).unwrap().rules).unwrap();
/// let environment = Environment::default();
/// let like = Packet::new([10, 0, 0, 9].into(), [10, 0, 0, 1].into(), Transport::opening(Protocol::Tcp, 40_000, 443));
/// let mut classes = Classes::of([Region::all(Family::Ipv4)], like);
/// let mut dropped = Vec::new();
/// while let Some(class) = classes.next_by(|witness, narrowing| {
///     program.walk_with(Arrival::first(&environment, Hook::Forward, witness), Narrowed::by(Some(narrowing)))
/// }) {
///     if class.found[0].outcome != svclab_rules::walk::HookVerdict::Accept {
///         dropped.push(class.region.to_string());
///     }
/// }
/// assert_eq!(dropped, ["tcp from 10.0.0.0-10.255.255.255 port 80"]);
/// ```
#[derive(Debug, Clone)]
pub struct Classes {
    /// The pending regions; the last one is next.
    todo: Vec<Region>,
    like: Packet,
}

/// A class: packets for which all comparisons have the same results.
#[derive(Debug, Clone)]
pub struct Class<R> {
    /// The packets.
    pub region: Region,
    /// The packet that was walked.
    pub witness: Packet,
    /// The result of the walk.
    pub found: R,
}

impl Classes {
    /// Starts with disjoint regions. Witnesses resemble `like` as far as their regions allow.
    pub fn of(regions: impl IntoIterator<Item = Region>, like: Packet) -> Self {
        let mut todo: Vec<Region> = regions.into_iter().filter(|region| !region.is_empty()).collect();
        todo.reverse();
        Self { todo, like }
    }

    /// Finds the next class with the given walk; returns `None` once all packets are in a class.
    pub fn next_by<R>(&mut self, walk: impl FnOnce(&Packet, &Narrowing) -> R) -> Option<Class<R>> {
        let region = self.todo.pop()?;
        let witness = region.witness(&self.like)?;
        let narrowing = Narrowing::of(region, &witness);
        let found = walk(&witness, &narrowing);
        self.todo.extend(narrowing.take_rest().into_iter().rev());
        Some(Class { region: narrowing.own_region(), witness, found })
    }

    /// Adds regions, which must be disjoint with all others.
    pub fn add(&mut self, regions: Vec<Region>) {
        self.todo.extend(regions.into_iter().rev());
    }

    /// Returns the number of regions left, each with at least one class.
    pub fn left(&self) -> usize {
        self.todo.len()
    }
}
