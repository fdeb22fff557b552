//! The lab of a shell, and its state.

use std::sync::Arc;

use svclab_rules::cluster::Cluster;

use super::echo::{Echo, Ports};
use super::hosts;
use super::places::Places;
use super::reply::Printed;
use super::subject::Subject;
use crate::documents::Document;
use crate::infer::AdHocChange;
use crate::lab::{Lab, LabError};
use crate::probe::{Used, interrupt, is_interrupted};
use crate::run::{RunError, Session, State};
use crate::scenario::Scenario;
use crate::stats::Goal;
use crate::text::counted;

/// The lab of a shell, in the thread that it belongs to.
pub(super) struct Engine<'lab> {
    lab: &'lab mut Lab,
    pub(super) subject: Subject,
    places: Arc<Places>,
    echo: Echo,
    /// The rules that are installed.
    documents: Vec<Document>,
    used: Used,
}

impl<'lab> Engine<'lab> {
    /// Starts the servers of pods, and writes the names of services.
    ///
    /// # Errors
    ///
    /// If a listener cannot be opened, or a file cannot be written.
    pub(super) fn start(
        lab: &'lab mut Lab,
        subject: Subject,
        documents: Vec<Document>,
        places: Arc<Places>,
    ) -> Result<Self, RunError> {
        let echo = Echo::start(lab, &subject.cluster).map_err(|source| LabError::Thread { source })?;
        let mut engine = Self { lab, subject, places, echo, documents, used: Used::default() };
        engine.follow()?;
        Ok(engine)
    }

    /// Updates names, places and servers to the state of the cluster.
    fn follow(&mut self) -> Result<(), RunError> {
        let cluster = &self.subject.cluster;
        let written = hosts::write(cluster, self.places.namespaces());
        written.map_err(|source| LabError::Sandbox { what: "writing the names of services", source })?;
        self.places.follow(&self.subject.scenario, cluster);
        self.echo.serve(self.lab, cluster, Ports::All)?;
        Ok(())
    }

    /// The scenario.
    pub(super) fn scenario(&self) -> &Scenario {
        &self.subject.scenario
    }

    /// The cluster as it is now.
    pub(super) fn cluster(&self) -> &Cluster {
        &self.subject.cluster
    }

    /// The names of all places in the present state.
    pub(super) fn places(&self) -> Vec<String> {
        self.places.names()
    }

    /// The lab.
    pub(super) fn lab(&self) -> &Lab {
        self.lab
    }

    /// The rules that svclab has installed.
    pub(super) fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// Runs a function in a session of the lab, during which only svclab sends and answers: the kernels of pods and outside hosts are
    /// silent, and ports on nodes belong to the prober. Packets of real programs are lost in the meantime, and retransmitted if their
    /// protocol does so.
    ///
    /// # Errors
    ///
    /// If the lab fails, or the function does.
    pub(super) fn in_session<T>(
        &mut self,
        function: impl FnOnce(&mut Session<'_, '_>) -> Result<T, RunError>,
    ) -> Result<T, Printed> {
        interrupt(false);
        self.echo.serve(self.lab, &self.subject.cluster, Ports::OfPods).map_err(RunError::from)?;
        let result = self.lab.silence(true).map_err(RunError::from).and_then(|()| self.session(function));
        let ended = self.lab.silence(false).map_err(RunError::from).and_then(|()| self.follow());
        match result.and_then(|value| ended.map(|()| value)) {
            Err(_) if is_interrupted() => Err(Printed::interrupted("interrupted\n")),
            result => Ok(result?),
        }
    }

    /// Makes a change of the cluster. Programs in places that it removes are killed. Returns their number in words, and notes on the
    /// change.
    ///
    /// # Errors
    ///
    /// If the change is invalid, or the lab fails.
    pub(super) fn change(&mut self, change: AdHocChange) -> Result<(String, Vec<String>), Printed> {
        let (made, notes) = self.subject.with_change(&change)?;
        let before = self.places();
        self.in_session(|session| session.change(&made))?;
        self.subject.changes.push(change);
        let now = self.places();
        let gone = before.iter().filter(|name| !now.contains(name));
        let gone = gone.filter_map(|name| self.lab.topology().find(name));
        let ended = match gone.map(|netns| self.lab.end_processes(netns)).sum() {
            0 => String::new(),
            ended => format!("; {} there ended", counted(ended, "program")),
        };
        Ok((ended, notes))
    }

    fn session<T>(
        &mut self,
        function: impl FnOnce(&mut Session<'_, '_>) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let state = State {
            cluster: self.subject.cluster.clone(),
            documents: self.documents.clone(),
            applied: self.subject.step,
            used: std::mem::take(&mut self.used),
        };
        let mut session = Session::resume(&self.subject.scenario, self.lab, state, Goal::default())?;
        let result = function(&mut session);
        let State { cluster, documents, used, .. } = session.close();
        (self.subject.cluster, self.documents, self.used) = (cluster, documents, used);
        result
    }
}

impl From<LabError> for Printed {
    fn from(error: LabError) -> Self {
        RunError::from(error).into()
    }
}
