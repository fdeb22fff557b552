//! Cut or filtered text of nft.

use std::collections::BTreeSet;
use std::path::Path;

use rstest::rstest;
use svclab::evidence;
use svclab::infer;
use svclab_rules::cluster::InternalTrafficPolicy;

use super::{failures, filtered, golden, grave, imported, without};
use crate::assumptions;

fn nft() -> String {
    golden("small-cluster/v1.36-nftables/nft-ruleset.txt")
}

/// Rules that filtered lines of nft do not show are not a failure.
#[rstest]
fn what_a_filter_of_nft_hides_is_no_failure(
    #[values(
        "grep -v 10.96.0.1",
        "grep -v dnat",
        "grep -v endpoint",
        "grep -v comment",
        "grep -A 6 'map service-ips'",
        "head -n 40",
        "head -n 80"
    )]
    filter: &str,
) {
    let text = format!("$ nft list ruleset | {filter}\n{}", filtered(filter, &nft()));
    let assumed = imported(&text);
    assert_eq!(failures(&assumed), Vec::<String>::new(), "{}", assumptions(&assumed).join("\n"));
    // Lines that cannot be read are reported, but are not a defect.
    let bad: Vec<String> = grave(&text).into_iter().filter(|words| !words.starts_with("rules-not-read")).collect();
    assert_eq!(bad, Vec::<String>::new());
}

/// Without the command too, because missing headings show that lines are missing.
#[rstest]
fn what_lacks_headings_of_nft_is_an_excerpt(#[values("grep -v dnat", "grep -v endpoint")] filter: &str) {
    let text = filtered(filter, &nft());
    assert_eq!(failures(&imported(&text)), Vec::<String>::new());
    let indented: String = text.lines().map(|line| format!("    {line}\n")).collect();
    assert_eq!(failures(&imported(&indented)), Vec::<String>::new());
    let flat: String = text.lines().map(|line| format!("{}\n", line.trim_start())).collect();
    assert_eq!(failures(&imported(&flat)), Vec::<String>::new());
}

/// Without the command too, if no line has a property that several lines of every such table have: the lines with it were left out.
#[rstest]
fn what_all_lines_of_nft_lack_was_left_out(
    #[values("comment", "elements", "hook", " hook \\|comment ")] word: &str,
    #[values(
        "small-cluster/v1.36",
        "affinity-policies/v1.34",
        "both-policies-local/v1.30",
        "loadbalancer-source-ranges/v1.34"
    )]
    recording: &str,
) {
    let whole = golden(&format!("{recording}-nftables/nft-ruleset.txt"));
    let text = filtered(&format!("grep -v '{word}'"), &whole);
    let assumed = imported(&text);
    assert_eq!(failures(&assumed), Vec::<String>::new(), "{}", assumptions(&assumed).join("\n"));
    // If elements span several lines, the remaining lines are not read.
    let bad: Vec<String> = grave(&text).into_iter().filter(|words| !words.starts_with("rules-not-read")).collect();
    assert_eq!(bad, Vec::<String>::new());
}

/// Rules without comments are judged if all lines with comments were left out.
#[rstest]
#[case::translation("dnat ip to numgen random mod 3")]
#[case::share("numgen random mod")]
#[case::hook("\t\tjump services")]
fn a_table_of_nft_without_comments_is_judged_by_rules_that_have_none(#[case] lost: &str) {
    assert!(nft().contains(lost));
    let left = without(&nft(), |line| line.contains("comment ") || line.contains(lost));
    assert_ne!(failures(&imported(&left)), Vec::<String>::new());
}

