//! Pieces with rules → dumps of nodes: which piece is whose.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;
use svclab_rules::cluster::{ObjectName, ProxyMode};
use svclab_rules::infer::{Infer, Inferred};

use super::accessors::{ips, is_control_plane, node_ips, node_ranges, own_name};
use super::machines::{groups, is_of_same_machine, is_part, split_by_backend, words_of_other_time, words_of_repeats};
use super::merge::Objects;
use super::named_endpoints::with_their_pods;
use super::names::{Renamed, adopt_names, endpoint_chains, valid};
use super::node_file::{NodeFile, sanitized};
use super::node_port_addresses::find_unassigned;
use super::rules::{Dump, HERE};
use super::service_ports::{self, ServicePort};
use super::unshown::{self, Unshown};
use super::{Assumption, hairpins};
use crate::evidence::{
    Contents, Evidence, MachinePieces, MachineRules, NodeRules, find_host, has_word, host_of, machine_name,
    machine_of_bundle, machine_rules, words_of_other,
};
use crate::text::{list, one_line};

/// The dumps in evidence, each with its node: the one that is given for its file, that its file or folder is named after, that has the
/// addresses that the rules treat as their own; or else one is assumed, and said.
/// Rules that belong to no dump, but to the machine of one, are left out, and said.
pub(super) fn dumps(
    evidence: &Evidence,
    given: &[NodeFile],
    objects: &Objects,
    (notes, left_out): (&mut Vec<Assumption>, &mut Vec<String>),
) -> Vec<Dump> {
    let counts_empty = !objects.services.is_empty();
    let mut dumps: Vec<Dump> = Vec::new();
    let mut places: Vec<String> = Vec::new();
    let node = |file: &str| given.iter().find(|one| one.has(file)).map(|one| one.node.as_str());
    let MachineRules { sets, of_other_times } = machine_rules(evidence, node);
    let (mut sets, others) = split_by_backend(sets);
    notes.extend(sets.iter().flat_map(words_of_repeats));
    let alternatives = sets.iter().flat_map(|set| &set.alternatives);
    notes.extend(alternatives.map(|left_out| Assumption::Assumed(format!("left out: {}", left_out.words()))));
    left_out.extend(of_other_times.iter().map(words_of_other_time));
    notes.extend(evidence.pieces.iter().filter_map(|piece| {
        let original = evidence.original(piece)?.file.as_deref()?;
        let file = piece.file.as_deref()?;
        let words = format!("the rules in {} are those of {} as nft prints them", one_line(file), one_line(original));
        Some(Assumption::Assumed(words))
    }));
    let unshown: Vec<Unshown> = sets.iter_mut().flat_map(unshown::add).collect();
    notes.extend(unshown::words(&unshown).map(Assumption::Assumed));
    let mut all = sets.clone();
    for group in groups(sets, given) {
        let Some(mut dump) = Dump::of(group.node.clone().unwrap_or_default(), group.sets, counts_empty) else {
            continue;
        };
        let prompted = dump.parts.iter().find_map(|part| part.host.clone());
        dump.host = prompted.or_else(|| host_of(evidence, &dump.parts).map(str::to_owned));
        let same = dumps.iter_mut().zip(&mut places).find_map(|(known, place)| {
            let of_node = words_of_same_node(known, &dump).map(|why| (why, "the same node at another time"));
            let (why, whose) = of_node.or_else(|| words_of_other_cluster(known, &dump))?;
            Some((known, place, why, whose))
        });
        match same {
            Some((known, place, why, whose)) => {
                if is_before_services(evidence, known, &dump) {
                    std::mem::swap(known, &mut dump);
                    place.clone_from(&group.place);
                }
                // Said here.
                all.retain(|set| !dump.parts.iter().any(|part| is_same(part, set)));
                left_out.push(format!(
                    "the rules from {} {why} those from {}, so they are of {whose}; `--node NAME=FILE` separates nodes",
                    dump.parts[0].place(),
                    known.parts[0].place()
                ));
            }
            None => {
                dumps.push(dump);
                places.push(group.place);
            }
        }
    }
    let (unused, words) = unused_rules(&all, &dumps);
    left_out.extend(words);
    add_alongside(&mut dumps, unused);
    left_out.extend(others.iter().filter(|set| set.rules.has_effect()).map(|set| {
        format!(
            "the rules from {} are in the kernel as well, for it runs both backends: their effect is unknown",
            set.place()
        )
    }));
    let renamed = adopt_objects(&mut dumps, objects, &unshown);
    notes.extend(renamed.into_iter().map(Assumption::Assumed));
    let sources = dumps.iter().flat_map(|dump| dump.inferred.proxy.local_sources.clone()).collect();
    let with_pods = with_their_pods(objects, &sources);
    notes.extend(name_nodes(&mut dumps, &places, evidence, with_pods.as_ref().unwrap_or(objects)));
    dumps
}

