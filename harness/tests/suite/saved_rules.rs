//! Saved rules alone: the assumptions for recordings of real kube-proxies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;

use proptest::collection::vec;
use proptest::prelude::*;
use rstest::rstest;
use svclab::page::Settings;
use svclab::verify::{Options, page, verify};
use svclab::{evidence, infer, input, testing};
use svclab_rules::cluster::{
    Cluster, DetectLocal, Endpoint, EndpointPort, EndpointSlice, ExternalTrafficPolicy, Family, InternalTrafficPolicy,
    Node, ObjectName, Protocol, ProxyMode, Service, ServicePort, ServiceType,
};
use svclab_rules::{iptables, nftables};

use crate::assumptions;
use crate::each_file::each_file;

/// The scenario of a text.
fn from_rules(text: &str, file: &Path) -> Result<infer::Assumed, input::Diagnostics> {
    infer::from_evidence(&evidence::read(text), file, &[], infer::Connections::LeftOut)
}

/// The assumptions for a file.
fn assumed(file: &Path) -> Result<Vec<String>, String> {
    let text = input::read_file(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    from_rules(&text, file).map(|assumed| assumptions(&assumed)).map_err(|errors| errors.to_string())
}

/// The clusters without a Service that rules are written for.
const WITHOUT_SERVICES: [&str; 3] = ["external-name", "headless", "nothing"];

/// The clusters whose sync fails in nftables mode, with the start of the release's folder where it does not in all.
const FAILING: [&str; 5] = [
    "config-local-prefix/v1.30",
    "config-local-prefix/v1.32",
    "config-local-prefix/v1.34",
    "long-names/",
    "long-names-no-endpoints/",
];

/// The clusters that have Services of IPv6, and the one that has none of IPv4.
const WITH_IPV6: [&str; 6] = [
    "config-nodeport-addresses-primary",
    "dual-stack",
    "dual-stack-healthcheck",
    "dual-stack-loadbalancer",
    "ip-families-empty",
    ONLY_IPV6,
];
const ONLY_IPV6: &str = "ipv6-only";

/// Whether a recording has no rule for a Service.
pub(crate) fn is_without_services(recording: &Path) -> bool {
    let parts: Vec<&str> = recording.iter().filter_map(|part| part.to_str()).collect();
    let [.., cluster, folder, file] = parts.as_slice() else { panic!("{}", recording.display()) };
    let is_lacking = match *file {
        "iptables-save.txt" => *cluster == ONLY_IPV6,
        "ip6tables-save.txt" => !WITH_IPV6.contains(cluster),
        _ => FAILING.iter().any(|failing| format!("{cluster}/{folder}").starts_with(failing)),
    };
    is_lacking || WITHOUT_SERVICES.contains(cluster)
}

/// Parts of the paths of recordings that do not contain enough to write the same rules: external IPs disabled by a gate.
const UNREPORTED: [&str; 1] = ["/external-ips-off/v1.36"];

/// Parts of the paths of recordings of clusters that have other rules.
const INDISTINCT: [&str; 2] = ["/topology-hints-external-local/", "loadbalancer-source-ranges"];

/// For the objects inferred from a recording, svclab writes the same rules again. Exceptions are properties that rules do not show:
/// endpoints that serve policy Local and not Cluster by topology hints, that no node port is served in iptables mode but on loopback
/// addresses, for which a lost rule is the likelier reason, and the node's own address, by which some releases write source ranges.
/// Clusters without rules for a Service are listed, and so are recordings for which other rules are known to be written.
#[test]
fn the_same_rules_are_written_for_what_is_assumed() {
    each_file(&["../rules/tests/golden/*/v*/*-save.txt", "../rules/tests/golden/*/v*/nft-ruleset.txt"], |file| {
        let path = file.to_string_lossy();
        let is_of_loopback = path.contains("/config-nodeport-addresses-loopback/") && path.contains("-iptables/");
        if !is_of_loopback && !INDISTINCT.iter().any(|cluster| path.contains(cluster)) {
            assert_same_rules_are_written(file);
        }
    });
}

fn assert_same_rules_are_written(file: &Path) {
    let is_of = |pattern: &&str| file.to_string_lossy().contains(pattern);
    let is_without_services = is_without_services(file);
    let is_unreported = UNREPORTED.iter().any(is_of);
    match assumed(file) {
        Ok(printed) => {
            assert!(!is_without_services, "a Service is found: {printed:#?}");
            let is_same = printed.iter().any(|words| words.contains("which generates the same rules"));
            assert_eq!(is_same, !is_unreported, "{printed:#?}");
        }
        Err(errors) => {
            assert!(errors.contains("no rules for a Service found"), "{errors}");
            assert!(is_without_services, "{}: {errors}", file.display());
        }
    }
}

/// Input from which no scenario can be inferred is an error with its place and the fix.
#[rstest]
#[case::no_service(
    "*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n",
    "no rules for a Service found",
    "on which kube-proxy runs"
)]
#[case::part(
    "-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000\n",
    "no rules for a Service found in iptables-save",
    "KUBE-SERVICES"
)]
#[case::heading(
    "Chain KUBE-SVC-2CMXP7HKUVJN7L6N (1 references)\ntarget prot opt source destination\n",
    "no rules for a Service found in iptables -L",
    "KUBE-SERVICES"
)]
#[case::listing(
    "Chain KUBE-SVC-FOO (1 references)\ntarget prot opt source destination\n",
    "no rules for a Service found in iptables -L",
    "KUBE-SERVICES"
)]
#[case::of_iptables_nft("table ip nat {\n}\n", "no Service found, only nft list ruleset", "`iptables-save`")]
#[case::without_nat(
    "*filter\n:KUBE-SERVICES - [0:0]\nCOMMIT\n",
    "no rules for a Service found in iptables-save",
    "are in table `nat`"
)]
#[case::broken("*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES --dport\nCOMMIT\n", ":3:", "`svclab dump show`")]
#[case::nothing("Dear maintainers,\nplease find attached", "neither rules nor Kubernetes objects", "iptables-save")]
fn what_shows_no_service_is_rejected(#[case] text: &str, #[case] message: &str, #[case] help: &str) {
    let rejected = from_rules(text, Path::new("rules.txt")).map(|assumed| assumptions(&assumed));
    let errors = rejected.map_err(|errors| errors.to_string()).expect_err("nothing can be assumed");
    assert!(errors.contains("rules.txt:") && errors.contains(message) && errors.contains(help), "{errors}");
}

