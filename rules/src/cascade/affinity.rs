//! Whether clients come back to their endpoint, where rules remember them.
//!
//! kube-proxy notes a client in a list of the endpoint's own when it sends it there, and asks for these lists before
//! any chance decides. That only works where both rules mean the same list, the same part of a packet and the same time.

use std::collections::HashMap;
use std::net::IpAddr;

use super::defect::{Defect, Kind};

/// Which part of a packet is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Whether it is the destination, which all clients have in common.
    pub(super) destination: bool,
    /// The bits of the address that count; `None` for all.
    pub(super) mask: Option<IpAddr>,
}

/// A rule of the group's chain that leads remembered clients to an endpoint.
#[derive(Debug, Clone)]
pub(super) struct Recall<'a> {
    pub(super) rule: usize,
    pub(super) list: &'a str,
    pub(super) key: Key,
    /// For how long clients are remembered; for ever where there is none.
    pub(super) seconds: Option<u32>,
    /// The endpoint's chain.
    pub(super) endpoint: &'a str,
    /// Whether it asks for anything else.
    pub(super) is_plain: bool,
}

/// A rule of an endpoint's chain that notes clients.
#[derive(Debug, Clone)]
pub(super) struct Note<'a> {
    pub(super) list: &'a str,
    pub(super) key: Key,
    pub(super) is_plain: bool,
}

/// An endpoint that new clients are led to.
pub(super) struct Endpoint<'a> {
    /// The number of the first rule that leads there.
    pub(super) rule: usize,
    pub(super) chain: &'a str,
    /// What notes its clients; `None` where the chain is not in the text.
    pub(super) notes: Option<Vec<Note<'a>>>,
}

/// What is wrong with the affinity of a group. `label` says what an endpoint's chain is called.
pub(super) fn affinity(
    recalls: &[Recall<'_>],
    endpoints: &[Endpoint<'_>],
    label: impl Fn(&str) -> String,
) -> Vec<Defect> {
    let any_notes = endpoints.iter().any(|own| own.notes.as_ref().is_some_and(|notes| !notes.is_empty()));
    if recalls.is_empty() && !any_notes {
        return Vec::new();
    }
    let mut found = Vec::new();
    let first_new = endpoints.iter().map(|own| own.rule).min().unwrap_or(usize::MAX);
    let by_chain: HashMap<&str, &Endpoint<'_>> = endpoints.iter().map(|own| (own.chain, own)).collect();
    let mut by_endpoint: HashMap<&str, Vec<&Recall<'_>>> = HashMap::new();
    let mut by_list: HashMap<&str, Vec<&Recall<'_>>> = HashMap::new();
    for recall in recalls {
        by_list.entry(recall.list).or_default().push(recall);
        by_endpoint.entry(recall.endpoint).or_default().push(recall);
        if !by_chain.contains_key(recall.endpoint) {
            let kind = Kind::OldClientsOnly { endpoint: label(recall.endpoint) };
            found.push(Defect { rule: recall.rule, kind });
        }
    }
    // Behind a rule that takes new clients, only some of the old ones come.
    let is_asked = |recall: &Recall<'_>| recall.is_plain && recall.rule < first_new;
    let any_asked = recalls.iter().any(is_asked);
    for endpoint in endpoints {
        let own = by_endpoint.get(endpoint.chain).map(Vec::as_slice).unwrap_or_default();
        let asked = own.iter().any(|recall| is_asked(recall));
        if !asked {
            let kind = Kind::NoAffinity { endpoint: label(endpoint.chain), is_of_all: !any_asked };
            found.push(Defect { rule: endpoint.rule, kind });
        }
        if let Some(notes) = endpoint.notes.as_ref().filter(|notes| asked || !notes.is_empty()) {
            found.extend(noted(endpoint, notes, own, &by_list, &label));
        }
    }
    found.extend(recalls.iter().flat_map(|recall| keys(recall, &label)));
    found.extend(times(recalls, label));
    found
}

/// Whether an endpoint's clients are noted where they are looked for.
fn noted(
    endpoint: &Endpoint<'_>,
    notes: &[Note<'_>],
    own: &[&Recall<'_>],
    by_list: &HashMap<&str, Vec<&Recall<'_>>>,
    label: impl Fn(&str) -> String,
) -> Vec<Defect> {
    let name = || label(endpoint.chain);
    let defect = |kind| vec![Defect { rule: endpoint.rule, kind }];
    if !notes.iter().any(|note| note.is_plain) {
        return defect(Kind::NotRemembered { endpoint: name() });
    }
    let mut found = Vec::new();
    for note in notes {
        let same_list = by_list.get(note.list).map(Vec::as_slice).unwrap_or_default();
        if let Some(recall) = same_list.iter().find(|recall| recall.endpoint != endpoint.chain) {
            let (list, other) = (note.list.to_owned(), label(recall.endpoint));
            found.push(Defect { rule: recall.rule, kind: Kind::Crossed { endpoint: name(), list, other } });
        }
    }
    let Some(recall) = own.first() else { return found };
    match notes.iter().find(|note| own.iter().any(|recall| recall.list == note.list)) {
        None if found.is_empty() => {
            let (noted, asked) = (notes[0].list.to_owned(), recall.list.to_owned());
            found.push(Defect { rule: recall.rule, kind: Kind::OtherList { endpoint: name(), noted, asked } });
        }
        Some(note) if own.iter().all(|recall| recall.list != note.list || recall.key != note.key) => {
            found.push(Defect { rule: recall.rule, kind: Kind::OtherKey { endpoint: name() } });
        }
        _ => {}
    }
    found
}

/// What is wrong with the part of a packet that a rule asks for.
fn keys(recall: &Recall<'_>, label: impl Fn(&str) -> String) -> Option<Defect> {
    let endpoint = || label(recall.endpoint);
    let kind = match recall.key {
        Key { destination: true, .. } => Kind::Destination { endpoint: endpoint() },
        Key { mask: Some(mask), .. } => Kind::Mask { endpoint: endpoint(), mask },
        Key { .. } => return None,
    };
    Some(Defect { rule: recall.rule, kind })
}

/// Rules that remember clients for another time than most do.
fn times(recalls: &[Recall<'_>], label: impl Fn(&str) -> String) -> Vec<Defect> {
    let mut counts: HashMap<Option<u32>, (usize, usize)> = HashMap::new();
    for (recall, place) in recalls.iter().zip(0..) {
        counts.entry(recall.seconds).or_insert((0, place)).0 += 1;
    }
    // Of times that are as frequent, the first one.
    let usual = counts.iter().max_by_key(|(_, (count, first))| (*count, std::cmp::Reverse(*first)));
    let Some((usual, _)) = usual else { return Vec::new() };
    let others = recalls.iter().filter(|recall| recall.seconds != *usual);
    let defect = |recall: &Recall<'_>| {
        let kind = Kind::Time { endpoint: label(recall.endpoint), seconds: recall.seconds, usual: *usual };
        Defect { rule: recall.rule, kind }
    };
    others.map(defect).collect()
}
