//! All commands judge an input alike: what one reads from a text, another reads from the scenario that is written of it.

use std::path::Path;
use std::process::Command;

use rstest::rstest;
use svclab::evidence;
use svclab::infer::{self, Assumed, Connections};
use svclab::scenario::{self, Scenario, Tests};
use svclab::verify::{Options, verify};

/// The text as a scenario, and that scenario as the worker processes of `verify` read it.
fn both(text: &str) -> [Scenario; 2] {
    let Assumed { scenario, .. } =
        infer::from_evidence(&evidence::read(text), Path::new("dump"), &[], Connections::LeftOut)
            .unwrap_or_else(|errors| panic!("{errors}"));
    let written = scenario::print(&scenario, &[], &[]);
    let nothing = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let again = scenario::parse_with(&written, Path::new("dump"), &nothing, Tests::Optional);
    [scenario, again.unwrap_or_else(|errors| panic!("{errors}\n{written}"))]
}

fn failures(scenarios: &[Scenario]) -> Vec<Vec<String>> {
    let options = Options { no_lab: true, ..Options::default() };
    let of = |verified: &svclab::verify::Verified| {
        let verification = verified.result.as_ref().unwrap_or_else(|trouble| panic!("{trouble:?}"));
        verification.failures(&options).map(|failure| format!("{}: {}", failure.what, failure.example.flow)).collect()
    };
    verify(scenarios, &options, &|_| {}).iter().map(of).collect()
}

const RULES: &str = "../rules/tests/golden/nodeport-local/v1.25-iptables/iptables-save.txt";

const TABLE: &str = "NAMESPACE  NAME  ENDPOINTS                                            AGE\n\
                     default    web   10.244.1.10:8080,10.244.2.10:8080,10.244.3.10:8080   1d\n\n";

/// An EndpointSlice as the API server has one that names no nodes.
const SLICE: &str = "\
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.244.1.10]}, {addresses: [10.244.2.10]}, {addresses: [10.244.3.10]}]
---

";

/// A table has no column for the nodes of endpoints: they are on those of their pods. An object that names none says that they are local on no
/// node, whatever has their address.
#[rstest]
#[case::table(TABLE, true)]
#[case::object(SLICE, false)]
fn endpoints_without_a_node_are_the_same_for_all_commands(#[case] endpoints: &str, #[case] are_local: bool) {
    let saved = std::fs::read_to_string(RULES).expect("a recording");
    let both = both(&format!("{endpoints}{saved}"));
    let nodes = |scenario: &Scenario| {
        let all = scenario.cluster.slices.iter().flat_map(|slice| &slice.endpoints);
        all.map(|endpoint| (endpoint.addresses.clone(), endpoint.node.clone())).collect::<Vec<_>>()
    };
    assert_eq!(nodes(&both[0]), nodes(&both[1]));
    assert!(nodes(&both[0]).iter().all(|(_, node)| node.is_some() == are_local), "{:?}", nodes(&both[0]));
    let [of_text, of_scenario] = &*failures(&both) else { panic!("two verifications") };
    assert_eq!(of_text, of_scenario);
    assert_eq!(of_text.is_empty(), are_local, "{of_text:?}");
}

const NFT: &str = "../rules/tests/golden/nodeport-local/v1.36-nftables/nft-ruleset.txt";

fn with_rules(file: &str, before: &str) -> String {
    format!("{before}{}", std::fs::read_to_string(file).expect("a recording"))
}

/// A table of one namespace does not name it: its rows are what rules have in another namespace.
#[rstest]
#[case::services(
    "$ kubectl get svc\nNAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE\nweb NodePort 10.96.0.10 <none> 80:30080/TCP 1d\n\n",
    "shop/web"
)]
#[case::endpoints(
    "$ kubectl get ep\nNAME ENDPOINTS AGE\nweb 10.244.1.10:8080,10.244.2.10:8080,10.244.3.10:8080 1d\n\n",
    "shop/web"
)]
#[case::of_another(
    "$ kubectl get svc\nNAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE\nweb ClusterIP 10.96.0.77 <none> 80/TCP 1d\n\n",
    "default/web shop/web"
)]
#[case::named(
    "$ kubectl get svc -n tools\nNAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE\nweb ClusterIP 10.96.0.77 <none> 80/TCP 1d\n\n",
    "shop/web tools/web"
)]
fn a_table_without_namespaces_is_in_that_of_the_rules(#[case] table: &str, #[case] expected: &str) {
    let rules = with_rules(NFT, "").replace("default/web", "shop/web");
    let [scenario, _] = both(&format!("{table}{rules}"));
    let names: std::collections::BTreeSet<String> =
        scenario.cluster.services.iter().map(|service| service.name.to_string()).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>().join(" "), expected);
}

/// `+ 1 more...` leaves endpoints out: those that are listed are ready, others that rules have may be.
#[test]
fn endpoints_that_a_table_leaves_out_are_neither_stale_nor_lost() {
    let table = "NAMESPACE  NAME  ENDPOINTS                                    AGE\n\
                 default    web   10.244.1.10:8080,10.244.2.10:8080 + 1 more...   1d\n\n";
    let text = with_rules(RULES, table);
    // An excerpt of the rules that shows one of the endpoints that the table lists, and the one that it leaves out.
    let rules = with_rules(RULES, "");
    let excerpt = rules.lines().filter(|line| !line.starts_with(['*', ':', '#']) && !line.contains("10.244.2.10"));
    let excerpt: String = table.to_owned() + &excerpt.map(|line| format!("{line}\n")).collect::<String>();
    for text in [text, excerpt] {
        let [scenario, _] = both(&text);
        let endpoints = scenario.cluster.slices.iter().flat_map(|slice| &slice.endpoints);
        let mut ips: Vec<String> = endpoints.map(|endpoint| endpoint.addresses[0].to_string()).collect();
        ips.sort();
        assert_eq!(ips, ["10.244.1.10", "10.244.2.10", "10.244.3.10"]);
        let found = svclab::lint::lint(&evidence::read(&text));
        assert!(!found.iter().any(|finding| finding.id == "endpoints-differ"), "{found:?}");
    }
}

