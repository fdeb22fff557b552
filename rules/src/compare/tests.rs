use rstest::rstest;

use super::{Others, compare, compare_nodes, differing_comments};
use crate::cluster::Family;
use crate::iptables::{RuleSet, parse};
use crate::ruleset::Rules;

/// A service with three endpoints, one of them local, behind a cluster IP, a node port and a guarded load balancer; and
/// one without endpoints.
const RULES: &str = r#"*filter
:FORWARD ACCEPT [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-SERVICES - [0:0]
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-PROXY-FIREWALL -d 203.0.113.10/32 -p tcp -m comment --comment "default/web:http traffic not accepted by KUBE-FW-CDGGSHYLG3RE2FKL" -m tcp --dport 80 -j DROP
-A KUBE-SERVICES -d 10.96.0.20/32 -p tcp -m comment --comment "default/idle:http has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable
COMMIT
*nat
:KUBE-EXT-CDGGSHYLG3RE2FKL - [0:0]
:KUBE-FW-CDGGSHYLG3RE2FKL - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-SEP-ELX6N4Z5RGB67TLC - [0:0]
:KUBE-SEP-GWQABTP5GBYXHJY5 - [0:0]
:KUBE-SEP-IQIBSY2R4USWK4F3 - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-CDGGSHYLG3RE2FKL - [0:0]
:KUBE-SVL-CDGGSHYLG3RE2FKL - [0:0]
-A KUBE-EXT-CDGGSHYLG3RE2FKL -m comment --comment "masquerade LOCAL traffic for default/web:http external destinations" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ
-A KUBE-EXT-CDGGSHYLG3RE2FKL -j KUBE-SVL-CDGGSHYLG3RE2FKL
-A KUBE-FW-CDGGSHYLG3RE2FKL -s 172.16.0.0/12 -m comment --comment "default/web:http loadbalancer IP" -j KUBE-EXT-CDGGSHYLG3RE2FKL
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-NODEPORTS -p tcp -m comment --comment "default/web:http" -m tcp --dport 30080 -j KUBE-EXT-CDGGSHYLG3RE2FKL
-A KUBE-SEP-ELX6N4Z5RGB67TLC -s 10.244.1.11/32 -m comment --comment "default/web:http" -j KUBE-MARK-MASQ
-A KUBE-SEP-ELX6N4Z5RGB67TLC -p tcp -m comment --comment "default/web:http" -m recent --set --name KUBE-SEP-ELX6N4Z5RGB67TLC --mask 255.255.255.255 --rsource -m tcp -j DNAT --to-destination 10.244.1.11:8080
-A KUBE-SEP-GWQABTP5GBYXHJY5 -s 10.244.1.10/32 -m comment --comment "default/web:http" -j KUBE-MARK-MASQ
-A KUBE-SEP-GWQABTP5GBYXHJY5 -p tcp -m comment --comment "default/web:http" -m tcp -j DNAT --to-destination 10.244.1.10:8080
-A KUBE-SEP-IQIBSY2R4USWK4F3 -s 10.244.2.10/32 -m comment --comment "default/web:http" -j KUBE-MARK-MASQ
-A KUBE-SEP-IQIBSY2R4USWK4F3 -p tcp -m comment --comment "default/web:http" -m tcp -j DNAT --to-destination 10.244.2.10:8080
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "default/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-CDGGSHYLG3RE2FKL
-A KUBE-SERVICES -d 203.0.113.10/32 -p tcp -m comment --comment "default/web:http loadbalancer IP" -m tcp --dport 80 -j KUBE-FW-CDGGSHYLG3RE2FKL
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-SVC-CDGGSHYLG3RE2FKL ! -s 10.244.0.0/16 -d 10.96.0.10/32 -p tcp -m comment --comment "default/web:http cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ
-A KUBE-SVC-CDGGSHYLG3RE2FKL -m recent --rcheck --seconds 60 --reap --name KUBE-SEP-ELX6N4Z5RGB67TLC --mask 255.255.255.255 --rsource -j KUBE-SEP-ELX6N4Z5RGB67TLC
-A KUBE-SVC-CDGGSHYLG3RE2FKL -m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-GWQABTP5GBYXHJY5
-A KUBE-SVC-CDGGSHYLG3RE2FKL -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-ELX6N4Z5RGB67TLC
-A KUBE-SVC-CDGGSHYLG3RE2FKL -j KUBE-SEP-IQIBSY2R4USWK4F3
-A KUBE-SVL-CDGGSHYLG3RE2FKL -j KUBE-SEP-ELX6N4Z5RGB67TLC
COMMIT
"#;

const SVC: &str = "-A KUBE-SVC-CDGGSHYLG3RE2FKL";

fn read(text: &str) -> RuleSet {
    parse(text, Family::Ipv4).unwrap().rules
}

/// Returns the findings after edits, each a pair of a line's content and its replacement.
fn findings(edits: &[(&str, &str)]) -> Vec<String> {
    let mut text = RULES.to_owned();
    for (old, new) in edits {
        assert!(text.contains(old), "not there: {old}");
        text = text.replace(old, new);
    }
    reported(RULES, &text)
}

fn reported(expected: &str, found: &str) -> Vec<String> {
    compare(&read(expected), &read(found)).iter().map(ToString::to_string).collect()
}

/// Returns the line of the rules that contains a text, with its newline.
fn line(part: &str) -> &'static str {
    RULES.split_inclusive('\n').find(|line| line.starts_with("-A") && line.contains(part)).unwrap()
}

