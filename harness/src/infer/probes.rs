//! Tests of every service port, for a scenario that is made of a dump.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use svclab_rules::cluster::{Family, ObjectName, Pod, Service, ServicePort};
use svclab_rules::promise::{
    Promise, PromisedEndpoint, PromisedOutcome, Promises, Question, Reply, Source, VantagePoint,
};

use crate::scenario::{Host, PlannedOutcome, PlannedTest, Scenario, pod_label, short_name};
use crate::stats::{flows_to_distinguish, flows_to_meet_all};

/// The most tests that are written.
const MAX: usize = 500;

/// The most tests of restored connections.
const MAX_CONNECTIONS: usize = 100;

/// The most endpoints that are all expected to get connections, and the most that are listed.
const MAX_SEEN: usize = 32;
const MAX_LISTED: usize = 200;

/// Tests of every service port from a pod and from the node itself, for each of some nodes, and of node ports and other addresses
/// from outside; then how many were left out. They expect what the Service API promises; what it leaves open is not tested.
pub fn tests(scenario: &Scenario, nodes: &[String]) -> (Vec<PlannedTest>, usize) {
    let Ok(promises) = Promises::of(&scenario.cluster) else { return (Vec::new(), 0) };
    let planner = Planner::new(scenario, promises);
    // Counting many flows empties connection tables.
    let mut all: Vec<PlannedTest> = planner.of_connections().take(MAX_CONNECTIONS).collect();
    let mut left_out = 0;
    for service in scenario.cluster.services.iter().filter(|service| service.skipped().is_none()) {
        for port in &service.ports {
            let of_port: Vec<PlannedTest> =
                nodes.iter().flat_map(|node| planner.plan_port(service, port, node)).collect();
            if all.len() + of_port.len() > MAX {
                left_out += of_port.len();
            } else {
                all.extend(of_port);
            }
        }
    }
    (all, left_out)
}

struct Planner<'a> {
    scenario: &'a Scenario,
    promises: Promises<'a>,
    /// A pod of each node that sends.
    clients: BTreeMap<&'a str, &'a Pod>,
    outside: Option<&'a Host>,
    owners: HashMap<IpAddr, &'a ObjectName>,
}

/// A destination in words, with its address and the node that packets are handed to.
struct Target {
    to: String,
    address: IpAddr,
    port: u16,
    via: Option<String>,
}

impl<'a> Planner<'a> {
    fn new(scenario: &'a Scenario, promises: Promises<'a>) -> Self {
        let mut clients: BTreeMap<&str, &Pod> = BTreeMap::new();
        let mut owners = HashMap::new();
        for pod in scenario.cluster.pods.iter().filter(|pod| !pod.host_network) {
            owners.extend(pod.ips.iter().map(|ip| (*ip, &pod.name)));
            // One that serves nothing is the better client: no endpoint is itself.
            if pod.name.name.starts_with("client-of-") || !clients.contains_key(pod.node.as_str()) {
                clients.insert(&pod.node, pod);
            }
        }
        let outside = scenario.hosts.iter().find(|host| host.name == "outside").or(scenario.hosts.first());
        Self { scenario, promises, clients, outside, owners }
    }

