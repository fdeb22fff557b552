//! How connections are shared out: probabilities, missing and repeated rules, endpoints' chains, session affinity.

use std::collections::{HashMap, HashSet};

use svclab_rules::cascade::{Cascade, Kind, StructureDefect, shares};
use svclab_rules::cluster::ProxyMode;
use svclab_rules::compare::Subject;
use svclab_rules::coverage::nft_table;
use svclab_rules::iptables::{self, ChainKind, Rule, TableName, Target};
use svclab_rules::nftables::{Chain, Verdict};
use svclab_rules::ruleset::Rules;

use super::finding::{Finding, Place, service_of_chain, subject_of_chain};
use super::lines::ChainLines;
use super::port_names::port_name;
use super::severity::Severity;
use super::view::{Tables, View};
use crate::evidence::NodeRules;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let nodes = view.nodes.iter().zip(&view.chain_lines);
    nodes.flat_map(|(node, lines)| find_on_node(node, lines)).collect()
}

fn find_on_node(node: &NodeRules, lines: &ChainLines<'_>) -> Vec<Finding> {
    let found = shares(&node.rules, &node.coverage);
    let place = |table: &'static str, chain: &str, rule: usize| {
        let (file, first) = node.line_of_table(table);
        Place { file, line: lines.line(table, chain, rule).unwrap_or(first) }
    };
    let mode = node.rules.mode();
    let table = |cascade: &Cascade| match mode {
        ProxyMode::Iptables => TableName::Nat.as_str(),
        ProxyMode::Nftables => nft_table(cascade.family),
    };
    let translating = translating(node);
    let unread = unread_chains(node);
    let mut all = Vec::new();
    for cascade in &found.cascades {
        for defect in &cascade.defects {
            let (id, chain) = id_of(&defect.kind);
            let Some(id) = id else { continue };
            // Connections that no endpoint's chain takes for its protocol, or whose number a map lacks, fall through: that is one defect.
            let has = |is_cause: fn(&Kind) -> bool| cascade.defects.iter().any(|own| is_cause(&own.kind));
            let is_consequence = id == "broken-balancing" && has(|kind| matches!(kind, Kind::Protocol { .. }))
                || matches!(defect.kind, Kind::FallsThrough { .. }) && has(|kind| matches!(kind, Kind::Gap { .. }));
            // A rule that could not be read takes an unknown part of the connections.
            let depends_on_unread = SHARES.contains(&id) && unread.contains(&*cascade.chain);
            if is_consequence || depends_on_unread {
                continue;
            }
            let at = match chain {
                Some(chain) => place(table(cascade), chain, translating.get(chain).copied().unwrap_or(1)),
                None => place(table(cascade), &cascade.chain, defect.rule),
            };
            let message = format!("{}: {defect}", name(cascade));
            all.push(
                Finding::new(id, at, message, effect(cascade, &defect.kind))
                    .about(subjects(&cascade.service, &cascade.chain)),
            );
        }
    }
    all.extend(explained(&found.cascades, mode, |cascade| place(table(cascade), &cascade.chain, 1)));
    all.extend(empty_chains(node));
    all.extend(found.structure_defects.iter().filter_map(|defect| structure_finding(defect, node, &place)));
    all.into_iter().map(|finding| finding.with_mode(mode)).collect()
}

/// The kinds of chains from which every connection must be led on.
const LEADING: [ChainKind; 4] = [ChainKind::Service, ChainKind::Local, ChainKind::ExternalLocal, ChainKind::External];