/// Gives service ports of dumps what objects say of them: cluster IPs, names, endpoints. Returns what was adopted, in words.
fn adopt_objects(dumps: &mut [Dump], objects: &Objects, unshown: &[Unshown]) -> BTreeSet<String> {
    let (services, service_ports) = (objects.services(), ServicePort::all(&objects.services));
    let mut renamed = BTreeSet::new();
    let pods: BTreeSet<IpAddr> = objects.pods.iter().flat_map(ips).collect();
    for dump in dumps {
        dump.keep_cut_services();
        service_ports::adopt_cluster_ips(&mut dump.inferred, &services);
        let (words, changed) = adopt_names(&mut dump.inferred, &dump.parts, &services, &service_ports);
        service_ports::complete(&mut dump.inferred, &service_ports);
        renamed.extend(words);
        renamed.extend(meant(&mut dump.inferred, &pods));
        renamed.extend(hairpins::assign(&mut dump.inferred, objects));
        // The first name counts: that of an endpoint whose address is made up is in the rules.
        dump.renamed = unshown.iter().filter_map(|one| Renamed::for_endpoint(&dump.inferred, one)).collect();
        dump.renamed.extend(changed);
        dump.parts.iter_mut().for_each(|part| unshown::remove(unshown, part));
        dump.renamed.extend(endpoint_chains(&dump.inferred, &dump.parts));
    }
    renamed
}

/// The rules of iptables that belong to no dump, and what is left out, in words: other rule sets of a dump's machine, whose effect is
/// unknown.
fn unused_rules(all: &[NodeRules], dumps: &[Dump]) -> (Vec<NodeRules>, Vec<String>) {
    let is_used = |set: &NodeRules| dumps.iter().flat_map(|dump| &dump.parts).any(|part| is_same(part, set));
    let unused: Vec<&NodeRules> = all.iter().filter(|set| !is_used(set)).collect();
    let competes = |set: &&NodeRules| {
        set.rules.has_effect()
            && all.iter().any(|other| is_used(other) && other.is_of_kind(set) && is_rival(other, set))
    };
    let mut left_out: Vec<String> = unused.iter().copied().filter(competes).map(words_of_other).collect();
    let is_of_other_mode = |set: &&NodeRules| {
        let is_beside = |other: &NodeRules| is_of_same_machine(other, set) && other.rules.mode() != set.rules.mode();
        set.rules.nftables().is_some() && all.iter().any(|other| is_used(other) && is_beside(other))
    };
    let of_other_mode =
        unused.iter().copied().filter(is_of_other_mode).filter(|set| !set.rules.infer().ports.is_empty());
    left_out.extend(of_other_mode.map(|set| {
        format!(
            "the rules from {} are those of kube-proxy's other mode, in the same kernel: their effect is unknown",
            set.place()
        )
    }));
    let of_iptables = unused.into_iter().filter(|set| set.rules.iptables().is_some());
    (of_iptables.cloned().collect(), left_out)
}

/// Whether rules compete with others of their kind: those of the same text, and those of the same folder, unless the others have all of their rules.
fn is_rival(known: &NodeRules, set: &NodeRules) -> bool {
    known.file == set.file || is_of_same_machine(known, set) && set.rules.iptables().is_some() && !is_part(known, set)
}

/// Whether two are the rules of one place.
fn is_same(one: &NodeRules, other: &NodeRules) -> bool {
    one.file == other.file && one.first == other.first && one.is_of_kind(other)
}

/// What two dumps of one node have in common, in words: an address, or the prompt of a text.
fn words_of_same_node(one: &Dump, other: &Dump) -> Option<String> {
    let address = shared_address(one, other).map(|address| format!("serve node ports on {address} like"));
    let prompt = |dump: &Dump| dump.parts.iter().find_map(|part| Some((part.file.clone(), part.host.clone()?)));
    let is_same = one.node.is_empty() && other.node.is_empty() && one.mode() == other.mode();
    let host = || prompt(one).filter(|own| is_same && Some(own) == prompt(other).as_ref()).map(|(_, host)| host);
    let again = || other.parts.iter().filter(|part| part.file == one.parts[0].file).find_map(|part| part.again);
    address.or_else(|| Some(format!("are of the machine {} like", host()?))).or_else(|| again().map(str::to_owned))
}

