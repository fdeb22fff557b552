//! Routes of a dump → nodes with the ranges of their pods, and how pods are connected.
//!
//! `10.244.2.0/24 via 172.18.0.3` says which node has which pods, which rules do not. A lab makes all other routes itself, or a scenario cannot
//! express them: these are listed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};
use svclab_rules::cluster::Family;

use super::accessors::{ips, node_ips};
use super::merge::Objects;
use super::rules::Dump;
use crate::evidence::{Contents, Evidence, Route};
use crate::scenario::{Cni, CniKind, Overlay};
use crate::text::{counted, list, one_line};

/// The most routes that are listed.
const SHOWN: usize = 5;

/// Names of bridges of pods.
const BRIDGES: [&str; 4] = ["cni0", "cbr0", "kube-bridge", DOCKER];
const DOCKER: &str = "docker0";

/// The ranges of a node's pods, and the positions of the routes that show them.
#[derive(Default)]
struct PodRanges {
    ranges: Vec<IpNet>,
    routes: Vec<usize>,
}

/// What routes say.
pub(super) struct Routes<'e> {
    all: Vec<&'e Route>,
    /// The positions of those that were used.
    used: BTreeSet<usize>,
    /// Addresses of pods and of other endpoints.
    endpoints: BTreeSet<IpAddr>,
}

impl<'e> Routes<'e> {
    /// The routes of all pieces, with the endpoints that rules and objects show.
    pub(super) fn of(evidence: &'e Evidence, dumps: &[Dump], objects: &Objects) -> Self {
        let all = evidence.pieces.iter().filter_map(|piece| match &piece.contents {
            Contents::Routes(routes) => Some(routes),
            _ => None,
        });
        let ports = dumps.iter().flat_map(|dump| &dump.inferred.ports);
        let of_rules = ports.flat_map(|port| port.endpoints.iter().chain(&port.local)).map(|endpoint| endpoint.ip());
        let endpoints = of_rules.chain(objects.pods.iter().flat_map(ips)).collect();
        Self { all: all.flatten().collect(), used: BTreeSet::new(), endpoints }
    }

    /// Gives nodes the pod ranges that have a route via one of their addresses. Without machines among the objects, these nodes are added,
    /// if there is one dump, and each of its endpoints is in a range or on a node. Returns what was assumed.
    pub(super) fn add(&mut self, dumps: &[Dump], objects: &mut Objects) -> Option<String> {
        let ranges = self.ranges();
        if objects.has_machines() {
            return self.complete(&ranges, objects);
        }
        let ([dump], false) = (dumps, ranges.is_empty()) else { return None };
        let Some(nodes) = self.nodes(&dump.node, &ranges) else {
            self.used.extend(ranges.values().flat_map(|own| &own.routes));
            return Some(
                "routes do not show the node of every endpoint, so no nodes are inferred from them".to_owned(),
            );
        };
        let words: Vec<String> = nodes.iter().map(Node::words).collect();
        objects.nodes = nodes.iter().map(Node::object).collect();
        self.used.extend(ranges.values().flat_map(|own| &own.routes));
        Some(format!("nodes from routes: {}", words.join(", ")))
    }

    /// The endpoints in a range.
    fn endpoints_in(&self, range: IpNet) -> impl Iterator<Item = &IpAddr> {
        self.endpoints.range(range.network()..=range.broadcast())
    }

    /// The ranges of pods by the address of their node.
    fn ranges(&self) -> BTreeMap<IpAddr, PodRanges> {
        let mut ranges: BTreeMap<IpAddr, PodRanges> = BTreeMap::new();
        for (at, route) in self.all.iter().enumerate() {
            let (Some(to), Some(via)) = (route.to, route.via) else { continue };
            let is_of_pods =
                to.prefix_len() < to.max_prefix_len() && !to.contains(&via) && self.endpoints_in(to).next().is_some();
            if is_of_pods {
                let own = ranges.entry(via).or_default();
                if !own.ranges.contains(&to) {
                    own.ranges.push(to);
                }
                own.routes.push(at);
            }
        }
        ranges
    }

