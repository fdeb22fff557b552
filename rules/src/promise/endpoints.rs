//! Selection of the endpoints that serve.

use std::net::SocketAddr;

use super::clause::Clause;
use super::cluster_index::Setting;
use super::endpoint_candidate::Candidate;
use super::topology;
use crate::cluster::{EndpointSlice, Family, Node, Service, ServicePort};

/// All endpoints of a service port in one family.
pub(super) struct Candidates<'a> {
    all: Vec<Candidate<'a>>,
    /// Further entries with the same addresses, in the same order.
    repeated: Vec<Candidate<'a>>,
    /// Whether terminating endpoints are used as a fallback.
    terminating_stand_in: bool,
}

impl<'a> Candidates<'a> {
    /// Collects the endpoints from the slices of the service.
    ///
    /// A slice's port serves the service port of the same name and protocol; one without a number is ignored. The first address counts
    /// (EndpointPort `name`, `port`; Endpoint `addresses`). An endpoint may be in several slices at once (EndpointSlices, "Duplicate
    /// endpoints"): it counts once, and as ready if any slice says so.
    pub(super) fn of(slices: &[&'a EndpointSlice], port: &ServicePort, family: Family, setting: &Setting<'_>) -> Self {
        let mut all = Vec::new();
        for slice in slices.iter().filter(|slice| slice.family == family) {
            let mut same = slice.ports.iter().filter(|own| own.name == port.name && own.protocol == port.protocol);
            let Some(number) = same.find_map(|own| own.port) else { continue };
            let addresses =
                slice.endpoints.iter().filter_map(|endpoint| Some((endpoint, *endpoint.addresses.first()?)));
            all.extend(addresses.map(|(endpoint, ip)| Candidate { address: SocketAddr::new(ip, number), endpoint }));
        }
        all.sort_by_key(|candidate| (candidate.address, !candidate.is_ready(), !candidate.is_serving_terminating()));
        let mut repeated = Vec::new();
        all.dedup_by(|next, kept| {
            let is_repeated = next.address == kept.address;
            if is_repeated {
                repeated.push(*next);
            }
            is_repeated
        });
        Self { all, repeated, terminating_stand_in: setting.profile.terminating_endpoints(setting.config()) }
    }

    /// Returns whether any node could serve a new connection.
    pub(super) fn any_usable(&self) -> bool {
        let stands_in = |candidate: &Candidate<'_>| self.terminating_stand_in && candidate.is_serving_terminating();
        self.all.iter().any(|candidate| candidate.is_ready() || stands_in(candidate))
    }

    /// Returns whether a ready endpoint has entries on this node, none of which is ready.
    pub(super) fn are_hidden_on(&self, node: &Node) -> bool {
        let is_hidden = |address: SocketAddr| {
            let same = self.all.iter().chain(&self.repeated).filter(|one| one.address == address);
            let mut own = same.filter(|one| one.is_on(node)).peekable();
            own.peek().is_some() && own.all(|one| !one.is_ready())
        };
        let repeated = self.repeated.iter().map(|one| one.address);
        repeated.filter(|address| self.all.iter().any(|one| one.address == *address && one.is_ready())).any(is_hidden)
    }

    /// Returns the endpoints for policy Cluster: all ready ones, or with topology hints those for the node.
    ///
    /// ServiceSpec `internalTrafficPolicy` and `externalTrafficPolicy`.
    pub(super) fn anywhere(
        &self,
        service: &Service,
        node: &Node,
        setting: &Setting<'_>,
        because: &mut Vec<Clause>,
    ) -> Vec<Candidate<'a>> {
        let ready: Vec<Candidate<'a>> = self.all.iter().copied().filter(Candidate::is_ready).collect();
        if !ready.is_empty() {
            because.push(Clause::ReadyEndpoints);
            return topology::preferred(ready, service, node, setting, because);
        }
        self.terminating(|_| true, because)
    }

    /// Returns the endpoints for policy Local: all ready ones on the node. Topology hints are ignored.
    ///
    /// KEP-2433, "Interoperability": traffic policies take precedence over topology.
    pub(super) fn on_node(&self, node: &Node, because: &mut Vec<Clause>) -> Vec<Candidate<'a>> {
        let ready = self.all.iter().copied().filter(|candidate| candidate.is_on(node) && candidate.is_ready());
        let ready: Vec<Candidate<'a>> = ready.collect();
        if !ready.is_empty() {
            because.push(Clause::ReadyEndpoints);
            return ready;
        }
        self.terminating(|candidate| candidate.is_on(node), because)
    }

    /// Returns the endpoints that are used if none is ready in the scope of the policy: serving terminating ones.
    ///
    /// KEP-1669, "kube-proxy".
    fn terminating(&self, in_scope: impl Fn(&Candidate<'_>) -> bool, because: &mut Vec<Clause>) -> Vec<Candidate<'a>> {
        if !self.terminating_stand_in {
            return Vec::new();
        }
        let all = self.all.iter().copied();
        let standing_in: Vec<Candidate<'a>> =
            all.filter(|candidate| in_scope(candidate) && candidate.is_serving_terminating()).collect();
        if !standing_in.is_empty() {
            because.push(Clause::TerminatingEndpoints);
        }
        standing_in
    }
}
