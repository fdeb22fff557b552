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
mod joined;
mod known;
mod listed;
mod lost_addresses;
mod machine;
mod made_up;
mod node_words;
mod objects;
mod outward;
mod placement;
mod placing;
mod settings;
mod shown_nodes;
mod surroundings;

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use svclab_rules::cluster::ProxyConfig;
use svclab_rules::compare::MadeUp;
use svclab_rules::infer::Inferred;

pub(super) use self::configuration::{configurations, configure, configured_ranges};
pub(super) use self::dump::Dump;
pub(super) use self::surroundings::HERE;
use self::surroundings::Surroundings;
use super::Assumption;
use super::endpoint_nodes::{assign_nodes, unassign_non_local};
use super::merge::Objects;
use super::named_endpoints::with_their_pods;
use super::objects::{Around, Assumed, Deviation, file_name, own_name};
use crate::input::{Diagnostics, Span};
use crate::scenario::{Install, Note, OtherRules, Place, Scenario, Tests, cluster, parse_with};
use crate::text::one_line;

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
    let all = joined::joined(objects, shown, (dumps, &surroundings, &local), &inferred, &mut notes);
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
    let mut assumptions = node_words::of(dumps, &inferred, objects, (&surroundings, &scenario.cluster.nodes));
    assumptions.extend(node_words::made_up_addresses(&all, &scenario.cluster.nodes));
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
