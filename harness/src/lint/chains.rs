//! Chains: jumps to chains that are not there, and chains that nothing leads to.

use std::collections::{BTreeMap, HashMap, HashSet};

use svclab_rules::cluster::{Family, ProxyMode};
use svclab_rules::infer::Show;
use svclab_rules::iptables::{ChainKind, Match, TableName, UNREAD};
use svclab_rules::ruleset::compile;

use super::finding::{Finding, Place};
use super::lines::lines_of_nft;
use super::view::{Placed, Tables, View};
use crate::evidence::{Format, NodeRules};

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let of_iptables = view.tables().flat_map(of_tables);
    let of_nftables = view.nodes.iter().flat_map(of_nftables);
    let of_texts =
        view.tables().flat_map(unknown).chain(view.tables().flat_map(loops)).chain(view.nodes.iter().filter_map(cut));
    of_iptables.chain(of_nftables).chain(of_texts).collect()
}

/// What the kernel rejects in kube-proxy's tables of nftables: jumps to chains that are not there, first of all.
fn of_nftables(node: &NodeRules) -> Vec<Finding> {
    let Some(parsed) = node.rules.nftables().filter(|_| node.is_whole()) else { return Vec::new() };
    let of_family =
        |family: Family| compile(&[&node.rules.clone().of_family(family)], family).err().unwrap_or_default();
    let errors = parsed.rules.tables.iter().flat_map(|table| of_family(table.family));
    let mut reported = HashSet::new();
    let errors = errors.map(|error| error.to_string()).filter(|words| words.contains("does not exist"));
    let lines = lines_of_nft(node);
    let finding = |words: String| {
        // The message names the chain that has the rule.
        let named = lines.iter().filter(|(chain, _)| words.contains(&***chain)).max_by_key(|(chain, _)| chain.len());
        let line = named.and_then(|(_, lines)| lines.first()).copied().unwrap_or(node.first);
        let place = Place { file: node.file.clone(), line };
        Finding::new(
            "undefined-chain",
            place,
            words,
            "nft rejects the whole transaction: no Service can be updated on this node",
        )
        .of_mode(ProxyMode::Nftables)
    };
    errors.filter(|words| reported.insert(words.clone())).take(MAX).map(finding).collect()
}

/// The most findings of a kind of one rule set.
const MAX: usize = 20;

/// Matches that svclab does not know, in kube-proxy's chains: each once.
fn unknown(tables: Tables<'_>) -> Vec<Finding> {
    let mut found: BTreeMap<&str, (usize, Placed<'_>)> = BTreeMap::new();
    for placed in tables.rules().filter(|placed| placed.chain.name.starts_with("KUBE-")) {
        for one in &placed.rule.matches {
            if let Match::Other(other) = one
                && !KNOWN.contains(&&*other.name)
            {
                found.entry(&other.name).or_insert((0, placed)).0 += 1;
            }
        }
    }
    let finding = |(name, (count, first)): (&str, (usize, Placed<'_>))| {
        let rules = crate::text::counted(count, "rule");
        let message = format!(
            "{rules} of kube-proxy's chains have the match `{name}`, which kube-proxy does not write, first in {}",
            first.chain.name
        );
        let effect = "unknown: what these rules match is not modelled; the text was edited, or another program writes to these chains";
        Finding::new("unknown-match", tables.place(first.line), message, effect)
    };
    found.into_iter().take(MAX).map(finding).collect()
}

/// Matches that are not modelled but that kube-proxy or svclab's own readers have in rules.
const KNOWN: [&str; 3] = [UNREAD, "recent", "physdev"];

/// Chains that lead back to themselves: one finding for each rule that closes a loop.
fn loops(tables: Tables<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for table in &tables.parsed.rules.tables {
        let mut next: HashMap<&str, Vec<(&str, usize)>> = HashMap::new();
        for chain in &table.chains {
            let jumps = chain.rules.iter().enumerate().filter_map(|(at, rule)| Some((&**rule.next_chain()?, at)));
            next.insert(&chain.name, jumps.collect());
        }
        let mut done: HashSet<&str> = HashSet::new();
        for chain in &table.chains {
            // The chains on the way, each with the number of its jumps that were followed.
            let mut path: Vec<(&str, usize)> =
                if done.insert(&chain.name) { vec![(&chain.name, 0)] } else { Vec::new() };
            while let Some((own, followed)) = path.last_mut() {
                let (own, at) = (*own, *followed);
                *followed += 1;
                let Some((to, rule)) = next.get(own).and_then(|jumps| jumps.get(at)) else {
                    path.pop();
                    continue;
                };
                if let Some(start) = path.iter().position(|(chain, _)| chain == to) {
                    let chains: Vec<&str> = path[start..].iter().map(|(chain, _)| *chain).chain([*to]).collect();
                    let message = format!("chains of table {} form a loop: {}", table.name, chains.join(" -> "));
                    let effect =
                        "the kernel rejects the whole table: kube-proxy cannot update any Service on this node";
                    found.push(Finding::new(
                        "chain-loop",
                        tables.place(tables.line(table.name, own, *rule)),
                        message,
                        effect,
                    ));
                } else if done.insert(to) {
                    path.push((to, 0));
                }
            }
        }
    }
    found.truncate(MAX);
    found
}

/// A text that ends before its rules do.
fn cut(node: &NodeRules) -> Option<Finding> {
    let place = Place { file: node.file.clone(), line: node.cut? };
    let services = node.rules.show().ports.len();
    let (message, effect) = match services {
        0 => ("the text is cut off here, before any rule of a Service", "unknown: no Service can be judged"),
        _ => ("the text is cut off here", "unknown: what the rest shows is not judged"),
    };
    Some(Finding::new("cut-off", place, message, effect))
}

fn of_tables(tables: Tables<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let is_whole = |table: TableName| tables.node.coverage.has_table(table.as_str());
    for table in tables.parsed.rules.tables.iter().filter(|table| is_whole(table.name)) {
        let chains: HashSet<&str> = table.chains.iter().map(|chain| &*chain.name).collect();
        let mut used: HashSet<&str> = HashSet::new();
        let mut reported: HashSet<&str> = HashSet::new();
        for placed in tables.rules().filter(|placed| placed.table == table.name) {
            let Some(next) = placed.rule.next_chain() else { continue };
            used.insert(next);
            // The kernel has no such jumps: what a listing does not show was not copied.
            let is_listing = tables.node.format == Format::IptablesList;
            if !chains.contains(&**next) && !is_listing && reported.insert(next) {
                let message = format!(
                    "a rule of {} jumps to {next}, which table {} does not have",
                    placed.chain.name, table.name
                );
                let effect =
                    "iptables-restore rejects the whole table: kube-proxy cannot update any Service on this node";
                found.push(Finding::new("undefined-chain", tables.place(placed.line), message, effect));
            }
        }
        let unused: Vec<&str> = table
            .chains
            .iter()
            .filter(|chain| {
                chain.policy.is_none() && ChainKind::of(&chain.name).is_some() && !used.contains(&*chain.name)
            })
            .map(|chain| &*chain.name)
            .collect();
        if let Some(first) = unused.first() {
            let message = format!(
                "{} of table {} are not used by any rule, first {first}",
                crate::text::counted(unused.len(), "chain"),
                table.name
            );
            let effect = "none: they are left over from Services or endpoints that are gone";
            found.push(Finding::new(
                "unreferenced-chain",
                tables.place(tables.line(table.name, first, 0)),
                message,
                effect,
            ));
        }
    }
    found
}
