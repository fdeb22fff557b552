//! What is said of the nodes of rules.

use std::collections::HashSet;

use serde_json::Value;
use svclab_rules::cluster::Node;
use svclab_rules::infer::Inferred;

use super::dump::Dump;
use super::surroundings::Surroundings;
use crate::infer::Assumption;
use crate::infer::accessors::own_name;
use crate::infer::merge::Objects;
use crate::text::{counted, list};

/// The most nodes that are named.
const MAX_NAMED: usize = 5;

/// Whose the rules are, and where the nodes come from.
pub(super) fn of(
    dumps: &[Dump],
    inferred: &Inferred,
    objects: &Objects,
    (surroundings, nodes): (&Surroundings, &[Node]),
) -> Vec<Assumption> {
    let ports = counted(inferred.ports.len(), "service port");
    let own: Vec<String> = dumps.iter().map(|dump| dump.node.clone()).collect();
    let whose = if own.len() > 1 { "nodes" } else { "node" };
    let words = format!("the rules, with {ports}, are those of {whose} {}", own.join(", "));
    let mut assumptions = vec![Assumption::Assumed(words)];
    if objects.has_machines() {
        let of_objects = objects.nodes.iter().map(own_name).chain(objects.named_nodes().map(str::to_owned));
        let known: Vec<String> = of_objects.chain(own).collect();
        let all = nodes.iter().map(|node| node.name.clone());
        let (all, new): (Vec<String>, Vec<String>) = all.partition(|name| known.contains(name));
        let new: String = new.iter().map(|name| format!(", and {name}, which is made up")).collect();
        let words = format!("nodes from the objects: {}{new}; pod ranges are those of their pods", all.join(", "));
        assumptions.push(words.into());
    } else {
        assumptions.extend(surroundings.assumptions().into_iter().map(Assumption::Assumed));
    }
    assumptions
}

/// What is said of nodes whose addresses nothing shows.
pub(super) fn made_up_addresses(objects: &Value, nodes: &[Node]) -> Option<Assumption> {
    let items = objects["items"].as_array().into_iter().flatten();
    let has_address = |node: &&Value| {
        let mut all = node["status"]["addresses"].as_array().into_iter().flatten();
        node["kind"] == "Node" && all.any(|one| one["type"] == "InternalIP")
    };
    let known: HashSet<String> = items.filter(has_address).map(own_name).collect();
    let made_up = nodes.iter().filter(|node| !known.contains(&node.name));
    let with_addresses = |node: &Node| {
        let all: Vec<String> = node.internal_ips.iter().map(ToString::to_string).collect();
        format!("{} ({})", node.name, all.join(", "))
    };
    let words: Vec<String> = made_up.map(with_addresses).collect();
    let count = counted(words.len(), "node");
    (!words.is_empty()).then(|| format!("made-up addresses of {count}: {}", list(&words, MAX_NAMED)).into())
}
