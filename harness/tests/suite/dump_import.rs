//! Scenarios inferred from evidence.

use std::path::Path;
use std::process::{Command, Output};

use rstest::rstest;
use svclab::evidence::{self, Evidence};
use svclab::infer::{self, Assumed, Connections, NodeFile};
use svclab::scenario::{self, CniKind, Overlay, Place, Scenario, Tests};
use svclab::verify::{Disagreement, Options, verify};

use crate::assumptions;
use crate::each_file::each_file;
use crate::saved_rules::is_without_services;

fn imported(text: &str) -> Assumed {
    imported_with(text, Connections::LeftOut)
}

fn imported_with(text: &str, connections: Connections) -> Assumed {
    infer::from_evidence(&evidence::read(text), Path::new("dump"), &[], connections)
        .unwrap_or_else(|errors| panic!("{errors}"))
}

/// The text of a scenario with tests of all service ports, and the parsed scenario.
fn read_again(assumed: &Assumed) -> (String, Scenario) {
    let (tests, _) = infer::tests(&assumed.scenario, &assumed.nodes);
    let text = scenario::print(&assumed.scenario, &assumptions(assumed), &tests);
    let nothing = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let read = scenario::parse_with(&text, Path::new("bug.yaml"), &nothing, Tests::Optional);
    (text.clone(), read.unwrap_or_else(|errors| panic!("{errors}\n{text}")))
}

fn golden(path: &str) -> String {
    std::fs::read_to_string(format!("../rules/tests/golden/{path}")).expect("a recording")
}

/// The lines of a listing, of an issue and of folders are in `tests/texts`.
fn text_of(name: &str) -> String {
    std::fs::read_to_string(format!("tests/texts/{name}")).expect("a text")
}

fn svclab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_svclab")).args(arguments).output().expect("svclab starts")
}

/// Importing any recording gives a valid scenario with the same objects, rules and settings.
#[test]
fn a_recording_is_read_again_as_it_was_written() {
    let files =
        ["v1.18-iptables/iptables-save.txt", "v1.30-iptables/iptables-save.txt", "v1.36-nftables/nft-ruleset.txt"];
    let patterns = files.map(|file| format!("../rules/tests/golden/*/{file}"));
    each_file(&patterns.each_ref().map(String::as_str), assert_read_again);
}

fn assert_read_again(file: &Path) {
    let text = std::fs::read_to_string(file).expect("a recording");
    let assumed = match infer::from_evidence(&evidence::read(&text), file, &[], Connections::LeftOut) {
        Ok(assumed) => assumed,
        // A cluster without rules for a Service has nothing to import.
        Err(errors) => return assert!(is_without_services(file), "{}: {errors}", file.display()),
    };
    let (text, again) = read_again(&assumed);
    let (mut before, mut after) = (assumed.scenario.cluster.clone(), again.cluster.clone());
    for cluster in [&mut before, &mut after] {
        // These are not written, and change nothing.
        cluster.service_cidrs.clear();
        cluster.slices.iter_mut().for_each(|slice| slice.name.name.clear());
        cluster.slices.sort_by_key(|slice| format!("{slice:?}"));
        for endpoint in cluster.slices.iter_mut().flat_map(|slice| &mut slice.endpoints) {
            endpoint.serving = None;
            // The scenario names an endpoint's pod, the rules its address; pods are compared separately.
            endpoint.pod = None;
        }
    }
    assert_eq!(before.nodes, after.nodes, "{text}");
    assert_eq!((before.pods, before.services), (after.pods, after.services), "{text}");
    assert_eq!(before.slices, after.slices, "{text}");
    assert_eq!(before.proxy, after.proxy, "{text}");
    let rules = |scenario: &Scenario| {
        scenario.rules.iter().map(|own| (own.place.clone(), own.family, own.rules.print())).collect::<Vec<_>>()
    };
    assert_eq!(rules(&assumed.scenario), rules(&again), "{text}");
    assert!(!again.tests.is_empty() || again.cluster.services.iter().all(|one| one.skipped().is_some()), "{text}");
}

