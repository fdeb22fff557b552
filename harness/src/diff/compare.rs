//! All classes of first packets, and those that differ.

use std::collections::{BTreeMap, BTreeSet};

use svclab_rules::walk::{Classes, Field, Packet, Region};

use super::DiffError;
use super::outcome::{is_alike, unknown_rule};
use super::side::Side;
use crate::predict::{Network, Prediction, Senders};
use crate::scenario::Vantage;
use crate::verify::vantages;

/// How many classes are compared at most.
const MOST_CLASSES: usize = 5_000_000;

/// What was found.
#[derive(Default)]
pub(super) struct Compared {
    pub(super) differing: Vec<Differing>,
    pub(super) classes: usize,
    pub(super) unknown: BTreeMap<String, usize>,
    pub(super) not_compared: Vec<String>,
    pub(super) is_cut: bool,
}

/// A class of packets of which something else becomes.
pub(super) struct Differing {
    pub(super) from: Vantage,
    /// The node that an outside host hands its packets to.
    pub(super) via: Option<String>,
    pub(super) region: Region,
    pub(super) witness: Packet,
    pub(super) found: [Option<Prediction>; 2],
    /// The rule of each side that decides, where one does.
    pub(super) rules: [Option<String>; 2],
}

/// Compares all classes of both sides.
pub(super) fn compare(sides: [&Side<'_>; 2], networks: [&Network<'_>; 2]) -> Result<Compared, DiffError> {
    let all = sides.map(|side| vantages(side.scenario));
    let names = all.each_ref().map(|all| all.iter().map(ToString::to_string).collect::<BTreeSet<_>>());
    let common: Vec<Vantage> = all[0].iter().filter(|one| names[1].contains(&one.to_string())).cloned().collect();
    if common.is_empty() || !share_a_node(sides) {
        let [before, after] = sides.map(|side| crate::text::path_text(&side.scenario.file));
        return Err(DiffError::NothingInCommon(before, after));
    }
    let mut compared =
        Compared { not_compared: names[0].symmetric_difference(&names[1]).cloned().collect(), ..Compared::default() };
    let [own, others] = networks.map(|network| Senders::of(network, &common));
    for senders in &own {
        let key = senders.key(networks[0]);
        if let Some(other) = others.iter().find(|other| other.key(networks[1]) == key) {
            compared.of_senders([senders, other], networks);
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
    fn of_senders(&mut self, senders: [&Senders; 2], networks: [&Network<'_>; 2]) {
        let other = senders[1].packets(networks[1]);
        let own = senders[0].packets(networks[0]);
        let region = Field::ALL.into_iter().fold(own, |region, field| region.among(field, &other[field]));
        let mut classes = Classes::of([region], senders[0].like());
        while let Some(class) = classes.next_by(|witness, narrowing| {
            [0, 1].map(|at| networks[at].predict_set(senders[at], witness, Some(narrowing), None))
        }) {
            if self.classes == MOST_CLASSES {
                self.is_cut = true;
                return;
            }
            self.classes += 1;
            let witness = class.found.iter().flatten().map(|(packet, _)| *packet).next().unwrap_or(class.witness);
            let found = class.found.map(|found| found.map(|(_, prediction)| prediction));
            if let Some(rule) = found.iter().flatten().find_map(unknown_rule) {
                *self.unknown.entry(rule).or_default() += 1;
            } else if !is_alike(&found, &witness) {
                let Some(from) = senders[0].vantage(&witness).cloned() else { continue };
                let rules = [0, 1].map(|at| deciding(networks[at], found[at].as_ref()?));
                let via = senders[0].via.clone();
                self.differing.push(Differing { from, via, region: class.region, witness, found, rules });
            }
        }
    }
}

/// The rule that decides the first outcome: what drops, rejects or translates last before a packet is routed.
fn deciding(network: &Network<'_>, prediction: &Prediction) -> Option<String> {
    let branch = prediction.branches.first()?;
    let met = network.rules_met(&branch.stages);
    met.iter()
        .rev()
        .find(|rule| !rule.only_leads && rule.hook.translates_destination())
        .or(met.last())
        .map(|rule| rule.place.to_string())
}
