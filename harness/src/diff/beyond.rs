//! Differences that no first packet shows: what becomes of invalid packets, and what a firewall of the node would drop.

use std::collections::{BTreeMap, BTreeSet};

use svclab_rules::cluster::{Family, Protocol};
use svclab_rules::iptables::{self, Policy, TableName};
use svclab_rules::ruleset::{Rules, compile};
use svclab_rules::walk::{Arrival, Classes, Hook, HookVerdict, Narrowed, Packet, Region, Tracking, Transport};

use super::DiffError;
use super::fate::{Contrast, Fate};
use super::known::{FIREWALL, INVALID};
use super::merge::{Change, OutcomeChange};
use super::notes::Note;
use super::side::Side;
use super::target::Target;
use crate::predict::Network;
use crate::text::counted;

/// What becomes of packets on both sides, with the nodes and the number of classes.
type Found = BTreeMap<[Fate; 2], (BTreeSet<String>, usize)>;

/// Changes of packets in the state INVALID that are forwarded, and whether there are more classes than are compared at most.
pub(super) fn invalid_packets(
    sides: [&Side<'_>; 2],
    networks: [&Network<'_>; 2],
    most: usize,
) -> Result<(Vec<Change>, bool), DiffError> {
    let asked = [Asked { hook: Hook::Forward, is_closed: false, is_marked: false }];
    let is_other_mode = sides[0].scenario.cluster.proxy.mode != sides[1].scenario.cluster.proxy.mode;
    let (found, is_cut) = on_all_nodes(&asked, sides, networks, most)?;
    let change = |([was, is], (nodes, classes)): ([Fate; 2], (BTreeSet<String>, usize))| Change {
        targets: vec![Target::Invalid],
        outcomes: vec![OutcomeChange { contrast: Contrast::between(was, is), classes }],
        services: BTreeSet::new(),
        origins: vec![("node".to_owned(), nodes.len())],
        classes,
        example: None,
        since: None,
        known: is_other_mode.then_some(INVALID),
        accepted: None,
        live: None,
    };
    Ok((found.into_iter().map(change).collect(), is_cut))
}

/// What a firewall would do that drops by default, on nodes that have none.
pub(super) fn firewall(
    sides: [&Side<'_>; 2],
    networks: [&Network<'_>; 2],
    most: usize,
) -> Result<Option<Note>, DiffError> {
    let closed = |hook: Hook, is_marked: bool| Asked { hook, is_closed: true, is_marked };
    let asked = [closed(Hook::Input, false), closed(Hook::Forward, false), closed(Hook::Forward, true)];
    let (found, is_cut) = on_all_nodes(&asked, sides, networks, most)?;
    if found.is_empty() {
        return Ok(None);
    }
    let details = found.into_iter().map(|([was, is], (nodes, number))| {
        format!("{} on {}: was {was}, is {is}", counted(number, "class"), counted(nodes.len(), "node"))
    });
    let is_other_mode = sides[0].scenario.cluster.proxy.mode != sides[1].scenario.cluster.proxy.mode;
    let what = "a firewall of a node that drops by default, should there be one, gets other packets".to_owned();
    let rest = is_cut.then(|| "not all classes were compared".to_owned());
    let details = details.chain(rest).collect();
    Ok(Some(Note { code: "firewall", what, details, known: is_other_mode.then_some(FIREWALL) }))
}

/// The answers that differ, and whether there are more classes than are compared at most.
fn on_all_nodes(
    asked: &[Asked],
    sides: [&Side<'_>; 2],
    networks: [&Network<'_>; 2],
    most: usize,
) -> Result<(Found, bool), DiffError> {
    let mut found = Found::new();
    let mut room = most;
    for node in &sides[0].scenario.cluster.nodes {
        for family in Family::ALL {
            for asked in asked {
                for (fates, classes) in differences(&node.name, family, *asked, sides, networks, &mut room)? {
                    let entry = found.entry(fates).or_default();
                    entry.0.insert(node.name.clone());
                    entry.1 += classes;
                }
            }
        }
    }
    Ok((found, room == 0))
}

/// Packets that a node is asked about.
#[derive(Clone, Copy)]
struct Asked {
    hook: Hook,
    /// Whether the node's own firewall drops by default; else they are invalid.
    is_closed: bool,
    /// Whether they are marked to be masqueraded.
    is_marked: bool,
}

/// How a node's answers at a hook differ, with the number of classes.
fn differences(
    node: &str,
    family: Family,
    Asked { hook, is_closed: closed, is_marked }: Asked,
    sides: [&Side<'_>; 2],
    networks: [&Network<'_>; 2],
    room: &mut usize,
) -> Result<BTreeMap<[Fate; 2], usize>, DiffError> {
    let netns = format!("node/{node}");
    let rules = sides.map(|side| -> Vec<_> {
        let own = side.documents.iter().filter(|one| one.netns == netns && one.is_met_by(family));
        own.map(|document| &document.rules).collect()
    });
    if rules[0] == rules[1] {
        return Ok(BTreeMap::new());
    }
    let mut programs = Vec::new();
    for (side, network) in sides.into_iter().zip(networks) {
        let own = side.documents.iter().filter(|one| one.netns == netns && one.is_met_by(family));
        let rules: Vec<Rules> = own.map(|document| prepared(&document.rules, closed)).collect();
        let has_firewall = rules.iter().any(|rules| rules.iptables().is_some());
        let refs: Vec<&Rules> = rules.iter().collect();
        let Some(id) = network.topology().find(&netns) else { return Ok(BTreeMap::new()) };
        let program = compile(&refs, family).map_err(|errors| errors.into_iter().next().map(DiffError::from));
        match program {
            Ok(program) => programs.push((program, network.environment(id), has_firewall, side.mark())),
            Err(Some(error)) => return Err(error),
            Err(None) => return Ok(BTreeMap::new()),
        }
    }
    let [before, after] = programs.as_slice() else { return Ok(BTreeMap::new()) };
    let none = match family {
        Family::Ipv4 => std::net::Ipv4Addr::UNSPECIFIED.into(),
        Family::Ipv6 => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let like = Packet::new(none, none, Transport::opening(Protocol::Tcp, 33_000, 80));
    let mut classes = Classes::of([Region::all(family)], like);
    let mut found = BTreeMap::new();
    while let Some(class) = classes.next_by(|witness, narrowing| {
        [before, after].map(|(program, environment, has_firewall, mark)| {
            let packet = Packet { mark: if is_marked { *mark } else { 0 }, ..*witness };
            let tracking = if closed { Tracking::first(&packet) } else { Tracking::Invalid };
            let arrival = Arrival { environment, hook, packet: &packet, tracking };
            let branches = program.walk_with(arrival, Narrowed::by(Some(narrowing)));
            let passes = branches.iter().any(|branch| branch.outcome == HookVerdict::Accept);
            match (closed, passes) {
                // Without rules of iptables to accept it, what the firewall drops stays dropped.
                (true, passes) => {
                    if passes && *has_firewall {
                        Fate::PassedOn
                    } else {
                        Fate::DroppedByFirewall
                    }
                }
                (false, true) => Fate::PassedOn,
                (false, false) => Fate::DroppedOnNode,
            }
        })
    }) {
        if class.found[0] != class.found[1] {
            *found.entry(class.found).or_default() += 1;
        }
        *room = room.saturating_sub(1);
        // What is left is at least one class each.
        if *room <= classes.left() {
            *room = 0;
            break;
        }
    }
    Ok(found)
}

/// The rules of a document; of iptables with policies that drop where the firewall is closed.
fn prepared(rules: &Rules, closed: bool) -> Rules {
    let mut rules = rules.clone();
    if let (true, Rules::Iptables(parsed)) = (closed, &mut rules) {
        for table in parsed.rules.tables.iter_mut().filter(|table| table.name == TableName::Filter) {
            close(table);
        }
    }
    rules
}

fn close(table: &mut iptables::Table) {
    let built_in = table.chains.as_mut_slice().iter_mut().filter(|chain| chain.policy.is_some());
    built_in.for_each(|chain| chain.policy = Some(Policy::Drop));
}
