//! Hand-written mutations of kube-proxy's rules that change traffic: `verify` must detect all of them by promise and prediction alone.

use std::path::Path;
use std::sync::Arc;

use rstest::rstest;
use svclab::input::Span;
use svclab::page::Settings;
use svclab::scenario::{self, Install, OtherRules, Place, Scenario};
use svclab::verify::{Options, page, verify};
use svclab_rules::cluster::{Family, ProxyMode};
use svclab_rules::ruleset::Rules;

/// A cluster with everything that the mutations change.
const CLUSTER: &str = "\
name: mutations
cluster: {podCIDR: 10.244.0.0/16}
nodes:
  - {name: worker, ip: 172.18.0.2, podCIDR: 10.244.1.0/24}
  - {name: worker2, ip: 172.18.0.3, podCIDR: 10.244.2.0/24}
pods:
  - {name: client-1, node: worker, ip: 10.244.1.2}
  - {name: client-2, node: worker, ip: 10.244.1.3}
  - {name: web, nodes: [worker, worker2], replicas: 3}
hosts:
  - {name: listed, ip: 203.0.113.10}
  - {name: other, ip: 192.0.2.10}
services:
  - {name: sticky, clusterIP: 10.96.0.80, sessionAffinity: ClientIP, ports: [{port: 80, targetPort: 8080}]}
  - name: web
    type: LoadBalancer
    clusterIP: 10.96.0.81
    loadBalancerIPs: [198.51.100.80]
    loadBalancerSourceRanges: [203.0.113.0/24]
    ports: [{port: 80, targetPort: 8080, nodePort: 30080}]
  - {name: empty, type: NodePort, clusterIP: 10.96.0.82, ports: [{port: 80, nodePort: 30082}]}
endpoints:
  - {service: sticky, pods: [web]}
  - {service: web, pods: [web]}
";

fn cluster(mode: ProxyMode) -> Scenario {
    let text = match mode {
        ProxyMode::Iptables => CLUSTER.to_owned(),
        ProxyMode::Nftables => {
            CLUSTER.replace("podCIDR: 10.244.0.0/16}", "podCIDR: 10.244.0.0/16, proxy: {mode: nftables}}")
        }
    };
    let no_file = |_: &Path| Err(std::io::Error::other("no other file"));
    let parsed = scenario::parse_with(&text, Path::new("mutations.yaml"), &no_file, scenario::Tests::Optional);
    parsed.unwrap_or_else(|errors| panic!("{errors}"))
}

/// Verifies the cluster with other rules than kube-proxy's on a node.
fn verified(mode: ProxyMode, mutate: impl Fn(&str) -> String) -> Result<(), String> {
    let mut scenario = cluster(mode);
    let documents = svclab::documents::generate(&scenario, &scenario.cluster).unwrap();
    let own = documents.iter().find(|one| one.netns == "node/worker" && one.family == Family::Ipv4).unwrap();
    let text = if mode == ProxyMode::Iptables { own.rules.print() } else { own.rules.print_sync() };
    let mutated = mutate(&text);
    let rules = Rules::parse(mode, Family::Ipv4, &mutated).unwrap_or_else(|errors| panic!("{errors:?}\n{mutated}"));
    scenario.rules.push(OtherRules {
        place: Place::Node("worker".to_owned()),
        family: Family::Ipv4,
        rules: Arc::new(rules),
        origin: Span::start_of(&scenario.file),
        install: Install::Instead,
    });
    let options = Options { no_lab: true, ..Options::default() };
    let verified = verify(std::slice::from_ref(&scenario), &options, &|_| {}).remove(0);
    let text = page(&verified, &options, Settings::default());
    if verified.holds(&options) { Ok(()) } else { Err(text) }
}

/// Changes the first line that has all of these words.
fn change(text: &str, words: &[&str], change: impl Fn(&str) -> String) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let line = lines.iter_mut().find(|line| words.iter().all(|word| line.contains(word)));
    let line = line.unwrap_or_else(|| panic!("{words:?} is in no line of\n{text}"));
    *line = change(line);
    lines.join("\n") + "\n"
}