/// The scenario is judged like the recording.
#[rstest]
#[case::sound("nodeport-local/v1.25-iptables/iptables-save.txt", "")]
#[case::of_nftables("clusterip-three-endpoints/v1.36-nftables/nft-ruleset.txt", "")]
#[case::lost_translation("clusterip-three-endpoints/v1.30-iptables/iptables-save.txt", "10.244.2.10:8080")]
fn verify_finds_the_same_in_the_scenario(#[case] recording: &str, #[case] lost: &str) {
    let saved = golden(recording);
    let is_kept = |line: &&str| lost.is_empty() || !line.ends_with(lost);
    let text: String = saved.lines().filter(is_kept).map(|line| format!("{line}\n")).collect();
    assert_eq!(text == saved, lost.is_empty());
    let assumed = imported(&text);
    let (_, again) = read_again(&assumed);
    let options = Options { no_lab: true, ..Options::default() };
    let verified = verify(&[assumed.scenario, again], &options, &|_| {});
    let failures = |at: usize| {
        let verification = verified[at].result.as_ref().unwrap_or_else(|trouble| panic!("{trouble:?}"));
        verification
            .failures(&options)
            .map(|failure| format!("{}: {}", failure.what, failure.example.flow))
            .collect::<Vec<_>>()
    };
    assert_eq!(failures(0), failures(1));
    assert_eq!(failures(0).is_empty(), lost.is_empty());
}

/// An endpoint whose DNAT is lost is still recognised, and its port is found by the hash of its chain.
#[test]
fn a_lost_translation_is_no_lost_endpoint() {
    let saved = golden("clusterip-three-endpoints/v1.18-iptables/iptables-save.txt");
    let whole = imported(&saved);
    let lines = saved.lines().filter(|line| !line.contains("--to-destination"));
    let lost = imported(&lines.map(|line| format!("{line}\n")).collect::<String>());
    assert_eq!(lost.scenario.cluster.slices, whole.scenario.cluster.slices);
}

/// Each node of a folder has its own rules, by the names of files and by those of the objects.
#[test]
fn several_dumps_make_one_cluster() {
    let save = golden("nodeport-local/v1.25-iptables/iptables-save.txt");
    let other = save.replace("10.244.1.10", "10.244.9.9");
    let mut all = Evidence::default();
    all.add("dump/worker-a.txt", evidence::read(&save));
    all.add("dump/worker-b.txt", evidence::read(&other));
    let assumed = infer::from_evidence(&all, Path::new("dump"), &[], Connections::LeftOut)
        .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(assumed.nodes, ["worker-a", "worker-b"]);
    let (_, again) = read_again(&assumed);
    assert_eq!(again.rules.len(), 2);
    let given: Vec<NodeFile> = vec!["node-x=worker-b.txt".parse().expect("a node")];
    let assumed = infer::from_evidence(&all, Path::new("dump"), &given, Connections::LeftOut)
        .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(assumed.nodes.iter().filter(|node| *node == "node-x").count(), 1, "{:?}", assumed.nodes);
}

/// A client, the entry of its connection to an endpoint that is gone, and one to no Service.
const TRACKED: &str = "\
    udp      17 27 src=10.244.1.50 dst=10.96.0.10 sport=40001 dport=53 src=10.244.2.99 dst=10.244.1.50 sport=53 dport=40001 [ASSURED] mark=0 use=1\n\
    udp      17 27 src=10.244.1.50 dst=8.8.8.8 sport=40001 dport=53 src=8.8.8.8 dst=10.244.1.50 sport=53 dport=40001 mark=0 use=1\n";

/// Connections to Services are restored on request, with their senders, and tested.
#[test]
fn connections_of_a_dump_are_restored_where_asked() {
    let text = golden("small-cluster/v1.30-iptables/iptables-save.txt") + "\n$ conntrack -L\n" + TRACKED;
    let assumed = imported(&text);
    assert!(assumed.scenario.connections.is_empty());
    assert!(
        assumptions(&assumed)
            .iter()
            .any(|words| words.starts_with("connections are not restored without --connections"))
    );
    // Nothing is wrong with the rules, so the stale entry is reported without `-v`.
    let important = assumed.assumptions.iter().filter(|one| one.may_hide_a_defect());
    assert!(
        important
            .map(ToString::to_string)
            .any(|words| words.contains("leads to 10.244.2.99, which is not an endpoint"))
    );
    let (text, again) = read_again(&imported_with(&text, Connections::Restored));
    let entries: Vec<String> = again.connections.iter().map(ToString::to_string).collect();
    let expected =
        "udp src=10.244.1.50 dst=10.96.0.10 sport=40001 dport=53 src=10.244.2.99 dst=10.244.1.50 sport=53 dport=40001";
    assert_eq!(entries, [expected]);
    assert!(text.contains("the udp connection from 10.244.1.50:40001 to 10.96.0.10:53 on "), "{text}");
    let options = Options { no_lab: true, ..Options::default() };
    let verified = verify(&[again], &options, &|_| {});
    let verification = verified[0].result.as_ref().unwrap_or_else(|trouble| panic!("{trouble:?}"));
    let failures: Vec<Disagreement> = verification.failures(&options).map(|finding| finding.disagreement).collect();
    assert_eq!(failures, [Disagreement::Connection]);
}

