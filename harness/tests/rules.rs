//! `svclab rules`, as a user calls it.
#![allow(clippy::expect_used, reason = "a test fails where something is missing")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rstest::rstest;
use serde::Deserialize;
use svclab::{documents, scenario};
use svclab_rules::cluster::Family;
use svclab_rules::cluster::objects::{Object, assemble, proxy_config};
use svclab_rules::iptables::{generate, print};

const SEED: &str = "../scenarios/seeds/000-foo-three-replicas.yaml";
const OBJECTS: &str = "../rules/tests/golden/small-cluster/cluster.yaml";

fn svclab(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    command.arg("rules").args(arguments).output().expect("svclab starts")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

/// What the generator writes for the first node of a recording's cluster.
fn generated(cluster: &Path, version: &str, family: Family) -> String {
    let text = std::fs::read_to_string(cluster).expect("a cluster");
    let documents = serde_yaml::Deserializer::from_str(&text);
    let objects: Vec<Object> = documents.map(|one| Object::deserialize(one).expect("an object")).collect();
    let config = std::fs::read_to_string(cluster.with_file_name("proxy-config.yaml")).expect("a configuration");
    let proxy = proxy_config(&serde_yaml::from_str(&config).expect("YAML"), version).expect("a sound configuration");
    let cluster = assemble(&objects, proxy).expect("sound objects").cluster;
    print(&generate(&cluster, &cluster.nodes[0], family).expect("rules"))
}

#[rstest]
fn of_plain_objects_they_are_the_generators(#[files("../rules/tests/golden/*/cluster.yaml")] cluster: PathBuf) {
    let config = cluster.with_file_name("proxy-config.yaml");
    let [objects, config] = [&cluster, &config].map(|path| path.to_str().expect("UTF-8"));
    for (version, name, family) in [("1.30", "ipv4", Family::Ipv4), ("1.21", "ipv6", Family::Ipv6)] {
        let options = ["--proxy-config", config, "--version", version, "--family", name, "--mode", "iptables"];
        let output = svclab(&[&[objects], &options[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(stdout(&output), generated(&cluster, version, family), "{version} {name}");
    }
}

#[test]
fn of_a_scenario_they_are_what_a_lab_installs() {
    let scenario = scenario::load(Path::new(SEED)).expect("a sound scenario");
    let node = &scenario.cluster.nodes[1].name;
    let documents = documents::generate(&scenario, &scenario.cluster).expect("rules");
    let installed = documents.iter().find(|document| document.space == format!("node/{node}")).expect("a document");
    let output = svclab(&[SEED, "--node", node]);
    assert_eq!((stdout(&output), stderr(&output)), (installed.text.as_str(), ""));
}

#[rstest]
#[case::scenario(SEED)]
#[case::objects(OBJECTS)]
fn without_a_name_the_first_node_is_chosen_and_that_is_said(#[case] path: &str) {
    let output = svclab(&[path]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).ends_with("COMMIT\n"));
    assert!(stderr(&output).contains("; --node chooses another"), "{}", stderr(&output));
    let quiet = svclab(&[path, "--quiet"]);
    assert_eq!((stdout(&quiet), stderr(&quiet)), (stdout(&output), ""));
}

#[rstest]
#[case::mistyped_node(&[SEED, "--node", "worker-22"], "there is no node `worker-22`\nhelp: Did you mean")]
#[case::no_such_family(&[SEED, "--family", "ipv6"], "has no IPv6 address")]
#[case::unknown_version(&[SEED, "--version", "2.0"], "unknown kube-proxy version `2.0`: known are 1.10 to")]
#[case::nothing_there(&["missing.yaml"], "missing.yaml:1:1: the file cannot be read")]
#[case::a_folder(&["../scenarios"], "../scenarios:1:1: the file cannot be read")]
#[case::configuration_of_a_scenario(&[SEED, "--proxy-config", SEED], "--proxy-config is for plain Kubernetes objects")]
#[case::no_configuration(&[OBJECTS, "--proxy-config", OBJECTS], "this is no KubeProxyConfiguration")]
fn what_is_wrong_is_told(#[case] arguments: &[&str], #[case] message: &str) {
    let output = svclab(arguments);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains(message), "{}", stderr(&output));
}
