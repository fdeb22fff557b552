//! Routes of a dump → nodes with the ranges of their pods, and how pods are connected.
//!
//! `10.244.2.0/24 via 172.18.0.3` says which node has which pods, which rules do not. A lab makes all other routes itself, or a scenario cannot
//! express them: these are listed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};
use svclab_rules::cluster::Family;

use super::accessors::{ips, node_ips, node_ranges, own_name, service_ips, set_ranges};
use super::merge::Objects;
use super::owners::Owners;
use super::rules::Dump;
use super::usual_ranges::{usual_range, wide};
use crate::evidence::{Contents, Evidence, Route, find_host};
use crate::scenario::{Cni, CniKind, Overlay};
use crate::text::{counted, list, one_line};

/// The most routes that are listed.
const SHOWN: usize = 5;

/// Names of bridges of pods.
const BRIDGES: [&str; 4] = ["cni0", "cbr0", "kube-bridge", DOCKER];
const DOCKER: &str = "docker0";

/// How names of links to single pods start.
const OF_PODS: [&str; 6] = ["veth", "cali", "lxc", "azv", "eni", "gke"];

/// The length of the widest range that a route to pods may have where nothing shows a pod in it.
const LEAST_LENGTH: u8 = 16;

/// What routes say.
pub(super) struct Routes<'e> {
    all: Vec<&'e Route>,
    /// The positions of the routes of each machine, if that is known: first those of dumps, then those of other pieces.
    by_machine: Vec<Vec<usize>>,
    /// The hosts of pieces that are of no dump, by prompts, as far as they are shown.
    hosts: Vec<Option<String>>,
    /// The positions of those that were used.
    used: BTreeSet<usize>,
    /// Addresses of pods and of other endpoints.
    endpoints: BTreeSet<IpAddr>,
}

impl<'e> Routes<'e> {
    /// The routes of all pieces, with the endpoints that rules and objects show.
    pub(super) fn of(evidence: &'e Evidence, dumps: &[Dump], objects: &Objects) -> Self {
        let owners = Owners::of(evidence, dumps);
        let (mut all, mut hosts) = (Vec::new(), Vec::new());
        let mut by_machine: Vec<Vec<usize>> = vec![Vec::new(); dumps.len()];
        let mut by_host: HashMap<&str, usize> = HashMap::new();
        for piece in &evidence.pieces {
            let Contents::Routes(routes) = &piece.contents else { continue };
            let machine = owners.only(piece).or_else(|| {
                // Where dumps share a machine's pieces, nothing says whose they are.
                owners.first(piece).is_none().then(|| {
                    let new = by_machine.len();
                    let at = piece.host.as_deref().map_or(new, |host| *by_host.entry(host).or_insert(new));
                    if at == new {
                        by_machine.push(Vec::new());
                        hosts.push(piece.host.clone());
                    }
                    at
                })
            });
            if let Some(machine) = machine {
                by_machine[machine].extend(all.len()..all.len() + routes.len());
            }
            all.extend(routes);
        }
        let ports = dumps.iter().flat_map(|dump| &dump.inferred.ports);
        let of_rules = ports.flat_map(|port| port.endpoints.iter().chain(&port.local)).map(|endpoint| endpoint.ip());
        let endpoints = of_rules.chain(objects.pods.iter().flat_map(ips)).collect();
        Self { all, by_machine, hosts, used: BTreeSet::new(), endpoints }
    }

    /// Gives nodes the pod ranges that have a route via one of their addresses, or to a link of their own. Without machines among the objects, these
    /// nodes are added if each endpoint is in a range or on a node. Returns what was assumed.
    pub(super) fn add(&mut self, dumps: &[Dump], objects: &mut Objects) -> Option<String> {
        let gateways = self.gateways(dumps, objects);
        let mut nodes = self.nodes(dumps, &gateways);
        if objects.has_machines() {
            let others = self.others(dumps.len(), objects);
            nodes.extend(others);
            return self.complete(&nodes, objects);
        }
        if dumps.is_empty() || gateways.is_empty() {
            return None;
        }
        self.used.extend(nodes.iter().flat_map(|node| &node.routes));
        if self.place_endpoints(dumps, &mut nodes).is_none() {
            return Some(
                "routes do not show the node of every endpoint, so no nodes are inferred from them".to_owned(),
            );
        }
        name(&mut nodes);
        let words: Vec<String> = nodes.iter().map(Node::words).collect();
        objects.nodes = nodes.iter().map(Node::object).collect();
        Some(format!("nodes from routes: {}", words.join(", ")))
    }

