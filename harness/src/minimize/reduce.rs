//! Removes what a failing class does not need: large parts first, fields last.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use svclab_rules::cluster::{
    Cluster, ExternalTrafficPolicy, InternalTrafficPolicy, Node, ObjectName, Pod, ProxyConfig, Service, ServiceType,
};

use super::class::Judge;
use super::delta::shortest;
use super::follow::following;
use super::rules::{about, units, with};
use crate::scenario::{Cni, CniKind, OtherRules, Overlay, Place, Scenario};
use crate::sources::Disagreement;

/// Reduces a scenario as far as it still shows the judge's class.
pub(super) fn reduce(scenario: Scenario, judge: &mut Judge<'_>) -> Scenario {
    let mut reducing = Reducing { left: scenario, judge };
    // Without a pod, other connections would fail in the same way.
    if reducing.judge.class().disagreement == Disagreement::Connection {
        reducing.connections();
    }
    reducing.guess();
    reducing.services();
    reducing.judge.watch_all(&reducing.left);
    reducing.judge.find_repair(&reducing.left);
    // A late removal may make an earlier one possible.
    for _ in 0..2 {
        let before = reducing.left.clone();
        reducing.services();
        reducing.pods();
        reducing.endpoints();
        reducing.nodes();
        reducing.rule_sets();
        reducing.hosts();
        reducing.connections();
        reducing.fields();
        if reducing.left == before {
            break;
        }
    }
    reducing.left
}

struct Reducing<'j, 'c> {
    left: Scenario,
    judge: &'j mut Judge<'c>,
}

impl Reducing<'_, '_> {
    /// Keeps a smaller scenario if it still shows the class.
    fn attempt(&mut self, smaller: Scenario) -> bool {
        let is_taken = smaller != self.left && self.judge.shows(&smaller);
        if is_taken {
            self.left = smaller;
        }
        is_taken
    }

    /// Tries a scenario in which only the cluster is changed.
    fn change(&mut self, change: impl FnOnce(&mut Cluster)) -> bool {
        let mut cluster = self.left.cluster.clone();
        change(&mut cluster);
        let smaller = Scenario { cluster, ..self.left.clone() };
        self.attempt(following(&self.left, smaller))
    }

    /// Shortens one of a scenario's lists: `with` returns the scenario with only some of its items.
    fn shorten<T: Clone>(&mut self, items: Vec<T>, with: impl Fn(&Scenario, &[T]) -> Scenario) {
        if items.is_empty() {
            return;
        }
        let (all, judge) = (&self.left, &mut *self.judge);
        let kept = shortest(items, |items| judge.shows(&with(all, items)));
        self.left = with(&self.left, &kept);
    }

    /// Shortens a list of objects; rules follow them.
    fn shorten_objects<T: Clone>(&mut self, items: Vec<T>, with: impl Fn(&Scenario, &[T]) -> Scenario) {
        self.shorten(items, |whole, items| following(whole, with(whole, items)));
    }

    /// Tries the class's own service alone, with the rules that are not about other services: in most cases nothing else is needed.
    fn guess(&mut self) {
        let Some(service) = self.judge.class().service_name().map(str::to_owned) else { return };
        let mut left = self.left.clone();
        left.cluster.services.retain(|own| own.name.to_string() == service);
        left.cluster.slices.retain(|slice| slice.service.to_string() == service);
        let endpoints: HashSet<_> = left
            .cluster
            .slices
            .iter()
            .flat_map(|slice| &slice.endpoints)
            .collect::<Vec<_>>()
            .into_iter()
            .flat_map(|endpoint| endpoint.addresses.iter().copied())
            .collect();
        let objects = left.clone();
        for rules in &mut left.rules {
            let kept = about(&rules.rules, &service);
            rules.rules = Arc::new(with(&rules.rules, &kept));
        }
        let sender = self.judge.class().flow.clone();
        let is_needed = |pod: &Pod| {
            sender.starts_with(&format!("{} > ", crate::scenario::pod_label(&pod.name)))
                || pod.ips.iter().any(|ip| endpoints.contains(ip))
        };
        let mut bare = left.clone();
        bare.cluster.pods.retain(is_needed);
        let [bare, left, objects] = [bare, left, objects].map(|smaller| following(&self.left, smaller));
        if !self.attempt(bare) && !self.attempt(left) {
            self.attempt(objects);
        }
    }

    fn services(&mut self) {
        let names: Vec<ObjectName> = self.left.cluster.services.iter().map(|service| service.name.clone()).collect();
        self.shorten_objects(names, |scenario, names| {
            let kept: HashSet<&ObjectName> = names.iter().collect();
            let mut cluster = scenario.cluster.clone();
            cluster.services.retain(|service| kept.contains(&service.name));
            cluster.slices.retain(|slice| kept.contains(&slice.service));
            Scenario { cluster, ..scenario.clone() }
        });
    }

