//! What people send → a scenario.

use std::collections::BTreeMap;
use std::path::Path;

use ipnet::IpNet;
use serde_json::Value;
use svclab_rules::cluster::{Cluster, Node, ProxyConfig};
use svclab_rules::infer::Inferred;
use svclab_rules::nftables;

use super::accessors::{name, node_ips, service_of};
use super::connections::{Connections, connections};
use super::dumps::dumps;
use super::endpoint_nodes::assign_nodes;
use super::interfaces;
use super::merge::Objects;
use super::node_file::NodeFile;
use super::objects::{Assumed, from_objects_near};
use super::owners::Owners;
use super::routes::Routes;
use super::rules::{Dump, configurations, configure, configured_ranges, from_dumps};
use super::{Assumption, readiness, snapshots, unlisted};
use crate::evidence::{
    self, Contents, Evidence, NodeRules, OF_IPTABLES_NFT, Piece, logged_services, node_rules, objects, releases,
};
use crate::input::{Diagnostic, Diagnostics, Span};
use crate::scenario::{CniKind, Note, Setting, cluster};
use crate::text::{counted, list, one_line};

/// Builds a scenario from what a text, or several files, show: rules of one or several nodes, Kubernetes objects, and settings.
///
/// Nodes whose rules are shown have these; of an excerpt, what is not shown is as kube-proxy writes it. Everything else is assumed and said. `given`
/// names the nodes of files.
///
/// # Errors
///
/// A text that shows no Service at all.
pub fn from_evidence(
    evidence: &Evidence,
    path: &Path,
    given: &[NodeFile],
    wanted: Connections,
) -> Result<Assumed, Diagnostics> {
    let snapshots = evidence.snapshots();
    let Some(chosen) = snapshots::choose(&snapshots) else { return from_snapshot(evidence, path, given, wanted) };
    let mut assumed = from_snapshot(&chosen.evidence, path, given, wanted)?;
    for (words, has_rules) in snapshots::words(&snapshots, chosen) {
        match has_rules {
            true => assumed.scenario.ignored_rules.push(words),
            false => assumed.assumptions.push(Assumption::Contradiction(words)),
        }
    }
    Ok(assumed)
}

/// Builds a scenario from what shows one cluster at one time.
fn from_snapshot(
    evidence: &Evidence,
    path: &Path,
    given: &[NodeFile],
    wanted: Connections,
) -> Result<Assumed, Diagnostics> {
    let mut objects = objects_of(evidence);
    let too_many = objects.truncate(MAX_SERVICES);
    let mut notes = Vec::new();
    let mut left_out: Vec<String> = evidence.rules_not_read().into_iter().collect();
    let mut dumps = dumps(evidence, given, &objects, (&mut notes, &mut left_out));
    if dumps.is_empty() && objects.services.is_empty() {
        objects.add_logged(logged_services(evidence));
        if objects.services.is_empty() {
            return Err(nothing(evidence, path));
        }
        notes.push("the Services and their endpoints are those that kube-proxy's log shows".into());
    }
    if dumps.is_empty() {
        left_out.extend(node_rules(evidence).iter().filter(|set| set.rules.has_effect()).map(without_services));
    }
    notes.extend(evidence.not_printed().map(Assumption::Assumed));
    notes.extend(evidence.order_not_shown().map(Assumption::Assumed));
    notes.extend(evidence.not_read().map(Assumption::Assumed));
    let has_rules = !dumps.is_empty();
    let mut routes = Routes::of(evidence, &dumps, &objects);
    let bridged: Vec<Vec<IpNet>> = routes.bridged(&dumps).collect();
    dumps.iter_mut().zip(bridged).for_each(|(dump, ranges)| dump.bridged = ranges);
    notes.extend(routes.add(&dumps, &mut objects).map(Assumption::Assumed));
    let sides = [(dumps, path)];
    let Some(mut assumed) = around(&sides, &objects)?.pop() else { return Err(nothing(evidence, path)) };
    // A chain that no rule jumps to is not a Service.
    if assumed.scenario.cluster.services.is_empty() && objects.services.is_empty() {
        return Err(nothing(evidence, path));
    }
    let [(dumps, _)] = &sides;
    notes.extend(routes.connect(&mut assumed.scenario.cni).into_iter().map(Assumption::Assumed));
    notes.extend(interfaces::connect(&mut assumed.scenario).into_iter().map(Assumption::Assumed));
    notes.extend(routes.left_out().map(Assumption::Assumed));
    notes.extend(settings(evidence, dumps, &mut assumed).map(Assumption::Assumed));
    notes.extend(connections(evidence, &mut assumed, wanted));
    add_other_tables(evidence, &mut assumed);
    if let Some(piece) = evidence.iptables_nft_piece().filter(|_| !has_rules) {
        let file = piece.file.as_ref().map(|file| format!("{} ", one_line(file))).unwrap_or_default();
        // The rules are what a verification is about.
        let words = format!(
            "the rules from {file}line {} on are not used, but those that kube-proxy writes: they are iptables' own, as nft shows them; \
             `iptables-save` prints them whole",
            piece.first
        );
        assumed.assumptions.insert(0, words.into());
    }
    if let Some(piece) = evidence.rules_not_loaded() {
        let words = format!(
            "the rules from line {} on are those that kube-proxy failed to load, as its log says: those that the node has are unknown",
            piece.first
        );
        assumed.assumptions.insert(0, words.into());
    }
    assumed.assumptions.extend(notes);
    // It is printed without `-v`, too.
    assumed.assumptions.splice(0..0, too_many.map(Assumption::Assumed));
    assumed.scenario.ignored_rules.splice(0..0, left_out);
    Ok(assumed)
}

