//! Finds the release or mode that introduces a change.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;

use svclab_rules::cluster::{Cluster, ProxyConfig, ProxyMode};
use svclab_rules::profile::Profile;
use svclab_rules::walk::Packet;

use super::DiffError;
use super::group::{Group, Groups, Key};
use super::outcome::is_alike;
use super::side::Side;
use super::target::Target;
use crate::predict::Prediction;
use crate::run::in_parallel;
use crate::scenario::{Install, Scenario, Vantage};

/// The boundary between two configurations at which a change happens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Boundary {
    /// The release that introduces it: `1.28`.
    Release(String),
    /// The switch from the other mode to this one.
    Mode(ProxyMode),
    /// Other settings of kube-proxy.
    Settings,
}

impl Boundary {
    /// Returns the stable code for programs.
    pub(super) fn code(&self) -> String {
        match self {
            Self::Release(release) => release.clone(),
            Self::Mode(mode) => format!("{mode}-mode"),
            Self::Settings => "settings".to_owned(),
        }
    }
}

impl fmt::Display for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Release(release) => f.write_str(release),
            Self::Mode(mode) => write!(f, "{mode} mode"),
            Self::Settings => f.write_str("other settings"),
        }
    }
}

/// Clusters with more services are reduced to those of the examples before the releases in between are tried.
const MAX_SERVICES: usize = 200;

/// A step from one kube-proxy to another at which packets of a group change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChangedAt {
    /// The position of the step.
    pub(super) step: usize,
    pub(super) boundary: Boundary,
}

/// Finds the releases or modes that introduce each group's change, in the order of the groups; none if the sides differ in more than that.
/// The first of them changes the handling of packets permanently: later steps never handle them as before.
pub(super) fn boundaries(groups: &Groups, [before, after]: [&Scenario; 2]) -> Result<Vec<Vec<ChangedAt>>, DiffError> {
    let path =
        if is_one_cluster(before, after) { path(&before.cluster.proxy, &after.cluster.proxy) } else { Vec::new() };
    if path.len() < 2 {
        return Ok(vec![Vec::new(); groups.all.len()]);
    }
    let between = |step: usize| ChangedAt { step, boundary: boundary(&path[step], &path[step + 1]) };
    if path.len() == 2 {
        return Ok(vec![vec![between(0)]; groups.all.len()]);
    }
    let reduced = reduced(before, groups);
    let of = |proxy: &ProxyConfig| {
        let cluster = Cluster { proxy: proxy.clone(), ..reduced.cluster.clone() };
        Scenario { cluster, ..reduced.clone() }
    };
    let scenarios: Vec<Scenario> = path.iter().map(of).collect();
    let predictions = in_parallel(&scenarios, None, |scenario| predictions(scenario, groups), &|_| ());
    let predictions: Vec<Vec<Option<Prediction>>> = predictions.into_iter().collect::<Result<_, _>>()?;
    let steps = |(at, (key, group)): (usize, (&Key, &Group))| match key.target {
        // A first packet does not show these changes.
        Target::Established | Target::Returning => Vec::new(),
        _ => {
            let of_group: Vec<&Option<Prediction>> = predictions.iter().map(|of_release| &of_release[at]).collect();
            steps(&of_group, &group.example.packet).into_iter().map(between).collect()
        }
    };
    Ok(groups.all.iter().enumerate().map(steps).collect())
}

/// Predicts each group's example.
fn predictions(scenario: &Scenario, groups: &Groups) -> Result<Vec<Option<Prediction>>, DiffError> {
    let side = Side::of(scenario)?;
    let network = side.network()?;
    Ok(groups.all.values().map(|group| group.example.predict(&network, group.example.packet)).collect())
}

/// Returns the steps at which the handling of a packet changes permanently.
fn steps(predictions: &[&Option<Prediction>], packet: &Packet) -> Vec<usize> {
    let is_alike = |one: usize, other: usize| is_alike([predictions[one], predictions[other]], packet);
    let left = (0..predictions.len()).rev().find(|at| is_alike(0, *at)).unwrap_or(0);
    (left..predictions.len() - 1).filter(|step| !is_alike(*step, step + 1)).collect()
}

fn is_one_cluster(before: &Scenario, after: &Scenario) -> bool {
    let is_given = before.rules.iter().any(|rules| rules.install == Install::Instead);
    let [own, other] = [before, after].map(|scenario| &scenario.cluster);
    !is_given
        && before.rules == after.rules
        && (&own.services, &own.slices, &own.nodes) == (&other.services, &other.slices, &other.nodes)
}

/// Returns a cluster reduced to the objects that its examples need.
fn reduced(scenario: &Scenario, groups: &Groups) -> Scenario {
    let mut scenario = Scenario { tests: Vec::new(), ..scenario.clone() };
    let cluster = &mut scenario.cluster;
    if cluster.services.len() <= MAX_SERVICES {
        return scenario;
    }
    let examples = || groups.all.values().map(|group| &group.example);
    let named: HashSet<&str> = examples().filter_map(|example| example.service.as_deref()).collect();
    cluster.services.retain(|service| named.contains(service.name.to_string().as_str()));
    cluster.slices.retain(|slice| named.contains(slice.service.to_string().as_str()));
    let endpoints = cluster.slices.iter().flat_map(|slice| &slice.endpoints).flat_map(|one| &one.addresses);
    let addresses: HashSet<IpAddr> =
        endpoints.copied().chain(examples().map(|example| example.packet.destination)).collect();
    let senders: HashSet<&Vantage> = examples().map(|example| &example.from).collect();
    cluster.pods.retain(|pod| {
        pod.ips.iter().any(|own| addresses.contains(own)) || senders.contains(&Vantage::Pod(pod.name.clone()))
    });
    scenario
}

/// Returns what changes from one configuration to the next: the mode, the newer of two releases, or other settings.
fn boundary(one: &ProxyConfig, next: &ProxyConfig) -> Boundary {
    if one.mode != next.mode {
        return Boundary::Mode(next.mode);
    }
    if one.version == next.version {
        return Boundary::Settings;
    }
    let newer = [one, next].into_iter().filter_map(|proxy| proxy.version.parse::<Profile>().ok()).max();
    Boundary::Release(newer.map(Profile::first_with_same_rules).unwrap_or_default())
}

/// Returns the configurations from one to another: release by release, with the mode changed in a release that has both.
pub(super) fn path(before: &ProxyConfig, after: &ProxyConfig) -> Vec<ProxyConfig> {
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
    // The newer release has nftables mode.
    if before.mode == after.mode || after.mode == ProxyMode::Nftables {
        path.extend(between.iter().map(|kind| of(before, version(*kind))));
        path.push(of(before, after.version.clone()));
    } else {
        path.push(of(after, before.version.clone()));
        path.extend(between.iter().map(|kind| of(after, version(*kind))));
    }
    path.push(after.clone());
    path.dedup();
    path
}

/// Returns a kube-proxy whose version identifies the kind of release: 1.33 is the newest patch release, which is not 1.33.5.
pub(super) fn precise(proxy: &ProxyConfig) -> ProxyConfig {
    let version = proxy.version.parse().map_or_else(|_| proxy.version.clone(), version);
    ProxyConfig { version, ..proxy.clone() }
}

/// Returns a release's name, distinct among those of its minor release: `1.33.6` for the newest kind of 1.33, `1.27` if there is only one
/// kind.
fn version(release: Profile) -> String {
    let is_newest = Profile::all().any(|newest| newest == release);
    if is_newest { release.first_with_same_rules() } else { release.to_string() }
}
