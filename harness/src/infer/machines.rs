//! Rule sets → those of each machine: by files, folders, prompts and backends.

use std::collections::HashSet;

use svclab_rules::compare::compare_own;
use svclab_rules::infer::Infer;
use svclab_rules::iptables;
use svclab_rules::ruleset::Rules;

use super::node_file::NodeFile;
use crate::evidence::{NodeRules, rules_by_chain};
use crate::infer::Assumption;
use crate::text::one_line;

/// Rule sets of one machine.
pub(super) struct Group {
    /// The folder or file that they are from; empty for a text by itself.
    pub(super) place: String,
    /// Its node, if that is given.
    pub(super) node: Option<String>,
    pub(super) sets: Vec<NodeRules>,
}

/// The rule sets of which each machine has only those of one implementation of iptables, that with the most service ports; and the others.
pub(super) fn split_by_backend(sets: Vec<NodeRules>) -> (Vec<NodeRules>, Vec<NodeRules>) {
    let ports: Vec<usize> = sets.iter().map(|set| set.rules.infer().ports.len()).collect();
    let is_beside = |(one, at): (&NodeRules, usize), (other, other_at): (&NodeRules, usize)| {
        let are_two = one.backend.is_some() && other.backend.is_some() && one.backend != other.backend;
        are_two
            && one.is_of_kind(other)
            && one.folder() == other.folder()
            && one.host == other.host
            && (ports[at], other_at) < (ports[other_at], at)
    };
    let loses: Vec<bool> = (0..sets.len())
        .map(|at| (0..sets.len()).any(|other| is_beside((&sets[at], at), (&sets[other], other))))
        .collect();
    let (others, sets): (Vec<_>, Vec<_>) = sets.into_iter().zip(loses).partition(|(_, loses)| *loses);
    let plain = |all: Vec<(NodeRules, bool)>| all.into_iter().map(|(set, _)| set).collect();
    (plain(sets), plain(others))
}

/// What is said of a machine's files that have the same rules once more.
pub(super) fn words_of_repeats(set: &NodeRules) -> impl Iterator<Item = Assumption> + '_ {
    let own = one_line(set.file().unwrap_or_default());
    set.repeats.iter().map(move |file| format!("the rules in {} repeat those in {own}", one_line(file)).into())
}

/// What is said of rules that another file of the same machine has otherwise.
pub(super) fn words_of_other_time((set, file): &(NodeRules, String)) -> String {
    format!(
        "the rules from {} differ from those of the same tables in {}: the files are of the same node, saved at different times",
        set.place(),
        one_line(file)
    )
}

/// Whether two are rules of one machine: of the same text or folder, without prompts that name two.
pub(super) fn is_of_same_machine(one: &NodeRules, other: &NodeRules) -> bool {
    one.may_be_of_host(other.host.as_ref()) && (one.file == other.file || one.folder() == other.folder())
}

/// The rule sets by machine: by what is given, else by folder, or by file where a folder has several of a kind.
pub(super) fn groups(all: Vec<NodeRules>, given: &[NodeFile]) -> Vec<Group> {
    let mut folders: Vec<Group> = Vec::new();
    for set in all {
        let file = set.file.as_deref().unwrap_or_default();
        let node = given.iter().find(|one| one.has(file)).map(|one| one.node.clone());
        let place = match &node {
            Some(node) => format!("={node}"),
            None => set.folder().unwrap_or_default().to_owned(),
        };
        match folders.iter_mut().find(|group| group.place == place) {
            Some(group) => group.sets.push(set),
            None => folders.push(Group { place, node, sets: vec![set] }),
        }
    }
    let mut groups = Vec::new();
    for Group { place, node, sets } in folders {
        if node.is_some() {
            groups.push(Group { place, node, sets: without_parts(sets) });
            continue;
        }
        let sets = without_repeats(without_parts(sets));
        let clashes = sets.iter().enumerate().any(|(at, one)| sets[..at].iter().any(|other| one.is_of_kind(other)));
        if !clashes {
            groups.push(Group { place, node, sets });
            continue;
        }
        let mut by_file: Vec<Group> = Vec::new();
        for set in sets {
            let file = set.file.as_deref().unwrap_or_default().to_owned();
            let fits =
                |group: &&mut Group| group.place == file && !group.sets.iter().any(|other| other.is_of_kind(&set));
            match by_file.iter_mut().find(fits) {
                Some(group) => group.sets.push(set),
                None => by_file.push(Group { place: file, node: None, sets: vec![set] }),
            }
        }
        groups.extend(by_file);
    }
    groups
}

/// The sets without parts of those that are there as a whole.
fn without_parts(sets: Vec<NodeRules>) -> Vec<NodeRules> {
    let whole: Vec<NodeRules> = sets.iter().filter(|set| set.has_translations()).cloned().collect();
    sets.into_iter().filter(|set| set.has_translations() || !whole.iter().any(|other| set.is_of_kind(other))).collect()
}

/// The sets without those that the text shows again for the same machine: as JSON, or one table once more.
fn without_repeats(sets: Vec<NodeRules>) -> Vec<NodeRules> {
    let mut kept: Vec<NodeRules> = Vec::new();
    for set in sets {
        if !kept.iter().any(|known| is_repeated(known, &set)) {
            kept.push(set);
        }
    }
    kept
}

/// Whether a set of iptables has only rules that another one has, too.
pub(super) fn is_part(known: &NodeRules, set: &NodeRules) -> bool {
    let (Some(known), Some(own)) = (known.rules.iptables(), set.rules.iptables()) else { return false };
    own.tables.iter().all(|table| {
        table.chains.iter().all(|chain| {
            let printed =
                |rule: &iptables::Rule| iptables::print_rule(own.family, &chain.name, &rule.without_counters());
            let known: HashSet<String> = known.rules(table.name, &chain.name).iter().map(printed).collect();
            chain.rules.iter().all(|rule| known.contains(&printed(rule)))
        })
    })
}

/// Whether a set has only rules that another one of the same machine has, too.
fn is_repeated(known: &NodeRules, set: &NodeRules) -> bool {
    let is_of_host = known.file == set.file && known.host.is_some() && known.host == set.host;
    match (&known.rules, &set.rules) {
        (Rules::Iptables(known), Rules::Iptables(own)) => {
            let plain = |table: &iptables::Table| rules_by_chain(table, iptables::Rule::without_counters);
            let is_known = |table: &iptables::Table| {
                known.rules.table(table.name).is_some_and(|known| plain(known) == plain(table))
            };
            is_of_host && known.rules.family == own.rules.family && own.rules.tables.iter().all(is_known)
        }
        (Rules::Nftables(_), Rules::Nftables(_)) => {
            (is_of_host || known.format != set.format) && compare_own(&known.rules, &set.rules, 1).is_empty()
        }
        _ => false,
    }
}