/// Why two dumps of a text are of two clusters, in words, and whose they are: their ranges of pods differ, and the list of all Services in one of them
/// has none of the other's.
fn words_of_other_cluster(one: &Dump, other: &Dump) -> Option<(String, &'static str)> {
    let are_of_text = one.parts[0].file().is_none() && one.node.is_empty() && other.node.is_empty();
    let [own, others] = [one, other].map(|dump| &dump.inferred.proxy.local_sources);
    let have_other_ranges = !own.is_empty() && !others.is_empty() && own.is_disjoint(others);
    let is_known = |service: &ObjectName| other.inferred.ports.iter().any(|port| port.service == *service);
    let have_other_services = !one.inferred.ports.iter().any(|port| is_known(&port.service));
    let are_two = have_other_ranges && have_other_services && (one.lists_services() || other.lists_services());
    let words = || "have other Services and another range of pods than".to_owned();
    (are_of_text && are_two).then(|| (words(), "another cluster"))
}

/// Whether rules were saved before Services were created that later rules of the same node have: the text shows their objects only after these
/// rules.
fn is_before_services(evidence: &Evidence, dump: &Dump, later: &Dump) -> bool {
    let has = |dump: &Dump, service: &ObjectName| dump.inferred.ports.iter().any(|port| port.service == *service);
    let services =
        |dump: &'_ Dump| dump.inferred.ports.iter().map(|port| port.service.clone()).collect::<BTreeSet<_>>();
    let (part, new) = (&dump.parts[0], services(later));
    let first_shown = |service: &ObjectName| {
        let shows = |object: &Value| object["kind"] == "Service" && own_name(object) == service.name;
        let piece = evidence.pieces.iter().find(|piece| match &piece.contents {
            Contents::Objects(objects) => objects.iter().any(shows),
            _ => false,
        })?;
        Some((piece.file.clone(), piece.first))
    };
    let mut created = new.iter().filter(|service| !has(dump, service)).filter_map(first_shown).peekable();
    part.file == later.parts[0].file
        && services(dump).iter().all(|service| has(later, service))
        && created.peek().is_some()
        && created.all(|(file, line)| file == part.file && line > part.first)
}

/// The address of two dumps of one node: they serve node ports on the same addresses, and nothing names two nodes. Some addresses, such as
/// that of Docker's bridge, are on every node.
fn shared_address(one: &Dump, other: &Dump) -> Option<IpAddr> {
    let own = |dump: &Dump| -> BTreeSet<IpAddr> {
        let all = dump.inferred.proxy.node_port_addresses.iter();
        all.copied().filter(|ip| !ip.is_loopback()).collect()
    };
    let are_given = !one.node.is_empty() && !other.node.is_empty();
    let are_two =
        |names: (Option<String>, Option<String>)| names.0.zip(names.1).is_some_and(|(one, other)| one != other);
    let are_of_two =
        are_given || are_two((one.host.clone(), other.host.clone())) || are_two((heading(one), heading(other)));
    own(one).into_iter().next().filter(|_| !are_of_two && own(one) == own(other))
}

/// The machine that the heading before a dump's rules names.
fn heading(dump: &Dump) -> Option<String> {
    dump.parts.iter().find_map(|part| part.heading.clone())
}

/// Adds other programs' rules of iptables to the dump of the same machine whose kube-proxy writes nftables.
fn add_alongside(dumps: &mut [Dump], others: Vec<NodeRules>) {
    for other in others.into_iter().filter(|other| other.rules.has_effect()) {
        let is_of_machine = |part: &NodeRules| {
            let is_of_host = part.may_be_of_host(other.host.as_ref());
            part.file == other.file && is_of_host && part.rules.mode() == ProxyMode::Nftables
        };
        if let Some(dump) = dumps.iter_mut().find(|dump| dump.parts.iter().any(is_of_machine)) {
            dump.others.push(other);
        }
    }
}

