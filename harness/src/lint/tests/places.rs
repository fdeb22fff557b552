//! The lines at which findings are reported.

use super::*;

const WEB: &str = r#"$ iptables-save | grep web
-A KUBE-SERVICES -d 10.96.0.80/32 -p tcp -m comment --comment "default/web cluster IP" -m tcp --dport 80 -j KUBE-SVC-LOLE4ISW44XBNF3G
-A KUBE-SVC-LOLE4ISW44XBNF3G -m comment --comment "default/web -> 10.244.1.5:8080" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-XDTCCSUWCBYQSDDM
-A KUBE-SVC-LOLE4ISW44XBNF3G -m comment --comment "default/web -> 10.244.2.7:8080" -j KUBE-SEP-C5WAZN3ELFVDI7L3
"#;

/// A missing rule is reported at the rule, chain or set that it belongs to, not at the first line of the text.
#[test]
fn what_is_missing_is_reported_where_it_belongs() {
    let found = lint(&read(WEB));
    let missing: Vec<&Finding> = found.iter().filter(|one| one.id == "missing-rule").collect();
    assert!(missing.len() > 1, "{found:?}");
    for one in missing {
        let line = WEB.lines().nth(one.place.line - 1).unwrap();
        let is_of_endpoint = ["10.244.1.5:8080", "10.244.2.7:8080"].iter().find(|own| one.message.contains(*own));
        assert!(is_of_endpoint.is_none_or(|own| line.contains(own)), "{}: {line}", one.message);
        assert!(line.starts_with("-A KUBE-SVC-"), "{}: {line}", one.message);
    }
    let path = "../rules/tests/golden/small-cluster/v1.36-nftables/nft-ruleset.txt";
    let text = std::fs::read_to_string(path).unwrap();
    let found = lint(&read(&without(&text, &["jump filter-prerouting-pre-dnat", "chain filter-prerouting {"])));
    assert!(found.iter().all(|one| !matches!(one.id, "missing-rule" | "deviation") || one.place.line > 1), "{found:?}");
}

/// Lines of rules that could not be read are one finding for each reason, which asks for what prints such rules.
#[test]
fn unread_lines_of_one_reason_are_one_finding() {
    let path = "../rules/tests/golden/small-cluster/v1.36-nftables/nft-ruleset.txt";
    let text = std::fs::read_to_string(path).unwrap();
    let stray =
        "\t\tip saddr 10.244.1.2 jump mark-for-masquerade\n\t\tmeta l4proto tcp dnat to 10.244.1.2:8080\n\t}\n\n";
    let found = lint(&read(&format!("$ nft list ruleset | tail\n{stray}{text}")));
    let unread: Vec<&Finding> = found.iter().filter(|one| one.id == "rules-not-read").collect();
    let [one] = unread.as_slice() else { panic!("{found:?}") };
    assert!(one.message.starts_with("2 lines not read, last at line 3: "), "{}", one.message);
    assert_eq!(one.ask(), "the whole output of `nft list ruleset` on that node");
}

/// The tables of both families have chains of the same names: what is wrong in that of IPv6 is reported there.
#[rstest]
#[case::shares("numgen random mod 2 ", "numgen random mod 3 ", "uneven-shares")]
#[case::structure(
    "meta mark & 0x00004000 != 0x00000000 meta mark set",
    "meta mark & 0x00004000 == 0x00000000 meta mark set",
    "deviation"
)]
#[case::set(
    "fd00:244:0:1::a . fd00:244:0:1::a . tcp . 8080",
    "fd00:244:0:1::a . fd00:244:0:1::b . tcp . 8080",
    "deviation"
)]
fn findings_in_ipv6_are_at_their_lines(#[case] old: &str, #[case] new: &str, #[case] id: &str) {
    let path = "../rules/tests/golden/dual-stack/v1.36-nftables/nft-ruleset.txt";
    let text = std::fs::read_to_string(path).unwrap();
    let (ipv4, ipv6) = text.split_at(text.find("table ip6 kube-proxy").unwrap());
    assert!(ipv6.contains(old), "{ipv6}");
    let first = ipv4.lines().count() + 1;
    let found = lint(&read(&format!("{ipv4}{}", ipv6.replacen(old, new, 1))));
    let lines: Vec<usize> = found.iter().filter(|one| one.id == id).map(|one| one.place.line).collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| *line > first), "{first}: {found:?}");
}

/// A Service's ports have a chain each.
#[test]
fn findings_about_ports_of_a_service_are_at_their_chains() {
    let path = "../rules/tests/golden/small-cluster/v1.36-nftables/nft-ruleset.txt";
    let rules = std::fs::read_to_string(path).unwrap();
    let slice = "\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: ingress-abc\n  namespace: ingress\n  \
        labels: {kubernetes.io/service-name: ingress}\naddressType: IPv4\nendpoints:\n- addresses: [10.244.7.7]\n  conditions: {ready: true}\n\
        ports:\n- {name: http, port: 8080, protocol: TCP}\n- {name: https, port: 8443, protocol: TCP}\n";
    let found = lint(&read(&format!("{rules}{slice}")));
    let lines = found.iter().filter(|one| one.id == "endpoints-differ").map(|one| one.place.line - 1);
    let lines: Vec<&str> = lines.map(|line| rules.lines().nth(line).unwrap().trim()).collect();
    let chains = ["service-VKUGDMA2-ingress/ingress/tcp/http", "service-3OXUUJ4H-ingress/ingress/tcp/https"];
    assert_eq!(lines, chains.map(|chain| format!("chain {chain} {{")), "{found:?}");
}

/// What a cut hides is asked for in the words of the rules' mode.
#[rstest]
#[case::nftables("../rules/tests/golden/small-cluster/v1.36-nftables/nft-ruleset.txt", "`nft list ruleset`")]
#[case::iptables("../rules/tests/golden/small-cluster/v1.32-iptables/iptables-save.txt", "`iptables-save`")]
fn the_rest_of_a_cut_text_is_asked_for_by_its_command(#[case] path: &str, #[case] command: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    let found = lint(&read(&text.lines().take(75).map(|line| format!("{line}\n")).collect::<String>()));
    let cut = found.iter().find(|one| one.id == "cut-off").unwrap();
    assert_eq!(cut.ask(), format!("the whole output of {command} on that node"));
}
