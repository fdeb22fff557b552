//! The smallest scenario that still shows a failure.
//!
//! 1. `class`: a scenario → the failing class that is to be kept, found as `svclab verify --no-lab` finds it;
//! 2. `reduce`: objects, nodes, hosts, settings and rules (`rules`) are taken away by delta debugging (`delta`), as long as the class
//!    is still there;
//! 3. what is left is written as a scenario that needs no other file (`scenario::print`);
//! 4. the text is read again, and fails in the same way; in a lab, too, if one is wanted.

mod class;
mod delta;
mod reduce;
mod rules;

use std::path::Path;

pub use class::FailingClass;

use self::class::Judge;
use crate::input::Diagnostics;
use crate::report::Trouble;
use crate::scenario::{self, Scenario, Tests, parse_with};
use crate::text::printable;
use crate::verify::Options;

/// How a scenario is minimized.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Which flows are looked at, and how labs are built. With `no_lab`, nothing is confirmed in the kernel.
    pub verify: Options,
}

/// What is left of a scenario.
#[derive(Debug, Clone)]
pub struct Minimized {
    /// The scenario's text.
    pub text: String,
    /// What it shows.
    pub class: FailingClass,
    /// How many services, endpoints, nodes and rules of its own it had and has.
    pub sizes: [Size; 2],
    /// How many smaller scenarios were tried.
    pub tried: usize,
    /// Whether the failure was reproduced in a lab.
    pub lab: LabResult,
}

/// Whether a failure that is predicted was reproduced in a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabResult {
    /// No lab was run.
    NotRun,
    /// Packets fail in this way.
    Reproduced,
    /// No machine of the lab can send such a packet, for example one with another machine's address.
    NotSendable,
    /// Packets do not fail in this way.
    NotReproduced,
}

/// How large a scenario is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Services.
    pub services: usize,
    /// Endpoints.
    pub endpoints: usize,
    /// Nodes.
    pub nodes: usize,
    /// Rules that the scenario brings along.
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

/// Why nothing is minimized.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MinimizeError {
    /// No flow fails.
    #[error("no flow fails: promise and prediction agree on all of them")]
    NothingFails,
    /// The scenario cannot be verified.
    #[error("the scenario cannot be verified")]
    Trouble(Box<Trouble>),
    /// What is left cannot be written as a scenario.
    #[error("what is left cannot be written as a scenario")]
    Unwritten(Box<Diagnostics>),
    /// What is left is no longer that failure once it is written.
    #[error("the minimized scenario no longer fails once it is written and read back")]
    Lost,
}

/// How many failing classes are tried until a lab shows one: packets with the sources of others are predicted, and cannot be sent.
const MAX_CLASSES: usize = 5;

/// Takes away from a scenario what its first failing class does not need, or where labs are built, the first one that a lab shows. Its tests
/// are left out.
///
/// # Errors
///
/// A scenario that cannot be verified, or of which no flow fails.
pub fn minimize(scenario: &Scenario, choice: &Choice) -> Result<Minimized, MinimizeError> {
    let plain = Scenario { tests: Vec::new(), notes: Vec::new(), ..scenario.clone() };
    let classes = FailingClass::all(&plain, &choice.verify)?;
    let mut first = None;
    for class in classes.into_iter().take(MAX_CLASSES) {
        let minimized = keep(class, &plain, choice)?;
        if matches!(minimized.lab, LabResult::NotRun | LabResult::Reproduced) {
            return Ok(minimized);
        }
        first.get_or_insert(minimized);
    }
    first.ok_or(MinimizeError::NothingFails)
}

/// Takes away what one class does not need.
fn keep(class: FailingClass, whole: &Scenario, choice: &Choice) -> Result<Minimized, MinimizeError> {
    let mut judge = Judge::new(&class, &choice.verify);
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
    let tried = judge.tried;
    Ok(Minimized { text, sizes: [Size::of(whole), Size::of(&read)], class, tried, lab })
}

/// Reads a scenario that names no other file.
fn parse_alone(text: &str, file: &Path) -> Result<Scenario, MinimizeError> {
    let none = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    parse_with(text, file, &none, Tests::Optional).map_err(|errors| MinimizeError::Unwritten(Box::new(errors)))
}