/// Rules that count with nfacct do not affect packets: their presence is a difference only if they match or jump differently.
#[rstest]
#[case::on_loopback("-A KUBE-NODEPORTS -d 127.0.0.0/8 -p tcp -m comment --comment \"default/web:http\" -m tcp --dport 30080 -m nfacct --nfacct-name  localhost_nps_accepted_pkts -j KUBE-EXT-CDGGSHYLG3RE2FKL", &[])]
#[case::another_port("-A KUBE-NODEPORTS -d 127.0.0.0/8 -p tcp -m comment --comment \"default/web:http\" -m tcp --dport 30081 -m nfacct --nfacct-name  localhost_nps_accepted_pkts -j KUBE-EXT-CDGGSHYLG3RE2FKL", &["30081"])]
#[case::another_target("-A KUBE-NODEPORTS -d 127.0.0.0/8 -p tcp -m comment --comment \"default/web:http\" -m tcp --dport 30080 -m nfacct --nfacct-name  localhost_nps_accepted_pkts -j KUBE-SVL-CDGGSHYLG3RE2FKL", &["30080"])]
fn rules_that_only_count_mean_nothing(#[case] counted: &str, #[case] reported: &[&str]) {
    let general = line("-A KUBE-NODEPORTS -p tcp");
    let found = findings(&[
        ("--ctstate INVALID", "--ctstate INVALID -m nfacct --nfacct-name  ct_state_invalid_dropped_pkts"),
        (general, &format!("{counted}\n{general}")),
    ]);
    assert_eq!(found.len(), reported.len(), "{found:?}");
    assert!(found.iter().zip(reported).all(|(found, reported)| found.contains(reported)), "{found:?}");
}

#[rstest]
#[case::cluster_ip(
    "web:http cluster IP\" -m tcp --dport 80 -j KUBE-SVC",
    "service default/web:http: the frontend 10.96.0.10:80/tcp is missing"
)]
#[case::node_port("--dport 30080", "service default/web:http: the frontend node port 30080/tcp is missing")]
#[case::load_balancer("-j KUBE-FW-", "service default/web:http: the frontend 203.0.113.10:80/tcp is missing")]
#[case::firewall(
    "not accepted",
    "service default/web:http: the rejection of traffic to 203.0.113.10:80/tcp is missing"
)]
#[case::service_that_only_rejects("has no endpoints", "service default/idle:http is missing")]
#[case::source_range("172.16.0.0/12", "service default/web:http: the source range 172.16.0.0/12 is missing")]
#[case::masquerade(
    "! -s 10.244",
    "service default/web:http: the masquerading of traffic to 10.96.0.10:80/tcp is missing"
)]
#[case::masquerade_of_the_node(
    "masquerade LOCAL",
    "service default/web:http: the masquerading of external traffic is missing"
)]
#[case::hairpin(
    "-s 10.244.2.10",
    "service default/web:http: the masquerading of endpoint 10.244.2.10:8080 to itself is missing"
)]
#[case::affinity("--rcheck", "service default/web:http: the affinity to endpoint 10.244.1.11:8080 is missing")]
#[case::local_endpoint(
    "-A KUBE-SVL",
    "service default/web:http: endpoint 10.244.1.11:8080 for policy Local is missing"
)]
#[case::structure(
    "INVALID",
    "chain KUBE-FORWARD of filter: rule `-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP` is missing"
)]
fn a_missing_rule_is_reported_in_words(#[case] part: &str, #[case] reported: &str) {
    assert_eq!(findings(&[(line(part), "")]), [reported]);
}

