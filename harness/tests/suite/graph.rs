//! `svclab graph`: diagrams of clusters, and of the path of a flow.

use std::process::{Command, Output};

use rstest::rstest;

const SHOWCASE: &str = "scenarios/manifests/showcase.yaml";
const THREE: &str = "scenarios/seeds/000-foo-three-replicas.yaml";
const FLOW: [&str; 4] = ["--from", "pod/client", "--to", "service/kube-system/coredns:9153"];

fn graph(arguments: &[&str]) -> Output {
    let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    command.arg("graph").args(arguments).current_dir(repository).output().expect("svclab starts")
}

fn drawn(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = graph(arguments);
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("text")
}

#[rstest]
fn each_format_draws_the_path_of_a_flow(#[values("dot", "mermaid", "svg")] format: &str) {
    let picture = drawn(&[&[THREE, "--path", "2", "--format", format], FLOW.as_slice()].concat());
    insta::with_settings!({ omit_expression => true }, {
        insta::assert_snapshot!(format!("graph_three_{format}"), picture);
    });
}

#[rstest]
#[case::objects(SHOWCASE, "service/cluster-ip")]
#[case::scenario("scenarios/dual-stack/both-families.yaml", "fd00:172:18::2")]
#[case::dump("harness/tests/texts/issue-with-excerpt.md", "node/")]
fn every_input_is_drawn(#[case] input: &str, #[case] shown: &str) {
    for format in ["dot", "mermaid", "svg"] {
        let picture = drawn(&[input, "--format", format]);
        assert!(picture.contains(shown), "{picture}");
    }
}

/// The diagram follows the steps of a scenario.
#[test]
fn a_step_changes_what_is_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("steps.yaml");
    let text = "name: steps\nnodes: [{name: worker, ip: 172.18.0.2, podCIDR: 10.244.0.0/24}]\npods: [{name: web, node: worker}]\n\
                services: [{name: web, ports: [{port: 80}]}]\nendpoints: [{service: web, pods: [web]}]\n\
                tests:\n  - name: gone\n    steps:\n      - apply: {endpoints: [{service: web, pods: []}]}\n      \
                - probe: {from: node/worker, to: 'service/web:80'}\n        expect: {rejected: true}\n";
    std::fs::write(&file, text).expect("a scenario");
    let file = file.to_str().expect("a path");
    assert!(drawn(&[file, "--format", "dot"]).contains("1 endpoint"));
    let after = drawn(&[file, "--format", "dot", "--step", "1", "--from", "pod/web", "--to", "service/web:80"]);
    assert!(after.contains("0 endpoints") && after.contains("rejected on node/worker"), "{after}");
}

/// Names and texts are untrusted.
#[rstest]
#[case("svg", "&lt;script&gt; &quot;end&quot; #35; `x`")]
#[case("mermaid", "&lt;script&gt; &quot;end&quot; #35;35; #96;x#96;")]
#[case("dot", "<script> \\\"end\\\" #35; `x`")]
fn text_of_an_input_is_not_markup(#[case] format: &str, #[case] shown: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hostile.yaml");
    let text =
        "name: \"<script> \\\"end\\\" #35; `x`\"\nnodes: [{name: worker, ip: 172.18.0.2, podCIDR: 10.244.0.0/24}]\n";
    std::fs::write(&file, text).expect("a scenario");
    let picture = drawn(&[file.to_str().expect("a path"), "--format", format]);
    assert!(picture.contains(shown), "{picture}");
}

#[rstest]
#[case(&["scenarios/dual-stack"], "the folder has 2 scenarios\nhelp: Name one file.\n")]
#[case(
    &[THREE, "--step", "1"],
    "`--step 1` is out of range: the scenario has no step that changes its cluster\nhelp: Omit `--step`.\n"
)]
#[case(
    &[THREE, "--path", "4", FLOW[0], FLOW[1], FLOW[2], FLOW[3]],
    "there is no path 4: the rules allow 3 paths\nhelp: Choose a smaller `--path`; without it the first path is taken.\n"
)]
fn an_error_names_the_fix(#[case] arguments: &[&str], #[case] message: &str) {
    let output = graph(arguments);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stderr), message);
    assert_eq!(output.stdout, b"");
}

#[test]
fn what_a_large_cluster_has_no_room_for_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("large.yaml");
    let nodes: String = (0..120).map(|node| format!("  - {{name: n{node}, ip: 172.18.0.{}}}\n", node + 2)).collect();
    let pods: String = (0..1200).map(|pod| format!("  - {{name: p{pod}, node: n{}}}\n", pod % 120)).collect();
    let text = format!("name: large\ncluster: {{podCIDR: 10.244.0.0/16}}\nnodes:\n{nodes}pods:\n{pods}");
    std::fs::write(&file, text).expect("a scenario");
    let picture = drawn(&[file.to_str().expect("a path"), "--from", "pod/p1199", "--to", "10.244.0.2:80"]);
    assert!(picture.contains("not drawn: 20 nodes") && picture.contains("and 2 more pods"), "{picture}");
    assert!(picture.contains(">pod/p1199</text>"), "the sender is always drawn");
}
