//! Scenarios in labs whose rules the proxy of `examples/` writes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rstest::rstest;
use tempfile::TempDir;

/// `cargo test` builds examples next to the command.
fn proxy() -> PathBuf {
    let file = Path::new(env!("CARGO_BIN_EXE_svclab")).with_file_name("examples").join("proxy");
    assert!(file.exists(), "{} is missing: run `cargo build -p svclab --example proxy`", file.display());
    file
}

#[rstest]
#[case::nftables("nftables")]
#[case::iptables("cluster-ip")]
#[case::changes("updates")]
fn scenarios_hold_with_rules_of_another_client(#[case] folder: &str) {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(folder);
    let mut svclab = Command::new(env!("CARGO_BIN_EXE_svclab"));
    let output = svclab.arg("run").arg("--kube-proxy").arg(proxy()).arg(scenarios).output().expect("svclab starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
}

const TWO_RELEASES: &str = r#"
name: nodes with programs of two releases
cluster: {podCIDR: [10.244.0.0/16, "fd00:10:244::/56"]}
nodes:
  - {name: a, ips: [172.18.0.2, "fd00:172:18::2"], podCIDRs: [10.244.1.0/24, "fd00:10:244:1::/64"], proxy: {program: old}}
  - {name: b, ips: [172.18.0.3, "fd00:172:18::3"], podCIDRs: [10.244.2.0/24, "fd00:10:244:2::/64"], proxy: {program: new}}
pods:
  - {name: client, node: a, ips: [10.244.1.2, "fd00:10:244:1::2"]}
  - {name: web, node: b, ips: [10.244.2.2, "fd00:10:244:2::2"]}
services:
  - {name: web, ipFamilyPolicy: RequireDualStack, clusterIPs: [10.96.0.80, "fd00:10:96::80"], ports: [{port: 80, targetPort: 8080}]}
endpoints:
  - {service: web, pods: [web]}
tests:
  - name: it is served
    probe: {from: pod/client, to: "service/web:80"}
    expect: {delivered: "pod/web:8080"}
  - name: and gone
    steps:
      - apply: {services: [{name: web, delete: true}], endpoints: [{service: web, delete: true}]}
      - probe: {from: pod/client, to: "10.96.0.80:80"}
        expect: {fails: true}
"#;

/// A folder with a scenario whose nodes have two programs, and a program of another release than the example.
fn two_releases() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("two.yaml"), TWO_RELEASES).expect("its own file");
    let other = folder.path().join("other");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo Kubernetes v1.33.2; exit; }}\nexec '{}' \"$@\"\n",
        proxy().display()
    );
    fs::write(&other, script).expect("its own file");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).expect("its own file");
    folder
}

fn svclab(folder: &TempDir, words: &str) -> (Output, String) {
    let fill = |word: &str| word.replace("EXAMPLE", &proxy().display().to_string());
    let mut svclab = Command::new(env!("CARGO_BIN_EXE_svclab"));
    let output = svclab.current_dir(folder.path()).args(words.split(' ').map(fill)).output().expect("svclab starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output, super::unwrapped(&text))
}

/// Each node's rules are those of its own program and release, in both families.
#[test]
fn rules_are_compared_with_the_release_of_the_nodes_own_program() {
    let folder = two_releases();
    let (_, text) = svclab(&folder, "rules --node b --kube-proxy old=EXAMPLE --kube-proxy new=other --diff two.yaml");
    for family in ["IPv4", "IPv6"] {
        assert!(text.contains(&format!("node b (kube-proxy 1.33.2, {family})")), "{text}");
    }
    assert!(text.contains("/other (1.33.2)") && !text.contains("1.30.0"), "{text}");
    let (_, text) = svclab(&folder, "rules two.yaml --node a --kube-proxy old=EXAMPLE --kube-proxy new=other --diff");
    assert!(text.contains("node a (kube-proxy 1.30.0, IPv6)") && !text.contains("1.33.2"), "{text}");
}

#[rstest]
#[case("run two.yaml", 2)]
#[case("verify two.yaml", 2)]
#[case("rules two.yaml", 2)]
#[case("explain two.yaml --from pod/client --to service/web:80", 2)]
fn programs_that_a_scenario_names_are_needed(#[case] words: &str, #[case] code: i32) {
    let (output, text) = svclab(&two_releases(), words);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(
        text.contains("there is no program for node a: no --kube-proxy or --proxy-command has the name `old`"),
        "{text}"
    );
    assert!(text.contains("Add --kube-proxy old=PATH."), "{text}");
}

/// Rules that a program has written, and the path through them, also in later states that it has followed.
#[rstest]
#[case("--to service/web:80", "delivered to 10.244.2.2:8080")]
#[case("--to service/web:80 --live", "delivered to 10.244.2.2:8080")]
#[case("--to 10.96.0.80:80 --step 1", "lost on the underlay: no host has the address")]
fn a_path_through_the_rules_of_programs_is_explained(#[case] words: &str, #[case] part: &str) {
    let folder = two_releases();
    let line = format!("explain two.yaml --kube-proxy old=EXAMPLE --kube-proxy new=other --from pod/client {words}");
    let (output, text) = svclab(&folder, &line);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains(part), "{text}");
}

