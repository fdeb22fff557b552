//! Checks of session affinity: whether returning clients get the endpoint that they had before.
//!
//! kube-proxy adds a client to the endpoint's own list when it first sends it there, and looks these lists up before any random rule. That
//! only works where both rules use the same list, the same part of the packet and the same timeout.

use std::collections::{HashMap, HashSet};

use super::affinity_defect::{AffinityDefect, USUAL_SIZE};
use super::defect::Defect;
use crate::chains::{Group, Key, Note, Reading, Recall};

/// A rule of the group's chain that sends returning clients to the endpoint that they had before.
struct Back<'a> {
    rule: usize,
    /// The endpoint's chain.
    endpoint: &'a str,
    recall: &'a Recall<'a>,
}

/// An endpoint that new clients are sent to.
struct New<'a> {
    /// The number of the first rule that jumps there.
    rule: usize,
    chain: &'a str,
    /// The rules that record its clients; `None` if the chain is not in the text.
    notes: Option<Vec<Note<'a>>>,
}

/// Returns the affinity defects of a group.
pub(super) fn affinity<'a>(reading: &impl Reading<'a>, group: &Group<'a>) -> Vec<Defect> {
    let mut known = HashSet::new();
    let (mut recalls, mut endpoints) = (Vec::new(), Vec::new());
    for lead in &group.leads {
        let chain = lead.chain().unwrap_or_default();
        if let Some(recall) = &lead.recall {
            recalls.push(Back { rule: lead.rule, endpoint: chain, recall });
        } else if !chain.is_empty() && known.insert(chain) {
            let notes = reading.endpoint(chain).map(|own| own.notes);
            endpoints.push(New { rule: lead.rule, chain, notes });
        }
    }
    let label = |chain: &str| label(reading, chain);
    let mut found = check(&recalls, &endpoints, label);
    // Clients that a rule of the group's own chain records belong to no particular endpoint.
    for (rule, note) in &group.notes {
        if let Some(back) = recalls.iter().find(|back| back.recall.list == note.list) {
            let defect = AffinityDefect::SetByAll { list: note.list.to_owned(), endpoint: label(back.endpoint) };
            found.push(defect.at(*rule));
        }
    }
    found
}

/// Compares the lists that are looked up with those that clients are added to. `label` names an endpoint's chain in messages.
fn check(recalls: &[Back<'_>], endpoints: &[New<'_>], label: impl Fn(&str) -> String) -> Vec<Defect> {
    let any_notes = endpoints.iter().any(|own| own.notes.as_ref().is_some_and(|notes| !notes.is_empty()));
    if recalls.is_empty() && !any_notes {
        return Vec::new();
    }
    let mut found = Vec::new();
    let first_new = endpoints.iter().map(|own| own.rule).min().unwrap_or(usize::MAX);
    let by_chain: HashMap<&str, &New<'_>> = endpoints.iter().map(|own| (own.chain, own)).collect();
    let mut by_endpoint: HashMap<&str, Vec<&Back<'_>>> = HashMap::new();
    let mut by_list: HashMap<&str, Vec<&Back<'_>>> = HashMap::new();
    for back in recalls {
        by_list.entry(back.recall.list).or_default().push(back);
        by_endpoint.entry(back.endpoint).or_default().push(back);
        if !by_chain.contains_key(back.endpoint) {
            found.push(AffinityDefect::ReturningClientsOnly { endpoint: label(back.endpoint) }.at(back.rule));
        }
    }
    // After a rule that takes new clients, only some of the returning ones are left.
    let is_asked = |back: &Back<'_>| back.recall.is_plain && back.rule < first_new;
    let any_asked = recalls.iter().any(is_asked);
    for endpoint in endpoints {
        let own = by_endpoint.get(endpoint.chain).map(Vec::as_slice).unwrap_or_default();
        let asked = own.iter().any(|back| is_asked(back));
        if !asked {
            let defect = AffinityDefect::NoAffinity { endpoint: label(endpoint.chain), is_of_all: !any_asked };
            found.push(defect.at(endpoint.rule));
        }
        if let Some(notes) = endpoint.notes.as_ref().filter(|notes| asked || !notes.is_empty()) {
            found.extend(noted(endpoint, notes, own, &by_list, &label));
        }
    }
    found.extend(recalls.iter().flat_map(|back| keys(back, &label)));
    found.extend(recalls.iter().filter_map(|back| size(back, &label)));
    found.extend(times(recalls, label));
    found
}