/// The command prints its assumptions before its result.
#[test]
fn a_file_of_rules_is_verified_by_itself() {
    let file = "../rules/tests/golden/nodeport-local/v1.25-iptables/iptables-save.txt";
    let output =
        Command::new(env!("CARGO_BIN_EXE_svclab")).args(["verify", "-v", file]).output().expect("svclab starts");
    let (text, printed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("assumed: kube-proxy 1.25 or 1.26, which generates the same rules"), "{printed}");
    assert!(printed.contains("assumed: nodes: node-1 (pods in 10.244.1.0/24)"), "{printed}");
    assert_eq!(output.status.code(), Some(0), "{text}{printed}");
}

/// A finding in an unmodified recording would be a bug in svclab. Exceptions: a process that uses SCTP keeps its kernel from answering at a
/// closed port; a node of 1.36 does not masquerade packets that it sends back to another node's endpoint.
#[rstest]
#[case("sctp-everything/v1.32-nftables")]
#[case("sctp-everything/v1.36-nftables")]
#[case("nodeport-udp-local-none-here/v1.34-nftables")]
#[case("nodeport-udp-local-none-here/v1.36-nftables")]
#[case("affinity-udp/v1.36-nftables")]
#[case("nodeport-local/v1.36-nftables")]
#[case("clusterip-one-endpoint/v1.36-nftables")]
fn an_unmodified_recording_is_found_in_order(#[case] recording: &str) {
    let file = Path::new("../rules/tests/golden").join(recording).join("nft-ruleset.txt");
    let text = input::read_file(&file).unwrap();
    let assumed = from_rules(&text, &file).unwrap_or_else(|errors| panic!("{errors}"));
    testing::privileged(|| {
        let options = Options::default();
        let verified = verify(&[assumed.scenario], &options, &|_| {}).remove(0);
        assert!(verified.holds(&options), "{}", page(&verified, &options, Settings::default()));
    });
}

