//! The rules of a dump → rules that a lab can install.
//!
//! A kernel had them, or iptables printed them; still some cannot be loaded again: rules that could not be read, chains that an excerpt
//! does not show, targets that act on the whole machine (`outward`). These are changed as little as possible, and each change is said.

use std::collections::BTreeSet;

use svclab_rules::cluster::{Cluster, Family};
use svclab_rules::compare::{Completed, MadeUp, compare_own, completed};
use svclab_rules::iptables::evaluate::{CompileError, CompileErrorKind, Program};
use svclab_rules::iptables::{Chain, RuleSet, TableName, Target};
use svclab_rules::nftables::{self, Condition, Statement};
use svclab_rules::ruleset::Rules;

use super::dump::Dump;
use super::hidden_interfaces;
use super::made_up::lead_to;
use super::outward::{disarm, leave_out_of_nft};
use crate::evidence::{Format, NodeRules};
use crate::infer::names::as_named;
use crate::infer::objects::Deviation;
use crate::scenario::Install;
use crate::text::{counted, list};

/// The rules of a node's dump as they are installed, of each family; what was changed in them, and what differs from what kube-proxy
/// writes.
pub(super) fn rules(
    dump: &Dump,
    cluster: &Cluster,
    made_up: &MadeUp,
    (changes, deviations, left_out): (&mut Vec<String>, &mut Vec<Deviation>, &mut Vec<String>),
) -> Vec<(Family, Rules)> {
    let mut all = Vec::new();
    for (family, part) in dump.families() {
        let shown = part.rules.clone().for_family(family);
        changes.extend(unread(&shown, &dump.node));
        changes.extend(logs(&shown, family, &dump.node));
        let shown = around(dump, (cluster, made_up), part, shown, family, (changes, deviations));
        let fitted = match shown {
            Rules::Iptables(mut parsed) => {
                let before = changes.len() + left_out.len();
                disarm(&mut parsed.rules, &dump.node, changes);
                hidden_interfaces::mark(&mut parsed.rules, &part.coverage, &dump.node, changes);
                fit(&mut parsed.rules, &dump.node, changes, left_out);
                // The lines of rules are known only where none was left out.
                if changes.len() + left_out.len() > before { parsed.rules.into() } else { Rules::Iptables(parsed) }
            }
            Rules::Nftables(mut parsed) => {
                leave_out_clients(&mut parsed.rules, &dump.node, changes);
                leave_out_of_nft(&mut parsed, &dump.node, left_out);
                if part.format == Format::NftJson {
                    translatable(&mut parsed.rules, &dump.node, left_out);
                }
                Rules::Nftables(parsed)
            }
            other => other,
        };
        all.push((family, fitted));
    }
    all
}

/// The rules of other programs alongside those of kube-proxy, of each family, as they are installed.
pub(super) fn others(
    dump: &Dump,
    changes: &mut Vec<String>,
    left_out: &mut Vec<String>,
) -> Vec<(Family, Rules, Install)> {
    let mut all = Vec::new();
    for other in &dump.others {
        let Some(own) = other.rules.iptables() else { continue };
        let mut rules = own.clone();
        changes.extend(unread(&other.rules, &dump.node));
        disarm(&mut rules, &dump.node, changes);
        hidden_interfaces::mark(&mut rules, &other.coverage, &dump.node, changes);
        fit(&mut rules, &dump.node, changes, left_out);
        let (install, order) = match dump.parts.iter().any(|part| is_listed_after(other, part)) {
            true => (Install::Before, "before"),
            false => (Install::After, "after"),
        };
        changes.push(format!(
            "the rules from {} are installed alongside kube-proxy's; at the same priority they are executed {order} them",
            other.place()
        ));
        all.push((rules.family, rules.into(), install));
    }
    all
}

/// Whether a listing of nft has rules after kube-proxy's: their table is newer, so of chains at the same priority, theirs come first
/// (`nf_hook_entries_grow` of the kernel).
fn is_listed_after(other: &NodeRules, part: &NodeRules) -> bool {
    other.format == Format::IptablesNft && other.file == part.file && other.first > part.first
}