/// Names the nodes of dumps that have none yet, and says of each dump which rules are those of its node.
fn name_nodes(dumps: &mut [Dump], places: &[String], evidence: &Evidence, objects: &Objects) -> Vec<Assumption> {
    let mut notes = Vec::new();
    let known: Vec<String> = node_names(objects);
    let is_alone = dumps.len() == 1;
    let pieces = MachinePieces::of(evidence);
    for at in 0..dumps.len() {
        dumps[at].addresses = pieces.addresses(&dumps[at].parts, is_alone);
        notes.extend(serve_on_own(&mut dumps[at]));
        if dumps[at].node.is_empty() {
            let taken: BTreeSet<&str> = dumps.iter().map(|dump| dump.node.as_str()).collect();
            let free: Vec<&String> = known.iter().filter(|name| !taken.contains(name.as_str())).collect();
            let (node, is_sure) = named(&dumps[at], &places[at], &free, objects, is_alone, &taken);
            if !is_sure {
                let place = if places[at].is_empty() {
                    "the rules".to_owned()
                } else {
                    format!("the rules in {}", one_line(&places[at]))
                };
                let words =
                    format!("{place} are those of node {node}; `svclab dump import --node NAME=FILE` names another");
                notes.push(words.into());
            }
            dumps[at].node = node;
        }
        let parts: Vec<String> = dumps[at].parts.iter().map(NodeRules::place).collect();
        notes.push(format!("the rules of node {} are those from {}", dumps[at].node, parts.join("; ")).into());
    }
    notes
}

/// Replaces each node port address that the node does not have, according to the text, by the node's first address that is not that of a
/// pod bridge, so that `verify` reports the rules. Returns what was changed.
fn serve_on_own(dump: &mut Dump) -> Option<Assumption> {
    let unassigned = find_unassigned(&dump.inferred, &dump.addresses)?;
    let served = std::mem::take(&mut dump.inferred.proxy.node_port_addresses).into_iter().map(|ip| {
        let substitute = unassigned.substitute(ip).filter(|_| unassigned.addresses.contains(&ip));
        substitute.unwrap_or(ip)
    });
    dump.inferred.proxy.node_port_addresses = served.collect();
    let [others, own] = [&unassigned.addresses, &unassigned.own].map(|all| list(all, usize::MAX));
    Some(Assumption::Contradiction(format!(
        "node ports are served on {others} in the rules, and the node has {own}; using the latter"
    )))
}

/// Takes an endpoint's other address where that is a pod's and the one that its chain translates to is not. Returns what was changed.
fn meant(inferred: &mut Inferred, pods: &BTreeSet<IpAddr>) -> Vec<String> {
    let mut notes = Vec::new();
    for port in &mut inferred.ports {
        for (to, other) in std::mem::take(&mut port.also) {
            if pods.contains(&to.ip()) || !pods.contains(&other.ip()) || port.endpoints.contains(&other) {
                continue;
            }
            for all in [&mut port.endpoints, &mut port.local] {
                if all.remove(&to) {
                    all.insert(other);
                }
            }
            notes.push(format!(
                "endpoint {other} of {}: the rules translate to {to}, which is not a pod's address",
                port.full_name()
            ));
        }
    }
    notes
}

/// The name of a dump's node, and whether it is sure.
fn named(
    dump: &Dump,
    place: &str,
    known: &[&String],
    objects: &Objects,
    is_alone: bool,
    taken: &BTreeSet<&str>,
) -> (String, bool) {
    if let Some(name) = known_name(dump, place, known, objects) {
        return (name.clone(), true);
    }
    let is_free = |name: &String| !name.is_empty() && !taken.contains(name.as_str());
    let of_host = dump.host.as_deref().map(valid).filter(is_free);
    // A list of pods need not have one of the machine that a prompt names.
    if let Some(host) = of_host.clone().filter(|_| objects.nodes.is_empty()) {
        return (host, true);
    }
    // Pods run on workers.
    let is_worker = |name: &&&String| !objects.node(name).is_some_and(is_control_plane);
    if let Some(first) = known.iter().find(is_worker).or(known.first()) {
        return ((*first).clone(), false);
    }
    let of_heading = || heading(dump).filter(|_| !is_alone).filter(is_free).map(|heading| valid(&heading));
    let named = of_host.or_else(|| name_of_place(dump, place).filter(is_free)).or_else(of_heading);
    if let Some(name) = named {
        return (name, true);
    }
    let mut numbered = (1..).map(|number| format!("node-{number}"));
    // `node1` and `node-1` are hard to distinguish.
    let is_apart = |name: &String| !taken.iter().any(|other| other.replace('-', "") == name.replace('-', ""));
    (numbered.find(is_apart).unwrap_or_else(|| HERE.to_owned()), is_alone)
}

