//! Verifies every scenario of the library: promise, prediction and kernel agree, except for intended faults.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rstest::rstest;
use svclab::page::Settings;
use svclab::scenario::{Install, OtherRules, Place};
use svclab::verify::{Disagreement, Finding, Options, json, page, verify};
use svclab::{infer, scenario, testing};
use svclab_rules::cluster::{Family, ProxyMode};
use svclab_rules::ruleset;

use Disagreement::{Connection, Network, Rules};

use crate::assumptions;
use crate::each_file::each_file;

/// Scenarios with a fault: file, the disagreement, and words of the finding. Each entry must be found, and nothing else.
const FAULTS: &[(&str, Disagreement, &str)] = &[
    ("bugs/109811-legacy-alongside-nft.yaml", Rules, "delivered to an address that is not a ready endpoint"),
    ("bugs/112292-family-without-rules.yaml", Rules, "no host has the address"),
    ("bugs/113659-mark-bits.yaml", Rules, "delivered with the wrong source"),
    (
        "bugs/114549-lost-mark-match.yaml",
        Rules,
        "-A KUBE-FIREWALL -m comment --comment \"kubernetes firewall for dropping",
    ),
    ("bugs/121362-restore-fails.yaml", Rules, "no host has the address"),
    ("bugs/122614-source-ranges-after-dnat.yaml", Rules, "delivered"),
    ("bugs/20475-hairpin-off.yaml", Network, "no hairpin mode"),
    ("bugs/39823-forward-policy-drop.yaml", Rules, "dropped on node/worker2: by the policy of FORWARD"),
    ("links/link-down.yaml", Network, "the link of pod/web-1 is down"),
    ("bugs/44916-pod-to-other-node-port-fixed.yaml", Rules, "delivered with the wrong source"),
    ("bugs/44916-pod-to-other-node-port-fixed.yaml", Rules, "has no local endpoints"),
    ("bugs/70493-stale-endpoints-on-one-node.yaml", Rules, "delivered to an address that is not a ready endpoint"),
    ("bugs/71851-node-name.yaml", Rules, "has no local endpoints"),
    ("bugs/78994-accept-before-reject.yaml", Rules, "no host has the address"),
    ("bugs/82361-duplicate-rules.yaml", Rules, "--mark 0x8000/0x8000 -j DROP"),
    ("bugs/88986-mark-survives-vxlan.yaml", Rules, "--dport 8472 -m mark --mark 0x4000/0x4000 -j DROP"),
    ("bugs/95409-unsupported-revision.yaml", Rules, "no host has the address"),
    ("bugs/cilium-13130-rp-filter.yaml", Network, "dropped on node/worker2: rp_filter"),
    ("bugs/cilium-13130-rp-filter.yaml", Network, "the reply is lost on node/worker2: rp_filter"),
    ("bugs/cni-577-host-port.yaml", Rules, "delivered to an address that is not a ready endpoint"),
    ("bugs/flannel-1702-bridge-nf-call-off.yaml", Network, "reply from another address"),
    ("bugs/kubespray-524-source-before-dnat-fixed.yaml", Network, "dropped on node/worker2: rp_filter"),
    ("bugs/kubespray-524-source-before-dnat-fixed.yaml", Network, "the reply is lost on node/worker2: rp_filter"),
    ("bugs/kubespray-524-source-before-dnat.yaml", Network, "dropped on node/worker2: rp_filter"),
    ("bugs/kubespray-524-source-before-dnat.yaml", Network, "the reply is lost on node/worker2: rp_filter"),
    ("bugs/rke2-10469-flushed-rules.yaml", Rules, "no host has the address"),
    ("bugs/rke2-10469-flushed-rules.yaml", Rules, "rejected on node/worker (TCP reset): no process listens"),
    ("distribution/equal-probabilities.yaml", Rules, "endpoints do not get their promised shares"),
    ("distribution/equal-probabilities.yaml", Rules, "no host has the address"),
    ("distribution/equal-probabilities.yaml", Rules, "classifies as INVALID is not dropped"),
    ("distribution/forgotten-probability.yaml", Rules, "endpoints do not get their promised shares"),
    ("distribution/forgotten-probability.yaml", Rules, "no host has the address"),
    ("distribution/forgotten-probability.yaml", Rules, "classifies as INVALID is not dropped"),
    ("distribution/equal-probabilities.yaml", Rules, "the source is the receiver's own address"),
    ("distribution/forgotten-probability.yaml", Rules, "the source is the receiver's own address"),
    ("bugs/cni-577-host-port.yaml", Rules, "the source is the receiver's own address"),
    ("updates/restored-connections.yaml", Connection, "delivered to an address that is not a ready endpoint"),
    ("updates/restored-connections.yaml", Connection, "no host has the address"),
    ("updates/restored-connections.yaml", Connection, "delivered instead of rejected"),
    ("other-rules/alongside-nftables.yaml", Rules, "dropped on node/worker3: by the policy of FORWARD"),
    ("other-rules/alongside-nftables.yaml", Rules, "delivered to an address that is not a ready endpoint"),
    ("other-rules/drop-mark.yaml", Rules, "--mark 0x8000/0x8000 -j DROP"),
    ("other-rules/indented-and-wrapped.yaml", Rules, "rejected on node/worker2 (TCP reset): by table guard"),
    ("other-rules/indented-and-wrapped.yaml", Rules, "the reply is lost on node/worker2: by table guard"),
    ("other-rules/indented-and-wrapped.yaml", Rules, "-A TICKET -p tcp -m tcp --dport 443 -j DROP"),
    ("other-rules/nftables-firewall.yaml", Rules, "dropped on node/worker: by the policy of forward in table filter"),
    ("other-rules/nftables-firewall.yaml", Rules, "forward meta nfproto ipv4 ip saddr 192.0.2.0/24 drop"),
    ("other-rules/notrack.yaml", Rules, "no host has the address"),
    ("other-rules/tables-alongside.yaml", Rules, "rejected on node/worker3 (TCP reset): by table guard"),
    ("other-rules/tables-alongside.yaml", Rules, "delivered to an address that is not a ready endpoint"),
    ("masquerade/cni-egress.yaml", Rules, "delivered with the wrong source"),
    ("masquerade/cni-egress.yaml", Rules, "has no local endpoints"),
    // klipper-lb's pods are between a service and its clients, which no promise covers.
    ("seeds/002-k3s-klipper-lb.yaml", Rules, "delivered with the source preserved"),
    ("seeds/002-k3s-klipper-lb.yaml", Rules, "delivered with the wrong source"),
    ("sysctls/ip-forward.yaml", Network, "forwarding is disabled"),
    ("sysctls/of-an-interface.yaml", Network, "dropped on node/worker2: rp_filter"),
    ("sysctls/route-localnet.yaml", Network, "martian"),
];