/// The address of one Service that leads to another one is one finding, with the line of the rule that leads there.
#[test]
fn a_frontend_that_leads_to_another_service_is_one_finding() {
    let table = |other: &str| {
        let text = format!(
            "table ip kube-proxy {{\n\tmap service-ips {{\n\t\ttype ipv4_addr . inet_proto . inet_service : verdict\n\t\telements = {{ \
             10.96.0.10 . tcp . 80 : goto service-AAAAAAAA-default/web/tcp/http,\n\t\t\t10.96.0.20 . tcp . 80 : goto {other} }}\n\t}}\n\
             \tchain service-AAAAAAAA-default/web/tcp/http {{\n\t}}\n\tchain service-BBBBBBBB-default/shop/tcp/http {{\n\t}}\n}}\n"
        );
        crate::nftables::parse(&text).unwrap()
    };
    let [expected, found] =
        ["service-BBBBBBBB-default/shop/tcp/http", "service-AAAAAAAA-default/web/tcp/http"].map(table);
    let reported: Vec<String> = compare(&expected, &found).iter().map(ToString::to_string).collect();
    assert_eq!(
        reported,
        ["service default/shop:http: the frontend 10.96.0.20:80/tcp leads to service default/web:http (line 5)"]
    );
}

#[test]
fn a_missing_endpoint_is_one_finding() {
    let sep = ":KUBE-SEP-IQIBSY2R4USWK4F3 - [0:0]\n";
    let edits = [
        (line("0.33333333349"), ""),
        ("0.50000000000", "0.33333333349"),
        (line("-s 10.244.1.10/32"), ""),
        (line("--to-destination 10.244.1.10:8080"), ""),
        (":KUBE-SEP-GWQABTP5GBYXHJY5 - [0:0]\n", ""),
        ("0.33333333349", "0.50000000000"),
    ];
    assert!(RULES.contains(sep));
    assert_eq!(findings(&edits), ["service default/web:http: endpoint 10.244.1.10:8080 is missing"]);
}

#[test]
fn an_endpoint_that_moved_is_missing_and_unexpected() {
    assert_eq!(
        findings(&[("10.244.2.10:8080", "10.244.2.77:8080"), ("10.244.2.10/32", "10.244.2.77/32")]),
        [
            "service default/web:http: endpoint 10.244.2.10:8080 is missing",
            "service default/web:http: endpoint 10.244.2.77:8080 is unexpected",
        ]
    );
}

#[test]
fn another_probability_changes_the_shares_after_it_too() {
    assert_eq!(
        findings(&[("0.50000000000", "0.25000000000")]),
        [
            "service default/web:http: the share of endpoint 10.244.1.11:8080 is 16.6666667 % instead of 33.3333333 %",
            "service default/web:http: the share of endpoint 10.244.2.10:8080 is 50.0000000 % instead of 33.3333333 %",
        ]
    );
}

/// Returns the name of an endpoint's chain, with letters for digits, as hashes contain few digits.
fn endpoint_chain(number: usize) -> String {
    let letters: String = format!("{number:0>16}").bytes().map(|digit| char::from(digit - b'0' + b'A')).collect();
    format!("KUBE-SEP-{letters}")
}

/// Builds a service with this many endpoints and probabilities of this many digits.
fn many(endpoints: usize, digits: usize) -> String {
    let mut text = "*nat\n:KUBE-SVC-CDGGSHYLG3RE2FKL - [0:0]\n".to_owned();
    let chains = (0..endpoints).map(endpoint_chain).collect::<Vec<_>>();
    chains.iter().for_each(|chain| text += &format!(":{chain} - [0:0]\n"));
    for (position, chain) in chains.iter().enumerate() {
        let chance = match endpoints - position {
            1 => String::new(),
            left => format!(" -m statistic --mode random --probability {:.digits$}", 1.0 / left as f64),
        };
        text += &format!(
            "{SVC}{chance} -j {chain}\n-A {chain} -p tcp -m tcp -j DNAT --to-destination 10.0.0.{position}:80\n"
        );
    }
    text + "COMMIT\n"
}

