//! Nodes and pods for the endpoints that rules show.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use svclab_rules::cluster::{Cluster, EndpointSlice, Family, ObjectName};
use svclab_rules::infer::{Inferred, InferredPort};

use super::super::endpoint_pods::{EndpointPod, address_name};
use super::super::merge::Objects;
use super::dump::Dump;
use super::known::Known;
use super::machine::Machine;
use super::placing::Placing;
use super::shown_nodes::ShownNodes;
use crate::text::{counted, list};

/// The node that rules come from, where nothing names it.
pub(in crate::infer) const HERE: &str = "node-1";

/// The most Services that are named.
const MAX_NAMED: usize = 5;

/// The nodes around rules.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    /// The machines; those of the rules come first.
    pub(super) machines: Vec<Machine>,
    /// Made-up endpoints on other nodes, by family, of services of which no other is known.
    pub(super) elsewhere: BTreeMap<Family, IpAddr>,
    /// Made-up endpoints on the node of the rules, by family, of services of which nothing shows any.
    pub(super) here: BTreeMap<Family, IpAddr>,
    /// The range of local pods, where it is that of the node alone.
    pub(super) node_range: Option<IpNet>,
    /// Addresses of pods of the nodes of the rules that only other programs' rules show, such as those of pods with a host port.
    forwarded: BTreeSet<IpAddr>,
    /// How many endpoints are pods.
    pods: usize,
}

impl Surroundings {
    /// The surroundings of the rules of one or several nodes, and what they show together, among the nodes that objects show.
    pub(super) fn of(dumps: &[Dump], inferred: &Inferred, objects: &Objects) -> Self {
        let owners = ShownNodes::of(objects);
        let known = Known::of(inferred, dumps, &owners);
        let of_dump = |dump: &Dump| {
            let one = Known::of(&dump.inferred, std::slice::from_ref(dump), &owners);
            one.without_local(&dump.inferred, inferred).placed(&dump.node, &owners)
        };
        let each: Vec<Known> = dumps.iter().map(of_dump).collect();
        let mut node_ranges: Vec<Option<IpNet>> = each.iter().map(|one| one.node_range(&known.pods)).collect();
        if node_ranges.iter().all(Option::is_none) && have_own_ranges(dumps, &known.pods) {
            node_ranges = dumps.iter().map(|dump| dump.inferred.proxy.local_sources.first().copied()).collect();
        }
        let own_ranges: Vec<Vec<IpNet>> =
            dumps.iter().zip(&node_ranges).map(|(dump, range)| dump.own_ranges(&known.pods, *range)).collect();
        let mut placing = Placing::of(dumps, &known.local_sources, &owners);
        placing.give_ranges(&known, &each, &own_ranges, &owners);
        placing.give_shown_addresses(&known, dumps);
        placing.give_addresses(&known, &each);
        placing.give_local_ranges(known.unshown_here(inferred), &owners);
        let shown = known.pods.union(&known.here).chain(&owners.taken).copied().collect();
        let elsewhere = placing.add_elsewhere(lacking(&placing.clone().named(), inferred), &shown);
        let mut machines = placing.named();
        let is_free = |ip: &IpAddr| !shown.contains(ip);
        let own_range = |family: Family| machines.first()?.ranges.iter().find(|own| Family::of(own.addr()) == family);
        let here = Family::ALL
            .into_iter()
            .filter_map(|family| Some((family, own_range(family)?.hosts().skip(9).find(is_free)?)));
        let here = here.collect();
        let node_range = node_ranges.into_iter().flatten().next();
        known.complete(&mut machines);
        let pods = known.pods.len() - known.forwarded.len();
        Self { machines, elsewhere, here, node_range, forwarded: known.forwarded, pods }
    }

    /// The node of an endpoint.
    pub(super) fn node_of(&self, endpoint: IpAddr) -> &str {
        node_of(&self.machines, endpoint)
    }

    /// Whether an endpoint is on another node than that of the rules; with those of several nodes, on any but the first.
    pub(super) fn is_elsewhere(&self, endpoint: IpAddr) -> bool {
        is_elsewhere(&self.machines, endpoint)
    }

    /// The made-up endpoints.
    pub(super) fn made_up(&self) -> BTreeSet<IpAddr> {
        self.elsewhere.values().chain(self.here.values()).copied().collect()
    }

    /// The made-up endpoints that Services of a cluster have, in words.
    pub(super) fn made_up_words(&self, cluster: &Cluster) -> Vec<String> {
        let of_endpoint = |ip: &IpAddr| {
            let has = |slice: &&EndpointSlice| slice.endpoints.iter().any(|endpoint| endpoint.addresses.contains(ip));
            let services: BTreeSet<String> =
                cluster.slices.iter().filter(has).map(|slice| slice.service.to_string()).collect();
            let pod = cluster.pods.iter().find(|pod| pod.ips.contains(ip));
            let node = pod.map_or_else(|| self.node_of(*ip), |pod| &*pod.node);
            (!services.is_empty()).then(|| {
                format!("endpoint {ip} on {node} of {}, whose endpoints there nothing shows", list(services, MAX_NAMED))
            })
        };
        self.made_up().iter().filter_map(of_endpoint).collect()
    }