/// Inserts a rule before the first line that has all of these words; `CHAIN` stands for that line's chain.
fn insert(text: &str, words: &[&str], rule: &str) -> String {
    change(text, words, |line| {
        let chain = line.split(' ').nth(1).unwrap_or_default();
        format!("{}\n{line}", rule.replace("CHAIN", chain))
    })
}

#[rstest]
#[case::iptables(ProxyMode::Iptables)]
#[case::nftables(ProxyMode::Nftables)]
fn kube_proxys_own_rules_are_right(#[case] mode: ProxyMode) {
    verified(mode, str::to_owned).unwrap_or_else(|page| panic!("{page}"));
}

#[rstest]
#[case::affinity_is_not_noted(&["KUBE-SEP", "--set --name"], " -m recent --set", None)]
#[case::affinity_is_too_short(&["--rcheck"], "--seconds 10800", Some("--seconds 60"))]
#[case::affinity_is_too_long(&["--rcheck"], "--seconds 10800", Some("--seconds 20000"))]
#[case::affinity_of_many_noted(&["--set --name"], "--mask 255.255.255.255", Some("--mask 255.255.0.0"))]
#[case::affinity_of_many_checked(&["--rcheck"], "--mask 255.255.255.255", Some("--mask 255.255.0.0"))]
#[case::affinity_by_destination(&["--set --name"], "--rsource", Some("--rdest"))]
#[case::affinity_checked_by_destination(&["--rcheck"], "--rsource", Some("--rdest"))]
#[case::source_range_is_wider(&["KUBE-FW", "203.0.113.0/24"], "203.0.113.0/24", Some("203.0.112.0/22"))]
#[case::source_range_is_narrower(&["KUBE-FW", "203.0.113.0/24"], "203.0.113.0/24", Some("203.0.113.0/25"))]
#[case::counted_instead_of_random(&["KUBE-SVC", "0.50000000000"], "--mode random --probability 0.50000000000", Some("--mode nth --every 2 --packet 0"))]
#[case::probability(&["KUBE-SVC", "0.50000000000"], "0.50000000000", Some("0.40000000000"))]
#[case::masquerade_of_fewer(&["KUBE-SVC", "! -s 10.244.0.0/16"], "10.244.0.0/16", Some("10.244.0.0/15"))]
#[case::affinity_of_another_noted(&["KUBE-SEP-IBHV", "--set --name"], "--name KUBE-SEP-IBHVSYI3CZUQBJM7", Some("--name KUBE-SEP-6VSJZUSQZX2522B5"))]
#[case::affinity_of_another_checked(&["--rcheck", "10.244.1.4"], "-j KUBE-SEP-IBHVSYI3CZUQBJM7", Some("-j KUBE-SEP-6VSJZUSQZX2522B5"))]
#[case::invalid_replies_are_accepted(&["KUBE-FORWARD", "INVALID"], "-j DROP", Some("-j ACCEPT"))]
#[case::invalid_replies_of_another_mark(&["KUBE-FORWARD", "INVALID"], "-j DROP", Some("-m mark --mark 0x8000/0x8000 -j DROP"))]
#[case::invalid_replies_of_another_source(&["KUBE-FORWARD", "INVALID"], "-j DROP", Some("-s 10.244.2.0/24 -j DROP"))]
#[case::another_endpoint(&["KUBE-SEP", "DNAT", "10.244.1.4"], "10.244.1.4:8080", Some("10.244.1.2:8080"))]
#[case::another_port_of_the_endpoint(&["KUBE-SEP", "DNAT", "10.244.1.4"], "10.244.1.4:8080", Some("10.244.1.4:8081"))]
#[case::no_port_of_the_endpoint(&["KUBE-SEP", "DNAT", "10.244.1.4"], "10.244.1.4:8080", Some("10.244.1.4"))]
#[case::another_port_of_the_service(&["KUBE-SERVICES", "10.96.0.81/32"], "--dport 80", Some("--dport 81"))]
#[case::another_cluster_ip(&["KUBE-SERVICES", "10.96.0.81/32"], "10.96.0.81/32", Some("10.96.0.91/32"))]
#[case::neighbours_of_the_cluster_ip(&["KUBE-SERVICES", "10.96.0.81/32"], "10.96.0.81/32", Some("10.96.0.81/255.255.255.127"))]
#[case::chains_of_another_service(&["KUBE-SERVICES", "10.96.0.81/32"], "KUBE-SVC-LOLE4ISW44XBNF3G", Some("KUBE-SVC-BJWR5DPVIKTHVKZU"))]
#[case::another_node_port(&["KUBE-NODEPORTS", "30080"], "--dport 30080", Some("--dport 30081"))]
#[case::all_to_the_first_endpoint(&["KUBE-SVC-LOLE", "0.33333333349"], "-m statistic --mode random --probability 0.33333333349 ", Some(""))]
#[case::an_endpoint_twice(&["KUBE-SVC-LOLE", "0.50000000000"], "KUBE-SEP-XQWD6PXGZUTOOIVQ", Some("KUBE-SEP-4EFWFBAFH3CG7QWO"))]
#[case::all_are_masqueraded(&["KUBE-POSTROUTING", "! --mark"], "! --mark 0x4000/0x4000", Some("--mark 0x80000/0x80000"))]
#[case::another_mark(&["KUBE-MARK-MASQ", "--set-xmark"], "0x4000/0x4000", Some("0x8000/0x8000"))]
#[case::rejected_in_another_way(&["KUBE-SERVICES", "10.96.0.82/32"], "-j REJECT --reject-with icmp-port-unreachable", Some("-j DROP"))]
#[case::local_masquerade_of_more(&["KUBE-SVC-LOLE", "! -s 10.244.0.0/16"], "! -s 10.244.0.0/16 ", Some(""))]
#[case::hairpin_of_another(&["KUBE-SEP", "-s 10.244.1.4/32"], "10.244.1.4/32", Some("10.244.1.6/32"))]
fn rules_of_iptables_with_another_value(#[case] words: &[&str], #[case] old: &str, #[case] new: Option<&str>) {
    let replaced = |line: &str| match new {
        Some(new) => line.replace(old, new),
        // Without the match and its options.
        None => {
            let start = line.find(old).unwrap();
            let end = line.find("--rsource").unwrap() + "--rsource".len();
            format!("{}{}", &line[..start], &line[end..])
        }
    };
    let mutate = |text: &str| {
        let mutated = change(text, words, replaced);
        assert_ne!(mutated, text);
        mutated
    };
    assert!(verified(ProxyMode::Iptables, mutate).is_err(), "nothing is noticed");
}

