use rstest::rstest;

use super::Infer;
use crate::cluster::Family;
use crate::iptables::parse;

/// A service port's rules are read back whatever chains they are in.
#[test]
fn a_service_is_read_from_its_rules() {
    let text = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-NODEPORTS - [0:0]\n:KUBE-SVC-CDGGSHYLG3RE2FKL - [0:0]\n\
        :KUBE-SEP-GWQABTP5GBYXHJY5 - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n\
        -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
        -A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"default/web:http cluster IP\" -m tcp --dport 80 \
        -j KUBE-SVC-CDGGSHYLG3RE2FKL\n\
        -A KUBE-NODEPORTS -p tcp -m comment --comment \"default/web:http\" -m tcp --dport 30080 -j KUBE-SVC-CDGGSHYLG3RE2FKL\n\
        -A KUBE-SVC-CDGGSHYLG3RE2FKL ! -s 10.244.0.0/16 -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-MARK-MASQ\n\
        -A KUBE-SVC-CDGGSHYLG3RE2FKL -j KUBE-SEP-GWQABTP5GBYXHJY5\n\
        -A KUBE-SEP-GWQABTP5GBYXHJY5 -p tcp -m tcp -j DNAT --to-destination 10.244.1.10:8080\nCOMMIT\n";
    let shown = parse(text, Family::Ipv4).expect("rules").rules.infer();
    let [port] = shown.ports.as_slice() else { panic!("{shown:?}") };
    assert_eq!((port.service.to_string().as_str(), port.name.as_str(), port.port), ("default/web", "http", Some(80)));
    assert_eq!(port.node_port, Some(30080));
    assert!(port.endpoints.contains(&"10.244.1.10:8080".parse().expect("an address")) && port.endpoints.len() == 1);
    assert_eq!(shown.proxy.masquerade_bit(), Some(14));
    assert!(shown.proxy.local_sources.contains(&"10.244.0.0/16".parse().expect("a range")));
    assert!(!shown.proxy.masquerades_all);
}

/// Health checks without comments: as many rules as the service has ports say whose they are.
#[test]
fn health_checks_without_comments_are_those_of_load_balancers_with_policy_local() {
    let of_port = |hash: char, last: u8, port: u16| {
        let hash: String = [hash; 16].iter().collect();
        format!(
            "-A KUBE-SERVICES -d 10.96.0.{last}/32 -p tcp -m tcp --dport {port} -j KUBE-SVC-{hash}\n\
             -A KUBE-SERVICES -d 203.0.113.{last}/32 -p tcp -m tcp --dport {port} -j KUBE-FW-{hash}\n\
             -A KUBE-FW-{hash} -j KUBE-XLB-{hash}\n-A KUBE-XLB-{hash} -j KUBE-SEP-{hash}\n"
        )
    };
    let chains: String = ["A", "B", "C"]
        .iter()
        .flat_map(|hash| ["SVC", "FW", "XLB", "SEP"].map(|kind| format!(":KUBE-{kind}-{} -\n", hash.repeat(16))))
        .collect();
    let text = format!(
        "*filter\n:KUBE-NODEPORTS -\n-A KUBE-NODEPORTS -p tcp -m tcp --dport 32100 -j ACCEPT\n\
         -A KUBE-NODEPORTS -p tcp -m tcp --dport 32200 -j ACCEPT\n-A KUBE-NODEPORTS -p tcp -m tcp --dport 32200 -j ACCEPT\n\
         COMMIT\n*nat\n:KUBE-SERVICES -\n{chains}{}{}{}COMMIT\n",
        of_port('A', 1, 80),
        of_port('B', 1, 443),
        of_port('C', 2, 80)
    );
    let shown = parse(&text, Family::Ipv4).expect("rules").rules.infer();
    let checks: Vec<Option<u16>> = shown.ports.iter().map(|port| port.health_check).collect();
    assert_eq!(checks, [Some(32200), Some(32200), Some(32100)]);
}

