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

/// A minimized scenario has few rules and few objects: a screenful without the frame of nft's tables and chains.
fn assert_small(scenario: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("small.yaml");
    fs::write(&path, scenario).expect("a file");
    let shown = svclab(&["dump", "show", "--format", "json", &path.to_string_lossy()]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert!(shown["rules"].as_u64().is_some_and(|rules| rules <= 20), "{} rules in\n{scenario}", shown["rules"]);
    let objects = scenario.split("\nrules:\n").next().unwrap_or_default();
    assert!(objects.lines().count() <= 30, "{scenario}");
}

#[rstest]
#[case::mark("scenarios/bugs/113659-mark-bits.yaml", "delivered with the wrong source")]
#[case::stale(
    "scenarios/bugs/70493-stale-endpoints-on-one-node.yaml",
    "delivered to an address that is not a ready endpoint"
)]
#[case::policy("scenarios/bugs/39823-forward-policy-drop.yaml", "by the policy of FORWARD in table filter")]
#[case::nftables("scenarios/bugs/122614-source-ranges-after-dnat.yaml", "delivered instead of dropped")]
fn bugs_stay_what_they_are(#[case] path: &str, #[case] what: &str) {
    let output = svclab(&["dump", "minimize", &repository_path(path).to_string_lossy()]);
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{messages}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("# Minimized from ") && text.contains(what), "{messages}\n{text}");
    assert_small(&text);
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
    assert_small(&small);
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
#[case::masquerade(
    "v1.30-iptables/iptables-save.txt",
    "-A KUBE-POSTROUTING ..-j MASQUERADE",
    "instead of masqueraded",
    &["-A POSTROUTING ", "-A KUBE-SERVICES ", "-j DNAT"]
)]
#[case::mark(
    "v1.30-iptables/iptables-save.txt",
    "-A KUBE-MARK-MASQ ",
    "instead of masqueraded",
    &["-A POSTROUTING ", "-j MASQUERADE", "-j KUBE-MARK-MASQ"]
)]
#[case::jump(
    "v1.30-iptables/iptables-save.txt",
    "-A POSTROUTING ",
    "instead of masqueraded",
    &["-A KUBE-POSTROUTING ", "-j MASQUERADE", "-j DNAT"]
)]
#[case::nftables_masquerade(
    "v1.36-nftables/nft-ruleset.txt",
    "meta mark & ..masquerade",
    "instead of masqueraded",
    &["jump masquerading", "chain masquerading {", "meta mark set meta mark | 0x00004000"]
)]
#[case::nftables_jump(
    "v1.36-nftables/nft-ruleset.txt",
    "jump masquerading",
    "the reply is lost",
    &["chain masquerading {", "masquerade fully-random", "elements = { 10.244.1.10 . 10.244.1.10"]
)]
#[case::nftables_element(
    "v1.36-nftables/nft-ruleset.txt",
    "elements = { 10.244.1.10 . 10.244.1.10",
    "the reply is lost",
    &["set hairpin-connections {", "@hairpin-connections masquerade fully-random", "jump masquerading"]
)]
fn what_a_missing_rule_is_missing_from_is_left(
    #[case] recording: &str,
    #[case] missing: &str,
    #[case] what: &str,
    #[case] left: &[&str],
) {
    let saved = repository_path("rules/tests/golden/nodeport-local").join(recording);
    let saved = fs::read_to_string(saved).expect("a recording");
    let is_missing = |line: &&str| missing.split("..").all(|part| line.contains(part));
    assert!(saved.lines().any(|line| is_missing(&line)), "no {missing}");
    let lacking = saved.lines().filter(|line| !is_missing(line)).map(|line| format!("{line}\n"));
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump.txt");
    fs::write(&dump, lacking.collect::<String>()).expect("a file");
    let output = svclab(&["dump", "minimize", "--no-lab", &dump.to_string_lossy()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(what), "{text}");
    for rule in left {
        assert!(text.contains(rule), "no `{rule}` in\n{text}");
    }
    assert_small(&text);
}

/// Of two connections, the one that leads to an endpoint that is gone is left, and no other that a reduction breaks.
#[test]
fn the_connection_at_fault_is_left() {
    let saved = repository_path("rules/tests/golden/small-cluster/v1.30-iptables/iptables-save.txt");
    let entry = |port: u16, endpoint: &str| {
        format!(
            "udp 17 27 src=10.244.1.50 dst=10.96.0.10 sport={port} dport=53 src={endpoint} dst=10.244.1.50 sport=53 dport={port} [ASSURED] mark=0 use=1\n"
        )
    };
    let saved = fs::read_to_string(saved).expect("a recording");
    let entries = entry(40001, "10.244.2.99") + &entry(40002, "10.244.1.2");
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    fs::write(path("dump.txt"), format!("{saved}\n$ conntrack -L\n{entries}")).expect("a file");
    let imported = svclab(&["dump", "import", "-q", "--connections", &path("dump.txt"), "-o", &path("whole.yaml")]);
    assert_eq!(imported.status.code(), Some(0), "{}", String::from_utf8_lossy(&imported.stderr));
    let output = svclab(&["dump", "minimize", "--no-lab", &path("whole.yaml")]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(":40001") && !text.contains(":40002"), "{text}");
}

/// Packets that an endpoint's chain does not translate are lost without its rule as well: the rule is kept, for it is what is wrong.
#[test]
fn the_translation_at_fault_is_left() {
    let saved = repository_path("rules/tests/golden/nodeport-local/v1.30-iptables/iptables-save.txt");
    let saved = fs::read_to_string(saved).expect("a recording");
    let wrong =
        saved.replace("-p tcp -m comment --comment \"default/web:http\" -m tcp -j DNAT", "-p udp -m udp -j DNAT");
    assert_ne!(wrong, saved);
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump.txt");
    fs::write(&dump, wrong).expect("a file");
    let output = svclab(&["dump", "minimize", "--no-lab", &dump.to_string_lossy()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("-p udp -m udp -j DNAT"), "{text}");
    assert_small(&text);
}

/// A cause is kept with what it acts on: without it, the minimized rules work, and nothing else fails.
#[rstest]
#[case::policy(":FORWARD ACCEPT", ":FORWARD DROP", "by the policy of FORWARD")]
#[case::probability("probability 0.50000000000", "probability 0.33333333349", "do not get their promised shares")]
#[case::stale("10.244.2.10:8080\n", "10.244.2.99:8080\n", "lost on the underlay")]
fn the_minimized_rules_work_without_the_cause(#[case] right: &str, #[case] wrong: &str, #[case] what: &str) {
    let saved = repository_path("rules/tests/golden/nodeport-local/v1.30-iptables/iptables-save.txt");
    let saved = fs::read_to_string(saved).expect("a recording");
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    assert!(saved.contains(right), "no {right}");
    fs::write(path("dump.txt"), saved.replacen(right, wrong, 1)).expect("a file");
    let output = svclab(&["dump", "minimize", "--no-lab", &path("dump.txt"), "-o", &path("small.yaml")]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let small = fs::read_to_string(path("small.yaml")).expect("it is written");
    assert!(small.contains(what) && small.contains("-j DNAT"), "{small}");
    assert_small(&small);
    let verified = svclab(&["verify", "--no-lab", &path("small.yaml")]);
    let verified = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert_eq!(verified.matches("  FAIL  ").count(), 1, "{verified}");
    // Of several endpoints, the first has the share that is wrong for the second.
    let at = small.rfind(wrong.trim_end()).expect("the cause");
    let repaired = small[..at].to_owned() + &small[at..].replace(wrong.trim_end(), right.trim_end());
    fs::write(path("repaired.yaml"), repaired).expect("a file");
    let repaired = svclab(&["verify", "--no-lab", &path("repaired.yaml")]);
    assert_eq!(repaired.status.code(), Some(0), "{small}{}", String::from_utf8_lossy(&repaired.stdout));
}

/// Without a missing rule several flows fail, each in its own way. With it, none of them does in the minimized scenario.
#[test]
fn a_missing_rule_cures_the_minimized_rules() {
    const MARK: &str = "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n";
    let saved = repository_path("rules/tests/golden/small-cluster/v1.30-iptables/iptables-save.txt");
    let saved = fs::read_to_string(saved).expect("a recording");
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    assert!(saved.contains(MARK), "{saved}");
    fs::write(path("dump.txt"), saved.replace(MARK, "")).expect("a file");
    let output = svclab(&["dump", "minimize", "--no-lab", &path("dump.txt"), "-o", &path("small.yaml")]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let small = fs::read_to_string(path("small.yaml")).expect("it is written");
    let end = small.rfind("COMMIT").expect("a table");
    fs::write(path("repaired.yaml"), format!("{}{MARK}        {}", &small[..end], &small[end..])).expect("a file");
    let repaired = svclab(&["verify", "--no-lab", &path("repaired.yaml")]);
    assert_eq!(repaired.status.code(), Some(0), "{small}{}", String::from_utf8_lossy(&repaired.stdout));
}
