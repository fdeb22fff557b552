//! Endpoints by what rules say about them: pods or machines, on the node of the rules or elsewhere.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use svclab_rules::cluster::Family;
use svclab_rules::infer::{Inferred, InferredPort};

use super::super::named_endpoints::FEWEST_OUTSIDE;
use super::super::service_ports::is_api_server;
use super::super::usual_ranges::{usual_range, wide};
use super::dump::Dump;
use super::machine::Machine;
use super::shown_nodes::ShownNodes;
use crate::scenario::NODE_RANGES;

/// The most ranges of pods that become nodes of their own; where there are more, ranges are wider, unless they would not fit then.
const MAX_RANGES: usize = 6;

/// Endpoints by what the rules say about them.
pub(super) struct Known {
    /// Addresses of pods.
    pub(super) pods: BTreeSet<IpAddr>,
    /// Addresses of nodes.
    pub(super) machines: BTreeSet<IpAddr>,
    /// Endpoints on the node of the rules.
    pub(super) here: BTreeSet<IpAddr>,
    /// Endpoints of which one at least is on the node of the rules.
    some_here: Vec<BTreeSet<IpAddr>>,
    /// Endpoints on other nodes.
    there: BTreeSet<IpAddr>,
    /// The ranges of local sources.
    pub(super) local_sources: BTreeSet<IpNet>,
    /// Addresses of services.
    pub(super) services: BTreeSet<IpAddr>,
    /// Addresses of pods on the nodes of the rules that are no endpoints.
    pub(super) forwarded: BTreeSet<IpAddr>,
}

impl Known {
    pub(super) fn of(inferred: &Inferred, dumps: &[Dump], owners: &ShownNodes) -> Self {
        let local_sources = inferred.proxy.local_sources.clone();
        let of_family = |ip: &IpAddr| {
            local_sources.iter().filter(|range| Family::of(range.addr()) == Family::of(*ip)).collect::<Vec<_>>()
        };
        // The API servers run in the network of their machines.
        let is_api = |port: &&InferredPort| is_api_server(&port.full_name());
        let api: BTreeSet<IpAddr> =
            inferred.ports.iter().filter(is_api).flat_map(|port| &port.endpoints).map(SocketAddr::ip).collect();
        let all = inferred
            .ports
            .iter()
            .flat_map(|port| port.endpoints.iter().chain(&port.local))
            .map(|endpoint| endpoint.ip());
        let is_outside = |ip: &IpAddr| {
            let sources = of_family(ip);
            !sources.is_empty() && !sources.iter().any(|range| wide(**range, Family::of(*ip)).contains(ip))
        };
        // A range that has none of several endpoints is not that of pods.
        let of_pods: BTreeSet<IpAddr> = all.clone().filter(|ip| !api.contains(ip)).collect();
        let is_mismatch = of_pods.iter().all(is_outside);
        let is_listed =
            |ip: &IpAddr| owners.pods.contains(ip) || of_pods.len() >= FEWEST_OUTSIDE && owners.endpoints.contains(ip);
        let is_machine = |ip: &IpAddr| {
            inferred.proxy.node_port_addresses.contains(ip)
                || of_family(ip).is_empty() && api.contains(ip)
                || is_outside(ip) && !(is_mismatch && is_listed(ip))
        };
        let (machines, mut pods): (BTreeSet<IpAddr>, BTreeSet<IpAddr>) = all.partition(is_machine);
        let local = inferred.ports.iter().flat_map(|port| &port.local).map(|endpoint| endpoint.ip());
        let mut here: BTreeSet<IpAddr> = local.chain(inferred.proxy.here.iter().copied()).collect();
        let is_local = |port: &&InferredPort| port.is_external_local || port.is_internal_local;
        // Where one of several is local, and nothing shows which.
        let is_open = |port: &&InferredPort| port.has_local_endpoints && port.local.is_empty();
        let ips = |port: &InferredPort| port.endpoints.iter().map(SocketAddr::ip).collect::<BTreeSet<IpAddr>>();
        let some_here = inferred.ports.iter().filter(is_open).map(ips).filter(|ips| !ips.is_empty()).collect();
        let there = inferred.ports.iter().filter(|port| is_local(port) && !is_open(port));
        let there = there.flat_map(|port| &port.endpoints).map(|endpoint| endpoint.ip());
        let there = there.chain(inferred.proxy.elsewhere.iter().copied()).filter(|ip| !here.contains(ip)).collect();
        let addresses = |port: &InferredPort| {
            let others = port.external_ips.iter().chain(&port.load_balancer);
            port.cluster_ips.iter().chain(others).copied().collect::<Vec<_>>()
        };
        let services: BTreeSet<IpAddr> = inferred.ports.iter().flat_map(addresses).collect();
        // Rules may translate to other machines, too, and to containers that are no pods.
        let is_among_pods = |ip: &IpAddr| {
            let is_near = |pod: &IpAddr| wide(usual_range(*pod), Family::of(*pod)).contains(ip);
            !is_machine(ip) && (!of_family(ip).is_empty() || pods.iter().any(is_near))
        };
        let is_new = |ip: &IpAddr| !pods.contains(ip) && !machines.contains(ip) && !services.contains(ip);
        let forwarded: BTreeSet<IpAddr> =
            dumps.iter().flat_map(Dump::translated_to).filter(|ip| is_new(ip) && is_among_pods(ip)).collect();
        pods.extend(&forwarded);
        here.extend(&forwarded);
        Self { pods, machines, here, some_here, there, local_sources, services, forwarded }
    }

