//! `svclab explain`: the path of one packet as text, JSON, flowchart and SVG, and compared with the kernel's.

use std::path::Path;
use std::process::Command;

use rstest::rstest;
use svclab::Backend;
use svclab::explain::{Explanation, OutcomeKind, explain, explain_live, mermaid, page, svg};
use svclab::infer::{AdHocProbe, load_with_ad_hoc_probe};
use svclab::page::{Detail, Settings};
use svclab::testing;

fn probe(from: &str, to: &str) -> AdHocProbe {
    AdHocProbe { from: from.to_owned(), to: to.to_owned(), ..AdHocProbe::default() }
}

fn explained(file: &str, probe: &AdHocProbe) -> Explanation {
    let path = Path::new("../scenarios").join(file);
    let ad_hoc = load_with_ad_hoc_probe(&path, probe).unwrap_or_else(|errors| panic!("{errors}"));
    explain(&ad_hoc, probe.step, 1).expect("rules that can be walked")
}

/// The three paths of a service with three endpoints, one of them rule by rule.
#[test]
fn a_service_with_three_endpoints() {
    let explanation = explained("distribution/three.yaml", &probe("pod/client", "service/web:80"));
    insta::assert_snapshot!("three_text", page(&explanation, Settings::default(), 2));
    insta::assert_snapshot!("three_mermaid", mermaid(&explanation));
}

/// The same with nftables: maps, and one random number that chooses among chains.
#[test]
fn a_service_in_nftables_mode() {
    let explanation = explained("nftables/balance.yaml", &probe("pod/client", "service/web:80"));
    insta::assert_snapshot!("nftables_text", page(&explanation, Settings::default(), 2));
    insta::assert_snapshot!("nftables_mermaid", mermaid(&explanation));
}

/// A node port: masquerade in the original direction, both translations undone in the reply direction.
#[test]
fn a_node_port() {
    let probe = probe("host/outside", "nodeport/web:80@worker2");
    let explanation = explained("bugs/39823-forward-policy-drop.yaml", &probe);
    insta::assert_snapshot!(
        "node_port_text",
        page(&explanation, Settings { detail: Detail::Quiet, ..Settings::default() }, 1)
    );
}

/// The end of a packet's path determines the outcome: a policy, a rule, a closed port.
#[rstest]
#[case::policy(
    "bugs/39823-forward-policy-drop.yaml",
    "pod/client",
    "service/web:80",
    OutcomeKind::Dropped,
    "by the policy of FORWARD"
)]
#[case::no_endpoint("no-endpoints/reject.yaml", "pod/client", "service/web:80", OutcomeKind::Rejected, "-j REJECT")]
#[case::nftables(
    "nftables/no-endpoints.yaml",
    "pod/client",
    "service/web:http",
    OutcomeKind::Rejected,
    "by table kube-proxy: reject-chain reject"
)]
fn the_end_is_reported(
    #[case] file: &str,
    #[case] from: &str,
    #[case] to: &str,
    #[case] outcome_kind: OutcomeKind,
    #[case] words: &str,
) {
    let explanation = explained(file, &probe(from, to));
    let path = &explanation.paths[0];
    assert_eq!(path.outcome_kind, outcome_kind, "{path:?}");
    assert!(path.outcome.contains(words), "{path:?}");
    let last = path.original.last().expect("a hook on the path");
    assert!(last.next.contains(words), "{last:?}");
}

#[test]
fn values_have_a_stable_form() {
    let explanation = explained("distribution/three.yaml", &probe("pod/client", "service/web:80"));
    let json = serde_json::to_value(&explanation).expect("values");
    assert_eq!(json["packet"]["protocol"], "tcp");
    let paths = json["paths"].as_array().expect("paths");
    assert_eq!(paths.len(), 3);
    let shares: f64 = paths.iter().filter_map(|path| path["share"]["number"].as_f64()).sum();
    assert!((shares - 1.0).abs() < 1e-12, "{shares}");
    for path in paths {
        assert_eq!(path["outcomeKind"], "delivered");
        let first = &path["original"][0];
        assert_eq!((&first["place"], &first["hook"]), (&"node/worker".into(), &"PREROUTING".into()));
        assert_eq!(first["changes"][0]["what"], "destination");
        let rules = first["rules"].as_array().expect("rules");
        assert!(rules.iter().any(|rule| rule["text"].as_str().is_some_and(|text| text.contains("-j DNAT"))), "{first}");
        assert!(rules.iter().all(|rule| rule["number"].as_u64() <= rule["chainLength"].as_u64()), "{first}");
        assert!(path["reply"].as_array().is_some_and(|reply| !reply.is_empty()));
    }
}