/// A connection that exists keeps its endpoint, and is not a share of new ones. One to a port that an excerpt does not show is not judged.
#[test]
fn a_connection_to_a_ready_endpoint_is_in_order() {
    let rules = golden("small-cluster/v1.30-iptables/iptables-save.txt");
    let entry = "tcp 6 86399 ESTABLISHED src=10.244.1.50 dst=10.96.0.10 sport=40002 dport=PORT src=10.244.1.2 dst=10.244.1.50 sport=53 dport=40002 [ASSURED] mark=0 use=1\n";
    let options = Options { no_lab: true, ..Options::default() };
    let verified = |text: &str| {
        let scenario = imported_with(text, Connections::Restored).scenario;
        let count = scenario.connections.len();
        let verified = verify(&[read_again(&Assumed { scenario, ..imported(text) }).1], &options, &|_| {});
        let verification = verified[0].result.as_ref().unwrap_or_else(|trouble| panic!("{trouble:?}"));
        (count, verification.failures(&options).map(|finding| finding.what.clone()).collect::<Vec<_>>())
    };
    let whole = |port: &str| format!("{rules}\n$ conntrack -L\n{}", entry.replace("PORT", port));
    assert_eq!(verified(&whole("53")), (1, Vec::new()));
    let shown = rules.lines().filter(|line| line.contains("dns-tcp")).map(|line| format!("{line}\n"));
    let excerpt = format!("$ iptables-save | grep dns-tcp\n{}", shown.collect::<String>());
    let with_entry = |port: &str| format!("{excerpt}$ conntrack -L\n{}", entry.replace("PORT", port));
    assert_eq!(verified(&with_entry("53")).0, 1);
    assert_eq!(verified(&with_entry("9153")), (0, Vec::new()));
}

/// Archives that are only named with their nodes are all read, each for its node; a file that is nowhere is an error.
#[test]
fn archives_are_those_of_their_nodes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    for name in ["a", "b"] {
        std::fs::create_dir(path(name)).expect("a folder");
        let rules = golden("small-cluster/v1.30-iptables/iptables-save.txt");
        std::fs::write(path(&format!("{name}/iptables-save.txt")), rules).expect("a file");
        let packed = Command::new("tar").args(["-czf", &path(&format!("{name}.tgz")), "-C", &path(name), "."]).status();
        assert!(packed.expect("tar starts").success());
    }
    let [one, other] = ["a", "b"].map(|name| format!("--node=worker-{name}={}", path(&format!("{name}.tgz"))));
    let nodes = |arguments: &[&str]| {
        let output = svclab(&[&["dump", "import", "-q", "-o", "-"], arguments].concat());
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        let nothing = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let scenario = scenario::parse_with(&text, Path::new("x.yaml"), &nothing, Tests::Optional);
        let scenario = scenario.unwrap_or_else(|errors| panic!("{errors}\n{messages}"));
        let place = |rules: &scenario::OtherRules| match &rules.place {
            Place::Node(name) => name.clone(),
            Place::Pod(name) => name.to_string(),
        };
        scenario.rules.iter().map(place).collect::<Vec<_>>()
    };
    assert_eq!(nodes(&[&one, &other]), ["worker-a", "worker-b"]);
    assert_eq!(nodes(&[&one, &path("b.tgz"), &other]), ["worker-a", "worker-b"]);
    assert_eq!(nodes(&[&one]), ["worker-a"]);
    let missing = svclab(&["dump", "import", "-o", "-", "--node=worker-a=nowhere.txt", &path("a.tgz")]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("names no file of the input"));
}

