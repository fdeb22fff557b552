//! A change that is made step by step while flows are sent: slow steps run in another thread than the one that sends.

use std::mem;
use std::panic::resume_unwind;
use std::thread::{self, JoinHandle, Scope, ScopedJoinHandle};
use std::time::Duration;

use svclab_rules::cluster::Cluster;

use super::super::RunError;
use super::Sync;
use crate::lab::{Lab, LabError};
use crate::probe::ChangeProgress;
use crate::proxy::{Begun, Process, Proxies};
use crate::topology::Topology;

/// The time between two polls of a change once no flow is sent.
const LOOK: Duration = Duration::from_millis(1);

/// A change after which the generator's rules are installed.
pub(super) enum GeneratorChange<'scope, 'env> {
    /// Nothing has been done.
    Planned { plan: Topology, sync: &'scope Sync, scope: &'scope Scope<'scope, 'env> },
    /// A thread installs rules and deletes connections.
    Syncing(ScopedJoinHandle<'scope, Result<(), LabError>>),
    /// An error has been returned, or everything is done.
    Over,
}

impl GeneratorChange<'_, '_> {
    /// Starts the change, or polls whether it has been made.
    pub(super) fn advance(&mut self, lab: &mut Lab) -> Result<ChangeProgress, RunError> {
        *self = match mem::replace(self, Self::Over) {
            Self::Planned { plan, sync, scope } => {
                lab.rewire(plan)?;
                let installer = lab.installer(&sync.written);
                let spawned = thread::Builder::new().spawn_scoped(scope, move || sync.carry_out(&installer));
                Self::Syncing(spawned.map_err(no_thread)?)
            }
            begun => begun,
        };
        let is_under_way = matches!(self, Self::Syncing(thread) if !thread.is_finished());
        Ok(if is_under_way { ChangeProgress::UnderWay } else { ChangeProgress::Done })
    }

    /// Makes the change, even if sending ended before it was due, and waits until it has been made.
    pub(super) fn finish(mut self, lab: &mut Lab) -> Result<(), RunError> {
        self.advance(lab)?;
        match self {
            Self::Syncing(thread) => Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic))?),
            Self::Planned { .. } | Self::Over => Ok(()),
        }
    }
}

/// A change that programs follow.
pub(super) struct ProgramsChange<'a> {
    stage: Stage,
    proxies: &'a mut Proxies,
    after: &'a Cluster,
    restarted: &'a [String],
}

/// The stage of a change that programs follow.
enum Stage {
    Planned(Topology),
    /// Programs are stopped before others are started.
    Stopping(JoinHandle<()>),
    Begun(Begun),
    /// An error has been returned.
    Failed,
}

impl<'a> ProgramsChange<'a> {
    pub(super) fn new(plan: Topology, proxies: &'a mut Proxies, after: &'a Cluster, restarted: &'a [String]) -> Self {
        Self { stage: Stage::Planned(plan), proxies, after, restarted }
    }

    /// Starts the change, or continues it as soon as possible.
    pub(super) fn advance(&mut self, lab: &mut Lab) -> Result<ChangeProgress, RunError> {
        self.stage = match mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Planned(plan) => {
                lab.rewire(plan)?;
                let programs = self.proxies.ending(self.after, self.restarted)?;
                let stop = move || programs.into_iter().for_each(Process::stop);
                Stage::Stopping(thread::Builder::new().spawn(stop).map_err(no_thread)?)
            }
            Stage::Stopping(thread) if thread.is_finished() => Stage::Begun(self.proxies.begin(lab, self.after)?),
            other => other,
        };
        Ok(match self.stage {
            Stage::Planned(_) | Stage::Stopping(_) => ChangeProgress::UnderWay,
            Stage::Begun(_) | Stage::Failed => ChangeProgress::Done,
        })
    }

    /// Continues until programs can follow the change, even if sending ended before it was due. `None` if it failed and the error has been
    /// returned.
    pub(super) fn finish(mut self, lab: &mut Lab) -> Result<Option<Begun>, RunError> {
        while self.advance(lab)? == ChangeProgress::UnderWay {
            thread::sleep(LOOK);
        }
        Ok(match self.stage {
            Stage::Begun(begun) => Some(begun),
            Stage::Planned(_) | Stage::Stopping(_) | Stage::Failed => None,
        })
    }
}

fn no_thread(source: std::io::Error) -> RunError {
    LabError::Thread { source }.into()
}