#[rstest]
fn sources_agree(
    #[files("../scenarios/**/*.yaml")]
    // Link impairments need a module that many kernels lack, so they are run only by name.
    #[exclude("/(invalid|manifests|netem)/")]
    path: PathBuf,
) {
    testing::privileged(|| {
        let scenario = scenario::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
        let options = Options::default();
        let verified = verify(std::slice::from_ref(&scenario), &options, &|_| {}).remove(0);
        let page = page(&verified, &options, Settings::default());
        let verification = verified.result.unwrap_or_else(|_| panic!("{page}"));
        assert!(verification.flows() > 0, "{page}");
        let faults: Vec<_> = FAULTS.iter().filter(|(file, ..)| path.ends_with(file)).collect();
        let is = |finding: &Finding, fault: &(&str, Disagreement, &str)| {
            finding.disagreement == fault.1 && finding.what.contains(fault.2)
        };
        let mut found = BTreeSet::new();
        for finding in verification.failures(&options) {
            let known = faults.iter().position(|fault| is(finding, fault));
            found.insert(known.unwrap_or_else(|| panic!("{page}")));
        }
        let missing: Vec<_> =
            (0..faults.len()).filter(|index| !found.contains(index)).map(|index| faults[index]).collect();
        assert!(missing.is_empty(), "faults that are not found: {missing:?}\n{page}");
    });
}

/// A rule that svclab does not model, in a scenario whose rules are correct.
#[rstest]
#[case::never_matches("-m ttl --ttl-lt 5", Disagreement::Unknown)]
#[case::matches("-m ttl --ttl-gt 5", Disagreement::Unpredicted)]
fn unknown_matches_are_no_agreement(#[case] condition: &str, #[case] expected: Disagreement) {
    testing::privileged(|| {
        let mut scenario = scenario::load(Path::new("../scenarios/cluster-ip/same-node.yaml")).unwrap();
        scenario.rules.push(OtherRules {
            place: Place::Node("worker".to_owned()),
            family: Family::Ipv4,
            rules: Arc::new(
                ruleset::Rules::parse(
                    ProxyMode::Iptables,
                    Family::Ipv4,
                    &format!("*filter\n-A FORWARD {condition} -j DROP\nCOMMIT\n"),
                )
                .unwrap(),
            ),
            origin: scenario.tests[0].span.clone(),
            install: Install::Before,
        });
        let strict = Options::default();
        let lenient = Options { allow_unknown: true, ..Options::default() };
        let verified = verify(std::slice::from_ref(&scenario), &strict, &|_| {}).remove(0);
        let found = verified.result.as_ref().unwrap().failures(&strict).any(|finding| finding.disagreement == expected);
        assert!(found, "{}", page(&verified, &strict, Settings::default()));
        assert!(!verified.holds(&strict));
        assert_eq!(verified.holds(&lenient), expected == Disagreement::Unknown);
    });
}