    /// Removes pods together with their endpoints.
    fn pods(&mut self) {
        let names: Vec<ObjectName> = self.left.cluster.pods.iter().map(|pod| pod.name.clone()).collect();
        self.shorten_objects(names, |scenario, names| {
            let kept: HashSet<&ObjectName> = names.iter().collect();
            without_pods(scenario, &|pod| !kept.contains(&pod.name))
        });
    }

    fn endpoints(&mut self) {
        let numbered = |cluster: &Cluster| -> Vec<(usize, usize)> {
            let slices = cluster.slices.iter().enumerate();
            slices.flat_map(|(slice, own)| (0..own.endpoints.len()).map(move |at| (slice, at))).collect()
        };
        let all = numbered(&self.left.cluster);
        self.shorten_objects(all, |scenario, kept| {
            let kept: HashSet<&(usize, usize)> = kept.iter().collect();
            let mut cluster = scenario.cluster.clone();
            for (number, slice) in cluster.slices.iter_mut().enumerate() {
                let mut at = 0..;
                slice.endpoints.retain(|_| at.next().is_some_and(|at| kept.contains(&(number, at))));
            }
            Scenario { cluster, ..scenario.clone() }
        });
        self.change(|cluster| cluster.slices.retain(|slice| !slice.endpoints.is_empty()));
    }

    /// Removes nodes together with their pods and rules.
    fn nodes(&mut self) {
        let names: Vec<String> = self.left.cluster.nodes.iter().map(|node| node.name.clone()).collect();
        self.shorten_objects(names, |scenario, names| {
            let is_gone = |name: &String| !names.contains(name);
            let mut smaller = without_pods(scenario, &|pod| is_gone(&pod.node));
            smaller.cluster.nodes.retain(|node| !is_gone(&node.name));
            smaller.sysctls.retain(|node, _| !is_gone(node));
            smaller.connections.retain(|entry| !is_gone(&entry.node));
            let is_there = |place: &Place| match place {
                Place::Node(name) => !is_gone(name),
                Place::Pod(name) => smaller.cluster.pods.iter().any(|pod| pod.name == *name),
            };
            smaller.rules.retain(|rules| is_there(&rules.place));
            for endpoint in smaller.cluster.slices.iter_mut().flat_map(|slice| &mut slice.endpoints) {
                endpoint.node = endpoint.node.take().filter(|name| !is_gone(name));
            }
            smaller
        });
    }

    fn hosts(&mut self) {
        let hosts = self.left.hosts.clone();
        self.shorten(hosts, |scenario, hosts| Scenario { hosts: hosts.to_vec(), ..scenario.clone() });
    }

    fn connections(&mut self) {
        let all = self.left.connections.clone();
        self.shorten(all, |scenario, some| Scenario { connections: some.to_vec(), ..scenario.clone() });
    }

    /// Removes whole rule sets first, then single rules.
    fn rule_sets(&mut self) {
        let all: Vec<OtherRules> = self.left.rules.clone();
        self.shorten(all, |scenario, rules| Scenario { rules: rules.to_vec(), ..scenario.clone() });
        for at in 0..self.left.rules.len() {
            let numbers: Vec<usize> = (0..units(&self.left.rules[at].rules)).collect();
            self.shorten(numbers, |scenario, numbers| {
                let mut smaller = scenario.clone();
                let kept: HashSet<usize> = numbers.iter().copied().collect();
                smaller.rules[at].rules = Arc::new(with(&smaller.rules[at].rules, &kept));
                smaller
            });
        }
    }