/// The most Services of objects. Each takes some 30 KB in a scenario, and Kubernetes supports 10,000 of them in a cluster.
const MAX_SERVICES: usize = 25_000;

/// Names the tables of nftables, in any piece, that are neither kube-proxy's nor installed.
fn add_other_tables(evidence: &Evidence, assumed: &mut Assumed) {
    let of_piece = |piece: &Piece| match &piece.contents {
        Contents::Nftables { rules, .. } => rules.others.clone(),
        _ => Vec::new(),
    };
    let mut others: Vec<_> = evidence.pieces.iter().flat_map(of_piece).collect();
    others.dedup();
    let all = nftables::Parsed { others, ..nftables::Parsed::default() };
    let Some(note) = Note::tables_not_installed(&all, Span::start_of(&assumed.scenario.file)) else { return };
    assumed.scenario.notes.retain(|known| known.left_out_tables().is_none());
    assumed.assumptions.retain(|known| !matches!(known, Assumption::TablesNotInstalled(_)));
    assumed.assumptions.insert(0, Assumption::TablesNotInstalled(note.message.clone()));
    assumed.scenario.notes.push(note);
}

/// Builds two scenarios of one cluster from what two inputs show, so that they differ only in the rules of nodes; `None` where one of them has
/// no rules. The rules of one node each are taken for those of the same node.
///
/// # Errors
///
/// As [`from_evidence`].
pub fn from_pair(sides: [(&Evidence, &Path); 2]) -> Option<Result<[Assumed; 2], Diagnostics>> {
    let mut all = Evidence::default();
    sides.iter().for_each(|(evidence, path)| all.add(&path.to_string_lossy(), (*evidence).clone()));
    let mut objects = objects_of(&all);
    let too_many = objects.truncate(MAX_SERVICES).map(Assumption::Assumed);
    let mut notes = [0, 1].map(|_| too_many.iter().cloned().collect::<Vec<_>>());
    let mut left_out = [0, 1].map(|at| sides[at].0.rules_not_read().into_iter().collect::<Vec<_>>());
    let [first, second] = [0, 1].map(|at| dumps(sides[at].0, &[], &objects, (&mut notes[at], &mut left_out[at])));
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let mut both = [(first, sides[0].1), (second, sides[1].1)];
    if let [(first, _), (second, _)] = &mut both
        && let ([one], [other]) = (first.as_slice(), second.as_mut_slice())
        && one.node != other.node
    {
        notes[1].push(format!("the rules of {} are compared as those of {}", other.node, one.node).into());
        other.node.clone_from(&one.node);
    }
    let assumed = match around(&both, &objects) {
        Ok(assumed) => assumed,
        Err(errors) => return Some(Err(errors)),
    };
    let mut assumed = assumed.into_iter().zip(notes).enumerate().map(|(at, (mut assumed, mut notes))| {
        notes.extend(sides[at].0.not_read().map(Assumption::Assumed));
        notes.extend(settings(sides[at].0, &both[at].0, &mut assumed).map(Assumption::Assumed));
        assumed.assumptions.extend(notes);
        assumed.scenario.ignored_rules.append(&mut left_out[at]);
        assumed
    });
    Some(Ok([assumed.next()?, assumed.next()?]))
}

