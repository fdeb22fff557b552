//! Converts a state of a scenario into a graph.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use svclab_rules::cluster::{
    self, Cluster, Endpoint, EndpointSlice, ExternalTrafficPolicy, InternalTrafficPolicy, LinkOwner, ObjectName,
    ServicePort, ServiceType,
};

use super::flow;
use super::model::{Graph, Machine, Node, Pod, Service};
use crate::explain::Explanation;
use crate::scenario::{CniKind, Host, Overlay, Place, Scenario, link_words, pod_label, short_name};
use crate::text::{counted, path_text};

/// The maximum number of nodes, pods of all nodes together, outside hosts, services, and endpoints of a service that are not pods.
const NODES: usize = 100;
const PODS: usize = 400;
const HOSTS: usize = 40;
const SERVICES: usize = 60;
const ELSEWHERE: usize = 4;

impl Graph {
    /// Returns the graph of a state of a scenario, with the path of a flow that has this number, from 1. If there are very many machines
    /// and services, some are left out, but never those that the flow visits.
    pub fn of(scenario: &Scenario, state: &Cluster, flow: Option<(&Explanation, usize)>) -> Self {
        let wanted = flow.map(|(explanation, _)| flow::names(explanation)).unwrap_or_default();
        let mut plan = Plan { scenario, state, wanted, left_out: Vec::new() };
        let services = plan.services();
        let (nodes, shown) = plan.nodes(&services);
        let hosts = plan.hosts();
        let mut graph = Self {
            title: scenario.name.clone(),
            subtitle: plan.subtitle(),
            services: services.iter().map(|service| plan.service(service, &shown)).collect(),
            hosts,
            nodes,
            left_out: plan.left_out,
            flow: None,
        };
        graph.flow = flow.map(|(explanation, chosen)| flow::flow(&graph, explanation, chosen));
        graph
    }
}

struct Plan<'a> {
    scenario: &'a Scenario,
    state: &'a Cluster,
    /// The names of places and services that must be shown.
    wanted: HashSet<String>,
    left_out: Vec<String>,
}

impl<'a> Plan<'a> {
    /// Returns the first elements of a list in their order, preferring those that must be shown, and records what is left out.
    fn first<T>(&mut self, all: &'a [T], most: usize, thing: &str, name: impl Fn(&T) -> String) -> Vec<&'a T> {
        let (kept, left_out) = first(all.iter().collect(), most, |one| self.wanted.contains(&name(one)));
        if left_out > 0 {
            self.left_out.push(counted(left_out, thing));
        }
        kept
    }

    fn services(&mut self) -> Vec<&'a cluster::Service> {
        self.first(&self.state.services, SERVICES, "service", |service| service.name.to_string())
    }

    fn hosts(&mut self) -> Vec<Machine> {
        let hosts = self.first(&self.scenario.hosts, HOSTS, "outside host", |host| format!("host/{}", host.name));
        let machine = |host: &Host| {
            let owner = LinkOwner::Host(host.name.clone());
            let lines = texts(&host.ips).into_iter().chain(self.link(&owner)).collect();
            Machine { name: format!("host/{}", host.name), lines, is_cut_off: self.is_cut_off(&owner) }
        };
        hosts.into_iter().map(machine).collect()
    }