/// Rules below the heading of another chain, or below none, are listed but not judged.
#[rstest]
fn rules_of_nft_without_their_chain_are_not_judged(
    #[values("grep service", "grep endpoint", "grep masq", "grep 10.244.1", "grep goto", "grep vmap", "grep dnat")]
    filter: &str,
) {
    let text = filtered(filter, &nft());
    let bad: Vec<String> = grave(&text).into_iter().filter(|words| !words.starts_with("rules-not-read")).collect();
    assert_eq!(bad, Vec::<String>::new());
    let unread: BTreeSet<usize> = evidence::read(&text).unread.iter().map(|unread| unread.line).collect();
    // Elements say themselves which map they are of.
    let is_rule = |line: &str| {
        ["vmap @", "dnat ip to", "goto service"].iter().any(|part| line.contains(part))
            && !line.contains(" : goto service")
    };
    let rules = (1..).zip(text.lines()).filter(|(_, line)| is_rule(line));
    let lost: Vec<&str> = rules.filter(|(number, _)| !unread.contains(number)).map(|(_, line)| line).collect();
    assert_eq!(lost, Vec::<&str>::new(), "each is listed");
}

/// What `nft list chains` prints.
const HEADINGS: &str = "table ip kube-proxy {\n\
    \tchain nat-prerouting {\n\t\ttype nat hook prerouting priority dstnat; policy accept;\n\t}\n\
    \tchain services {\n\t}\n\
    \tchain service-2QRHZV4L-default/kubernetes/tcp/https {\n\t}\n}\n";

/// One chain or map of nft, printed in its table, is not the whole table; headings alone show no rules.
#[rstest]
#[case::chain("chain services")]
#[case::map("map service-ips")]
#[case::set("set cluster-ips")]
#[case::headings("chains")]
fn a_part_of_a_table_of_nft_is_a_part(#[case] what: &str) {
    let part = |nft: &str| {
        let start = nft.find(&format!("\t{what} {{")).expect("a part");
        let end = start + nft[start..].find("\n\t}\n").expect("its end") + 4;
        format!("table ip kube-proxy {{\n{}}}\n", &nft[start..end])
    };
    let text = if what == "chains" { HEADINGS.to_owned() } else { part(&nft()) };
    assert_eq!(grave(&text), Vec::<String>::new(), "{text}");
    if let Ok(assumed) =
        infer::from_evidence(&evidence::read(&text), Path::new("dump"), &[], infer::Connections::LeftOut)
    {
        assert_eq!(failures(&assumed), Vec::<String>::new(), "{text}{}", assumptions(&assumed).join("\n"));
    }
}

/// An nftables rule that a filter removed from the middle of a chain is restored there.
#[test]
fn a_rule_is_completed_in_its_place() {
    let path = "../rules/tests/golden/clusterip-three-endpoints/v1.30-nftables/nft-ruleset.txt";
    let saved = std::fs::read_to_string(path).expect(path);
    let imported_rules = |text: &str| {
        let assumed = imported(text);
        let table = assumed.scenario.rules[0].rules.nftables().expect("nftables").rules.tables[0].clone();
        let chain = table.chains.iter().find(|chain| &*chain.name == "masquerading").expect("a chain").clone();
        chain.rules.iter().map(|rule| rule.statements.len()).collect::<Vec<_>>()
    };
    let start = saved.find("chain masquerading {").expect("a chain");
    let lines: Vec<&str> = saved[start..].lines().take_while(|line| line.trim() != "}").collect();
    let lost = without(&saved, |line| line == lines[1]);
    assert_eq!(imported_rules(&format!("$ nft list ruleset | grep -v xyz\n{lost}")), imported_rules(&saved));
}

