//! Results of a run: a tree of plain values, and renderers that turn it into text.
//!
//! ```text
//! RunReport ── ScenarioReport ── TestReport ── ProbeReport (judgment, observation)
//!     │
//!     ├─ console   text for a terminal, with or without colours
//!     └─ json      every value, with stable names; other reports are derived from it (`results`)
//! ```
//!
//! `model` defines these, `trouble` the errors that leave nothing to judge, `counts` the results. `pcapng` writes captured frames for
//! Wireshark.
//!
//! Renderers are pure: the caller passes what they need to know about the terminal and the environment.

pub mod console;
mod counts;
pub mod json;
mod machines;
mod model;
pub mod pcapng;
mod programs;
mod trouble;
mod words;

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;

pub use self::counts::{Counts, Status};
pub(crate) use self::machines::{Machine, Machines, NodeMachine};
pub use self::model::{
    Diagnosis, KernelMatch, NotApplicable, ProbeReport, RuleExcerpt, RunReport, ScenarioReport, ShardOf, SyncTime,
    TestReport,
};
pub use self::programs::NodeProgram;
pub(crate) use self::programs::{by_program, program_lines};
pub(crate) use self::trouble::NOT_RUN;
pub use self::trouble::{Cause, Trouble};
pub(crate) use self::words::{probe_titles, probe_words};
pub use crate::judge::{Difference, Field, Judgment};
