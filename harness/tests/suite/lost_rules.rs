//! `svclab dump lint` of recordings that have lost a rule, and of healthy texts that look as if they had.

use rstest::rstest;

use svclab::evidence::read;
use svclab::lint::{Severity, lint};

use crate::pasted::grave;

fn golden(path: &str) -> String {
    std::fs::read_to_string(format!("../rules/tests/golden/{path}")).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What `iptables-save | grep WORD` shows.
fn grepped(saved: &str, word: &str) -> String {
    let lines = saved.lines().filter(|line| line.contains(word)).map(|line| format!("{line}\n"));
    format!("# iptables-save | grep {word}\n{}", lines.collect::<String>())
}

/// A rule or an element that is replaced, or gone, is found.
#[rstest]
#[case::source_range_drop(
    "loadbalancer-source-ranges/v1.36-nftables/nft-ruleset.txt",
    "\t\tip saddr != { 100.64.3.0/24, 172.16.0.0/12 } drop\n",
    ""
)]
#[case::dropped_instead_of_rejected(
    "clusterip-no-endpoints/v1.30-iptables/iptables-save.txt",
    "-j REJECT --reject-with icmp-port-unreachable",
    "-j DROP"
)]
#[case::accepted_instead_of_rejected(
    "clusterip-no-endpoints/v1.30-iptables/iptables-save.txt",
    "-j REJECT --reject-with icmp-port-unreachable",
    "-j ACCEPT"
)]
#[case::element_of_cluster_ip(
    "nodeport-cluster/v1.36-nftables/nft-ruleset.txt",
    "\t\telements = { 10.96.0.10 . tcp . 80 : goto service-SUSTUHLJ-default/web/tcp/http }\n",
    ""
)]
#[case::rule_of_cluster_ip(
    "nodeport-cluster/v1.30-iptables/iptables-save.txt",
    "-A KUBE-SERVICES -d 10.96.0.10/32",
    "-A KUBE-SERVICES -d 192.0.2.1/32"
)]
#[case::mark_of_one_family(
    "dual-stack-loadbalancer/v1.30-nftables/nft-ruleset.txt",
    "meta mark set meta mark | 0x00004000",
    "meta mark set meta mark | 0x00008000"
)]
fn what_is_lost_is_found(#[case] recording: &str, #[case] rule: &str, #[case] other: &str) {
    let text = golden(recording);
    assert!(text.contains(rule), "{rule}");
    assert_eq!(grave(&text), Vec::<String>::new());
    assert_ne!(grave(&text.replacen(rule, other, 1)), Vec::<String>::new());
}

/// The text without the first line that starts so.
fn without_line(text: &str, start: &str) -> String {
    let line = text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}"));
    text.replacen(&format!("{line}\n"), "", 1)
}

/// Source ranges may have other rules than those that are compared; the other rules of the Service do not depend on them.
#[rstest]
#[case::not_canonical("loadbalancer-source-ranges-sloppy/v1.30-iptables", "-A KUBE-SERVICES -d 10.96.0.10/32")]
#[case::of_a_node("loadbalancer-source-ranges-with-node/v1.18-iptables", "-A KUBE-SERVICES -d 10.96.0.10/32")]
#[case::of_all_addresses("loadbalancer-source-ranges-all/v1.32-iptables", "-A KUBE-SEP-DRAOX3Q7G3HOXBAU -s ")]
#[case::of_all_and_others("loadbalancer-source-ranges-all/v1.34-iptables", "-A KUBE-SERVICES -d 10.96.0.10/32")]
fn a_lost_rule_of_a_service_with_source_ranges_is_found(#[case] recording: &str, #[case] rule: &str) {
    let text = golden(&format!("{recording}/iptables-save.txt"));
    assert_eq!(grave(&text), Vec::<String>::new());
    assert_ne!(grave(&without_line(&text, rule)), Vec::<String>::new());
}