/// A packet that leaves the node and is lost is not a packet that the node drops.
#[test]
fn a_missing_drop_is_no_agreement() {
    testing::privileged(|| {
        let path = Path::new("../scenarios/releases/1.33-unallocated-address-nftables.yaml");
        let mut scenario = scenario::load(path).unwrap();
        let documents = svclab::documents::generate(&scenario, &scenario.cluster).unwrap();
        let table = documents.iter().find(|document| document.netns == "node/worker").unwrap();
        let text = table.rules.print_sync();
        let kept: Vec<&str> = text.lines().filter(|line| !line.contains("unallocated ClusterIPs")).collect();
        assert_eq!(kept.len() + 1, text.lines().count(), "one rule less");
        scenario.rules.push(OtherRules {
            place: Place::Node("worker".to_owned()),
            family: table.family,
            rules: Arc::new(ruleset::Rules::parse(ProxyMode::Nftables, table.family, &kept.join("\n")).unwrap()),
            origin: scenario.tests[0].span.clone(),
            install: Install::Instead,
        });
        let options = Options::default();
        let verified = verify(std::slice::from_ref(&scenario), &options, &|_| {}).remove(0);
        let failures: Vec<&Finding> = verified.result.as_ref().unwrap().failures(&options).collect();
        let is_lost =
            |finding: &&Finding| finding.disagreement == Rules && finding.what.contains("lost on the underlay");
        assert!(failures.iter().any(is_lost), "{}", page(&verified, &options, Settings::default()));
    });
}

/// A fault in JSON: the rules that cause it, and the failure of the command.
#[test]
fn json_says_what_the_page_says() {
    testing::privileged(|| {
        let path = Path::new("../scenarios/other-rules/drop-mark.yaml");
        let options = Options::default();
        let all = verify(&[scenario::load(path).unwrap()], &options, &|_| {});
        let document = serde_json::to_value(json(&all, &options)).unwrap();
        let text = document.to_string();
        let scenario = &document["scenarios"][0];
        assert_eq!(document["status"], "failed", "{text}");
        assert_eq!((&scenario["status"], &scenario["error"]), (&"failed".into(), &serde_json::Value::Null), "{text}");
        let flows: u64 =
            scenario["coverage"].as_array().unwrap().iter().map(|row| row["flows"].as_u64().unwrap()).sum();
        assert_eq!(scenario["flows"], flows, "{text}");
        let finding = &scenario["findings"][0];
        assert_eq!((&finding["disagreement"], &finding["fails"]), (&"rules".into(), &true.into()), "{text}");
        let rules = finding["example"]["rules"].as_array().unwrap();
        assert!(rules.iter().any(|rule| rule.as_str().unwrap().contains("-j DROP")), "{text}");
    });
}

/// Objects as `kubectl get -o yaml` shows them, without a node and without pods.
const OBJECTS: &str = "apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {type: NodePort, clusterIP: 10.96.0.80, ports: [{port: 80, targetPort: 8080, nodePort: 30080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-abc, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: '', port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.42.1.7], nodeName: worker, targetRef: {kind: Pod, name: web-1, namespace: shop}}
- {addresses: [10.42.2.7]}
";

#[test]
fn plain_objects_are_verified_with_what_they_lack_assumed() {
    let path = Path::new("objects.yaml");
    let assumed = infer::from_objects(OBJECTS, path).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(
        assumptions(&assumed),
        [
            "nodes without a Node object: node-2, worker",
            "2 pods have the endpoints' addresses: shop/web-1 on node worker (10.42.1.7), shop/at-10-42-2-7 on node node-2 (10.42.2.7)",
            "a client pod `client-of-NODE` on every node and an outside host `outside`",
        ]
    );
    testing::privileged(|| {
        let options = Options::default();
        let verified = verify(&[assumed.scenario], &options, &|_| {}).remove(0);
        assert!(verified.holds(&options), "{}", page(&verified, &options, Settings::default()));
        let verification = verified.result.unwrap();
        assert_eq!((verification.nodes, verification.services), (2, 1));
        for from in ["pod/client-of-worker", "pod/shop/web-1", "node/node-2", "host/outside"] {
            let asked = verification.coverage.iter().filter(|row| row.from == from);
            assert!(asked.map(|asked| asked.flows).sum::<usize>() > 0, "{from}");
        }
    });
}