    /// Returns the nodes, and the pods that are shown.
    fn nodes(&mut self, services: &[&cluster::Service]) -> (Vec<Node>, HashSet<&'a ObjectName>) {
        let mut of_node: HashMap<&str, Vec<&'a cluster::Pod>> = HashMap::new();
        for pod in &self.state.pods {
            of_node.entry(&pod.node).or_default().push(pod);
        }
        // The node of a pod in the flow is visited as well.
        let visited = self.state.pods.iter().filter(|pod| self.wanted.contains(&pod_label(&pod.name)));
        let around: Vec<String> = visited.map(|pod| format!("node/{}", pod.node)).collect();
        self.wanted.extend(around);
        let nodes = self.first(&self.state.nodes, NODES, "node", |node| format!("node/{}", node.name));
        let most = (PODS / nodes.len().max(1)).max(8);
        let serving = serving(self.state, services);
        let mut shown = HashSet::new();
        let mut node_of = |node: &'a cluster::Node| {
            let all = of_node.remove(node.name.as_str()).unwrap_or_default();
            let (pods, more) = first(all, most, |pod| self.wanted.contains(&pod_label(&pod.name)));
            shown.extend(pods.iter().map(|pod| &pod.name));
            let pods = pods.into_iter().map(|pod| self.pod(pod, &serving)).collect();
            Node { machine: self.node(node), pods, more }
        };
        let nodes = nodes.into_iter().map(&mut node_of).collect();
        (nodes, shown)
    }

    fn node(&self, node: &cluster::Node) -> Machine {
        let mut lines = texts(&node.internal_ips);
        lines.extend(node.external_ips.iter().map(|ip| format!("{ip} (external)")));
        lines.extend(node.pod_cidrs.iter().map(|range| format!("pods {range}")));
        let owner = LinkOwner::Node(node.name.clone());
        lines.extend(self.link(&owner));
        let release = self.state.release_on(node);
        if release != self.state.proxy.version {
            lines.push(format!("kube-proxy {release}"));
        }
        if self.state.stopped.contains_key(&node.name) {
            lines.push("kube-proxy is stopped".to_owned());
        }
        if self.has_rules(&Place::Node(node.name.clone())) {
            lines.push("has rules of its own".to_owned());
        }
        Machine { name: format!("node/{}", node.name), lines, is_cut_off: self.is_cut_off(&owner) }
    }

    fn pod(&self, pod: &cluster::Pod, serving: &HashMap<&ObjectName, Vec<usize>>) -> Pod {
        let mut lines = if pod.host_network { vec!["host network".to_owned()] } else { texts(&pod.ips) };
        let owner = LinkOwner::Pod(pod.name.clone());
        lines.extend(self.link(&owner));
        if self.has_rules(&Place::Pod(pod.name.clone())) {
            lines.push("has rules of its own".to_owned());
        }
        let machine = Machine { name: pod_label(&pod.name), lines, is_cut_off: self.is_cut_off(&owner) };
        Pod { machine, services: serving.get(&pod.name).cloned().unwrap_or_default() }
    }

    /// Returns whether a machine's link is down.
    fn is_cut_off(&self, owner: &LinkOwner) -> bool {
        self.state.links.get(owner).is_some_and(|link| !link.state.is_up())
    }

    /// Describes a machine's link if it differs from the default.
    fn link(&self, owner: &LinkOwner) -> Option<String> {
        self.state.links.get(owner).map(|link| format!("link: {}", link_words(*link)))
    }

    fn has_rules(&self, place: &Place) -> bool {
        self.scenario.rules.iter().any(|rules| rules.place == *place)
    }

    fn service(&self, service: &cluster::Service, shown: &HashSet<&ObjectName>) -> Service {
        let endpoints: Vec<&Endpoint> =
            self.state.slices_of(&service.name).flat_map(|slice| &slice.endpoints).collect();
        let is_shown = |endpoint: &&Endpoint| endpoint.pod.as_ref().is_some_and(|pod| shown.contains(pod));
        let pods: HashSet<&ObjectName> = endpoints.iter().filter_map(|one| one.pod.as_ref()).collect();
        let others: Vec<&Endpoint> = endpoints.iter().copied().filter(|one| one.pod.is_none()).collect();
        let mut elsewhere: Vec<String> = others.iter().take(ELSEWHERE).map(|one| endpoint_words(one)).collect();
        if others.len() > ELSEWHERE {
            elsewhere.push(format!("and {} more", others.len() - ELSEWHERE));
        }
        let left_out = pods.len() - pods.iter().filter(|pod| shown.contains(*pod)).count();
        if left_out > 0 {
            elsewhere.push(format!("{} not drawn", counted(left_out, "pod")));
        }
        let unready = endpoints.iter().filter(|one| is_shown(one) && !one.ready);
        let unready: HashSet<String> =
            unready.filter_map(|one| Some(format!("{} is not ready", pod_label(one.pod.as_ref()?)))).collect();
        let mut unready: Vec<String> = unready.into_iter().collect();
        unready.sort();
        elsewhere.extend(unready);
        Service {
            name: short_name(&service.name),
            lines: service_lines(service, &self.state.slices_of(&service.name).collect::<Vec<_>>()),
            endpoints: pods.len() + others.len(),
            elsewhere,
        }
    }

    fn subtitle(&self) -> String {
        let proxy = &self.state.proxy;
        let file = path_text(&self.scenario.file);
        format!("{file}: kube-proxy {}, {} mode; {}", proxy.version, proxy.mode.as_str(), self.links())
    }

    /// Describes how pods and nodes are connected.
    fn links(&self) -> String {
        let pods = match self.scenario.cni.kind {
            CniKind::Ptp => "pods on routed veth pairs",
            CniKind::Bridge { .. } => "pods on a bridge",
        };
        match self.scenario.cni.overlay {
            Overlay::None => pods.to_owned(),
            Overlay::Vxlan => format!("{pods}, VXLAN between nodes"),
        }
    }
}

