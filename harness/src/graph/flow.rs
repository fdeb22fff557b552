//! Derives the path of a flow from its explanation.

use std::collections::HashSet;

use super::model::{Direction, Flow, Graph, Outcome, Place, Step};
use crate::explain::{Explanation, HookVisit, OutcomeKind, Path, Proportion};
use crate::text::counted;

/// Maximum number of outcomes that are distinguished.
const OUTCOMES: usize = 32;

/// The text for a machine whose hooks change nothing.
const NOTHING: &str = "changes nothing";

/// Returns the names of the places that a flow visits, and of its service.
pub(super) fn names(explanation: &Explanation) -> HashSet<String> {
    let packet = &explanation.packet;
    let visits = explanation.paths.iter().flat_map(|path| path.original.iter().chain(&path.reply));
    let ends = explanation.paths.iter().filter_map(|path| path.at.clone());
    let service = explanation.promise.as_ref().and_then(|promise| promise.service.as_ref());
    let service = service.and_then(|port| port.rsplit_once(':')).map(|(name, _)| name.to_owned());
    visits.map(|visit| visit.place.clone()).chain(ends).chain(service).chain([sender(&packet.from)]).collect()
}

/// Returns the flow, with the path that has this number, from 1.
pub(super) fn flow(graph: &Graph, explanation: &Explanation, chosen: usize) -> Flow {
    let packet = &explanation.packet;
    let from = sender(&packet.from);
    let chosen = chosen.clamp(1, explanation.paths.len().max(1)) - 1;
    let path = explanation.paths.get(chosen);
    let mut notes: Vec<String> = explanation.doubts().map(|(kind, words)| format!("{kind}: {words}")).collect();
    notes.extend(explanation.promise.iter().map(|promise| format!("promised: {}", promise.outcome)));
    notes.extend(explanation.unpredicted.iter().map(|reason| format!("no prediction: {reason}")));
    let others = explanation.paths.iter().enumerate().filter(|(number, _)| *number != chosen).map(|(_, path)| path);
    let several = explanation.paths.len() > 1;
    let outcomes: Vec<Outcome> = path
        .into_iter()
        .chain(others)
        .take(OUTCOMES)
        .map(|path| Outcome {
            share: several.then(|| path.share.text.clone()),
            rounded: several.then(|| rounded(&path.share)),
            words: path.outcome.clone(),
            kind: path.outcome_kind,
            places: if path.abridged { Vec::new() } else { there(graph, &from, path) },
        })
        .collect();
    if explanation.paths.len() > outcomes.len() {
        notes.push(format!("not shown: {}", counted(explanation.paths.len() - outcomes.len(), "other outcome")));
    }
    Flow {
        title: format!("{} > {} {}", packet.from, packet.to, packet.protocol),
        notes,
        there: path.map(|path| there(graph, &from, path)).unwrap_or_default(),
        back: path.map(|path| back(graph, &from, path)).unwrap_or_default(),
        steps: path.map(|path| steps(graph, explanation, &from, path)).unwrap_or_default(),
        outcomes,
    }
}

/// Returns a share as an exact fraction if that is short, otherwise as a percentage.
fn rounded(share: &Proportion) -> String {
    if share.text.len() <= 5 { share.text.clone() } else { format!("{:.1} %", share.number * 100.0) }
}

/// Returns the place of a sender: a process that sends from the loopback address is on its node.
fn sender(from: &str) -> String {
    from.strip_prefix("localhost@").map_or_else(|| from.to_owned(), |node| format!("node/{node}"))
}

fn there(graph: &Graph, from: &str, path: &Path) -> Vec<Place> {
    let visits = path.original.iter().map(|visit| visit.place.as_str());
    linked(graph, std::iter::once(from).chain(visits).chain(path.at.as_deref()))
}

