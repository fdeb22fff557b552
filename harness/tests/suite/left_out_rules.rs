//! Rules of a dump that are not judged: every command reports them.

use std::path::Path;
use std::process::Command;

use rstest::rstest;

const SAVED: &str = include_str!("../../../rules/tests/golden/nodeport-cluster/v1.32-iptables/iptables-save.txt");
const NFT: &str = include_str!("../../../rules/tests/golden/nodeport-cluster/v1.36-nftables/nft-ruleset.txt");

/// The output of a command for an input, and its exit code.
fn outcome(arguments: &[&str], input: &Path) -> (String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_svclab")).args(arguments).arg(input).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    // Long lines are wrapped.
    (text.split_whitespace().collect::<Vec<_>>().join(" "), output.status.code())
}

fn edited(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

/// A second table `nat` that drops.
fn with_another_set() -> String {
    format!("{SAVED}*nat\n:KUBE-SERVICES - [0:0]\n-I KUBE-SERVICES 1 -d 10.96.0.1/32 -j DROP\nCOMMIT\n")
}

fn with_unread_target() -> String {
    edited(SAVED, "--to-destination 10.244.1.10:8080", "--to-destination 10.244.1.10:8080-8090/8000")
}

fn with_dormant_table() -> String {
    edited(NFT, "table ip kube-proxy {\n", "table ip kube-proxy {\n\tflags dormant\n")
}

fn with_unread_statement() -> String {
    let start = NFT.find("\tchain service-").unwrap();
    format!("{}{}", &NFT[..start], edited(&NFT[start..], "{\n", "{\n\t\tfoobar 3 quux\n"))
}

#[rstest]
#[case::another_set(&with_another_set(), "another rule set")]
#[case::unread_target(&with_unread_target(), "8080-8090/8000` is not a valid")]
#[case::dormant_table(&with_dormant_table(), "the table is dormant")]
#[case::unread_statement(&with_unread_statement(), "`foobar` is not valid nft syntax")]
fn rules_that_are_not_judged_fail_every_command(#[case] text: &str, #[case] named: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.txt");
    std::fs::write(&file, text).unwrap();
    for arguments in [&["verify", "--no-lab"][..], &["cascade"], &["dump", "lint", "--fail-on", "warning"]] {
        let (said, code) = outcome(arguments, &file);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains(named), "{arguments:?}: {said}");
    }
    let (_, code) = outcome(&["verify", "--no-lab", "--allow-unknown"], &file);
    assert_eq!(code, Some(0));
}

#[rstest]
#[case::another_set(SAVED, &with_another_set(), "another rule set")]
#[case::unread_target(SAVED, &with_unread_target(), "8080-8090/8000` is not a valid")]
#[case::unread_statement(NFT, &with_unread_statement(), "`foobar` is not valid nft syntax")]
fn a_comparison_fails_where_rules_are_not_compared(#[case] whole: &str, #[case] text: &str, #[case] named: &str) {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["before.txt", "after.txt"].map(|name| folder.path().join(name));
    std::fs::write(&before, whole).unwrap();
    std::fs::write(&after, text).unwrap();
    let before = before.to_str().unwrap();
    let (said, code) = outcome(&["diff", before], &after);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("not compared: ") && said.contains(named), "{said}");
    let (said, code) = outcome(&["diff", before], Path::new(before));
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_comparison_accepts_rules_of_unknown_effect_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.txt");
    std::fs::write(&file, with_another_set()).unwrap();
    let path = file.to_str().unwrap();
    let (said, code) = outcome(&["diff", path], &file);
    assert_eq!(code, Some(1), "{said}");
    let (said, code) = outcome(&["diff", "--allow-unknown", path], &file);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("another rule set"), "{said}");
}

#[rstest]
#[case::another_set(&with_another_set(), "another rule set")]
#[case::unread_target(&with_unread_target(), "8080-8090/8000` is not a valid")]
#[case::dormant_table(&with_dormant_table(), "the table is dormant")]
fn an_explanation_names_the_rules_that_it_does_not_follow(#[case] text: &str, #[case] named: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.txt");
    std::fs::write(&file, text).unwrap();
    for format in ["text", "mermaid", "svg", "json"] {
        let packet = ["explain", "-q", "--format", format, "--from", "node/node-1", "--to", "10.96.0.1:443"];
        let (said, _) = outcome(&packet, &file);
        assert!(said.contains("unknown") || format == "json" && said.contains("ignoredRules"), "{said}");
        assert!(said.contains(named) || format == "svg", "{format}: {said}");
    }
}