/// The scenarios of dumps and objects, one for each list of dumps. Machines among the objects that no lab can be built of are left out.
fn around(sides: &[(Vec<Dump>, &Path)], objects: &Objects) -> Result<Vec<Assumed>, Diagnostics> {
    let has_rules = sides.iter().all(|(dumps, _)| !dumps.is_empty());
    let of = |objects: &Objects| match has_rules {
        false => {
            let mut all = objects.clone();
            let left_out = all.repair();
            let near = configured_ranges(&objects.configurations);
            let of_tables = readiness::assume(&mut all, &Inferred::default(), |_, _| false);
            let unlisted = unlisted::add(&mut all, &near);
            let list = all.list().to_string();
            let of_side = |(_, path): &(Vec<Dump>, &Path)| {
                let mut assumed = from_objects_near(&list, path, &near)?;
                assign_nodes(&mut assumed.scenario.cluster, objects);
                let words = "the objects are those that the text shows; what tables omit is unknown";
                assumed.assumptions.insert(0, words.into());
                let cluster = &mut assumed.scenario.cluster;
                if let Some(release) = objects.releases.first() {
                    cluster.proxy.version = release.version.to_string();
                }
                let configured = configure(cluster, &objects.configurations);
                let defaults = defaults(cluster, objects).chain(configured);
                assumed.assumptions.extend(defaults.map(Assumption::Assumed));
                assumed.assumptions.extend(left_out.clone());
                assumed.assumptions.extend(objects.cut_tables().map(Assumption::Assumed));
                assumed.assumptions.extend(of_tables.iter().cloned().map(Assumption::Assumed));
                assumed.assumptions.extend(unlisted.iter().cloned().map(Assumption::Assumed));
                Ok(assumed)
            };
            sides.iter().map(of_side).collect()
        }
        true => from_dumps(sides, objects),
    };
    let first = match of(objects) {
        Ok(assumed) => return Ok(assumed),
        Err(errors) => errors,
    };
    let (readable, left_out) = without_invalid(objects);
    if !left_out.is_empty() {
        if !has_rules && readable.services.is_empty() {
            let mut first = first;
            first
                .errors
                .iter_mut()
                .take(1)
                .for_each(|error| error.message = format!("service {}: {}", left_out[0].0, left_out[0].1));
            return Err(first);
        }
        let mut all = around(sides, &readable)?;
        let words = left_out.iter().map(|(name, why)| format!("service {name} of the objects left out: {why}"));
        let words: Vec<Assumption> = words.map(Assumption::Assumed).collect();
        all.iter_mut().for_each(|assumed| _ = assumed.assumptions.splice(0..0, words.clone()));
        return Ok(all);
    }
    let pods = Objects { pods: Vec::new(), ..objects.clone() };
    let machines = Objects { nodes: Vec::new(), ..pods.clone() };
    let why = first.errors.first().map(|error| error.message.clone()).unwrap_or_default();
    let has_more = !objects.nodes.is_empty();
    let (releases, configurations) = (objects.releases.clone(), objects.configurations.clone());
    let none = Objects { releases, configurations, ..Objects::default() };
    let fewer = [(pods, "pods"), (machines, "nodes and pods"), (none, "Kubernetes objects")];
    for (fewer, what) in fewer {
        let is_same = what == "pods" && objects.pods.is_empty() || what == "nodes and pods" && !has_more;
        if is_same || !has_rules && fewer.services.is_empty() {
            continue;
        }
        if let Ok(mut assumed) = of(&fewer) {
            let words = format!("{what} omitted, because a lab cannot contain all of them: {why}");
            assumed.iter_mut().for_each(|assumed| assumed.assumptions.insert(0, words.clone().into()));
            return Ok(assumed);
        }
    }
    Err(first)
}

/// Objects without the Services that the API rejects by themselves, with their endpoints; and the names of these, and why.
fn without_invalid(objects: &Objects) -> (Objects, Vec<(String, String)>) {
    let why = |service: &Value| {
        let mut one = Objects { services: vec![service.clone()], ..Objects::default() };
        one.repair();
        let read = cluster(&one.list().to_string(), Path::new("service"), ProxyConfig::default());
        read.err()?.errors.first().map(|error| error.message.clone())
    };
    let invalid = objects.services.iter().filter_map(|service| Some((name(service), why(service)?)));
    let invalid: Vec<(String, String)> = invalid.collect();
    let is_valid = |own: &str| !invalid.iter().any(|(name, _)| name == own);
    let mut valid = objects.clone();
    valid.services.retain(|service| is_valid(&name(service)));
    valid.endpoints.retain(|one| is_valid(&service_of(one)));
    (valid, invalid)
}