/// A rule in front of kube-proxy's own that decides about their packets; one like those that kube-proxy writes may be its own.
#[rstest]
#[case::accept_all("iptables", "-A KUBE-SERVICES -d", "-A KUBE-SERVICES -j ACCEPT", Some(Severity::Error))]
#[case::return_all("iptables", "-A KUBE-SERVICES -d", "-A KUBE-SERVICES -j RETURN", Some(Severity::Error))]
#[case::translate_some(
    "iptables",
    "-A KUBE-SERVICES -d",
    "-A KUBE-SERVICES -d 10.96.0.77/32 -j DNAT --to-destination 127.0.0.1",
    Some(Severity::Warning)
)]
#[case::accept_in_nftables(
    "nftables",
    "\t\tip daddr . meta l4proto . th dport vmap @service-ips",
    "\t\taccept",
    Some(Severity::Error)
)]
#[case::health_check(
    "iptables",
    "-A KUBE-FIREWALL",
    "-A KUBE-NODEPORTS -p tcp -m tcp --dport 31999 -j ACCEPT\n-A KUBE-NODEPORTS -p tcp -m tcp --dport 31998 -j ACCEPT",
    None
)]
fn a_rule_that_decides_before_those_of_kube_proxy_is_found(
    #[case] mode: &str,
    #[case] before: &str,
    #[case] rule: &str,
    #[case] severity: Option<Severity>,
) {
    let file = if mode == "iptables" { "iptables-save.txt" } else { "nft-ruleset.txt" };
    let text = golden(&format!("nodeport-cluster/v1.32-{mode}/{file}"));
    assert_eq!(grave(&text), Vec::<String>::new());
    let line = text.lines().find(|line| line.starts_with(before)).expect("a rule");
    let changed = text.replacen(line, &format!("{rule}\n{line}"), 1);
    let found = lint(&read(&changed));
    let of_rule =
        found.iter().filter(|finding| finding.message.contains(rule.split('\n').next().unwrap_or(rule).trim()));
    let worst = of_rule.map(|finding| finding.severity).min();
    assert_eq!(worst.filter(|one| *one != Severity::Info), severity, "{found:?}");
}

/// What `iptables -t TABLE -S` prints of saved tables, one after the other.
fn listed(saved: &str) -> String {
    let line = |line: &str| match (line.strip_prefix('*'), line.strip_prefix(':')) {
        (Some(table), _) => format!("# iptables -t {table} -S\n"),
        (None, Some(chain)) => match chain.split(' ').collect::<Vec<_>>().as_slice() {
            [name, "-", ..] => format!("-N {name}\n"),
            [name, policy, ..] => format!("-P {name} {policy}\n"),
            _ => String::new(),
        },
        _ if line.starts_with("-A ") => format!("{line}\n"),
        _ => String::new(),
    };
    saved.lines().map(line).collect()
}

