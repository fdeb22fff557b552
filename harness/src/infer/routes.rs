//! Routes of a dump → nodes with the ranges of their pods, and how pods are connected.
//!
//! `10.244.2.0/24 via 172.18.0.3` says which node has which pods, which rules do not. A lab makes all other routes itself, or a scenario has no
//! words for them: these are listed.

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
use crate::text::{counted, one_line};

/// The most routes that are listed.
const SHOWN: usize = 5;

/// Names of bridges of pods.
const BRIDGES: [&str; 4] = ["cni0", "cbr0", "kube-bridge", "docker0"];

/// What routes say.
pub(super) struct Routes<'e> {
    all: Vec<&'e Route>,
    /// The lines that were used.
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

    /// Gives nodes the ranges of pods to which routes lead over their addresses. Without machines among the objects, these nodes are added,
    /// if there is one dump, and each of its endpoints is in a range or on a node. Returns what was assumed.
    pub(super) fn add(&mut self, dumps: &[Dump], objects: &mut Objects) -> Option<String> {
        let ranges = self.ranges();
        if objects.has_machines() {
            self.complete(&ranges, objects);
            return None;
        }
        let ([dump], false) = (dumps, ranges.is_empty()) else { return None };
        let Some(nodes) = self.nodes(&dump.node, &ranges) else {
            self.used.extend(ranges.values().flat_map(|(_, lines)| lines));
            return Some("routes do not show the node of every endpoint, so nodes are not taken from them".to_owned());
        };
        let words: Vec<String> = nodes.iter().map(Node::words).collect();
        objects.nodes = nodes.iter().map(Node::object).collect();
        for (_, routes) in ranges.values() {
            self.used.extend(routes);
        }
        Some(format!("nodes from routes: {}", words.join(", ")))
    }

    /// The ranges of pods by the address of their node, with the lines of their routes.
    fn ranges(&self) -> BTreeMap<IpAddr, (Vec<IpNet>, Vec<usize>)> {
        let mut ranges: BTreeMap<IpAddr, (Vec<IpNet>, Vec<usize>)> = BTreeMap::new();
        for route in &self.all {
            let (Some(to), Some(via)) = (route.to, route.via) else { continue };
            let is_of_pods = to.prefix_len() < to.max_prefix_len()
                && !to.contains(&via)
                && self.endpoints.iter().any(|ip| to.contains(ip));
            if is_of_pods {
                let (own, lines) = ranges.entry(via).or_default();
                if !own.contains(&to) {
                    own.push(to);
                }
                lines.push(route.line);
            }
        }
        ranges
    }

    /// Gives nodes among the objects the ranges that they lack.
    fn complete(&mut self, ranges: &BTreeMap<IpAddr, (Vec<IpNet>, Vec<usize>)>, objects: &mut Objects) {
        for node in objects.nodes.iter_mut().filter(|node| node["spec"]["podCIDRs"].is_null()) {
            let own: Vec<_> = node_ips(node).iter().filter_map(|ip| ranges.get(ip)).collect();
            let listed: Vec<String> = own.iter().flat_map(|(own, _)| own).map(ToString::to_string).collect();
            if !listed.is_empty() && node["spec"]["podCIDR"].is_null() {
                node["spec"]["podCIDR"] = json!(listed[0]);
                node["spec"]["podCIDRs"] = json!(listed);
                own.iter().for_each(|(_, lines)| self.used.extend(lines));
            }
        }
    }

    /// The nodes around the one with this name; `None` if an endpoint has no place on them.
    fn nodes(&mut self, name: &str, ranges: &BTreeMap<IpAddr, (Vec<IpNet>, Vec<usize>)>) -> Option<Vec<Node>> {
        let links: Vec<&Route> =
            self.all.iter().filter(|route| route.kind == "unicast" && route.via.is_none()).copied().collect();
        // The networks of nodes are those of the addresses over which routes lead.
        let is_of_nodes = |route: &&Route| ranges.keys().any(|via| route.to.is_some_and(|to| to.contains(via)));
        let of_nodes: Vec<&Route> = links.iter().copied().filter(is_of_nodes).collect();
        let mut own = Node { name: name.to_owned(), ..Node::default() };
        own.addresses.extend(of_nodes.iter().filter_map(|route| route.source));
        let mut others: BTreeMap<IpAddr, Vec<IpNet>> =
            ranges.iter().map(|(via, (ranges, _))| (*via, ranges.clone())).collect();
        let is_elsewhere =
            |ip: &IpAddr| ranges.values().any(|(ranges, _)| ranges.iter().any(|range| range.contains(ip)));
        for ip in self.endpoints.iter().filter(|ip| !is_elsewhere(ip)) {
            if own.addresses.contains(ip) || own.ranges.iter().any(|range| range.contains(ip)) {
                continue;
            }
            if of_nodes.iter().any(|route| route.to.is_some_and(|to| to.contains(ip))) {
                others.entry(*ip).or_default();
                continue;
            }
            let length = if ip.is_ipv4() { 24 } else { 64 };
            let usual = IpNet::new_assert(*ip, length).trunc();
            let shown = links
                .iter()
                .filter_map(|route| route.to.filter(|to| to.contains(ip) && to.prefix_len() < to.max_prefix_len()));
            let range = shown.max_by_key(IpNet::prefix_len).unwrap_or(usual);
            let overlaps = |other: &IpNet| other.contains(&range) || range.contains(other);
            let has_family = own.ranges.iter().any(|other| Family::of(other.addr()) == Family::of(*ip));
            if has_family || others.values().flatten().any(overlaps) {
                return None;
            }
            own.ranges.push(range);
        }
        self.used.extend(of_nodes.iter().map(|route| route.line));
        let names = (2..).map(|number| format!("node-{number}")).filter(|other| other != name);
        let others = others.into_iter().zip(names);
        let others = others.map(|((ip, ranges), name)| Node { name, addresses: BTreeSet::from([ip]), ranges });
        Some(std::iter::once(own).chain(others).collect())
    }

    /// How routes show that pods are connected. Returns what was assumed.
    pub(super) fn connect(&mut self, cni: &mut Cni) -> Vec<String> {
        let mut notes = Vec::new();
        let device = |route: &&&Route| route.device.clone().unwrap_or_default();
        let is_bridge = |route: &&&Route| BRIDGES.contains(&device(route).as_str());
        if let Some(route) = self.all.iter().find(is_bridge) {
            if cni.kind == CniKind::Ptp {
                cni.kind = CniKind::Bridge { hairpin: true, nf_call_iptables: true };
                notes.push(format!("pods are connected to a bridge, as {} in the routes", device(&route)));
            }
            self.used.extend(self.all.iter().filter(is_bridge).map(|route| route.line));
        }
        let is_tunnel = |route: &&&Route| ["flannel.", "vxlan"].iter().any(|start| device(route).starts_with(start));
        if let Some(route) = self.all.iter().find(is_tunnel) {
            cni.overlay = Overlay::Vxlan;
            notes.push(format!("pods of other nodes are reached inside VXLAN, as {} in the routes", device(&route)));
            self.used.extend(self.all.iter().filter(is_tunnel).map(|route| route.line));
        }
        notes
    }

    /// The routes that were not used, in words.
    pub(super) fn left_out(&self) -> Option<String> {
        let others: Vec<&&Route> = self.all.iter().filter(|route| !self.used.contains(&route.line)).collect();
        // To the outside, to the link, and to single pods.
        let is_made = |route: &Route| {
            let is_single = route.to.is_some_and(|to| to.prefix_len() == to.max_prefix_len());
            matches!(route.kind.as_str(), "local" | "broadcast" | "multicast")
                || route.kind == "unicast"
                    && (route.to.is_none() || route.via.is_none() || is_single && route.via.is_none())
        };
        let (made, others): (Vec<&&Route>, Vec<&&Route>) = others.into_iter().partition(|route| is_made(route));
        let listed: Vec<String> =
            others.iter().take(SHOWN).map(|route| format!("`{}`", one_line(&route.text))).collect();
        let more = if others.len() > SHOWN { format!(" and {} more", others.len() - SHOWN) } else { String::new() };
        let made = (!made.is_empty()).then(|| {
            format!(
                "{} to the outside, to links and to single pods not imported: a lab makes its own",
                counted(made.len(), "route")
            )
        });
        let others = (!listed.is_empty())
            .then(|| format!("routes not imported, for which a scenario has no words: {}{more}", listed.join(", ")));
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
