//! Rules of one or several nodes → a scenario, with assumptions for everything they do not specify.
//!
//! 1. `dump`: the rules of a node, and what is inferred from them ([`svclab_rules::infer`]);
//! 2. `surroundings`: nodes and pods, from what is `known` of endpoints, by `placing` machines around them; `objects`: all of it as
//!    Kubernetes objects, joined with those that the text shows;
//! 3. `settings`: kube-proxy's configuration and the release with the closest rules;
//! 4. `install`: the rules as a lab takes them, with those that a text does not show; `made_up`: those for values that no text shows.
//!
//! The objects are read as those of a file, so that the same checks apply.

mod configuration;
mod contradictions;
mod dump;
mod hidden_interfaces;
mod install;
mod known;
mod listed;
mod lost_addresses;
mod machine;
mod made_up;
mod objects;
mod placement;
mod placing;
mod settings;
mod shown_nodes;
mod surroundings;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use svclab_rules::cluster::{Node, ProxyConfig};
use svclab_rules::compare::MadeUp;
use svclab_rules::infer::Inferred;

pub(super) use self::configuration::{configurations, configure, configured_ranges};
pub(super) use self::dump::Dump;
use self::placement::place;
pub(super) use self::surroundings::HERE;
use self::surroundings::Surroundings;
use super::accessors::own_name as name_of;
use super::endpoint_nodes::{assign_nodes, unassign_non_local};
use super::merge::{Extent, Objects};
use super::named_endpoints::with_their_pods;
use super::objects::{Around, Assumed, Deviation, file_name, own_name};
use super::service_ports::leave_out_unshown;
use super::{Assumption, node_tables, readiness};
use crate::input::{Diagnostics, Span};
use crate::scenario::{Install, Note, OtherRules, Place, Scenario, Tests, cluster, parse_with};
use crate::text::{counted, list, one_line};