    /// The families of pods, services and machines.
    pub(super) fn families(&self) -> BTreeSet<Family> {
        self.pods.iter().chain(&self.machines).chain(&self.services).map(|ip| Family::of(*ip)).collect()
    }

    /// With what others show of the Services of which the rules say that the node has no endpoint: all of theirs are elsewhere.
    pub(super) fn without_local(mut self, own: &Inferred, all: &Inferred) -> Self {
        let without = own.ports.iter().filter(|port| port.has_endpoints_elsewhere);
        for port in without {
            let is_same = |other: &&InferredPort| {
                (&other.service, &other.name, other.protocol) == (&port.service, &port.name, port.protocol)
            };
            let endpoints = all.ports.iter().filter(is_same).flat_map(|port| port.endpoints.iter().chain(&port.local));
            self.there.extend(endpoints.map(SocketAddr::ip).filter(|ip| !self.here.contains(ip)));
        }
        self
    }

    /// With the nodes of endpoints that objects show.
    pub(super) fn placed(mut self, node: &str, owners: &ShownNodes) -> Self {
        for ip in self.pods.iter().chain(&self.machines) {
            match owners.node(*ip) {
                Some(owner) if owner == node => drop(self.here.insert(*ip)),
                Some(_) if !self.here.contains(ip) => drop(self.there.insert(*ip)),
                _ => {}
            }
        }
        self
    }

    /// Gives nodes whose address of one family is known one of the other family, where pods or services have addresses of it. Nodes of
    /// which none is known get theirs as in any scenario.
    pub(super) fn complete(&self, machines: &mut [Machine]) {
        let given = self.pods.iter().chain(&self.machines).chain(&self.services);
        let mut taken: Vec<IpNet> = given.copied().map(IpNet::from).collect();
        taken.extend(machines.iter().flat_map(|machine| machine.ranges.iter().copied()));
        let ranges: Vec<IpNet> = NODE_RANGES.iter().filter_map(|range| range.parse().ok()).collect();
        let is_free = |range: &&IpNet| taken.iter().all(|other| !range.contains(other) && !other.contains(*range));
        for family in taken.iter().map(|other| Family::of(other.addr())).collect::<BTreeSet<_>>() {
            let is_of_family = |range: &&IpNet| Family::of(range.addr()) == family;
            let Some(range) = ranges.iter().filter(is_of_family).find(is_free) else { continue };
            let lacks = |machine: &&mut Machine| {
                !machine.addresses.is_empty() && !machine.addresses.iter().any(|ip| Family::of(*ip) == family)
            };
            // The first address is the underlay's.
            for (machine, ip) in machines.iter_mut().filter(lacks).zip(range.hosts().skip(1)) {
                machine.addresses.insert(ip);
            }
        }
    }

