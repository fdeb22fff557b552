//! The nodes around the rules of a dump: their names, their addresses, and pods that only other programs' rules show.

use std::path::Path;

use rstest::rstest;
use svclab::evidence::{self, Evidence};
use svclab::infer::{self, Assumed, Connections};

use crate::assumptions;

fn golden(path: &str) -> String {
    std::fs::read_to_string(format!("../rules/tests/golden/{path}")).expect("a recording")
}

fn imported(evidence: &Evidence) -> Assumed {
    infer::from_evidence(evidence, Path::new("dump"), &[], Connections::LeftOut)
        .unwrap_or_else(|errors| panic!("{errors}"))
}

/// The addresses of nodes, in the order of nodes.
fn addresses(assumed: &Assumed) -> Vec<String> {
    assumed.scenario.cluster.nodes.iter().map(|node| format!("{} {:?}", node.name, node.internal_ips)).collect()
}

/// Links of a node, with an address of its own network, and others that nodes have in common or that are for pods.
const LINKS: &str = "\
1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000
    inet 127.0.0.1/8 scope host lo
2: nodelocaldns: <BROADCAST,NOARP> mtu 1500 qdisc noop state DOWN group default
    inet 169.254.20.10/32 scope global nodelocaldns
3: cni0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1450 qdisc noqueue state UP group default qlen 1000
    inet 10.244.1.1/24 brd 10.244.1.255 scope global cni0
4: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP group default qlen 1000
    inet 192.168.10.11/24 brd 192.168.10.255 scope global eth0
    inet6 2001:db8::11/64 scope global
";

