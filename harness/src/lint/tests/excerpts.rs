//! Parts of rules: chains that a part shows whole, and outputs that someone shortened.

use super::*;

/// Lines of a service in the form of a filter's output, and chains that a listing shows whole.
const EXCERPT: &str = "\
$ sudo iptables-save | grep KUBE-SVC-RUKNB3TURLFC6SGL
:KUBE-SVC-RUKNB3TURLFC6SGL - [0:0]
-A KUBE-SERVICES -d 10.96.77.12/32 -p tcp -m comment --comment \"shop/api:http cluster IP\" -m tcp --dport 80 -j KUBE-SVC-RUKNB3TURLFC6SGL
-A KUBE-SVC-RUKNB3TURLFC6SGL ! -s 10.42.0.0/16 -d 10.96.77.12/32 -p tcp -m comment --comment \"shop/api:http cluster IP\" -m tcp --dport 80 -j KUBE-MARK-MASQ
-A KUBE-SVC-RUKNB3TURLFC6SGL -m comment --comment \"shop/api:http -> 10.42.0.21:8080\" -j KUBE-SEP-OMTEPJMVLX67WSYN
";

/// What a listing shows of a chain is all of it, also in an excerpt.
#[rstest]
#[case::forward(
    "filter",
    "FORWARD (policy DROP)",
    "ACCEPT all -- 0.0.0.0/0 0.0.0.0/0 ctstate RELATED,ESTABLISHED",
    "missing-jump"
)]
#[case::masquerade(
    "nat",
    "KUBE-POSTROUTING (1 references)",
    "RETURN all -- 0.0.0.0/0 0.0.0.0/0 mark match ! 0x4000/0x4000\nMARK all -- 0.0.0.0/0 0.0.0.0/0 MARK xor 0x4000",
    "missing-rule"
)]
fn chains_of_an_excerpt_that_are_whole_are_judged(
    #[case] table: &str,
    #[case] chain: &str,
    #[case] rules: &str,
    #[case] expected: &str,
) {
    let name = chain.split(' ').next().unwrap();
    let listing = |rules: &str| {
        format!(
            "$ iptables -t {table} -nL {name}\nChain {chain}\ntarget     prot opt source               destination\n{rules}\n{EXCERPT}"
        )
    };
    assert!(ids(&listing(rules)).contains(&expected), "{:?}", lint(&read(&listing(rules))));
    assert!(!ids(EXCERPT).contains(&expected));
    // Text that was cut may have the rule.
    assert!(!ids(&listing(&format!("{rules}\n..."))).contains(&expected));
}

/// A filter's output that lacks what it passes, as another command shows, was shortened: what it lacks is no defect.
#[test]
fn the_output_of_a_filter_that_was_shortened_is_no_evidence_of_absence() {
    let hairpin = "$ iptables-save | grep KUBE-SEP-OMTEPJMVLX67WSYN\n\
        -A KUBE-SEP-OMTEPJMVLX67WSYN -s 10.42.0.21/32 -m comment --comment \"shop/api:http\" -j KUBE-MARK-MASQ\n\
        -A KUBE-SEP-OMTEPJMVLX67WSYN -p tcp -m comment --comment \"shop/api:http\" -m tcp -j DNAT --to-destination 10.42.0.21:8080\n\
        -A KUBE-SVC-RUKNB3TURLFC6SGL -m comment --comment \"shop/api:http -> 10.42.0.21:8080\" -j KUBE-SEP-OMTEPJMVLX67WSYN\n";
    let marks = "$ iptables-save | grep KUBE-MARK-MASQ\n-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n";
    let missing = |text: &str| ids(text).into_iter().filter(|id| *id == "missing-rule").count();
    // Without the line of the endpoint in another output, these would be all lines.
    let without_hairpin =
        hairpin.lines().filter(|line| !line.contains("KUBE-MARK-MASQ")).map(|line| format!("{line}\n"));
    let excerpt = EXCERPT.lines().filter(|line| !line.contains("KUBE-MARK-MASQ")).map(|line| format!("{line}\n"));
    let excerpt: String = excerpt.collect();
    let consistent = without_hairpin.collect::<String>() + marks + &excerpt;
    assert!(missing(&consistent) > 0, "{:?}", lint(&read(&consistent)));
    let shortened = format!("{hairpin}{marks}{excerpt}");
    assert_eq!(missing(&shortened), 0, "{:?}", lint(&read(&shortened)));
    assert!(ids(&shortened).contains(&"cut-off"));
}

