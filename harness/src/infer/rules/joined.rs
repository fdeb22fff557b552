//! The objects of a text, with what rules show.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::{Value, json};
use svclab_rules::infer::Inferred;

use super::dump::Dump;
use super::placement::place;
use super::surroundings::Surroundings;
use crate::infer::merge::{Extent, Objects};
use crate::infer::service_ports::leave_out_unshown;
use crate::infer::{Assumption, node_tables, readiness};
use crate::text::{counted, list};

/// The most Services that are named.
const MAX_NAMED: usize = 5;

/// Joins the objects that rules show with those of the text. `local` has the endpoints in rules for those of their own node, by Service.
pub(super) fn joined(
    objects: &Objects,
    shown: Value,
    (dumps, around, local): (&[Dump], &Surroundings, &BTreeMap<String, BTreeSet<IpAddr>>),
    inferred: &Inferred,
    notes: &mut Vec<Assumption>,
) -> Value {
    if objects.is_empty() {
        return shown;
    }
    let items = shown["items"].as_array().cloned().unwrap_or_default();
    let mut shown = Objects::of(items);
    let mut all = objects.clone();
    if objects.has_machines() {
        let new = objects.named_nodes().chain(dumps.iter().map(|dump| &*dump.node));
        for name in new {
            if !all.nodes.iter().any(|node| node["metadata"]["name"] == name) {
                all.nodes.push(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
            }
        }
        notes.extend(place(&around.machines, &around.elsewhere, &mut shown, &mut all).map(Assumption::Assumed));
    } else {
        all.nodes.clone_from(&shown.nodes);
    }
    all.pods.append(&mut shown.pods);
    leave_out_unknown(&mut all, dumps, inferred, notes);
    let nodes = all.nodes_of_pods();
    let is_here = |ip: IpAddr| {
        let node = nodes.get(&ip).map_or_else(|| around.node_of(ip), String::as_str);
        dumps.iter().any(|dump| dump.node == node)
    };
    let is_left_out =
        |service: &str, ip: IpAddr| local.get(service).is_some_and(|own| !own.contains(&ip)) && is_here(ip);
    notes.extend(readiness::assume(&mut all, inferred, is_left_out).into_iter().map(Assumption::Assumed));
    let extent = Extent { is_whole: dumps.iter().all(Dump::is_whole), made_up: &around.made_up(), is_here: &is_here };
    all.complete(shown, inferred, &extent, notes);
    notes.extend(node_tables::add_addresses(&mut all).map(Assumption::Assumed));
    notes.extend(all.repair());
    all.list()
}

/// Leaves out Services of which nothing shows whether they are on the nodes of rules, or whether they have endpoints.
fn leave_out_unknown(objects: &mut Objects, dumps: &[Dump], inferred: &Inferred, notes: &mut Vec<Assumption>) {
    // Where the list of Services is not shown, only those that are shown are judged.
    let unserved = if dumps.iter().all(|dump| !dump.lists_services()) {
        let left_out = objects.retain_shown(inferred);
        if left_out > 0 {
            let count = counted(left_out, "service");
            notes.push(format!("{count} of the objects that the excerpt does not show left out").into());
        }
        leave_out_unshown(&mut objects.services, &objects.endpoints, inferred)
    } else if !dumps.iter().any(Dump::lists_rejections) {
        let left_out = objects.retain_served(inferred);
        left_out.into_iter().chain(leave_out_unshown(&mut objects.services, &objects.endpoints, inferred)).collect()
    } else {
        Vec::new()
    };
    if !unserved.is_empty() {
        let names = list(&unserved, MAX_NAMED);
        notes.push(format!("left out, because nothing shows whether they have endpoints: {names}").into());
    }
}
