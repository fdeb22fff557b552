//! Chains: jumps to chains that are not there, and chains that nothing leads to.

use std::collections::HashSet;

use svclab_rules::cluster::{Family, ProxyMode};
use svclab_rules::infer::Infer;
use svclab_rules::iptables::{Chain, ChainKind, Table, TableName};
use svclab_rules::ruleset::compile;

use super::finding::{Finding, Place};
use super::lines::lines_of_nft;
use super::view::{Tables, View};
use crate::evidence::{Format, NodeRules};

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let of_iptables = view.tables().flat_map(find_in_iptables);
    let of_nftables = view.nodes.iter().flat_map(find_in_nftables);
    of_iptables
        .chain(of_nftables)
        .chain(view.nodes.iter().filter_map(cut))
        .chain(view.nodes.iter().flat_map(shortened))
        .collect()
}

/// What the kernel rejects in kube-proxy's tables of nftables: jumps to chains that are not there, first of all.
fn find_in_nftables(node: &NodeRules) -> Vec<Finding> {
    let Some(parsed) = node.rules.nftables().filter(|_| node.is_whole()) else { return Vec::new() };
    let of_family =
        |family: Family| compile(&[&node.rules.clone().for_family(family)], family).err().unwrap_or_default();
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
        .with_mode(ProxyMode::Nftables)
    };
    errors.filter(|words| reported.insert(words.clone())).take(MAX).map(finding).collect()
}

/// The most findings of a kind of one rule set.
const MAX: usize = 20;

/// A text that ends before its rules do.
fn cut(node: &NodeRules) -> Option<Finding> {
    let (file, line) = node.cut.clone()?;
    let place = Place { file, line };
    let services = node.rules.infer().ports.len();
    let (message, effect) = match services {
        0 => ("the text is cut off here, before any rule of a Service", "unknown: no Service can be judged"),
        _ => ("the text is cut off here", "unknown: what the rest shows is not judged"),
    };
    Some(Finding::new("cut-off", place, message, effect))
}

/// Outputs of filters that someone shortened.
fn shortened(node: &NodeRules) -> impl Iterator<Item = Finding> + '_ {
    node.shortened.iter().map(|(file, line)| {
        let message = "the output of this command was shortened: other commands in the text show lines that it lacks";
        let place = Place { file: file.clone(), line: *line };
        Finding::new("cut-off", place, message, "unknown: rules that it does not show are not checked")
    })
}

fn find_in_iptables(tables: Tables<'_>) -> Vec<Finding> {
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
        found.extend(unused(tables, table, &used));
    }
    found
}

/// The chains of Services and endpoints that no rule leads to.
fn unused(tables: Tables<'_>, table: &Table, used: &HashSet<&str>) -> Option<Finding> {
    let is_unused =
        |chain: &&Chain| chain.policy.is_none() && ChainKind::of(&chain.name).is_some() && !used.contains(&*chain.name);
    let unused: Vec<&Chain> = table.chains.iter().filter(is_unused).collect();
    // A chain that still has rules may have lost the one that led to it.
    let first = unused.iter().find(|chain| !chain.rules.is_empty()).or(unused.first())?;
    let message = match unused.as_slice() {
        [one] => format!("no rule leads to chain {} of table {}", one.name, table.name),
        all => format!("no rule leads to {} chains of table {}, such as {}", all.len(), table.name, first.name),
    };
    let effect = if first.rules.is_empty() {
        "no effect: left over from removed Services or endpoints"
    } else {
        "no packet comes to its rules: it is left over from a Service that changed or was removed, or the rule that led to it is lost"
    };
    let place = tables.place(tables.line(table.name, &first.name, 0));
    Some(Finding::new("unreferenced-chain", place, message, effect))
}
