//! Selection of a service port's endpoints.

use super::endpoints::{EndpointView, serves_while_terminating};
use super::hints::Topology;
use super::service_port::ServicePortView;
use crate::cluster::{Cluster, Node};
use crate::profile::Profile;

/// The endpoints that serve a service port, as positions in its list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Selected {
    /// Endpoints for traffic with policy Cluster.
    pub(crate) cluster: Vec<usize>,
    /// Endpoints for traffic with policy Local.
    pub(crate) local: Vec<usize>,
    /// Whether any node has a usable endpoint; if not, traffic is rejected.
    pub(crate) any: bool,
}

impl Selected {
    /// Returns all endpoints that get traffic on this node, in order and without duplicates.
    pub(crate) fn reachable(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.cluster.iter().chain(&self.local).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl ServicePortView<'_> {
    /// Returns whether some traffic goes to endpoints on any node.
    ///
    /// That is also the case with external policy Local, for traffic from inside the cluster.
    pub(crate) fn uses_cluster_endpoints(&self) -> bool {
        !self.internal_local || self.externally_accessible()
    }

    /// Returns whether some traffic goes only to endpoints on this node.
    pub(crate) fn uses_local_endpoints(&self) -> bool {
        self.internal_local || (self.external_local && self.externally_accessible())
    }

    /// Decides which endpoints serve (`CategorizeEndpoints` in kube-proxy's `pkg/proxy/topology.go`).
    ///
    /// If no endpoint is ready, serving terminating ones are used; this is decided separately for all endpoints and for local ones.
    /// Topology hints apply only to traffic with policy Cluster.
    pub(crate) fn select(&self, cluster: &Cluster, node: &Node, profile: Profile) -> Selected {
        let stand_in = profile.terminating_endpoints(&cluster.proxy);
        let usable =
            |view: &EndpointView<'_>| view.endpoint.ready || (stand_in && serves_while_terminating(view.endpoint));
        let mut selected = Selected::default();
        if self.uses_cluster_endpoints() {
            let topology = Topology::of(self, cluster, node, profile);
            selected.cluster = self.positions(|view| view.endpoint.ready && topology.admits(view));
            if selected.cluster.is_empty() && stand_in {
                selected.cluster = self.positions(|view| serves_while_terminating(view.endpoint));
            }
        }
        if self.uses_local_endpoints() {
            selected.local = self.positions(|view| view.local && view.endpoint.ready);
            if selected.local.is_empty() && stand_in {
                selected.local = self.positions(|view| view.local && serves_while_terminating(view.endpoint));
            }
            selected.any = self.endpoints.iter().any(usable);
        } else {
            selected.any = !selected.cluster.is_empty();
        }
        selected
    }

    fn positions(&self, admit: impl Fn(&EndpointView<'_>) -> bool) -> Vec<usize> {
        let numbered = self.endpoints.iter().enumerate();
        numbered.filter(|(_, view)| admit(view)).map(|(index, _)| index).collect()
    }
}
