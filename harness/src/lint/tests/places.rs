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