/// Chains of Services that are shown whole, have no rule, and get connections.
fn empty_chains(node: &NodeRules) -> Vec<Finding> {
    let mut found: Vec<(usize, String, String)> = Vec::new();
    match &node.rules {
        Rules::Iptables(parsed) => {
            let tables = Tables { node, parsed };
            let is_empty = |chain: &&iptables::Chain| {
                let is_leading = || LEADING.iter().any(|kind| kind.is_of(&chain.name));
                chain.rules.is_empty() && is_leading() && tables.shows(TableName::Nat, &chain.name)
            };
            let chains = parsed.rules.table(TableName::Nat).into_iter().flat_map(|table| &table.chains);
            let empty: HashSet<&str> = chains.filter(is_empty).map(|chain| &*chain.name).collect();
            let of_nat = || tables.rules().filter(|placed| placed.table == TableName::Nat);
            let used: HashSet<&str> = of_nat().filter_map(|placed| Some(&**placed.rule.next_chain()?)).collect();
            // A chain to which nothing leads leads nothing on.
            let is_used = |chain: &str| chain == "KUBE-SERVICES" || used.contains(chain);
            for placed in of_nat().filter(|placed| is_used(&placed.chain.name)) {
                let Some(next) = placed.rule.next_chain().filter(|next| empty.contains(&***next)) else { continue };
                let mut words = placed.rule.comment().unwrap_or_default().split(' ');
                let named = words.find(|word| word.contains('/')).map(|name| port_name(name).to_owned());
                found.push((placed.line.number, named.unwrap_or_else(|| next.to_string()), next.to_string()));
            }
        }
        Rules::Nftables(parsed) => {
            for (table_at, table) in parsed.rules.tables.iter().enumerate() {
                let is_empty = |chain: &&Chain| {
                    let is_service = || ["service-", "external-"].iter().any(|start| chain.name.starts_with(start));
                    let is_whole = || node.coverage.has_chain(nft_table(table.family), &chain.name);
                    chain.rules.is_empty() && is_service() && is_whole()
                };
                let empty: HashSet<&str> = table.chains.iter().filter(is_empty).map(|chain| &*chain.name).collect();
                for (set_at, set) in table.sets.iter().enumerate() {
                    for (at, element) in set.elements.iter().enumerate() {
                        let Some(Verdict::Goto(next) | Verdict::Jump(next)) = &element.verdict else { continue };
                        if empty.contains(&**next) {
                            let line = parsed.lines.element(table_at, set_at, at).unwrap_or(node.first);
                            found.push((line, next.to_string(), next.to_string()));
                        }
                    }
                }
            }
        }
        Rules::OtherTables(_) => {}
    }
    let mut known: HashSet<String> = HashSet::new();
    found.retain(|(_, _, chain)| known.insert(chain.clone()));
    let finding = |(line, service, chain): (usize, String, String)| {
        let place = Place { file: node.file.clone(), line: if line == 0 { node.first } else { line } };
        let whose = if service == chain { String::new() } else { format!("{service}: ") };
        let message = format!("{whose}chain {chain} has no rule, so no endpoint gets connections");
        let effect = "connections to the Service reach no endpoint: they are rejected or lost";
        let subjects = subjects(&service, &chain);
        Finding::new("broken-balancing", place, message, effect).about(subjects)
    };
    found.into_iter().map(finding).collect()
}

/// The finding of a defect in chains of no Service. `place` is that of a chain's rule.
fn structure_finding(
    defect: &StructureDefect,
    node: &NodeRules,
    place: &dyn Fn(&'static str, &str, usize) -> Place,
) -> Option<Finding> {
    Some(match defect {
        StructureDefect::MissingJump { table, chain, effect, .. } => {
            let subject = Subject::Chain { table, name: chain.clone() };
            Finding::new("missing-jump", place(table, chain, 1), defect.to_string(), *effect).about([subject])
        }
        StructureDefect::Repeated { table, chain, first, times, .. } => {
            let effect = format!(
                "every packet that comes to {chain} is compared {times} times; thousands of copies slow the node down"
            );
            let place = place(table, chain, *first);
            Finding::new("duplicate-rules", place, defect.to_string(), effect).about([subject_of_chain(table, chain)])
        }
        StructureDefect::Rejected { table, chain, rule, is_loop, why } => {
            let subject = chain.as_ref().map(|chain| subject_of_chain(table, chain));
            let at = chain.as_ref().map(|chain| place(table, chain, rule.unwrap_or(1)));
            let at = at.unwrap_or(Place { file: node.file.clone(), line: node.first });
            let id = if *is_loop { "chain-loop" } else { "rejected-rule" };
            Finding::new(id, at, why.clone(), rejection_effect(node)).about(subject)
        }
        _ => return None,
    })
}

/// A service port by its name in comments, and by the name of its chain.
fn subjects(service: &str, chain: &str) -> impl Iterator<Item = Subject> {
    [Subject::Service(service.to_owned())].into_iter().chain(service_of_chain(chain))
}

/// What follows from a rule that the kernel rejects.
fn rejection_effect(node: &NodeRules) -> &'static str {
    match node.rules {
        Rules::Iptables(_) => "the kernel rejects the whole table: kube-proxy cannot update any Service on this node",
        _ => "nft rejects the whole transaction: no Service can be updated on this node",
    }
}

/// The findings that follow from what each rule of a service's chain takes.
const SHARES: [&str; 3] = ["broken-balancing", "duplicate-rules", "uneven-shares"];

/// The chains that translate, of which a rule could not be read.
fn unread_chains(node: &NodeRules) -> HashSet<&str> {
    let tables = node.rules.iptables().and_then(|rules| rules.table(TableName::Nat));
    let chains = tables.into_iter().flat_map(|table| &table.chains);
    let unread = chains.filter(|chain| chain.rules.iter().any(|rule| rule.is_unread()));
    unread.map(|chain| &*chain.name).collect()
}