/// One chain of a Service shows its cluster IP, its port, and the clusterCIDR.
#[test]
fn a_chain_of_a_service_shows_its_frontend() {
    let text = "[root@worker1 ~]# nft list chain ip kube-proxy service-4BBKY5IM-default/my-service/tcp/
table ip kube-proxy {
\tchain service-4BBKY5IM-default/my-service/tcp/ {
\t\tip daddr 10.96.214.61 tcp dport 80 ip saddr != 10.244.0.0/16 jump mark-for-masquerade
\t\tnumgen random mod 1 vmap { 0 : goto endpoint-JQCNVVM6-default/my-service/tcp/__10.244.0.12/9376 }
\t}
}
";
    let assumed = imported(text);
    let said = assumptions(&assumed).join("\n");
    let cluster = &assumed.scenario.cluster;
    let [service] = &*cluster.services else { panic!("{said}") };
    let frontend = (service.cluster_ips[0].to_string(), service.ports[0].port);
    assert_eq!(frontend, ("10.96.214.61".to_owned(), 80), "{said}");
    assert_eq!(cluster.proxy.cluster_cidrs, ["10.244.0.0/16".parse().expect("a range")], "{said}");
    assert!(said.contains("which generates the same rules") && !said.contains("which nothing shows"), "{said}");
    assert_eq!(failures(&assumed), Vec::<String>::new());
    assert_eq!(grave(text), Vec::<String>::new());
}

/// `grep -A` shows parts of chains with `--` between them, and `tail` a table without the sets that its chains refer to.
#[rstest]
#[case::groups("both-policies-local/v1.30-nftables/nft-ruleset.txt", "grep -A5 service-")]
#[case::end("both-policies-local/v1.36-nftables/nft-ruleset.txt", "tail -n 90")]
fn parts_of_chains_and_missing_sets_are_no_failure(#[case] recording: &str, #[case] filter: &str) {
    let whole = golden(recording);
    let whole = &whole[..whole.find("table ip6").unwrap_or(whole.len())];
    let mut lines: Vec<&str> = whole.lines().collect();
    if filter.starts_with("tail") {
        lines.drain(..lines.len() - 90);
    } else {
        let is_near = |at: usize| lines[at.saturating_sub(5)..=at].iter().any(|line| line.contains("service-"));
        lines = (0..lines.len()).map(|at| if is_near(at) { lines[at] } else { "--" }).collect();
        lines.dedup();
    }
    let text = format!("$ nft list ruleset | {filter}\n{}\n", lines.join("\n"));
    let bad: Vec<String> = grave(&text).into_iter().filter(|words| !words.starts_with("rules-not-read")).collect();
    assert_eq!((failures(&imported(&text)), bad), (Vec::new(), Vec::new()));
}

/// A share with another verdict than an endpoint's chain is lost, also where the text shows the Service's chains only; the other endpoints of
/// the rule are not missing.
#[rstest]
fn a_share_with_another_verdict_is_lost(#[values("drop", "return", "accept")] verdict: &str) {
    let whole = golden("affinity-clientip/v1.30-nftables/nft-ruleset.txt");
    let is_kept = |chain: &&str| chain.starts_with("\tchain service-SUST") || chain.starts_with("\tchain endpoint-");
    let chains: String =
        whole.split_inclusive("\n\t}\n").map(|chain| chain.trim_start_matches('\n')).filter(is_kept).collect();
    let third = "2 : goto endpoint-QJHVFVF2-default/web/tcp/http__10.244.3.10/8080 }";
    assert!(chains.contains(third));
    assert_eq!(failures(&imported(&chains)), Vec::<String>::new());
    let text = chains.replace(third, &format!("2 : {verdict} }}"));
    let found = grave(&text);
    assert!(
        found.iter().any(|words| words.starts_with("broken-balancing: ") && words.contains("33.333333 %")),
        "{found:?}"
    );
    let missing: Vec<&String> = found.iter().filter(|words| words.starts_with("missing-rule: ")).collect();
    assert!(matches!(missing[..], [one] if one.contains("10.244.3.10:8080")), "{missing:?}");
    assert_ne!(failures(&imported(&text)), Vec::<String>::new());
}