const ADDRESSES: &str = "\
$ ip -4 addr
1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000
    inet 127.0.0.1/8 scope host lo
       valid_lft forever preferred_lft forever
2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP group default qlen 1000
    inet ADDRESS/24 brd 192.168.10.255 scope global eth0
       valid_lft forever preferred_lft forever
3: cni0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP group default qlen 1000
    inet 10.244.1.1/24 brd 10.244.1.255 scope global cni0
       valid_lft forever preferred_lft forever
$ nft list ruleset
";

/// Node ports that are served on an address of another machine are found by all commands.
#[rstest]
#[case::own("192.168.10.11", false)]
#[case::other("192.168.10.77", true)]
fn node_ports_on_an_address_that_the_node_lacks_fail(#[case] address: &str, #[case] fails: bool) {
    let text = with_rules(NFT, &ADDRESSES.replace("ADDRESS", address));
    let both = both(&text);
    assert_eq!(both[0].cluster.nodes[0].internal_ips[0].to_string(), address);
    let failures = failures(&both);
    assert_eq!(failures[0], failures[1]);
    assert_eq!(failures[0].iter().any(|failure| failure.starts_with("rejected on")), fails, "{failures:?}");
    let found = svclab::lint::lint(&evidence::read(&text));
    let found: Vec<&str> = found
        .iter()
        .filter(|finding| finding.id == "node-port-address")
        .map(|finding| finding.message.rsplit_once(": ").expect("the addresses").1)
        .collect();
    // That of the bridge for pods is not the node's.
    assert_eq!(found, if fails { vec!["its addresses are 192.168.10.77"] } else { Vec::new() });
}

/// Tables of other programs are installed where they can be, and named where they cannot, wherever in the text they are.
#[test]
fn tables_of_other_programs_are_not_ignored_silently() {
    let filter = "$ nft list ruleset\ntable ip filter {\n\tchain FORWARD {\n\t\ttype filter hook forward priority filter; policy drop;\n\t\t\
                  oifname \"docker0\" ct state related,established counter packets 0 bytes 0 accept\n\t}\n}\n";
    let [scenario, again] = both(&with_rules(NFT, filter));
    let dropped = failures(&[scenario, again]);
    assert!(dropped[0].iter().any(|failure| failure.contains("by the policy of FORWARD")), "{dropped:?}");
    assert_eq!(dropped[0], dropped[1]);
    let other = "$ nft list table inet shield\ntable inet shield {\n\tchain input {\n\t\ttype filter hook prerouting priority -300; policy accept;\n\t\t\
                 ip saddr 203.0.113.10 drop\n\t}\n}\n$ iptables-save\n";
    for rules in [NFT, RULES] {
        let [scenario, _] = both(&with_rules(rules, other));
        assert!(
            scenario.notes.iter().any(|note| note.message.contains("inet shield (rules: 1)")),
            "{:?}",
            scenario.notes
        );
    }
}

fn svclab(arguments: &[&str]) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_svclab")).args(arguments).output().expect("svclab starts");
    let text = |bytes: &[u8]| crate::unwrapped(&String::from_utf8_lossy(bytes));
    (text(&output.stdout), text(&output.stderr))
}

/// A contradiction between pieces decides what is verified, so it is said without `-v`; and a lost packet's address is named.
#[test]
fn contradictions_and_lost_addresses_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("dump.txt");
    let table = TABLE.replace("10.244.2.10", "10.244.2.77");
    std::fs::write(&file, with_rules(RULES, &table)).expect("a file");
    let file = file.to_string_lossy();
    let (_, messages) = svclab(&["verify", "--no-lab", &file]);
    assert!(messages.contains("contradiction: endpoints of default/web are 10.244.1.10, 10.244.2.77,"), "{messages}");
    let (page, _) = svclab(&["explain", "--from=pod/client-of-node-1", "--to=10.96.0.99:80", "--protocol=tcp", &file]);
    assert!(page.contains("no host has the address 10.96.0.99"), "{page}");
}

/// The Service of the recorded rules.
const SERVICE: &str = "\
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: default
spec:
  type: NodePort
  clusterIP: 10.96.0.10
  externalTrafficPolicy: Local
  ports:
  - name: http
    port: 80
    targetPort: 8080
    nodePort: 30080
";

/// Objects among rules in a text without code fences are read by all commands, whatever separates them.
#[rstest]
#[case::prompt("$ kubectl get svc web -o yaml\n", "$ iptables-save\n")]
#[case::root("# kubectl get svc web -o yaml\n", "# iptables-save\n")]
#[case::zsh("% kubectl get svc web -o yaml\n", "% iptables-save\n")]
#[case::sentence("It does not answer.\n\n", "\n")]
#[case::documents("---\n", "---\n\n---\n")]
#[case::asciidoc("----\n", "----\n\n----\n")]
fn objects_among_rules_are_read_by_all_commands(#[case] before: &str, #[case] between: &str) {
    let saved = std::fs::read_to_string(RULES).expect("a recording");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("issue.md");
    std::fs::write(&file, format!("{before}{SERVICE}{between}{saved}")).unwrap();
    for command in [&["verify", "--no-lab"][..], &["cascade"], &["dump", "lint"], &["dump", "import", "-o", "-"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_svclab")).args(command).arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}\n{}", String::from_utf8_lossy(&output.stdout));
    }
}
