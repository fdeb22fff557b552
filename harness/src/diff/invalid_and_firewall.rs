//! Differences that no first packet shows: the outcome of invalid packets, and which packets a node's firewall would drop.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use svclab_rules::cluster::{Family, Protocol};
use svclab_rules::iptables::{self, Policy, TableName};
use svclab_rules::ruleset::{Program, Rules, compile};
use svclab_rules::walk::{
    Arrival, Classes, Environment, Hook, HookVerdict, Narrowed, Narrowing, Packet, Region, Tracking, Transport,
};

use super::DiffError;
use super::fate::{Contrast, PacketOutcome};
use super::known_differences::{FIREWALL, INVALID};
use super::merge::{Change, OutcomeChange};
use super::notes::Note;
use super::side::Side;
use super::target::Target;
use crate::predict::Network;
use crate::run::in_parallel;
use crate::scenario::VantageKind;
use crate::text::counted;
use crate::topology::NetnsId;

/// The outcome of packets on both sides, with the nodes and the number of classes.
type Found = BTreeMap<[PacketOutcome; 2], (BTreeSet<String>, usize)>;

/// Returns the changes of forwarded packets in the state INVALID, and whether there are more classes than the maximum number to compare.
pub(super) fn invalid_packets(
    sides: [&Side<'_>; 2],
    networks: [&Network<'_>; 2],
    most: usize,
) -> Result<(Vec<Change>, bool), DiffError> {
    let asked = Asked { why: Why::Invalid, places: &[(Hook::Forward, Marked::No)] };
    let is_other_mode = sides[0].scenario.cluster.proxy.mode != sides[1].scenario.cluster.proxy.mode;
    let (found, is_cut) = on_all_nodes(asked, sides, networks, most)?;
    let change = |([was, is], (nodes, classes)): ([PacketOutcome; 2], (BTreeSet<String>, usize))| Change {
        targets: vec![Target::Invalid],
        outcomes: vec![OutcomeChange { contrast: Contrast::between(was, is), classes }],
        services: BTreeSet::new(),
        origins: vec![(VantageKind::Node, nodes.len())],
        classes,
        example: None,
        since: None,
        known: is_other_mode.then_some(INVALID),
        then: Vec::new(),
        accepted: None,
        live: None,
    };
    Ok((found.into_iter().map(change).collect(), is_cut))
}

/// Compares the effect of a firewall with a default policy of drop, on nodes that have no firewall.
pub(super) fn firewall(
    sides: [&Side<'_>; 2],
    networks: [&Network<'_>; 2],
    most: usize,
) -> Result<Option<Note>, DiffError> {
    let places = &[(Hook::Input, Marked::No), (Hook::Forward, Marked::No), (Hook::Forward, Marked::Yes)];
    let asked = Asked { why: Why::Firewall, places };
    let (found, is_cut) = on_all_nodes(asked, sides, networks, most)?;
    if found.is_empty() {
        return Ok(None);
    }
    let details = found.into_iter().map(|([was, is], (nodes, number))| {
        format!("{} on {}: before {was}, after {is}", counted(number, "class"), counted(nodes.len(), "node"))
    });
    let is_other_mode = sides[0].scenario.cluster.proxy.mode != sides[1].scenario.cluster.proxy.mode;
    let what = "a default-drop firewall on a node, if any, would see different packets".to_owned();
    let rest = is_cut.then(|| "not all classes were compared".to_owned());
    let details = details.chain(rest).collect();
    Ok(Some(Note { code: "firewall", what, details, known: is_other_mode.then_some(FIREWALL) }))
}

/// Returns the outcomes that differ, and whether there are more classes than the maximum number to compare.
fn on_all_nodes(
    asked: Asked,
    sides: [&Side<'_>; 2],
    networks: [&Network<'_>; 2],
    most: usize,
) -> Result<(Found, bool), DiffError> {
    let nodes = sides[0].scenario.cluster.nodes.iter();
    let places: Vec<(&str, Family)> =
        nodes.flat_map(|node| Family::ALL.map(|family| (node.name.as_str(), family))).collect();
    let differing = |(node, family): &(&str, Family)| on_node(node, *family, asked, sides, networks, most);
    let (mut found, mut is_cut) = (Found::new(), false);
    for ((node, _), differing) in places.iter().zip(in_parallel(&places, None, differing, &|_| ())) {
        let (classes, is_part) = differing?;
        is_cut |= is_part;
        for (fates, classes) in classes {
            let entry = found.entry(fates).or_default();
            entry.0.insert((*node).to_owned());
            entry.1 += classes;
        }
    }
    Ok((found, is_cut))
}

/// The packets whose outcome on a node is compared.
#[derive(Clone, Copy)]
struct Asked {
    why: Why,
    /// The hooks that they are at.
    places: &'static [(Hook, Marked)],
}

/// The reason why packets would be dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// The node's own firewall drops by default.
    Firewall,
    /// They belong to no connection.
    Invalid,
}

/// Whether packets are marked to be masqueraded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marked {
    Yes,
    No,
}

/// The rules of a node on one side.
struct Walked<'n> {
    program: Program,
    environment: &'n Environment,
    has_firewall: bool,
    /// The mark of packets that are to be masqueraded.
    mark: u32,
}

/// Returns how the outcomes on a node differ, with the number of classes, and whether there are more than the maximum number to compare.
fn on_node(
    node: &str,
    family: Family,
    asked: Asked,
    sides: [&Side<'_>; 2],
    networks: [&Network<'_>; 2],
    most: usize,
) -> Result<(BTreeMap<[PacketOutcome; 2], usize>, bool), DiffError> {
    let mut found = BTreeMap::new();
    let netns = format!("node/{node}");
    let rules = sides.map(|side| -> Vec<&Rules> {
        let own = side.documents.iter().filter(|one| one.netns == netns && one.applies_to(family));
        own.map(|document| &*document.rules).collect()
    });
    let ids = networks.map(|network| network.topology().find(&netns));
    let [Some(was), Some(is)] = ids else { return Ok((found, false)) };
    if rules[0] == rules[1] {
        return Ok((found, false));
    }
    let walked = |at: usize, netns: NetnsId| -> Result<Option<Walked<'_>>, DiffError> {
        let prepared: Vec<Rules> = rules[at].iter().map(|rules| prepared(rules, asked.why)).collect();
        let refs: Vec<&Rules> = prepared.iter().collect();
        let program = match compile(&refs, family) {
            Ok(program) => program,
            Err(errors) => return errors.into_iter().next().map_or(Ok(None), |error| Err(error.into())),
        };
        let has_firewall = prepared.iter().any(|rules| rules.iptables().is_some());
        let environment = networks[at].environment(netns);
        Ok(Some(Walked { program, environment, has_firewall, mark: sides[at].mark() }))
    };
    let (Some(was), Some(is)) = (walked(0, was)?, walked(1, is)?) else { return Ok((found, false)) };
    let mut left = most;
    for place in asked.places {
        for (fates, classes) in asked.why.differences(*place, family, [&was, &is], &mut left) {
            *found.entry(fates).or_default() += classes;
        }
    }
    Ok((found, left == 0))
}

impl Why {
    /// Returns how the outcomes on both sides differ, with the number of classes.
    fn differences(
        self,
        place: (Hook, Marked),
        family: Family,
        sides: [&Walked<'_>; 2],
        left: &mut usize,
    ) -> BTreeMap<[PacketOutcome; 2], usize> {
        let none = match family {
            Family::Ipv4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::Ipv6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        let like = Packet::new(none, none, Transport::opening(Protocol::Tcp, 33_000, 80));
        let mut classes = Classes::of([Region::all(family)], like);
        let mut found = BTreeMap::new();
        while let Some(class) =
            classes.next_by(|witness, narrowing| sides.map(|side| self.fate(place, side, witness, narrowing)))
        {
            if class.found[0] != class.found[1] {
                *found.entry(class.found).or_default() += 1;
            }
            *left = left.saturating_sub(1);
            // Each remaining part is at least one class.
            if *left <= classes.left() {
                *left = 0;
                break;
            }
        }
        found
    }

    fn fate(
        self,
        (hook, marked): (Hook, Marked),
        side: &Walked<'_>,
        witness: &Packet,
        narrowing: &Narrowing,
    ) -> PacketOutcome {
        let packet = Packet { mark: if marked == Marked::Yes { side.mark } else { 0 }, ..*witness };
        let tracking = match self {
            Self::Firewall => Tracking::first(&packet),
            Self::Invalid => Tracking::Invalid,
        };
        let arrival = Arrival { tracking, ..Arrival::first(side.environment, hook, &packet) };
        let branches = side.program.walk_with(arrival, Narrowed::by(Some(narrowing)));
        let passes = branches.iter().any(|branch| branch.outcome == HookVerdict::Accept);
        match self {
            // Unless iptables rules accept a packet, the firewall's drop is final.
            Self::Firewall if passes && side.has_firewall => PacketOutcome::PassedOn,
            Self::Firewall => PacketOutcome::DroppedByFirewall,
            Self::Invalid if passes => PacketOutcome::PassedOn,
            Self::Invalid => PacketOutcome::DroppedOnNode,
        }
    }
}

/// Returns the rules of a document; in iptables mode with drop policies in the chains where the firewall drops.
fn prepared(rules: &Rules, why: Why) -> Rules {
    let mut rules = rules.clone();
    if let (Why::Firewall, Rules::Iptables(parsed)) = (why, &mut rules) {
        for table in parsed.rules.tables.iter_mut().filter(|table| table.name == TableName::Filter) {
            close(table);
        }
    }
    rules
}

fn close(table: &mut iptables::Table) {
    let built_in = table.chains.iter_mut().filter(|chain| chain.policy.is_some());
    built_in.for_each(|chain| chain.policy = Some(Policy::Drop));
}