/// The API server of a managed cluster is neither a node nor a pod: its address does not widen the range of pods.
#[rstest]
#[case::api_server("192.168.10.100", "", "host at-192-168-10-100 outside the cluster has the endpoint's address")]
#[case::services_between("10.100.0.9", "", "host at-10-100-0-9 outside the cluster has the endpoint's address")]
#[case::another_node("192.168.10.100", ", nodeName: away", "node away has the endpoint's address")]
fn endpoints_that_cannot_be_pods_do_not_widen_the_range_of_pods(
    #[case] address: &str,
    #[case] node_name: &str,
    #[case] printed: &str,
) {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: worker}\nspec: {podCIDR: 10.42.1.0/24}\n\
        status: {addresses: [{type: InternalIP, address: 192.168.10.11}]}\n";
    let objects = OBJECTS.replace("{addresses: [10.42.2.7]}", &format!("{{addresses: [{address}]{node_name}}}"));
    let text = format!("{node}---\n{objects}");
    let assumed = infer::from_objects(&text, Path::new("objects.yaml")).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(assumptions(&assumed).iter().any(|line| line.starts_with(printed)), "{:#?}", assumptions(&assumed));
    let ranges: Vec<String> = assumed.scenario.cluster.proxy.cluster_cidrs.iter().map(ToString::to_string).collect();
    assert_eq!(ranges, ["10.42.0.0/16"]);
}

/// iptables rejects `! -s 0.0.0.0/0`, and no pod range contains a node's address.
#[test]
fn no_range_that_iptables_rejects_is_assumed() {
    each_file(&["../rules/tests/golden/*/cluster.yaml"], assert_ranges_are_accepted);
}

fn assert_ranges_are_accepted(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    // Two recordings have pods outside of their nodes' ranges, and are rejected for that.
    let Ok(assumed) = infer::from_objects(&text, path) else {
        assert!(path.ends_with("endpoints-1000/cluster.yaml") || path.ends_with("endpoints-1001/cluster.yaml"));
        return;
    };
    let cluster = &assumed.scenario.cluster;
    for range in &cluster.proxy.cluster_cidrs {
        assert!(range.prefix_len() > 0, "{range}");
        assert!(!cluster.nodes.iter().flat_map(|node| node.addresses()).any(|ip| range.contains(&ip)), "{range}");
    }
}

/// It would look like agreement if nothing can be reached, so it is reported: kube-proxy does not create the pods of a Deployment.
#[test]
fn a_service_without_endpoints_is_reported() {
    let (service, _) = OBJECTS.split_once("---").unwrap();
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n";
    let text = format!("{service}---\n{deployment}");
    let assumed = infer::from_objects(&text, Path::new("objects.yaml")).unwrap();
    let first = "Deployment web is ignored: no controller runs here, so it creates no pods; list its pods instead";
    assert_eq!(assumptions(&assumed)[0], first, "without `-v`, only the first is printed");
    let last = "shop/web has no endpoints: the text shows none";
    assert_eq!(assumptions(&assumed).last().map(String::as_str), Some(last), "{:#?}", assumptions(&assumed));
    // The same of several is one message.
    let numbered = |at: u32| {
        let own =
            service.replace("name: web", &format!("name: web-{at}")).replace("10.96.0.80", &format!("10.96.0.8{at}"));
        own.replace("nodePort: 30080", &format!("nodePort: 3008{at}"))
    };
    let several: Vec<String> = (0..9).map(numbered).collect();
    let assumed = infer::from_objects(&several.join("---\n"), Path::new("objects.yaml")).unwrap();
    let said = assumptions(&assumed);
    let said: Vec<&String> = said.iter().filter(|words| words.contains("no endpoints")).collect();
    let last = "9 Services have no endpoints: the text shows none for \
        shop/web-0, shop/web-1, shop/web-2, shop/web-3, shop/web-4 and 4 more";
    assert_eq!(said, [last]);
}

#[test]
fn errors_of_plain_objects_are_reported_in_their_file() {
    let text = OBJECTS.replace("nodePort: 30080", "nodePort: 70000");
    let errors = infer::from_objects(&text, Path::new("objects.yaml")).unwrap_err();
    assert_eq!(errors.errors.len(), 1, "{errors}");
    assert_eq!((errors.errors[0].span.file.to_str(), errors.errors[0].span.line), (Some("objects.yaml"), 4));
}