/// The node among those that are known that is surely a dump's: by its file, host, addresses or heading, or because there is no other.
fn known_name<'k>(dump: &Dump, place: &str, known: &[&'k String], objects: &Objects) -> Option<&'k String> {
    let in_place = known.iter().filter(|name| has_word(place, name)).max_by_key(|name| name.len());
    let names: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
    let of_host = || {
        let host = dump.host.as_deref()?;
        // A prompt in the pod of kube-proxy names the pod.
        let pod = objects.pods.iter().find(|pod| own_name(pod) == host);
        let node = pod.and_then(|pod| pod["spec"]["nodeName"].as_str()).or_else(|| find_host(&names, host))?;
        known.iter().find(|name| **name == node)
    };
    let heading = heading(dump);
    let address = heading.as_ref().and_then(|heading| heading.parse::<IpAddr>().ok());
    let is_own = |ip: &IpAddr| dump.addresses.contains(ip) || address == Some(*ip);
    let has_own = |name: &str| objects.node(name).is_some_and(|node| node_ips(node).iter().any(is_own));
    let of_address = || known.iter().find(|name| has_own(name) || has_addresses(dump, name, objects));
    let only = || known.first().filter(|_| known.len() == 1 && (dump.host.is_none() || !objects.nodes.is_empty()));
    let of_heading = || {
        let heading = heading.as_ref()?;
        known.iter().find(|name| has_word(heading, name)).or_else(|| only_of_role(heading, known, objects))
    };
    in_place.or_else(of_host).or_else(of_address).or_else(only).or_else(of_heading).copied()
}

/// The only node that has the role that a heading names.
fn only_of_role<'n, 'k>(heading: &str, known: &'n [&'k String], objects: &Objects) -> Option<&'n &'k String> {
    let is_of_role = |name: &&&String| {
        let is_control_plane = objects.node(name).is_some_and(is_control_plane);
        match heading {
            "control-plane" | "controlplane" | "master" => is_control_plane,
            "worker" => !is_control_plane,
            _ => false,
        }
    };
    let mut of_role = known.iter().filter(is_of_role);
    of_role.next().filter(|_| of_role.next().is_none())
}

/// The node that the names of a dump's file and its folders say, the innermost first.
fn name_of_place(dump: &Dump, place: &str) -> Option<String> {
    let of_folder = |part: &str| sanitized(machine_of_bundle(part).unwrap_or(part));
    let is_file = dump.parts.iter().any(|part| part.file() == Some(place));
    let (folder, file) = match place.rsplit_once('/') {
        _ if !is_file => (place, None),
        Some((folder, _)) => (folder, Some(place)),
        None => ("", Some(place)),
    };
    let mut parts = file.map(name_of_file).into_iter().chain(folder.rsplit('/').map(of_folder));
    parts.find(|part| !part.is_empty())
}

/// The node that a file's name says: without words for tables and commands, if it has some.
fn name_of_file(file: &str) -> String {
    let (whole, named) = (sanitized(file.rsplit('/').next().unwrap_or_default()), machine_name(file));
    if whole.replace(['.', '_'], "-") == named { whole } else { valid(&named) }
}

/// Whether a node has addresses that rules treat as those of their own node.
fn has_addresses(dump: &Dump, name: &str, objects: &Objects) -> bool {
    let proxy = &dump.inferred.proxy;
    let local = dump.inferred.ports.iter().flat_map(|port| &port.local).map(std::net::SocketAddr::ip);
    let here: BTreeSet<IpAddr> = local.chain(proxy.here.iter().copied()).collect();
    let node = objects.nodes.iter().find(|node| node["metadata"]["name"] == name);
    let own = node.map(node_ips).unwrap_or_default();
    let ranges = node.map(node_ranges).unwrap_or_default();
    let mut pods = objects.pods.iter().filter(|pod| pod["spec"]["nodeName"] == name).flat_map(|pod: &Value| ips(pod));
    own.iter().any(|ip| proxy.node_port_addresses.contains(ip) || here.contains(ip))
        || ranges.iter().any(|range| here.iter().any(|ip| range.contains(ip)) || proxy.local_sources.contains(range))
        || pods.any(|ip| here.contains(&ip))
}

/// The names of nodes, with and without an object.
fn node_names(objects: &Objects) -> Vec<String> {
    let nodes = objects.nodes.iter().filter_map(|node| node["metadata"]["name"].as_str());
    let mut known = BTreeSet::new();
    nodes.chain(objects.named_nodes()).filter(|name| known.insert(*name)).map(str::to_owned).collect()
}