    /// Resets fields to their defaults.
    fn fields(&mut self) {
        for at in 0..self.left.cluster.services.len() {
            for change in SERVICE_FIELDS {
                self.change(|cluster| change(&mut cluster.services[at]));
            }
            let ports = self.left.cluster.services[at].ports.clone();
            self.shorten_objects(ports, |scenario, ports| {
                let mut cluster = scenario.cluster.clone();
                let own = &mut cluster.services[at];
                own.ports = ports.to_vec();
                let (name, names) = (own.name.clone(), ports.iter().map(|port| port.name.clone()));
                let names: HashSet<String> = names.collect();
                for slice in cluster.slices.iter_mut().filter(|slice| slice.service == name) {
                    slice.ports.retain(|port| names.contains(&port.name));
                }
                Scenario { cluster, ..scenario.clone() }
            });
        }
        for at in 0..self.left.cluster.nodes.len() {
            for change in NODE_FIELDS {
                self.change(|cluster| change(&mut cluster.nodes[at]));
            }
        }
        for at in 0..self.left.cluster.pods.len() {
            self.change(|cluster| cluster.pods[at].labels = BTreeMap::new());
            self.change(|cluster| cluster.pods[at].ports = Vec::new());
        }
        self.change(|cluster| {
            for endpoint in cluster.slices.iter_mut().flat_map(|slice| &mut slice.endpoints) {
                (endpoint.zone, endpoint.zone_hints, endpoint.node_hints) = (None, None, None);
            }
        });
        for change in PROXY_FIELDS {
            self.change(|cluster| change(&mut cluster.proxy));
        }
        let sysctls: Vec<(String, String)> = self
            .left
            .sysctls
            .iter()
            .flat_map(|(node, settings)| settings.keys().map(move |name| (node.clone(), name.clone())))
            .collect();
        self.shorten(sysctls, |scenario, kept| {
            let mut smaller = scenario.clone();
            for (node, settings) in &mut smaller.sysctls {
                settings.retain(|name, _| kept.iter().any(|(own, kept)| own == node && kept == name));
            }
            smaller.sysctls.retain(|_, settings| !settings.is_empty());
            smaller
        });
        let cni = self.left.cni;
        self.attempt(Scenario { cni: Cni { overlay: Overlay::None, ..cni }, ..self.left.clone() });
        self.attempt(Scenario { cni: Cni { kind: CniKind::Ptp, ..self.left.cni }, ..self.left.clone() });
    }
}

type Change<T> = fn(&mut T);

const SERVICE_FIELDS: [Change<Service>; 14] = [
    |service| {
        service.kind = ServiceType::ClusterIp;
        service.load_balancer = Vec::new();
        service.health_check_node_port = None;
        service.external_traffic_policy = ExternalTrafficPolicy::Cluster;
        service.ports.iter_mut().for_each(|port| port.node_port = None);
    },
    |service| {
        if service.kind == ServiceType::LoadBalancer {
            service.kind = ServiceType::NodePort;
            service.load_balancer = Vec::new();
            service.health_check_node_port = None;
        }
    },
    |service| service.external_traffic_policy = ExternalTrafficPolicy::Cluster,
    |service| service.internal_traffic_policy = InternalTrafficPolicy::Cluster,
    |service| service.labels = BTreeMap::new(),
    |service| service.annotations = BTreeMap::new(),
    |service| service.selector = BTreeMap::new(),
    |service| service.external_ips = Vec::new(),
    |service| service.source_ranges = Vec::new(),
    |service| service.affinity_seconds = None,
    |service| service.publish_not_ready_addresses = false,
    |service| service.traffic_distribution = None,
    |service| service.load_balancer.truncate(1),
    |service| {
        service.cluster_ips.truncate(1);
        service.families.truncate(1);
    },
];

const NODE_FIELDS: [Change<Node>; 5] = [
    |node| node.labels = BTreeMap::new(),
    |node| node.external_ips = Vec::new(),
    |node| node.hostname_override = None,
    |node| node.internal_ips.truncate(1),
    |node| node.pod_cidrs.truncate(1),
];

const PROXY_FIELDS: [Change<ProxyConfig>; 8] = [
    |proxy| {
        let ProxyConfig { mode, version, cluster_cidrs, .. } = proxy.clone();
        *proxy = ProxyConfig { mode, version, cluster_cidrs, ..ProxyConfig::default() };
    },
    |proxy| proxy.feature_gates = BTreeMap::new(),
    |proxy| proxy.node_port_addresses = Vec::new(),
    |proxy| proxy.masquerade_all = false,
    |proxy| proxy.masquerade_bit = ProxyConfig::default().masquerade_bit,
    |proxy| proxy.detect_local = ProxyConfig::default().detect_local,
    |proxy| proxy.tcp_be_liberal = false,
    |proxy| proxy.localhost_node_ports = true,
];

/// The scenario without some pods, their endpoints and the rules in them.
fn without_pods(scenario: &Scenario, is_gone: &dyn Fn(&Pod) -> bool) -> Scenario {
    let mut smaller = scenario.clone();
    let gone: HashSet<&ObjectName> =
        scenario.cluster.pods.iter().filter(|pod| is_gone(pod)).map(|pod| &pod.name).collect();
    let own = scenario.cluster.pods.iter().filter(|pod| gone.contains(&pod.name) && !pod.host_network);
    let addresses: HashSet<_> = own.flat_map(|pod| &pod.ips).collect();
    smaller.cluster.pods.retain(|pod| !gone.contains(&pod.name));
    for slice in &mut smaller.cluster.slices {
        slice.endpoints.retain(|endpoint| {
            let is_of_pod = endpoint.pod.as_ref().is_some_and(|pod| gone.contains(pod));
            !is_of_pod && !endpoint.addresses.iter().any(|address| addresses.contains(address))
        });
    }
    smaller.rules.retain(|rules| !matches!(&rules.place, Place::Pod(name) if gone.contains(name)));
    smaller
}