/// Returns the first `most` elements of a list in their order, preferring those that must be shown, and the number left out.
fn first<T>(all: Vec<T>, most: usize, must: impl Fn(&T) -> bool) -> (Vec<T>, usize) {
    let left_out = all.len().saturating_sub(most);
    if left_out == 0 {
        return (all, 0);
    }
    let mut room = most.saturating_sub(all.iter().filter(|one| must(one)).count());
    let total = all.len();
    let mut kept = all;
    kept.retain(|one| {
        let is_kept = must(one) || room > 0;
        room -= usize::from(is_kept && !must(one));
        is_kept
    });
    let left_out = total - kept.len();
    (kept, left_out)
}

/// Returns the services of each pod, by index.
fn serving<'a>(state: &'a Cluster, services: &[&cluster::Service]) -> HashMap<&'a ObjectName, Vec<usize>> {
    let mut serving: HashMap<&ObjectName, Vec<usize>> = HashMap::new();
    let number: HashMap<&ObjectName, usize> =
        services.iter().enumerate().map(|(number, service)| (&service.name, number)).collect();
    for slice in &state.slices {
        let Some(number) = number.get(&slice.service) else { continue };
        for pod in slice.endpoints.iter().filter_map(|endpoint| endpoint.pod.as_ref()) {
            let own = serving.entry(pod).or_default();
            if !own.contains(number) {
                own.push(*number);
            }
        }
    }
    serving
}

fn texts(addresses: &[IpAddr]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

/// Describes an endpoint that is not a pod: `192.0.2.1`, `192.0.2.1 (not ready)`.
fn endpoint_words(endpoint: &Endpoint) -> String {
    let addresses = texts(&endpoint.addresses).join(" ");
    if endpoint.ready { addresses } else { format!("{addresses} (not ready)") }
}

/// Returns the type, addresses, ports and policies of a service, one per line.
fn service_lines(service: &cluster::Service, slices: &[&EndpointSlice]) -> Vec<String> {
    let mut lines = vec![kind(service).to_owned()];
    for port in &service.ports {
        let to = target(port, slices).map(|to| format!(" to port {to}")).unwrap_or_default();
        let own = service
            .cluster_ips
            .iter()
            .map(|ip| format!("{}/{}{to}", SocketAddr::new(*ip, port.port), port.protocol.as_str()));
        lines.extend(own);
        lines.extend(port.node_port.map(|number| format!("node port {number}/{}", port.protocol.as_str())));
    }
    lines.extend(service.load_balancer.iter().map(|ingress| format!("load balancer {}", ingress.ip)));
    lines.extend(service.external_ips.iter().map(|ip| format!("external IP {ip}")));
    if service.external_traffic_policy == ExternalTrafficPolicy::Local {
        lines.push("externalTrafficPolicy: Local".to_owned());
    }
    if service.internal_traffic_policy == InternalTrafficPolicy::Local {
        lines.push("internalTrafficPolicy: Local".to_owned());
    }
    lines.extend(service.affinity_seconds.map(|seconds| format!("session affinity, {seconds} s")));
    lines
}

fn kind(service: &cluster::Service) -> &'static str {
    match service.kind {
        ServiceType::ClusterIp if service.headless => "headless",
        ServiceType::ClusterIp => "ClusterIP",
        ServiceType::NodePort => "NodePort",
        ServiceType::LoadBalancer => "LoadBalancer",
        ServiceType::ExternalName => "ExternalName",
    }
}

/// Returns the port of a service port's endpoints, if it differs from its own.
fn target(port: &ServicePort, slices: &[&EndpointSlice]) -> Option<u16> {
    let ports = slices.iter().flat_map(|slice| &slice.ports).filter(|one| one.name == port.name);
    let numbers: HashSet<u16> = ports.filter_map(|one| one.port).collect();
    let mut numbers = numbers.into_iter();
    numbers.next().filter(|number| numbers.next().is_none() && *number != port.port)
}
