//! What this machine has and lacks for running labs, with fixes.
//!
//! [`examine`] tries things rather than deriving them from version numbers: it becomes privileged as a run does, builds
//! throw-away labs, installs rules in them and sends packets. [`render()`] shows the result to people.

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
use crate::worker::{self, Home, Kind, Slot, WorkerError};

pub use render::render;

/// Everything that was examined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examination {
    /// The checks by what they are about, in the order in which one builds on the other.
    pub groups: Vec<Group>,
}

/// Checks of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// What they are about: `privileges`, `programs`, `kernel`, `rules`, `limits`.
    pub name: Cow<'static, str>,
    /// The checks.
    pub checks: Vec<Check>,
}

/// One thing that a lab needs or can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was examined, by the name that administrators know: `br_netfilter`, `net.core.rmem_max`.
    pub name: String,
    /// Whether it is there.
    pub status: Status,
    /// What was found, a fragment in lower case.
    pub found: String,
    /// What to do about it, in sentences; nothing if it is there.
    pub fix: Option<String>,
}

/// Whether something is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Status {
    /// It is.
    Ok,
    /// It is not, and few scenarios need it.
    Degraded,
    /// It is not, and `svclab run` needs it.
    Lacking,
}

impl Examination {
    /// True when all that `svclab run` needs is there.
    pub fn is_enough(&self) -> bool {
        self.count(Status::Lacking) == 0
    }

    /// The examination with only the checks that did not succeed.
    pub fn faults(&self) -> Self {
        let of_group = |group: &Group| {
            let checks: Vec<Check> = group.checks.iter().filter(|check| check.status != Status::Ok).cloned().collect();
            (!checks.is_empty()).then_some(Group { name: group.name.clone(), checks })
        };
        Self { groups: self.groups.iter().filter_map(of_group).collect() }
    }

    /// How many checks have a status.
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

    /// Marks a check of something that few scenarios need.
    fn optional(mut self) -> Self {
        if self.status == Status::Lacking {
            self.status = Status::Degraded;
        }
        self
    }
}

/// Examines this machine.
///
/// The process becomes privileged, as [`become_privileged`](crate::testing::become_privileged) says: it must have a single thread.
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

/// The same in a worker's place, by that.
///
/// # Errors
///
/// If the worker ends early.
pub fn examine_in(home: &Home) -> Result<Examination, Trouble> {
    Slot::new(home, Kind::Doctor).ask(&(), &Arc::default()).map_err(WorkerError::into_trouble)
}

/// Serves [`examine_in`], by standard input and output.
///
/// # Errors
///
/// Where these are not the pipes of a command.
pub fn serve() -> io::Result<()> {
    worker::serve(|(): (), _, _| Ok(examine()))
}

/// The address families that the kernel supports.
fn families() -> &'static [Family] {
    if has_ipv6() { &Family::ALL } else { &[Family::Ipv4] }
}

/// `IPv4 and IPv6`.
fn listed(families: impl IntoIterator<Item = Family>) -> String {
    families.into_iter().map(|family| family.to_string()).collect::<Vec<_>>().join(" and ")
}

/// A file of `/proc` without its last line break; `None` if there is none.
fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// A number from `/proc`.
fn read_number(path: &str) -> Option<u64> {
    read(path)?.parse().ok()
}
