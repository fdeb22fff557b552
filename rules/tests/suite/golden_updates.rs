//! Changes of objects compared with recordings of real kube-proxy: the rules after each step (1.30), and the conntrack entries deleted in
//! it (1.30 by calls of conntrack, 1.32 to 1.36 by the entries that are left).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rstest::rstest;
use svclab_rules::cluster::{Cluster, Family, Protocol};
use svclab_rules::conntrack::{Cleanup, Flow, cleanup};
use svclab_rules::iptables::{generate, print};

use crate::each_file::each_file;
use crate::golden_support::{first_difference, load, normalize};

#[test]
fn rules_equal_the_recording() {
    each_file(&["tests/golden-updates/*/v1.30-iptables/step-*/iptables-save.txt"], assert_rules_equal);
}

fn assert_rules_equal(recording: &Path) {
    let folder = recording.parent().unwrap();
    let cluster = objects(folder, step(folder), "1.30").unwrap();
    let rules = generate(&cluster, &cluster.nodes[0], Family::Ipv4).unwrap();
    let recorded = std::fs::read_to_string(recording).unwrap();
    let difference = first_difference(&normalize(&print(&rules)), &normalize(&recorded));
    assert!(difference.is_none(), "{}", difference.unwrap_or_default());
}

#[test]
fn deletions_equal_the_recording() {
    each_file(&["tests/golden-updates/*/v1.30-iptables/step-*/calls.txt"], assert_deletions_equal);
}

fn assert_deletions_equal(recording: &Path) {
    let Cleanup::Calls(deletions) = cleanup_of(recording.parent().unwrap(), "1.30") else { panic!("no calls") };
    let expected: BTreeSet<String> = deletions.iter().map(|deletion| deletion.arguments().join(" ")).collect();
    let calls = std::fs::read_to_string(recording).unwrap();
    let recorded: BTreeSet<String> = calls.lines().filter_map(conntrack_arguments).collect();
    assert_eq!(expected, recorded);
    assert_eq!(expected.len(), deletions.len(), "a call is there twice");
}

/// Returns the arguments of a call of conntrack, without its exit code.
fn conntrack_arguments(call: &str) -> Option<String> {
    let arguments = call.strip_prefix("conntrack ")?;
    Some(arguments.split("  =>").next().unwrap_or(arguments).trim().to_owned())
}

/// Each line of such a recording is `kept` or `gone`, for whether kube-proxy's sync of the step kept the entry, and the entry in the syntax
/// of conntrack's options.
#[test]
fn kept_connections_equal_the_recording() {
    each_file(&["tests/golden-updates/conntrack-1.32/v*/step-*.txt"], assert_kept_connections_equal);
}

fn assert_kept_connections_equal(recording: &Path) {
    let folder = recording.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap();
    let version = folder.trim_start_matches('v').split('-').next().unwrap();
    let Cleanup::Comparison(serving) = cleanup_of(recording, version) else { panic!("no comparison") };
    let mut compared = 0;
    for line in std::fs::read_to_string(recording).unwrap().lines().filter(|line| !line.starts_with('#')) {
        let (fate, entry) = line.split_once(' ').unwrap();
        assert_eq!(if serving.is_stale(&flow(entry)) { "gone" } else { "kept" }, fate, "{entry}");
        compared += 1;
    }
    assert_eq!(compared, 20);
}

/// Parses an entry of a recording.
fn flow(entry: &str) -> Flow {
    let words: Vec<&str> = entry.split(' ').collect();
    let value = |option: &str| words.iter().skip_while(|word| **word != option).nth(1).copied().unwrap();
    let socket =
        |address: &str, port: &str| SocketAddr::new(value(address).parse().unwrap(), value(port).parse().unwrap());
    let protocol = match value("-p") {
        "udp" => Protocol::Udp,
        "tcp" => Protocol::Tcp,
        "sctp" => Protocol::Sctp,
        other => panic!("{other}"),
    };
    Flow { protocol, original_destination: socket("-d", "--dport"), reply_source: socket("-r", "--reply-port-src") }
}

/// Returns what a release's kube-proxy deletes in the step of a recording.
fn cleanup_of(recording: &Path, version: &str) -> Cleanup {
    let step = step(recording);
    let new = objects(recording, step, version).unwrap();
    let old = step.checked_sub(1).map(|before| objects(recording, before, version).unwrap());
    let old = old.unwrap_or_else(|| Cluster { proxy: new.proxy.clone(), ..Cluster::default() });
    cleanup(&old, &new, &new.nodes[0]).unwrap()
}

/// Returns the step number of a recording, a file or folder `step-N`.
fn step(recording: &Path) -> usize {
    let name = recording.file_stem().and_then(|name| name.to_str()).unwrap();
    name.trim_start_matches("step-").parse().unwrap()
}

/// Returns the cluster after a step in the sequence of a recording.
fn objects(recording: &Path, step: usize, version: &str) -> Option<Cluster> {
    let sequence = recording.ancestors().nth(2)?;
    Some(load(&sequence.join(format!("step-{step}.yaml")), version))
}

/// The tests above use whatever files exist: they would not notice a missing or empty recording.
#[rstest]
#[case::rules("v1.30-iptables", "iptables-save.txt", "-A ", 45)]
#[case::deletions("v1.30-iptables", "calls.txt", "conntrack ", 5)]
fn recordings_of_steps_are_there(
    #[case] folder: &str,
    #[case] file: &str,
    #[case] entry: &str,
    #[case] expected: usize,
) {
    let recordings = files(Path::new("tests/golden-updates"))
        .into_iter()
        .flat_map(|sequence| files(&sequence.join(folder)))
        .map(|step| std::fs::read_to_string(step.join(file)).unwrap());
    let with_entries = recordings.filter(|text| text.lines().any(|line| line.starts_with(entry)));
    assert_eq!(with_entries.count(), expected);
}

/// Every release has all steps in both modes.
#[test]
fn recordings_of_connections_are_there() {
    let folders = files(Path::new("tests/golden-updates/conntrack-1.32"));
    let steps: Vec<usize> = folders.iter().filter(|folder| folder.is_dir()).map(|folder| files(folder).len()).collect();
    assert_eq!(steps, [5; 10]);
}

/// Returns the content of a folder; nothing if it does not exist.
fn files(folder: &Path) -> Vec<PathBuf> {
    folder.read_dir().map_or(Vec::new(), |entries| entries.map(|entry| entry.unwrap().path()).collect())
}