/// Rules of other services are counted, not listed.
#[test]
fn rules_of_others_are_counted() {
    let explanation = explained("distribution/two-hundred.yaml", &probe("pod/client", "service/web:80"));
    assert_eq!(explanation.paths.len(), 200);
    let page = page(&explanation, Settings::default(), 1);
    assert!(page.lines().count() < 420, "{page}");
}

/// An SVG is self-contained: it loads nothing, and its texts are escaped.
#[test]
fn a_picture_stands_alone() {
    let explanation = explained("distribution/three.yaml", &probe("pod/client", "service/web:80"));
    let picture = svg(&explanation, 1);
    assert!(picture.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 "), "{picture}");
    assert!(picture.contains("pod/client &gt; service/web:80 tcp"), "{picture}");
    assert!(!picture.contains("href") && !picture.contains("<script"), "{picture}");
    assert_eq!(picture.matches("<text").count(), picture.matches("</text>").count());
}

#[rstest]
#[case::sender(&["--from", "pod/missing", "--to", "service/web:80"], "there is no pod `missing`")]
#[case::destination(&["--from", "pod/client", "--to", "service/wep:80"], "Did you mean `web`?")]
#[case::protocol(&["--from", "pod/client", "--to", "service/web:80", "--protocol", "tpc"], "invalid protocol `tpc`")]
#[case::family(&["--from", "pod/client", "--to", "service/web:80", "--family", "ipv6"], "have no IPv6 address")]
#[case::step(&["--from", "pod/client", "--to", "service/web:80", "--step", "9"], "`--step 9` is out of range: the scenario has no step that changes")]
fn errors_of_arguments_are_reported_like_those_of_a_scenario(#[case] arguments: &[&str], #[case] printed: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_svclab"))
        .args(["explain", "../scenarios/distribution/three.yaml"])
        .args(arguments)
        .output()
        .expect("svclab starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains(printed), "{stderr}");
}

/// The error points at the number, not at another argument.
#[test]
fn a_step_that_is_too_late_names_the_option_and_the_number_of_steps() {
    let output = Command::new(env!("CARGO_BIN_EXE_svclab"))
        .args([
            "explain",
            "../scenarios/updates/stopped-proxy.yaml",
            "--from",
            "pod/client-1",
            "--to",
            "service/web:http",
        ])
        .args(["--step", "99", "--color", "never"])
        .output()
        .expect("svclab starts");
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!("step_out_of_range", String::from_utf8_lossy(&output.stderr));
}

/// A node with a stopped kube-proxy is named from the change that stops it to the one that starts it.
#[rstest]
#[case::at_the_start(0, None)]
#[case::stopped(
    1,
    Some("kube-proxy on node worker is stopped since change 1: its rules are those from before that change")
)]
#[case::later(
    3,
    Some("kube-proxy on node worker is stopped since change 1: its rules are those from before that change")
)]
#[case::started(4, None)]
fn stale_rules_are_named(#[case] step: usize, #[case] expected: Option<&str>) {
    let asked = AdHocProbe { step, ..probe("pod/client-1", "service/web:http") };
    let explanation = explained("updates/stopped-proxy.yaml", &asked);
    let words: Vec<String> = explanation.stopped.iter().map(ToString::to_string).collect();
    assert_eq!(words, Vec::from_iter(expected.map(str::to_owned)));
    let forms = [page(&explanation, Settings::default(), 1), mermaid(&explanation), svg(&explanation, 1)];
    for form in forms {
        assert_eq!(form.contains("stale"), expected.is_some(), "{form}");
        assert!(expected.is_none_or(|words| form.contains(words)), "{form}");
    }
    let place = if step == 4 { "10.244.2.4:8080" } else { "10.244.2.3:8080" };
    assert!(explanation.paths[0].outcome.contains(place), "{:?}", explanation.paths[0].outcome);
}