    /// Gives nodes among the objects the ranges that they lack. Returns what was assumed.
    fn complete(&mut self, ranges: &BTreeMap<IpAddr, PodRanges>, objects: &mut Objects) -> Option<String> {
        let mut completed = Vec::new();
        for node in objects.nodes.iter_mut().filter(|node| node["spec"]["podCIDRs"].is_null()) {
            let own: Vec<_> = node_ips(node).iter().filter_map(|ip| ranges.get(ip)).collect();
            let listed: Vec<String> = own.iter().flat_map(|own| &own.ranges).map(ToString::to_string).collect();
            if !listed.is_empty() && node["spec"]["podCIDR"].is_null() {
                node["spec"]["podCIDR"] = json!(listed[0]);
                node["spec"]["podCIDRs"] = json!(listed);
                self.used.extend(own.iter().flat_map(|own| &own.routes));
                let name = node["metadata"]["name"].as_str().unwrap_or_default();
                completed.push(format!("{name} ({})", listed.join(", ")));
            }
        }
        (!completed.is_empty()).then(|| format!("pod ranges of nodes from routes: {}", completed.join(", ")))
    }

    /// The nodes around the one with this name; `None` if an endpoint has no place on them.
    fn nodes(&mut self, name: &str, ranges: &BTreeMap<IpAddr, PodRanges>) -> Option<Vec<Node>> {
        let links: Vec<(usize, &Route)> = self.all.iter().copied().enumerate().collect();
        let links: Vec<(usize, &Route)> =
            links.into_iter().filter(|(_, route)| route.kind == "unicast" && route.via.is_none()).collect();
        // The networks of nodes are those of the addresses over which routes lead.
        let is_of_nodes =
            |(_, route): &(usize, &Route)| ranges.keys().any(|via| route.to.is_some_and(|to| to.contains(via)));
        let of_nodes: Vec<(usize, &Route)> = links.iter().copied().filter(is_of_nodes).collect();
        let mut own = Node { name: name.to_owned(), ..Node::default() };
        own.addresses.extend(of_nodes.iter().filter_map(|(_, route)| route.source));
        let mut others: BTreeMap<IpAddr, Vec<IpNet>> =
            ranges.iter().map(|(via, own)| (*via, own.ranges.clone())).collect();
        let all_ranges = ranges.values().flat_map(|own| &own.ranges);
        let elsewhere: BTreeSet<&IpAddr> = all_ranges.flat_map(|range| self.endpoints_in(*range)).collect();
        for ip in self.endpoints.iter().filter(|ip| !elsewhere.contains(ip)) {
            if own.addresses.contains(ip) || own.ranges.iter().any(|range| range.contains(ip)) {
                continue;
            }
            if of_nodes.iter().any(|(_, route)| route.to.is_some_and(|to| to.contains(ip))) {
                others.entry(*ip).or_default();
                continue;
            }
            let length = if ip.is_ipv4() { 24 } else { 64 };
            let usual = IpNet::new_assert(*ip, length).trunc();
            let shown = links.iter().filter_map(|(_, route)| {
                route.to.filter(|to| to.contains(ip) && to.prefix_len() < to.max_prefix_len())
            });
            let range = shown.max_by_key(IpNet::prefix_len).unwrap_or(usual);
            let overlaps = |other: &IpNet| other.contains(&range) || range.contains(other);
            let has_family = own.ranges.iter().any(|other| Family::of(other.addr()) == Family::of(*ip));
            if has_family || others.values().flatten().any(overlaps) {
                return None;
            }
            own.ranges.push(range);
        }
        self.used.extend(of_nodes.iter().map(|(at, _)| *at));
        let names = (2..).map(|number| format!("node-{number}")).filter(|other| other != name);
        let others = others.into_iter().zip(names);
        let others = others.map(|((ip, ranges), name)| Node { name, addresses: BTreeSet::from([ip]), ranges });
        Some(std::iter::once(own).chain(others).collect())
    }

