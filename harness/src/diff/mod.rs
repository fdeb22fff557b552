//! Which traffic changes between two clusters, or for one cluster between two kube-proxies.
//!
//! Both sides are predicted for the same packets: all first packets from every vantage point, in classes that neither side tells apart
//! ([`svclab_rules::walk::Classes`]). So the result is complete, and no sample.
//!
//! - `side`: a cluster with its rules; `compare`: all classes, and those that differ;
//! - `target`: what a packet is sent to; `outcome`: what becomes of it, in words that can be compared;
//! - `merge`: classes to a few changes; `release`: the release or mode that brings a change; `known`: documented differences;
//! - `beyond`: differences that no first packet shows; `image`: a cluster against itself with other addresses;
//! - `accepted`: changes that are expected; `render`, `markdown`, `json`: the result.

mod accepted;
mod beyond;
mod compare;
mod image;
pub mod json;
mod known;
mod markdown;
mod merge;
mod outcome;
mod release;
mod render;
mod side;
mod target;

use svclab_rules::ruleset::{CompileError, Unsupported};

pub use crate::predict::PredictError;
pub use accepted::{Accepted, read as read_accepted};
pub(crate) use image::image;
pub use json::json;
pub use known::Known;
pub use markdown::markdown;
pub use merge::{Change, Example};
pub use render::page;

use crate::scenario::Scenario;
use crate::text::grouped;

/// What changes from one side to the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// The kube-proxy of each side, in words: `1.27, iptables mode`.
    pub sides: [String; 2],
    /// The changes, those of most classes first.
    pub changes: Vec<Change>,
    /// How many classes of packets were compared.
    pub classes: usize,
    /// Rules that svclab does not model and that packets meet, with the number of classes that depend on them.
    pub unknown: Vec<(String, usize)>,
    /// Vantage points that only one side has.
    pub not_compared: Vec<String>,
    /// Whether not all classes were compared, because there are too many.
    pub is_cut: bool,
    /// Entries of the accepted changes that did not occur.
    pub unused: Vec<String>,
}

impl Diff {
    /// Whether nothing changes but what is accepted.
    pub fn holds(&self) -> bool {
        !self.is_cut && self.unknown.is_empty() && self.changes.iter().all(|change| change.accepted.is_some())
    }

    /// What was compared, and what is left out, as sentences.
    pub(crate) fn closing(&self) -> Vec<String> {
        let compared = classes(self.classes);
        let mut lines = vec![match self.changes.is_empty() {
            true => format!("nothing changes: {compared} compared"),
            false => format!("nothing else changes: {compared} compared"),
        }];
        if self.is_cut {
            lines = vec![format!("incomplete: there are more classes than the {compared} that were compared")];
        }
        lines.extend(
            self.unknown
                .iter()
                .map(|(rule, classes)| format!("unknown for {} of packets: {rule}", self::classes(*classes))),
        );
        if !self.not_compared.is_empty() {
            lines.push(format!("not compared, for only one side has it: {}", self.not_compared.join(", ")));
        }
        lines.extend(self.unused.iter().map(|id| format!("accepted, but does not occur: {id}")));
        lines
    }
}

/// A number of classes: `1 class`, `1,057 classes`.
fn classes(number: usize) -> String {
    let word = if number == 1 { "class" } else { "classes" };
    format!("{} {word}", grouped(number as u64))
}

/// Why two sides cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// A release or mode that is not modelled.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// Rules that the kernel rejects.
    #[error(transparent)]
    Predict(#[from] PredictError),
    /// Rules of a node that the kernel rejects.
    #[error("{0}")]
    Rejected(#[from] CompileError),
    /// Clusters that have nothing to compare.
    #[error("the two have nothing in common: no node of {0} is in {1}")]
    NothingInCommon(String, String),
}

impl DiffError {
    /// How to fix it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Unsupported(_) => "Choose another release or mode with `--before` or `--after`.",
            Self::Predict(_) | Self::Rejected(_) => "Correct the rules; the kernel would not load them.",
            Self::NothingInCommon(..) => "Compare two states of one cluster: nodes with the same names and addresses.",
        }
    }
}

/// Compares what becomes of all first packets.
///
/// # Errors
///
/// Sides that cannot be predicted, or that have nothing in common.
pub fn diff(before: &Scenario, after: &Scenario, accepted: &Accepted) -> Result<Diff, DiffError> {
    let sides = [before, after].map(side::Side::of);
    let [before, after] = sides;
    let (before, after) = (before?, after?);
    let networks = [before.network()?, after.network()?];
    let compared = compare::compare([&before, &after], [&networks[0], &networks[1]])?;
    let mut changes = merge::merge(&compared.differing, [&before, &after]);
    release::attribute(&mut changes, [before.scenario, after.scenario])?;
    for change in beyond::changes([&before, &after], [&networks[0], &networks[1]])? {
        // First packets may show the same.
        if !changes.iter().any(|one| one.target == change.target) {
            changes.push(change);
        }
    }
    let unused = accepted.apply(&mut changes);
    Ok(Diff {
        sides: [before.words(), after.words()],
        changes,
        classes: compared.classes,
        unknown: compared.unknown.into_iter().collect(),
        not_compared: compared.not_compared,
        is_cut: compared.is_cut,
        unused,
    })
}
