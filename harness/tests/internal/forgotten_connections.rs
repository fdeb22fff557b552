//! The conntrack clean-up after a change, on a real kernel: entries are added to a node's conntrack table as for a real kube-proxy, svclab
//! cleans up after each step, and the rest is compared with what kube-proxy left.

use std::fs;
use std::path::Path;

use crate::lab::{Backend, Lab, with_lab};
use crate::{scenario, testing, topology};
use rstest::rstest;
use serde::Deserialize;
use svclab_rules::cluster::objects::{Object, assemble, proxy_config};
use svclab_rules::cluster::{Cluster, Protocol};
use svclab_rules::conntrack::{Flow, cleanup};

const RECORDINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../rules/tests/golden-updates/conntrack-1.32");
const NODE: &str = "node/node-1";

#[rstest]
fn what_is_kept_equals_the_recording(
    #[values("1.32", "1.33", "1.34", "1.35", "1.36")] version: &str,
    #[values("iptables", "nftables")] mode: &str,
) {
    let no_files = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let text = "name: one node
cluster: {podCIDR: 10.244.0.0/16}
nodes: [{name: node-1, ip: 192.168.10.11}]
hosts: [{name: outside, ip: 192.0.2.1}]
tests: [{name: none, probe: {from: host/outside, to: 'node/node-1:22'}, expect: {rejected: true}}]";
    let scenario =
        scenario::parse(text, Path::new("inline.yaml"), &no_files).unwrap_or_else(|printed| panic!("{printed}"));
    testing::privileged(|| {
        with_lab(&topology::plan(&scenario), &[], Backend::System, |lab| replay(lab, version, mode)).expect("a lab");
    });
}

fn replay(lab: &mut Lab, version: &str, mode: &str) {
    let flows = read("flows.txt");
    let mut old = Cluster::default();
    for step in 0..=4 {
        plant(lab, &flows);
        let new = objects(step, version);
        let node = &new.nodes[0];
        lab.installer(&[]).clean_up(NODE, &cleanup(&old, &new, node).expect("a release")).expect("a clean-up");
        let left = lab.flows(NODE).expect("the connection table");
        let recorded = read(&format!("v{version}-{mode}/step-{step}.txt"));
        let fates = recorded.lines().filter_map(|line| line.split_once(' ')).filter(|(fate, _)| *fate != "#");
        for (fate, entry) in fates {
            let found = if left.contains(&flow(entry)) { "kept" } else { "gone" };
            assert_eq!(found, fate, "step {step}: {entry}");
        }
        old = new;
    }
}

/// Adds the flows that are missing from the table.
fn plant(lab: &Lab, flows: &str) {
    let there = lab.flows(NODE).expect("the connection table");
    let missing = flows.lines().filter(|line| !line.starts_with('#') && !there.contains(&flow(line)));
    let calls: Vec<Vec<String>> =
        missing.map(|line| format!("-I {line}").split(' ').map(str::to_owned).collect()).collect();
    lab.conntrack(NODE, &calls).expect("entries are planted");
    assert_eq!(lab.flows(NODE).expect("the connection table").len(), 20);
}

/// Parses a flow from conntrack options.
fn flow(entry: &str) -> Flow {
    let value = |option: &str| entry.split(' ').skip_while(|word| *word != option).nth(1).expect("an option");
    let end = |address: &str, port: &str| format!("{}:{}", value(address), value(port)).parse().expect("an address");
    let protocol = match value("-p") {
        "udp" => Protocol::Udp,
        "tcp" => Protocol::Tcp,
        other => {
            assert_eq!(other, "sctp");
            Protocol::Sctp
        }
    };
    Flow { protocol, original_destination: end("-d", "--dport"), reply_source: end("-r", "--reply-port-src") }
}

/// The cluster after a step.
fn objects(step: usize, version: &str) -> Cluster {
    let text = read(&format!("step-{step}.yaml"));
    let documents = serde_yaml::Deserializer::from_str(&text);
    let objects: Vec<Object> = documents.map(|document| Object::deserialize(document).expect("an object")).collect();
    let config = serde_yaml::from_str(&read("proxy-config.yaml")).expect("a configuration");
    let proxy = proxy_config(&config, version).expect("a configuration");
    assemble(&objects, proxy).expect("a cluster").cluster
}

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(RECORDINGS).join(file)).expect("a recording")
}