/// What objects do not say of a cluster, in words.
fn defaults(cluster: &Cluster, objects: &Objects) -> impl Iterator<Item = String> {
    let has_address = |node: &Node| objects.node(&node.name).is_some_and(|known| !node_ips(known).is_empty());
    let lacking = cluster.nodes.iter().filter(|node| !has_address(node));
    let addresses = lacking.map(|node| format!("{} {}", node.name, list(&node.internal_ips, usize::MAX)));
    let addresses: Vec<String> = addresses.collect();
    let addresses = (!addresses.is_empty()).then(|| format!("addresses of nodes: {}", list(addresses, MAX_NODES)));
    let whose = if objects.releases.is_empty() { "" } else { ", which the text names," };
    let ProxyConfig { version, mode, cluster_cidrs, .. } = &cluster.proxy;
    let ranges = [("clusterCIDR", cluster_cidrs), ("the range of cluster IPs", &cluster.service_cidrs)];
    let ranges = ranges.into_iter().filter(|(_, ranges)| !ranges.is_empty());
    let ranges: String = ranges.map(|(name, ranges)| format!(", {name} {}", list(ranges, usize::MAX))).collect();
    addresses.into_iter().chain([format!("kube-proxy {version}{whose} in {mode} mode{ranges}")])
}

/// The most nodes whose addresses are listed.
const MAX_NODES: usize = 5;

/// What is said of rules without a Service where objects alone show some.
fn without_services(set: &NodeRules) -> String {
    let place = set.place();
    match set.other_mode() {
        Some(mode) => format!(
            "the rules from {place} are those of kube-proxy's {mode} mode, which is not supported: their effect is unknown"
        ),
        None => format!("the rules from {place} show no Service, and are not used: their effect is unknown"),
    }
}

/// The error of a text that shows no Service.
fn nothing(evidence: &Evidence, path: &Path) -> Diagnostics {
    let sets = node_rules(evidence);
    let place = |line: usize, file: Option<&str>| {
        let file = file.map_or_else(|| path.to_owned(), |file| path.join(file));
        Span { file, line, column: 1 }
    };
    let mut errors = Vec::new();
    match sets.first() {
        Some(set) if sets.iter().any(|set| set.other_mode().is_some()) => {
            let mode = sets.iter().find_map(NodeRules::other_mode).unwrap_or_default();
            let help = "svclab emulates the modes iptables and nftables: pass the rules of a node in one of these, or Kubernetes objects.";
            let message = format!("the rules are those of kube-proxy's {mode} mode, which is not supported");
            errors.push(Diagnostic::new(place(set.first, set.file.as_deref()), message, help));
            return Diagnostics { errors, sources: BTreeMap::new() };
        }
        Some(set) => {
            let help = "Save the rules as root, on a node on which kube-proxy runs in this mode: rules for Services are in table \
                `nat`, in KUBE-SERVICES and KUBE-SVC-..., or in nft's table `kube-proxy`.";
            let message = format!("no rules for a Service found in {}", set.format.words());
            errors.push(Diagnostic::new(place(set.first, set.file.as_deref()), message, help));
        }
        None if evidence.pieces.is_empty() => {
            let help =
                "Pass the output of iptables-save, iptables -L, nft list ruleset or kubectl, or a text that quotes it.";
            let message = "the text shows neither rules nor Kubernetes objects";
            errors.push(Diagnostic::new(Span::start_of(path), message, help));
        }
        None if evidence.iptables_nft_piece().is_some() => {
            let piece = evidence.iptables_nft_piece().unwrap_or(&evidence.pieces[0]);
            let [message, help] = OF_IPTABLES_NFT;
            errors.push(Diagnostic::new(place(piece.first, piece.file.as_deref()), message, help));
            return Diagnostics { errors, sources: BTreeMap::new() };
        }
        None => {
            let piece = &evidence.pieces[0];
            let message = format!("no Service found, only {}", evidence.formats());
            let help = "Add the output of `iptables-save` or `nft list ruleset`, or of `kubectl get services,endpoints -A -o yaml`.";
            errors.push(Diagnostic::new(place(piece.first, piece.file.as_deref()), message, help));
        }
    }
    errors.extend(evidence.unread.iter().take(MAX_UNREAD).map(|unread| {
        let help = "Paste it as the program printed it; `svclab dump show` lists what was read.";
        Diagnostic::new(place(unread.line, unread.file.as_deref()), unread.reason.clone(), help)
    }));
    Diagnostics { errors, sources: BTreeMap::new() }
}

/// The most unread lines that are errors.
const MAX_UNREAD: usize = 5;

