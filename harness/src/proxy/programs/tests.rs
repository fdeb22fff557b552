//! The scenarios that programs can run.

use std::path::Path;

use rstest::rstest;

use super::*;
use crate::scenario;

#[rstest]
#[case("1.36", "1.36.2", true)]
#[case("1.36.2", "1.36.2", true)]
#[case("1.36.1", "1.36.2", false)]
#[case("1.3", "1.36.2", false)]
#[case("1.35", "1.36.2", false)]
#[case("v1.30.2+k3s1", "1.30.2-eks-1a2b3c", true)]
fn a_scenario_names_releases(#[case] named: &str, #[case] release: &str, #[case] expected: bool) {
    assert_eq!(is_meant(named, release), expected);
}

#[rstest]
#[case("1.29", "1.29.0", true)]
#[case("1.29", "1.36.2", true)]
#[case("1.29", "1.28.9", false)]
#[case("1.33.6", "1.33.5", false)]
#[case("1.33.6", "1.34.1", true)]
#[case("1.9", "1.36.2", false)]
fn a_scenario_names_its_first_release(#[case] named: &str, #[case] release: &str, #[case] expected: bool) {
    assert_eq!(is_later(named, release), expected);
}

/// A scenario with these texts in its cluster's `proxy:`, in the first node and at its end.
fn scenario([proxy, node, end]: [&str; 3]) -> Scenario {
    let text = format!(
        "name: nodes\ncluster: {{podCIDR: 10.244.0.0/16, proxy: {{{proxy}}}}}\n\
         nodes:\n- {{name: a, ip: 172.18.0.2{node}}}\n- {{name: b, ip: 172.18.0.3}}\n\
         pods: [{{name: client, node: a}}, {{name: web, node: b}}]\n\
         services: [{{name: web, clusterIP: 10.96.0.80, ports: [{{port: 80}}]}}]\n\
         endpoints: [{{service: web, pods: [web]}}]\n{end}\n"
    );
    let read = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let parsed = scenario::parse_with(&text, Path::new("nodes.yaml"), &read, scenario::Tests::Optional);
    parsed.unwrap_or_else(|errors| panic!("{errors}"))
}

/// A kube-proxy of a release, which is not started.
fn program(release: &str) -> Program {
    let stored = serde_json::json!({"launch": {"KubeProxy": "/kube-proxy"}, "release": release});
    serde_json::from_value(stored).expect("as a report stores it")
}

fn programs(release: &str) -> Programs {
    Programs::new(Some(program(release)), BTreeMap::new(), Duration::from_secs(1))
}

const RULES: &str = "rules: {a: {text: \"*nat\\n:KUBE-SERVICES - [0:0]\\n-A KUBE-SERVICES -j RETURN\\nCOMMIT\\n\", install: INSTALL}}\n";
const CHANGE: &str = "tests: [{name: t, steps: [{apply: {nodes: [{name: b, hostnameOverride: c}]}}, {probe: {from: pod/client, to: \"pod/web:80\"}, expect: {delivered: pod/web}}]}]";
const RESTART: &str = "tests: [{name: t, steps: [{restart: proxy}, {probe: {from: pod/client, to: \"pod/web:80\"}, expect: {delivered: pod/web}}]}]";