#[rstest]
#[case::ten_digits(10, 10)]
#[case::five_digits(5, 5)]
#[case::another_release(5, 10)]
fn shares_with_another_number_of_endpoints_are_fair_to_the_digits_of_the_text(
    #[case] one: usize,
    #[case] other: usize,
) {
    let reported = compare(&read(&many(200, one)), &read(&many(199, other)));
    let reported: Vec<String> = reported.iter().map(ToString::to_string).collect();
    assert!(!reported.is_empty() && reported.iter().all(|finding| finding.contains("10.0.0.199")), "{reported:#?}");
}

#[test]
fn an_endpoint_of_many_that_gets_a_fifth_more_is_reported() {
    let right = format!("probability 0.0100000000 -j {}\n", endpoint_chain(99));
    let found = many(199, 10);
    assert!(found.contains(&right));
    let found = found.replace(&right, &right.replace("0.0100000000", "0.0120000000"));
    let reported = compare(&read(&many(200, 10)), &read(&found));
    let reported: Vec<String> = reported.iter().map(ToString::to_string).collect();
    assert!(reported.iter().any(|finding| finding.contains("the share of endpoint 10.0.0.99:80")), "{reported:#?}");
}

#[test]
fn another_timeout_of_affinity_shows_both_rules() {
    let check = "-A KUBE-SVC-CDGGSHYLG3RE2FKL -m recent --rcheck --seconds 60 --reap --name KUBE-SEP-ELX6N4Z5RGB67TLC \
                 --mask 255.255.255.255 --rsource -j KUBE-SEP-ELX6N4Z5RGB67TLC";
    let reported = format!(
        "service default/web:http: the affinity to endpoint 10.244.1.11:8080 is `{}` instead of `{check}`",
        check.replace("60", "30")
    );
    assert_eq!(findings(&[("--seconds 60", "--seconds 30")]), [reported]);
}

#[test]
fn a_policy_is_reported() {
    let reported = "chain FORWARD of filter: the policy is DROP instead of ACCEPT";
    assert_eq!(findings(&[(":FORWARD ACCEPT", ":FORWARD DROP")]), [reported]);
}

#[test]
fn rules_in_another_order_are_reported_where_order_counts() {
    let masquerade = line("! -s 10.244");
    let last = line("-j KUBE-SEP-IQIBSY2R4USWK4F3");
    let moved = format!("{last}{masquerade}");
    assert_eq!(
        findings(&[(masquerade, ""), (last, &moved)]),
        ["service default/web:http: the rules of KUBE-SVC-CDGGSHYLG3RE2FKL are in a different order"]
    );
    let node_ports = line("-j KUBE-NODEPORTS");
    let first = line("web:http cluster IP\" -m tcp --dport 80 -j KUBE-SVC");
    assert_eq!(
        findings(&[(node_ports, ""), (first, &format!("{node_ports}{first}"))]),
        ["chain KUBE-SERVICES of nat: the rules of KUBE-SERVICES are in a different order"]
    );
}

#[test]
fn comments_counters_and_the_order_of_endpoints_mean_nothing() {
    let (first, second) = (line("0.33333333349"), line("0.50000000000"));
    let swapped = [second.replace("0.50000000000", "0.33333333349"), first.replace("0.33333333349", "0.50000000000")];
    let edits = [
        (first, ""),
        (second, &*swapped.concat()),
        ("kubernetes forwarding rules", "forwarding"),
        (":KUBE-FORWARD - [0:0]", ":KUBE-FORWARD - [7:420]"),
    ];
    assert_eq!(findings(&edits), [""; 0]);
}

#[test]
fn a_service_without_a_name_is_named_by_its_hash() {
    let anonymous: String = RULES
        .lines()
        .map(|line| match line.split_once(" -m comment --comment \"") {
            Some((before, rest)) => format!("{before}{}\n", rest.split_once('"').unwrap().1),
            None => format!("{line}\n"),
        })
        .collect();
    let without = anonymous.replace(SVC, "-A KUBE-MARK-MASQ").replace("--dport 30080", "--dport 30081");
    let reported: Vec<String> = compare(&read(&anonymous), &read(&without)).iter().map(ToString::to_string).collect();
    assert!(
        reported.contains(&"service CDGGSHYLG3RE2FKL: the frontend node port 30080/tcp is missing".to_owned()),
        "{reported:?}"
    );
}

