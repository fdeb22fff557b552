//! What kube-proxy leaves out, and why.

use std::collections::HashSet;

use super::super::Cluster;

/// An object, or a part of one, that has no effect on rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The object, as `EndpointSlice default/web-x7k2p`.
    pub object: String,
    /// Why it has no effect, as a lower-case fragment.
    pub reason: String,
}

impl Note {
    /// A note on an object.
    pub(super) fn new(object: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { object: object.into(), reason: reason.into() }
    }
}

/// What became of a sound object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading<T> {
    /// It is a fact now.
    Kept(T),
    /// Nothing in the cluster's traffic depends on it.
    Ignored(Note),
}

/// The services and slices of a cluster that kube-proxy writes no rules for.
pub fn notes(cluster: &Cluster) -> Vec<Note> {
    let services = cluster.services.iter().filter_map(|service| {
        let reason = service.skipped()?;
        Some(Note::new(format!("Service {}", service.name), reason))
    });
    let names: HashSet<_> = cluster.services.iter().map(|service| &service.name).collect();
    let slices = cluster.slices.iter().filter(|slice| !names.contains(&slice.service)).map(|slice| {
        Note::new(format!("EndpointSlice {}", slice.name), format!("there is no service {}", slice.service))
    });
    services.chain(slices).collect()
}