#[rstest]
#[case::services_of_pods(&["-A PREROUTING", "-j KUBE-SERVICES"])]
#[case::services_of_processes(&["-A OUTPUT -m comment", "-j KUBE-SERVICES"])]
#[case::masquerade(&["-j MASQUERADE"])]
#[case::jump_to_masquerade(&["-j KUBE-POSTROUTING"])]
#[case::mark_of_masquerade(&["-A KUBE-MARK-MASQ", "-j MARK"])]
#[case::node_ports(&["-A KUBE-SERVICES", "-j KUBE-NODEPORTS"])]
#[case::a_cluster_ip(&["-A KUBE-SERVICES", "10.96.0.81/32"])]
#[case::a_load_balancer(&["-A KUBE-SERVICES", "198.51.100.80/32"])]
#[case::a_node_port(&["-A KUBE-NODEPORTS", "30080"])]
#[case::an_endpoint(&["-A KUBE-SVC-LOLE", "0.50000000000"])]
#[case::the_last_endpoint(&["-A KUBE-SVC-LOLE", "-j KUBE-SEP-5Q3P56IRA2PP7VYF"])]
#[case::translation(&["-A KUBE-SEP-4EFW", "-j DNAT"])]
#[case::masquerade_of_hairpin(&["-A KUBE-SEP-4EFW", "-j KUBE-MARK-MASQ"])]
#[case::masquerade_of_external_clients(&["-A KUBE-EXT", "-j KUBE-MARK-MASQ"])]
#[case::masquerade_of_strangers(&["-A KUBE-SVC-LOLE", "-j KUBE-MARK-MASQ"])]
#[case::source_range(&["-A KUBE-FW-LOLE", "203.0.113.0/24"])]
#[case::drop_of_other_sources(&["-A KUBE-PROXY-FIREWALL", "-j DROP"])]
#[case::rejection_of_a_cluster_ip(&["-A KUBE-SERVICES", "10.96.0.82/32", "REJECT"])]
#[case::rejection_of_a_node_port(&["-A KUBE-EXTERNAL-SERVICES", "30082", "REJECT"])]
#[case::rejection_for_pods(&["-A FORWARD", "-j KUBE-SERVICES"])]
#[case::affinity_of_one_endpoint(&["-A KUBE-SVC-BJWR", "--rcheck", "10.244.1.5"])]
#[case::drop_of_invalid_replies(&["-A KUBE-FORWARD", "INVALID"])]
#[case::jump_to_the_drop_of_invalid_replies(&["-A FORWARD", "-j KUBE-FORWARD"])]
fn rules_of_iptables_without(#[case] words: &[&str]) {
    assert!(
        verified(ProxyMode::Iptables, |text| change(text, words, |_| String::new())).is_err(),
        "nothing is noticed"
    );
}