/// Checks that an endpoint's clients are added to the list that is looked up.
fn noted(
    endpoint: &New<'_>,
    notes: &[Note<'_>],
    own: &[&Back<'_>],
    by_list: &HashMap<&str, Vec<&Back<'_>>>,
    label: impl Fn(&str) -> String,
) -> Vec<Defect> {
    let name = || label(endpoint.chain);
    if !notes.iter().any(|note| note.is_plain) {
        return vec![AffinityDefect::NotRemembered { endpoint: name() }.at(endpoint.rule)];
    }
    let mut found = Vec::new();
    for note in notes {
        let same_list = by_list.get(note.list).map(Vec::as_slice).unwrap_or_default();
        if let Some(back) = same_list.iter().find(|back| back.endpoint != endpoint.chain) {
            let (list, other) = (note.list.to_owned(), label(back.endpoint));
            found.push(AffinityDefect::Crossed { endpoint: name(), list, other }.at(back.rule));
        }
    }
    let Some(back) = own.first() else { return found };
    match notes.iter().find(|note| own.iter().any(|back| back.recall.list == note.list)) {
        None if found.is_empty() => {
            let (noted, asked) = (notes[0].list.to_owned(), back.recall.list.to_owned());
            found.push(AffinityDefect::ListMismatch { endpoint: name(), noted, asked }.at(back.rule));
        }
        Some(note) if own.iter().all(|back| back.recall.list != note.list || back.recall.key != note.key) => {
            found.push(AffinityDefect::KeyMismatch { endpoint: name() }.at(back.rule));
        }
        _ => {}
    }
    found
}

/// Checks the part of a packet that a rule looks up.
fn keys(back: &Back<'_>, label: impl Fn(&str) -> String) -> Option<Defect> {
    let endpoint = || label(back.endpoint);
    let defect = match back.recall.key {
        Key { destination: true, .. } => AffinityDefect::Destination { endpoint: endpoint() },
        Key { mask: Some(mask), .. } => AffinityDefect::Mask { endpoint: endpoint(), mask },
        Key { .. } => return None,
    };
    Some(defect.at(back.rule))
}

/// Checks whether the set holds fewer clients than kube-proxy's does.
fn size(back: &Back<'_>, label: impl Fn(&str) -> String) -> Option<Defect> {
    let size = back.recall.size.filter(|size| *size < USUAL_SIZE)?;
    Some(AffinityDefect::Size { endpoint: label(back.endpoint), size }.at(back.rule))
}

/// Finds rules whose timeout differs from that of most rules.
fn times(recalls: &[Back<'_>], label: impl Fn(&str) -> String) -> Vec<Defect> {
    let mut counts: HashMap<Option<u32>, (usize, usize)> = HashMap::new();
    for (back, place) in recalls.iter().zip(0..) {
        counts.entry(back.recall.seconds).or_insert((0, place)).0 += 1;
    }
    // Of equally frequent timeouts, the first one.
    let usual = counts.iter().max_by_key(|(_, (count, first))| (*count, std::cmp::Reverse(*first)));
    let Some((usual, _)) = usual else { return Vec::new() };
    let others = recalls.iter().filter(|back| back.recall.seconds != *usual);
    let defect = |back: &Back<'_>| {
        AffinityDefect::Time { endpoint: label(back.endpoint), seconds: back.recall.seconds, usual: *usual }
            .at(back.rule)
    };
    others.map(defect).collect()
}

/// An endpoint's address and port, or its chain if that has no DNAT rule.
fn label<'a>(reading: &impl Reading<'a>, chain: &str) -> String {
    let destination = reading.endpoint(chain).and_then(|own| own.destination);
    destination.map_or_else(|| chain.to_owned(), |address| crate::digits::socket(address).to_string())
}
