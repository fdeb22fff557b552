//! Verifies clusters with rules of other programs: what they do to first packets, and to later ones.

use std::path::Path;

use rstest::rstest;
use svclab::page::Settings;
use svclab::scenario::Scenario;
use svclab::verify::{Disagreement, Options, Verification, page, verify};
use svclab::{scenario, testing};

/// Rules that only lose packets after the first of a connection, or later connections. None of them depends on a lab.
#[rstest]
#[case::mark_by_reply(
    "-m conntrack --ctdir REPLY -j CONNMARK --set-mark 7\n        -A FORWARD -m conntrack --ctdir ORIGINAL -m connmark --mark 7 -j DROP",
    &["a later segment of a connection (ACK) is lost", "a later datagram of a flow is lost", "a later packet of an association is lost"]
)]
#[case::mark_of_the_third(
    "-p tcp -m connmark --mark 3 -j DROP\n        -A FORWARD -m connmark --mark 2 -j CONNMARK --set-mark 3\n        \
     -A FORWARD -m connmark --mark 1 -j CONNMARK --set-mark 2\n        -A FORWARD -m conntrack --ctstate NEW -j CONNMARK --set-mark 1",
    &["a later segment of a connection (ACK) is lost: the reply is lost"]
)]
#[case::datagrams_of_a_replied_flow(
    "-p udp -m conntrack --ctstate ESTABLISHED --ctdir ORIGINAL -j DROP",
    &["a later datagram of a flow is lost"]
)]
#[case::packets_of_an_association(
    "-p sctp -m conntrack --ctstate ESTABLISHED --ctdir ORIGINAL -j DROP",
    &["a later packet of an association is lost"]
)]
#[case::flags_that_mark(
    "-p tcp -m connmark --mark 9 -j DROP\n        -A FORWARD -p tcp -m tcp --tcp-flags PSH PSH -j CONNMARK --set-mark 9",
    &["a later segment of a connection (ACK,PSH) is lost: the reply is lost"]
)]
#[case::list_filled_by_later_packets(
    "-p tcp -m conntrack --ctstate NEW -m recent --rcheck --name X -j DROP\n        -A FORWARD -p tcp -m tcp --tcp-flags FIN FIN -m recent --set --name X",
    &["a connection depends on an earlier one to 10.244."]
)]
#[case::lists_of_both_endpoints(
    "-p tcp -m conntrack --ctstate NEW -m recent --rcheck --name A -m recent --rcheck --name B -j DROP\n        \
     -A FORWARD -p tcp -d 10.244.0.3 -m recent --set --name A\n        -A FORWARD -p tcp -d 10.244.1.2 -m recent --set --name B",
    &["a connection depends on earlier ones to several endpoints, without session affinity"]
)]
#[case::limit_of_later_packets(
    "-p udp -m conntrack --ctstate ESTABLISHED --ctdir ORIGINAL -m limit --limit 1/hour -j ACCEPT\n        \
     -A FORWARD -p udp -m conntrack --ctstate ESTABLISHED --ctdir ORIGINAL -j DROP",
    &["a later datagram of a flow depends on what rules count: "]
)]
#[case::mark_in_a_random_branch(
    "-p tcp -m connmark --mark 7 -j DROP\n        -A FORWARD -p tcp -m conntrack --ctstate ESTABLISHED --ctdir ORIGINAL -m statistic --mode random \
     --probability 0.5 -j ACCEPT\n        -A FORWARD -p tcp -m conntrack --ctstate ESTABLISHED --ctdir ORIGINAL -j CONNMARK --set-mark 7",
    &["a later segment of a connection (ACK) is lost: the reply is lost"]
)]
#[case::unknown_for_later_packets(
    "-p tcp -m conntrack --ctstate ESTABLISHED --ctdir ORIGINAL -m ttl --ttl-lt 5 -j DROP",
    &["a later segment of a connection (ACK) may be lost: unknown: "]
)]
#[case::second_datagram(
    "-p udp -m conntrack --ctstate NEW -m connmark --mark 5 -j DROP\n        -A FORWARD -p udp -j CONNMARK --set-mark 5",
    &["a second datagram of a flow before the reply is lost"]
)]
#[case::counted_connections(
    "-p tcp --syn -m recent --set --name A\n        -A FORWARD -p tcp --syn -m recent --update --seconds 60 --hitcount 20 --name A -j DROP",
    &["after 19 connections of a client to 10.244."]
)]
#[case::counted_packets(
    "-p tcp ! --syn -m recent --set --name A\n        -A FORWARD -p tcp ! --syn -m recent --rcheck --hitcount 24 --name A -j DROP",
    &["segment 24 from the client in a connection (ACK) is lost", "segment 13 from the client in a connection (ACK) is lost"]
)]
fn losses_after_the_first_packet_are_found(#[case] rules: &str, #[case] expected: &[&str]) {
    let (verification, page) = predicted(rules);
    let found: Vec<_> = verification.failures(&no_lab()).map(|finding| finding.what.as_str()).collect();
    assert!(expected.iter().all(|part| found.iter().any(|what| what.starts_with(part))), "{page}");
    assert!(found.iter().all(|what| expected.iter().any(|part| what.starts_with(part))), "{page}");
}

