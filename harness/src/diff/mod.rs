//! Finds the traffic that changes between two clusters, or between two kube-proxies for one cluster.
//!
//! Both sides are predicted for the same packets: all first packets from every vantage point, in classes that each side handles in the same
//! way ([`svclab_rules::walk::Classes`]). The result is therefore complete, not a sample.
//!
//! - `side`: a cluster with its rules; `compare`: all classes, and those that differ; `later_packets`: packets after the first;
//! - `target`: the kind of a packet's destination, with the service's `traits`; `fate`: its outcome; `outcome`: whether two outcomes are
//!   equal;
//! - `group`: classes that change in the same way; `release`: the release or mode that introduces a change; `known_differences`: documented
//!   differences; `merge`: merges groups into a few changes;
//! - `invalid_and_firewall`: packets in the state INVALID and firewalls; `image`: a cluster compared with itself with other addresses;
//!   `notes`: changes that do not affect packets;
//! - `live`: changes on the kernel, as values in `live_result`; `steps`: each release compared with the next;
//! - `accepted`: changes that are expected; `render`, `markdown`, `json`: the result.

mod accepted;
mod compare;
mod fate;
mod group;
mod image;
mod invalid_and_firewall;
pub mod json;
mod known_differences;
mod later_packets;
mod live;
mod live_result;
mod markdown;
mod merge;
mod notes;
mod outcome;
mod release;
mod render;
mod side;
mod steps;
mod target;
mod traits;

use svclab_rules::ruleset::{CompileError, Unsupported};

pub use accepted::{Accepted, read as read_accepted};
pub use group::Example;
pub(crate) use image::image;
pub use json::{json, steps_json};
pub use known_differences::Known;
pub use live::{live, serve};
pub use live_result::{KernelOutcomes, Live};
pub use markdown::{markdown, matrix};
pub use merge::{Change, OutcomeChange};
pub use notes::Note;
pub use render::page;
pub use steps::{Step, steps};
use target::Target;

pub use crate::predict::PredictError;

use crate::run::in_parallel;
use crate::scenario::Scenario;
use crate::text::{counted, path_text};

/// The changes from one side to the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// The kube-proxy of each side, as text: `1.27, iptables mode`; with labs on other kernels, also its kernel:
    /// `1.27, iptables mode, kernel 6.1.0-56-cloud-amd64`.
    pub sides: [String; 2],
    /// The file of each side.
    pub files: [String; 2],
    /// The changes, those that lose packets first.
    pub changes: Vec<Change>,
    /// Changes that do not affect packets.
    pub notes: Vec<Note>,
    /// The number of classes of packets compared.
    pub classes: usize,
    /// Rules that svclab does not model and that packets reach, with the number of classes that depend on them.
    pub unknown: Vec<(String, usize)>,
    /// Rules of the inputs that are not part of the clusters, as text: their effect is unknown.
    pub ignored_rules: Vec<String>,
    /// Vantage points that only one side has.
    pub not_compared: Vec<String>,
    /// Whether not all classes were compared, because there are more than [`Options::max_classes`].
    pub is_cut: bool,
    /// Entries of the accepted changes that did not occur.
    pub unused: Vec<String>,
    /// Whether rules of unknown effect are accepted as well.
    pub allow_unknown: bool,
}

impl Diff {
    /// Returns whether all changes are accepted.
    pub fn holds(&self) -> bool {
        let is_known = self.allow_unknown || self.knows_all_rules();
        !self.is_cut && is_known && self.changes.iter().all(|change| change.accepted.is_some())
    }

    /// Returns whether the effect of every rule is known.
    pub(crate) fn knows_all_rules(&self) -> bool {
        self.unknown.is_empty() && self.ignored_rules.is_empty()
    }

    /// Returns whether the kernel handled all examples that were sent as predicted.
    pub fn is_as_predicted(&self) -> bool {
        let mut live = self.changes.iter().filter_map(|change| change.live.as_ref());
        live.all(|live| !matches!(live, Live::Sent(sent) if sent.is_predicted != [true; 2]))
    }