/// The bit that most rules use is the masquerade bit: one of them may be wrong.
#[test]
fn the_masquerade_bit_is_that_of_most_rules() {
    let text = "*nat\n:KUBE-MARK-MASQ -\n:KUBE-POSTROUTING -\n-A KUBE-MARK-MASQ -j MARK --set-xmark 0x8000/0x8000\n\
        -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
        -A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0\nCOMMIT\n";
    let shown = parse(text, Family::Ipv4).expect("rules").rules.infer();
    assert_eq!(shown.proxy.masquerade_bit(), Some(14));
}

/// A chain of source ranges that leads on from any source is that of a range of all addresses, if it has others too, or if the release writes
/// such chains for source ranges only.
#[rstest]
#[case::of_ranges("-A KUBE-FW-X -j KUBE-SVC-X\n-A KUBE-FW-X -s 192.0.2.0/24 -j KUBE-SVC-X\n", &["0.0.0.0/0", "192.0.2.0/24"])]
#[case::from_1_24("-A KUBE-FW-X -j KUBE-EXT-X\n", &["0.0.0.0/0"])]
#[case::without_ranges("-A KUBE-FW-X -j KUBE-MARK-MASQ\n-A KUBE-FW-X -j KUBE-SVC-X\n-A KUBE-FW-X -j KUBE-MARK-DROP\n", &[])]
fn source_ranges_may_be_all_addresses(#[case] rules: &str, #[case] expected: &[&str]) {
    let text =
        format!("*nat\n:KUBE-FW-X -\n:KUBE-SVC-X -\n:KUBE-EXT-X -\n{rules}COMMIT\n").replace("-X", "-CDGGSHYLG3RE2FKL");
    let shown = parse(&text, Family::Ipv4).expect("rules").rules.infer();
    let mut ranges: Vec<String> = shown.ports[0].source_ranges.iter().map(ToString::to_string).collect();
    ranges.sort();
    assert_eq!(ranges, expected);
}

/// Of an address in an excerpt of nftables nothing says whether it is a cluster IP, but a drop is that of an external policy.
#[rstest]
#[case::dropped("drop", "", (false, true))]
#[case::rejected("goto reject-chain", "", (true, false))]
#[case::known("drop", "set cluster-ips {\ntype ipv4_addr\nelements = { 10.88.1.2 }\n}\n", (true, false))]
fn a_dropped_address_is_external(#[case] verdict: &str, #[case] more: &str, #[case] expected: (bool, bool)) {
    let map = format!(
        "map no-endpoint-services {{\ntype ipv4_addr . inet_proto . inet_service : verdict\n\
         elements = {{ 10.88.1.2 . tcp . 80 comment \"default/lb\" : {verdict} }}\n}}\n"
    );
    let text = format!("table ip kube-proxy {{\n{more}{map}chain reject-chain {{\nreject\n}}\n}}\n");
    let shown = crate::nftables::parse(&text).expect("rules").rules.infer();
    let [port] = shown.ports.as_slice() else { panic!("{shown:?}") };
    assert_eq!((!port.cluster_ips.is_empty(), port.is_external_local), expected);
    assert_eq!(port.is_internal_local, verdict == "drop" && !more.is_empty());
}

/// A chain that drops says by itself that all endpoints are on other nodes.
#[test]
fn a_chain_that_drops_is_enough_to_place_endpoints_elsewhere() {
    let text = "*nat\n:KUBE-XLB-CDGGSHYLG3RE2FKL -\n\
        -A KUBE-XLB-CDGGSHYLG3RE2FKL -m comment --comment \"default/web:http has no local endpoints\" -j KUBE-MARK-DROP\n\
        COMMIT\n";
    let shown = parse(text, Family::Ipv4).expect("rules").rules.infer();
    let [port] = shown.ports.as_slice() else { panic!("{shown:?}") };
    assert!(port.has_endpoints_elsewhere && port.unshown_endpoints.is_empty(), "{port:?}");
}