/// A finding about a later packet shows what happens to that packet, not to the first one, which is delivered.
#[rstest]
#[case::packet("-p tcp -m tcp --tcp-flags FIN,SYN FIN -j DROP", "dropped on", "--tcp-flags FIN,SYN FIN -j DROP")]
#[case::reply(
    "-s 10.244.1.2/32 -d 10.244.0.2/32 -p tcp -m tcp --sport 8080 --tcp-flags FIN,SYN FIN -j DROP",
    "reply is lost",
    "--ctstate RELATED,ESTABLISHED -j ACCEPT"
)]
fn a_lost_later_packet_is_shown(#[case] rule: &str, #[case] outcome: &str, #[case] decisive: &str) {
    let (verification, page) = predicted(rule);
    let findings: Vec<_> = verification.failures(&no_lab()).collect();
    assert!(!findings.is_empty(), "{page}");
    for finding in findings {
        let example = &finding.example;
        assert!(example.prediction.iter().all(|branch| branch.contains(outcome)), "{page}");
        assert!(example.rules.iter().any(|rule| rule.contains(decisive)), "{page}");
        assert_eq!(example.explain, None, "{page}");
    }
}

/// Rules that count the packets of a connection in its mark, and drop those after the last number.
#[rstest]
#[case::few(12, Disagreement::Rules, "datagram 13 from the client in a flow is lost")]
#[case::too_many(99, Disagreement::Unknown, "later packets: rules distinguish more than 64 states of a connection")]
fn marks_may_count(#[case] most: u32, #[case] expected: Disagreement, #[case] words: &str) {
    let counting = (0..most).rev().map(|mark| {
        let next = mark + 1;
        format!("-p udp -m conntrack --ctdir ORIGINAL -m connmark --mark {mark} -j CONNMARK --set-mark {next}")
    });
    let rules: Vec<_> = [format!("-p udp -m connmark --mark {most} -m conntrack --ctdir ORIGINAL -j DROP")]
        .into_iter()
        .chain(counting)
        .collect();
    let (verification, page) = predicted(&rules.join("\n        -A FORWARD "));
    let found = verification.findings.first().unwrap_or_else(|| panic!("{page}"));
    assert_eq!(found.disagreement, expected, "{page}");
    assert!(found.what.starts_with(words), "{page}");
}

fn no_lab() -> Options {
    Options { no_lab: true, ..Options::default() }
}

