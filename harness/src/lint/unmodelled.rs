//! Matches, targets and statements in kube-proxy's chains that are not modelled, and that kube-proxy does not write.

use std::collections::{BTreeMap, BTreeSet};

use svclab_rules::cluster::ProxyMode;
use svclab_rules::compare::{Subject, is_own_chain};
use svclab_rules::coverage::nft_table;
use svclab_rules::iptables::{Match, Rule};
use svclab_rules::nftables::{self, Condition, Statement};
use svclab_rules::ruleset::Rules;

use super::finding::{Finding, Place, subject_of_chain};
use super::view::{Tables, View};
use crate::evidence::NodeRules;
use crate::text::{counted, list, shortened};

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let of_iptables = view.tables().flat_map(find_in_iptables);
    of_iptables.chain(view.nodes.iter().flat_map(find_in_nftables)).chain(view.tables().filter_map(find_sets)).collect()
}

/// The most sets that are named.
const MAX_NAMED: usize = 3;

/// Other programs' rules that match sets of ipset.
fn find_sets(tables: Tables<'_>) -> Option<Finding> {
    let (mut rules, mut sets, mut first) = (0_usize, BTreeSet::new(), None);
    for placed in tables.rules().filter(|placed| !is_own_chain(&placed.chain.name)) {
        let own = placed.rule.ip_sets();
        if !own.is_empty() {
            rules += 1;
            sets.extend(own);
            first = first.or(Some(placed.line));
        }
    }
    let message = format!("{} of other programs with sets of ipset: {}", counted(rules, "rule"), list(sets, MAX_NAMED));
    let effect = "unknown: the sets are not part of the rules; labs leave these rules out";
    Some(Finding::new("ipset-rules", tables.place(first?), message, effect))
}

/// The most findings of one rule set.
const MAX: usize = 20;

/// Matches without a model that kube-proxy itself writes.
const KNOWN: [&str; 2] = ["recent", "physdev"];

/// The rules that have the same match, target or statement.
struct Occurrences {
    rules: usize,
    /// Where the first of them is, and in which chain.
    place: Place,
    chain: String,
    subject: Subject,
}

/// What is not modelled, with the rules that have it.
#[derive(Default)]
struct Unmodelled(BTreeMap<String, Occurrences>);

impl Unmodelled {
    fn add(&mut self, what: String, place: impl FnOnce() -> Place, (chain, subject): (&str, impl FnOnce() -> Subject)) {
        let first = || Occurrences { rules: 0, place: place(), chain: chain.to_owned(), subject: subject() };
        self.0.entry(what).or_insert_with(first).rules += 1;
    }

    fn findings(self, mode: ProxyMode) -> impl Iterator<Item = Finding> {
        self.0.into_iter().take(MAX).map(move |(what, Occurrences { rules, place, chain, subject })| {
            let position = if rules == 1 { "in" } else { "first in" };
            let rules = counted(rules, "rule");
            let message =
                format!("kube-proxy's chains have {what}, which kube-proxy does not write: {rules}, {position} {chain}");
            let effect = "unknown: what these rules do is not modelled; the text was edited, or another program writes to these chains";
            Finding::new("unmodelled-rule", place, message, effect).with_mode(mode).about([subject])
        })
    }
}

fn find_in_iptables(tables: Tables<'_>) -> Vec<Finding> {
    let mut found = Unmodelled::default();
    for placed in tables.rules().filter(|placed| is_own_chain(&placed.chain.name) && !placed.rule.is_unread()) {
        for what in iptables_parts(placed.rule) {
            let chain = &placed.chain.name;
            found.add(what, || tables.place(placed.line), (chain, || subject_of_chain(placed.table.as_str(), chain)));
        }
    }
    found.findings(ProxyMode::Iptables).collect()
}

fn iptables_parts(rule: &Rule) -> impl Iterator<Item = String> {
    let matches = rule.matches.iter().filter_map(|one| match one {
        Match::Other(other) if !KNOWN.contains(&&*other.name) => Some(format!("the match `{}`", other.name)),
        // In IPVS mode kube-proxy's own sets have its prefix.
        Match::Set(set) if !set.value.name.starts_with("KUBE-") => Some(format!("the ipset `{}`", set.value.name)),
        _ => None,
    });
    let target = rule.target.as_ref().and_then(|target| target.unmodelled());
    matches.chain(target.map(|name| format!("the target `{name}`")))
}

fn find_in_nftables(node: &NodeRules) -> Vec<Finding> {
    let Rules::Nftables(parsed) = &node.rules else { return Vec::new() };
    let mut found = Unmodelled::default();
    for (at_table, table) in parsed.rules.tables.iter().enumerate() {
        for (at_chain, chain) in table.chains.iter().enumerate() {
            for (at, rule) in chain.rules.iter().enumerate() {
                let place = || {
                    let line = parsed.lines.rule(at_table, at_chain, at).unwrap_or(node.first);
                    Place { file: node.file.clone(), line }
                };
                for what in nftables_parts(rule) {
                    let subject = || subject_of_chain(nft_table(table.family), &chain.name);
                    found.add(what, place, (&chain.name, subject));
                }
            }
        }
    }
    found.findings(ProxyMode::Nftables).collect()
}

fn nftables_parts(rule: &nftables::Rule) -> impl Iterator<Item = String> {
    let conditions = rule.conditions.iter().filter_map(|condition| match condition {
        Condition::Other(text) => Some(text),
        _ => None,
    });
    let statements = rule.statements.iter().filter_map(|statement| match statement {
        Statement::Other(text) => Some(text),
        _ => None,
    });
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    conditions.chain(statements).map(move |text| format!("`{}`", shortened(&words(text))))
}
