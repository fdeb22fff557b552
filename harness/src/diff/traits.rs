//! The properties of a service that a change may depend on.

use std::collections::BTreeSet;

use svclab_rules::cluster::{EndpointSlice, ExternalTrafficPolicy, InternalTrafficPolicy, IpMode, Service};

/// A field of a service or of its endpoints that releases and modes handle differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Trait {
    ExternalLocal,
    InternalLocal,
    IpModeProxy,
    SourceRanges,
    Hints,
    Terminating,
    /// An address is listed more than once.
    Repeated,
    WithoutReady,
}

/// Returns the traits of a service with its slices.
pub(super) fn traits(service: &Service, slices: &[&EndpointSlice]) -> BTreeSet<Trait> {
    let endpoints = || slices.iter().flat_map(|slice| &slice.endpoints);
    let mut addresses = BTreeSet::new();
    let is_repeated = endpoints().flat_map(|one| one.addresses.first()).any(|address| !addresses.insert(*address));
    let has = [
        (Trait::ExternalLocal, service.external_traffic_policy == ExternalTrafficPolicy::Local),
        (Trait::InternalLocal, service.internal_traffic_policy == InternalTrafficPolicy::Local),
        (Trait::IpModeProxy, service.load_balancer.iter().any(|ingress| ingress.mode == IpMode::Proxy)),
        (Trait::SourceRanges, !service.source_ranges.is_empty()),
        (Trait::Hints, endpoints().any(|one| one.zone_hints.is_some() || one.node_hints.is_some())),
        (Trait::Terminating, endpoints().any(|one| one.terminating)),
        (Trait::Repeated, is_repeated),
        (Trait::WithoutReady, !endpoints().any(|one| one.ready)),
    ];
    has.into_iter().filter(|(_, has)| *has).map(|(own, _)| own).collect()
}