#[rstest]
#[case::high_source_ports(&["-A KUBE-SVC", "10.96.0.81/32"], "-A CHAIN -p tcp -m tcp --sport 1024:65535 -j RETURN")]
#[case::low_source_ports(&["-A KUBE-SVC", "10.96.0.81/32"], "-A CHAIN -p tcp -m tcp --sport 1:1023 -j RETURN")]
#[case::most_source_ports(&["-A KUBE-SVC", "10.96.0.81/32"], "-A CHAIN -p tcp -m tcp --sport 1:59999 -j RETURN")]
#[case::one_source_port(&["-A KUBE-SVC", "10.96.0.81/32"], "-A CHAIN -p tcp -m tcp --sport 40000 -j RETURN")]
#[case::limited(&["-A KUBE-FORWARD"], "-A CHAIN -m limit --limit 10/sec -j RETURN")]
#[case::limited_drop(&["-A KUBE-SERVICES", "10.96.0.81/32"], "-A CHAIN -d 10.96.0.81/32 -m limit --limit 10/sec -j RETURN")]
#[case::pushed_segments(&["-A FORWARD"], "-A CHAIN -p tcp -m tcp --tcp-flags PSH PSH -j DROP")]
#[case::last_segments(&["-A FORWARD"], "-A CHAIN -p tcp -m tcp --tcp-flags FIN FIN -j DROP")]
#[case::resets(&["-A FORWARD"], "-A CHAIN -p tcp -m tcp --tcp-flags RST RST -j DROP")]
#[case::resets_with_ack(&["-A FORWARD"], "-A CHAIN -p tcp -m tcp --tcp-flags RST,ACK RST,ACK -j DROP")]
#[case::a_part_of_the_clients(&["-A KUBE-SVC", "10.96.0.81/32"], "-A CHAIN -s 10.244.1.3/32 -j RETURN")]
#[case::by_chance(&["-A KUBE-SVC", "10.96.0.81/32"], "-A CHAIN -m statistic --mode random --probability 0.001 -j RETURN")]
#[case::every_second(&["-A KUBE-SVC", "10.96.0.81/32"], "-A CHAIN -m statistic --mode nth --every 2 --packet 0 -j RETURN")]
#[case::established(&["-A KUBE-FORWARD", "0x4000"], "-A CHAIN -m conntrack --ctstate ESTABLISHED -j DROP")]
#[case::replies(&["-A KUBE-FORWARD", "0x4000"], "-A CHAIN -m conntrack --ctdir REPLY -j DROP")]
#[case::established_of_one_client(&["-A KUBE-FORWARD", "0x4000"], "-A CHAIN -s 10.244.1.3/32 -m conntrack --ctstate ESTABLISHED -j DROP")]
#[case::pushed_replies(&["-A FORWARD"], "-A CHAIN -s 10.244.0.0/16 -p tcp -m tcp --sport 8080 --tcp-flags PSH PSH -j DROP")]
#[case::half_of_outside(&["-A KUBE-EXT"], "-A CHAIN -s 0.0.0.0/1 -j RETURN")]
fn one_more_rule_of_iptables(#[case] words: &[&str], #[case] rule: &str) {
    assert!(verified(ProxyMode::Iptables, |text| insert(text, words, rule)).is_err(), "nothing is noticed");
}

