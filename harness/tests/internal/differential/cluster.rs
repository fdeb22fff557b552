//! Random clusters, as scenarios write them.

use serde_json::{Value, json};

use super::dice::Dice;

const NODES: [&str; 3] = ["one", "two", "three"];
const VERSIONS: [&str; 8] = ["1.14", "1.18", "1.22", "1.24", "1.27", "1.29", "1.31", "1.33"];
const NFTABLES_VERSIONS: [&str; 4] = ["1.30", "1.31", "1.32", "1.33"];
const PROTOCOLS: [&str; 8] = ["TCP", "TCP", "TCP", "TCP", "UDP", "UDP", "UDP", "SCTP"];

const SETTINGS: [&str; 12] = [
    "net.ipv4.conf.all.route_localnet",
    "net.ipv4.conf.default.route_localnet",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.conf.default.rp_filter",
    "net.ipv4.conf.eth0.accept_local",
    "net.ipv4.ip_forward",
    "net.ipv4.conf.all.forwarding",
    "net.ipv4.conf.default.forwarding",
    "net.ipv4.conf.eth0.forwarding",
    "net.ipv6.conf.all.forwarding",
    "net.ipv6.conf.default.forwarding",
    "net.ipv6.conf.eth0.forwarding",
];

/// The families of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Families {
    Ipv4,
    Ipv6,
    Both,
}

impl Families {
    fn lists(self, ipv4: &str, ipv6: &str) -> Value {
        match self {
            Self::Ipv4 => json!([ipv4]),
            Self::Ipv6 => json!([ipv6]),
            Self::Both => json!([ipv4, ipv6]),
        }
    }
}

/// A scenario without rules and tests.
pub(crate) fn cluster(dice: &mut Dice, name: &str) -> Value {
    let families = *dice.pick(&[Families::Ipv4, Families::Ipv4, Families::Ipv6, Families::Both]);
    let nodes: Vec<&str> = NODES[..dice.within(1..4)].to_vec();
    let pods: Vec<Value> = (0..dice.within(2..8)).map(|number| pod(dice, number, &nodes)).collect();
    let services: Vec<Value> = (0..dice.within(1..5)).map(|number| service(dice, number, families)).collect();
    let endpoints: Vec<Value> =
        (0..services.len()).filter_map(|number| endpoints(dice, &services[number], &pods, &nodes)).collect();
    json!({
        "name": name,
        "cluster": network(dice, families),
        "nodes": nodes.iter().enumerate().map(|(number, name)| node(dice, number, name, families)).collect::<Vec<_>>(),
        "pods": pods,
        "hosts": [{"name": "outside", "ips": families.lists("203.0.113.10", "2001:db8:113::10")}],
        "services": services,
        "endpoints": endpoints,
        // A scenario must have a test; the flows are made from the resolved cluster.
        "tests": [{
            "name": "nothing", "probe": {"from": "host/outside", "to": "host/outside:1"}, "expect": {"dropped": true},
        }],
    })
}

fn network(dice: &mut Dice, families: Families) -> Value {
    let mut cni = json!("ptp");
    if dice.one_in(2) {
        cni = json!({"kind": "bridge", "hairpinMode": !dice.one_in(4), "bridgeNfCallIptables": !dice.one_in(4)});
    }
    let is_nftables = dice.one_in(3);
    let version = *if is_nftables { dice.pick(&NFTABLES_VERSIONS) } else { dice.pick(&VERSIONS) };
    let overlay = if dice.one_in(4) { "vxlan" } else { "none" };
    let mut proxy = json!({
        "mode": if is_nftables { "nftables" } else { "iptables" },
        "version": version,
        "masqueradeAll": dice.one_in(4),
        "masqueradeBit": if dice.one_in(4) { dice.below(32) } else { 14 },
        "localhostNodePorts": !dice.one_in(4),
    });
    if dice.one_in(3) {
        proxy["detectLocalMode"] = json!("NodeCIDR");
    } else if dice.one_in(6) && !is_nftables {
        // In nftables mode, some releases write a rule for it that nft rejects.
        proxy["detectLocalMode"] = json!("InterfaceNamePrefix");
        proxy["detectLocal"] = json!({"interfaceNamePrefix": "veth"});
    } else if dice.one_in(6) && cni != "ptp" {
        proxy["detectLocalMode"] = json!("BridgeInterface");
        proxy["detectLocal"] = json!({"bridgeInterface": dice.pick(&["cni0", "docker0"])});
    } else if dice.one_in(3) {
        proxy["clusterCIDR"] = json!("");
    }
    if dice.one_in(6) && families == Families::Ipv4 {
        proxy["nodePortAddresses"] = json!([dice.pick(&["172.18.0.0/16", "127.0.0.0/8", "10.0.0.0/8"])]);
    }
    let pods = families.lists("10.244.0.0/16", "fd00:10:244::/56");
    json!({"podCIDR": pods, "cni": cni, "overlay": overlay, "proxy": proxy})
}