/// Docker, the kubelet, kube-router and an administrator write into the same tables.
#[test]
fn rules_of_others_are_counted_and_distinguished() {
    let others = ":DOCKER - [0:0]\n:KUBE-KUBELET-CANARY - [0:0]\n:KUBE-ROUTER-INPUT - [0:0]\n:KUBE-FIREWALL - [0:0]\n\
                  -A FORWARD -j DOCKER\n-A FORWARD -j KUBE-ROUTER-INPUT\n-A FORWARD -i docker0 -j ACCEPT\n\
                  -A DOCKER -j RETURN\n-A KUBE-ROUTER-INPUT -j RETURN\n-A KUBE-FIREWALL -j RETURN\n-A KUBE-FORWARD";
    let text = RULES.replacen("-A KUBE-FORWARD", others, 1).replace(":FORWARD ACCEPT", ":FORWARD DROP");
    let reported = compare_nodes(&read(RULES), &read(&text));
    assert_eq!((reported.own, reported.others), (vec![], Others { rules: 6, chains: 4, tables: 0 }));
    // Six rules, a chain without any, and a policy.
    assert_eq!(reported.in_others.len(), 8, "{:?}", reported.in_others);
}

/// A jump in a built-in chain, and a chain that no other program creates, are kube-proxy's.
#[test]
fn what_is_kube_proxys_is_reported_as_such() {
    let jump = line("-j KUBE-FORWARD");
    let text = RULES.replace(jump, ":KUBE-LOAD-BALANCER - [0:0]\n-A FORWARD -j KUBE-SERVICES\n");
    let reported = compare_nodes(&read(RULES), &read(&text));
    assert_eq!((reported.in_others, reported.others), (vec![], Others::default()));
    let reported: Vec<String> = reported.own.iter().map(ToString::to_string).collect();
    assert_eq!(reported.len(), 3, "{reported:?}");
    assert!(
        reported[0].contains("-j KUBE-FORWARD` is missing: connections to services are forwarded only if"),
        "{reported:?}"
    );
    assert!(reported[1].ends_with("-j KUBE-SERVICES` is unexpected"), "{reported:?}");
    assert_eq!(reported[2], "chain KUBE-LOAD-BALANCER of filter is unexpected");
}

/// The name in the missing rule is known from the expected rules.
#[test]
fn an_endpoint_without_its_dnat_keeps_its_name() {
    assert_eq!(
        findings(&[(line("--to-destination 10.244.2.10:8080"), "")]),
        ["service default/web:http: the DNAT to endpoint 10.244.2.10:8080 is missing"]
    );
}

#[test]
fn a_table_that_is_missing_is_one_finding() {
    let filter = &RULES[..RULES.find("*nat").unwrap()];
    assert_eq!(reported(RULES, filter), ["table nat is missing"]);
    let without_reject = filter.replace(line("has no endpoints"), "");
    assert_eq!(reported(RULES, &without_reject), ["table nat is missing", "service default/idle:http is missing"]);
}

#[test]
fn what_stands_in_a_text_is_reported_with_its_line() {
    let drop = "-A KUBE-FORWARD -i eth9 -j DROP\n";
    let text = RULES.replace("0.50000000000", "0.25000000000").replacen(
        "-A KUBE-FORWARD",
        &format!("{drop}-A KUBE-FORWARD"),
        1,
    );
    let number = |part: &str| text.lines().position(|line| line.starts_with("-A") && line.contains(part)).unwrap() + 1;
    let [expected, found] = [RULES, &text].map(|text| parse(text, Family::Ipv4).unwrap());
    let reported: Vec<String> = compare(&expected, &found).iter().map(ToString::to_string).collect();
    let share = "the share of endpoint";
    assert_eq!(
        reported,
        [
            format!(
                "service default/web:http: {share} 10.244.1.11:8080 is 16.6666667 % instead of 33.3333333 % (line {})",
                number("0.25000000000")
            ),
            format!(
                "service default/web:http: {share} 10.244.2.10:8080 is 50.0000000 % instead of 33.3333333 % (line {})",
                number("-A KUBE-SVC-CDGGSHYLG3RE2FKL -j KUBE-SEP-IQIBSY2R4USWK4F3")
            ),
            format!("chain KUBE-FORWARD of filter: rule `{}` is unexpected (line {})", drop.trim(), number("eth9")),
        ]
    );
}

