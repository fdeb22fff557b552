//! The programs that the command line assigns to nodes, and the scenarios that they can run.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use svclab_rules::cluster::{Cluster, ConntrackCleanup, Node, ProxyConfig, ProxyMode};
use svclab_rules::compare::is_own_chain;
use svclab_rules::profile::Profile;

use super::error::NotApplicable;
use super::program::Program;
use crate::scenario::{Install, Place, Releases, Scenario};

/// The programs of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Programs {
    /// The program for nodes without a named program in the scenario.
    default: Option<Program>,
    /// Programs that scenarios may name.
    named: BTreeMap<String, Program>,
    /// The time limit for a program to write its rules.
    limit: Duration,
}

impl fmt::Display for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.named.iter().map(|(name, program)| format!("{name}={program}"));
        let all: Vec<String> = self.default.iter().map(ToString::to_string).chain(named).collect();
        f.write_str(&all.join(", "))
    }
}

impl Programs {
    /// Creates them from a program for nodes without a named program, the named programs, and the time limit to write the rules for new
    /// objects.
    pub fn new(default: Option<Program>, named: BTreeMap<String, Program>, limit: Duration) -> Self {
        Self { default, named, limit }
    }

    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// The program of a node.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub(super) fn of(&self, scenario: &Scenario, node: &str) -> Result<&Program, NotApplicable> {
        let name = scenario.programs.get(node);
        let found = name.map_or(self.default.as_ref(), |name| self.named.get(name));
        found.ok_or_else(|| NotApplicable::NoProgram { node: node.to_owned(), name: name.cloned() })
    }

    /// The programs of a scenario's nodes: the node, the program's name in the scenario, and the program.
    pub(crate) fn by_node<'s>(
        &'s self,
        scenario: &'s Scenario,
    ) -> impl Iterator<Item = (&'s str, Option<&'s str>, &'s Program)> {
        scenario.cluster.nodes.iter().filter_map(|node| {
            let name = scenario.programs.get(&node.name).map(String::as_str);
            Some((node.name.as_str(), name, self.of(scenario, &node.name).ok()?))
        })
    }

    /// The programs reduced to that of one node, for a scenario whose other nodes do not matter.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn for_node(&self, scenario: &Scenario, node: &str) -> Result<Self, NotApplicable> {
        let program = self.of(scenario, node)?.clone();
        Ok(Self { default: Some(program), named: BTreeMap::new(), limit: self.limit })
    }

    /// Whether all are kube-proxies, which have a release.
    pub fn have_releases(&self) -> bool {
        self.default.iter().chain(self.named.values()).all(|program| program.release().is_some())
    }

    /// Limits the time of each program to that of a test.
    pub(crate) fn within(self, limit: Option<Duration>) -> Self {
        Self { limit: limit.map_or(self.limit, |limit| limit.min(self.limit)), ..self }
    }

    /// The options that name them on svclab's command line, quoted for a shell.
    pub fn options(&self) -> String {
        let named = self.named.iter().map(|(name, program)| program.option(Some(name)));
        let all: Vec<String> = self.default.iter().map(|program| program.option(None)).chain(named).collect();
        all.join(" ")
    }

    /// The scenario with the releases of these programs, which promises and predictions depend on. If all have one, the cluster's release
    /// is that of the first program.
    ///
    /// # Errors
    ///
    /// The reason why they cannot run it.
    fn fit(&self, scenario: &Scenario) -> Result<Scenario, NotApplicable> {
        let instead = scenario.rules.iter().filter(|rules| rules.install == Install::Instead);
        let mut replaced = instead.filter_map(|rules| match &rules.place {
            Place::Node(node) => Some(node.clone()),
            Place::Pod(_) => None,
        });
        if let Some(node) = replaced.next() {
            return Err(NotApplicable::OwnRules(node));
        }
        if let Some(chain) = scenario.states().nth(1).and_then(|_| own_chain(scenario)) {
            return Err(NotApplicable::OwnChain(chain.to_owned()));
        }
        if let Some(node) = scenario.states().find_map(|state| reconfigured(&scenario.cluster, state)) {
            return Err(NotApplicable::Reconfigured(node.to_owned()));
        }
        if scenario.states().any(|state| state.proxy.conntrack_cleanup != ConntrackCleanup::SameAsVersion) {
            return Err(NotApplicable::Cleanup);
        }
        let nodes = &scenario.cluster.nodes;
        let programs = nodes.iter().map(|node| self.of(scenario, &node.name)).collect::<Result<Vec<_>, _>>()?;
        let releases: Vec<Option<&str>> = programs.iter().map(|program| program.release()).collect();
        releases.iter().flatten().try_for_each(|release| applies(scenario, release))?;
        Ok(with_releases(scenario, &releases))
    }
}