/// The same for rules of nftables.
#[rstest]
#[case::cluster_ip("nftables/balance.yaml", "pod/client", "service/web:80")]
#[case::chance_in_a_rule("nftables/destinations-in-a-map.yaml", "pod/client", "service/web:http")]
#[case::node_port("nftables/node-port.yaml", "host/outside", "nodeport/web:80@worker")]
#[case::process("nftables/balance.yaml", "node/worker2", "service/web:80")]
#[case::rejected("nftables/no-endpoints.yaml", "pod/client", "service/web:http")]
#[case::affinity("nftables/affinity.yaml", "pod/client", "service/web:80")]
fn the_kernel_takes_the_predicted_path_through_nftables(#[case] file: &str, #[case] from: &str, #[case] to: &str) {
    goes_the_predicted_way(file, &probe(from, to), Backend::Nft);
}

/// The kernel matches the predicted rules, one after the other, whoever loaded them.
#[rstest]
#[case::cluster_ip("distribution/three.yaml", "pod/client", "service/web:80")]
#[case::node_port("bugs/39823-forward-policy-drop.yaml", "host/outside", "nodeport/web:80@worker")]
#[case::policy("bugs/39823-forward-policy-drop.yaml", "pod/client", "service/web:80")]
#[case::process("bugs/39823-forward-policy-drop.yaml", "node/worker2", "service/web:80")]
#[case::rejected("no-endpoints/reject.yaml", "pod/client", "service/web:80")]
#[case::own_closed_port("distribution/three.yaml", "node/worker", "172.18.0.2:9999")]
#[case::closed_port("distribution/three.yaml", "pod/client", "172.18.0.2:9999")]
#[case::udp("distribution/seven.yaml", "pod/client", "service/web:quic")]
#[case::alongside_nftables("other-rules/alongside-nftables.yaml", "pod/client", "service/web:80")]
#[case::policy_alongside_nftables("other-rules/alongside-nftables.yaml", "pod/client3", "service/web:80")]
#[case::bridge_and_tunnel("seeds/002-k3s-klipper-lb.yaml", "pod/client", "service/traefik-ns/traefik:80")]
fn the_kernel_takes_the_predicted_path(
    #[case] file: &str,
    #[case] from: &str,
    #[case] to: &str,
    #[values(Backend::Nft, Backend::Legacy)] backend: Backend,
) {
    goes_the_predicted_way(file, &probe(from, to), backend);
}

fn goes_the_predicted_way(file: &str, probe: &AdHocProbe, backend: Backend) {
    testing::privileged(|| {
        let path = Path::new("../scenarios").join(file);
        let ad_hoc = load_with_ad_hoc_probe(&path, probe).unwrap_or_else(|errors| panic!("{errors}"));
        let explanation = explain_live(&ad_hoc, 0, backend, None).unwrap_or_else(|error| panic!("{error}"));
        let page = page(&explanation, Settings::default(), 1);
        let kernel = explanation.kernel.as_ref().expect("a packet was sent");
        assert!(kernel.agrees(), "{page}");
        assert!(kernel.as_predicted > 0 && kernel.as_predicted == kernel.matched, "{page}");
    });
}

/// An error quotes what was typed, and nothing else.
#[test]
fn an_error_quotes_no_step_that_was_not_given() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    command.args(["explain", "../scenarios/distribution/three.yaml", "--from", "pod/client", "--to", "service/wbe:80"]);
    let output = command.output().expect("svclab starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("service/wbe:80") && !errors.contains("step"), "{errors}");
}

