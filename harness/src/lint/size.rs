//! Rules that are too many to be compared with those of kube-proxy.

use super::finding::{Finding, Place};
use super::severity::Severity;
use super::view::View;
use crate::evidence::{Contents, Evidence};
use crate::text::grouped;

/// The most rules and chains that are compared, whole or in an excerpt: a cluster is made of them, with the rules of each release, which takes longer
/// than all other findings.
const MAX: usize = 40_000;

/// Returns whether there are more rules and chains than are compared.
pub(super) fn exceeds(evidence: &Evidence) -> bool {
    let chains = evidence.pieces.iter().map(|piece| match &piece.contents {
        Contents::Iptables { rules, .. } => rules.rules.tables.iter().map(|table| table.chains.len()).sum(),
        _ => 0,
    });
    evidence.rules() + chains.sum::<usize>() > MAX
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
