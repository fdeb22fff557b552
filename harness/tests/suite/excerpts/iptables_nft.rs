//! Tables of iptables-nft as `nft list ruleset` prints them.

use std::io::Write;
use std::process::{Command, Stdio};

use rstest::rstest;
use svclab::evidence::{self, node_rules};

use super::{failures, golden, grave, imported, without};
use crate::assumptions;

/// What nft prints of saved rules.
fn listed(saved: &str) -> String {
    let mut child = Command::new("unshare")
        .args(["-n", "sh", "-c", "iptables-nft-restore && nft list ruleset"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a namespace");
    child.stdin.take().expect("its input").write_all(saved.as_bytes()).expect("all is read");
    let output = child.wait_with_output().expect("its output");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("a text")
}

fn of(recording: &str) -> String {
    listed(&golden(&format!("{recording}-iptables/iptables-save.txt")))
}

/// The rules without comments, counters, and what nft leaves out of a match without options.
fn rules(text: &str) -> Vec<String> {
    let sets = node_rules(&evidence::read(text));
    let print = |rules: &str| {
        let lines = rules.lines().filter(|line| line.contains("-A "));
        let plain = lines.map(|line| {
            let line = line.split_once("] ").map_or(line, |(_, rest)| rest);
            let (before, after) = match line.split_once(" -m comment --comment \"") {
                Some((before, rest)) => (before, rest.split_once('"').map_or("", |(_, after)| after)),
                None => (line, ""),
            };
            format!("{before}{after}")
        });
        plain.collect::<Vec<String>>()
    };
    let mut all: Vec<String> = sets.iter().flat_map(|set| print(&set.rules.print())).collect();
    all.sort();
    all
}

/// What is read of nft's text are the rules that iptables-save prints. Healthy rules are healthy, whatever the text does not say. The recordings have what nft prints in its own words, or not at all.
#[rstest]
fn recordings_are_read_as_iptables_save_prints_them(
    #[values(
        "small-cluster/v1.21",
        "small-cluster/v1.30",
        "loadbalancer-source-ranges/v1.30",
        "config-masquerade-all/v1.30",
        "affinity-clientip/v1.25",
        "internal-local/v1.30",
        "external-ips-local/v1.25",
        "clusterip-multi-port/v1.30",
        "clusterip-sctp/v1.25"
    )]
    recording: &str,
) {
    let saved = golden(&format!("{recording}-iptables/iptables-save.txt"));
    let text = listed(&saved);
    let unread = evidence::read(&text).unread;
    assert_eq!(unread, Vec::new());
    let (expected, found) = (rules(&saved), rules(&text));
    assert_eq!(found, expected);
    // What nft does not print is as kube-proxy writes it, and the import says so.
    let hidden = ["--ctstate RELATED,ESTABLISHED,DNAT", "-m recent", "-m sctp -j DNAT"];
    let is_hidden = |rule: &String| hidden.iter().any(|one| rule.contains(one));
    let is_said = assumptions(&imported(&text)).iter().any(|words| words.contains("which nft does not print"));
    assert_eq!(is_said, expected.iter().any(is_hidden));
    assert_healthy(recording);
}

/// Without comments, nothing says what kind of address one is, and which Service without endpoints has a port on nodes.
#[rstest]
fn what_no_comment_says_is_no_defect(
    #[values(
        "nodeport-local/v1.21",
        "external-ips/v1.21",
        "loadbalancer-no-endpoints/v1.25",
        "nodeport-no-endpoints/v1.18"
    )]
    recording: &str,
) {
    assert_healthy(recording);
}

/// Rules that were not read may differ in anything.
#[test]
fn rules_that_are_not_read_are_no_copies() {
    let text = of("external-ips/v1.18");
    let grave = grave(&text);
    assert!(!grave.is_empty() && grave.iter().all(|words| words.starts_with("rules-not-read")), "{grave:#?}");
    let jump = " counter packets 0 bytes 0 jump KUBE-POSTROUTING\n";
    let copied = text.replacen(jump, &format!("{jump}\t\t{jump}"), 1);
    assert!(super::grave(&copied).iter().any(|words| words.starts_with("duplicate-rules")));
}