    /// The range of local sources, if there are pods of the cluster outside it: then it is the node's own.
    pub(super) fn node_range(&self, pods: &BTreeSet<IpAddr>) -> Option<IpNet> {
        let is_nodes = |range: &&IpNet| {
            let family = Family::of(range.addr());
            let is_near = |ip: &IpAddr| Family::of(*ip) == family && wide(**range, family).contains(ip);
            pods.iter().any(|ip| is_near(ip) && !range.contains(ip))
        };
        self.local_sources.iter().find(is_nodes).copied()
    }

    /// The ranges of nodes that pods of a family are in, those that are given first.
    pub(super) fn ranges(&self, family: Family, given: &BTreeSet<IpNet>) -> Vec<IpNet> {
        let is_given = |ip: &IpAddr| given.iter().any(|own| own.contains(ip));
        let pods = self.pods.iter().filter(|ip| Family::of(**ip) == family && !is_given(ip));
        let pods: Vec<IpAddr> = pods.copied().collect();
        let (usual, longest) = if family == Family::Ipv4 { (24, 29) } else { (64, 126) };
        // No two nodes have an address in common.
        let is_apart = |range: &IpNet| !given.iter().any(|own| range.contains(own) || own.contains(range));
        let others = self.services.iter().chain(&self.machines);
        let is_free = |range: &IpNet| is_apart(range) && !others.clone().any(|ip| range.contains(ip));
        let of_length = |length| pods.iter().map(|ip| IpNet::new_assert(*ip, length).trunc()).collect::<BTreeSet<_>>();
        let fitting = (1..=usual).rev().chain(usual + 1..=longest).map(of_length);
        let apart = fitting.clone().find(|ranges| ranges.iter().all(is_apart));
        let mut fitting = fitting.filter(|ranges| ranges.iter().all(is_free)).peekable();
        let many = fitting.peek().cloned().or(apart);
        let ranges = fitting.find(|ranges| ranges.len() <= MAX_RANGES).or(many).unwrap_or_default();
        ranges.into_iter().chain(given.iter().copied()).collect()
    }

    /// Which of several ranges is that of the rules' own node: the one that the rules name, or that holds an endpoint on it.
    pub(super) fn proven_range(&self, ranges: &[IpNet], node_range: Option<IpNet>) -> Option<usize> {
        let own = ranges.iter().position(|range| Some(*range) == node_range);
        own.or_else(|| ranges.iter().position(|range| holds(range, &self.here)))
    }

    /// Which of several ranges may be that of the rules' own node, where none is proven to be.
    pub(super) fn likely_range(&self, ranges: &[IpNet]) -> Option<usize> {
        let not_elsewhere = || ranges.iter().position(|range| !holds(range, &self.there));
        let holds_some = |range: &IpNet| self.some_here.iter().filter(|some| holds(range, some)).count();
        let most = ranges.iter().enumerate().filter(|(_, range)| !holds(range, &self.there));
        let most = most.max_by_key(|(at, range)| (holds_some(range), ranges.len() - at));
        most.filter(|(_, range)| holds_some(range) > 0).map(|(at, _)| at).or_else(not_elsewhere)
    }

    /// The families in which services have endpoints on the node of the rules, and the rules show none.
    pub(super) fn unshown_here(&self, inferred: &Inferred) -> BTreeSet<Family> {
        let with_local = inferred.ports.iter().filter(|port| port.has_local_endpoints);
        with_local.flat_map(|port| port.unshown_endpoints.iter().copied()).collect()
    }
}

fn holds(range: &IpNet, some: &BTreeSet<IpAddr>) -> bool {
    some.iter().any(|ip| range.contains(ip))
}