    fn plan_port(&self, service: &Service, port: &ServicePort, node: &str) -> Vec<PlannedTest> {
        let name = format!("{}:{}", short_name(&service.name), port.port);
        let target = |kind: &str, address: IpAddr, via: Option<&str>| {
            let via_words = via.map(|node| format!("@{node}")).unwrap_or_default();
            let to = format!("{kind}/{name}{via_words}");
            Target { to, address, port: port.port, via: via.map(str::to_owned) }
        };
        let Some(own) = self.scenario.cluster.node(node) else { return Vec::new() };
        let mut tests = Vec::new();
        for ip in &service.cluster_ips {
            if let Some(client) = self.clients.get(node) {
                let from = VantagePoint::Pod(client.name.clone());
                tests.extend(self.test(
                    service,
                    port,
                    (pod_label(&client.name), &client.ips, from),
                    target("service", *ip, None),
                ));
            }
            let from = VantagePoint::Node(node.to_owned());
            let ips = &own.internal_ips;
            tests.extend(self.test(service, port, (format!("node/{node}"), ips, from), target("service", *ip, None)));
        }
        let host = self.outside;
        let mut add = |target: Target| {
            let Some(host) = host else { return };
            let Some(ip) = host.ips.iter().copied().find(|ip| Family::of(*ip) == Family::of(target.address)) else {
                return;
            };
            let from = (format!("host/{}", host.name), &host.ips, VantagePoint::Outside(ip));
            tests.extend(self.test(service, port, from, target));
        };
        if let Some(number) = port.node_port {
            let firsts = Family::ALL.into_iter().filter_map(|family| own.internal_ip(family));
            firsts.for_each(|ip| add(Target { port: number, via: None, ..target("nodeport", ip, Some(node)) }));
        }
        service.load_balancer.iter().for_each(|ingress| add(target("loadbalancer", ingress.ip, Some(node))));
        service.external_ips.iter().for_each(|ip| add(target("externalip", *ip, Some(node))));
        // Several addresses of a kind and family have one name, which means the first.
        let mut names = HashSet::new();
        tests.retain(|test| names.insert(test.name.clone()));
        tests
    }

    /// A test of each restored connection: its next packet goes to where a new one would.
    fn of_connections(&self) -> impl Iterator<Item = PlannedTest> {
        let entries = self.scenario.connections.iter();
        entries.filter_map(|entry| {
            let (from, vantage) = self.owner(entry.from.ip())?;
            let is_outside = matches!(vantage, VantagePoint::Outside(_));
            let is_node = matches!(vantage, VantagePoint::Node(_));
            let via = is_outside.then(|| entry.node.clone());
            let node = via.as_ref().map(|node| format!("@{node}")).unwrap_or_default();
            let question = Question { from: vantage, to: entry.to, protocol: entry.protocol, via };
            let promise = self.promises.about(&question);
            let outcome = match &promise.outcome {
                PromisedOutcome::Delivered { endpoints, .. } => self.deliveries(endpoints, true, is_node).pop()?.0,
                _ => self.outcomes(&promise, is_node).pop()?.0,
            };
            Some(PlannedTest {
                name: format!(
                    "the {} connection from {} to {} on {}",
                    entry.protocol, entry.from, entry.to, entry.node
                ),
                from,
                to: format!("{}{node}", entry.to),
                source_port: Some(entry.from.port()),
                protocol: Some(entry.protocol),
                family: None,
                flows: 1,
                outcome,
            })
        })
    }

    /// The machine that has an address, as scenarios write it.
    fn owner(&self, ip: IpAddr) -> Option<(String, VantagePoint)> {
        if let Some(pod) = self.owners.get(&ip) {
            return Some((pod_label(pod), VantagePoint::Pod((*pod).clone())));
        }
        let node = || self.scenario.cluster.nodes.iter().find(|node| node.addresses().any(|own| own == ip));
        let host = self.scenario.hosts.iter().find(|host| host.ips.contains(&ip));
        let host = host.map(|host| (format!("host/{}", host.name), VantagePoint::Outside(ip)));
        host.or_else(|| node().map(|node| (format!("node/{}", node.name), VantagePoint::Node(node.name.clone()))))
    }

