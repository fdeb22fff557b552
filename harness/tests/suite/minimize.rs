//! `svclab dump minimize`: the result shows the same failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rstest::rstest;

fn svclab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_svclab")).args(arguments).output().expect("svclab starts")
}

fn repository_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

#[rstest]
#[case::mark("scenarios/bugs/113659-mark-bits.yaml", "delivered with the wrong source")]
#[case::stale(
    "scenarios/bugs/70493-stale-endpoints-on-one-node.yaml",
    "delivered to an address that is not a ready endpoint"
)]
#[case::policy("scenarios/bugs/39823-forward-policy-drop.yaml", "by the policy of FORWARD in table filter")]
#[case::nftables("scenarios/bugs/122614-source-ranges-after-dnat.yaml", "delivered elsewhere")]
fn bugs_stay_what_they_are(#[case] path: &str, #[case] what: &str) {
    let output = svclab(&["dump", "minimize", &repository_path(path).to_string_lossy()]);
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{messages}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("# Minimized from ") && text.contains(what), "{messages}\n{text}");
    // nft writes a chain on at least three lines.
    let most = if text.contains("table ip kube-proxy") { 80 } else { 60 };
    assert!(text.lines().count() <= most, "{text}");
}

/// A cluster with many services on three nodes, whose rules send one of them to a wrong endpoint.
#[rstest]
#[case::iptables("iptables")]
#[case::nftables("nftables")]
fn one_service_of_many_is_left(#[case] mode: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut scenario = String::from("name: many services\nnodes:\n");
    (1..=3).for_each(|node| scenario += &format!("  - {{name: node-{node}}}\n"));
    scenario += "pods:\n";
    (0..40).for_each(|pod| {
        scenario += &format!("  - {{name: web-{pod}, node: node-{}, labels: {{app: a{pod}}}}}\n", pod % 3 + 1)
    });
    scenario += "services:\n";
    (0..40).for_each(|service| {
        scenario += &format!(
            "  - {{name: web-{service}, selector: {{app: a{service}}}, ports: [{{port: 80, targetPort: 8080}}]}}\n"
        )
    });
    let plain = folder.path().join("plain.yaml");
    fs::write(&plain, format!("{scenario}cluster: {{proxy: {{mode: {mode}}}}}\n")).expect("a file");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let rules = svclab(&["rules", &path("plain.yaml"), "--node", "node-2"]);
    let text = String::from_utf8(rules.stdout).expect("text");
    let wrong = text.replace(":8080", ":8081").replacen(":8081", ":8080", 39).replace("8080 . 39", "8081 . 39");
    fs::write(folder.path().join("rules.txt"), wrong).expect("a file");
    scenario +=
        &format!("cluster: {{proxy: {{mode: {mode}}}}}\nrules: {{node-2: {{file: rules.txt, install: instead}}}}\n");
    fs::write(folder.path().join("many.yaml"), scenario).expect("a file");
    let output = svclab(&["dump", "minimize", &path("many.yaml"), "--no-lab", "-o", &path("small.yaml")]);
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{messages}");
    let small = fs::read_to_string(path("small.yaml")).expect("it is written");
    assert!(messages.contains("reduced to 1 service, 1 endpoint"), "{messages}\n{small}");
    assert!(small.lines().count() < 50, "{small}");
    assert_eq!(svclab(&["verify", "--no-lab", &path("small.yaml")]).status.code(), Some(1), "{small}");
}

#[test]
fn what_does_not_fail_is_reported() {
    let output = svclab(&[
        "dump",
        "minimize",
        "--no-lab",
        &repository_path("scenarios/seeds/001-kind-clusterip.yaml").to_string_lossy(),
    ]);
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), b"".as_slice()), "{messages}");
    assert!(messages.contains("no flow fails") && messages.contains("help:"), "{messages}");
}

/// The rule that leads to an endpoint that is gone is the cause: without any rules the packets are lost in the same way.
#[test]
fn the_rule_at_fault_is_left() {
    let saved = repository_path("rules/tests/golden/nodeport-local/v1.25-iptables/iptables-save.txt");
    let table = "NAMESPACE  NAME  ENDPOINTS                                            AGE\n\
                 default    web   10.244.1.10:8080,10.244.2.10:8080,10.244.3.11:8080   1d\n\n";
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump.txt");
    fs::write(&dump, table.to_owned() + &fs::read_to_string(saved).expect("a recording")).expect("a file");
    let output = svclab(&["dump", "minimize", "--no-lab", &dump.to_string_lossy()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("-j DNAT --to-destination 10.244.3.10:8080"), "{text}");
    assert!(!text.contains("-j DNAT --to-destination 10.244.2.10:8080"), "{text}");
}

/// A failure by a missing rule is shown by those that would be with it: the chain that lacks it, what leads there, and what it is about.
#[rstest]
#[case::masquerade("-A KUBE-POSTROUTING ..-j MASQUERADE", &["-A POSTROUTING ", "-A KUBE-POSTROUTING -j MARK --", "-j KUBE-MARK-MASQ", "-A KUBE-MARK-MASQ "])]
#[case::mark("-A KUBE-MARK-MASQ ", &["-A POSTROUTING ", "-j MASQUERADE", "-j KUBE-MARK-MASQ"])]
#[case::jump("-A POSTROUTING ", &["-A KUBE-POSTROUTING ", "-j MASQUERADE", "-j KUBE-MARK-MASQ"])]
fn what_a_missing_rule_is_missing_from_is_left(#[case] missing: &str, #[case] left: &[&str]) {
    let saved = repository_path("rules/tests/golden/nodeport-local/v1.30-iptables/iptables-save.txt");
    let saved = fs::read_to_string(saved).expect("a recording");
    let is_missing = |line: &&str| missing.split("..").all(|part| line.contains(part));
    let lacking = saved.lines().filter(|line| !is_missing(line)).map(|line| format!("{line}\n"));
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump.txt");
    fs::write(&dump, lacking.collect::<String>()).expect("a file");
    let output = svclab(&["dump", "minimize", "--no-lab", &dump.to_string_lossy()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("instead of masqueraded"), "{text}");
    for rule in left {
        assert!(text.contains(rule), "no `{rule}` in\n{text}");
    }
    assert!(text.lines().count() < 60, "{text}");
}
