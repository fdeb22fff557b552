//! Minimizes a disagreement.

use crate::lab::Backend;
use crate::scenario::Probe;
use serde_json::{Value, json};

use super::agreement::Contradiction;
use super::case::Case;
use super::mutations::Mutation;
use super::{compare, text_of};

/// How often a flow is sent, because the disagreement may depend on chance.
const REPEATS: usize = 8;
/// The maximum number of trials.
const MAX_TRIES: usize = 400;

/// A smaller scenario, its flows and what they contradict.
pub(crate) struct Minimal {
    pub(crate) scenario: Value,
    pub(crate) mutations: Vec<Mutation>,
    pub(crate) probes: Vec<Probe>,
    pub(crate) contradiction: Contradiction,
}

/// Removes everything from a case that a disagreement does not need.
pub(crate) fn minimal(case: &Case, first: Contradiction) -> Minimal {
    let mut search = Search { backend: case.backend, tries: 0 };
    let Case { scenario, mutations, probes, .. } = case;
    let mut least = Minimal {
        scenario: scenario.clone(),
        mutations: mutations.clone(),
        probes: probes.clone(),
        contradiction: first,
    };
    // Usually the flow alone is enough.
    let alone = vec![probes[least.contradiction.probe].clone(); REPEATS];
    if let Some(contradiction) = search.shows(scenario, mutations, &alone) {
        least = Minimal { probes: alone, contradiction, ..least };
    }
    loop {
        let before = search.tries;
        let changed = search.without_some(&mut least);
        if !changed || search.tries == before || search.tries >= MAX_TRIES {
            return least;
        }
    }
}

struct Search {
    backend: Backend,
    tries: usize,
}

impl Search {
    fn shows(&mut self, scenario: &Value, mutations: &[Mutation], probes: &[Probe]) -> Option<Contradiction> {
        if self.tries >= MAX_TRIES {
            return None;
        }
        self.tries += 1;
        let agreement = compare(&text_of(scenario), mutations, probes, self.backend).ok()?;
        agreement.contradictions.into_iter().next()
    }

    /// Tries every smaller scenario once; true if any was enough.
    fn without_some(&mut self, least: &mut Minimal) -> bool {
        let mut changed = false;
        for number in (0..least.mutations.len()).rev() {
            let mut fewer = least.mutations.clone();
            fewer.remove(number);
            if let Some(contradiction) = self.shows(&least.scenario, &fewer, &least.probes) {
                (least.mutations, least.contradiction, changed) = (fewer, contradiction, true);
            }
        }
        for number in (0..parts(&least.scenario).len()).rev() {
            let Some(part) = parts(&least.scenario).into_iter().nth(number) else { continue };
            let smaller = without(&least.scenario, &part);
            if let Some(contradiction) = self.shows(&smaller, &least.mutations, &least.probes) {
                (least.scenario, least.contradiction, changed) = (smaller, contradiction, true);
            }
        }
        changed
    }
}

/// Something that can be left out.
enum Part {
    /// An item or a key at a JSON pointer.
    At(String),
    /// A line of the rules at a JSON pointer.
    Line(String, usize),
}

const LISTS: [&str; 5] = ["nodes", "pods", "hosts", "services", "endpoints"];

/// All parts, the larger ones last.
fn parts(scenario: &Value) -> Vec<Part> {
    let mut parts = Vec::new();
    let of_proxy = scenario["cluster"]["proxy"].as_object().into_iter().flat_map(|proxy| proxy.keys());
    parts.extend(of_proxy.map(|key| Part::At(format!("/cluster/proxy/{key}"))));
    parts.extend(["cni", "overlay"].map(|key| Part::At(format!("/cluster/{key}"))));
    for list in LISTS {
        for (number, item) in scenario[list].as_array().into_iter().flatten().enumerate() {
            let place = format!("/{list}/{number}");
            let keys = item.as_object().into_iter().flat_map(|item| item.keys()).filter(|key| *key != "name");
            parts.extend(keys.map(|key| Part::At(format!("{place}/{key}"))));
            for inner in ["ports", "endpoints"] {
                let length = item[inner].as_array().map_or(0, Vec::len);
                parts.extend((0..length).map(|at| Part::At(format!("{place}/{inner}/{at}"))));
            }
        }
    }
    for (node, documents) in scenario["rules"].as_object().into_iter().flatten() {
        for (number, document) in documents.as_array().into_iter().flatten().enumerate() {
            let place = format!("/rules/{node}/{number}");
            let lines = document["text"].as_str().unwrap_or_default().lines().count();
            parts.extend((0..lines).map(|line| Part::Line(format!("{place}/text"), line)));
            parts.push(Part::At(place));
        }
    }
    for list in LISTS {
        let length = scenario[list].as_array().map_or(0, Vec::len);
        parts.extend((0..length).map(|number| Part::At(format!("/{list}/{number}"))));
    }
    parts
}

fn without(scenario: &Value, part: &Part) -> Value {
    let mut smaller = scenario.clone();
    match part {
        Part::At(pointer) => {
            let (parent, last) = pointer.rsplit_once('/').unwrap_or_default();
            match smaller.pointer_mut(parent) {
                Some(Value::Array(items)) => drop(last.parse().map(|at: usize| items.remove(at))),
                Some(Value::Object(map)) => drop(map.remove(last)),
                _ => {}
            }
        }
        Part::Line(pointer, number) => {
            if let Some(text) = smaller.pointer_mut(pointer) {
                let lines = text.as_str().unwrap_or_default().lines().enumerate();
                let kept: String = lines.filter(|(at, _)| at != number).map(|(_, line)| format!("{line}\n")).collect();
                *text = json!(kept);
            }
        }
    }
    smaller
}
