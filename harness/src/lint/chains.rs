//! Chains: jumps to chains that are not there, and chains that nothing leads to.

use std::collections::HashSet;

use svclab_rules::cluster::{Family, ProxyMode};
use svclab_rules::coverage::nft_table;
use svclab_rules::infer::Infer;
use svclab_rules::iptables::{Chain, ChainKind, Table, TableName};
use svclab_rules::nftables;
use svclab_rules::nftables::evaluate::{CompileErrorKind, Part};
use svclab_rules::ruleset::{CompileError, compile};

use super::finding::{Finding, Place, subject_of_chain};
use super::lines::ChainLines;
use super::view::{Tables, View};
use crate::evidence::{Format, NodeRules};

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let of_iptables = view.tables().flat_map(find_in_iptables);
    let nodes = view.nodes.iter().zip(&view.chain_lines);
    let of_nftables = nodes.flat_map(|(node, lines)| find_in_nftables(node, lines));
    of_iptables
        .chain(of_nftables)
        .chain(view.nodes.iter().filter_map(cut))
        .chain(view.nodes.iter().flat_map(shortened))
        .collect()
}

/// What the kernel rejects in kube-proxy's tables of nftables: jumps to chains that are not there, first of all.
fn find_in_nftables(node: &NodeRules, lines: &ChainLines<'_>) -> Vec<Finding> {
    let Some(parsed) = node.rules.nftables().filter(|_| node.is_whole()) else { return Vec::new() };
    let of_family =
        |family: Family| compile(&[&node.rules.clone().for_family(family)], family).err().unwrap_or_default();
    let errors = parsed.rules.tables.iter().flat_map(|table| of_family(table.family));
    let errors = errors.filter_map(|error| match error {
        CompileError::Nftables(error) => Some(error),
        _ => None,
    });
    let finding = |error: nftables::evaluate::CompileError| {
        let id = match error.kind {
            CompileErrorKind::MissingChain(_) => "undefined-chain",
            CompileErrorKind::MissingSet(_) => "rejected-rule",
            _ => return None,
        };
        let table = nft_table(error.family);
        let (line, subject) = match &error.part {
            Part::Table => (None, None),
            Part::Chain(chain) => (lines.line(table, chain, 1), Some(chain)),
            Part::Rule(chain, rule) => (lines.line(table, chain, *rule), Some(chain)),
            Part::Set(set) => (line_of_set(parsed, error.family, set), None),
        };
        let place = Place { file: node.file.clone(), line: line.unwrap_or(node.first) };
        let subject = subject.map(|chain| subject_of_chain(table, chain));
        let effect = "nft rejects the whole transaction: no Service can be updated on this node";
        Some(Finding::new(id, place, error.to_string(), effect).with_mode(ProxyMode::Nftables).about(subject))
    };
    let mut reported = HashSet::new();
    errors.filter_map(finding).filter(|finding| reported.insert(finding.message.clone())).take(MAX).collect()
}

/// The line of a set or map of nftables.
fn line_of_set(parsed: &nftables::Parsed, family: Family, name: &str) -> Option<usize> {
    let table = parsed.rules.tables.iter().position(|table| table.family == family)?;
    let set = parsed.rules.tables[table].sets.iter().position(|set| *set.name == *name)?;
    parsed.lines.set(table, set)
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
    Some(Finding::new("cut-off", place, message, effect).with_mode(node.rules.mode()))
}

/// Outputs of filters that someone shortened.
fn shortened(node: &NodeRules) -> impl Iterator<Item = Finding> + '_ {
    node.shortened.iter().map(|(file, line)| {
        let message = "the output of this command was shortened: other commands in the text show lines that it lacks";
        let place = Place { file: file.clone(), line: *line };
        let effect = "unknown: rules that it does not show are not checked";
        Finding::new("cut-off", place, message, effect).with_mode(node.rules.mode())
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
                let subjects = [&*placed.chain.name, &**next].map(|chain| subject_of_chain(table.name.as_str(), chain));
                found.push(Finding::new("undefined-chain", tables.place(placed.line), message, effect).about(subjects));
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

    use rstest::rstest;
    use svclab_rules::coverage::Coverage;

    use super::*;
    use crate::evidence::{node_rules, read};

    /// A missing set is no missing chain; both are at the rule that names them, in the table of its family.
    #[rstest]
    #[case::chain("jump nowhere", "undefined-chain")]
    #[case::set("ip6 saddr @nowhere drop", "rejected-rule")]
    fn what_nft_rejects_is_at_its_rule(#[case] rule: &str, #[case] id: &str) {
        let path = "../rules/tests/golden/dual-stack/v1.36-nftables/nft-ruleset.txt";
        let text = std::fs::read_to_string(path).unwrap();
        let (ipv4, ipv6) = text.split_at(text.find("table ip6 kube-proxy").unwrap());
        let last = "\t\tip6 daddr . meta l4proto . th dport vmap @service-ips\n";
        let text = format!("{ipv4}{}", ipv6.replacen(last, &format!("{last}\t\t{rule}\n"), 1));
        let line = text.lines().position(|line| line.contains("nowhere")).unwrap() + 1;
        let mut node = node_rules(&read(&text)).remove(0);
        node.coverage = Coverage::all();
        let found = find_in_nftables(&node, &ChainLines::of(&node));
        let [one] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((one.id, one.place.line), (id, line), "{one:?}");
    }
}