    /// How routes show that pods are connected. Returns what was assumed.
    pub(super) fn connect(&mut self, cni: &mut Cni) -> Vec<String> {
        let mut notes = Vec::new();
        // Docker's own bridge is on many nodes, whether or not pods are connected to it.
        let is_bridge = |route: &Route| {
            let is_pods = || route.to.is_some_and(|to| self.endpoints_in(to).next().is_some());
            let device = route.device.as_deref().unwrap_or_default();
            BRIDGES.contains(&device) && (device != DOCKER || is_pods())
        };
        if let Some((device, used)) = self.on_devices(is_bridge) {
            if cni.kind == CniKind::Ptp {
                cni.kind = CniKind::Bridge { hairpin: true, nf_call_iptables: true };
                notes.push(format!("pods are assumed to be on a bridge, because routes use {device}"));
            }
            self.used.extend(used);
        }
        let is_tunnel = |route: &Route| {
            let device = route.device.as_deref().unwrap_or_default();
            ["flannel.", "vxlan"].iter().any(|start| device.starts_with(start))
        };
        if let Some((device, used)) = self.on_devices(is_tunnel) {
            cni.overlay = Overlay::Vxlan;
            notes.push(format!(
                "pods of other nodes are assumed to be reached through VXLAN, because routes use {device}"
            ));
            self.used.extend(used);
        }
        notes
    }

    /// The device of the first route that satisfies a condition, and the positions of all of them.
    fn on_devices(&self, is_one: impl Fn(&Route) -> bool) -> Option<(String, Vec<usize>)> {
        let all: Vec<usize> = (0..self.all.len()).filter(|at| is_one(self.all[*at])).collect();
        Some((self.all[*all.first()?].device.clone()?, all))
    }

    /// The routes that were not used, in words.
    pub(super) fn left_out(&self) -> Option<String> {
        let others = self.all.iter().enumerate().filter(|(at, _)| !self.used.contains(at));
        let others: Vec<&&Route> = others.map(|(_, route)| route).collect();
        // To the outside, to the link, and to single pods.
        let is_made = |route: &Route| {
            let is_single = route.to.is_some_and(|to| to.prefix_len() == to.max_prefix_len());
            matches!(route.kind.as_str(), "local" | "broadcast" | "multicast")
                || route.kind == "unicast"
                    && (route.to.is_none() || route.via.is_none() || is_single && route.via.is_none())
        };
        let (made, others): (Vec<&&Route>, Vec<&&Route>) = others.into_iter().partition(|route| is_made(route));
        let listed = list(others.iter().map(|route| format!("`{}`", one_line(&route.text))), SHOWN);
        let made = (!made.is_empty()).then(|| {
            format!(
                "{} to the outside, to links and to single pods not imported: a lab creates its own",
                counted(made.len(), "route")
            )
        });
        let others = (!others.is_empty())
            .then(|| format!("routes not imported, because a scenario cannot express them: {listed}"));
        let all: Vec<String> = made.into_iter().chain(others).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// A node as routes show it.
#[derive(Default)]
struct Node {
    name: String,
    addresses: BTreeSet<IpAddr>,
    ranges: Vec<IpNet>,
}

impl Node {
    fn words(&self) -> String {
        let addresses = self.addresses.iter().map(ToString::to_string);
        let known: Vec<String> = addresses.chain(self.ranges.iter().map(|range| format!("pods in {range}"))).collect();
        format!("{} ({})", self.name, known.join(", "))
    }

    fn object(&self) -> Value {
        let addresses: Vec<Value> =
            self.addresses.iter().map(|ip| json!({"type": "InternalIP", "address": ip})).collect();
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name},
            "spec": {}, "status": {"addresses": addresses},
        });
        let ranges: Vec<String> = self.ranges.iter().map(ToString::to_string).collect();
        if let Some(first) = ranges.first() {
            node["spec"]["podCIDR"] = json!(first);
            node["spec"]["podCIDRs"] = json!(ranges);
        }
        node
    }
}