/// Builds scenarios of one cluster around the dumps of nodes, one for each list of them, which have at least one each. With a list comes the name
/// of what it was read from.
///
/// The nodes have the rules as they are. Services, endpoints and settings are those that the rules and the objects show. Without machines
/// among the objects, every range of endpoints becomes a node with a pod for each of them; other nodes have rules as kube-proxy
/// of the closest release writes them.
///
/// # Errors
///
/// Services of which no lab can be built.
pub(super) fn from_dumps(sides: &[(Vec<Dump>, &Path)], objects: &Objects) -> Result<Vec<Assumed>, Diagnostics> {
    let mut dumps = Dump::merged(sides.iter().flat_map(|(dumps, _)| dumps));
    let local = listed::in_local_rules(&dumps);
    listed::add_elsewhere(&mut dumps, objects);
    let dumps = &*dumps;
    let path = sides.first().map_or(Path::new(""), |(_, path)| path);
    let mut inferred = Inferred::joined(dumps.iter().map(|dump| dump.inferred.clone()));
    let lost = lost_addresses::give(&mut inferred, objects);
    let with_pods = with_their_pods(objects, &inferred.proxy.local_sources);
    let objects = with_pods.as_ref().unwrap_or(objects);
    let surroundings = Surroundings::of(dumps, &inferred, objects);
    let mode = dumps.first().map(Dump::mode).unwrap_or_default();
    let shown = objects::objects(&inferred, &surroundings, mode);
    let mut notes = Vec::new();
    let all = joined(objects, shown, (dumps, &surroundings, &local), &inferred, &mut notes);
    let listed = all.to_string();
    let (name, itself) = (file_name(path), own_name(path));
    let objects_name = format!("the objects assumed of {name}");
    let objects_path = itself.with_file_name(&objects_name);
    let plain = cluster(&listed, &objects_path, ProxyConfig::default())?;
    let mut written = Around::new(&plain.cluster).near(inferred.proxy.local_sources.clone()).scenario(&objects_name);
    written["name"] = json!(format!("the rules of {}", one_line(&name)));
    let bridge = inferred.proxy.local_interface.as_deref().filter(|name| !name.ends_with(['+', '*']));
    if bridge.is_some() {
        written["cluster"]["cni"] = json!("bridge");
    }
    let read =
        |named: &Path| if named == objects_path { Ok(listed.clone()) } else { Err(io::ErrorKind::NotFound.into()) };
    let mut scenario = parse_with(&written.to_string(), path, &read, Tests::Optional)?;
    scenario.inputs.remove(&objects_path);
    assign_nodes(&mut scenario.cluster, objects);
    for dump in dumps {
        let not_local = &dump.inferred.proxy.not_in_hairpin_set;
        for ip in unassign_non_local(&mut scenario.cluster, objects, &dump.node, not_local) {
            let node = &dump.node;
            notes.push(
                format!("endpoint {ip} has no `nodeName`: {node} has its address, but no hairpin rule for it").into(),
            );
        }
    }
    let mut made_up = objects::made_up(&inferred, objects, &scenario.cluster, &surroundings.made_up());
    let settings = settings::assume(&inferred, &surroundings, (dumps, &mut made_up), objects, &mut scenario.cluster);
    let ports = counted(inferred.ports.len(), "service port");
    let nodes: Vec<String> = dumps.iter().map(|dump| dump.node.clone()).collect();
    let whose = if nodes.len() > 1 { "nodes" } else { "node" };
    let words = format!("the rules, with {ports}, are those of {whose} {}", nodes.join(", "));
    let mut assumptions = vec![Assumption::Assumed(words)];
    if objects.has_machines() {
        let of_objects = objects.nodes.iter().map(name_of).chain(node_names(objects));
        let known: Vec<String> = of_objects.chain(nodes).collect();
        let all = scenario.cluster.nodes.iter().map(|node| node.name.clone());
        let (all, new): (Vec<String>, Vec<String>) = all.partition(|name| known.contains(name));
        let new: String = new.iter().map(|name| format!(", and {name}, which is made up")).collect();
        let words = format!("nodes from the objects: {}{new}; pod ranges are those of their pods", all.join(", "));
        assumptions.push(words.into());
    } else {
        assumptions.extend(surroundings.assumptions().into_iter().map(Assumption::Assumed));
    }
    assumptions.extend(made_up_addresses(&all, &scenario.cluster.nodes));
    assumptions.extend(notes);
    assumptions.extend(contradictions::of(&inferred));
    assumptions.extend(contradictions::of_local_sources(&inferred, &scenario.cluster.proxy));
    assumptions.extend(lost);
    assumptions.extend(objects::assumptions(&inferred, &surroundings, mode).into_iter().map(Assumption::Assumed));
    assumptions.extend(objects::hidden_endpoints(&inferred, objects).into_iter().map(Assumption::Assumed));
    assumptions.extend(surroundings.made_up_words(&scenario.cluster).into_iter().map(Assumption::Assumed));
    assumptions.extend(surroundings.forwarded_words(&scenario.cluster).map(Assumption::Assumed));
    assumptions
        .extend(objects::made_up_words(&made_up, &inferred, &scenario.cluster).into_iter().map(Assumption::Assumed));
    assumptions.extend(settings);
    assumptions.extend(dumps.iter().filter_map(Dump::typed_words).map(Assumption::Assumed));
    assumptions.extend(hidden_interfaces::words(dumps.iter().flat_map(|dump| &dump.parts)).map(Assumption::Assumed));
    assumptions.extend(bridge.map(|name| Assumption::Assumed(format!("pods are connected to a bridge {name}"))));
    let of_side = |(dumps, path): &(Vec<Dump>, &Path)| {
        let mut scenario = scenario.clone();
        scenario.name = format!("the rules of {}", one_line(&file_name(path)));
        scenario.file = path.to_path_buf();
        let (changes, deviations) = installed(&mut scenario, dumps, &made_up, path);
        // What a cut or a filter made of the text comes first: it alone is shown without `-v`.
        let mut assumptions: Vec<Assumption> = changes.into_iter().chain(assumptions.clone()).collect();
        assumptions.push("a client pod `client-of-NODE` on every node and an outside host `outside`".into());
        Assumed { scenario, assumptions, nodes: dumps.iter().map(|dump| dump.node.clone()).collect(), deviations }
    };
    Ok(sides.iter().map(of_side).collect())
}

/// The most Services that are named in an assumption.
const MAX_NAMED: usize = 5;

