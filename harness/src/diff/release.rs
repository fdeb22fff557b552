//! The release or mode that brings a change.

use std::collections::HashMap;

use svclab_rules::cluster::{ProxyConfig, ProxyMode};
use svclab_rules::profile::Profile;

use super::DiffError;
use super::merge::{Change, Example};
use super::outcome::is_alike;
use super::side::Side;
use crate::predict::{Prediction, Senders};
use crate::scenario::{Install, Scenario};

/// Clusters of more services are not predicted for the releases between.
const MOST_SERVICES: usize = 1_000;

/// Finds the release or mode that brings each change, where both sides are the same but for these.
pub(super) fn attribute(changes: &mut [Change], [before, after]: [&Scenario; 2]) -> Result<(), DiffError> {
    let of_path = path(&before.cluster.proxy, &after.cluster.proxy);
    let is_given = before.rules.iter().any(|rules| rules.install == Install::Instead);
    let is_same = before.rules == after.rules && before.cluster.services == after.cluster.services;
    let is_same =
        is_same && before.cluster.slices == after.cluster.slices && before.cluster.nodes == after.cluster.nodes;
    if of_path.len() < 3 || is_given || !is_same || before.cluster.services.len() > MOST_SERVICES {
        return Ok(());
    }
    let mut steps = Steps { before, path: of_path, known: HashMap::new() };
    for change in changes {
        let Some(example) = &change.example else { continue };
        // The first step behind which the packet is treated as at the end.
        let (mut low, mut high) = (0, steps.path.len() - 1);
        let last = steps.predict(high, example)?;
        while high - low > 1 {
            let middle = (low + high) / 2;
            let found = [steps.predict(middle, example)?, last.clone()];
            if is_alike(&found, &example.packet) { high = middle } else { low = middle }
        }
        let (one, next) = (&steps.path[low], &steps.path[high]);
        change.since = Some(match (one.mode == next.mode, next.mode) {
            (true, _) => next.version.clone(),
            (false, ProxyMode::Nftables) => "nftables mode".to_owned(),
            (false, ProxyMode::Iptables) => "iptables mode".to_owned(),
        });
    }
    Ok(())
}

/// The configurations from one to another: release by release, and the mode where the release has both.
fn path(before: &ProxyConfig, after: &ProxyConfig) -> Vec<ProxyConfig> {
    let [Ok(first), Ok(last)] = [before, after].map(|proxy| proxy.version.parse::<Profile>()) else {
        return Vec::new();
    };
    let mut between: Vec<Profile> = Profile::kinds()
        .filter(|kind| (first.min(last)..=first.max(last)).contains(kind) && ![first, last].contains(kind))
        .collect();
    if first > last {
        between.reverse();
    }
    let of = |proxy: &ProxyConfig, version: String| ProxyConfig { version, ..proxy.clone() };
    let mut path = vec![before.clone()];
    // nftables mode is there in the newer release.
    if before.mode == after.mode || after.mode == ProxyMode::Nftables {
        path.extend(between.iter().map(|kind| of(before, kind.to_string())));
        path.push(of(before, after.version.clone()));
    } else {
        path.push(of(after, before.version.clone()));
        path.extend(between.iter().map(|kind| of(after, kind.to_string())));
    }
    path.push(after.clone());
    path.dedup();
    path
}

/// The same cluster with each configuration of a path.
struct Steps<'s> {
    before: &'s Scenario,
    path: Vec<ProxyConfig>,
    known: HashMap<usize, Scenario>,
}

impl Steps<'_> {
    /// What becomes of a packet at a step.
    fn predict(&mut self, step: usize, example: &Example) -> Result<Option<Prediction>, DiffError> {
        let scenario = self.known.entry(step).or_insert_with(|| {
            let mut scenario = self.before.clone();
            scenario.cluster.proxy = self.path[step].clone();
            scenario
        });
        let side = Side::of(scenario)?;
        let network = side.network()?;
        let senders = Senders::of(&network, std::slice::from_ref(&example.from));
        let fits = |one: &&Senders| one.via == example.via && one.family == example.packet.family();
        let found = senders.iter().find(fits).and_then(|own| network.predict_set(own, &example.packet, None, None));
        Ok(found.map(|(_, prediction)| prediction))
    }
}
