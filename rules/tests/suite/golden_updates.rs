//! Changes of objects against recordings of real kube-proxy 1.30: the rules after each step, and what is deleted from the
//! connection table in it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rstest::rstest;
use svclab_rules::cluster::{Cluster, Family};
use svclab_rules::conntrack::cleanup;
use svclab_rules::iptables::{generate, print};

use crate::golden_support::{first_difference, load, normalize};

#[rstest]
fn rules_equal_the_recording(
    #[files("tests/golden-updates/*/v1.30-iptables/step-*/iptables-save.txt")] recording: PathBuf,
) {
    let cluster = objects(&recording, step(&recording)).unwrap();
    let rules = generate(&cluster, &cluster.nodes[0], Family::Ipv4).unwrap();
    let recorded = std::fs::read_to_string(&recording).unwrap();
    let difference = first_difference(&normalize(&print(&rules)), &normalize(&recorded));
    assert!(difference.is_none(), "{}", difference.unwrap_or_default());
}

#[rstest]
fn deletions_equal_the_recording(
    #[files("tests/golden-updates/*/v1.30-iptables/step-*/calls.txt")] recording: PathBuf,
) {
    let step = step(&recording);
    let new = objects(&recording, step).unwrap();
    let old = step.checked_sub(1).map(|before| objects(&recording, before).unwrap());
    let old = old.unwrap_or_else(|| Cluster { proxy: new.proxy.clone(), ..Cluster::default() });
    let deletions = cleanup(&old, &new, &new.nodes[0]).unwrap();
    let expected: BTreeSet<String> = deletions.iter().map(|deletion| deletion.arguments().join(" ")).collect();
    let calls = std::fs::read_to_string(&recording).unwrap();
    let recorded: BTreeSet<String> = calls.lines().filter_map(conntrack_arguments).collect();
    assert_eq!(expected, recorded);
    assert_eq!(expected.len(), deletions.len(), "a call is there twice");
}

/// The arguments of a call of conntrack, without its exit code.
fn conntrack_arguments(call: &str) -> Option<String> {
    let arguments = call.strip_prefix("conntrack ")?;
    Some(arguments.split("  =>").next().unwrap_or(arguments).trim().to_owned())
}

/// The number of the step that a recording belongs to.
fn step(recording: &Path) -> usize {
    let folder = recording.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap();
    folder.trim_start_matches("step-").parse().unwrap()
}

/// The cluster after a step of the sequence that a recording belongs to.
fn objects(recording: &Path, step: usize) -> Option<Cluster> {
    let sequence = recording.ancestors().nth(3)?;
    Some(load(&sequence.join(format!("step-{step}.yaml")), "1.30"))
}