/// The rules that are shown, with those that kube-proxy writes around them.
fn around(
    dump: &Dump,
    (cluster, made_up): (&Cluster, &MadeUp),
    part: &NodeRules,
    shown: Rules,
    family: Family,
    (changes, deviations): (&mut Vec<String>, &mut Vec<Deviation>),
) -> Rules {
    let node = cluster.node(&dump.node);
    let Some(written) = node.and_then(|node| Rules::generate(cluster, node, family).ok()) else { return shown };
    let written = as_named(written, &dump.renamed, &shown);
    let completed = completed(&shown, &part.coverage, written.clone(), made_up);
    changes.extend(added(&completed, dump, part, family, &cluster.proxy.version));
    let rules = lead_to(made_up, completed.rules, &written);
    let (node, mode) = (&dump.node, dump.mode());
    deviations.extend(compare_own(&written, &rules, usize::MAX).into_iter().map(|finding| {
        let (file, line) = (part.file.clone(), part.first);
        Deviation { node: node.clone(), file, line, is_whole: part.is_whole(), mode, finding }
    }));
    rules
}

/// What was added to rules, in words.
fn added(completed: &Completed, dump: &Dump, part: &NodeRules, family: Family, release: &str) -> Option<String> {
    let Completed { tables, chains, partial, .. } = completed;
    let mut what: Vec<String> = tables.iter().map(|table| format!("table {table}")).collect();
    if *chains > 0 {
        what.push(counted(*chains, "chain"));
    }
    if !partial.is_empty() {
        let names: Vec<&str> = partial.iter().take(MAX_NAMED).map(|(_, chain)| chain.as_str()).collect();
        let more = if partial.len() > names.len() { ", ..." } else { "" };
        what.push(format!("the rest of {}{more}", names.join(", ")));
    }
    if let Some((_, line)) = part.cut.as_ref().filter(|_| what.is_empty()) {
        return Some(format!("the text is cut off at line {line}, where no rule of kube-proxy is missing"));
    }
    let cut = part.cut.as_ref().map(|(_, line)| format!(" (the text is cut off at line {line})")).unwrap_or_default();
    (!what.is_empty()).then(|| {
        format!(
            "the {family} rules of node {} from line {} on are an excerpt{cut}: what it does not show is as kube-proxy {release} \
             writes it: {}",
            dump.node,
            part.first,
            what.join(", ")
        )
    })
}

/// That rules could not be read, in words, if any could not.
fn unread(rules: &Rules, node: &str) -> Option<String> {
    let chains = rules.iptables()?.tables.iter().flat_map(|table| &table.chains);
    let count = chains.flat_map(|chain| &chain.rules).filter(|rule| rule.is_unread()).count();
    (count > 0).then(|| format!("{} of node {node} that could not be read left out", counted(count, "rule")))
}

/// That statements of nft which log are left out, in words, if there are any. The parser omits them.
fn logs(rules: &Rules, family: Family, node: &str) -> Option<String> {
    let count = rules.nftables()?.lines.logs();
    let statements = counted(count, "log statement");
    (count > 0).then(|| format!("{statements} in the {family} rules of node {node} left out: labs do not log packets"))
}

/// The most chains that are named.
const MAX_NAMED: usize = 3;

/// Makes rules of iptables such that a kernel takes them.
fn fit(rules: &mut RuleSet, node: &str, changes: &mut Vec<String>, left_out: &mut Vec<String>) {
    leave_out(rules, node, changes);
    leave_out_drops(rules, node, left_out);
    // Each round removes at least one error.
    for _ in 0..ROUNDS {
        let Err(errors) = Program::compile(rules) else { return };
        let defects = Defects::of(errors);
        if defects.missing.is_empty() && defects.wrong.is_empty() {
            return;
        }
        defects.remove(rules, node, changes, left_out);
    }
}

/// Leaves out rules that could not be read, and those that match sets of ipset, which labs do not have.
fn leave_out(rules: &mut RuleSet, node: &str, changes: &mut Vec<String>) {
    let (mut sets, mut of_sets) = (BTreeSet::new(), 0_usize);
    for chain in rules.tables.iter_mut().flat_map(|table| &mut table.chains) {
        chain.rules.retain(|rule| {
            let own = rule.ip_sets();
            let is_kept = !rule.is_unread() && own.is_empty();
            of_sets += usize::from(!own.is_empty());
            sets.extend(own);
            is_kept
        });
    }
    if of_sets > 0 {
        let (rules, sets) = (counted(of_sets, "rule"), list(sets, MAX_NAMED));
        changes
            .push(format!("{rules} of node {node} with sets of ipset ({sets}) left out: labs do not have these sets"));
    }
}

