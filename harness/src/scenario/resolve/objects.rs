//! The objects of the cluster during resolution, and their sources.

use std::path::{Path, PathBuf};

use svclab_rules::cluster::{EndpointSlice, Node};

use super::addresses::Pool;
use super::located::Located;
use super::pods::PodState;
use super::service_list::ServiceList;
use crate::scenario::schema::{RawApply, RawEndpoints, RawNode, RawPod, RawScenario, RawService};
use crate::yaml::At;

/// The objects of the cluster.
#[derive(Debug, Clone)]
pub(crate) struct Objects<'a> {
    /// The nodes.
    pub(crate) nodes: Vec<Located<'a, Node>>,
    /// The pods.
    pub(crate) pods: Vec<Located<'a, PodState>>,
    pub(super) services: ServiceList<'a>,
    /// Slices from manifests, including those mirrored from Endpoints.
    pub(super) slices: Vec<Located<'a, EndpointSlice>>,
    pub(super) entries: Vec<Located<'a, &'a RawEndpoints>>,
    pub(super) pool: Pool,
    /// The scenario as written, with items that could not be read.
    pub(super) written: At<'a>,
    /// Whether all objects in manifests could be read; if not, objects may be missing.
    pub(super) complete: bool,
}

/// A source of objects that are read together.
pub(crate) struct Source<'a> {
    /// Short forms.
    pub(crate) nodes: &'a [RawNode],
    /// Short forms.
    pub(crate) pods: &'a [RawPod],
    /// Short forms.
    pub(crate) services: &'a [RawService],
    /// Short forms.
    pub(crate) endpoints: &'a [RawEndpoints],
    /// Files.
    pub(crate) manifests: Vec<PathBuf>,
    /// The place of the lists.
    pub(crate) at: At<'a>,
}

impl<'a> Source<'a> {
    /// Returns the lists of a scenario; paths are relative to `folder`.
    pub(crate) fn scenario(raw: &'a RawScenario, at: At<'a>, folder: &Path) -> Self {
        let manifests = raw.manifests.iter().map(|file| folder.join(file)).collect();
        let RawScenario { nodes, pods, services, endpoints, .. } = raw;
        Self { nodes, pods, services, endpoints, manifests, at }
    }

    /// Returns the lists of a step.
    pub(crate) fn step(raw: &'a RawApply, at: At<'a>, folder: &Path) -> Self {
        let manifests = raw.manifests.iter().map(|file| folder.join(file)).collect();
        let RawApply { nodes, pods, services, endpoints, .. } = raw;
        Self { nodes, pods, services, endpoints, manifests, at }
    }
}
