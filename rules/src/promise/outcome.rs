//! The outcome of a connection at the node that handles it.

use super::clause::Clause;
use super::endpoint_candidate::Candidate;
use super::endpoints::Candidates;
use super::handling::Handling;
use super::model::{Promise, PromisedEndpoint, PromisedOutcome, Rejection, Share};
use super::policy::{Admission, Scope};
use crate::cluster::{EndpointSlice, Family};

impl Handling<'_, '_> {
    /// Returns the promise for the connection, given the slices of the service.
    pub(super) fn promise(&self, slices: &[&EndpointSlice]) -> Promise {
        let mut because = vec![self.claim.kind.clause()];
        if self.client.node().is_some() && !self.client.is_on(self.node) {
            because.push(Clause::OtherNodesNodePort);
        }
        let candidates = Candidates::of(slices, self.claim.port, Family::of(self.to.ip()), self.setting);
        let outcome = match self.admission(&mut because) {
            Admission::Allowed => self.chosen(&candidates, &mut because),
            Admission::Denied if candidates.any_usable() => PromisedOutcome::Dropped,
            Admission::Denied => PromisedOutcome::Fails,
            Admission::Unspecified => PromisedOutcome::NotPromised,
        };
        let known_bug = self.known_bug(&outcome, &candidates);
        Promise { outcome, node: None, service: Some(self.claim.name()), because, known_bug }
    }

    /// Returns its outcome for an allowed client. A service without any usable endpoint rejects; a node that only lacks a local one drops.
    ///
    /// Virtual IPs and Service Proxies, "Internal traffic policy", "External traffic policy"; KEP-3866, "Dropping or
    /// rejecting packets for services with no endpoints".
    fn chosen(&self, candidates: &Candidates<'_>, because: &mut Vec<Clause>) -> PromisedOutcome {
        let endpoints = match self.scope(because) {
            Scope::Anywhere => candidates.anywhere(self.claim.service, self.node, self.setting, because),
            Scope::OnNode => candidates.on_node(self.node, because),
        };
        if !endpoints.is_empty() {
            return self.delivered(&endpoints, because);
        }
        if candidates.any_usable() {
            because.push(Clause::NoLocalEndpoint);
            return PromisedOutcome::Dropped;
        }
        because.push(Clause::NoEndpoint);
        PromisedOutcome::Rejected(Rejection::PortUnreachable)
    }

    /// Returns how connections are balanced among endpoints, and the sources that these see. Endpoints get even shares; with session
    /// affinity, a client stays with its first endpoint.
    ///
    /// ServiceSpec `externalTrafficPolicy`, `sessionAffinity`; Virtual IPs and Service Proxies, "Session affinity".
    fn delivered(&self, endpoints: &[Candidate<'_>], because: &mut Vec<Clause>) -> PromisedOutcome {
        let service = self.claim.service;
        let notes = [
            (service.publish_not_ready_addresses, Clause::PublishNotReady),
            (endpoints.len() > 1, Clause::EvenShares),
            (service.affinity_seconds.is_some(), Clause::Affinity),
        ];
        because.extend(notes.into_iter().filter(|(holds, _)| *holds).map(|(_, clause)| clause));
        let masquerade = self.masquerade(because);
        let share = Share { one_in: endpoints.len() };
        let endpoints = endpoints.iter().map(|candidate| {
            let (source, reply) = self.seen_by(candidate.address, masquerade, because);
            PromisedEndpoint { address: candidate.address, share, source, reply }
        });
        PromisedOutcome::Delivered { endpoints: endpoints.collect(), affinity_seconds: service.affinity_seconds }
    }
}
