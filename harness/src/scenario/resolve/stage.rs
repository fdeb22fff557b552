//! What steps are resolved against, and what they change.

use std::path::Path;

use svclab_rules::cluster::Cluster;

use super::located::Located;
use super::lookup::Scene;
use super::manifests::Manifests;
use super::network::Network;
use super::objects::Objects;
use crate::input::Span;
use crate::scenario::model::{Host, OtherRules};
use crate::scenario::schema::{RawApply, RawProbe, RawStep};
use crate::yaml::At;

/// What tests are resolved against.
pub(crate) struct Stage<'s, 'a> {
    /// The objects at the start.
    pub(crate) objects: &'s Objects<'a>,
    /// The facts at the start.
    pub(crate) cluster: &'s Cluster,
    /// Machines outside of the cluster.
    pub(crate) hosts: &'s [Located<'a, Host>],
    /// Rules that are not the generator's.
    pub(crate) rules: &'s [OtherRules],
    /// The section `cluster:`.
    pub(crate) network: &'s Network,
    /// The files that steps name.
    pub(crate) manifests: &'a Manifests,
    /// What their paths are relative to.
    pub(crate) folder: &'s Path,
    /// What is asked for in addition to the tests.
    pub(crate) extra: Option<Extra<'a>>,
}

/// What is asked for in addition to a scenario's tests: a probe, after changes of one's own.
#[derive(Clone, Copy)]
pub(crate) struct Extra<'a> {
    /// The probe as written, with its place.
    pub(crate) probe: Option<(&'a RawProbe, At<'a>)>,
    /// After how many changes of the scenario's steps.
    pub(crate) step: usize,
    /// The place of that number.
    pub(crate) step_at: &'a Span,
    /// The changes after those, as written, with their places.
    pub(crate) changes: &'a [(OwnChange<'a>, At<'a>)],
}

/// A change that is not one of the scenario's steps, as written.
#[derive(Clone, Copy)]
pub(crate) enum OwnChange<'a> {
    /// What stands below `apply:` in a step.
    Apply(&'a RawApply),
    /// A step.
    Step(&'a RawStep),
}

/// The cluster as it is while steps are resolved.
#[derive(Clone)]
pub(super) struct State<'a> {
    pub(super) objects: Objects<'a>,
    /// The facts made of them.
    pub(super) cluster: Cluster,
    /// Both before each change that deleted pods or Services.
    pub(super) former: Vec<(Objects<'a>, Cluster)>,
}

impl<'a> Stage<'_, 'a> {
    /// What names are looked up in.
    pub(super) fn scene<'n>(&'n self, state: &'n State<'a>) -> Scene<'n, 'a> {
        let State { objects, cluster, former } = state;
        Scene { now: (objects, cluster), former, hosts: self.hosts, rules: self.rules }
    }
}