#[test]
fn rules_of_the_other_backend_are_not_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("iptables-nft.txt"), SAVED).unwrap();
    std::fs::write(folder.path().join("iptables-legacy.txt"), with_unread_target()).unwrap();
    let (said, code) = outcome(&["verify", "--no-lab"], folder.path());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("it runs both backends"), "{said}");
    assert!(said.contains("3 nodes"), "both are rules of one node: {said}");
}

#[test]
fn a_rule_that_the_kernel_rejects_is_not_left_out_in_silence() {
    let chain = "-A KUBE-SEP-GWQABTP5GBYXHJY5 ";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.txt");
    std::fs::write(&file, edited(SAVED, chain, &format!("-A KUBE-SVC-CDGGSHYLG3RE2FKL -j CT --notrack\n{chain}")))
        .unwrap();
    let (said, code) = outcome(&["verify", "--no-lab"], &file);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("left out, for the kernel rejects it: NOTRACK is not allowed"), "{said}");
    for arguments in [&["cascade"][..], &["cascade", "--service", "web"], &["dump", "lint"]] {
        let (said, code) = outcome(arguments, &file);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        let why = "table nat, chain KUBE-SVC-CDGGSHYLG3RE2FKL, rule 1: NOTRACK is not allowed";
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
}

const TABLE: &str = "$ kubectl get svc -A
NAMESPACE   NAME         TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE
default     kubernetes   ClusterIP   10.96.0.1    <none>        443/TCP   2d
$ kubectl get nodes
NAME   STATUS   ROLES    AGE   VERSION
n1     Ready    <none>   12d   v1.27.3
";

/// Rules of the IPVS mode, as kube-proxy writes them.
const OF_IPVS: &str = r#"*nat
:KUBE-SERVICES - [0:0]
-A KUBE-SERVICES ! -s 10.233.64.0/18 -m comment --comment "Kubernetes service cluster ip + port for masquerade purpose" -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ
-A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT
COMMIT
"#;

/// Rules that show no Service are named where objects alone show some, and so is what objects do not say.
#[rstest]
#[case::other_program("$ iptables-save\n-A FORWARD -d 10.96.0.1/32 -j DROP\n", "show no Service, and are not used")]
#[case::without_heading(
    "$ nft list ruleset | grep 10.96\n\t\tip saddr 10.96.0.1 counter packets 0 bytes 0 jump KUBE-MARK-MASQ\n",
    "the heading of its chain is not shown"
)]
#[case::of_ipvs(OF_IPVS, "those of kube-proxy's IPVS mode, which is not supported")]
fn rules_without_services_are_named_among_objects(#[case] rules: &str, #[case] named: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("issue.md");
    std::fs::write(&file, format!("{TABLE}{rules}")).unwrap();
    let (said, code) = outcome(&["dump", "import", "-v", "-o", "/dev/null"], &file);
    assert_eq!(code, Some(0), "{said}");
    let assumed = ["addresses of nodes: n1 172.18.0.2", "kube-proxy 1.27.3, which the text names, in iptables mode"];
    assert!(said.contains(named) && assumed.iter().all(|words| said.contains(words)), "{said}");
}

#[test]
fn rules_of_another_mode_are_not_supported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.txt");
    std::fs::write(&file, OF_IPVS).unwrap();
    let (said, code) = outcome(&["dump", "import", "-o", "/dev/null"], &file);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("kube-proxy's IPVS mode, which is not supported") && !said.contains("as root"), "{said}");
    let (said, _) = outcome(&["dump", "lint"], &file);
    assert!(said.contains("other-mode"), "{said}");
}

/// Rules that show no Service are those of a cluster without one that kube-proxy serves. A whole table lacks the others.
#[rstest]
fn whole_rules_without_services_are_verified(
    #[values("iptables/iptables-save", "nftables/nft-ruleset")] mode: &str,
    #[values(false, true)] is_lost: bool,
) {
    let read = |path: String| std::fs::read_to_string(format!("../rules/tests/golden/{path}")).unwrap();
    let objects = read(format!("{}/cluster.yaml", if is_lost { "clusterip-one-endpoint" } else { "headless" }));
    let rules = read(format!("headless/v1.32-{mode}.txt"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("issue.md");
    std::fs::write(&file, format!("```yaml\n{objects}```\n```\n{rules}```\n")).unwrap();
    let (said, code) = outcome(&["verify", "--no-lab"], &file);
    assert!(!said.contains("are not used"), "{said}");
    assert_eq!(code, Some(i32::from(is_lost)), "{said}");
}
