//! A resolved scenario → the text of a scenario file that says all of it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use serde_yaml::{Mapping, Value};
use svclab_rules::cluster::{
    Cluster, DetectLocal, Endpoint, EndpointSlice, ExternalTrafficPolicy, Family, InternalTrafficPolicy, IpMode, Node,
    ObjectName, Pod, Protocol, ProxyConfig, ProxyMode, Service, ServiceType,
};

use super::class::FailingClass;
use super::emit::{document, map};
use crate::scenario::{CniKind, Install, Overlay, Place, Scenario, short_name};
use crate::text::{one_line, printable};

/// The text, with the failing class as a comment before it.
pub(super) fn write(scenario: &Scenario, class: &FailingClass, origin: &Path) -> String {
    let cluster = &scenario.cluster;
    let services: Vec<&Service> =
        cluster.services.iter().filter(|service| service.kind != ServiceType::ExternalName).collect();
    let fields = map([
        ("name", scenario.name.as_str().into()),
        ("cluster", network(scenario)),
        ("nodes", Value::Sequence(cluster.nodes.iter().map(|one| node(one, scenario)).collect())),
        ("pods", Value::Sequence(cluster.pods.iter().map(pod).collect())),
        ("services", Value::Sequence(services.iter().map(|one| service(one)).collect())),
        ("endpoints", Value::Sequence(cluster.slices.iter().map(|slice| endpoints(slice, cluster)).collect())),
        (
            "hosts",
            Value::Sequence(
                scenario.hosts.iter().map(|host| map([("name", text(&host.name)), ("ips", list(&host.ips))])).collect(),
            ),
        ),
        ("rules", rules(scenario)),
    ]);
    let Value::Mapping(fields) = fields else { return String::new() };
    let origin = printable(origin).to_string();
    format!(
        "# What is left of {} of a failing class: {}, {}.\n{}",
        one_line(&origin),
        one_line(&class.flow),
        one_line(&class.what),
        document(&fields)
    )
}

fn text(value: impl Display) -> Value {
    value.to_string().into()
}

fn list<T: Display>(values: impl IntoIterator<Item = T>) -> Value {
    Value::Sequence(values.into_iter().map(text).collect())
}

fn strings(values: &BTreeMap<String, String>) -> Value {
    Value::Mapping(values.iter().map(|(name, value)| (text(name), text(value))).collect())
}

/// A value where a condition holds.
fn given(is_given: bool, value: impl FnOnce() -> Value) -> Value {
    if is_given { value() } else { Value::Null }
}

fn network(scenario: &Scenario) -> Value {
    let cluster = &scenario.cluster;
    let ranges = pod_ranges(cluster);
    let node_ports: Vec<u16> =
        cluster.services.iter().flat_map(|service| &service.ports).filter_map(|port| port.node_port).collect();
    let usual = 30_000..=32_767;
    let is_wide = node_ports.iter().any(|port| !usual.contains(port));
    let lowest = node_ports.iter().copied().chain([30_000]).min().unwrap_or_default();
    let highest = node_ports.iter().copied().chain([32_767]).max().unwrap_or_default();
    let cni = match scenario.cni.kind {
        CniKind::Ptp => Value::Null,
        CniKind::Bridge { hairpin: true, nf_call_iptables: true } => text("bridge"),
        CniKind::Bridge { hairpin, nf_call_iptables } => map([
            ("kind", text("bridge")),
            ("hairpinMode", hairpin.into()),
            ("bridgeNfCallIptables", nf_call_iptables.into()),
        ]),
    };
    map([
        ("podCIDR", list(&ranges)),
        ("serviceCIDR", list(service_ranges(cluster, &ranges))),
        ("serviceNodePortRange", given(is_wide, || text(format!("{lowest}-{highest}")))),
        ("cni", cni),
        ("overlay", given(scenario.cni.overlay == Overlay::Vxlan, || text("vxlan"))),
        ("proxy", proxy(&cluster.proxy, &ranges)),
    ])
}