/// The chains after the last one with rules may be empty, or cut off: the rules before that end are there.
#[test]
fn a_rule_before_the_end_of_the_text_is_found() {
    let saved = golden("clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
    let (rest, nat) = saved.split_at(saved.find("*nat").expect("a table"));
    let text = listed(&format!("{nat}{}", &rest[rest.find("*filter").expect("a table")..]));
    assert!(text.lines().next_back().is_some_and(|line| line.starts_with("-A KUBE-FORWARD")), "{text}");
    assert_eq!(grave(&text), Vec::<String>::new());
    let marked =
        text.lines().find(|line| line.starts_with("-A KUBE-FORWARD") && line.contains("--mark")).expect("a rule");
    let found = grave(&text.replace(&format!("{marked}\n"), ""));
    assert!(found.iter().any(|finding| finding.contains("KUBE-FORWARD")), "{found:?}");
    // The last rule may be cut off.
    let last = text.lines().next_back().expect("a line");
    assert_eq!(grave(&text.replace(&format!("{last}\n"), "")), Vec::<String>::new());
}

/// The rule for a cluster IP may be in a table that the text does not show, or name no Service.
#[rstest]
#[case::nat_alone("both-policies-local/v1.32-iptables", true)]
#[case::without_comments("external-ips-no-endpoints/v1.32-iptables", false)]
fn a_cluster_ip_that_the_text_does_not_name_is_not_lost(#[case] recording: &str, #[case] is_nat_alone: bool) {
    let saved = golden(&format!("{recording}/iptables-save.txt"));
    let text = match is_nat_alone {
        true => saved[saved.find("*nat").expect("a table")..].to_owned(),
        false => {
            let bare = |line: &str| match (line.split_once(" -m comment --comment \""), line) {
                (Some((start, rest)), _) => format!("{start}{}\n", rest.split_once('"').map_or("", |(_, end)| end)),
                (None, line) => format!("{line}\n"),
            };
            saved.lines().map(bare).collect()
        }
    };
    let lost: Vec<String> = grave(&text).into_iter().filter(|finding| finding.contains("cluster IP")).collect();
    assert_eq!(lost, Vec::<String>::new());
}

/// The filter would show the jump to an endpoint whose chain it shows.
#[test]
fn an_endpoint_without_a_jump_is_found_in_a_filtered_text() {
    let saved = golden("clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
    let shown = grepped(&saved, "default/");
    assert_eq!(grave(&shown), Vec::<String>::new());
    let jump = shown.lines().find(|line| line.contains("--mode random")).expect("a jump");
    let found = grave(&shown.replace(&format!("{jump}\n"), ""));
    assert!(found.iter().any(|finding| finding.starts_with("broken-balancing")), "{found:?}");
}

/// Without `clusterCIDR` there is no rule that masquerades connections to cluster IPs: a filter that would show one proves the setting.
#[rstest]
fn a_filtered_text_of_a_cluster_without_a_range_is_sound(
    #[values("v1.18", "v1.25", "v1.32")] release: &str,
    #[values("default/", "default/web", "10.96.0.10")] word: &str,
) {
    let saved = golden(&format!("config-no-cluster-cidr/{release}-iptables/iptables-save.txt"));
    assert_eq!(grave(&grepped(&saved, word)), Vec::<String>::new());
}

/// Releases up to 1.2 set the mark in the rule, with probabilities of five digits: an example of Kubernetes' documentation is like this.
#[test]
fn rules_of_early_releases_are_sound() {
    let endpoint = |chain: &str, ip: &str| {
        let rule = format!("-A KUBE-SEP-{chain}");
        format!(
            "{rule} -s {ip}/32 -m comment --comment \"shop/front:\" -j MARK --set-xmark 0x00004000/0x00004000\n\
             {rule} -p tcp -m comment --comment \"shop/front:\" -m tcp -j DNAT --to-destination {ip}:9376\n"
        )
    };
    let jump = |rest: &str| format!("-A KUBE-SVC-AZTNOJQZJWK7XQ2L -m comment --comment \"shop/front:\" {rest}\n");
    let text = [
        "$ iptables-save | grep shop/front\n".to_owned(),
        endpoint("57KPRZ3JQVENLNBR", "10.244.3.6"),
        endpoint("WNBA2IHDGP2BOBGZ", "10.244.1.7"),
        endpoint("X3P2623AGDH6CDF3", "10.244.2.3"),
        "-A KUBE-SERVICES -d 10.0.1.175/32 -p tcp -m comment --comment \"shop/front: cluster IP\" -m tcp --dport 80 \
         -j KUBE-SVC-AZTNOJQZJWK7XQ2L\n"
            .to_owned(),
        jump("-m statistic --mode random --probability 0.33332999982 -j KUBE-SEP-WNBA2IHDGP2BOBGZ"),
        jump("-m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-X3P2623AGDH6CDF3"),
        jump("-j KUBE-SEP-57KPRZ3JQVENLNBR"),
    ];
    let found = grave(&text.concat());
    // The hashes are not those of these names.
    let others: Vec<&String> = found.iter().filter(|finding| !finding.starts_with("hash-comment")).collect();
    assert_eq!(others, Vec::<&String>::new());
}

/// nft prints `-m sctp` without options as `xt match`, and older releases of it print no target of a translation.
#[rstest]
#[case::sctp("meta l4proto sctp xt match sctp counter packets 0 bytes 0 dnat to 10.244.1.10:3868", "sctp", true)]
#[case::no_target("meta l4proto tcp counter", "tcp", false)]
fn endpoints_in_a_listing_of_iptables_nft_are_not_missing(
    #[case] translation: &str,
    #[case] protocol: &str,
    #[case] is_read: bool,
) {
    let text = format!(
        "table ip nat {{\n\tchain PREROUTING {{\n\t\ttype nat hook prerouting priority dstnat; policy accept;\n\t\tcounter jump KUBE-SERVICES\n\t}}\n\
         \tchain OUTPUT {{\n\t\ttype nat hook output priority -100; policy accept;\n\t\tcounter jump KUBE-SERVICES\n\t}}\n\
         \tchain KUBE-SERVICES {{\n\t\tmeta l4proto {protocol} ip daddr 10.96.0.10 {protocol} dport 3868 counter jump KUBE-SVC-FPWTKBF5Q4RKJ366\n\t}}\n\
         \tchain KUBE-SVC-FPWTKBF5Q4RKJ366 {{\n\t\tcounter jump KUBE-SEP-AAAAAAAAAAAAAAAA\n\t}}\n\
         \tchain KUBE-SEP-AAAAAAAAAAAAAAAA {{\n\t\tip saddr 10.244.1.10 counter jump KUBE-MARK-MASQ\n\t\t{translation}\n\t}}\n\
         \tchain KUBE-MARK-MASQ {{\n\t\tcounter meta mark set mark or 0x4000\n\t}}\n}}\n"
    );
    let found = grave(&text);
    assert!(found.iter().all(|finding| !finding.contains("endpoint 10.244.1.10")), "{found:?}");
    assert_eq!(found.iter().any(|finding| finding.starts_with("rules-not-read")), !is_read, "{found:?}");
}

/// A part of healthy rules, from any line to any other, is not called defective.
#[rstest]
fn a_window_of_a_recording_is_sound(
    #[values("small-cluster/v1.30-iptables", "nodeport-local/v1.30-iptables")] recording: &str,
    #[values(1, 2, 3)] step: usize,
) {
    let saved = golden(&format!("{recording}/iptables-save.txt"));
    let lines: Vec<&str> = saved.lines().collect();
    for number in 0..20 {
        // Spread over the text; at least ten lines.
        let first = (number * 7 * step + step * 11) % (lines.len() - 10);
        let last = first + 10 + (number * 13 + step * 5) % (lines.len() - first - 9);
        let text = lines[first..last].join("\n");
        assert_eq!(grave(&text), Vec::<String>::new(), "lines {first} to {last}");
    }
}

/// The source ranges of a Service in the same text decide which ones its rules should have.
#[rstest]
#[case::same("", "", &[])]
#[case::lost("-s 100.64.3.0/24", "gone", &["missing-rule: service default/web:http: the source range 100.64.3.0/24 is missing"])]
#[case::other(
    "-s 100.64.3.0/24",
    "-s 198.51.100.0/24",
    &[
        "deviation: service default/web:http: the source range 198.51.100.0/24 is unexpected",
        "missing-rule: service default/web:http: the source range 100.64.3.0/24 is missing",
    ]
)]
fn source_ranges_are_compared_with_those_of_the_service(
    #[case] range: &str,
    #[case] other: &str,
    #[case] expected: &[&str],
) {
    let rules = golden("loadbalancer-source-ranges/v1.32-iptables/iptables-save.txt");
    let changed = rules.lines().map(|line| if range.is_empty() { line.to_owned() } else { line.replace(range, other) });
    let changed = changed.filter(|line| !line.contains("gone")).map(|line| format!("{line}\n")).collect::<String>();
    let objects = golden("loadbalancer-source-ranges/cluster.yaml");
    let found =
        lint(&read(&format!("$ kubectl get nodes,svc,endpointslices -o yaml\n{objects}\n$ iptables-save\n{changed}")));
    let errors = found.iter().filter(|one| one.severity == Severity::Error);
    let errors: Vec<String> = errors.map(|one| format!("{}: {}", one.id, one.message)).collect();
    assert_eq!(errors, expected, "{found:?}");
}