    /// Returns what was compared and what was left out, as sentences.
    pub(crate) fn closing(&self) -> Vec<String> {
        let compared = counted(self.classes, "class");
        let mut lines = vec![match (self.changes.is_empty(), self.knows_all_rules()) {
            (true, true) => format!("nothing changes: {compared} compared"),
            (false, true) => format!("nothing else changes: {compared} compared"),
            (true, false) => format!("nothing is known to change: {compared} compared"),
            (false, false) => format!("nothing else is known to change: {compared} compared"),
        }];
        if self.is_cut {
            lines = vec![format!("incomplete: only {compared} compared (--max-classes reached)")];
        }
        lines.extend(
            self.unknown
                .iter()
                .map(|(rule, classes)| format!("effect unknown for {} of packets: {rule}", counted(*classes, "class"))),
        );
        lines.extend(self.ignored_rules.iter().map(|words| format!("not compared: {words}")));
        if !self.not_compared.is_empty() {
            lines.push(format!("not compared, exists on one side only: {}", self.not_compared.join(", ")));
        }
        lines.extend(self.unused.iter().map(|id| format!("accepted, but not found: {id}")));
        lines
    }
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
    /// Clusters without a common node.
    #[error("the two clusters have no node in common, by name and address: {}; {}", .0[0], .0[1])]
    NothingInCommon([String; 2]),
    /// Releases in the wrong order, when each is compared with the next.
    #[error("releases are compared from an older to a newer one, and {} is newer than {}", .0[0], .0[1])]
    Reversed([String; 2]),
    /// A single release, when each is compared with the next.
    #[error("there is no release to compare with: both sides are {0}, with the same mode and settings")]
    NoReleases(String),
}

impl DiffError {
    /// Returns how to fix the error.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Unsupported(_) => "Choose another release or mode with `--before` or `--after`.",
            Self::Predict(_) | Self::Rejected(_) => "Correct the rules; the kernel would not load them.",
            Self::Reversed(_) => "Swap `--before` and `--after`, or omit `--each-release`.",
            Self::NoReleases(_) => "Choose two releases or modes with `--before` and `--after`.",
            Self::NothingInCommon(_) => "Compare two states of one cluster: nodes with the same names and addresses.",
        }
    }
}

/// Options of [`diff`].
#[derive(Debug, Clone)]
pub struct Options {
    /// Changes that are expected.
    pub accepted: Accepted,
    /// The maximum number of classes of packets to compare: each takes time, and pending classes take memory.
    pub max_classes: u32,
    /// Whether rules of unknown effect are accepted: those that svclab does not model or cannot parse.
    pub allow_unknown: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { accepted: Accepted::default(), max_classes: crate::verify::MAX_CLASSES, allow_unknown: false }
    }
}

/// Compares the outcome of all first packets.
///
/// # Errors
///
/// If a side cannot be predicted, or the sides have no node in common.
pub fn diff(before: &Scenario, after: &Scenario, options: &Options) -> Result<Diff, DiffError> {
    let [before, after] = both([before, after], side::Side::of);
    let (before, after) = (before?, after?);
    let sides = [&before, &after];
    let [was, is] = both(sides, |side| side.network());
    let (was, is) = (was?, is?);
    let networks = [&was, &is];
    let most = options.max_classes as usize;
    let mut compared = compare::compare(sides, networks, most)?;
    let scenarios = sides.map(|side| side.scenario);
    let boundaries = release::boundaries(&compared.groups, scenarios)?;
    let groups = std::mem::take(&mut compared.groups.all);
    let mut changes = merge::merge(groups, boundaries, scenarios.map(|scenario| &scenario.cluster.proxy));
    // First packets may show the same changes.
    if !changes.iter().any(|change| change.targets.contains(&Target::Invalid)) {
        let (found, is_cut) = invalid_and_firewall::invalid_packets(sides, networks, most)?;
        changes.extend(found);
        compared.is_cut |= is_cut;
    }
    let unused = options.accepted.apply(&mut changes);
    let mut notes = notes::notes(sides, !changes.is_empty());
    notes.extend(invalid_and_firewall::firewall(sides, networks, most)?);
    Ok(Diff {
        sides: [before.words(), after.words()],
        files: scenarios.map(|scenario| path_text(&scenario.file)),
        changes,
        notes,
        classes: compared.classes,
        unknown: compared.unknown.into_iter().collect(),
        ignored_rules: ignored_rules(scenarios),
        not_compared: compared.not_compared,
        is_cut: compared.is_cut,
        unused,
        allow_unknown: options.allow_unknown,
    })
}

/// Returns the rules that are part of neither cluster, each with its side's file if there are two files.
fn ignored_rules(sides: [&Scenario; 2]) -> Vec<String> {
    let [before, after] = sides.map(|side| &side.file);
    let of = |side: &Scenario| -> Vec<String> {
        let file = if before == after { String::new() } else { format!("{}: ", path_text(&side.file)) };
        side.ignored_rules.iter().map(|words| format!("{file}{words}")).collect()
    };
    let mut all = of(sides[0]);
    all.extend(of(sides[1]).into_iter().filter(|words| !all.contains(words)).collect::<Vec<_>>());
    all
}

/// Runs a function for both sides in parallel.
fn both<T: Copy + Sync, R: Send>(sides: [T; 2], work: impl Fn(T) -> R + Sync) -> [R; 2] {
    let mut done = in_parallel(&sides, None, |side| work(*side), &|_| ()).into_iter();
    sides.map(|side| done.next().unwrap_or_else(|| work(side)))
}