/// Returns the places of the reply; none if there is no reply.
fn back(graph: &Graph, from: &str, path: &Path) -> Vec<Place> {
    let is_back = path.reply_from.is_some() || path.outcome_kind == OutcomeKind::Rejected;
    if path.reply.is_empty() && !is_back {
        return Vec::new();
    }
    let visits = path.reply.iter().map(|visit| visit.place.as_str());
    linked(graph, path.at.as_deref().into_iter().chain(visits).chain(is_back.then_some(from)))
}

/// Returns the places with these names, and those between them: a packet follows links.
fn linked<'n>(graph: &Graph, names: impl Iterator<Item = &'n str>) -> Vec<Place> {
    let mut all: Vec<Place> = Vec::new();
    for place in names.filter_map(|name| graph.place(name)) {
        let Some(last) = all.last().copied() else {
            all.push(place);
            continue;
        };
        let up = |from| std::iter::successors(Some(from), |place: &Place| place.parent()).collect::<Vec<Place>>();
        let (down, up) = (up(place), up(last));
        let meeting = up.iter().position(|place| down.contains(place)).unwrap_or(0);
        let common = down.iter().position(|place| *place == up[meeting]).unwrap_or(0);
        all.extend(up[..=meeting].iter().skip(1));
        all.extend(down[..common].iter().rev());
    }
    all
}

/// Returns what happens on the way there and back.
fn steps(graph: &Graph, explanation: &Explanation, from: &str, path: &Path) -> Vec<Step> {
    let packet = &explanation.packet;
    let mut steps = Vec::new();
    let mut add = |name: &str, way: Direction, words: Vec<String>| {
        let Some(place) = graph.place(name) else { return };
        match steps.last_mut().filter(|last: &&mut Step| last.place == place && last.way == way) {
            Some(last) if last.words == [NOTHING] => last.words = words,
            Some(last) => last.words.extend(words),
            None => steps.push(Step { place, way, words }),
        }
    };
    let source = packet.source.map(|source| format!("{source} > ")).unwrap_or_default();
    add(from, Direction::There, vec![format!("sends {source}{} {}", packet.destination, packet.protocol)]);
    for visits in by_place(&path.original) {
        add(&visits[0].place, Direction::There, words(visits));
    }
    let end = match path.outcome_kind {
        OutcomeKind::Delivered => {
            let text = |address: Option<std::net::SocketAddr>| address.map(|it| it.to_string()).unwrap_or_default();
            format!("receives {} > {}", text(path.source), text(path.destination))
        }
        OutcomeKind::Rejected | OutcomeKind::Dropped | OutcomeKind::Unknown => path.outcome.clone(),
    };
    add(path.at.as_deref().unwrap_or(from), Direction::There, vec![end]);
    for visits in by_place(&path.reply) {
        add(&visits[0].place, Direction::Back, words(visits));
    }
    match (&path.reply_from, &path.reply_outcome) {
        (Some(address), _) => add(from, Direction::Back, vec![format!("receives the reply from {address}")]),
        (None, Some(words)) => add(from, Direction::Back, vec![words.clone()]),
        (None, None) if path.outcome_kind == OutcomeKind::Rejected => {
            add(from, Direction::Back, vec!["receives the rejection".to_owned()]);
        }
        (None, None) => {}
    }
    steps
}

/// Returns the hooks of each machine, one machine after the other.
fn by_place(visits: &[HookVisit]) -> impl Iterator<Item = &[HookVisit]> {
    visits.chunk_by(|one, next| one.place == next.place)
}

/// Describes what the hooks of a machine do with a packet.
fn words(visits: &[HookVisit]) -> Vec<String> {
    let hook = |visit: &HookVisit| {
        let changes = visit.changes.iter().filter(|change| change.what != "mark");
        let changes: Vec<String> = changes.map(|change| format!("{} becomes {}", change.what, change.to)).collect();
        (!changes.is_empty()).then(|| format!("{}: {}", visit.hook, changes.join(", ")))
    };
    let words: Vec<String> = visits.iter().filter_map(hook).collect();
    if words.is_empty() { vec![NOTHING.to_owned()] } else { words }
}