/// An endpoint whose chain no rule jumps to has lost its rule: kube-proxy removes both at once. Lint and `verify` agree.
#[test]
fn an_endpoint_that_lost_its_rule_is_one_also_where_the_others_are_even() {
    let text = golden("clusterip-three-endpoints/v1.32-iptables/iptables-save.txt");
    let first = text.lines().find(|line| line.contains("-> 10.244.1.10:8080")).expect("a rule").to_owned() + "\n";
    let text = text.replacen(&first, "", 1);
    let found = grave(&text);
    assert!(found.iter().any(|one| one.starts_with("broken-balancing: ")), "{found:?}");
    let assumed = svclab::infer::from_evidence(
        &read(&text),
        std::path::Path::new("dump"),
        &[],
        svclab::infer::Connections::LeftOut,
    );
    let assumed = assumed.unwrap_or_else(|errors| panic!("{errors}"));
    let differences: Vec<String> = assumed.deviations.iter().map(|one| one.finding.to_string()).collect();
    assert_eq!(differences, ["service default/web:http: endpoint 10.244.1.10:8080 is missing"]);
}

/// Releases up to 1.21 ignore the internal policy Local: rules of a later layout that do are not theirs.
#[rstest]
#[case::later("v1.30", true)]
#[case::older("v1.18", false)]
fn rules_that_ignore_the_internal_policy_are_found(#[case] release: &str, #[case] expected: bool) {
    let rules = golden(&format!("clusterip-three-endpoints/{release}-iptables/iptables-save.txt"));
    let objects = golden("clusterip-three-endpoints/cluster.yaml");
    let local = objects.replacen("internalTrafficPolicy: Cluster", "internalTrafficPolicy: Local", 1);
    let service = |objects: &str| objects[objects.find("kind: Service").expect("a Service")..].to_owned();
    let text =
        |objects: &str| format!("```yaml\napiVersion: v1\n{}```\n{}", service(objects), grepped(&rules, "default/web"));
    assert_eq!(grave(&text(&objects)), Vec::<String>::new());
    let found = grave(&text(&local));
    let is_lost = |one: &String| one.contains("endpoint 10.244.1.10:8080 for policy Local is missing");
    assert_eq!(found.iter().any(is_lost), expected, "{found:?}");
}