#[rstest]
#[case::release("version: \"1.28\"", "", "", "the scenario is for kube-proxy 1.28, but the program is 1.29.4")]
#[case::from_release(
    "version: \">=1.30\"",
    "",
    "",
    "the scenario is for kube-proxy 1.30 or later, but the program is 1.29.4"
)]
#[case::mode("mode: nftables", "", "", "svclab does not model nftables mode for kube-proxy 1.29.4")]
#[case::own_rules("", "", "INSTEAD", "the rules of node a are the scenario's own (`install: instead`)")]
#[case::own_chain(
    "",
    "",
    "AFTER",
    "the scenario adds rules to KUBE-SERVICES, but the program rewrites this chain when objects change"
)]
#[case::reconfigured(
    "",
    "",
    CHANGE,
    "the scenario changes `hostnameOverride` of node b, which the program reads only at startup"
)]
#[case::cleanup(
    "conntrack: {cleanup: false}",
    "",
    "",
    "the scenario sets `conntrack.cleanup`, but the program decides which connections to delete"
)]
#[case::no_program(
    "",
    ", proxy: {program: old}",
    "",
    "there is no program for node a: no --kube-proxy or --proxy-command has the name `old`"
)]
fn a_scenario_that_programs_cannot_carry_out(
    #[case] proxy: &str,
    #[case] node: &str,
    #[case] end: &str,
    #[case] expected: &str,
) {
    let end = match end {
        "INSTEAD" => RULES.replace("INSTALL", "instead"),
        "AFTER" => RULES.replace("INSTALL", "after") + RESTART,
        other => other.to_owned(),
    };
    let scenario = scenario([proxy, node, &end]);
    let programs = programs("1.29.4");
    assert_eq!(fit(Some(&programs), &scenario).expect_err("a reason").to_string(), expected);
    let scenarios = [scenario];
    let (fitting, others) = partition(Some(&programs), &scenarios);
    assert_eq!((fitting.len(), others.len()), (0, 1));
}

/// Every node needs a program: a named one is only for nodes that name it.
#[test]
fn a_program_with_a_name_is_not_that_of_other_nodes() {
    let named = BTreeMap::from([("old".to_owned(), program("1.29.4"))]);
    let programs = Programs::new(None, named, Duration::from_secs(1));
    let why = fit(Some(&programs), &scenario(["", ", proxy: {program: old}", ""])).expect_err("a reason").to_string();
    assert_eq!(
        why,
        "there is no program for node b: the scenario names none, and all programs on the command line have names"
    );
}

/// During an upgrade, each node is judged by the release of its own program, in every state.
#[rstest]
#[case(", proxy: {program: old}", "1.29.4", "1.33.2")]
#[case("", "1.33.2", "1.33.2")]
fn nodes_have_the_releases_of_their_programs(#[case] node: &str, #[case] a: &str, #[case] b: &str) {
    let named = BTreeMap::from([("old".to_owned(), program("1.29.4"))]);
    let programs = Programs::new(Some(program("1.33.2")), named, Duration::from_secs(1));
    let mut fitting =
        fit(Some(&programs), &scenario(["", node, RESTART])).unwrap_or_else(|why| panic!("{why}")).into_owned();
    for state in fitting.states_mut() {
        let releases: Vec<&str> = state.nodes.iter().map(|node| state.release_on(node)).collect();
        assert_eq!(releases, [a, b]);
    }
}

/// A program of `--proxy-command` has no release: its node is judged by the scenario's.
#[test]
fn a_program_without_a_release_stands_for_that_of_the_scenario() {
    let stored = serde_json::json!({"launch": {"Command": ["proxy"]}, "release": null});
    let named = BTreeMap::from([("other".to_owned(), serde_json::from_value(stored).expect("as a report stores it"))]);
    let programs = Programs::new(Some(program("1.33.2")), named, Duration::from_secs(1));
    let scenario = scenario(["version: \">=1.30\"", ", proxy: {program: other}", ""]);
    let fitting = fit(Some(&programs), &scenario).unwrap_or_else(|why| panic!("{why}"));
    let releases: Vec<&str> = fitting.cluster.nodes.iter().map(|node| fitting.cluster.release_on(node)).collect();
    assert_eq!(releases, [scenario.cluster.proxy.version.as_str(), "1.33.2"]);
}

/// A scenario that one program cannot run can be run with another, or without changes.
#[rstest]
#[case("version: \">=1.29\"", "", "1.29.4")]
#[case("version: \"1.29\"", "", "1.29.4")]
#[case("mode: nftables", "", "1.33.2")]
#[case("", "AFTER", "1.29.4")]
fn a_scenario_that_programs_can_carry_out(#[case] proxy: &str, #[case] end: &str, #[case] release: &str) {
    let end = end.replace("AFTER", &RULES.replace("INSTALL", "after"));
    let scenario = scenario([proxy, "", &end]);
    let programs = programs(release);
    let fitting = fit(Some(&programs), &scenario).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(fitting.cluster.proxy.version, release);
}