/// A result for some tables must not look like one for all of the node's rules.
#[test]
fn tables_that_were_not_verified_are_reported_with_the_result() {
    let file = "../rules/tests/golden/nodeport-local/v1.36-nftables/nft-ruleset.txt";
    let text = input::read_file(Path::new(file)).unwrap();
    let text = format!("{text}table inet fw {{\n\tchain forward {{\n\t\ttcp dport 8080 drop\n\t}}\n}}\n");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.nft");
    std::fs::write(&file, text).unwrap();
    for options in [&["verify"][..], &["verify", "-q"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_svclab")).args(options).arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.contains("not verified: 1 table other than kube-proxy's: inet fw (rules: 1)"),
            "{options:?}: {text}"
        );
        assert_eq!(output.status.code(), Some(0), "{text}");
    }
}

/// Typical address ranges of pods and Services in real clusters.
const RANGES: [[u8; 2]; 10] =
    [[10, 244], [10, 128], [10, 131], [10, 0], [10, 96], [172, 18], [172, 20], [192, 168], [100, 64], [203, 0]];

/// The n-th address of a range, in a family.
fn address(family: Family, [first, second]: [u8; 2], [third, last]: [u8; 2]) -> IpAddr {
    match family {
        Family::Ipv4 => Ipv4Addr::new(first, second, third, last).into(),
        Family::Ipv6 => {
            let parts = [first, second, third, last].map(u16::from);
            Ipv6Addr::new(0xfd00, parts[0], parts[1], parts[2], 0, 0, 0, parts[3]).into()
        }
    }
}

fn cidr(family: Family, range: [u8; 2], third: u8, lengths: [u8; 2]) -> ipnet::IpNet {
    let length = if family == Family::Ipv4 { lengths[0] } else { lengths[1] };
    ipnet::IpNet::new_assert(address(family, range, [third, 0]), length).trunc()
}

/// An endpoint: its pod range, its position in the range, and its node.
type Place = (usize, [u8; 2], usize);

#[derive(Debug, Clone)]
struct Draft {
    family: Family,
    mode: ProxyMode,
    /// The range of Services, and those of pods, which are different.
    services: [u8; 2],
    pods: Vec<[u8; 2]>,
    nodes: usize,
    detect: usize,
    is_local: bool,
    endpoints: Vec<Vec<Place>>,
}

fn draft() -> impl Strategy<Value = Draft> {
    let ranges = Just(RANGES.to_vec()).prop_shuffle();
    let place = (0_usize..4, [0_u8..6, 1_u8..255], 0_usize..4);
    let family = prop_oneof![Just(Family::Ipv4), Just(Family::Ipv6)];
    let mode = prop_oneof![Just(ProxyMode::Iptables), Just(ProxyMode::Nftables)];
    let endpoints = vec(vec(place, 0..12), 1..5);
    (family, mode, ranges, 1_usize..4, 1_usize..4, 0_usize..4, any::<bool>(), endpoints).prop_map(
        |(family, mode, mut ranges, pods, nodes, detect, is_local, endpoints)| {
            let services = ranges.remove(0);
            ranges.truncate(pods);
            Draft { family, mode, services, pods: ranges, nodes, detect, is_local, endpoints }
        },
    )
}

impl Draft {
    fn cluster(&self) -> Cluster {
        let mut cluster = Cluster::default();
        for number in 0..self.nodes {
            let pods = self.pods[number % self.pods.len()];
            let third = u8::try_from(number).unwrap_or_default();
            cluster.nodes.push(Node {
                name: format!("n{number}"),
                internal_ips: vec![address(self.family, [198, 18], [0, third + 2])],
                pod_cidrs: vec![cidr(self.family, pods, third, [24, 64])],
                ..Node::default()
            });
        }
        cluster.proxy.mode = self.mode;
        cluster.proxy.version = if self.mode == ProxyMode::Nftables { "1.33" } else { "1.30" }.to_owned();
        cluster.proxy.detect_local = match self.detect {
            0 => DetectLocal::ClusterCidr,
            1 => DetectLocal::NodeCidr,
            // In nftables mode prefixes of names are not modelled.
            3 if self.mode == ProxyMode::Iptables => DetectLocal::InterfaceNamePrefix("veth".to_owned()),
            _ => DetectLocal::BridgeInterface("cni0".to_owned()),
        };
        cluster.proxy.cluster_cidrs = vec![cidr(self.family, self.pods[0], 0, [16, 48])];
        for (number, places) in self.endpoints.iter().enumerate() {
            self.add_service(&mut cluster, number, places);
        }
        cluster
    }