/// One range of each family that holds those of all nodes and the addresses of all pods.
fn pod_ranges(cluster: &Cluster) -> Vec<IpNet> {
    let of_nodes = cluster.nodes.iter().flat_map(|node| node.pod_cidrs.iter().copied());
    let own = cluster.pods.iter().filter(|pod| !pod.host_network).flat_map(|pod| pod.ips.iter().copied());
    let all: Vec<IpNet> = of_nodes.chain(own.map(IpNet::from)).collect();
    let usual = |family: Family| if family == Family::Ipv4 { "10.244.0.0/16" } else { "fd00:10:244::/48" };
    let of_family = |family: Family| {
        let mut ranges = all.iter().copied().filter(|range| Family::of(range.addr()) == family).peekable();
        ranges.peek()?;
        let usual = usual(family)
            .parse::<IpNet>()
            .ok()
            .filter(|usual| all.iter().all(|range| Family::of(range.addr()) != family || usual.contains(range)));
        usual.or_else(|| ranges.reduce(around_both))
    };
    // The primary family comes first.
    let mut families = Family::ALL;
    let first = cluster.nodes.iter().flat_map(|node| &node.pod_cidrs).next();
    if first.is_some_and(|range| Family::of(range.addr()) == Family::Ipv6) {
        families.reverse();
    }
    families.into_iter().filter_map(of_family).collect()
}

/// The smallest range that holds two of one family.
fn around_both(one: IpNet, other: IpNet) -> IpNet {
    let mut range = one;
    while !range.contains(&other) {
        let Some(wider) = range.supernet() else { break };
        range = wider;
    }
    range
}

/// The ranges of cluster IPs, unless pods overlap with them.
fn service_ranges(cluster: &Cluster, pods: &[IpNet]) -> Vec<IpNet> {
    let overlaps = |range: &IpNet| pods.iter().any(|pods| pods.contains(range) || range.contains(pods));
    let usual = |range: &IpNet| ["10.96.0.0/12", "fd00:10:96::/112"].iter().any(|usual| usual.parse() == Ok(*range));
    cluster.service_cidrs.iter().copied().filter(|range| !overlaps(range) && !usual(range)).collect()
}

fn proxy(proxy: &ProxyConfig, pods: &[IpNet]) -> Value {
    let default = ProxyConfig::default();
    let joined = |ranges: &[IpNet]| ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let (mode, detect) = match &proxy.detect_local {
        DetectLocal::ClusterCidr => (Value::Null, Value::Null),
        DetectLocal::NodeCidr => (text("NodeCIDR"), Value::Null),
        DetectLocal::BridgeInterface(name) => (text("BridgeInterface"), map([("bridgeInterface", text(name))])),
        DetectLocal::InterfaceNamePrefix(name) => {
            (text("InterfaceNamePrefix"), map([("interfaceNamePrefix", text(name))]))
        }
    };
    let node_ports = if proxy.primary_node_ports { list(["primary"]) } else { list(&proxy.node_port_addresses) };
    let gates = proxy.feature_gates.iter().map(|(name, is_on)| (text(name), Value::Bool(*is_on)));
    map([
        ("mode", given(proxy.mode == ProxyMode::Nftables, || text("nftables"))),
        ("version", text(&proxy.version)),
        ("clusterCIDR", given(proxy.cluster_cidrs != pods, || text(joined(&proxy.cluster_cidrs)))),
        ("detectLocalMode", mode),
        ("detectLocal", detect),
        ("masqueradeAll", given(proxy.masquerade_all, || true.into())),
        ("masqueradeBit", given(proxy.masquerade_bit != default.masquerade_bit, || proxy.masquerade_bit.into())),
        ("localhostNodePorts", given(!proxy.localhost_node_ports, || false.into())),
        ("nodePortAddresses", node_ports),
        ("conntrack", map([("tcpBeLiberal", given(proxy.tcp_be_liberal, || true.into()))])),
        ("featureGates", Value::Mapping(gates.collect())),
    ])
}

fn node(node: &Node, scenario: &Scenario) -> Value {
    let settings = scenario.sysctls.get(&node.name);
    let settings = settings.into_iter().flatten().map(|(name, setting)| (text(name), text(&setting.value)));
    map([
        ("name", text(&node.name)),
        ("ips", list(&node.internal_ips)),
        ("externalIPs", list(&node.external_ips)),
        ("podCIDRs", list(&node.pod_cidrs)),
        ("labels", strings(&node.labels)),
        ("hostnameOverride", node.hostname_override.as_ref().map_or(Value::Null, text)),
        ("sysctls", Value::Mapping(settings.collect())),
    ])
}