/// A missing rule is on no path: it is named by comparison with those that kube-proxy writes.
#[test]
fn a_missing_rule_is_named() {
    let text = std::fs::read_to_string("../rules/tests/golden/nodeport-local/v1.30-iptables/iptables-save.txt");
    let text = text.expect("a recording");
    let lacking: String =
        text.lines().filter(|line| !line.contains("NOTE: this must be")).map(|line| format!("{line}\n")).collect();
    let explained = |rules: &str| {
        let evidence = svclab::evidence::read(rules);
        let assumed = svclab::infer::from_evidence(&evidence, Path::new("x"), &[], svclab::infer::Connections::LeftOut);
        let text = svclab::scenario::print(&assumed.expect("a cluster").scenario, &[], &[]);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.yaml");
        std::fs::write(&path, text).expect("a file");
        let ad_hoc = load_with_ad_hoc_probe(&path, &probe("host/outside", "nodeport/web:http@node-1"));
        explain(&ad_hoc.unwrap_or_else(|errors| panic!("{errors}")), 0, 1).expect("rules that can be walked")
    };
    assert_eq!(explained(&text).rule_differences, Vec::<String>::new());
    // The page wraps lines.
    let page = page(&explained(&lacking), Settings::default(), 1).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        page.contains("rule `-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS` is missing"),
        "{page}"
    );
}

/// The chain of an endpoint whose translation is for another protocol is shown: it is why the packet is lost.
#[test]
fn a_translation_that_does_not_match_is_shown() {
    let text =
        std::fs::read_to_string("../rules/tests/golden/clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
    let text = text.expect("a recording");
    let of_udp = |line: &str| {
        let own = if line.contains("-j DNAT") { line.replace(" tcp ", " udp ") } else { line.to_owned() };
        own + "\n"
    };
    let evidence = svclab::evidence::read(&text.lines().map(of_udp).collect::<String>());
    let assumed = svclab::infer::from_evidence(&evidence, Path::new("x"), &[], svclab::infer::Connections::LeftOut);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.yaml");
    std::fs::write(&path, svclab::scenario::print(&assumed.expect("a cluster").scenario, &[], &[])).expect("a file");
    let ad_hoc = load_with_ad_hoc_probe(&path, &probe("pod/client-of-node-1", "service/web:80"));
    let explanation = explain(&ad_hoc.unwrap_or_else(|errors| panic!("{errors}")), 0, 1).expect("rules to be walked");
    let page = page(&explanation, Settings::default(), 1).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("matches the packet; the last is `-A KUBE-SEP-"), "{page}");
    assert!(page.contains("-p udp") && page.contains("-j DNAT --to-destination 10.244."), "{page}");
    assert_eq!(page.matches("the same outcome, by other rules").count(), 3, "{page}");
}

/// An entry that the conntrack table has from the start is named where it translates.
#[test]
fn a_conntrack_entry_is_named() {
    let probe = AdHocProbe { source_port: Some(40000), ..probe("pod/client", "service/dns:udp") };
    let explanation = explained("updates/restored-connections.yaml", &probe);
    let first = explanation.paths[0].original[0].connection.as_deref();
    let expected = "conntrack entry src=10.244.1.2 dst=10.96.0.10 sport=40000 dport=53 src=10.244.2.9 dst=10.244.1.2 sport=53 dport=40000: ";
    assert!(first.is_some_and(|words| words.starts_with(expected)), "{first:?}");
}

/// A rule's line is that of the dump, not of the scenario that is made from it.
#[test]
fn lines_of_rules_are_those_of_the_dump() {
    let saved = "../rules/tests/golden/nodeport-local/v1.30-iptables/iptables-save.txt";
    let saved = std::fs::read_to_string(saved).expect("a recording");
    let (right, wrong) = ("probability 0.50000000000", "probability 0.33333333349");
    let text = format!("uneven\n\n{}", saved.replace(right, wrong));
    let number = 1 + saved.lines().position(|line| line.contains(right)).expect("the rule") + 2;
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump.txt").to_string_lossy().into_owned();
    std::fs::write(&dump, text).expect("a file");
    let from = ["explain", &dump, "--from", "node/node-1", "--to", "service/web:80"];
    for arguments in [&["verify", "--no-lab", &dump][..], &from] {
        let output = Command::new(env!("CARGO_BIN_EXE_svclab")).args(arguments).output().expect("svclab starts");
        let page = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(page.contains(&format!("(line {number})")), "no line {number}: {page}{error}");
    }
}