/// Endpoints without Pod objects are pods of the slice's namespace, with the names that it refers to.
#[test]
fn pods_of_a_slice_are_in_its_namespace() {
    let text = r#"
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.80, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-x2z, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080}]
endpoints:
- {addresses: ["10.244.1.5"], nodeName: worker, targetRef: {kind: Pod, name: web-7f, namespace: shop}}
- {addresses: ["10.244.1.6"], nodeName: worker}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-v6, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv6
ports: [{port: 8080}]
endpoints:
- {addresses: ["fd00:10:244:1::5"], nodeName: worker, targetRef: {kind: Pod, name: web-7f, namespace: shop}}
"#;
    let names = |scenario: &Scenario| -> Vec<String> {
        let all = scenario.cluster.pods.iter().map(|pod| pod.name.to_string());
        all.filter(|name| !name.contains("client")).collect()
    };
    let expected = ["shop/web-7f", "shop/at-10-244-1-6"];
    assert_eq!(names(&imported(text).scenario), expected);
    let of_objects = infer::from_objects(text, Path::new("objects.yaml")).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(names(&of_objects.scenario), expected);
}

/// A whole issue: a grepped excerpt, tables, settings and connections.
#[test]
fn an_issue_becomes_a_scenario() {
    let (text, _) = read_again(&imported(&text_of("issue-with-excerpt.md")));
    let wanted = [
        "- {name: worker, ips: [172.18.0.3], podCIDRs: [10.244.1.0/24], sysctls: {net.ipv4.conf.all.rp_filter: \"2\"}}",
        "- {name: web-2, node: worker2, ips: [10.244.2.7]}",
        "- {name: web, clusterIPs: [10.96.34.82], ipFamilies: [IPv4], ports: [{port: 80, targetPort: 8080}]}",
        // The hash of its chain determines it, although its DNAT leads elsewhere.
        "endpoints: [{addresses: [10.244.1.5]}, {addresses: [10.244.2.7]}]",
        "probe: {from: pod/client-of-worker, to: \"service/web:80\", flows: 31}",
    ];
    for line in wanted {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

/// Names that the API rejects, addresses that it rejects, targets that act on the host, chains that are not shown: all are changed and
/// reported.
#[test]
fn an_assumption_never_makes_an_input_rejected() {
    let saved = golden("clusterip-one-endpoint/v1.30-iptables/iptables-save.txt").replace("default/web", "Prod/WEB_1");
    let saved =
        saved.replace("COMMIT\n", "-A FORWARD -j IDLETIMER --timeout 5 --label x\n-A FORWARD -j CNI-FORWARD\nCOMMIT\n");
    let table = "NAME   TYPE        CLUSTER-IP     EXTERNAL-IP   PORT(S)   AGE\nWEB_1  ClusterIP   10.96.0.99   <none>        80/TCP    1d\n\n\
        NAME    ENDPOINTS           AGE\nWEB_1   169.254.1.1:8080    1d\n";
    let assumed = imported(&format!("```\n{saved}```\n\n```\n{table}```\n"));
    read_again(&assumed);
    let said = assumptions(&assumed).join("\n");
    assert!(said.contains("IDLETIMER") && said.contains("CNI-FORWARD"), "{said}");
}

/// Of an excerpt, only what it shows is compared.
#[test]
fn an_excerpt_differs_only_by_what_it_shows() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("issue.md").to_string_lossy().into_owned();
    std::fs::write(&path, text_of("issue-with-excerpt.md")).expect("a file");
    let out = folder.path().join("bug.yaml").to_string_lossy().into_owned();
    assert_eq!(svclab(&["dump", "import", &path, "-o", &out]).status.code(), Some(0));
    assert_eq!(svclab(&["check", &out]).status.code(), Some(0));
    let compared = svclab(&["rules", &out, "--node", "worker", "--diff", &path]);
    let printed = String::from_utf8_lossy(&compared.stdout);
    // With what kube-proxy writes, not with the dump's own rules that the scenario has.
    assert!(
        printed.starts_with("2 differences in ")
            && printed.contains("endpoint 10.244.2.7:8080 is missing")
            && printed.contains("endpoint 10.244.2.99:8080 is unexpected"),
        "{printed}{}",
        String::from_utf8_lossy(&compared.stderr)
    );
    let verified = svclab(&["verify", "--no-lab", &path]);
    assert_eq!(verified.status.code(), Some(1), "{}", String::from_utf8_lossy(&verified.stderr));
}

#[test]
fn what_is_not_text_is_said_to_be_none() {
    let output = svclab(&["dump", "show", "/bin/ls"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("it is not text"));
}

/// Endpoints that are not ready have no rules, and terminating ones may have: neither is a contradiction. A removed one is.
#[rstest]
#[case::unready("10.244.9.9", "ready: false, serving: false, terminating: false", false)]
#[case::terminating("10.244.2.2", "ready: false, serving: true, terminating: true", false)]
#[case::ready("10.244.9.9", "ready: true", true)]
fn endpoints_that_are_not_ready_are_no_contradiction(
    #[case] address: &str,
    #[case] conditions: &str,
    #[case] contradicts: bool,
) {
    let rules = golden("small-cluster/v1.30-iptables/iptables-save.txt");
    let objects = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: backend, namespace: shop}}\n\
         spec: {{clusterIP: 10.96.44.31, ports: [{{name: http, port: 8080}}]}}\n---\n\
         apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: backend-x\n  namespace: shop\n  \
         labels: {{kubernetes.io/service-name: backend}}\naddressType: IPv4\nports: [{{name: http, port: 8080}}]\nendpoints:\n\
         - {{addresses: [\"10.244.1.30\"], conditions: {{ready: true}}}}\n\
         - {{addresses: [\"10.244.2.30\"], conditions: {{ready: true}}}}\n\
         - {{addresses: [\"{address}\"], conditions: {{{conditions}}}}}\n"
    );
    let assumed = imported(&format!("```\n{rules}```\n\n```yaml\n{objects}```\n"));
    let found = assumptions(&assumed).iter().any(|words| words.contains("contradiction: endpoints of shop/backend"));
    assert_eq!(found, contradicts, "{:#?}", assumptions(&assumed));
}

/// A reply is expected if one is promised, for a single flow if many show that all endpoints are reached.
#[test]
fn replies_are_expected_where_they_are_promised() {
    let assumed = imported(&golden("small-cluster/v1.30-iptables/iptables-save.txt"));
    let (text, scenario) = read_again(&assumed);
    assert!(text.contains("balance: all") && text.contains("reply: from-vip"), "{text}");
    let spread = scenario.tests.iter().filter(|test| test.name.ends_with(", reply")).count();
    let of_many = ["balance: all", "affinity: true"].map(|words| text.matches(words).count());
    assert!(of_many[1] > 0, "{text}");
    assert_eq!(of_many.iter().sum::<usize>(), spread, "{text}");
}

/// Routes and settings in front of the rules of a node with three endpoints, each on a node of its own.
fn with_routes(routes: &str, settings: &str) -> Assumed {
    let rules = golden("clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
    imported(&format!("$ ip route\n{routes}\n$ sysctl -a\n{settings}\n$ iptables-save\n{rules}"))
}

/// Routes over addresses of nodes say which node has which pods. What is not imported is listed with the reason.
#[test]
fn routes_become_nodes() {
    let routes = "default via 192.168.7.1 dev eth0 proto dhcp
10.244.1.0/24 dev cni0 proto kernel scope link src 10.244.1.1
10.244.2.0/24 via 192.168.7.33 dev eth0
10.244.3.0/24 via 192.168.7.34 dev eth0
192.168.7.0/24 dev eth0 proto kernel scope link src 192.168.7.32
blackhole 10.99.0.0/16
10.200.0.0/16 via 192.168.7.250 dev eth0";
    let settings =
        "net.bridge.bridge-nf-call-iptables = 0\nnet.ipv4.conf.eth0.rp_filter = 1\nnet.netfilter.nf_conntrack_max = 1";
    let assumed = with_routes(routes, settings);
    let (text, scenario) = read_again(&assumed);
    let nodes: Vec<String> = scenario
        .cluster
        .nodes
        .iter()
        .map(|node| format!("{} {:?} {:?}", node.name, node.internal_ips, node.pod_cidrs))
        .collect();
    let expected = [
        "node-1 [192.168.7.32] [10.244.1.0/24]",
        "node-2 [192.168.7.33] [10.244.2.0/24]",
        "node-3 [192.168.7.34] [10.244.3.0/24]",
    ];
    assert_eq!(nodes, expected, "{text}");
    let kind = scenario.cni.kind;
    assert_eq!(kind, CniKind::Bridge { hairpin: true, nf_call_iptables: false }, "{text}");
    let said = assumptions(&assumed).join("\n");
    let words = [
        "1 route to the outside, to links and to single pods not imported: a lab creates its own",
        "`blackhole 10.99.0.0/16`, `10.200.0.0/16 via 192.168.7.250 dev eth0`",
        "not imported, though they may affect packets: net.ipv4.conf.eth0.rp_filter = 1; 1 kernel setting not imported, without effect",
    ];
    assert!(words.iter().all(|words| said.contains(words)), "{said}");
}

/// Routes through a tunnel show how pods of other nodes are reached.
#[test]
fn routes_through_a_tunnel_show_an_overlay() {
    let routes = "10.244.1.0/24 dev cni0 proto kernel scope link src 10.244.1.1
10.244.2.0/24 via 10.244.2.0 dev flannel.1 onlink
10.244.3.0/24 via 10.244.3.0 dev flannel.1 onlink";
    let assumed = with_routes(routes, "net.ipv4.ip_forward = 1");
    let (text, scenario) = read_again(&assumed);
    assert_eq!(scenario.cni.overlay, Overlay::Vxlan, "{text}");
    let said = assumptions(&assumed).join("\n");
    assert!(said.contains("reached through VXLAN, because routes use flannel.1"), "{said}");
    assert!(!said.contains("routes not imported"), "{said}");
}

/// Nodes among the objects get the ranges that they lack. Routes of several files count.
#[test]
fn nodes_among_objects_get_their_ranges_from_routes() {
    let rules = golden("clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
    let node = |number: u8| {
        format!(
            "- {{apiVersion: v1, kind: Node, metadata: {{name: n{number}}}, status: {{addresses: [\
             {{type: InternalIP, address: 192.168.7.{number}}}, {{type: InternalIP, address: 'fd00:7::{number}'}}]}}}}\n"
        )
    };
    let objects = format!("apiVersion: v1\nkind: List\nitems:\n{}{}{}", node(1), node(2), node(3));
    let first = "$ ip route\n10.244.2.0/24 via 192.168.7.2 dev eth0\n10.99.0.0/16 via 192.168.7.250 dev eth0\n";
    let second = "$ ip route\n10.244.3.0/24 via 192.168.7.3 dev eth0\n10.98.0.0/16 via 192.168.7.250 dev eth0\n";
    let mut all = Evidence::default();
    for (file, text) in [("rules", &*rules), ("objects", &*objects), ("first", first), ("second", second)] {
        all.add(file, evidence::read(text));
    }
    let assumed = infer::from_evidence(&all, Path::new("dump"), &[], Connections::LeftOut)
        .unwrap_or_else(|errors| panic!("{errors}"));
    let said = assumptions(&assumed).join("\n");
    assert!(said.contains("pod ranges of nodes from routes: n2 (10.244.2.0/24), n3 (10.244.3.0/24)"), "{said}");
    // Those on the same lines of two files are both listed.
    assert!(said.contains("`10.99.0.0/16 via 192.168.7.250 dev eth0`, `10.98.0.0/16 via"), "{said}");
}

/// Where routes show no node of an endpoint, nodes are assumed as without routes, and the routes are listed.
#[rstest]
#[case::other_networks("10.200.0.0/16 via 192.168.7.250 dev eth0", "`10.200.0.0/16 via 192.168.7.250 dev eth0`")]
#[case::not_all("10.244.2.0/24 via 192.168.7.33 dev eth0", "routes do not show the node of every endpoint")]
fn routes_that_show_too_little_are_listed(#[case] routes: &str, #[case] listed: &str) {
    let assumed = with_routes(routes, "net.bridge.bridge-nf-call-iptables = 0");
    let (text, scenario) = read_again(&assumed);
    let said = assumptions(&assumed).join("\n");
    assert_eq!(scenario.cluster.nodes.len(), 3, "{text}");
    assert!(said.contains(listed) && said.contains("net.bridge.bridge-nf-call-iptables = 0"), "{said}");
}

/// A chain that is listed whole lacks a row that another listing has: they are of two machines, and neither hides the other.
#[test]
fn a_row_that_a_whole_listing_lacks_is_of_another_one() {
    let text = "Chain KUBE-NODEPORTS (1 references)
pkts bytes target     prot opt in     out     source               destination
   1    60 KUBE-EXT-FREKB6WNWYJLKTHC  tcp  --  any    any     anywhere             anywhere             /* default/httpbin:http */

In my cluster:
$ iptables -nt nat --list -v | grep 30011
    0     0 KUBE-EXT-XNA7EOYKP5F2R2QR  tcp  --  *      *       0.0.0.0/0            0.0.0.0/0            /* app/app:http */ tcp dpt:30011
";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("issue.md");
    std::fs::write(&file, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_svclab"))
        .args(["dump", "import", "-o", "/dev/null"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("app/app (cluster IP ") && said.contains("another rule set of the same text"), "{said}");
}