/// Installs the rules of dumps on their nodes. Returns what was changed in them, and what differs from what kube-proxy writes.
fn installed(
    scenario: &mut Scenario,
    dumps: &[Dump],
    made_up: &MadeUp,
    path: &Path,
) -> (Vec<Assumption>, Vec<Deviation>) {
    let (mut changes, mut deviations, mut ignored_rules) = (Vec::new(), Vec::new(), Vec::new());
    let origin = Span::start_of(path);
    for dump in dumps {
        let mut words = Vec::new();
        let own = install::rules(dump, &scenario.cluster, made_up, (&mut words, &mut deviations, &mut ignored_rules));
        changes.extend(words.into_iter().map(Assumption::Assumed));
        for (family, rules) in own {
            let left_out = rules.nftables().and_then(|parsed| Note::tables_not_installed(parsed, origin.clone()));
            let of_all =
                dump.parts.iter().find_map(|part| Note::tables_not_installed(part.rules.nftables()?, origin.clone()));
            if let Some(note) = left_out.or(of_all).filter(|note| !scenario.notes.contains(note)) {
                changes.push(Assumption::TablesNotInstalled(note.message.clone()));
                scenario.notes.push(note);
            }
            scenario.rules.push(OtherRules {
                place: Place::Node(dump.node.clone()),
                family,
                rules: Arc::new(rules),
                origin: origin.clone(),
                install: Install::Instead,
            });
        }
        let mut words = Vec::new();
        let others = install::others(dump, &mut words, &mut ignored_rules);
        changes.extend(words.into_iter().map(Assumption::Assumed));
        for (family, rules, install) in others {
            scenario.rules.push(OtherRules {
                place: Place::Node(dump.node.clone()),
                family,
                rules: Arc::new(rules),
                origin: origin.clone(),
                install,
            });
        }
    }
    scenario.ignored_rules.append(&mut ignored_rules);
    (changes, deviations)
}

/// What is said of nodes whose addresses nothing shows.
fn made_up_addresses(objects: &Value, nodes: &[Node]) -> Option<Assumption> {
    let items = objects["items"].as_array().into_iter().flatten();
    let has_address = |node: &&Value| {
        let mut all = node["status"]["addresses"].as_array().into_iter().flatten();
        node["kind"] == "Node" && all.any(|one| one["type"] == "InternalIP")
    };
    let known: HashSet<String> = items.filter(has_address).map(name_of).collect();
    let made_up = nodes.iter().filter(|node| !known.contains(&node.name));
    let with_addresses = |node: &Node| {
        let all: Vec<String> = node.internal_ips.iter().map(ToString::to_string).collect();
        format!("{} ({})", node.name, all.join(", "))
    };
    let words: Vec<String> = made_up.map(with_addresses).collect();
    let count = counted(words.len(), "node");
    (!words.is_empty()).then(|| format!("made-up addresses of {count}: {}", list(&words, MAX_NAMED)).into())
}

/// The nodes that pods name.
fn node_names(objects: &Objects) -> impl Iterator<Item = String> + '_ {
    objects.pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str().map(str::to_owned))
}

/// The objects that rules show, joined with those of the text.
fn joined(
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
        let new = node_names(objects).chain(dumps.iter().map(|dump| dump.node.clone()));
        for name in new {
            if !all.nodes.iter().any(|node| node["metadata"]["name"] == name.as_str()) {
                all.nodes.push(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
            }
        }
        notes.extend(place(&around.machines, &around.elsewhere, &mut shown, &mut all).map(Assumption::Assumed));
    } else {
        all.nodes.clone_from(&shown.nodes);
    }
    all.pods.append(&mut shown.pods);
    // Where the list of Services is not shown, only those that are shown are judged.
    let unserved = if dumps.iter().all(|dump| !dump.lists_services()) {
        let left_out = all.retain_shown(inferred);
        if left_out > 0 {
            let count = counted(left_out, "service");
            notes.push(format!("{count} of the objects that the excerpt does not show left out").into());
        }
        leave_out_unshown(&mut all.services, &all.endpoints, inferred)
    } else if !dumps.iter().any(Dump::lists_rejections) {
        let left_out = all.retain_served(inferred);
        left_out.into_iter().chain(leave_out_unshown(&mut all.services, &all.endpoints, inferred)).collect()
    } else {
        Vec::new()
    };
    if !unserved.is_empty() {
        let names = list(&unserved, MAX_NAMED);
        notes.push(format!("left out, because nothing shows whether they have endpoints: {names}").into());
    }
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
