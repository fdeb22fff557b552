//! What is wrong in evidence, or worth knowing about it: one file for each family of findings.
//!
//! 1. `view`: [`Evidence`] → the rules, objects, connections and settings in it, with their places;
//! 2. each family: view → [`Finding`]s; `catalog` has for each kind its severity, a known issue with the same cause, and what to ask for;
//! 3. `page` and `json` print them.
//!
//! A finding that a cut may explain is not made: absences are judged where rules are whole, and in an excerpt (`missing`) where `verify`
//! would fail by them, since the text would show what is absent. Whole rules are also compared with those that kube-proxy writes for the
//! cluster that they show (`deviations`).

mod backends;
mod catalog;
mod chains;
mod cluster_ips;
mod connections;
mod contradictions;
mod deviation_places;
mod deviations;
mod finding;
mod forwarding;
pub mod json;
mod lines;
mod listed;
mod listed_services;
mod missing;
mod names;
mod node_ports;
mod objects;
mod older_layouts;
mod page;
mod pods;
mod policy;
mod port_names;
mod portless;
mod preceding;
mod preempting;
mod programs;
mod rejections;
mod settings;
mod severity;
mod shares;
mod size;
mod surrounding_rules;
#[cfg(test)]
mod tests;
mod unmodelled;
mod unready_pods;
mod view;

pub use catalog::{CATALOG, Entry};
pub use finding::{Finding, Place};
pub use page::render;
pub use severity::Severity;

use std::collections::BTreeSet;
use std::path::Path;

use self::view::View;
use crate::evidence::{Evidence, Piece};
use crate::infer::{Assumption, Connections, PROXY_NAME_LABEL, from_evidence};

/// All findings, most severe first, those of the same kind in the order of their places. What a text shows of two clusters, or of one at two
/// times, is judged separately.
pub fn lint(evidence: &Evidence) -> Vec<Finding> {
    let snapshots = evidence.snapshots();
    if snapshots.is_empty() {
        return sorted(findings(evidence));
    }
    sorted(snapshots.iter().flat_map(|snapshot| findings(&snapshot.evidence)).collect())
}

/// The findings, most severe first, without those that say the same again.
fn sorted(mut found: Vec<Finding>) -> Vec<Finding> {
    found.sort_by(|one, other| (one.severity, one.id, &one.place).cmp(&(other.severity, other.id, &other.place)));
    // Both the balancing and the names of chains show an edited endpoint.
    let is_again =
        |one: &Finding, other: &Finding| one.id == "hash-endpoint" && (one.id, &one.place) == (other.id, &other.place);
    found.dedup_by(|one, other| one == other || is_again(one, other));
    found
}

fn findings(evidence: &Evidence) -> Vec<Finding> {
    const FAMILIES: [fn(&View<'_>) -> Vec<Finding>; 21] = [
        shares::find,
        names::find,
        contradictions::find,
        cluster_ips::find,
        node_ports::find,
        chains::find,
        unmodelled::find,
        surrounding_rules::find,
        portless::find,
        forwarding::find,
        policy::find,
        preceding::find,
        rejections::find,
        listed_services::find,
        backends::find,
        objects::find,
        unready_pods::find,
        pods::find,
        connections::find,
        settings::find,
        programs::find,
    ];
    if let Some(finding) = size::not_judged(evidence) {
        return vec![finding];
    }
    let nodes = crate::evidence::node_rules(evidence);
    let are_whole = nodes.iter().all(crate::evidence::NodeRules::is_whole);
    let is_too_large = size::exceeds(evidence);
    let are_compared = !is_too_large && (!are_whole || evidence.rules() <= deviations::MAX_RULES);
    let compared = || from_evidence(evidence, Path::new(""), &[], Connections::LeftOut).ok();
    let mut assumed = if are_compared && !nodes.is_empty() { compared() } else { None };
    if let Some(assumed) = &mut assumed {
        older_layouts::leave_out(&mut assumed.deviations, &nodes);
    }
    let deviations = assumed.as_ref().map(|assumed| assumed.deviations.as_slice());
    let view = View::of(evidence, &nodes, deviations);
    let mut found: Vec<Finding> = FAMILIES.iter().flat_map(|find| find(&view)).collect();
    if is_too_large {
        found.extend(size::not_compared(&view));
    } else if !are_compared {
        found.extend(deviations::not_compared(&view));
    }
    if let Some(assumed) = &assumed {
        found.extend(assumed_settings(&view, &assumed.assumptions, &found));
        found.extend(missing::find(&view, &assumed.deviations, &found));
        found.extend(deviations::find(&view, assumed, &found, |fact| missing::effect(&view, fact)));
        policy::judge_local_drops(&view, &mut found, &assumed.deviations);
    }
    rejections::drop_consequences(&mut found);
    name_machines(evidence, assumed.as_ref().map_or(&[], |assumed| &assumed.nodes), &mut found);
    found
}

/// Adds the machine whose rules an error or a warning is about, where a text has those of several: their lines do not show it. Prompts name machines,
/// and so do headings that nodes are named after.
fn name_machines(evidence: &Evidence, nodes: &[String], found: &mut [Finding]) {
    let has_rules = |piece: &&Piece| piece.file.is_none() && piece.contents.rules() > 0;
    let heading = |piece: &'_ Piece| piece.heading.clone().filter(|heading| nodes.contains(heading));
    let machine = |piece: &'_ Piece| piece.host.clone().or_else(|| heading(piece));
    let pieces: Vec<&Piece> = evidence.pieces.iter().filter(has_rules).collect();
    let machines: BTreeSet<String> = pieces.iter().filter_map(|piece| machine(piece)).collect();
    if machines.len() < 2 {
        return;
    }
    for finding in found.iter_mut().filter(|finding| finding.severity != Severity::Info) {
        let is_here = |piece: &&&Piece| (piece.first..=piece.last).contains(&finding.place.line);
        if let Some(name) = pieces.iter().find(is_here).and_then(|piece| machine(piece))
            && !finding.message.contains(&name)
        {
            finding.message.push_str(&format!(" (on {name})"));
        }
    }
}

/// Settings that explain why rules are not there; without them, the rules are missing.
fn assumed_settings(view: &View<'_>, assumptions: &[Assumption], found: &[Finding]) -> Vec<Finding> {
    let Some(node) = view.nodes.first() else { return Vec::new() };
    let is_found = |id: &str| found.iter().any(|finding| finding.id == id);
    let settings = assumptions.iter().filter(|one| match one {
        Assumption::Setting { name: "clusterCIDR", .. } => !is_found("no-masquerade"),
        Assumption::Setting { .. } => true,
        _ => false,
    });
    let place = Place { file: node.file.clone(), line: node.first };
    let effect = "no effect if it is set so; otherwise, these rules are missing";
    let finding = |one: &Assumption| {
        let finding = Finding::new("assumed-setting", place.clone(), one.to_string(), effect);
        // Few clusters have another proxy for some Services.
        match one {
            Assumption::Setting { name, .. } if *name == PROXY_NAME_LABEL => finding.graded(Severity::Warning),
            _ => finding,
        }
    };
    settings.map(finding).collect()
}