    fn add_service(&self, cluster: &mut Cluster, number: usize, places: &[Place]) {
        let name = ObjectName::new("default", format!("s{number}"));
        let last = u8::try_from(number).unwrap_or_default();
        cluster.services.push(Service {
            name: name.clone(),
            labels: [].into(),
            annotations: [].into(),
            kind: ServiceType::NodePort,
            cluster_ips: vec![address(self.family, self.services, [0, last + 2])],
            headless: false,
            families: vec![self.family],
            ports: vec![ServicePort {
                name: String::new(),
                protocol: Protocol::Tcp,
                port: 80,
                node_port: Some(30_000 + u16::from(last)),
                target_port: None,
            }],
            selector: [].into(),
            external_ips: Vec::new(),
            load_balancer: Vec::new(),
            source_ranges: Vec::new(),
            external_traffic_policy: if self.is_local {
                ExternalTrafficPolicy::Local
            } else {
                ExternalTrafficPolicy::Cluster
            },
            internal_traffic_policy: InternalTrafficPolicy::Cluster,
            affinity_seconds: None,
            health_check_node_port: None,
            publish_not_ready_addresses: false,
            traffic_distribution: None,
        });
        let endpoint = |(range, at, node): &Place| Endpoint {
            addresses: vec![address(self.family, self.pods[range % self.pods.len()], *at)],
            ready: true,
            serving: Some(true),
            terminating: false,
            node: Some(format!("n{}", node % self.nodes)),
            zone: None,
            zone_hints: None,
            node_hints: None,
            pod: None,
        };
        cluster.slices.push(EndpointSlice {
            name: name.clone(),
            service: name,
            family: self.family,
            ports: vec![EndpointPort { name: String::new(), protocol: Protocol::Tcp, port: Some(8080) }],
            endpoints: places.iter().map(endpoint).collect(),
        });
    }

    /// The saved rules of the first node.
    fn saved(&self) -> String {
        let cluster = self.cluster();
        let node = &cluster.nodes[0];
        match self.mode {
            ProxyMode::Iptables => iptables::print(&iptables::generate(&cluster, node, self.family).expect("rules")),
            ProxyMode::Nftables => nftables::print(&nftables::generate(&cluster, node, self.family).expect("a table")),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the addresses of pods and Services, the assumptions never contradict each other.
    #[test]
    fn a_lab_is_assumed_around_the_rules_of_any_cluster(draft in draft()) {
        let text = draft.saved();
        let assumed = from_rules(&text, Path::new("rules.txt"));
        prop_assert!(assumed.is_ok(), "{}\n{text}", assumed.err().map(|errors| errors.to_string()).unwrap_or_default());
    }
}

/// Pods far apart from each other, with Services in between.
#[test]
fn pods_on_both_sides_of_the_usual_range_of_services() {
    let pods = vec![[10, 0], [10, 128], [10, 131]];
    let endpoints = vec![vec![(0, [1, 7], 0), (1, [2, 7], 0), (2, [3, 7], 0)]];
    let (family, mode) = (Family::Ipv4, ProxyMode::Iptables);
    let draft = Draft { family, mode, services: [172, 18], pods, nodes: 1, detect: 3, is_local: false, endpoints };
    let assumed = from_rules(&draft.saved(), Path::new("rules.txt")).map_err(|errors| errors.to_string());
    let cluster = assumed.expect("a scenario").scenario.cluster;
    let used = cluster
        .nodes
        .iter()
        .flat_map(|node| node.addresses())
        .filter(|ip| cluster.services[0].cluster_ips.contains(ip));
    assert_eq!(used.count(), 0);
}

/// Pods with addresses that nodes would get: the first one of a node's range, the first one of the nodes' default range.
#[rstest]
#[case::of_the_bridge(vec![[10, 128]], vec![(0, [0, 1], 0), (0, [1, 1], 0)])]
#[case::of_the_node(vec![[10, 128], [172, 18]], vec![(1, [0, 2], 0), (2, [0, 1], 0)])]
fn nodes_get_addresses_that_no_pod_has(
    #[case] pods: Vec<[u8; 2]>,
    #[case] endpoints: Vec<Place>,
    #[values(0, 1, 2, 3)] detect: usize,
) {
    let (family, mode, endpoints) = (Family::Ipv4, ProxyMode::Iptables, vec![endpoints]);
    let draft = Draft { family, mode, services: [172, 20], pods, nodes: 1, detect, is_local: false, endpoints };
    let assumed = from_rules(&draft.saved(), Path::new("rules.txt")).map_err(|errors| errors.to_string());
    assert_eq!(assumed.err(), None);
}
