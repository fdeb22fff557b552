//! Which of the named nodes the endpoints that rules show are on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::json;
use svclab_rules::cluster::Family;

use super::super::accessors::{
    endpoint_ips, for_each_endpoint, ips, is_control_plane, node_ips, node_ranges, own_name, service_of, set_ranges,
};
use super::super::merge::Objects;
use super::machine::Machine;

/// A node among the objects.
struct Known {
    name: String,
    addresses: Vec<IpAddr>,
    ranges: Vec<IpNet>,
    pods: Vec<IpAddr>,
    is_control_plane: bool,
}

/// Puts the machines that rules show onto the nodes that objects name: a machine is the node that has its address, a pod or a
/// range of it, else one of which nothing is known. One that was made up for endpoints elsewhere is a new node where there is no
/// other. Nodes get the addresses and ranges that they lack, and endpoints their node. Returns the nodes that were chosen without
/// such a sign, in words.
pub(super) fn place(
    machines: &[Machine],
    made_up: &BTreeMap<Family, IpAddr>,
    shown: &mut Objects,
    all: &mut Objects,
) -> Option<String> {
    let mut nodes: Vec<Known> = all.nodes.iter().map(|node| known(node, all)).collect();
    // Pods run on workers.
    nodes.sort_by_key(|node| node.is_control_plane);
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut placed: BTreeMap<&str, String> = BTreeMap::new();
    let by_sign = |machine: &Machine, node: &Known| {
        node.name == machine.name
            || node.addresses.iter().chain(&node.pods).any(|ip| machine.addresses.contains(ip))
            || machine.ranges.iter().any(|range| {
                node.ranges.iter().any(|own| own.contains(range) || range.contains(own))
                    || node.pods.iter().any(|ip| range.contains(ip))
            })
    };
    for machine in machines {
        if let Some(node) = nodes.iter().find(|node| !taken.contains(&node.name) && by_sign(machine, node)) {
            taken.insert(node.name.clone());
            placed.insert(&machine.name, node.name.clone());
        }
    }
    let mut guessed = Vec::new();
    for machine in machines.iter().filter(|machine| !placed.contains_key(machine.name.as_str())).collect::<Vec<_>>() {
        let is_free = |node: &&Known| {
            !taken.contains(&node.name)
                && (machine.addresses.is_empty() || node.addresses.is_empty())
                && (machine.ranges.is_empty() || node.ranges.is_empty() && node.pods.is_empty())
        };
        // An address by itself is that of the API server.
        let is_server = machine.ranges.is_empty();
        let mut free = nodes.iter().filter(is_free);
        let Some(node) = (if is_server { free.next_back() } else { free.next() }) else { continue };
        let (name, what) = (node.name.clone(), machine.words());
        taken.insert(name.clone());
        guessed.push(format!("{what} on {name}"));
        placed.insert(&machine.name, name);
    }
    let used = endpoints_of_rules_alone(shown, all);
    let is_made_up = |machine: &Machine| {
        made_up.values().any(|ip| used.contains(ip) && machine.ranges.iter().any(|range| range.contains(ip)))
    };
    for machine in machines.iter().filter(|machine| is_made_up(machine)) {
        if !placed.contains_key(machine.name.as_str()) && !nodes.iter().any(|node| node.name == machine.name) {
            all.nodes.push(machine.object());
            placed.insert(&machine.name, machine.name.clone());
        }
    }
    for machine in machines {
        if let Some(name) = placed.get(machine.name.as_str()) {
            let own = nodes.iter().find(|node| node.name == *name);
            let others = nodes.iter().filter(|node| node.name != *name);
            complete(all, machine, own, &others.flat_map(|node| node.pods.clone()).collect::<Vec<_>>());
        }
    }
    name_nodes(shown, all, machines, &placed);
    (!guessed.is_empty()).then(|| format!("the input does not say which node has which pods: {}", guessed.join(", ")))
}

fn known(node: &serde_json::Value, all: &Objects) -> Known {
    let name = own_name(node);
    let of_node = |pod: &&serde_json::Value| pod["spec"]["nodeName"] == name.as_str();
    let addresses = node_ips(node);
    let pods = all.pods.iter().filter(of_node).flat_map(ips).filter(|ip| !addresses.contains(ip));
    Known { ranges: node_ranges(node), pods: pods.collect(), is_control_plane: is_control_plane(node), addresses, name }
}

/// The endpoints of Services of which no object shows any.
fn endpoints_of_rules_alone(shown: &Objects, all: &Objects) -> BTreeSet<IpAddr> {
    let served: BTreeSet<String> = all.endpoints.iter().map(service_of).collect();
    shown.endpoints.iter().filter(|one| !served.contains(&service_of(one))).flat_map(endpoint_ips).collect()
}

/// Gives a node the addresses and ranges of a machine that it lacks.
fn complete(all: &mut Objects, machine: &Machine, known: Option<&Known>, others: &[IpAddr]) {
    let Some(known) = known else { return };
    let taken: BTreeSet<IpAddr> = all.nodes.iter().flat_map(node_ips).collect();
    let Some(node) = all.nodes.iter_mut().find(|node| own_name(node) == known.name) else { return };
    // Objects show a node's first addresses: one that serves node ports may be another one.
    let is_same = machine.addresses.iter().any(|ip| known.addresses.contains(ip));
    for ip in &machine.addresses {
        let has_family = node_ips(node).iter().any(|own| Family::of(*own) == Family::of(*ip));
        if !has_family || is_same && !known.addresses.contains(ip) && !taken.contains(ip) {
            let own = json!({"type": "InternalIP", "address": ip});
            match node["status"]["addresses"].as_array_mut() {
                Some(list) => list.push(own),
                None => node["status"]["addresses"] = json!([own]),
            }
        }
    }
    let has_more = |range: &&IpNet| !others.iter().any(|ip| range.contains(ip));
    if known.ranges.is_empty() && known.pods.is_empty() {
        let ranges: Vec<IpNet> = machine.ranges.iter().filter(has_more).copied().collect();
        set_ranges(node, &ranges);
    }
}

/// Endpoints are on the node of their pod, else on that of their machine, as pods are that no object shows.
fn name_nodes(shown: &mut Objects, all: &Objects, machines: &[Machine], placed: &BTreeMap<&str, String>) {
    let of_pods = all.nodes_of_pods();
    let of_machine = |ip: IpAddr| {
        Machine::of(machines, ip).and_then(|machine| placed.get(machine.name.as_str())).map(String::as_str)
    };
    shown.pods.retain_mut(|pod| {
        let new = ips(pod).into_iter().find(|ip| !of_pods.contains_key(ip));
        let node = new.and_then(of_machine).map(str::to_owned);
        pod["spec"]["nodeName"] = json!(node);
        node.is_some()
    });
    for slice in &mut shown.endpoints {
        for_each_endpoint(slice, |ip, _, endpoint| {
            match of_pods.get(&ip).map(String::as_str).or_else(|| of_machine(ip)) {
                Some(node) => drop(endpoint.insert("nodeName".to_owned(), json!(node))),
                None => drop(endpoint.remove("nodeName")),
            }
        });
    }
}