/// Promise and prediction of a cluster with these rules at FORWARD of a node, and the page.
fn predicted(rules: &str) -> (Verification, String) {
    let scenario = with_other_rules(&format!("        *filter\n        -A FORWARD {rules}\n        COMMIT\n"));
    let verified = verify(&[scenario], &no_lab(), &|_| {}).remove(0);
    let page = page(&verified, &no_lab(), Settings::default());
    (verified.result.unwrap_or_else(|_| panic!("{page}")), page)
}

/// Other rules of a node of which predictions were wrong: whatever they break, the kernel does as is predicted, or it is unknown.
#[rstest]
#[case::interfaces("table inet a {", "forward", "filter", "iifname vmap { \"veth-client\" : drop }")]
#[case::after_source_nat("table ip a {", "postrouting", "101", "ip saddr 172.18.0.2 drop")]
#[case::kept_source("*nat", "POSTROUTING", "", "-p tcp -j SNAT --to-source :40000")]
#[case::rejected_early("table inet a {", "prerouting", "filter", "meta l4proto { tcp, udp } reject")]
#[case::rejected_early_by_source(
    "table inet a {",
    "prerouting",
    "filter",
    "meta l4proto { tcp, udp } reject\n          }\n          chain out {\n            type filter hook output priority 0;\n            \
     ip protocol icmp ip saddr 172.18.0.2 drop"
)]
#[case::clients_without_timeout(
    "table inet a {\n          set m { type ipv4_addr; flags dynamic; }",
    "prerouting",
    "-150",
    "ip protocol tcp update @m { ip saddr }\n          }\n          chain f {\n            type filter hook forward priority 0;\n            \
     ip saddr @m drop"
)]
#[case::limit("*filter", "FORWARD", "", "-p tcp -m limit --limit 1/hour --limit-burst 1 -j DROP")]
#[case::clients(
    "*filter",
    "FORWARD",
    "",
    "-p tcp -m recent --rcheck --hitcount 2 --name A -j DROP\n        -A FORWARD -m recent --set --name A"
)]
#[case::clients_at_an_earlier_hook(
    "*mangle",
    "PREROUTING",
    "",
    "-p tcp -m recent --set --name A\n        COMMIT\n        *filter\n        -A FORWARD -m recent --rcheck --name A -j DROP"
)]
#[case::clients_of_replies(
    "*filter",
    "FORWARD",
    "",
    "-p tcp -m recent --rcheck --name A --rdest -j DROP\n        -A FORWARD -p tcp -m recent --set --name A"
)]
#[case::one_port("*nat", "POSTROUTING", "", "-p tcp -j MASQUERADE --to-ports 53")]
fn the_kernel_follows_other_rules(#[case] table: &str, #[case] hook: &str, #[case] priority: &str, #[case] rule: &str) {
    let text = match table {
        "*nat" | "*filter" | "*mangle" => format!("        {table}\n        -A {hook} {rule}\n        COMMIT\n"),
        _ => nft(table, &format!("type filter hook {hook} priority {priority}"), rule),
    };
    in_a_lab(&text, |failures, page| {
        assert!(!failures.is_empty(), "{page}");
        let is_of_svclab =
            |one: &Disagreement| matches!(one, Disagreement::Kernel | Disagreement::Model | Disagreement::All);
        assert!(!failures.iter().any(is_of_svclab), "{page}");
    });
}

/// IPv4 passes a translation of IPv6.
#[test]
fn translations_of_the_other_family_change_nothing() {
    let rule = "tcp dport 80 dnat ip6 to [fd00::9]:8080";
    let text = nft("table inet a {", "type nat hook prerouting priority -110", rule);
    in_a_lab(&text, |failures, page| assert!(failures.is_empty(), "{page}"));
}

/// A table with one chain, which has one rule.
fn nft(table: &str, chain: &str, rule: &str) -> String {
    format!(
        "        {table}\n          chain c {{\n            {chain}; policy accept;\n            {rule}\n          }}\n        }}\n"
    )
}

