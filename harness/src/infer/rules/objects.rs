//! What rules show, as Kubernetes objects.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde_json::{Value, json};
use svclab_rules::cluster::{Cluster, Family, ObjectName, ProxyMode, Service};
use svclab_rules::compare::MadeUp;
use svclab_rules::infer::{Inferred, InferredPort};

use super::machine::Machine;
use super::surroundings::{Surroundings, families, lacking_elsewhere};
use crate::infer::accessors::service_of;
use crate::infer::endpoint_pods::EndpointPod;
use crate::infer::merge::Objects;
use crate::infer::service_ports::usual_numbers;
use crate::text::{counted, list};

/// A list of the Nodes, Services and EndpointSlices.
pub(super) fn objects(inferred: &Inferred, around: &Surroundings, mode: ProxyMode) -> Value {
    let mut items: Vec<Value> = around.machines.iter().map(Machine::object).collect();
    for (name, ports) in services(inferred) {
        items.push(service(name, &ports, mode));
        items.extend(slices(name, &ports, around));
    }
    items.extend(around.forwarded_pods().iter().map(EndpointPod::object));
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// What was assumed of Services, in words.
pub(super) fn assumptions(inferred: &Inferred, around: &Surroundings, mode: ProxyMode) -> Vec<String> {
    let unnamed = inferred.ports.iter().filter(|port| port.is_unnamed()).count();
    let mut assumptions = Vec::new();
    match unnamed {
        0 => {}
        1 => assumptions.push("the name of 1 service port without a comment, from the hash of its chains".to_owned()),
        _ => assumptions
            .push(format!("names of {unnamed} service ports without a comment, from the hashes of their chains")),
    }
    let checked: BTreeSet<u16> =
        inferred.ports.iter().filter(|port| port.is_unnamed()).filter_map(|port| port.health_check).collect();
    if checked.len() > 1 {
        assumptions
            .push(format!("which of the Services without a name has which health check: ports {}", list(checked, 10)));
    }
    let portless: Vec<String> =
        inferred.ports.iter().filter(|port| number_of(port).is_none()).map(InferredPort::full_name).collect();
    if !portless.is_empty() {
        assumptions.push(format!("left out, because nothing that is shown leads to them: {}", portless.join(", ")));
    }
    for port in &inferred.ports {
        let terminating = port.local.iter().filter(|endpoint| is_terminating(port, **endpoint, around));
        assumptions.extend(terminating.map(|endpoint| {
            let name = port.full_name();
            format!("endpoint {endpoint} of {name} is terminating: only the chain for policy Local has it")
        }));
    }
    let checked = inferred.ports.iter().filter(|port| port.has_unshown_source_ranges && port.source_ranges.is_empty());
    let checked: BTreeSet<String> = checked.map(|port| port.service.to_string()).collect();
    if !checked.is_empty() {
        assumptions.push(format!(
            "the source ranges of {} are not in the text: {}",
            list(checked, MAX_NAMED),
            UNSHOWN_RANGES.join(", ")
        ));
    }
    if mode == ProxyMode::Nftables && inferred.ports.iter().any(|port| !port.external_ips.is_empty()) {
        let words =
            "addresses other than cluster IPs are load-balancer addresses if there is a node port, else external IPs";
        assumptions.push(words.to_owned());
    }
    assumptions
}

/// The endpoints that rules balance among, and that neither they nor objects show, in words.
pub(super) fn hidden_endpoints(inferred: &Inferred, objects: &Objects) -> Vec<String> {
    let listed: HashSet<String> = objects.endpoints.iter().map(service_of).collect();
    let hidden = inferred.ports.iter().filter(|port| port.hidden_endpoints > 0);
    let hidden = hidden.filter(|port| !listed.contains(&port.service.to_string()));
    let words = hidden.map(|port| {
        let (name, count) = (port.full_name(), counted(port.hidden_endpoints, "endpoint"));
        format!("left out: {count} of {name} or more that the text does not show: only the probabilities of its rules are for them")
    });
    words.take(MAX_NAMED).collect()
}

/// The addresses and node ports of Services that neither rules nor objects show, with the endpoints that are made up.
pub(super) fn made_up(
    inferred: &Inferred,
    objects: &Objects,
    cluster: &Cluster,
    endpoints: &BTreeSet<IpAddr>,
) -> MadeUp {
    let of_rules = inferred.ports.iter().flat_map(|port| &port.cluster_ips).copied();
    let of_objects = objects.services().into_iter().flat_map(|(_, ips)| ips);
    let known: BTreeSet<IpAddr> = of_rules.chain(of_objects).collect();
    let all = cluster.services.iter().flat_map(|service| &service.cluster_ips).copied();
    let addresses = all.filter(|ip| !known.contains(ip)).collect();
    let of_rules = inferred.ports.iter().flat_map(|port| [port.node_port, port.health_check]).flatten();
    let known: BTreeSet<u16> = of_rules.chain(objects.node_ports()).collect();
    let of_service = |service: &Service| {
        let ports: Vec<u16> = service.ports.iter().filter_map(|port| port.node_port).collect();
        ports.into_iter().chain(service.health_check_node_port)
    };
    let all = cluster.services.iter().flat_map(of_service);
    let used = cluster.slices.iter().flat_map(|slice| &slice.endpoints).flat_map(|endpoint| &endpoint.addresses);
    let endpoints = used.filter(|ip| endpoints.contains(ip)).copied().collect();
    let node_ports = all.filter(|port| !known.contains(port)).collect();
    MadeUp { addresses, endpoints, node_ports, local_sources: BTreeSet::new() }
}

/// What was made up for Services, in words.
pub(super) fn made_up_words(made_up: &MadeUp, inferred: &Inferred, cluster: &Cluster) -> Vec<String> {
    let of_service = |service: &Service| {
        let ip = service.cluster_ips.iter().find(|ip| made_up.addresses.contains(ip))?;
        let without = inferred.ports.iter().filter(|port| port.service == service.name && port.port.is_none());
        let ports: Vec<String> = without.filter_map(number_of).map(|number| format!(", port {number}")).collect();
        Some(format!("{} (cluster IP {ip}{})", service.name, ports.concat()))
    };
    let all: Vec<String> = cluster.services.iter().filter_map(of_service).collect();
    let more = if all.len() > MAX_NAMED { ", ..." } else { "" };
    let named = all.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    let words = || format!("addresses of {}, which nothing shows: {named}{more}", counted(all.len(), "service"));
    (!all.is_empty()).then(words).into_iter().collect()
}

/// The most Services that are named.
const MAX_NAMED: usize = 5;

/// Source ranges where rules only show that there are some: of documentation (RFC 5737, RFC 3849), so that no pod or node has an address in them.
const UNSHOWN_RANGES: [&str; 2] = ["192.0.2.0/24", "2001:db8:2::/48"];

/// The ports of each service, without those of which no port is shown.
fn services(inferred: &Inferred) -> BTreeMap<&ObjectName, Vec<&InferredPort>> {
    let mut services: BTreeMap<&ObjectName, Vec<&InferredPort>> = BTreeMap::new();
    for port in inferred.ports.iter().filter(|port| number_of(port).is_some()) {
        services.entry(&port.service).or_default().push(port);
    }
    services
}

/// The port of a Service, or the usual one. Where only its node port is known, it is reached at that everywhere.
fn number_of(port: &InferredPort) -> Option<u16> {
    let target = port.endpoints.iter().chain(&port.local).next().map(SocketAddr::port);
    let usual = usual_numbers(&port.full_name()).map(|(number, _)| number).filter(|_| !port.is_name_alone());
    port.port.or(usual).or(port.node_port).or(target)
}

fn service(name: &ObjectName, ports: &[&InferredPort], mode: ProxyMode) -> Value {
    let has_node_ports = ports.iter().any(|port| port.node_port.is_some());
    let cluster_ips = once(ports.iter().flat_map(|port| &port.cluster_ips));
    let mut external_ips = once(ports.iter().flat_map(|port| &port.external_ips));
    let mut ingress = once(ports.iter().flat_map(|port| &port.load_balancer));
    // Sources are checked before all addresses of a load balancer, or before none.
    if mode == ProxyMode::Nftables && has_node_ports && ingress.is_empty() {
        ingress.append(&mut external_ips);
    }
    let health_check = ports.iter().find_map(|port| port.health_check);
    let kind = match (ingress.is_empty() && health_check.is_none(), has_node_ports) {
        (false, _) => "LoadBalancer",
        (true, true) => "NodePort",
        (true, false) => "ClusterIP",
    };
    let policy = |is_local: bool| if is_local { "Local" } else { "Cluster" };
    let mut spec = json!({
        "type": kind,
        "ports": ports.iter().zip(numbers(ports)).map(|(port, number)| port_of(port, number)).collect::<Vec<_>>(),
        "internalTrafficPolicy": policy(ports.iter().any(|port| port.is_internal_local)),
    });
    if let Some(first) = cluster_ips.first() {
        let families: Vec<String> = cluster_ips.iter().map(|ip| Family::of(*ip).to_string()).collect();
        let family_policy = if families.len() > 1 { "RequireDualStack" } else { "SingleStack" };
        spec["clusterIP"] = json!(first);
        spec["clusterIPs"] = json!(cluster_ips);
        spec["ipFamilies"] = json!(families);
        spec["ipFamilyPolicy"] = json!(family_policy);
    }
    if !external_ips.is_empty() {
        spec["externalIPs"] = json!(external_ips);
    }
    if kind != "ClusterIP" || !external_ips.is_empty() {
        spec["externalTrafficPolicy"] = json!(policy(ports.iter().any(|port| port.is_external_local)));
    }
    if kind == "LoadBalancer" {
        let mut ranges = once(ports.iter().flat_map(|port| &port.source_ranges));
        if ranges.is_empty() && ports.iter().any(|port| port.has_unshown_source_ranges) {
            let families: BTreeSet<Family> = ports.iter().flat_map(|port| families(port)).collect();
            let unshown = UNSHOWN_RANGES.iter().filter_map(|range| range.parse::<IpNet>().ok());
            ranges.extend(unshown.filter(|range| families.contains(&Family::of(range.addr()))));
        }
        spec["allocateLoadBalancerNodePorts"] = json!(has_node_ports);
        if !ranges.is_empty() {
            spec["loadBalancerSourceRanges"] = json!(ranges.iter().map(ToString::to_string).collect::<Vec<_>>());
        }
        if let Some(port) = health_check {
            spec["healthCheckNodePort"] = json!(port);
        }
    }
    if let Some(seconds) = ports.iter().find_map(|port| port.affinity) {
        spec["sessionAffinity"] = json!("ClientIP");
        spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": seconds}});
    }
    let ingress: Vec<Value> = ingress.iter().map(|ip| json!({"ip": ip})).collect();
    let metadata = json!({"name": name.name, "namespace": name.namespace});
    let status = json!({"loadBalancer": {"ingress": ingress}});
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
    if kind == "LoadBalancer" {
        service["status"] = status;
    }
    service
}

/// Each of several things once, in the order in which they come first.
fn once<'a, T: Copy + Ord + 'a>(all: impl Iterator<Item = &'a T>) -> Vec<T> {
    let mut known = BTreeSet::new();
    all.copied().filter(|one| known.insert(*one)).collect()
}

/// The numbers of a Service's ports: where one is not shown and another port of the protocol has it, the next that none has.
fn numbers(ports: &[&InferredPort]) -> Vec<Option<u16>> {
    let mut used: BTreeSet<_> = ports.iter().filter_map(|port| Some((port.protocol, port.port?))).collect();
    let free = |port: &&InferredPort| {
        let usual = number_of(port)?;
        let mut all = (usual..=u16::MAX).chain(1..usual);
        port.port.or_else(|| all.find(|number| used.insert((port.protocol, *number))))
    };
    ports.iter().map(free).collect()
}

fn port_of(port: &InferredPort, number: Option<u16>) -> Value {
    let target = port.endpoints.iter().chain(&port.local).next().map(SocketAddr::port);
    let mut written = json!({"port": number, "protocol": port.protocol.as_str().to_uppercase()});
    if !port.name.is_empty() {
        written["name"] = json!(port.name);
    }
    if let Some(target) = target {
        written["targetPort"] = json!(target);
    }
    if let Some(node_port) = port.node_port {
        written["nodePort"] = json!(node_port);
    }
    written
}

/// Whether an endpoint is one that kube-proxy falls back to on a node without ready ones: only the chain of policy Local has it,
/// and all that the other chain has are on other nodes.
fn is_terminating(port: &InferredPort, endpoint: SocketAddr, around: &Surroundings) -> bool {
    let mut ready = port.endpoints.iter().filter(|other| other.is_ipv4() == endpoint.is_ipv4()).peekable();
    let node = around.node_of(endpoint.ip());
    port.local.contains(&endpoint) && ready.peek().is_some() && ready.all(|other| around.node_of(other.ip()) != node)
}

/// The endpoints of a Service: a slice for each of its ports, family, and port of endpoints.
fn slices(name: &ObjectName, ports: &[&InferredPort], around: &Surroundings) -> Vec<Value> {
    let mut slices = Vec::new();
    for port in ports {
        let mut groups: BTreeMap<(Family, u16), BTreeSet<IpAddr>> = BTreeMap::new();
        for endpoint in port.endpoints.iter().chain(&port.local) {
            groups.entry((Family::of(endpoint.ip()), endpoint.port())).or_default().insert(endpoint.ip());
        }
        for family in lacking_elsewhere(port, |ip| around.is_elsewhere(ip)) {
            let is_unshown_here = port.has_local_endpoints && port.unshown_endpoints.contains(&family);
            let local = around.here.get(&family).filter(|_| is_unshown_here);
            let all = around.elsewhere.get(&family).into_iter().chain(local);
            let usual = usual_numbers(&port.full_name()).map(|(_, target)| target);
            let target = port.target.or(usual).or(port.port).unwrap_or(80);
            groups.entry((family, target)).or_default().extend(all);
        }
        for ((family, number), addresses) in groups {
            let mut served = json!({"port": number, "protocol": port.protocol.as_str().to_uppercase()});
            served["name"] = json!(port.name);
            let endpoint = |ip: &IpAddr| {
                let conditions = if is_terminating(port, SocketAddr::new(*ip, number), around) {
                    json!({"ready": false, "serving": true, "terminating": true})
                } else {
                    json!({"ready": true})
                };
                json!({"addresses": [ip], "conditions": conditions, "nodeName": around.node_of(*ip)})
            };
            let endpoints = addresses.iter().map(endpoint);
            slices.push(json!({
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": format!("{}-{}-{}", name.name, port.protocol.as_str(), slices.len() + 1),
                    "namespace": name.namespace,
                    "labels": {"kubernetes.io/service-name": name.name},
                },
                "addressType": family.to_string(),
                "ports": [served],
                "endpoints": endpoints.collect::<Vec<_>>(),
            }));
        }
    }
    slices
}