    /// The tests of a destination: none if nothing is promised, or is known not to be kept. What is replied is known of single flows only, so it has a
    /// test of its own where many show that all endpoints are reached.
    fn test(
        &self,
        service: &Service,
        port: &ServicePort,
        (from, ips, vantage): (String, &Vec<IpAddr>, VantagePoint),
        target: Target,
    ) -> Vec<PlannedTest> {
        let family = Family::of(target.address);
        if !ips.iter().any(|ip| Family::of(*ip) == family) {
            return Vec::new();
        }
        let to = SocketAddr::new(target.address, target.port);
        let question = Question { from: vantage, to, protocol: port.protocol, via: target.via };
        let promise = self.promises.about(&question);
        let is_node = matches!(question.from, VantagePoint::Node(_));
        let twice = service.ports.iter().filter(|other| other.port == port.port).count() > 1;
        let families = [&service.cluster_ips, ips].map(|ips| ips.iter().any(|ip| Family::of(*ip) != family));
        let protocol = twice.then_some(port.protocol);
        let only = (families == [true, true]).then_some(family);
        let words = [protocol.map(|one| one.to_string().to_lowercase()), only.map(|one| one.to_string())];
        let words: String = words.into_iter().flatten().map(|word| format!(", {word}")).collect();
        let outcomes = self.outcomes(&promise, is_node);
        let is_only = outcomes.len() == 1;
        let test = |(outcome, flows)| {
            let reply = if is_only || flows > 1 { "" } else { ", reply" };
            PlannedTest {
                name: format!("{from} to {}{words}{reply}", target.to),
                from: from.clone(),
                to: target.to.clone(),
                source_port: None,
                protocol,
                family: only,
                flows,
                outcome,
            }
        };
        outcomes.into_iter().map(test).collect()
    }

    /// What is promised, as tests expect it, and with how many flows each.
    fn outcomes(&self, promise: &Promise, is_node: bool) -> Vec<(PlannedOutcome, u64)> {
        let single = |outcome: PlannedOutcome| vec![(outcome, 1)];
        if promise.known_bug.is_some() {
            return Vec::new();
        }
        match &promise.outcome {
            PromisedOutcome::Delivered { endpoints, affinity_seconds } => {
                self.deliveries(endpoints, affinity_seconds.is_some(), is_node)
            }
            PromisedOutcome::Rejected(_) => single(PlannedOutcome::Rejected),
            PromisedOutcome::Dropped => single(PlannedOutcome::Dropped),
            PromisedOutcome::Fails => single(PlannedOutcome::Fails),
            _ => Vec::new(),
        }
    }

    /// Delivery to endpoints. All of a few are to be reached, by many flows, or one by all flows of a client that stays with it; the reply is
    /// checked of one.
    fn deliveries(
        &self,
        endpoints: &[PromisedEndpoint],
        has_affinity: bool,
        is_node: bool,
    ) -> Vec<(PlannedOutcome, u64)> {
        let targets = endpoints.iter().map(|endpoint| self.target(endpoint.address)).collect::<Vec<_>>();
        let count = targets.len();
        let is_source = |wanted: fn(&Source) -> bool| endpoints.iter().all(|endpoint| wanted(&endpoint.source));
        let source = match () {
            // A node chooses the source of its packets among its addresses.
            () if is_node => None,
            () if is_source(|source| *source == Source::Preserved) => Some("preserved"),
            () if is_source(|source| matches!(source, Source::Node(_))) => Some("masqueraded"),
            () => None,
        };
        let is_from_vip = endpoints.iter().all(|endpoint| endpoint.reply == Reply::FromDestination);
        let delivered = |is_spread: bool, is_sticky: bool| PlannedOutcome::Delivered {
            targets: if count > MAX_LISTED { Vec::new() } else { targets.clone() },
            source,
            is_from_vip: is_from_vip && !is_spread && !is_sticky,
            is_spread,
            is_sticky,
        };
        let is_spread = !has_affinity && (2..=MAX_SEEN).contains(&count);
        // What is neither listed nor answered cannot be expected.
        let is_expected = count <= MAX_LISTED || source.is_some() || is_from_vip;
        let is_sticky = has_affinity && count > 1 && is_expected;
        let spread = is_spread.then(|| (delivered(true, false), flows_to_meet_all(count)));
        let sticky = is_sticky.then(|| (delivered(false, true), flows_to_distinguish(count)));
        let single = (is_expected && (is_from_vip || !is_spread)).then(|| (delivered(false, false), 1));
        spread.into_iter().chain(sticky).chain(single).collect()
    }

    fn target(&self, address: SocketAddr) -> String {
        match self.owners.get(&address.ip()) {
            Some(name) => format!("{}:{}", pod_label(name), address.port()),
            None => address.to_string(),
        }
    }
}