fn assert_healthy(recording: &str) {
    let text = of(recording);
    let assumed = imported(&text);
    assert_eq!(failures(&assumed), Vec::<String>::new(), "{}", assumptions(&assumed).join("\n"));
    assert_eq!(grave(&text), Vec::<String>::new());
}

/// A rule that is missing in a chain that is shown is missing on the node.
#[rstest]
#[case::translation("dnat to 10.244.2.30:8080")]
#[case::share("jump KUBE-SEP-I3QQSNVTBILNVTW5")]
#[case::services("tcp ip daddr 10.96.44.31  tcp dport 8080 ")]
#[case::hook("jump KUBE-SERVICES")]
#[case::masquerade("masquerade fully-random")]
fn what_is_missing_is_found(#[case] lost: &str) {
    let text = of("small-cluster/v1.30");
    assert!(text.contains(lost));
    let left = without(&text, |line| line.contains(lost));
    assert_ne!(failures(&imported(&left)), Vec::<String>::new());
}

/// nft does not print the options of a match that it only names: with any, the rule is another one.
#[test]
fn a_named_match_is_bare_only_where_an_endpoint_of_its_protocol_is_translated() {
    let text = of("clusterip-sctp/v1.25");
    for (from, to) in
        [("l4proto sctp  xt match sctp", "l4proto tcp  xt match sctp"), ("  sctp dport 3868", "  xt match sctp")]
    {
        let other = text.replace(from, to);
        assert_ne!(other, text);
        assert_ne!(evidence::read(&other).unread, Vec::new(), "{to}");
    }
}

/// A text that is cut, a chain by itself, and what a filter leaves are excerpts.
#[rstest]
#[case::head(|text: &str| text.lines().take(200).map(|line| format!("{line}\n")).collect())]
#[case::tail(|text: &str| text.lines().skip(230).map(|line| format!("{line}\n")).collect())]
#[case::picked(|text: &str| without(text, |line| !line.contains("KUBE-SEP-")))]
#[case::without_ends(|text: &str| without(text, |line| line.trim() == "}"))]
#[case::chain(|text: &str| {
    let start = text.find("\tchain KUBE-SVC-").expect("a chain");
    let end = start + text[start..].find("\n\t}\n").expect("its end") + 4;
    format!("table ip nat {{\n{}}}\n", &text[start..end])
})]
fn what_a_cut_explains_is_no_failure(#[case] cut: fn(&str) -> String) {
    let text = cut(&of("small-cluster/v1.30"));
    let bad: Vec<String> = grave(&text).into_iter().filter(|words| !words.starts_with("rules-not-read")).collect();
    assert_eq!(bad, Vec::<String>::new(), "{text}");
    if let Ok(assumed) = svclab::infer::from_evidence(
        &evidence::read(&text),
        std::path::Path::new("dump"),
        &[],
        svclab::infer::Connections::LeftOut,
    ) {
        assert_eq!(failures(&assumed), Vec::<String>::new(), "{text}{}", assumptions(&assumed).join("\n"));
    }
}

/// A collected node has the same rules twice: as iptables prints them, and as nft does.
#[test]
fn what_nft_prints_of_rules_of_the_same_folder_is_no_other_rule_set() {
    let saved = golden("affinity-clientip/v1.25-iptables/iptables-save.txt");
    let mut all = evidence::Evidence::default();
    all.add("vm/iptables-nft.txt", evidence::read(&saved));
    all.add("vm/nft.txt", evidence::read(&listed(&saved)));
    assert_eq!(node_rules(&all).len(), 1);
    let dump = std::path::Path::new("vm");
    let assumed = svclab::infer::from_evidence(&all, dump, &[], svclab::infer::Connections::LeftOut)
        .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(failures(&assumed), Vec::<String>::new());
    assert!(assumptions(&assumed).iter().any(|note| note.contains("vm/nft.txt are those of vm/iptables-nft.txt")));
    let ids: Vec<&str> = svclab::lint::lint(&all).iter().map(|finding| finding.id).collect();
    assert!(!ids.contains(&"rules-not-read"), "{ids:?}");
    // Another folder is another node.
    let mut two = evidence::Evidence::default();
    two.add("a/iptables-nft.txt", evidence::read(&saved));
    two.add("b/nft.txt", evidence::read(&listed(&saved)));
    assert_eq!(node_rules(&two).len(), 2);
}