/// Checks the failures of a verification with these other rules, and its page.
fn in_a_lab(text: &str, check: impl FnOnce(&[Disagreement], &str)) {
    testing::privileged(|| {
        let options = Options::default();
        let verified = verify(&[with_other_rules(text)], &options, &|_| {}).remove(0);
        let page = page(&verified, &options, Settings::default());
        let verification = verified.result.unwrap_or_else(|_| panic!("{page}"));
        let failures: Vec<_> = verification.failures(&options).map(|finding| finding.disagreement).collect();
        check(&failures, &page);
    });
}

/// A kernel that differs because of a setting is no error of svclab without a word about the setting.
#[test]
fn settings_that_are_not_predicted_are_named() {
    let sysctls = ", sysctls: {net.ipv4.ip_default_ttl: 1, net.ipv4.conf.all.rp_filter: 0}";
    let scenario = cluster(sysctls, "        *filter\n        COMMIT\n");
    let verified = verify(std::slice::from_ref(&scenario), &no_lab(), &|_| {}).remove(0);
    let notes = verified.result.map(|verification| verification.notes).unwrap_or_default();
    assert_eq!(notes, ["predictions ignore net.ipv4.ip_default_ttl=1 on node worker: only a lab shows the effect"]);
    testing::privileged(|| {
        let options = Options::default();
        let verified = verify(std::slice::from_ref(&scenario), &options, &|_| {}).remove(0);
        let page = page(&verified, &options, Settings::default());
        let verification = verified.result.unwrap_or_else(|_| panic!("{page}"));
        assert!(verification.failures(&options).count() > 0, "{page}");
        let expected =
            "predictions ignore net.ipv4.ip_default_ttl=1 on node worker, which may be why the kernel contradicts them";
        assert_eq!(verification.notes, [expected], "{page}");
    });
}

/// Rules that are not modelled, and that only flows meet for which nothing is promised.
#[test]
fn unknown_rules_that_no_service_meets_do_not_fail() {
    let rules = "        table inet f {\n          chain c {\n            type filter hook input priority 0;\n            \
                 tcp dport 22 ct state new ip ttl 64 counter\n          }\n        }\n";
    testing::privileged(|| {
        let options = Options::default();
        let verified = verify(&[with_other_rules(rules)], &options, &|_| {}).remove(0);
        let page = page(&verified, &options, Settings::default());
        let verification = verified.result.unwrap_or_else(|_| panic!("{page}"));
        assert_eq!(verification.failures(&options).count(), 0, "{page}");
    });
}

/// A cluster with rules of another program on one of its nodes.
fn with_other_rules(text: &str) -> Scenario {
    cluster("", text)
}

/// The same, with more fields of the node.
fn cluster(fields: &str, text: &str) -> Scenario {
    let scenario = format!(
        "name: other rules\ncluster: {{podCIDR: 10.244.0.0/16}}\nnodes:\n  - {{name: worker, ip: 172.18.0.2{fields}}}\n  - {{name: worker2, ip: 172.18.0.3}}\n\
         pods:\n  - {{name: client, node: worker}}\n  - {{name: near, node: worker}}\n  - {{name: web, node: worker2}}\n\
         services:\n  - name: web\n    type: NodePort\n    ports:\n      - {{name: http, port: 80, targetPort: 8080, nodePort: 30080}}\n\
         \x20     - {{name: dns, port: 53, protocol: UDP}}\n      - {{name: sig, port: 90, protocol: SCTP}}\n\
         endpoints:\n  - {{service: web, pods: [near, web]}}\nhosts:\n  - {{name: outside, ip: 203.0.113.10}}\n\
         rules:\n  worker:\n    - install: before\n      text: |\n{text}\
         tests:\n  - {{name: t, probe: {{from: pod/client, to: 'service/web:http'}}, expect: {{delivered: [pod/near, pod/web]}}}}\n"
    );
    let nothing = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    scenario::parse(&scenario, Path::new("s.yaml"), &nothing).unwrap_or_else(|errors| panic!("{errors}"))
}