/// The kernel settings that decide on Service traffic, with the largest value that they have.
const SETTINGS: [(&str, u32); 9] = [
    ("net.ipv4.ip_forward", 1),
    ("net.ipv6.conf.all.forwarding", 1),
    ("net.ipv4.conf.all.rp_filter", 2),
    ("net.ipv4.conf.default.rp_filter", 2),
    ("net.ipv4.conf.all.route_localnet", 1),
    ("net.netfilter.nf_conntrack_tcp_be_liberal", 1),
    ("net.netfilter.nf_conntrack_tcp_loose", 1),
    ("net.netfilter.nf_conntrack_udp_timeout", 86400),
    ("net.netfilter.nf_conntrack_udp_timeout_stream", 86400),
];

/// Imports kernel settings for the node whose file, or only rules, they come with.
fn settings(evidence: &Evidence, dumps: &[Dump], assumed: &mut Assumed) -> Option<String> {
    let mut left_out = Vec::new();
    let owners = Owners::of(evidence, dumps);
    for piece in &evidence.pieces {
        let all = piece.contents.settings();
        if all.is_empty() {
            continue;
        }
        let of_host = || piece.host.clone().filter(|host| assumed.scenario.cluster.node(host).is_some());
        let node = owners.first(piece).map(|at| dumps[at].node.clone()).or_else(of_host);
        let node = node.or_else(|| Some(assumed.scenario.cluster.nodes.first()?.name.clone()));
        let Some(node) = node.filter(|node| assumed.scenario.cluster.node(node).is_some()) else { continue };
        for evidence::Setting { line, name, value } in all {
            let span = Span { file: assumed.scenario.file.clone(), line: *line, column: 1 };
            let known = SETTINGS.iter().find(|(known, _)| known == name);
            match known.filter(|(_, most)| value.parse::<u32>().is_ok_and(|value| value <= *most)) {
                Some(_) => {
                    let own = assumed.scenario.sysctls.entry(node.clone()).or_default();
                    own.insert(name.clone(), Setting { value: value.clone(), span });
                }
                None if import_bridge_call(name, value, &mut assumed.scenario.cni.kind) => {}
                None => left_out.push(format!("{} = {}", one_line(name), one_line(value))),
            }
        }
    }
    words_of_settings(&left_out)
}

/// Imports whether iptables sees bridged packets. Returns whether there is a bridge, or none is needed for this value.
fn import_bridge_call(name: &str, value: &str, cni: &mut CniKind) -> bool {
    match (value, cni) {
        // A scenario has one setting for both families.
        (value, CniKind::Bridge { nf_call_iptables, .. }) if name == "net.bridge.bridge-nf-call-ip6tables" => {
            value == if *nf_call_iptables { "1" } else { "0" }
        }
        _ if !matches!(name, "net.bridge.bridge-nf-call-iptables" | "net.bridge.bridge-nf-call-ip6tables") => false,
        ("0" | "1", CniKind::Bridge { nf_call_iptables, .. }) => {
            *nf_call_iptables = value == "1";
            true
        }
        (value, _) => value == "1",
    }
}

/// Last parts of names of settings that decide what happens to packets.
const WITH_EFFECT: [&str; 7] =
    ["rp_filter", "forwarding", "route_localnet", "accept_local", "arp_ignore", "ip_nonlocal_bind", "src_valid_mark"];

/// Last parts of names of settings that do so with another value than this one.
const UNUSUAL: [(&str, &str); 3] = [("disable_ipv6", "0"), ("ip_default_ttl", "64"), ("hop_limit", "64")];

/// The most settings that are listed.
const SHOWN: usize = 5;

/// Describes the settings that were not imported; names those that may affect packets.
fn words_of_settings(left_out: &[String]) -> Option<String> {
    let matters = |setting: &&String| {
        let (name, value) = setting.split_once(" = ").unwrap_or((setting, ""));
        let last = name.rsplit(['.', '/']).next().unwrap_or_default();
        let is_unusual = UNUSUAL.iter().any(|(unusual, usual)| *unusual == last && *usual != value);
        is_unusual || WITH_EFFECT.contains(&last) || last.starts_with("bridge-nf-call-")
    };
    let listed: Vec<&str> = left_out.iter().filter(matters).map(String::as_str).collect();
    let named = (!listed.is_empty())
        .then(|| format!("kernel settings not imported, though they may affect packets: {}", list(&listed, SHOWN)));
    let others = left_out.len() - listed.len();
    let others = (others > 0)
        .then(|| format!("{} not imported, without effect on Service traffic", counted(others, "kernel setting")));
    let all: Vec<String> = named.into_iter().chain(others).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// The objects, releases and configurations that evidence shows.
fn objects_of(evidence: &Evidence) -> Objects {
    Objects { releases: releases(evidence), configurations: configurations(evidence), ..Objects::of(objects(evidence)) }
}
