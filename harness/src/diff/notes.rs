//! Changes that do not affect packets: kernel settings, rules without effect, ports that kube-proxy holds.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use svclab_rules::cluster::{Family, ProxyConfig, ProxyMode};
use svclab_rules::profile::Profile;
use svclab_rules::ruleset::Rules;

use super::known_differences::Known;
use super::side::Side;
use crate::run::in_parallel;
use crate::text::{counted, grouped};
use crate::topology::{Netns, Topology};

/// A change that does not affect packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// A stable code for programs: `rules`, `sysctls`, `firewall`, `held-ports`.
    pub code: &'static str,
    /// What changes, as a lower-case fragment.
    pub what: String,
    /// Details, one per line.
    pub details: Vec<String>,
    /// The documented cause.
    pub known: Option<Known>,
}

/// Returns the notes about two sides.
pub(super) fn notes(sides: [&Side<'_>; 2], has_changes: bool) -> Vec<Note> {
    let proxies = sides.map(|side| &side.scenario.cluster.proxy);
    let all = [rules(sides, has_changes), sysctls(sides.map(|side| &side.topology)), held_ports(proxies)];
    all.into_iter().flatten().collect()
}

/// The maximum number of rules listed.
const MAX_RULES: usize = 1_000;

/// Returns a note about the rules that one side has more often than the other.
fn rules(sides: [&Side<'_>; 2], has_changes: bool) -> Option<Note> {
    let mut places: BTreeMap<(&str, Family), [Vec<&Rules>; 2]> = BTreeMap::new();
    for (at, side) in sides.into_iter().enumerate() {
        for document in &side.documents {
            places.entry((&document.netns, document.family)).or_default()[at].push(&document.rules);
        }
    }
    let places: Vec<_> = places.into_iter().collect();
    let found = in_parallel(&places, None, |((netns, _), rules)| OnlyOnOne::of(netns, rules), &|_| ());
    let mut only: [usize; 2] = [0, 0];
    let (mut nodes, mut details) = (BTreeSet::new(), Vec::new());
    for (((netns, _), _), found) in places.iter().zip(found).filter(|(_, found)| found.numbers != [0, 0]) {
        nodes.insert(*netns);
        only = [only[0] + found.numbers[0], only[1] + found.numbers[1]];
        details.extend(found.lines.into_iter().take(MAX_RULES.saturating_sub(details.len())));
    }
    let [before, after] = only.map(|number| grouped(number as u64));
    let effect = if has_changes {
        "those that cause no change above have no effect on packets"
    } else {
        "without effect on packets"
    };
    let rules =
        format!("rules differ on {}: {before} only before, {after} only after; {effect}", counted(nodes.len(), "node"));
    (only != [0, 0]).then_some(Note { code: "rules", what: rules, details, known: None })
}

/// The rules of a namespace that only one side has.
struct OnlyOnOne {
    numbers: [usize; 2],
    /// Some of them.
    lines: Vec<String>,
}

impl OnlyOnOne {
    fn of(netns: &str, [before, after]: &[Vec<&Rules>; 2]) -> Self {
        let mut only = Self { numbers: [0, 0], lines: Vec::new() };
        if before == after {
            return only;
        }
        let [before, after] = [before, after].map(|rules| {
            let mut all: Vec<String> = rules.iter().copied().flat_map(lines).collect();
            all.sort_unstable();
            all
        });
        for (at, (own, other, sign)) in [(&before, &after, '-'), (&after, &before, '+')].into_iter().enumerate() {
            for line in surplus(own, other) {
                only.numbers[at] += 1;
                if only.lines.len() < MAX_RULES {
                    only.lines.push(format!("{netns}  {sign} {line}"));
                }
            }
        }
        only
    }
}

/// Returns the lines that a sorted list has more often than another.
fn surplus<'l>(own: &'l [String], other: &'l [String]) -> impl Iterator<Item = &'l String> {
    let mut other = other.iter().peekable();
    own.iter().filter(move |line| {
        while other.next_if(|next| next < line).is_some() {}
        other.next_if(|next| next == line).is_none()
    })
}

/// Returns the rules of a document, one per line: iptables rules, or the lines within nftables chains, maps and sets.
fn lines(rules: &Rules) -> impl Iterator<Item = String> {
    let is_iptables = rules.iptables().is_some();
    let text = rules.print();
    let lines: Vec<String> = text
        .lines()
        .map(str::trim)
        .filter(|line| {
            if is_iptables { line.starts_with("-A ") } else { !line.is_empty() && !line.ends_with('{') && *line != "}" }
        })
        .map(str::to_owned)
        .collect();
    lines.into_iter()
}

/// Returns a note about the nodes' kernel settings that differ.
fn sysctls([before, after]: [&Topology; 2]) -> Option<Note> {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let others: HashMap<&str, &Netns> = after.namespaces.iter().map(|other| (other.name.as_str(), other)).collect();
    for own in &before.namespaces {
        let Some(other) = others.get(own.name.as_str()) else { continue };
        let values = [own, *other].map(|netns| -> BTreeMap<&str, &str> {
            netns.sysctls.iter().map(|sysctl| (sysctl.name.as_str(), sysctl.value.as_str())).collect()
        });
        let names: BTreeSet<&str> = values.iter().flat_map(|values| values.keys().copied()).collect();
        for name in names {
            let [was, is] = values.each_ref().map(|values| values.get(name).copied().unwrap_or("not set"));
            if was != is {
                *found.entry(format!("net.{name}: before {was}, after {is}")).or_default() += 1;
            }
        }
    }
    let details: Vec<String> =
        found.iter().map(|(what, nodes)| format!("{what}, on {}", counted(*nodes, "node"))).collect();
    let what =
        "kernel settings differ; a setting that is no longer written keeps its value until the node is restarted"
            .to_owned();
    (!details.is_empty()).then_some(Note { code: "sysctls", what, details, known: None })
}

/// Up to 1.23, iptables mode opens a socket for each node port, so that no process can take it.
fn held_ports([before, after]: [&ProxyConfig; 2]) -> Option<Note> {
    let holds = |proxy: &ProxyConfig| {
        proxy.mode == ProxyMode::Iptables && proxy.version.parse().is_ok_and(Profile::holds_node_ports)
    };
    let what = match (holds(before), holds(after)) {
        (true, false) => "kube-proxy no longer holds node ports open: other processes on a node can listen on them",
        (false, true) => "kube-proxy holds node ports open: no other process on a node can listen on them",
        _ => return None,
    };
    Some(Note { code: "held-ports", what: what.to_owned(), details: Vec::new(), known: None })
}
