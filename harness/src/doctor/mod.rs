//! Checks what this machine has and lacks for running labs, and suggests fixes.
//!
//! [`examine`] tests features instead of deriving them from version numbers: it becomes privileged as a run does, builds temporary labs,
//! installs rules in them and sends packets. [`render()`] formats the result as text.

mod kernel;
mod limits;
mod privileges;
mod programs;
mod render;
mod rules;

use std::borrow::Cow;
use std::sync::Arc;
use std::{fs, io};

use serde::{Deserialize, Serialize};
use svclab_rules::cluster::Family;

use crate::lab::has_ipv6;
use crate::report::Trouble;
use crate::worker::{self, Kind, Slot, WorkerError, WorkerLocation};

pub use render::render;

/// The results of all checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examination {
    /// The groups of checks, in the order in which they depend on each other.
    pub groups: Vec<Group>,
}

/// Checks of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The subject of the checks: `privileges`, `programs`, `kernel`, `rules`, `limits`.
    pub name: Cow<'static, str>,
    /// The checks.
    pub checks: Vec<Check>,
}

/// The check of one thing that a lab needs or can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The name of what was checked, as administrators know it: `br_netfilter`, `net.core.rmem_max`.
    pub name: String,
    /// Whether it is available.
    pub status: Status,
    /// What was found, as a lower-case fragment.
    pub found: String,
    /// How to fix it, in sentences; `None` if it is available.
    pub fix: Option<String>,
}

/// Whether a feature is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Status {
    /// It is available.
    Ok,
    /// It is not available, and few scenarios need it.
    Degraded,
    /// It is not available, and `svclab run` needs it.
    Lacking,
}

impl Examination {
    /// Returns whether everything that `svclab run` needs is available.
    pub fn is_enough(&self) -> bool {
        self.count(Status::Lacking) == 0
    }

    /// Returns the examination with only the checks that failed.
    pub fn faults(&self) -> Self {
        let of_group = |group: &Group| {
            let checks: Vec<Check> = group.checks.iter().filter(|check| check.status != Status::Ok).cloned().collect();
            (!checks.is_empty()).then_some(Group { name: group.name.clone(), checks })
        };
        Self { groups: self.groups.iter().filter_map(of_group).collect() }
    }

    /// Returns the number of checks with a status.
    pub fn count(&self, status: Status) -> usize {
        self.groups.iter().flat_map(|group| &group.checks).filter(|check| check.status == status).count()
    }
}

impl Check {
    fn ok(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self { name: name.into(), status: Status::Ok, found: found.into(), fix: None }
    }

    fn lacking(name: impl Into<String>, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name: name.into(), status: Status::Lacking, found: found.into(), fix: Some(fix.into()) }
    }

    /// Marks a check as optional: few scenarios need it.
    fn optional(mut self) -> Self {
        if self.status == Status::Lacking {
            self.status = Status::Degraded;
        }
        self
    }
}

/// Examines this machine.
///
/// The process becomes privileged by [`become_privileged`](crate::testing::become_privileged), so it must have a single thread.
pub fn examine() -> Examination {
    let (privileges, rootless) = privileges::examine();
    let can_build = privileges.iter().all(|check| check.status == Status::Ok);
    let mut groups = vec![
        Group { name: Cow::Borrowed("privileges"), checks: privileges },
        Group { name: Cow::Borrowed("programs"), checks: programs::examine() },
    ];
    if can_build {
        groups.push(Group { name: Cow::Borrowed("kernel"), checks: kernel::examine() });
        groups.push(Group { name: Cow::Borrowed("rules"), checks: rules::examine() });
    }
    let checks = limits::examine(can_build, rootless);
    groups.push(Group { name: Cow::Borrowed("limits"), checks });
    Examination { groups }
}

/// Examines a worker's machine, in that worker.
///
/// # Errors
///
/// If the worker exits early.
pub fn examine_in(location: &WorkerLocation) -> Result<Examination, Trouble> {
    Slot::new(location, Kind::Doctor).ask(&(), &Arc::default()).map_err(WorkerError::into_trouble)
}

/// Serves [`examine_in`] over standard input and output.
///
/// # Errors
///
/// If these are not the pipes of a command.
pub fn serve() -> io::Result<()> {
    worker::serve(|(): (), _, _| Ok(examine()))
}

/// Returns the address families that the kernel supports.
fn families() -> &'static [Family] {
    if has_ipv6() { &Family::ALL } else { &[Family::Ipv4] }
}

/// `IPv4 and IPv6`.
fn listed(families: impl IntoIterator<Item = Family>) -> String {
    families.into_iter().map(|family| family.to_string()).collect::<Vec<_>>().join(" and ")
}

/// Reads a file in `/proc` without its last line break; returns `None` if it does not exist.
fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Reads a number from a file in `/proc`.
fn read_number(path: &str) -> Option<u64> {
    read(path)?.parse().ok()
}