/// Adapts a scenario to the programs, if there are any.
///
/// # Errors
///
/// The reason why the programs cannot run it, or that there are none although the scenario names some.
pub fn fit<'s>(programs: Option<&Programs>, scenario: &'s Scenario) -> Result<Cow<'s, Scenario>, NotApplicable> {
    match (programs, scenario.programs.first_key_value()) {
        (Some(programs), _) => programs.fit(scenario).map(Cow::Owned),
        (None, Some((node, name))) => Err(NotApplicable::NoProgram { node: node.clone(), name: Some(name.clone()) }),
        (None, None) => Ok(Cow::Borrowed(scenario)),
    }
}

/// Splits scenarios into those that the programs, if any, can run, and those that they cannot, with the reason.
pub fn partition<'s>(
    programs: Option<&Programs>,
    scenarios: &'s [Scenario],
) -> (Cow<'s, [Scenario]>, Vec<(&'s Scenario, NotApplicable)>) {
    if scenarios.iter().all(|scenario| matches!(fit(programs, scenario), Ok(Cow::Borrowed(_)))) {
        return (Cow::Borrowed(scenarios), Vec::new());
    }
    let (mut fitting, mut others) = (Vec::new(), Vec::new());
    for scenario in scenarios {
        match fit(programs, scenario) {
            Ok(scenario) => fitting.push(scenario.into_owned()),
            Err(why) => others.push((scenario, why)),
        }
    }
    (Cow::Owned(fitting), others)
}

/// A chain of kube-proxy that a scenario adds rules to.
fn own_chain(scenario: &Scenario) -> Option<&str> {
    let tables = scenario.rules.iter().filter_map(|rules| rules.rules.iptables()).flat_map(|set| &set.tables);
    let mut chains = tables.flat_map(|table| &table.chains).filter(|chain| !chain.rules.is_empty());
    chains.find(|chain| is_own_chain(&chain.name)).map(|chain| &*chain.name)
}

/// A node whose program would need another configuration in a later state.
fn reconfigured<'s>(first: &'s Cluster, state: &Cluster) -> Option<&'s str> {
    let differs =
        |node: &&Node| state.node(&node.name).is_some_and(|other| other.hostname_override != node.hostname_override);
    first.nodes.iter().find(differs).map(|node| node.name.as_str())
}

/// Replaces the releases of kube-proxy in all states of a scenario, by node, in the order of its first state. A program without a release
/// counts as the scenario's release, which is then kept as the cluster's.
fn with_releases(scenario: &Scenario, releases: &[Option<&str>]) -> Scenario {
    let mut scenario = scenario.clone();
    let mut first = scenario.cluster.clone();
    if let Some(all) = releases.iter().copied().collect::<Option<Vec<&str>>>()
        && let Some(release) = all.first()
    {
        (*release).clone_into(&mut first.proxy.version);
    }
    for (node, release) in first.nodes.iter_mut().zip(releases) {
        node.release = release.filter(|release| *release != first.proxy.version).map(str::to_owned);
    }
    scenario.states_mut().for_each(|state| state.copy_releases_from(&first));
    scenario
}

/// Checks that a scenario applies to a release.
fn applies(scenario: &Scenario, release: &str) -> Result<(), NotApplicable> {
    let ProxyConfig { version, mode, .. } = &scenario.cluster.proxy;
    let (wanted, is_meant) = match scenario.releases {
        Releases::All => (String::new(), true),
        Releases::Only => (version.clone(), is_meant(version, release)),
        Releases::From => (format!("{version} or later"), is_later(version, release)),
    };
    if !is_meant {
        return Err(NotApplicable::Release { wanted, release: release.to_owned() });
    }
    if *mode == ProxyMode::Nftables && !release.parse::<Profile>().is_ok_and(Profile::nftables) {
        return Err(NotApplicable::Mode { mode: *mode, release: release.to_owned() });
    }
    Ok(())
}

/// Whether a release is the named one: a minor release without a patch number matches all of its patches.
fn is_meant(named: &str, release: &str) -> bool {
    let named = parts(named);
    !named.is_empty() && parts(release).starts_with(&named)
}

/// Whether a release is the named one or a later one.
fn is_later(named: &str, release: &str) -> bool {
    let named = parts(named);
    !named.is_empty() && parts(release) >= named
}

/// The numbers of a release; empty if it cannot be parsed.
fn parts(release: &str) -> Vec<u16> {
    let release = release.parse::<Profile>().map(|profile| profile.to_string()).unwrap_or_default();
    release.split('.').filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests;