/// Headings of all chains, and no rule of any endpoint's chain, nor of those that mark and masquerade: a filter chose lines.
#[rstest]
fn rules_that_a_filter_hid_behind_headings_are_not_missing(#[values("", "$ cat rules.txt\n")] command: &str) {
    let shown = |line: &&str| !line.starts_with("-A") || line.contains("KUBE-SVC") || line.contains("KUBE-SERVICES");
    let file = "../rules/tests/golden/clusterip-three-endpoints/v1.32-iptables/iptables-save.txt";
    let whole = std::fs::read_to_string(file).unwrap();
    let text: String = whole.lines().filter(shown).map(|line| format!("{line}\n")).collect();
    let found = lint(&read(&format!("{command}{text}")));
    assert!(found.iter().all(|finding| finding.severity > Severity::Error), "{found:#?}");
    // One endpoint's chain that lost its rules is a defect.
    let lost: String =
        whole.lines().filter(|line| !line.starts_with("-A KUBE-SEP-IQ")).map(|line| format!("{line}\n")).collect();
    let found = lint(&read(&lost));
    assert!(found.iter().any(|finding| finding.id == "broken-balancing"), "{found:#?}");
}

fn recording(name: &str, release: &str) -> String {
    let file = format!("../rules/tests/golden/{name}/{release}-iptables/iptables-save.txt");
    std::fs::read_to_string(file).expect("a recording")
}

fn selected(saved: &str, word: &str) -> String {
    saved.lines().filter(|line| line.contains(word)).map(|line| format!("{line}\n")).collect()
}

/// What is found that is more than information.
fn grave(text: &str) -> Vec<&'static str> {
    let found = lint(&read(text));
    found.iter().filter(|one| one.severity != Severity::Info).map(|one| one.id).collect()
}

/// `sort` mixes the tables and puts the rules of a chain in another order: neither is a defect.
#[rstest]
#[case::without_its_command("")]
#[case::with_its_command("$ iptables-save | sort\n")]
fn sorted_rules_are_as_they_were_before(
    #[case] command: &str,
    #[values("affinity-clientip", "loadbalancer-source-ranges", "config-no-cluster-cidr")] name: &str,
    #[values("v1.18", "v1.25", "v1.30")] release: &str,
) {
    let saved = recording(name, release);
    let mut lines: Vec<&str> = saved.lines().collect();
    lines.sort_unstable();
    let sorted = format!("{command}{}\n", lines.join("\n"));
    assert_eq!(grave(&sorted), Vec::<&str>::new(), "{:?}", lint(&read(&sorted)));
    // What is not among all lines is missing.
    let endpoint = lines.iter().filter(|line| !line.contains("-j DNAT") || !line.contains("10.244.1.10:"));
    let lacking: String = endpoint.map(|line| format!("{line}\n")).collect();
    if !command.is_empty() && name == "affinity-clientip" {
        assert!(!grave(&format!("{command}{lacking}")).is_empty());
    }
}

/// Up to 1.23, the rule that leads to an endpoint does not name it.
#[rstest]
#[case("v1.18")]
#[case("v1.21")]
fn a_filter_by_an_endpoint_hides_the_rules_that_lead_to_it(#[case] release: &str) {
    let lines = selected(&recording("affinity-clientip", release), "10.244.1.10");
    let text = format!("$ iptables-save | grep 10.244.1.10\n{lines}");
    assert_eq!(grave(&text), Vec::<&str>::new(), "{:?}", lint(&read(&text)));
}

/// Without a command, what lines have in common may be a part of a word; and nothing shows that kube-proxy has a range of pods.
#[rstest]
#[case::part_of_a_word("config-conntrack-timeouts", "v1.18", "local")]
#[case::no_range("config-no-cluster-cidr", "v1.21", "KUBE-")]
fn an_excerpt_without_its_command_lacks_no_rule_of_a_range(
    #[case] name: &str,
    #[case] release: &str,
    #[case] word: &str,
) {
    let lines = selected(&recording(name, release), word);
    assert_eq!(grave(&lines), Vec::<&str>::new(), "{:?}", lint(&read(&lines)));
}

/// With policy Local, rules lead to the endpoints of their node; a table does not show which these are.
#[rstest]
#[case::iptables("v1.30-iptables/iptables-save.txt")]
#[case::nftables("v1.30-nftables/nft-ruleset.txt")]
fn endpoints_that_only_a_table_lists_are_on_other_nodes(#[case] file: &str) {
    let saved = std::fs::read_to_string(format!("../rules/tests/golden/internal-local/{file}")).expect("a recording");
    let table = "$ kubectl get endpoints\nNAME    ENDPOINTS                                            AGE\n\
        agent   10.244.1.10:8080,10.244.1.11:8080,10.244.2.10:8080   5d\n";
    let text = format!("```\n{saved}```\n\n```\n{table}```\n");
    assert_eq!(grave(&text), Vec::<&str>::new(), "{:?}", lint(&read(&text)));
}