/// The number of the rule that translates, from 1, of each chain that has one.
fn translating(node: &NodeRules) -> HashMap<&str, usize> {
    let tables = node.rules.iptables().and_then(|rules| rules.table(TableName::Nat));
    let chains = tables.into_iter().flat_map(|table| &table.chains);
    let number = |rules: &[Rule]| rules.iter().position(|rule| matches!(rule.target, Some(Target::Dnat(_))));
    chains.filter_map(|chain| Some((&*chain.name, number(&chain.rules)? + 1))).collect()
}

/// The kind of finding that a defect is, and the chain that it is in where that is an endpoint's.
fn id_of(kind: &Kind) -> (Option<&'static str>, Option<&str>) {
    match kind {
        Kind::Protocol { chain, .. } => (Some("dnat-protocol"), Some(chain)),
        Kind::Address { chain, by, .. } if by.contains("masquerade") => (Some("dnat-source"), Some(chain)),
        Kind::Address { chain, .. } => (Some("hash-endpoint"), Some(chain)),
        Kind::FiveDigits { .. } => (Some("five-digits"), None),
        Kind::Repeated { .. } | Kind::Duplicate { .. } => (Some("duplicate-rules"), None),
        Kind::Affinity(_) => (Some("affinity"), None),
        Kind::Probability { .. }
        | Kind::FitsNone { .. }
        | Kind::Order { .. }
        | Kind::Missing { .. }
        | Kind::Uneven { .. }
        | Kind::Gap { .. } => (Some("uneven-shares"), None),
        // What depends on the connection may be meant.
        Kind::History { .. } => (None, None),
        _ => (Some("broken-balancing"), None),
    }
}

fn name(cascade: &Cascade) -> String {
    match cascade.protocol {
        Some(protocol) if cascade.service != cascade.chain => format!("{} {protocol}", cascade.service),
        _ => cascade.service.clone(),
    }
}

fn effect(cascade: &Cascade, kind: &Kind) -> String {
    let to = match cascade.frontends.first() {
        Some(frontend) => match frontend.address {
            Some(address) => format!("connections to {address} port {}", frontend.port),
            None => format!("connections to node port {}", frontend.port),
        },
        None => format!("connections to {}", cascade.service),
    };
    match kind {
        Kind::Protocol { translates, .. } => {
            format!(
                "{to} that are not {translates} come out of the endpoint's chain untranslated: they are rejected or lost"
            )
        }
        Kind::Address { by, .. } if by.contains("masquerade") => {
            format!(
                "{to} go to an address that is not the endpoint, and the endpoint's own connections to itself are not masqueraded"
            )
        }
        Kind::Address { .. } => {
            format!("{to} go to another endpoint than the chain's name says, or the text was edited")
        }
        Kind::Affinity(_) => format!("clients of {to} do not come back to their endpoint"),
        Kind::FiveDigits { .. } => format!("the shares of {to} are slightly uneven"),
        _ => format!("{to} are not balanced evenly, or some reach no endpoint"),
    }
}

/// Numbers that look unequal and are right: once, whatever number of services has them.
fn explained(cascades: &[Cascade], mode: ProxyMode, place: impl Fn(&Cascade) -> Place) -> Option<Finding> {
    let is_sound = |cascade: &&Cascade| {
        let is_complete = cascade.defects.is_empty() && cascade.unknown.is_empty();
        cascade.endpoints > 1 && (is_complete || cascade.is_even_by_probability())
    };
    let mut sound = cascades.iter().filter(is_sound);
    let first = sound.next()?;
    let endpoints = first.endpoints;
    let others = match sound.count() {
        0 => String::new(),
        more => format!("; so are those of {}", crate::text::counted(more, "other service port")),
    };
    let (what, effect) = match mode {
        ProxyMode::Nftables => (
            format!("`numgen random mod {}` is", first.steps.iter().map(|step| step.places).sum::<u32>()),
            "no effect: all numbers are equally likely, and the map has the same number of them for each endpoint",
        ),
        ProxyMode::Iptables => (
            format!("probabilities 1/{endpoints} to 1 are"),
            "no effect: each rule sees only the connections that earlier rules left",
        ),
    };
    let name = name(first);
    let message = format!("{name}: {what} even: each of {endpoints} endpoints gets 1/{endpoints}{others}");
    Some(Finding::new("even-shares", place(first), message, effect).graded(Severity::Info))
}