/// The text may end before the map of Services: an address that is left over is that of the Service that has none.
#[rstest]
#[case::one("fd00:96::10", &["fd00:96::10"])]
#[case::two("fd00:96::10, fd00:96::11", &[])]
fn a_lone_cluster_ip_is_that_of_the_service_without_one(#[case] listed: &str, #[case] expected: &[&str]) {
    let text = format!(
        "table ip6 kube-proxy {{\nset cluster-ips {{\ntype ipv6_addr\nelements = {{ {listed} }}\n}}\n\
         map no-endpoint-nodeports {{\ntype inet_proto . inet_service : verdict\n\
         elements = {{ tcp . 30080 comment \"default/web:http\" : drop }}\n}}\n}}\n"
    );
    let shown = crate::nftables::parse(&text).expect("rules").rules.infer();
    let [port] = shown.ports.as_slice() else { panic!("{shown:?}") };
    let known: Vec<String> = port.cluster_ips.iter().map(ToString::to_string).collect();
    assert_eq!((known, port.node_port), (expected.iter().map(ToString::to_string).collect(), Some(30080)));
}

/// The hash in the name of an endpoint's chain says that the name is kube-proxy's: its rule is wrong, not the name.
#[rstest]
#[case::same("endpoint-QJHVFVF2-default/web/tcp/http__10.244.3.10/8080", "10.244.3.10:8080", "10.244.3.10:8080")]
#[case::other_port("endpoint-QJHVFVF2-default/web/tcp/http__10.244.3.10/8080", "10.244.3.10:8081", "10.244.3.10:8080")]
#[case::other_address(
    "endpoint-QJHVFVF2-default/web/tcp/http__10.244.3.10/8080",
    "10.244.3.11:8080",
    "10.244.3.10:8080"
)]
#[case::edited("endpoint-QJHVFVF2-default/web/tcp/http__10.244.9.9/8080", "10.244.3.10:8081", "10.244.3.10:8081")]
fn the_endpoint_is_the_one_in_the_name_of_its_chain(#[case] chain: &str, #[case] to: &str, #[case] expected: &str) {
    let text = format!(
        "table ip kube-proxy {{\nchain {chain} {{\nmeta l4proto tcp dnat to {to}\n}}\n\
         chain service-SUSTUHLJ-default/web/tcp/http {{\nnumgen random mod 1 vmap {{ 0 : goto {chain} }}\n}}\n\
         chain last {{\n}}\n}}\n"
    );
    let shown = crate::nftables::parse(&text).expect("rules").rules.infer();
    let [port] = shown.ports.as_slice() else { panic!("{shown:?}") };
    assert_eq!(port.endpoints.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}

/// Chains of removed endpoints stay for a while in large clusters.
#[rstest]
#[case::small(0, 2)]
#[case::large(1_000, 1)]
fn an_endpoint_without_a_jump_has_lost_it_unless_the_cluster_is_large(#[case] others: usize, #[case] expected: usize) {
    let others: String = (0..others).map(|number| format!(":KUBE-SEP-{number:016} -\n")).collect();
    let text = format!(
        "*nat\n:KUBE-SVC-CDGGSHYLG3RE2FKL -\n:KUBE-SEP-GWQABTP5GBYXHJY5 -\n:KUBE-SEP-IQIBSY2R4USWK4F3 -\n{others}\
         -A KUBE-SVC-CDGGSHYLG3RE2FKL -m comment --comment \"default/web:http\" -j KUBE-SEP-GWQABTP5GBYXHJY5\n\
         -A KUBE-SEP-GWQABTP5GBYXHJY5 -p tcp -m comment --comment \"default/web:http\" -m tcp -j DNAT --to-destination 10.244.1.10:8080\n\
         -A KUBE-SEP-IQIBSY2R4USWK4F3 -p tcp -m comment --comment \"default/web:http\" -m tcp -j DNAT --to-destination 10.244.2.10:8080\nCOMMIT\n"
    );
    let rules = parse(&text, Family::Ipv4).expect("rules").rules;
    let endpoints = |inferred: super::Inferred| inferred.ports.iter().map(|port| port.endpoints.len()).sum::<usize>();
    assert_eq!(endpoints(rules.infer_covered(&crate::coverage::Coverage::all())), expected);
    // In an excerpt, the rule may be one that is not shown.
    assert_eq!(endpoints(rules.infer()), 1);
    let lost = crate::cascade::cascades(&rules).iter().map(|cascade| cascade.defects.len()).sum::<usize>();
    assert_eq!(lost, expected - 1);
}
