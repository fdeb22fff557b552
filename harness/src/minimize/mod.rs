//! The smallest scenario that still shows a failure.
//!
//! 1. `class`: a scenario → the failing class to keep, found as `svclab verify --no-lab` finds it;
//! 2. `repair`: the deviations from kube-proxy's rules that cause it, if any: `missing_rules`, which `complete` adds, and `obstacles`, which
//!    are removed;
//! 3. `reduce`: objects, nodes, hosts, settings and rules (`rules`) are removed by delta debugging (`delta`) as long as the class still
//!    fails, the repair still repairs it, and nothing fails in another way than before;
//! 4. the rest is written as a self-contained scenario (`scenario::print`);
//! 5. the text is read back and must fail in the same way, in a lab too if one is requested.

mod class;
mod complete;
mod delta;
mod follow;
mod missing_rules;
mod obstacles;
mod reduce;
mod repair;
mod rules;

use std::collections::HashSet;
use std::path::Path;

pub use class::FailingClass;

use self::class::{Judge, Way};
use crate::input::Diagnostics;
use crate::report::Trouble;
use crate::scenario::{self, Scenario, Tests, parse_with};
use crate::text::printable;
use crate::verify::Options;

/// Options of minimizing.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// The flows to examine, and how labs are built. With `no_lab`, nothing is confirmed in the kernel.
    pub verify: Options,
}

/// A minimized scenario.
#[derive(Debug, Clone)]
pub struct Minimized {
    /// The scenario's text.
    pub text: String,
    /// The failure that it shows.
    pub class: FailingClass,
    /// The numbers of services, endpoints, nodes and rules of its own, before and after.
    pub sizes: [Size; 2],
    /// The number of smaller scenarios tried.
    pub tried: usize,
    /// Whether the failure was reproduced in a lab.
    pub lab: LabResult,
    /// Whether flows fail in other ways, too, as they do in the whole scenario.
    pub has_others: bool,
}

/// Whether a predicted failure was reproduced in a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabResult {
    /// No lab was run.
    NotRun,
    /// Packets fail in this way.
    Reproduced,
    /// No machine of the lab can send such a packet, for example because its source is another machine's address.
    NotSendable,
    /// Packets do not fail in this way.
    NotReproduced,
}

/// The size of a scenario, in objects and rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Services.
    pub services: usize,
    /// Endpoints.
    pub endpoints: usize,
    /// Nodes.
    pub nodes: usize,
    /// Rules that the scenario contains.
    pub rules: usize,
}

impl Size {
    /// The size of a scenario.
    pub fn of(scenario: &Scenario) -> Self {
        let cluster = &scenario.cluster;
        Self {
            services: cluster.services.len(),
            endpoints: cluster.slices.iter().map(|slice| slice.endpoints.len()).sum(),
            nodes: cluster.nodes.len(),
            rules: scenario.rules.iter().map(|rules| rules::units(&rules.rules)).sum(),
        }
    }
}

/// The reason why a scenario could not be minimized.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MinimizeError {
    /// No flow fails.
    #[error("no flow fails: promise and prediction agree on all of them")]
    NothingFails,
    /// The scenario cannot be verified.
    #[error("the scenario cannot be verified")]
    Trouble(Box<Trouble>),
    /// The minimized cluster cannot be written as a scenario.
    #[error("the minimized cluster cannot be written as a scenario")]
    Unwritten(Box<Diagnostics>),
    /// The written scenario no longer shows the failure.
    #[error("the minimized scenario no longer fails once it is written and read back")]
    Lost,
}

/// The maximum number of failing classes tried in a lab: some are predicted for packets with another machine's source address, which a lab
/// cannot send.
const MAX_CLASSES: usize = 5;

/// Removes from a scenario everything that its first failing class does not need; if labs are built, that is the first class that a lab
/// reproduces. Its tests are left out.
///
/// # Errors
///
/// If the scenario cannot be verified or no flow fails.
pub fn minimize(scenario: &Scenario, choice: &Choice) -> Result<Minimized, MinimizeError> {
    let plain = Scenario { tests: Vec::new(), notes: Vec::new(), ..scenario.clone() };
    let classes = FailingClass::all(&plain, &choice.verify)?;
    let known: HashSet<Way> = classes.iter().map(FailingClass::way).collect();
    let mut first = None;
    for class in classes.iter().take(MAX_CLASSES) {
        let minimized = keep(class, known.clone(), &plain, choice)?;
        if matches!(minimized.lab, LabResult::NotRun | LabResult::Reproduced) {
            return Ok(minimized);
        }
        first.get_or_insert(minimized);
    }
    first.ok_or(MinimizeError::NothingFails)
}

/// Removes everything that one class does not need.
fn keep(
    class: &FailingClass,
    known: HashSet<Way>,
    whole: &Scenario,
    choice: &Choice,
) -> Result<Minimized, MinimizeError> {
    let mut judge = Judge::new(class, known, &choice.verify, whole);
    let small = reduce::reduce(whole.clone(), &mut judge);
    let named = Scenario { name: class.to_string(), ..small };
    let origin = printable(&whole.file);
    let comment = format!("Minimized from {origin}; failing flow: {}, {}.", class.flow, class.what);
    let text = scenario::print(&named, &[comment], &[]);
    let read = parse_alone(&text, &whole.file)?;
    if !judge.shows(&read) {
        return Err(MinimizeError::Lost);
    }
    let lab = if choice.verify.no_lab { LabResult::NotRun } else { judge.reproduce(&read)? };
    let (tried, has_others) = (judge.tried, judge.ways(&read)?.iter().any(|way| *way != class.way()));
    Ok(Minimized { text, sizes: [Size::of(whole), Size::of(&read)], class: class.clone(), tried, lab, has_others })
}

/// Reads a self-contained scenario.
fn parse_alone(text: &str, file: &Path) -> Result<Scenario, MinimizeError> {
    let none = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    parse_with(text, file, &none, Tests::Optional).map_err(|errors| MinimizeError::Unwritten(Box::new(errors)))
}
