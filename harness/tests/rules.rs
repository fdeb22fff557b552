//! `svclab rules`, as a user calls it.
#![allow(clippy::expect_used, reason = "a test fails where something is missing")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rstest::rstest;
use serde::Deserialize;
use svclab::{documents, scenario};
use svclab_rules::cluster::objects::{KubeProxyConfiguration, Object, assemble, proxy_config};
use svclab_rules::cluster::{Cluster, Family};
use svclab_rules::{iptables, nftables};

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

/// A cluster of the recordings, under the configuration that stands beside it.
fn recorded(cluster: &Path, version: &str, mode: &str) -> Cluster {
    let text = std::fs::read_to_string(cluster).expect("a cluster");
    let documents = serde_yaml::Deserializer::from_str(&text);
    let objects: Vec<Object> = documents.map(|one| Object::deserialize(one).expect("an object")).collect();
    let config = std::fs::read_to_string(cluster.with_file_name("proxy-config.yaml")).expect("a configuration");
    let mut config: KubeProxyConfiguration = serde_yaml::from_str(&config).expect("YAML");
    config.mode = Some(mode.to_owned());
    // The recordings of nftables mode were made with the masquerading of the section `iptables`.
    config.nftables = config.iptables.clone();
    let proxy = proxy_config(&config, version).expect("a sound configuration");
    assemble(&objects, proxy).expect("sound objects").cluster
}

#[rstest]
fn of_plain_objects_they_are_the_generators(#[files("../rules/tests/golden/*/cluster.yaml")] path: PathBuf) {
    let config = path.with_file_name("proxy-config.yaml");
    let [objects, config] = [&path, &config].map(|path| path.to_str().expect("UTF-8"));
    let cases = [
        ("iptables", "1.30", "ipv4", Family::Ipv4),
        ("iptables", "1.21", "ipv6", Family::Ipv6),
        ("nftables", "1.30", "ipv4", Family::Ipv4),
        ("nftables", "1.33", "ipv6", Family::Ipv6),
    ];
    for (mode, version, name, family) in cases {
        let cluster = recorded(&path, version, mode);
        let node = &cluster.nodes[0];
        let generated = match mode {
            "nftables" => nftables::generate(&cluster, node, family).map(|rules| nftables::print(&rules)),
            _ => Ok(iptables::print(&iptables::generate(&cluster, node, family).expect("a known release"))),
        };
        let options = ["--proxy-config", config, "--version", version, "--family", name, "--mode", mode];
        let output = svclab(&[&[objects], &options[..]].concat());
        match generated {
            Ok(rules) => assert_eq!(stdout(&output), rules, "{mode} {version} {name}"),
            Err(error) => assert!(stderr(&output).contains(&error.to_string()), "{}", stderr(&output)),
        }
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
