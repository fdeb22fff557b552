//! The context in which steps are resolved, and the state that they change.

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

/// The context in which tests are resolved.
pub(crate) struct Stage<'s, 'a> {
    /// The initial objects.
    pub(crate) objects: &'s Objects<'a>,
    /// The initial cluster.
    pub(crate) cluster: &'s Cluster,
    /// Machines outside the cluster.
    pub(crate) hosts: &'s [Located<'a, Host>],
    /// Rules that are not the generator's.
    pub(crate) rules: &'s [OtherRules],
    /// The section `cluster:`.
    pub(crate) network: &'s Network,
    /// The files that steps name.
    pub(crate) manifests: &'a Manifests,
    /// The folder that their paths are relative to.
    pub(crate) folder: &'s Path,
    /// An ad-hoc probe in addition to the tests.
    pub(crate) extra: Option<Extra<'a>>,
}

/// A request in addition to a scenario's tests: an ad-hoc probe, after further changes.
#[derive(Clone, Copy)]
pub(crate) struct Extra<'a> {
    /// The probe as written, with its place.
    pub(crate) probe: Option<(&'a RawProbe, At<'a>)>,
    /// The number of changes by the scenario's steps before it.
    pub(crate) step: usize,
    /// The place of that number.
    pub(crate) step_at: &'a Span,
    /// Further changes, as written, with their places.
    pub(crate) changes: &'a [(OwnChange<'a>, At<'a>)],
}

/// A change other than the scenario's steps, as written.
#[derive(Clone, Copy)]
pub(crate) enum OwnChange<'a> {
    /// The content of `apply:` in a step.
    Apply(&'a RawApply),
    /// A step.
    Step(&'a RawStep),
}

/// The state of the cluster while steps are resolved.
#[derive(Clone)]
pub(super) struct State<'a> {
    pub(super) objects: Objects<'a>,
    /// The cluster assembled from them.
    pub(super) cluster: Cluster,
    /// Objects and cluster before each change that deleted pods or Services.
    pub(super) former: Vec<(Objects<'a>, Cluster)>,
}

impl<'a> Stage<'_, 'a> {
    /// Returns the scene in which names are looked up.
    pub(super) fn scene<'n>(&'n self, state: &'n State<'a>) -> Scene<'n, 'a> {
        let State { objects, cluster, former } = state;
        Scene { now: (objects, cluster), former, hosts: self.hosts, rules: self.rules }
    }
}
