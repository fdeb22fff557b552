//! Decoded scenario → model: references are looked up, defaults filled in, steps completed.
//!
//! Every stage records its errors and continues with what is valid, so that one run reports all of them.

mod addresses;
mod allocations;
mod changes;
mod checks;
mod connections;
mod during;
mod endpoints;
mod expectations;
mod findings;
mod hosts_and_rules;
mod impairments;
mod links;
mod located;
mod lookup;
mod manifests;
mod network;
mod nodes;
mod objects;
mod other_rules;
mod pods;
mod ports;
mod probe_ends;
mod probes;
mod promised;
mod proxies;
mod read_objects;
mod references;
mod service_list;
mod services;
mod shapes;
mod stage;
mod states;
mod step_changes;
mod steps;
mod sysctls;
mod tags;
mod targets;
mod times;

use std::collections::BTreeMap;
use std::path::Path;

use crate::scenario::model::{Releases, Scenario, Tests};
use crate::scenario::schema::{RawNode, RawScenario};
use crate::yaml::At;
use addresses::Pool;
pub(crate) use findings::Findings;
pub(crate) use hosts_and_rules::RuleFiles;
pub(crate) use links::IPV6_MIN_MTU;
pub(crate) use located::{Located, report};
use lookup::Scene;
pub(crate) use manifests::{LEFT_OUT, Manifests, NO_EFFECT, Object};
pub(crate) use network::gates;
pub(crate) use nodes::NODE_RANGES;
use objects::{Objects, Source};
pub(crate) use other_rules::OF_THE_MACHINE;
pub(crate) use stage::{Extra, OwnChange};
pub(crate) use steps::ResolvedProbe;
pub use steps::step_out_of_range;

/// The input of resolution.
pub(crate) struct Input<'a> {
    /// The decoded scenario.
    pub(crate) raw: &'a RawScenario,
    /// The tree that it was decoded from.
    pub(crate) at: At<'a>,
    /// The original tree, with invalid values.
    pub(crate) written: At<'a>,
    /// The manifests that the scenario names, steps included.
    pub(crate) manifests: &'a Manifests,
    /// The rule files that it names.
    pub(crate) rules: &'a RuleFiles,
    /// The folder that paths are relative to.
    pub(crate) folder: &'a Path,
    /// An ad-hoc probe in addition to the tests.
    pub(crate) extra: Option<Extra<'a>>,
    /// Whether it must have tests.
    pub(crate) tests: Tests,
}

/// Resolves a scenario, and the ad-hoc probe if there is one. Both can be used only if `findings` has no errors
/// afterwards.
pub(crate) fn resolve(input: &Input<'_>, findings: &mut Findings) -> (Scenario, Option<ResolvedProbe>) {
    let Input { raw, at, .. } = *input;
    let network = network::network(&raw.cluster, at.field("cluster"), findings);
    let mut pool = Pool::default();
    let hosts = hosts_and_rules::hosts(&raw.hosts, at.field("hosts"), &network, &mut pool, findings);
    let source = Source::scenario(raw, at, input.folder);
    let objects = Objects::start(&source, input.manifests, &network, pool, input.written, findings);
    if raw.nodes.is_empty() && raw.manifests.is_empty() && !input.written.has("nodes") {
        findings.wrong(at, "the scenario has no nodes", "Add `nodes:` with at least one node.");
    }
    let mut cluster = objects.cluster(&network, findings);
    checks::names(&objects, &hosts, findings);
    checks::addresses(&objects, &hosts, (&cluster, &network), findings);
    let listed = at.field("rules");
    let rules = hosts_and_rules::rules(&raw.rules, listed, input.folder, input.rules, &objects, &cluster, findings);
    let scene = Scene { now: (&objects, &cluster.clone()), former: &[], hosts: &hosts, rules: &rules };
    if at.has("links") {
        links::change(&raw.links, at.field("links"), &scene, &mut cluster, findings);
    }
    let connections = connections::connections(&raw.connections, at.field("connections"), &scene, findings);
    let stage = stage::Stage {
        objects: &objects,
        cluster: &cluster,
        hosts: &hosts,
        rules: &rules,
        network: &network,
        manifests: input.manifests,
        folder: input.folder,
        extra: input.extra,
    };
    let shared = tags::tags(&raw.tags, at.field("tags"), findings);
    let (mut tests, extra) = steps::tests(&raw.tests, at.field("tests"), &stage, findings);
    tests.iter_mut().for_each(|test| test.tags.extend(shared.iter().cloned()));
    if raw.tests.is_empty() && input.tests == Tests::Required {
        let help = "Add `tests:` with at least one `probe` and its `expect`; `svclab verify` needs none.";
        let place = if at.has("tests") { at.field("tests") } else { at.field("name") };
        if !at.field("tests").is_pruned() {
            findings.wrong(place.key(), "the scenario has no tests", help);
        }
    }
    let scenario = Scenario {
        name: findings.line(&raw.name, at.field("name")),
        file: at.file().to_owned(),
        inputs: BTreeMap::new(),
        sysctls: sysctls::sysctls(&raw.nodes, at.field("nodes"), findings),
        programs: programs(&raw.nodes),
        hosts: hosts.into_iter().map(|host| host.value).collect(),
        cni: network.cni,
        cluster,
        releases: raw.cluster.proxy.version.as_ref().map_or(Releases::All, |version| version.release().1),
        rules,
        connections,
        tests,
        notes: findings.notes.clone(),
        ignored_rules: Vec::new(),
        sets_mode: raw.cluster.proxy.mode.is_some(),
    };
    checks::nftables(&scenario, at.field("cluster").field("proxy").field("mode"), findings);
    (scenario, extra)
}

/// Returns the names of nodes' programs. The programs themselves are given on the command line.
fn programs(nodes: &[RawNode]) -> BTreeMap<String, String> {
    nodes.iter().filter_map(|node| Some((node.name.clone(), node.proxy.program.clone()?))).collect()
}
