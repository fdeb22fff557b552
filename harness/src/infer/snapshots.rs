//! Which cluster, at which time, a scenario is built of, where a text shows several.

use serde_json::Value;
use svclab_rules::infer::Infer;

use crate::evidence::{Contents, Snapshot, node_rules};

/// The first snapshot with rules of Services; without any, the first of those with the most Services.
pub(super) fn choose(all: &[Snapshot]) -> Option<&Snapshot> {
    all.iter().find(|one| has_rules(one)).or_else(|| all.iter().rev().max_by_key(|one| services(one)))
}

fn has_rules(snapshot: &Snapshot) -> bool {
    node_rules(&snapshot.evidence).iter().any(|set| !set.rules.infer().ports.is_empty())
}

fn services(snapshot: &Snapshot) -> usize {
    let is_service = |object: &&Value| object["kind"] == "Service";
    let objects = snapshot.evidence.pieces.iter().flat_map(|piece| match &piece.contents {
        Contents::Objects(objects) => objects.as_slice(),
        _ => &[],
    });
    objects.filter(is_service).count()
}

/// What is said of the other snapshots, each with whether it has rules of Services.
pub(super) fn words(all: &[Snapshot], chosen: &Snapshot) -> Vec<(String, bool)> {
    let words = |one: &Snapshot| match (&one.why, &chosen.why) {
        (Some(why), _) => format!("{}: {why}; this part is of another time or cluster, and not used", one.place()),
        (None, Some(why)) => {
            format!("{}: {why}; the text before is of another time or cluster, and not used", chosen.place())
        }
        (None, None) => format!("{}: of another time or cluster, and not used", one.place()),
    };
    all.iter().filter(|one| *one != chosen).map(|one| (words(one), has_rules(one))).collect()
}
