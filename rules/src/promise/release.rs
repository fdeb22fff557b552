//! Known bugs of a release that affect a connection.

use super::address_lookup::AddressKind;
use super::client_path::has_address;
use super::endpoint_candidate::Candidate;
use super::endpoints::Candidates;
use super::handling::Handling;
use super::known_bug::KnownBug;
use super::model::PromisedOutcome;
use super::policy::{is_external_local, is_internal_local};
use super::source::Masquerade;
use crate::cluster::ProxyMode;

/// Returns whether an endpoint that the connection may go to is on another node than these candidates.
fn has_remote(outcome: &PromisedOutcome, local: &[Candidate<'_>]) -> bool {
    let PromisedOutcome::Delivered { endpoints, .. } = outcome else { return false };
    endpoints.iter().any(|endpoint| !local.iter().any(|candidate| candidate.address == endpoint.address))
}

impl Handling<'_, '_> {
    /// Returns the known bug of the release that may affect the connection.
    pub(super) fn known_bug(&self, outcome: &PromisedOutcome, candidates: &Candidates<'_>) -> Option<KnownBug> {
        let local = candidates.on_node(self.node, &mut Vec::new());
        let is_own = local.iter().any(|candidate| candidate.address.ip() == self.client.address);
        let (profile, service, kind) = (self.setting.profile, self.claim.service, self.claim.kind);
        let of_the_node = self.client.is_process_of(self.node);
        let short_circuit = kind != AddressKind::ClusterIp && is_external_local(service, profile) && of_the_node;
        let passes_on = !of_the_node && !has_address(self.node, self.to.ip());
        if kind == AddressKind::ExternalIp && profile.guards_external_ips() && self.client.node().is_some() {
            Some(KnownBug::ExternalIpsFromInside)
        } else if is_internal_local(service, profile) && !profile.external_chains() {
            Some(KnownBug::InternalPolicyAffectsExternal)
        } else if *outcome == PromisedOutcome::Dropped && !profile.drops_local_in_filter() && passes_on {
            Some(KnownBug::DropIsForwarded)
        } else if short_circuit && !profile.local_chains_serve_the_node() && has_remote(outcome, &local) {
            Some(KnownBug::NoShortCircuitForNodes)
        } else if short_circuit && kind != AddressKind::NodePort && local.is_empty() && self.drops_before_translation()
        {
            Some(KnownBug::ShortCircuitDropped)
        } else if matches!(outcome, PromisedOutcome::Rejected(_)) && of_the_node && self.rejects_only_what_comes_in() {
            Some(KnownBug::NodeTrafficNotRejected)
        } else if !is_own && self.sends_back_as_it_is(outcome) {
            Some(KnownBug::RemoteHairpinNotMasqueraded)
        } else if !profile.prefers_running_endpoint() && candidates.are_hidden_on(self.node) {
            Some(KnownBug::LocalDuplicateWins)
        } else {
            None
        }
    }

    fn rejects_only_what_comes_in(&self) -> bool {
        let is_external = matches!(self.claim.kind, AddressKind::ExternalIp | AddressKind::LoadBalancerIp);
        self.setting.config().mode == ProxyMode::Iptables && is_external
    }

    /// Returns whether the client may be the endpoint, in a release that masquerades such connections only for local endpoints.
    fn sends_back_as_it_is(&self, outcome: &PromisedOutcome) -> bool {
        let PromisedOutcome::Delivered { endpoints, .. } = outcome else { return false };
        self.setting.config().mode == ProxyMode::Nftables
            && self.setting.profile.nftables_marks_inline()
            && endpoints.iter().any(|endpoint| endpoint.address.ip() == self.client.address)
            && self.masquerade(&mut Vec::new()) != Masquerade::Yes
    }

    fn drops_before_translation(&self) -> bool {
        self.setting.config().mode == ProxyMode::Nftables && !self.setting.profile.nftables_filters_translated()
    }
}
