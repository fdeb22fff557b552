//! Saved rules → a scenario, with assumptions for everything they do not specify.
//!
//! 1. `dump`: text → rules, and what is inferred from them ([`svclab_rules::infer`]);
//! 2. `surroundings`: nodes and pods; `objects`: all of it as Kubernetes objects;
//! 3. `settings`: kube-proxy's configuration and the release with the closest rules.
//!
//! The objects are read as those of a file, and the rules are listed in `rules:` of a scenario, so that the same checks apply.

mod dump;
mod objects;
mod settings;
mod surroundings;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::{Value, json};
use svclab_rules::cluster::ProxyConfig;

use self::dump::Dump;
use self::surroundings::{HERE, Surroundings};
use super::objects::{Around, Assumed, file_name, own_name};
use crate::input::Diagnostics;
use crate::scenario::{Note, Tests, cluster, parse_with};
use crate::text::{counted, one_line};

/// Builds a scenario around rules that were saved on a node: what `iptables-save` writes, or `nft list ruleset` with `-j` or
/// without. `path` is their file's name.
///
/// The node has the rules as they are. Services, endpoints and settings are those that the rules show. Every range of endpoints
/// becomes a node with a pod for each of them; other nodes have rules as kube-proxy of the closest release writes them.
///
/// # Errors
///
/// What cannot be read, rules that show no Service, and services of which no lab can be built.
pub fn from_rules(text: &str, path: &Path) -> Result<Assumed, Diagnostics> {
    let dump = Dump::read(text, path)?;
    let inferred = dump.inferred();
    let surroundings = Surroundings::of(&inferred);
    let listed = objects::objects(&inferred, &surroundings, dump.mode()).to_string();
    let (name, itself) = (file_name(path), own_name(path));
    let objects_name = format!("the objects assumed of {name}");
    let objects_path = itself.with_file_name(&objects_name);
    let plain = cluster(&listed, &objects_path, ProxyConfig::default())?;
    let mut written = Around::new(&plain.cluster).scenario(&objects_name);
    written["name"] = json!(format!("the rules of {}", one_line(&name)));
    let bridge = inferred.proxy.local_interface.as_deref().filter(|name| !name.ends_with(['+', '*']));
    if bridge.is_some() {
        written["cluster"]["cni"] = json!("bridge");
    }
    let rules = dump.families.iter().map(|family| {
        let family = family.to_string().to_lowercase();
        json!({"file": name, "install": "instead", "family": family})
    });
    written["rules"] = json!({HERE: rules.collect::<Vec<Value>>()});
    let read = |named: &Path| match named {
        _ if named == itself => Ok(text.to_owned()),
        _ if named == objects_path => Ok(listed.clone()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let mut scenario = parse_with(&written.to_string(), path, &read, Tests::Optional)?;
    scenario.inputs.remove(&objects_path);
    // Notes on entries of the file are reported once.
    let is_doubt = |note: &mut Note| note.is_doubtful && note.span.file == itself;
    let doubts = scenario.notes.extract_if(.., is_doubt).map(|note| (note.message.clone(), note));
    let doubts: BTreeMap<String, Note> = doubts.collect();
    let left_out = doubts.values().filter(|note| note.left_out_tables().is_some());
    scenario.notes.extend(left_out.cloned());
    let settings = settings::assume(&inferred, &surroundings, &dump, &mut scenario.cluster);
    let ports = counted(inferred.ports.len(), "service port");
    let mut assumptions = vec![format!("the rules, with {ports}, are those of node {HERE}")];
    assumptions.extend(surroundings.assumptions());
    assumptions.extend(objects::assumptions(&inferred, dump.mode()));
    assumptions.extend(settings);
    assumptions.extend(bridge.map(|name| format!("pods are connected to a bridge {name}")));
    assumptions.extend(doubts.into_keys());
    assumptions.push("a client pod `client-of-NODE` on every node and an outside host `outside`".to_owned());
    Ok(Assumed { scenario, assumptions })
}