fn node(dice: &mut Dice, number: usize, name: &str, families: Families) -> Value {
    let mut node = json!({"name": name, "labels": {"topology.kubernetes.io/zone": dice.pick(&["a", "b"])}});
    if dice.one_in(8) {
        let settings = (0..dice.within(1..4)).map(|_| (dice.pick(&SETTINGS).to_string(), json!(dice.below(2))));
        node["sysctls"] = Value::Object(settings.collect());
    }
    if dice.one_in(6) {
        let (ipv4, ipv6) = (format!("198.18.0.{}", number + 1), format!("2001:db8:18::{}", number + 1));
        node["externalIPs"] = families.lists(&ipv4, &ipv6);
    }
    node
}

fn pod(dice: &mut Dice, number: usize, nodes: &[&str]) -> Value {
    let mut pod = json!({"name": format!("pod{number}"), "node": dice.pick(nodes)});
    if dice.one_in(8) {
        pod["hostNetwork"] = json!(true);
    }
    pod
}

fn service(dice: &mut Dice, number: usize, families: Families) -> Value {
    let kind = *dice.pick(&["ClusterIP", "NodePort", "NodePort", "LoadBalancer", "LoadBalancer"]);
    let ports: Vec<Value> = (0..dice.within(1..3)).map(|port| service_port(dice, port)).collect();
    let mut service = json!({"name": format!("svc{number}"), "type": kind, "ports": ports});
    if families == Families::Both {
        service["ipFamilyPolicy"] = json!(dice.pick(&["SingleStack", "RequireDualStack"]));
    }
    if kind != "ClusterIP" {
        service["externalTrafficPolicy"] = json!(dice.pick(&["Cluster", "Local"]));
    }
    if dice.one_in(4) {
        service["internalTrafficPolicy"] = json!("Local");
    }
    if dice.one_in(4) {
        service["sessionAffinity"] = json!("ClientIP");
    }
    let ipv6 = families == Families::Ipv6;
    if dice.one_in(3) {
        let address = if ipv6 { format!("2001:db8:50::{number}") } else { format!("198.51.100.{}", number + 1) };
        service["externalIPs"] = json!([address]);
    }
    if kind == "LoadBalancer" {
        let address = if ipv6 { format!("2001:db8:7::{number}") } else { format!("192.0.2.{}", number + 1) };
        service["loadBalancerIPs"] = json!([address]);
        if dice.one_in(2) {
            let ranges: &[&str] = if ipv6 {
                &["2001:db8:113::/64", "fd00:10:244::/56", "2001:db8::/128"]
            } else {
                &["203.0.113.0/24", "10.244.0.0/16", "192.0.2.200/32", "172.18.0.2/32"]
            };
            service["loadBalancerSourceRanges"] = json!([dice.pick(ranges), dice.pick(ranges)]);
        }
    }
    service
}

fn service_port(dice: &mut Dice, number: usize) -> Value {
    let port = [80, 443][number];
    let mut service_port = json!({"name": format!("p{number}"), "port": port, "protocol": dice.pick(&PROTOCOLS)});
    if dice.one_in(2) {
        service_port["targetPort"] = json!(dice.pick(&[8080, 9090]));
    }
    service_port
}

fn endpoints(dice: &mut Dice, service: &Value, pods: &[Value], nodes: &[&str]) -> Option<Value> {
    let chosen: Vec<&Value> = pods.iter().filter(|_| dice.one_in(2)).collect();
    if chosen.is_empty() {
        return None;
    }
    let endpoint = |pod: &&Value| {
        let mut endpoint = json!({"pod": pod["name"]});
        if dice.one_in(5) {
            let (ready, serving, terminating) =
                *dice.pick(&[(false, false, false), (false, true, true), (false, false, true)]);
            endpoint["conditions"] = json!({"ready": ready, "serving": serving, "terminating": terminating});
        }
        if dice.one_in(12) {
            endpoint["nodeName"] = json!(dice.pick(nodes));
        }
        endpoint
    };
    let endpoints: Vec<Value> = chosen.iter().map(endpoint).collect();
    Some(json!({"service": service["name"], "endpoints": endpoints}))
}