    /// The ranges of the pod bridges of dumps' machines.
    pub(super) fn bridged<'r>(&'r self, dumps: &[Dump]) -> impl Iterator<Item = Vec<IpNet>> + use<'r, 'e> {
        (0..dumps.len()).map(|at| self.own_ranges(at))
    }

    /// The endpoints in a range.
    fn endpoints_in(&self, range: IpNet) -> impl Iterator<Item = &IpAddr> {
        self.endpoints.range(range.network()..=range.broadcast())
    }

    /// The positions of routes to pods by the address of their node. Routes via other machines than nodes lead to pods if an endpoint is there.
    fn gateways(&self, dumps: &[Dump], objects: &Objects) -> BTreeMap<IpAddr, Vec<usize>> {
        let of_dumps = dumps.iter().flat_map(|dump| dump.addresses.iter().copied());
        let machines: BTreeSet<IpAddr> = objects.nodes.iter().flat_map(node_ips).chain(of_dumps).collect();
        let cluster_ips = dumps.iter().flat_map(|dump| &dump.inferred.ports).flat_map(|port| &port.cluster_ips);
        let services: Vec<IpAddr> = objects.services.iter().flat_map(service_ips).chain(cluster_ips.copied()).collect();
        let mut gateways: BTreeMap<IpAddr, Vec<usize>> = BTreeMap::new();
        for (at, route) in self.all.iter().enumerate() {
            let (Some(to), Some(via)) = (route.to, route.via) else { continue };
            let leads_to_node = || {
                let is_other = |ip: &IpAddr| !to.contains(ip);
                // Pods of all nodes are in one range, and nodes are not.
                let near = |ip: &IpAddr| wide(usual_range(*ip), Family::of(*ip));
                let is_near = |near: IpNet| near.contains(&to) && near != to && !near.contains(&via);
                let is_known = machines.contains(&via) || self.endpoints.iter().map(near).any(is_near);
                let is_narrow = to.prefix_len() >= LEAST_LENGTH;
                is_narrow
                    && is_known
                    && objects.nodes.iter().flat_map(node_ips).all(|ip| is_other(&ip))
                    && services.iter().all(is_other)
            };
            let is_of_pods =
                is_network(to) && !to.contains(&via) && (self.endpoints_in(to).next().is_some() || leads_to_node());
            if is_of_pods {
                gateways.entry(via).or_default().push(at);
            }
        }
        gateways
    }

    /// The nodes that routes show: first those of the dumps, then one for each other gateway, without a name.
    fn nodes(&self, dumps: &[Dump], gateways: &BTreeMap<IpAddr, Vec<usize>>) -> Vec<Node> {
        let mut nodes: Vec<Node> = (0..dumps.len()).map(|at| self.of_dump(dumps, at, gateways)).collect();
        for (via, routes) in gateways {
            let mut ranges: Vec<IpNet> = routes.iter().filter_map(|at| self.all[*at].to).collect();
            ranges.sort();
            ranges.dedup();
            match nodes.iter_mut().find(|node| node.addresses.contains(via)) {
                Some(node) => {
                    node.routes.extend(routes);
                    node.ranges.extend(ranges);
                }
                None => nodes.push(Node {
                    addresses: BTreeSet::from([*via]),
                    ranges,
                    routes: routes.clone(),
                    ..Node::default()
                }),
            }
        }
        for at in 0..dumps.len() {
            for range in self.own_ranges(at) {
                if !nodes.iter().flat_map(|node| &node.ranges).any(|other| overlaps(*other, range)) {
                    nodes[at].ranges.push(range);
                }
            }
        }
        nodes
    }

    /// The machines among the objects that routes of no dump are of: those that prompts name, or that have the sources of these routes.
    fn others(&self, dumps: usize, objects: &Objects) -> Vec<Node> {
        let machines: BTreeSet<IpAddr> = objects.nodes.iter().flat_map(node_ips).collect();
        let hosts = self.hosts.iter().enumerate();
        let node = |(at, host): (usize, &Option<String>)| {
            let addresses = self.links(dumps + at).filter_map(|(_, route)| route.source);
            let name = host.clone().unwrap_or_default();
            let addresses = addresses.filter(|ip| machines.contains(ip)).collect();
            Node { name, addresses, ranges: self.own_ranges(dumps + at), routes: Vec::new() }
        };
        hosts.map(node).collect()
    }

    /// Gives the only node among the objects that has no pod range the only range that a tunnel leads to and that is no other node's: flannel's routes
    /// name no node. Returns what was assumed.
    fn complete_last(&mut self, objects: &mut Objects) -> Option<String> {
        let known: Vec<IpNet> = objects.nodes.iter().flat_map(node_ranges).collect();
        let leads_on = |(at, route): (usize, &&Route)| {
            let to = route.to.filter(|to| is_tunnel(route) && is_network(*to) && route.via.is_some())?;
            (!known.iter().any(|own| overlaps(*own, to))).then_some((at, to))
        };
        let open: Vec<(usize, IpNet)> = self.all.iter().enumerate().filter_map(leads_on).collect();
        let (_, range) = *open.first().filter(|(_, first)| open.iter().all(|(_, range)| range == first))?;
        let mut lacking = objects.nodes.iter_mut().filter(|node| node_ranges(node).is_empty());
        let node = lacking.next()?;
        if lacking.next().is_some() || known.is_empty() {
            return None;
        }
        set_ranges(node, &[range]);
        self.used.extend(open.iter().map(|(at, _)| at));
        Some(format!("{} ({range})", own_name(node)))
    }

    /// The node of a dump, with its addresses in the networks of gateways.
    fn of_dump(&self, dumps: &[Dump], at: usize, gateways: &BTreeMap<IpAddr, Vec<usize>>) -> Node {
        let links: Vec<(usize, &Route)> =
            self.links(at).filter(|(_, route)| is_of_nodes(route, gateways.keys())).collect();
        let is_own = |ip: &&IpAddr| {
            gateways.contains_key(ip) || links.iter().any(|(_, route)| route.to.is_some_and(|to| to.contains(*ip)))
        };
        let listed = dumps[at].addresses.iter().filter(is_own).copied();
        Node {
            name: dumps[at].node.clone(),
            addresses: links.iter().filter_map(|(_, route)| route.source).chain(listed).collect(),
            routes: links.iter().map(|(at, _)| *at).collect(),
            ranges: Vec::new(),
        }
    }

    /// The routes of a machine to its own links.
    fn links(&self, machine: usize) -> impl Iterator<Item = (usize, &'e Route)> {
        let all = self.by_machine[machine].iter().map(|at| (*at, self.all[*at]));
        all.filter(|(_, route)| route.kind == "unicast" && route.via.is_none())
    }

    /// The ranges of the pods of a machine: that of their bridge, or the usual one around a pod with a link of its own.
    fn own_ranges(&self, machine: usize) -> Vec<IpNet> {
        let of_link = |(_, route): (usize, &Route)| {
            let (to, device) = (route.to?, route.device.as_deref()?);
            if !is_single(to) {
                let has_pods = || self.endpoints_in(to).next().is_some();
                return (is_network(to) && BRIDGES.contains(&device) && (device != DOCKER || has_pods())).then_some(to);
            }
            OF_PODS.iter().any(|start| device.starts_with(start)).then(|| usual_range(to.addr()))
        };
        let ranges: BTreeSet<IpNet> = self.links(machine).filter_map(of_link).collect();
        ranges.into_iter().collect()
    }

    /// Gives nodes among the objects the ranges and addresses that they lack. Returns what was assumed.
    fn complete(&mut self, nodes: &[Node], objects: &mut Objects) -> Option<String> {
        let mut completed = Vec::new();
        for found in nodes {
            let Some(at) = position(&objects.nodes, found) else { continue };
            let name = own_name(&objects.nodes[at]);
            let others = objects.nodes.iter().filter(|other| own_name(other) != name).flat_map(node_ranges);
            let others: Vec<IpNet> = others.collect();
            let of_others = objects.pods.iter().filter(|pod| pod["spec"]["nodeName"] != name.as_str()).flat_map(ips);
            let of_others: Vec<IpAddr> = of_others.collect();
            let is_free = |range: &&IpNet| {
                !others.iter().any(|other| overlaps(*other, **range)) && !of_others.iter().any(|ip| range.contains(ip))
            };
            let node = &mut objects.nodes[at];
            let known = node_ips(node);
            let is_new = |ip: &&IpAddr| !known.iter().any(|own| Family::of(*own) == Family::of(**ip));
            for ip in found.addresses.iter().filter(is_new) {
                let own = json!({"type": "InternalIP", "address": ip});
                match node["status"]["addresses"].as_array_mut() {
                    Some(list) => list.push(own),
                    None => node["status"]["addresses"] = json!([own]),
                }
            }
            let listed: Vec<IpNet> = found.ranges.iter().filter(is_free).copied().collect();
            if node_ranges(node).is_empty() && !listed.is_empty() {
                set_ranges(node, &listed);
                completed.push(format!("{name} ({})", list(listed, usize::MAX)));
            }
            if !node_ranges(&objects.nodes[at]).is_empty() {
                let ranges = node_ranges(&objects.nodes[at]);
                let leads_there = |at: &&usize| self.all[**at].to.is_some_and(|to| ranges.contains(&to));
                self.used.extend(found.routes.iter().filter(leads_there));
            }
        }
        completed.extend(self.complete_last(objects));
        (!completed.is_empty()).then(|| format!("pod ranges of nodes from routes: {}", completed.join(", ")))
    }

    /// Finds a node for each endpoint that is in no range yet; `None` if there is none.
    fn place_endpoints(&self, dumps: &[Dump], nodes: &mut Vec<Node>) -> Option<()> {
        let gateways: Vec<IpAddr> = nodes.iter().flat_map(|node| node.addresses.clone()).collect();
        for ip in &self.endpoints {
            let has = |node: &Node| node.addresses.contains(ip) || node.ranges.iter().any(|range| range.contains(ip));
            if nodes.iter().any(has) {
                continue;
            }
            let all = (0..dumps.len()).flat_map(|at| self.links(at).map(move |(_, route)| (at, route)));
            let links = all.filter(|(_, route)| route.to.is_some_and(|to| is_network(to) && to.contains(ip)));
            let nearest = links.max_by_key(|(_, route)| route.to.map(|to| to.prefix_len()));
            if nearest.is_some_and(|(_, route)| is_of_nodes(route, gateways.iter())) {
                nodes.push(Node { addresses: BTreeSet::from([*ip]), ..Node::default() });
                continue;
            }
            let range = nearest.and_then(|(_, route)| route.to).unwrap_or_else(|| usual_range(*ip));
            if nodes.iter().flat_map(|node| &node.ranges).any(|other| overlaps(*other, range)) {
                return None;
            }
            let owner = nearest.map(|(at, _)| at).or((dumps.len() == 1).then_some(0));
            match owner {
                None => nodes.push(Node { ranges: vec![range], ..Node::default() }),
                Some(at) if nodes[at].ranges.iter().any(|other| Family::of(other.addr()) == Family::of(*ip)) => {
                    return None;
                }
                Some(at) => nodes[at].ranges.push(range),
            }
        }
        Some(())
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
        let others: Vec<&Route> = others.map(|(_, route)| *route).collect();
        // To the outside, to the link, and to single pods.
        let is_made = |route: &Route| {
            let is_single = route.to.is_some_and(is_single);
            matches!(route.kind.as_str(), "local" | "broadcast" | "multicast")
                || route.kind == "unicast"
                    && (route.to.is_none() || route.via.is_none() || is_single && route.via.is_none())
        };
        let (made, others): (Vec<&Route>, Vec<&Route>) = others.into_iter().partition(|route| is_made(route));
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

/// The position of the node among objects that routes show: by its name, else by an address.
fn position(nodes: &[Value], shown: &Node) -> Option<usize> {
    let names: Vec<String> = nodes.iter().map(own_name).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let named = find_host(&all, &shown.name);
    let has_address = |node: &Value| node_ips(node).iter().any(|ip| shown.addresses.contains(ip));
    all.iter().position(|name| named == Some(*name)).or_else(|| nodes.iter().position(has_address))
}

/// Whether a route leads into a tunnel to other nodes.
fn is_tunnel(route: &Route) -> bool {
    let device = route.device.as_deref().unwrap_or_default();
    ["flannel.", "vxlan"].iter().any(|start| device.starts_with(start))
}

/// Whether a route leads to the network of nodes: that of the addresses over which routes lead.
fn is_of_nodes<'a>(route: &Route, mut gateways: impl Iterator<Item = &'a IpAddr>) -> bool {
    gateways.any(|via| route.to.is_some_and(|to| to.contains(via)))
}

/// Whether a destination is more than a single address, and not that of a link itself.
fn is_network(to: IpNet) -> bool {
    let is_of_link = match to {
        IpNet::V4(to) => to.addr().is_link_local(),
        IpNet::V6(to) => to.addr().is_unicast_link_local(),
    };
    !is_single(to) && !is_of_link
}

fn is_single(to: IpNet) -> bool {
    to.prefix_len() == to.max_prefix_len()
}

fn overlaps(one: IpNet, other: IpNet) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// Names the nodes that have no name yet.
fn name(nodes: &mut [Node]) {
    let taken: BTreeSet<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let names = (2..).map(|number| format!("node-{number}")).filter(|name| !taken.contains(name));
    nodes.iter_mut().filter(|node| node.name.is_empty()).zip(names).for_each(|(node, name)| node.name = name);
}

/// A node as routes show it.
#[derive(Default)]
struct Node {
    name: String,
    addresses: BTreeSet<IpAddr>,
    ranges: Vec<IpNet>,
    /// The positions of the routes that show it.
    routes: Vec<usize>,
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
        set_ranges(&mut node, &self.ranges);
        node
    }
}
