//! Rules that are too many to be judged, or to be compared with those of kube-proxy.

use super::finding::{Finding, Place};
use super::severity::Severity;
use super::view::View;
use crate::evidence::{Contents, Evidence, Piece};
use crate::text::grouped;

/// The most rules and chains that are compared, whole or in an excerpt: a cluster is made of them, with the rules of each release, which takes longer
/// than all other findings.
const MAX: usize = 40_000;

/// The most chains of a rule set that is judged: in a text of the greatest length, those of kube-proxy are fewer, because they have rules. Each is taken
/// for a Service, which takes a hundred times the memory of its name.
const MAX_CHAINS: usize = 250_000;

/// Returns whether there are more rules and chains than are compared.
pub(super) fn exceeds(evidence: &Evidence) -> bool {
    evidence.rules() + evidence.pieces.iter().map(chains).sum::<usize>() > MAX
}

/// The number of chains of iptables in a piece.
fn chains(piece: &Piece) -> usize {
    match &piece.contents {
        Contents::Iptables { rules, .. } => rules.rules.tables.iter().map(|table| table.chains.len()).sum(),
        _ => 0,
    }
}

/// The finding that nothing is judged, because a rule set has too many chains.
pub(super) fn not_judged(evidence: &Evidence) -> Option<Finding> {
    let piece = evidence.pieces.iter().find(|piece| chains(piece) > MAX_CHAINS)?;
    let place = Place { file: piece.file.clone(), line: piece.first };
    let message = format!("nothing is judged: a rule set has more than {} chains", grouped(MAX_CHAINS as u64));
    let effect = "unknown; no kube-proxy writes so many: pass the rules of one node";
    Some(Finding::new("deviation", place, message, effect).graded(Severity::Warning))
}

/// The finding that there are too many.
pub(super) fn not_compared(view: &View<'_>) -> Option<Finding> {
    let node = view.nodes.first()?;
    let place = Place { file: node.file.clone(), line: node.first };
    let message =
        format!("more than {} rules and chains are not compared with those of kube-proxy", grouped(MAX as u64));
    let effect = "no effect; `svclab rules --diff` compares them with the rules of a scenario or of objects";
    Some(Finding::new("deviation", place, message, effect).graded(Severity::Info))
}
