//! All classes of first packets, and those that differ.

use std::collections::{BTreeMap, BTreeSet};

use svclab_rules::walk::{Classes, Field, Packet};

use super::DiffError;
use super::fate::{Aspect, Contrast, Fates};
use super::group::{Differing, Groups};
use super::later::{Ages, Both, Lasting};
use super::outcome::{TOLERANCE, is_alike, unknown_rule};
use super::side::Side;
use super::target::Target;
use crate::predict::{Network, Prediction, Senders};
use crate::scenario::Vantage;
use crate::verify::vantages;

/// What was found.
pub(super) struct Compared {
    pub(super) groups: Groups,
    pub(super) classes: usize,
    pub(super) unknown: BTreeMap<String, usize>,
    pub(super) not_compared: Vec<String>,
    /// Whether there are more classes than are compared at most.
    pub(super) is_cut: bool,
    most: usize,
}

/// Compares all classes of both sides, as long as there are not more than `most`.
pub(super) fn compare(sides: [&Side<'_>; 2], networks: [&Network<'_>; 2], most: usize) -> Result<Compared, DiffError> {
    let all = sides.map(|side| vantages(side.scenario));
    let names = all.each_ref().map(|all| all.iter().map(ToString::to_string).collect::<BTreeSet<_>>());
    let common: Vec<Vantage> = all[0].iter().filter(|one| names[1].contains(&one.to_string())).cloned().collect();
    if common.is_empty() || !share_a_node(sides) {
        return Err(DiffError::NothingInCommon(sides.map(Side::nodes)));
    }
    let mut compared = Compared {
        groups: Groups::of(sides),
        classes: 0,
        unknown: BTreeMap::new(),
        not_compared: names[0].symmetric_difference(&names[1]).cloned().collect(),
        is_cut: false,
        most,
    };
    let ages = Ages::of(sides.map(|side| &side.scenario.cluster));
    let lasting = Lasting::of(networks);
    let [own, others] = networks.map(|network| Senders::of(network, &common));
    for senders in &own {
        let key = senders.key(networks[0]);
        if let Some(other) = others.iter().find(|other| other.key(networks[1]) == key) {
            compared.of_senders([senders, other], networks, &ages, &lasting);
        }
    }
    Ok(compared)
}

/// Whether a node of one side is in the other: by its name, with one of its addresses.
fn share_a_node(sides: [&Side<'_>; 2]) -> bool {
    let [own, others] = sides.map(|side| &side.scenario.cluster);
    own.nodes.iter().any(|node| {
        let other = others.node(&node.name);
        other.is_some_and(|other| other.addresses().any(|address| node.addresses().any(|own| own == address)))
    })
}

impl Compared {
    fn of_senders(&mut self, senders: [&Senders; 2], networks: [&Network<'_>; 2], ages: &Ages, lasting: &Lasting) {
        let other = senders[1].packets(networks[1]);
        let own = senders[0].packets(networks[0]);
        let region = Field::ALL.into_iter().fold(own, |region, field| region.among(field, &other[field]));
        let mut classes = Classes::of([region], senders[0].like());
        while !self.is_cut
            && let Some(class) = classes.next_by(|witness, narrowing| {
                [0, 1].map(|at| networks[at].predict_set(senders[at], witness, Some(narrowing), None))
            })
        {
            self.classes += 1;
            // What is left is at least one class each.
            self.is_cut = self.classes + classes.left() > self.most;
            let witness = class.found.iter().flatten().map(|(packet, _)| *packet).next().unwrap_or(class.witness);
            let found = class.found.map(|found| found.map(|(_, prediction)| prediction));
            if let Some(rule) = found.iter().flatten().find_map(unknown_rule) {
                *self.unknown.entry(rule).or_default() += 1;
                continue;
            }
            let Some(from) = senders[0].vantage(&witness) else { continue };
            let mut add = |contrast: Contrast, about: Option<Target>| {
                let region = &class.region;
                let differing =
                    Differing { senders: senders[0], from, region, witness, found: &found, contrast, about };
                self.groups.add(&differing, networks);
            };
            let both = Both { networks, senders, packet: &witness, found: &found };
            if !is_alike(&found, &witness) {
                add(contrast(&found, &witness), None);
            } else if let Some(later) = ages.difference(both) {
                add(later, Some(Target::Returning));
            }
            if let Some(later) = lasting.broken(both) {
                add(later, Some(Target::Established));
            }
        }
    }
}

/// How what becomes of a packet differs.
fn contrast(found: &[Option<Prediction>; 2], packet: &Packet) -> Contrast {
    let [was, is] = found.each_ref().map(|found| Fates::of(found.as_ref(), packet));
    let aspects = if was == is { Aspect::between(found, packet, TOLERANCE) } else { BTreeSet::new() };
    Contrast { was, is, aspects }
}
