//! Differences that no first packet shows: what becomes of invalid packets, and what a firewall of the node would drop.

use std::collections::{BTreeMap, BTreeSet};

use svclab_rules::cluster::{Family, Protocol, ProxyConfig};
use svclab_rules::iptables::{self, Policy, TableName};
use svclab_rules::ruleset::{Rules, compile};
use svclab_rules::walk::{Classes, Hook, Outcome, Packet, Region, Tracking, Transport};

use super::DiffError;
use super::known::known;
use super::merge::Change;
use super::side::Side;
use super::target::Target;
use crate::predict::Network;

/// What a node does with packets that are forwarded, by their connection state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Answer {
    target: Target,
    words: [&'static str; 2],
}

/// Changes on all nodes, merged.
pub(super) fn changes(sides: [&Side<'_>; 2], networks: [&Network<'_>; 2]) -> Result<Vec<Change>, DiffError> {
    let mut found: BTreeMap<Answer, (BTreeSet<String>, usize)> = BTreeMap::new();
    for node in &sides[0].scenario.cluster.nodes {
        for family in Family::ALL {
            for asked in ASKED {
                let target = if asked.is_closed { Target::Firewall } else { Target::Invalid };
                for (words, classes) in differences(&node.name, family, asked, sides, networks)? {
                    let entry = found.entry(Answer { target, words }).or_default();
                    entry.0.insert(node.name.clone());
                    entry.1 += classes;
                }
            }
        }
    }
    let proxies = sides.map(|side| &side.scenario.cluster.proxy);
    Ok(found.into_iter().map(|(answer, (nodes, classes))| change(answer, nodes.len(), classes, proxies)).collect())
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

const ASKED: [Asked; 4] = [
    Asked { hook: Hook::Forward, is_closed: false, is_marked: false },
    Asked { hook: Hook::Input, is_closed: true, is_marked: false },
    Asked { hook: Hook::Forward, is_closed: true, is_marked: false },
    Asked { hook: Hook::Forward, is_closed: true, is_marked: true },
];

fn change(
    Answer { target, words: [was, is] }: Answer,
    nodes: usize,
    classes: usize,
    proxies: [&ProxyConfig; 2],
) -> Change {
    Change {
        target,
        was: was.to_owned(),
        is: is.to_owned(),
        services: BTreeSet::new(),
        origins: vec![("node".to_owned(), nodes)],
        classes,
        example: None,
        rules: [None, None],
        since: None,
        known: known(target, [was, is], proxies),
        accepted: None,
    }
}

/// How a node's answers at a hook differ, with the number of classes.
fn differences(
    node: &str,
    family: Family,
    Asked { hook, is_closed: closed, is_marked }: Asked,
    sides: [&Side<'_>; 2],
    networks: [&Network<'_>; 2],
) -> Result<BTreeMap<[&'static str; 2], usize>, DiffError> {
    let netns = format!("node/{node}");
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
            let branches = program.walk_narrowed(environment, hook, &packet, tracking, narrowing);
            let passes = branches.iter().any(|branch| branch.outcome == Outcome::Accept);
            match (closed, passes) {
                // Without rules of iptables to accept it, what the firewall drops stays dropped.
                (true, passes) => {
                    if passes && *has_firewall {
                        "accepted"
                    } else {
                        "dropped by the firewall"
                    }
                }
                (false, true) => "passed on",
                (false, false) => "dropped",
            }
        })
    }) {
        if class.found[0] != class.found[1] {
            *found.entry(class.found).or_default() += 1;
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
