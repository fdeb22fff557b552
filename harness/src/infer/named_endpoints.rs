//! Endpoints whose node a list names, as those in YAML and JSON do.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};
use svclab_rules::cluster::{Family, ObjectName};

use super::accessors::{for_each_endpoint, ips, node_ips, own_name, service_ips, service_of};
use super::endpoint_pods::{EndpointPod, EndpointPods};
use super::merge::Objects;
use super::service_ports::is_api_server;
use super::usual_ranges::wide;
use crate::evidence::is_from_table;

/// The fewest endpoints outside of the range that rules take for that of pods, and none in it, that are not those of nodes.
pub(super) const FEWEST_OUTSIDE: usize = 3;

/// An endpoint on a node.
struct Named {
    ip: IpAddr,
    node: String,
    namespace: String,
    /// The pod that it refers to.
    pod: Option<ObjectName>,
}

/// The objects with a pod on the node of each endpoint that names one and whose address nothing has. Rules that take an address for none of a pod's,
/// and those of other endpoints for pods', show that it is the node's own. `None` if there is nothing to add.
/// `sources` are the ranges that rules take for those of pods.
pub(super) fn with_their_pods(objects: &Objects, sources: &BTreeSet<IpNet>) -> Option<Objects> {
    let new = named(objects);
    if new.is_empty() {
        return None;
    }
    let is_of_pods = |one: &Named| {
        let family = Family::of(one.ip);
        let mut of_family = sources.iter().filter(|range| Family::of(range.addr()) == family).peekable();
        of_family.peek().is_none() || of_family.any(|range| wide(*range, family).contains(&one.ip))
    };
    let are_all_outside = new.len() >= FEWEST_OUTSIDE && !new.iter().any(is_of_pods);
    let mut all = objects.clone();
    let mut pods = EndpointPods::default();
    for one in new {
        if are_all_outside || is_of_pods(&one) {
            pods.add(one.pod, (&one.namespace, &one.node), one.ip);
        } else {
            add_address(&mut all.nodes, &one.node, one.ip);
        }
    }
    all.pods.extend(pods.into_pods().iter().map(EndpointPod::object));
    Some(all)
}

/// The endpoints on named nodes whose addresses no pod, node or Service has. That of the API server's Service names none.
fn named(objects: &Objects) -> Vec<Named> {
    let machines = objects.nodes.iter().flat_map(node_ips).chain(objects.pods.iter().flat_map(ips));
    let mut known: BTreeSet<IpAddr> = machines.chain(objects.services.iter().flat_map(service_ips)).collect();
    let taken: BTreeSet<ObjectName> =
        objects.pods.iter().map(|pod| ObjectName::new(namespace(pod), own_name(pod))).collect();
    let mut new = Vec::new();
    let lists = objects.endpoints.iter().filter(|one| !is_from_table(one) && !is_api_server(&service_of(one)));
    for list in lists {
        let namespace = namespace(list);
        for_each_endpoint(&mut list.clone(), |ip, node, endpoint| {
            let Some(node) = node.filter(|node| !node.is_empty() && !known.contains(&ip)) else { return };
            known.insert(ip);
            let referred = endpoint.get("targetRef").filter(|reference| reference["kind"] == "Pod");
            let pod = referred.and_then(|reference| Some(ObjectName::new(namespace, reference["name"].as_str()?)));
            let pod = pod.filter(|name| !taken.contains(name));
            new.push(Named { ip, node: node.to_owned(), namespace: namespace.to_owned(), pod });
        });
    }
    new
}

fn namespace(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or("default")
}

/// Gives a node an address where it has none of its family.
fn add_address(nodes: &mut Vec<Value>, name: &str, ip: IpAddr) {
    let own = json!({"type": "InternalIP", "address": ip});
    let Some(node) = nodes.iter_mut().find(|node| own_name(node) == name) else {
        nodes.push(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"addresses": [own]},
        }));
        return;
    };
    if node_ips(node).iter().any(|other| Family::of(*other) == Family::of(ip)) {
        return;
    }
    match node["status"]["addresses"].as_array_mut() {
        Some(list) => list.push(own),
        None => node["status"]["addresses"] = json!([own]),
    }
}
