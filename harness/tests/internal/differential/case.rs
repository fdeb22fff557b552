//! One random cluster with its rules and flows.

use crate::documents::{self, Document};
use crate::lab::Backend;
use crate::scenario::{Probe, Scenario};
use crate::topology;
use serde_json::{Value, json};
use svclab_rules::cluster::{Family, ProxyMode};

use super::dice::Dice;
use super::flows::Places;
use super::mutations::Mutation;
use super::{cluster, load, mutations, rules, text_of};

/// One random cluster with its flows.
pub(crate) struct Case {
    pub(crate) scenario: Value,
    /// The mutations of its nftables rules, which a scenario cannot express.
    pub(crate) mutations: Vec<Mutation>,
    pub(crate) probes: Vec<Probe>,
    pub(crate) backend: Backend,
    /// The kind of its rules, in a few words.
    pub(crate) kind: &'static str,
}

impl Case {
    /// The case of a seed and a number.
    pub(crate) fn of(seed: u64, number: usize, flows: usize) -> Self {
        let mut dice = Dice::of(seed, number as u64);
        let mut scenario = cluster::cluster(&mut dice, &format!("seed {seed}, cluster {number}"));
        let plain = loaded(&scenario);
        let places = Places::of(&plain);
        let is_iptables = plain.cluster.proxy.mode == ProxyMode::Iptables;
        let has_other_rules = !dice.one_in(if is_iptables { 8 } else { 2 });
        let is_mutated = dice.one_in(if is_iptables { 3 } else { 2 });
        if has_other_rules {
            scenario["rules"] = other_rules(&mut dice, &plain, &places);
        }
        let mut mutations = Vec::new();
        if is_mutated && is_iptables {
            scenario["rules"] = mutated(&mut dice, &loaded(&scenario));
        } else if is_mutated {
            mutations = mutations::some(&mut dice, &documents_of(&loaded(&scenario)));
        }
        let probes = places.flows(&mut dice, flows);
        let backend = if number.is_multiple_of(2) { Backend::Nft } else { Backend::Legacy };
        let kind = match (is_iptables, has_other_rules, is_mutated) {
            (true, false, false) => "generated",
            (true, true, false) => "with rules of others",
            (true, false, true) => "mutated",
            (true, true, true) => "mutated with rules of others",
            (false, false, false) => "nftables",
            (false, true, false) => "nftables with other rules",
            (false, false, true) => "nftables mutated",
            (false, true, true) => "nftables mutated, with other rules",
        };
        Self { scenario, mutations, probes, backend, kind }
    }
}

fn loaded(scenario: &Value) -> Scenario {
    load(&text_of(scenario)).unwrap_or_else(|error| panic!("{error}\n{}", text_of(scenario)))
}

/// Other rules on some nodes.
fn other_rules(dice: &mut Dice, scenario: &Scenario, places: &Places) -> Value {
    let plan = topology::plan(scenario);
    let mut all = json!({});
    for node in &scenario.cluster.nodes {
        let netns = plan.namespaces.iter().find(|netns| netns.name == format!("node/{}", node.name));
        let interfaces: Vec<String> =
            netns.into_iter().flat_map(|netns| &netns.interfaces).map(|interface| interface.name.clone()).collect();
        let mut documents = Vec::new();
        for family in Family::ALL.into_iter().filter(|family| node.internal_ip(*family).is_some()) {
            let of_family = places.addresses.iter().copied().filter(|address| Family::of(*address) == family);
            let words = rules::Vocabulary {
                family,
                addresses: of_family.collect(),
                ports: &places.ports,
                interfaces: interfaces.clone(),
            };
            let text = rules::other(dice, &words);
            let install = dice.pick(&["before", "before", "after"]);
            documents.push(json!({"install": install, "family": name_of(family), "text": text}));
        }
        all[&node.name] = json!(documents);
    }
    all
}

/// All rules of all nodes, each document with up to four mutations.
fn mutated(dice: &mut Dice, scenario: &Scenario) -> Value {
    let mut all = json!({});
    for document in &documents_of(scenario) {
        let Some(node) = document.netns.strip_prefix("node/") else { continue };
        let text = mutations::with_some(dice, document).1.rules.print_sync();
        let instead = json!({"install": "instead", "family": name_of(document.family), "text": text});
        match &mut all[node] {
            Value::Array(of_node) => of_node.push(instead),
            missing => *missing = json!([instead]),
        }
    }
    all
}

fn documents_of(scenario: &Scenario) -> Vec<Document> {
    documents::generate(scenario, &scenario.cluster).unwrap_or_else(|error| panic!("{error}"))
}

fn name_of(family: Family) -> &'static str {
    if family == Family::Ipv4 { "ipv4" } else { "ipv6" }
}