/// A node has the address that the text lists, and none of a family that the cluster does not have.
#[test]
fn nodes_have_the_addresses_that_a_dump_lists() {
    let rules = golden("clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
    let assumed =
        imported(&evidence::read(&format!("root@worker:~# ip addr\n{LINKS}root@worker:~# iptables-save\n{rules}")));
    assert_eq!(addresses(&assumed)[0], "worker [192.168.10.11]");
    let said = assumptions(&assumed).join("\n");
    assert!(said.contains("nodes: worker (192.168.10.11, pods in 10.244.1.0/24)"), "{said}");
}

/// `svclab dump collect` writes a folder for each node: its name, its addresses, its rules.
#[test]
fn a_collected_folder_names_its_node() {
    let rules = golden("clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
    let collected = |all: &mut Evidence, name: &str, ip: &str| {
        let about =
            format!("# sh -c uname -a\n# exit code 0\nLinux {name} 6.8.0-45-generic #45-Ubuntu SMP x86_64 GNU/Linux\n");
        let links = format!("# ip addr\n# exit code 0\n{}", LINKS.replace("192.168.10.11", ip));
        for (file, text) in [("about", about.as_str()), ("ip-addr", &links), ("iptables-nft", &rules)] {
            all.add(&format!("svclab-{ip}.tar.gz/x/{file}.txt"), evidence::read(text));
        }
    };
    let mut all = Evidence::default();
    collected(&mut all, "kube-worker-7", "192.168.10.17");
    assert_eq!(addresses(&imported(&all))[0], "kube-worker-7 [192.168.10.17]");
    collected(&mut all, "kube-worker-8", "192.168.10.18");
    assert_eq!(addresses(&imported(&all))[..2], ["kube-worker-7 [192.168.10.17]", "kube-worker-8 [192.168.10.18]"]);
}

/// Host ports lead to pods of the node, other translations to other machines.
#[test]
fn a_host_port_leads_to_a_pod() {
    let host_port = "-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT\n\
        -A CNI-HOSTPORT-DNAT -p tcp -m tcp --dport 8081 -j DNAT --to-destination 10.244.1.77:80\n\
        -A CNI-HOSTPORT-DNAT -p tcp -m tcp --dport 8082 -j DNAT --to-destination 172.17.0.2:80\nCOMMIT\n# Completed on nat";
    let rules = golden("clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
    let (nat, rest) = rules.split_once("*nat\n").expect("the table nat");
    let rest = rest.replacen("COMMIT", host_port, 1);
    let assumed = imported(&evidence::read(&format!("{nat}*nat\n:CNI-HOSTPORT-DNAT - [0:0]\n{rest}")));
    let named =
        |ip: &str| assumed.scenario.cluster.pods.iter().find(|pod| pod.ips.iter().any(|own| own.to_string() == ip));
    assert_eq!(named("10.244.1.77").map(|pod| pod.node.as_str()), Some("node-1"));
    assert_eq!(named("172.17.0.2"), None);
    let said = assumptions(&assumed).join("\n");
    assert!(said.contains("a pod for each address that other programs' rules translate to"), "{said}");
}

/// A node that drops a Service's connections, for its policy is Local, does not have the endpoint that another node's rules lead to.
#[rstest]
fn an_endpoint_is_on_the_node_whose_rules_lead_to_it(
    #[values("iptables/iptables-save", "nftables/nft-ruleset")] mode: &str,
    #[values(false, true)] is_reversed: bool,
) {
    let without = golden(&format!("internal-local-none-here/v1.30-{mode}.txt"));
    // The recordings are of one node: the other one has another address.
    let with = golden(&format!("internal-local/v1.30-{mode}.txt")).replace("192.168.10.11", "192.168.10.12");
    let mut nodes = [("worker-1", without), ("worker-2", with)];
    if is_reversed {
        nodes.reverse();
    }
    let text: String = nodes.iter().map(|(name, rules)| format!("root@{name}:~# iptables-save\n{rules}")).collect();
    let grave: Vec<String> = svclab::lint::lint(&evidence::read(&text))
        .iter()
        .filter(|one| one.severity <= svclab::lint::Severity::Warning)
        .map(|one| one.message.clone())
        .collect();
    assert_eq!(grave, Vec::<String>::new());
    let assumed = imported(&evidence::read(&text));
    let served = assumed.scenario.cluster.slices.iter().flat_map(|slice| &slice.endpoints);
    let placed: Vec<_> = served.flat_map(|one| one.addresses.iter().map(|ip| (ip.to_string(), &one.node))).collect();
    for ip in ["10.244.1.10", "10.244.1.11"] {
        let node = placed.iter().find(|(other, _)| other == ip).and_then(|(_, node)| node.as_deref());
        assert_eq!(node, Some("worker-2"), "{placed:?}");
    }
}

/// The nodes of endpoints at pods' addresses: those of pods, without the clients that are added.
fn nodes_of_pods(assumed: &Assumed) -> Vec<String> {
    let pods = assumed.scenario.cluster.pods.iter().filter(|pod| !pod.name.name.starts_with("client-of-"));
    pods.map(|pod| format!("{:?} {}{}", pod.ips, pod.node, if pod.host_network { ", host" } else { "" })).collect()
}

/// An EndpointSlice says which node each endpoint is on, whatever ranges the addresses suggest.
#[test]
fn endpoints_are_on_the_nodes_that_a_slice_names() {
    let rules = golden("clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
    let slice = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: web-a1\n  namespace: default\n  \
         labels: {kubernetes.io/service-name: web}\naddressType: IPv4\nports:\n- {name: http, protocol: TCP, port: 8080}\nendpoints:\n\
         - {addresses: [10.244.1.10], nodeName: worker-b, targetRef: {kind: Pod, name: web-x, namespace: default}}\n\
         - {addresses: [10.244.2.10], nodeName: worker-a}\n- {addresses: [10.244.3.10], nodeName: worker-a}\n";
    let assumed = imported(&evidence::read(&format!("```\n{rules}```\n\n```yaml\n{slice}```\n")));
    assert_eq!(
        nodes_of_pods(&assumed),
        ["[10.244.1.10] worker-b", "[10.244.2.10] worker-a", "[10.244.3.10] worker-a"],
        "{:#?}",
        assumptions(&assumed)
    );
}

/// Rules may have a wrong range of pods: what `kubectl` lists as a pod, or several endpoints outside of the range and none in it, are no nodes.
#[rstest]
#[case::pods(
    "$ kubectl get pods -o wide\nNAME    READY   STATUS    RESTARTS   AGE   IP            NODE\n\
     web-a   1/1     Running   0          3d    10.244.1.10   worker-b\nweb-b   1/1     Running   0          3d    10.244.2.10   worker-a\n\
     web-c   1/1     Running   0          3d    10.244.3.10   worker-c\n",
    ["worker-b", "worker-a", "worker-c"]
)]
#[case::endpoints(
    "$ kubectl get endpoints\nNAME   ENDPOINTS                                            AGE\n\
     web    10.244.1.10:8080,10.244.2.10:8080,10.244.3.10:8080   3d\n",
    ["node-1", "node-2", "node-3"]
)]
fn pods_outside_of_the_range_in_rules_are_pods(#[case] objects: &str, #[case] nodes: [&str; 3]) {
    let rules =
        golden("clusterip-three-endpoints/v1.30-iptables/iptables-save.txt").replace("10.244.0.0/16", "10.99.0.0/16");
    let assumed = imported(&evidence::read(&format!("{rules}\n{objects}")));
    let ips = ["10.244.1.10", "10.244.2.10", "10.244.3.10"];
    let expected = ips.into_iter().zip(nodes).map(|(ip, node)| format!("[{ip}] {node}")).collect::<Vec<_>>();
    assert_eq!(nodes_of_pods(&assumed), expected, "{:#?}", assumptions(&assumed));
}

/// A list of pods need not have one of the node whose prompt is before the rules.
#[test]
fn rules_are_those_of_the_machine_in_the_prompt() {
    let rules = golden("clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
    let pods = "$ kubectl get pods -o wide\nNAME    READY   STATUS    RESTARTS   AGE   IP            NODE\n\
        web-b   1/1     Running   0          3d    10.244.2.10   worker-2\nkube-proxy-x 1/1 Running 0 3d 192.168.10.12 worker-2\n";
    let node = |host: &str| {
        let text = format!("root@{host}:~# iptables-save\n{rules}\n{pods}");
        imported(&evidence::read(&text)).nodes.join(" ")
    };
    assert_eq!([node("worker-1"), node("worker-2"), node("kube-proxy-x")], ["worker-1", "worker-2", "worker-2"]);
}
