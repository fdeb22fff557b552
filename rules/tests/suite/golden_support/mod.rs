//! Reading of the recordings' clusters, and the normal form in which two documents for one cluster must be equal.

mod nftables;
pub(crate) mod recordings;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::Deserialize;
use svclab_rules::cluster::Cluster;
use svclab_rules::cluster::objects::{Object, assemble, proxy_config};

/// Chains with service ports in random order, because kube-proxy iterates over a hash map.
const SHUFFLED: [(&str, &str); 6] = [
    ("nat", "KUBE-SERVICES"),
    ("nat", "KUBE-NODEPORTS"),
    ("filter", "KUBE-SERVICES"),
    ("filter", "KUBE-EXTERNAL-SERVICES"),
    ("filter", "KUBE-NODEPORTS"),
    ("filter", "KUBE-PROXY-FIREWALL"),
];

/// Loads the cluster from a file of objects, as seen by kube-proxy of a release with the configuration next to the file.
pub(crate) fn load(file: &Path, version: &str) -> Cluster {
    let text = std::fs::read_to_string(file).unwrap();
    let documents = serde_yaml::Deserializer::from_str(&text);
    let objects: Vec<Object> = documents.map(|document| Object::deserialize(document).unwrap()).collect();
    let config = std::fs::read_to_string(file.with_file_name("proxy-config.yaml")).unwrap();
    let proxy = proxy_config(&serde_yaml::from_str(&config).unwrap(), version).unwrap();
    assemble(&objects, proxy).unwrap().cluster
}

/// Normalises the output of `nft list ruleset` as in [`nftables`]. Of `iptables-save`, sorts tables, declarations of chains, and chains; in
/// chains that list services, sorts service ports, each with its rules in order; and sorts the jumps to `KUBE-NODEPORTS` for single
/// addresses.
pub(crate) fn normalize(text: &str) -> Vec<String> {
    if text.starts_with("table ") {
        return nftables::normalize(text);
    }
    let mut tables: BTreeMap<&str, TableLines<'_>> = BTreeMap::new();
    let mut table = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name;
        }
        let TableLines { declarations, chains } = tables.entry(table).or_default();
        if line.starts_with(':') {
            declarations.push(line);
        } else if let Some(rule) = line.strip_prefix("-A ") {
            chains.entry(rule.split(' ').next().unwrap_or_default()).or_default().push(line);
        } else {
            assert!(line.starts_with('*') || line == "COMMIT", "not understood: {line}");
        }
    }
    let mut out = Vec::new();
    for (table, TableLines { mut declarations, chains }) in tables {
        out.push(format!("*{table}"));
        declarations.sort_unstable();
        out.extend(declarations.into_iter().map(str::to_owned));
        for (chain, rules) in chains {
            let sorted = if SHUFFLED.contains(&(table, chain)) { sort_services(&rules) } else { rules };
            out.extend(sorted.into_iter().map(str::to_owned));
        }
    }
    out
}

/// The lines of a table.
#[derive(Default)]
struct TableLines<'a> {
    declarations: Vec<&'a str>,
    chains: BTreeMap<&'a str, Vec<&'a str>>,
}

/// The subject of a stretch of rules.
#[derive(PartialEq)]
enum Stretch {
    Services,
    NodePorts,
    Other,
}

fn sort_services<'a>(rules: &[&'a str]) -> Vec<&'a str> {
    let kind = |rule: &str| match service_of(rule) {
        Some(_) => Stretch::Services,
        None if rule.ends_with("-j KUBE-NODEPORTS") => Stretch::NodePorts,
        None => Stretch::Other,
    };
    let mut sorted = Vec::new();
    for stretch in rules.chunk_by(|a, b| kind(a) == kind(b)) {
        let mut stretch = stretch.to_vec();
        match kind(stretch[0]) {
            Stretch::Services => stretch.sort_by_key(|rule| service_of(rule)),
            Stretch::NodePorts => stretch.sort_unstable(),
            Stretch::Other => {}
        }
        sorted.extend(stretch);
    }
    sorted
}

/// Returns `namespace/name:port` at the start of the comment, and the protocol of `-p`.
fn service_of(rule: &str) -> Option<(&str, &str)> {
    let (_, comment) = rule.split_once("--comment \"")?;
    let name = comment.split(['"', ' ']).next()?;
    let protocol = rule.split_once("-p ").map_or("", |(_, rest)| rest.split(' ').next().unwrap_or_default());
    name.contains('/').then_some((name, protocol))
}

/// Returns the first line in which two documents differ, with the lines before it.
pub(crate) fn first_difference(generated: &[String], recorded: &[String]) -> Option<String> {
    if generated == recorded {
        return None;
    }
    let same = generated.iter().zip(recorded).take_while(|(a, b)| a == b).count();
    let line = |lines: &[String]| lines.get(same).map_or("(end)", String::as_str).to_owned();
    let mut text = format!("line {} of the normal form differs\n", same + 1);
    for before in &generated[same.saturating_sub(2)..same] {
        let _ = writeln!(text, "    before:    {before}");
    }
    let _ = writeln!(text, "    generated: {}\n    recorded:  {}", line(generated), line(recorded));
    Some(text)
}