/// A stopped program leaves the rules that it has written before, and the page says so.
#[rstest]
#[case("")]
#[case(" --live")]
fn a_path_through_the_rules_of_a_stopped_program_is_explained(#[case] live: &str) {
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/updates/stopped-proxy.yaml");
    let line =
        format!("explain {scenario} --kube-proxy EXAMPLE --from pod/client-1 --to service/web:http --step 2{live}");
    let (output, text) = svclab(&two_releases(), &line);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("kube-proxy on node worker is stopped since change 1: its rules are those from"), "{text}");
    assert!(text.contains("predicted 1 delivered to pod/old at 10.244.2.3:8080"), "{text}");
}

/// A program without a release is compared with that of the scenario, or another one.
#[test]
fn another_program_is_compared_with_a_release_that_is_named() {
    let folder = two_releases();
    let scenario = TWO_RELEASES.replace(", proxy: {program: old}", "").replace(", proxy: {program: new}", "");
    fs::write(folder.path().join("one.yaml"), scenario).expect("its own file");
    let mut lines = Vec::new();
    for version in [&[][..], &["--release", "1.33"]] {
        let mut svclab = Command::new(env!("CARGO_BIN_EXE_svclab"));
        svclab.current_dir(folder.path()).args(["rules", "one.yaml", "--diff", "--proxy-command"]);
        let command = format!("{} --config={{config}}", proxy().display());
        let output = svclab.arg(command).args(version).output().expect("svclab starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        lines.push(super::unwrapped(&text));
    }
    assert!(lines[0].contains("note: compared with kube-proxy 1.30; --release chooses another release"), "{lines:?}");
    assert!(!lines[1].contains("note: compared") && lines[1].contains("(kube-proxy 1.33, IPv6)"), "{lines:?}");
}

/// Every report names the program that wrote the rules of each node, and its release.
#[test]
fn reports_name_the_programs() {
    let folder = two_releases();
    let (_, text) = svclab(
        &folder,
        "run -v two.yaml --kube-proxy old=EXAMPLE --kube-proxy new=other --report json=r.json --report junit=r.xml --report html=r.html",
    );
    let old = format!("old={} (1.30.0)", proxy().display());
    let new = format!("new={}/other (1.33.2)", folder.path().display());
    let lines = [format!("rules of node a written by {old}"), format!("rules of node b written by {new}")];
    let file = |name: &str| fs::read_to_string(folder.path().join(name)).expect("a report");
    for line in &lines {
        assert!(text.contains(line), "{text}");
        assert!(file("r.html").contains(line));
    }
    for (node, program) in [("a", &old), ("b", &new)] {
        assert!(file("r.xml").contains(&format!("<property name=\"proxy/{node}\" value=\"{program}\"/>")));
    }
    let json: serde_json::Value = serde_json::from_str(&file("r.json")).expect("JSON");
    let programs = &json["result"]["scenarios"][0]["programs"];
    assert_eq!(programs[0]["command"], proxy().display().to_string().as_str());
    assert_eq!([&programs[0]["release"], &programs[1]["release"]], ["1.30.0", "1.33.2"]);
    assert_eq!([&programs[1]["node"], &programs[1]["name"]], ["b", "new"]);
}

/// Rules that a scenario installs before and after kube-proxy's stay in place when a program writes its rules, rewrites them, and restarts.
#[test]
fn other_rules_stay_before_and_after_those_of_programs() {
    const CHANGED: &str = r#"
  - name: and stay there
    steps:
      - restart: proxy
      - probe: {from: pod/client-1, to: "service/web:80"}
        expect: {dropped: underlay}
      - probe: {from: pod/client-2, to: "service/web:80"}
        expect: {rejected: icmp-port-unreachable}
      - apply: {services: [{name: more, clusterIP: 10.96.0.81, ports: [{port: 80}]}]}
      - probe: {from: pod/client-1, to: "service/more:80"}
        expect: {dropped: underlay}
      - probe: {from: pod/client-2, to: "service/more:80"}
        expect: {rejected: icmp-port-unreachable}
"#;
    let both = include_str!("../../../scenarios/bugs/78994-accept-before-reject.yaml");
    let folder = two_releases();
    fs::write(folder.path().join("order.yaml"), format!("{}{CHANGED}", both.trim_end())).expect("its own file");
    let (output, text) = svclab(&folder, "run order.yaml --kube-proxy EXAMPLE");
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("and stay there"), "{text}");
}