/// The end of a table lacks the map of Services, but traffic to a cluster IP is masqueraded in the chain of its policy.
#[rstest]
fn a_chain_of_local_endpoints_shows_the_internal_policy(
    #[values("", "$ nft list ruleset | tail -n 60\n")] heading: &str,
) {
    let whole = golden("internal-local-external-cluster/v1.32-nftables/nft-ruleset.txt");
    let lines: Vec<&str> = whole.lines().take_while(|line| !line.starts_with("table ip6")).collect();
    let text = format!("{heading}{}\n", lines[lines.len() - 60..].join("\n"));
    let assumed = imported(&text);
    let policies = assumed.scenario.cluster.services.iter().map(|service| service.internal_traffic_policy);
    assert_eq!(policies.collect::<Vec<_>>(), [InternalTrafficPolicy::Local]);
    let bad: Vec<String> = grave(&text).into_iter().filter(|words| !words.starts_with("rules-not-read")).collect();
    assert_eq!((failures(&assumed), bad), (Vec::new(), Vec::new()));
}

/// The hash in a name may be made up, as in an article: the text shows no chain of that name.
#[test]
fn a_made_up_hash_of_a_chain_that_is_not_shown_is_no_failure() {
    let text = "table ip kube-proxy {
\tmap service-ips {
\t\ttype ipv4_addr . inet_proto . inet_service : verdict
\t\telements = { 10.96.0.10 . tcp . 80 : goto service-ABCDEFGH-default/web/tcp/http }
\t}

\tchain services {
\t\tip daddr . meta l4proto . th dport vmap @service-ips
\t}
}
";
    assert_eq!((failures(&imported(text)), grave(text)), (Vec::new(), Vec::new()));
}

/// Names with a made-up hash in rules of a Service's chain: those of chains that the text does not show, and does; a `goto` by itself; and names that
/// replaced those whose hash it is, in whole tables.
#[rstest]
#[case::of_an_endpoint(
    "service-SUSTUHLJ",
    "numgen random mod 1 vmap { 0 : goto endpoint-XXXXXXXX-default/web/tcp/http__10.244.1.10/8080 }",
    ""
)]
#[case::by_itself("service-SUSTUHLJ", "goto endpoint-XXXXXXXX-default/web/tcp/http__10.244.1.10/8080", "")]
#[case::of_both("service-ABCDEFGH", "goto endpoint-XXXXXXXX-default/web/tcp/http__10.244.1.10/8080", "")]
#[case::of_a_shown_chain(
    "service-ABCDEFGH",
    "numgen random mod 1 vmap { 0 : goto endpoint-XXXXXXXX-default/web/tcp/http__10.244.1.10/8080 }",
    "\tchain endpoint-XXXXXXXX-default/web/tcp/http__10.244.1.10/8080 {\n\t\tip saddr 10.244.1.10 jump mark-for-masquerade\n\
     \t\tmeta l4proto tcp dnat to 10.244.1.10:8080\n\t}\n"
)]
fn made_up_hashes_in_rules_are_no_failure(#[case] service: &str, #[case] rule: &str, #[case] chain: &str) {
    let text = format!(
        "table ip kube-proxy {{\n\tchain {service}-default/web/tcp/http {{\n\
         \t\tip daddr 10.96.0.10 tcp dport 80 ip saddr != 10.244.0.0/16 jump mark-for-masquerade\n\t\t{rule}\n\t}}\n{chain}}}\n"
    );
    assert_eq!((failures(&imported(&text)), grave(&text)), (Vec::new(), Vec::new()), "{text}");
}

#[test]
fn replaced_names_of_services_are_no_failure() {
    let whole = golden("clusterip-three-endpoints/v1.34-nftables/nft-ruleset.txt");
    let text = whole.replace("default/web", "shop/front");
    assert_eq!((failures(&imported(&text)), grave(&text)), (Vec::new(), Vec::new()));
    // A rule that is lost is found by the names that the text has.
    let lost: String = text
        .lines()
        .filter(|line| !line.contains("dnat to 10.244.1.10:8080"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(!grave(&lost).is_empty() && !failures(&imported(&lost)).is_empty());
}