fn namespace(name: &ObjectName) -> Value {
    given(name.namespace != "default", || text(&name.namespace))
}

fn protocol(protocol: Protocol) -> Value {
    given(protocol != Protocol::Tcp, || text(protocol.as_str().to_uppercase()))
}

fn pod(pod: &Pod) -> Value {
    let ports = pod.ports.iter().map(|port| {
        map([
            ("name", port.name.as_ref().map_or(Value::Null, text)),
            ("containerPort", port.port.into()),
            ("protocol", protocol(port.protocol)),
            ("hostPort", port.host_port.map_or(Value::Null, Into::into)),
        ])
    });
    map([
        ("name", text(&pod.name.name)),
        ("namespace", namespace(&pod.name)),
        ("node", text(&pod.node)),
        ("ips", given(!pod.host_network, || list(&pod.ips))),
        ("hostNetwork", given(pod.host_network, || true.into())),
        ("labels", strings(&pod.labels)),
        ("ports", Value::Sequence(ports.collect())),
    ])
}

fn service(service: &Service) -> Value {
    let kind = match service.kind {
        ServiceType::ClusterIp | ServiceType::ExternalName => Value::Null,
        ServiceType::NodePort => text("NodePort"),
        ServiceType::LoadBalancer => text("LoadBalancer"),
    };
    let ports = service.ports.iter().map(|port| {
        let is_same = |target: &&String| **target != port.port.to_string();
        let target = port.target_port.as_ref().filter(is_same);
        map([
            ("name", given(!port.name.is_empty(), || text(&port.name))),
            ("protocol", protocol(port.protocol)),
            ("port", port.port.into()),
            (
                "targetPort",
                target.map_or(Value::Null, |target| target.parse::<u16>().map_or_else(|_| text(target), Into::into)),
            ),
            ("nodePort", port.node_port.map_or(Value::Null, Into::into)),
        ])
    });
    let ingress = service.load_balancer.iter().map(|ingress| {
        map([("ip", text(ingress.ip)), ("ipMode", given(ingress.mode == IpMode::Proxy, || text("Proxy")))])
    });
    let is_plain = service.load_balancer.iter().all(|ingress| ingress.mode == IpMode::Vip);
    let (short, status) = if is_plain {
        (list(service.load_balancer.iter().map(|ingress| ingress.ip)), Value::Null)
    } else {
        (Value::Null, map([("loadBalancer", map([("ingress", Value::Sequence(ingress.collect()))]))]))
    };
    let has_node_ports = service.ports.iter().any(|port| port.node_port.is_some());
    let is_dual = service.families.len() > 1;
    let affinity = service.affinity_seconds;
    let timeout = affinity
        .filter(|seconds| *seconds != 10_800)
        .map_or(Value::Null, |seconds| map([("clientIP", map([("timeoutSeconds", seconds.into())]))]));
    map([
        ("name", text(&service.name.name)),
        ("namespace", namespace(&service.name)),
        ("labels", strings(&service.labels)),
        ("annotations", strings(&service.annotations)),
        ("type", kind),
        ("clusterIPs", if service.headless { list(["None"]) } else { list(&service.cluster_ips) }),
        ("ipFamilies", given(is_dual, || list(&service.families))),
        ("ipFamilyPolicy", given(is_dual, || text("RequireDualStack"))),
        ("ports", Value::Sequence(ports.collect())),
        ("externalIPs", list(&service.external_ips)),
        ("loadBalancerIPs", short),
        ("status", status),
        (
            "allocateLoadBalancerNodePorts",
            given(service.kind == ServiceType::LoadBalancer && !has_node_ports, || false.into()),
        ),
        ("loadBalancerSourceRanges", list(&service.source_ranges)),
        (
            "externalTrafficPolicy",
            given(service.external_traffic_policy == ExternalTrafficPolicy::Local, || text("Local")),
        ),
        (
            "internalTrafficPolicy",
            given(service.internal_traffic_policy == InternalTrafficPolicy::Local, || text("Local")),
        ),
        ("sessionAffinity", given(affinity.is_some(), || text("ClientIP"))),
        ("sessionAffinityConfig", timeout),
        ("healthCheckNodePort", service.health_check_node_port.map_or(Value::Null, Into::into)),
        ("publishNotReadyAddresses", given(service.publish_not_ready_addresses, || true.into())),
        ("trafficDistribution", service.traffic_distribution.as_ref().map_or(Value::Null, text)),
    ])
}