/// Leaves out the rules of `nat` that drop packets, which iptables does not accept.
fn leave_out_drops(rules: &mut RuleSet, node: &str, left_out: &mut Vec<String>) {
    let mut count = 0;
    for chain in
        rules.tables.iter_mut().filter(|table| table.name == TableName::Nat).flat_map(|table| &mut table.chains)
    {
        let before = chain.rules.len();
        chain.rules.retain(|rule| rule.target != Some(Target::Drop));
        count += before - chain.rules.len();
    }
    if count > 0 {
        let rules = counted(count, "rule");
        left_out.push(format!(
            "{rules} of table nat of node {node} with target DROP left out: iptables accepts none there"
        ));
    }
}

/// What a kernel does not take.
#[derive(Default)]
struct Defects {
    /// Chains that rules jump to, by table.
    missing: BTreeSet<(TableName, String)>,
    /// Rules, by table, chain and number, and why.
    wrong: BTreeSet<(TableName, String, usize, String)>,
}

impl Defects {
    fn of(errors: Vec<CompileError>) -> Self {
        let mut found = Self::default();
        for error in errors {
            match (error.kind, error.chain, error.rule) {
                (CompileErrorKind::MissingChain(name), ..) => {
                    found.missing.insert((error.table, name.to_string()));
                }
                (CompileErrorKind::TooDeep | CompileErrorKind::NoHook, ..) => {}
                (kind, Some(chain), Some(rule)) => {
                    found.wrong.insert((error.table, chain.to_string(), rule, kind.to_string()));
                }
                _ => {}
            }
        }
        found
    }

    /// Adds the chains, empty, and leaves out the rules.
    fn remove(self, rules: &mut RuleSet, node: &str, changes: &mut Vec<String>, left_out: &mut Vec<String>) {
        if !self.missing.is_empty() {
            let first: Vec<&str> = self.missing.iter().take(3).map(|(_, name)| name.as_str()).collect();
            let count = counted(self.missing.len(), "chain");
            let verb = if self.missing.len() == 1 { "is" } else { "are" };
            let more = if self.missing.len() > first.len() { ", ..." } else { "" };
            changes.push(format!(
                "{count} of node {node} that rules jump to and that {verb} not shown {verb} empty: {}{more}",
                first.join(", ")
            ));
        }
        for (table, name) in self.missing {
            rules.table_mut(table).chains.push(Chain::user(name));
        }
        // From the last one on, so that the others keep their numbers.
        for (table, chain, rule, why) in self.wrong.into_iter().rev() {
            left_out.push(format!(
                "rule {rule} of chain {chain} of node {node} left out, for the kernel rejects it: {why}"
            ));
            let chains = &mut rules.table_mut(table).chains;
            for own in chains.iter_mut().filter(|own| *own.name == *chain) {
                if (1..=own.rules.len()).contains(&rule) {
                    own.rules.remove(rule - 1);
                }
            }
        }
    }
}

/// How often rules are compiled again after a change.
const ROUNDS: usize = 4;

/// Leaves out the clients in sets to which rules add them: connections of a lab come from clients without earlier ones.
fn leave_out_clients(rules: &mut nftables::Ruleset, node: &str, changes: &mut Vec<String>) {
    let sets = rules.tables.iter_mut().flat_map(|table| &mut table.sets).filter(|set| set.dynamic.is_some());
    let clients: usize = sets.map(|set| std::mem::take(&mut set.elements).len()).sum();
    if clients > 0 {
        changes.push(format!("{} of node {node} left out: state of earlier connections", counted(clients, "element")));
    }
}

/// Leaves out expressions in nft's JSON that have no known text: rules are installed as text.
fn translatable(rules: &mut nftables::Ruleset, node: &str, left_out: &mut Vec<String>) {
    let mut count = 0;
    for chain in rules.tables.iter_mut().flat_map(|table| &mut table.chains) {
        let before = chain.rules.len();
        chain.rules.retain(|rule| {
            !rule.conditions.iter().any(|one| matches!(one, Condition::Other(_)))
                && !rule.statements.iter().any(|one| matches!(one, Statement::Other(_)))
        });
        count += before - chain.rules.len();
    }
    if count > 0 {
        left_out.push(format!("{} of node {node} left out: unknown form in nft's JSON", counted(count, "rule")));
    }
}
