//! Compares all classes of first packets, and collects those that differ.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use svclab_rules::walk::{Classes, Field, Intervals, Narrowing, Packet, Region, address_from_bits};

use super::DiffError;
use super::fate::{Aspect, Contrast, PacketOutcomes};
use super::group::{Differing, Groups};
use super::later_packets::{Ages, Both, Lasting};
use super::outcome::{TOLERANCE, is_alike, unknown_rule};
use super::side::Side;
use super::target::{Target, Targets};
use crate::predict::{Network, Prediction, Senders, SetTraversal};
use crate::run::in_parallel;
use crate::scenario::Vantage;
use crate::verify::{Boundaries, vantages};

/// The result of a comparison.
#[derive(Default)]
pub(super) struct Compared {
    pub(super) groups: Groups,
    pub(super) classes: usize,
    pub(super) unknown: BTreeMap<String, usize>,
    pub(super) not_compared: Vec<String>,
    /// Whether there are more classes than the maximum number to compare.
    pub(super) is_cut: bool,
}

/// Compares all classes of both sides, at most `most` of each group of equivalent senders.
pub(super) fn compare(sides: [&Side<'_>; 2], networks: [&Network<'_>; 2], most: usize) -> Result<Compared, DiffError> {
    let all = sides.map(|side| vantages(side.scenario));
    let names = all.each_ref().map(|all| all.iter().map(ToString::to_string).collect::<BTreeSet<_>>());
    let common: Vec<Vantage> = all[0].iter().filter(|one| names[1].contains(&one.to_string())).cloned().collect();
    if common.is_empty() || !share_a_node(sides) {
        return Err(DiffError::NothingInCommon(sides.map(Side::nodes)));
    }
    let clusters = sides.map(|side| &side.scenario.cluster);
    let comparing = Comparing {
        networks,
        targets: Targets::of(clusters),
        boundaries: clusters.map(Boundaries::of),
        ages: Ages::of(clusters),
        lasting: Lasting::of(networks),
        most,
    };
    let [own, others] = networks.map(|network| Senders::of(network, &common));
    let keys: HashMap<String, &Senders> = others.iter().map(|other| (other.key(networks[1]), other)).collect();
    let pairs = own.iter().filter_map(|own| Some([own, *keys.get(&own.key(networks[0]))?]));
    let pairs: Vec<[&Senders; 2]> = pairs.collect();
    let parts = in_parallel(&pairs, None, |senders| comparing.compare_senders(*senders), &|_| ());
    let not_compared = names[0].symmetric_difference(&names[1]).cloned().collect();
    Ok(parts.into_iter().fold(Compared { not_compared, ..Compared::default() }, Compared::and))
}

/// Returns whether both sides have a node with the same name and a common address.
fn share_a_node(sides: [&Side<'_>; 2]) -> bool {
    let [own, others] = sides.map(|side| &side.scenario.cluster);
    own.nodes.iter().any(|node| {
        let other = others.node(&node.name);
        other.is_some_and(|other| other.addresses().any(|address| node.addresses().any(|own| own == address)))
    })
}

impl Compared {
    /// Adds the results of other senders.
    fn and(mut self, other: Self) -> Self {
        self.groups.merge(other.groups);
        self.classes += other.classes;
        other.unknown.into_iter().for_each(|(rule, classes)| *self.unknown.entry(rule).or_default() += classes);
        self.is_cut |= other.is_cut;
        self
    }
}

/// The data that the comparison of every sender uses.
struct Comparing<'x, 'a> {
    networks: [&'x Network<'a>; 2],
    targets: Targets,
    boundaries: [Boundaries; 2],
    ages: Ages,
    lasting: Lasting,
    most: usize,
}

impl Comparing<'_, '_> {
    fn compare_senders(&self, senders: [&Senders; 2]) -> Compared {
        let mut compared = Compared::default();
        let [own, other] = [0, 1].map(|at| senders[at].packets(self.networks[at]));
        let region = Field::ALL.into_iter().fold(own, |region, field| region.among(field, &other[field]));
        let mut classes = Classes::of([region], senders[0].like());
        while !compared.is_cut
            && let Some(class) = classes.next_by(|witness, narrowing| self.predict(senders, witness, narrowing))
        {
            compared.classes += 1;
            let (sets, forked) = class.found;
            let packet = sets.iter().flatten().map(|set| set.packet).next().unwrap_or(class.witness);
            for source in forked {
                compared.classes += 1;
                let region = class.region.with(Field::Source, Intervals::one(source));
                let packet = Packet { source: address_from_bits(source, packet.family()), ..packet };
                let narrowing = Narrowing::of(region.clone(), &packet);
                let found = [0, 1]
                    .map(|at| sets[at].as_ref()?.predict_source(self.networks[at], senders[at], &packet, &narrowing));
                classes.add(narrowing.take_rest());
                self.put(senders, &narrowing.region(), packet, &found, &mut compared);
            }
            let found = sets.map(|set| set.map(|set| set.prediction));
            self.put(senders, &class.region, packet, &found, &mut compared);
            // Each remaining part is at least one class.
            compared.is_cut = compared.classes + classes.left() > self.most;
        }
        compared
    }

    /// Predicts a set of packets on both sides. Also returns the sources that were separated from the set.
    fn predict(
        &self,
        senders: [&Senders; 2],
        witness: &Packet,
        narrowing: &Narrowing,
    ) -> ([Option<SetTraversal>; 2], Vec<u128>) {
        let mut witness = *witness;
        let sources = || narrowing.region()[Field::Source].clone();
        let mut plain = self.boundaries.iter().filter_map(|one| one.plain_source(&witness, &sources()));
        if let Some((source, others)) = plain.next().filter(|_| senders[0].are_pods()) {
            narrowing.fork_sources(source, others);
            witness.source = address_from_bits(source, witness.family());
        }
        let sets = [0, 1].map(|at| self.networks[at].predict_forked(senders[at], &witness, narrowing));
        (sets, narrowing.forked())
    }

    /// Adds a class to those that change in the same way, if it changes.
    fn put(
        &self,
        senders: [&Senders; 2],
        region: &Region,
        witness: Packet,
        found: &[Option<Prediction>; 2],
        compared: &mut Compared,
    ) {
        if let Some(rule) = found.iter().flatten().find_map(unknown_rule) {
            *compared.unknown.entry(rule).or_default() += 1;
            return;
        }
        let Some(from) = senders[0].vantage(&witness) else { return };
        let mut add = |contrast: Contrast, about: Option<Target>| {
            let differing = Differing { senders: senders[0], from, region, witness, found, contrast, about };
            compared.groups.add(&differing, self.networks, &self.targets);
        };
        let both = Both { networks: self.networks, senders, packet: &witness, found };
        if !is_alike(found.each_ref(), &witness) {
            add(contrast(found, &witness), None);
        } else if let Some(later) = self.ages.difference(both) {
            add(later, Some(Target::Returning));
        }
        if let Some(later) = self.lasting.broken(both) {
            add(later, Some(Target::Established));
        }
    }
}

/// Returns how the outcome of a packet differs.
fn contrast(found: &[Option<Prediction>; 2], packet: &Packet) -> Contrast {
    let [was, is] = found.each_ref().map(|found| PacketOutcomes::of(found.as_ref(), packet));
    let aspects = if was == is { Aspect::between(found, packet, TOLERANCE) } else { BTreeSet::new() };
    Contrast { was, is, aspects }
}