fn endpoints(slice: &EndpointSlice, cluster: &Cluster) -> Value {
    let all: Vec<Value> = slice.endpoints.iter().map(|one| endpoint(one, cluster)).collect();
    // Those that are pods and nothing more.
    let pods: Option<Vec<Value>> = all
        .iter()
        .map(|one| one.get("pod").filter(|_| one.as_mapping().map(Mapping::len) == Some(1)).cloned())
        .collect();
    let service = cluster.service(&slice.service);
    let is_usual = service.is_some_and(|service| {
        service.ports.len() == slice.ports.len()
            && service.ports.iter().zip(&slice.ports).all(|(port, own)| {
                let target = port.target_port.clone().unwrap_or_else(|| port.port.to_string());
                own.name == port.name
                    && own.protocol == port.protocol
                    && own.port.map(|port| port.to_string()) == Some(target)
            })
    });
    let ports = slice.ports.iter().filter_map(|port| {
        Some(map([
            ("name", given(!port.name.is_empty(), || text(&port.name))),
            ("protocol", protocol(port.protocol)),
            ("port", port.port?.into()),
        ]))
    });
    map([
        ("service", text(short_name(&slice.service))),
        ("pods", pods.as_ref().map_or(Value::Null, |pods| Value::Sequence(pods.clone()))),
        ("endpoints", given(pods.is_none(), || Value::Sequence(all))),
        ("ports", given(!is_usual, || Value::Sequence(ports.collect()))),
    ])
}

fn endpoint(endpoint: &Endpoint, cluster: &Cluster) -> Value {
    let named = endpoint.pod.as_ref().and_then(|name| cluster.pod(name));
    let by_address = || cluster.pods.iter().find(|pod| !pod.host_network && pod.ips == endpoint.addresses);
    let pod = named.or_else(by_address).filter(|pod| pod.ips == endpoint.addresses);
    let node = endpoint.node.as_ref().filter(|name| pod.is_none_or(|pod| pod.node != **name));
    let zone_of_node = pod.and_then(|pod| cluster.node(&pod.node)).and_then(Node::zone);
    let zone = endpoint.zone.as_deref().filter(|zone| zone_of_node != Some(*zone));
    let hints = |names: &Option<Vec<String>>| {
        let all = names.iter().flatten().map(|name| map([("name", text(name))]));
        Value::Sequence(all.collect())
    };
    let conditions = map([
        ("ready", given(!endpoint.ready, || false.into())),
        ("serving", endpoint.serving.filter(|serving| *serving != endpoint.ready).map_or(Value::Null, Value::Bool)),
        ("terminating", given(endpoint.terminating, || true.into())),
    ]);
    let addresses: &[IpAddr] = if pod.is_some() { &[] } else { &endpoint.addresses };
    map([
        ("pod", pod.map_or(Value::Null, |pod| text(short_name(&pod.name)))),
        ("addresses", list(addresses)),
        ("conditions", conditions),
        ("nodeName", node.map_or(Value::Null, text)),
        ("zone", zone.map_or(Value::Null, text)),
        ("hints", map([("forZones", hints(&endpoint.zone_hints)), ("forNodes", hints(&endpoint.node_hints))])),
    ])
}

fn rules(scenario: &Scenario) -> Value {
    let mut places: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for rules in &scenario.rules {
        let place = match &rules.place {
            Place::Node(name) => name.clone(),
            Place::Pod(name) => crate::scenario::pod_label(name),
        };
        let install = match rules.install {
            Install::Instead => "instead",
            Install::Before => "before",
            Install::After => "after",
        };
        let printed = rules.rules.print();
        places.entry(place).or_default().push(map([
            ("install", text(install)),
            ("family", given(rules.family == Family::Ipv6, || text("ipv6"))),
            ("text", text(printed.trim_start().trim_end().to_owned() + "\n")),
        ]));
    }
    Value::Mapping(places.into_iter().map(|(place, rules)| (text(place), Value::Sequence(rules))).collect())
}