    /// The pods that only other programs' rules show.
    pub(super) fn forwarded_pods(&self) -> Vec<EndpointPod> {
        let has =
            |ip: &&IpAddr| self.machines.iter().flat_map(|machine| &machine.ranges).any(|range| range.contains(*ip));
        let pod = |ip: &IpAddr| EndpointPod {
            name: ObjectName::new("default", address_name(*ip)),
            node: self.node_of(*ip).to_owned(),
            ips: vec![*ip],
        };
        self.forwarded.iter().filter(has).map(pod).collect()
    }

    /// The pods of a cluster that only other programs' rules show, in words.
    pub(super) fn forwarded_words(&self, cluster: &Cluster) -> Option<String> {
        let pods = self.forwarded_pods();
        let mut named = pods.iter().filter(|pod| cluster.pod(&pod.name).is_some()).map(|pod| pod.ips[0]).peekable();
        named.peek()?;
        let named = list(named, MAX_NAMED);
        Some(format!("a pod for each address that other programs' rules translate to, as for a host port: {named}"))
    }

    /// What was assumed, in words.
    pub(super) fn assumptions(&self) -> Vec<String> {
        let machine = |machine: &Machine| {
            let known = machine.words();
            if known.is_empty() { machine.name.clone() } else { format!("{} ({known})", machine.name) }
        };
        let nodes: Vec<String> = self.machines.iter().map(machine).collect();
        let mut assumptions = vec![format!("nodes: {}", nodes.join(", "))];
        match self.pods {
            0 => {}
            1 => assumptions.push("1 endpoint: a ready pod, on the node whose pod range contains it".to_owned()),
            pods => {
                let words = "ready pods, each on the node whose pod range contains it";
                assumptions.push(format!("{}: {words}", counted(pods, "endpoint")));
            }
        }
        assumptions
    }
}

/// Whether the rules of each of several nodes have one range of local sources, that of no other node, and no pod is in that of another node: each
/// kube-proxy has its own setting then.
fn have_own_ranges(dumps: &[Dump], pods: &BTreeSet<IpAddr>) -> bool {
    let range = |dump: &Dump| {
        let shown = &dump.inferred.proxy.local_sources;
        shown.first().copied().filter(|_| shown.len() == 1)
    };
    let Some(ranges) = dumps.iter().map(range).collect::<Option<Vec<IpNet>>>() else { return false };
    let is_apart = |(at, one): (usize, &IpNet)| {
        let own = dumps[at].inferred.ports.iter().flat_map(|port| &port.endpoints).map(SocketAddr::ip);
        let own: BTreeSet<IpAddr> = own.collect();
        let overlaps = |other: &IpNet| one.contains(other) || other.contains(one);
        !ranges[..at].iter().any(overlaps) && !pods.iter().any(|ip| one.contains(ip) && !own.contains(ip))
    };
    ranges.len() > 1 && ranges.iter().enumerate().all(is_apart)
}

/// The families in which services have endpoints on other nodes that the rules do not show.
fn lacking(machines: &[Machine], inferred: &Inferred) -> BTreeSet<Family> {
    let is_elsewhere = |ip: IpAddr| is_elsewhere(machines, ip);
    inferred.ports.iter().flat_map(|port| lacking_elsewhere(port, is_elsewhere)).collect()
}

/// The families in which a service port has endpoints on other nodes, and the rules show none.
pub(super) fn lacking_elsewhere(port: &InferredPort, is_elsewhere: impl Fn(IpAddr) -> bool) -> BTreeSet<Family> {
    let mut lacking = if port.has_endpoints_elsewhere { families(port) } else { port.unshown_endpoints.clone() };
    let known = port.endpoints.iter().chain(&port.local).map(SocketAddr::ip).filter(|ip| is_elsewhere(*ip));
    known.for_each(|ip| _ = lacking.remove(&Family::of(ip)));
    lacking
}

/// The node of an endpoint.
fn node_of(machines: &[Machine], endpoint: IpAddr) -> &str {
    let found = Machine::of(machines, endpoint);
    found.or(machines.first()).map_or(HERE, |machine| &machine.name)
}

/// Whether an endpoint is on any machine but the first.
fn is_elsewhere(machines: &[Machine], endpoint: IpAddr) -> bool {
    machines.first().is_some_and(|first| first.name != node_of(machines, endpoint))
}

/// The families of a service port; those of the rules about it where nothing shows an address.
pub(super) fn families(port: &InferredPort) -> BTreeSet<Family> {
    let addresses = port.cluster_ips.iter().chain(&port.external_ips).chain(&port.load_balancer).copied();
    let endpoints = port.endpoints.iter().chain(&port.local).map(|endpoint| endpoint.ip());
    let families: BTreeSet<Family> = addresses.chain(endpoints).map(Family::of).collect();
    if families.is_empty() { port.families.clone() } else { families }
}