/// Nothing but its comment says whose health check a rule accepts: without comments, as nft prints rules, only ports count.
#[rstest]
#[case::same(32100, 0)]
#[case::other(32101, 2)]
fn health_checks_without_comments_are_compared_by_their_ports(#[case] port: u16, #[case] differences: usize) {
    let with = |port: u16, comment: &str| {
        let rule = format!("-A KUBE-NODEPORTS -p tcp {comment}-m tcp --dport {port} -j ACCEPT\n");
        RULES.replacen(
            ":KUBE-SERVICES - [0:0]\n",
            &format!(":KUBE-SERVICES - [0:0]\n:KUBE-NODEPORTS - [0:0]\n{rule}"),
            1,
        )
    };
    let expected = with(32100, "-m comment --comment \"default/web:http health check node port\" ");
    let found = reported(&expected, &with(port, ""));
    assert_eq!(found.len(), differences, "{found:?}");
}

/// Comments are no differences, but are counted where a rule has another one than kube-proxy writes for it.
#[rstest]
#[case::same("", "", 0)]
#[case::other("default/web:http traffic not", "default/web:http: traffic not", 1)]
#[case::several("kubernetes forwarding rules", "forwarding", 1)]
#[case::none(" -m comment --comment \"default/web:http\" -m recent", " -m recent", 0)]
#[case::shortened("kubernetes forwarding rules", "kubernetes ...", 0)]
#[case::another_rule(
    "--comment \"default/web:http\" -m tcp --dport 30080",
    "--comment \"web\" -m tcp --dport 30081",
    0
)]
fn comments_are_counted(#[case] before: &str, #[case] after: &str, #[case] expected: usize) {
    let text = RULES.replace(before, after);
    let [written, found] =
        [RULES, &text].map(|text| Rules::parse(crate::cluster::ProxyMode::Iptables, Family::Ipv4, text).unwrap());
    assert_eq!(differing_comments(&written, &found), expected);
}

/// Releases before 1.2 mark packets in the rules of endpoints, and masquerade them in POSTROUTING.
#[rstest]
#[case::own_mark("0x4d415351", true)]
#[case::another_mark("0x1", false)]
fn rules_that_masquerade_without_chains_of_their_own(#[case] masqueraded: &str, #[case] is_complete: bool) {
    let expected = "*nat\n:POSTROUTING ACCEPT [0:0]\n:KUBE-MARK-MASQ - [0:0]\n:KUBE-POSTROUTING - [0:0]\n\
        -A POSTROUTING -j KUBE-POSTROUTING\n-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
        -A KUBE-POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE\nCOMMIT\n";
    let found = format!(
        "*nat\n:POSTROUTING ACCEPT [0:0]\n:KUBE-SEP-IQIBSY2R4USWK4F3 - [0:0]\n\
         -A POSTROUTING -m mark --mark {masqueraded} -j MASQUERADE\n\
         -A KUBE-SEP-IQIBSY2R4USWK4F3 -s 10.244.0.2/32 -j MARK --set-xmark 0x4d415351/0xffffffff\nCOMMIT\n"
    );
    let reported = reported(expected, &found);
    let missing: Vec<&String> = reported.iter().filter(|words| words.contains("missing")).collect();
    assert_eq!(missing.is_empty(), is_complete, "{missing:?}");
}

/// kube-proxy writes `--random-fully` if iptables knows it.
#[rstest]
#[case::older_iptables("--random-fully", "", true)]
#[case::older_release("", "--random-fully", false)]
fn an_older_iptables_masquerades_without_random_fully(
    #[case] written: &str,
    #[case] found: &str,
    #[case] is_same: bool,
) {
    let rules =
        |option: &str| format!("*nat\n:KUBE-POSTROUTING - [0:0]\n-A KUBE-POSTROUTING -j MASQUERADE {option}\nCOMMIT\n");
    let reported = reported(&rules(written), &rules(found));
    assert_eq!(reported.is_empty(), is_same, "{reported:?}");
}