#[rstest]
#[case::source_range_is_wider(&["203.0.113.0/24"], "203.0.113.0/24", "203.0.112.0/22")]
#[case::source_range_is_narrower(&["203.0.113.0/24"], "203.0.113.0/24", "203.0.113.0/25")]
#[case::affinity_is_not_noted(&["update @affinity"], "update @affinity", "# update @affinity")]
#[case::affinity_is_too_short(&["timeout 3h"], "timeout 3h", "timeout 1m")]
#[case::affinity_of_another(&["ip saddr @affinity-LET675FS"], "goto endpoint-LET675FS-default/sticky/tcp/__10.244.1.4/8080", "goto endpoint-H3W2JPS2-default/sticky/tcp/__10.244.2.2/8080")]
#[case::affinity_is_not_checked(&["ip saddr @affinity-LET675FS"], "ip saddr @affinity", "# ip saddr @affinity")]
#[case::affinity_by_destination(&["update @affinity-LET675FS"], "{ ip saddr }", "{ ip daddr }")]
#[case::counted_instead_of_random(&["numgen random mod 3", "endpoint-DV4N67I3"], "numgen random", "numgen inc")]
#[case::shares(&["numgen random mod 3", "endpoint-DV4N67I3"], "numgen random mod 3", "numgen random mod 2")]
#[case::another_endpoint(&["dnat to 10.244.1.4:8080"], "10.244.1.4:8080", "10.244.1.2:8080")]
#[case::another_port_of_the_endpoint(&["dnat to 10.244.1.4:8080"], "10.244.1.4:8080", "10.244.1.4:8081")]
#[case::masquerade(&["masquerade fully-random"], "masquerade fully-random", "# masquerade")]
#[case::mark_of_masquerade(&["meta mark set meta mark | 0x00004000"], "0x00004000", "0x00008000")]
#[case::masquerade_of_hairpin(&["ip saddr 10.244.1.4 jump mark-for-masquerade"], "ip saddr", "# ip saddr")]
#[case::masquerade_of_external_clients(&["\tjump mark-for-masquerade"], "jump", "# jump")]
#[case::masquerade_of_fewer(&["ip saddr != 10.244.0.0/16"], "10.244.0.0/16", "10.244.0.0/15")]
#[case::services(&["\tjump services"], "jump services", "# jump services")]
#[case::cluster_ips(&["vmap @service-ips"], "ip daddr", "# ip daddr")]
#[case::node_ports(&["vmap @service-nodeports"], "ip daddr", "# ip daddr")]
#[case::node_ports_of_another_address(&["172.18.0.2"], "172.18.0.2", "172.18.0.9")]
#[case::firewall(&["ip saddr != 203.0.113.0/24 drop"], "ip saddr", "# ip saddr")]
#[case::firewall_of_forwarded(&["ct state new jump firewall-check"], "ct state", "# ct state")]
#[case::rejection_of_other_ports(&["ip daddr @cluster-ips reject"], "ip daddr", "# ip daddr")]
#[case::rejection_of_a_node_port(&["ct state new jump nodeport-endpoints-check"], "ct state", "# ct state")]
#[case::established(&["ct state new jump cluster-ips-check"], "ct state new", "ct state established drop\n\t\tct state new")]
fn rules_of_nftables_with_another_value(#[case] words: &[&str], #[case] old: &str, #[case] new: &str) {
    // The document names a set twice: once to create it, once with all of its properties.
    let changed = |line: &str| match words.iter().all(|word| line.contains(word)) {
        true => line.replace(old, new) + "\n",
        false => line.to_owned() + "\n",
    };
    let mutate = |text: &str| {
        let mutated: String = text.lines().map(changed).collect();
        assert_ne!(mutated, text, "{text}");
        mutated
    };
    assert!(verified(ProxyMode::Nftables, mutate).is_err(), "nothing is noticed");
}
