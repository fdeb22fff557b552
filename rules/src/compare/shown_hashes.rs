//! Hashes in nftables names that are not those of the rest of the name: people made them up, or replaced the rest.

use std::collections::{BTreeSet, HashMap};

use crate::chains::nftables::is_base;
use crate::cluster::{Family, ProxyMode};
use crate::nftables::{Condition, Ruleset, Statement, Table, Verdict, name_hash};
use crate::ruleset::Rules;

/// Gives chains and sets that kube-proxy writes the hashes that a text has in names with the same rest, so that both are compared by what they
/// are for. A name of which the text has the right hash as well stays as it is.
pub fn with_shown_hashes(written: Rules, shown: &Rules) -> Rules {
    let (Rules::Nftables(own), Rules::Nftables(shown)) = (&written, shown) else { return written };
    let shown: BTreeSet<&str> = bases(&shown.rules).collect();
    let mut odd: HashMap<&str, Vec<&str>> = HashMap::new();
    for (base, rest) in shown.iter().filter_map(|base| Some((*base, rest_of(base)?))) {
        if !base.starts_with(&*name_hash(rest)) {
            odd.entry(rest).or_default().push(base);
        }
    }
    if odd.is_empty() {
        return written;
    }
    let own: BTreeSet<&str> = bases(&own.rules).collect();
    let mut changed: HashMap<&str, &str> = HashMap::new();
    for base in own.iter().filter(|base| !shown.contains(*base)) {
        let all = rest_of(base).and_then(|rest| odd.get(rest)).into_iter().flatten();
        let mut others = all.filter(|other| !own.contains(*other));
        if let (Some(other), None) = (others.next(), others.next()) {
            changed.insert(base, other);
        }
    }
    if changed.is_empty() {
        return written;
    }
    let text = renamed(&written.print(), &changed);
    Rules::parse(ProxyMode::Nftables, Family::Ipv4, &text).unwrap_or(written)
}

/// The names of a rule set after their prefixes: of chains and sets, and of those that rules and maps name.
fn bases(rules: &Ruleset) -> impl Iterator<Item = &str> {
    rules.tables.iter().flat_map(of_table).filter_map(|name| base_of(name))
}

fn of_table(table: &Table) -> impl Iterator<Item = &str> {
    let rules = || table.chains.iter().flat_map(|chain| &chain.rules);
    let verdicts = table.sets.iter().flat_map(|set| &set.elements).filter_map(|one| one.verdict.as_ref());
    let asked = rules().flat_map(|rule| &rule.conditions).filter_map(Condition::set).map(|(name, _)| &**name);
    let led_to = rules().flat_map(|rule| &rule.statements).flat_map(Statement::chains).map(|name| &**name);
    let chains = table.chains.iter().map(|chain| &*chain.name);
    let sets = table.sets.iter().map(|set| &*set.name);
    chains.chain(sets).chain(verdicts.filter_map(Verdict::chain).map(|name| &**name)).chain(led_to).chain(asked)
}

fn base_of(name: &str) -> Option<&str> {
    let (_, base) = name.split_once('-')?;
    is_base(base).then_some(base)
}

fn rest_of(base: &str) -> Option<&str> {
    base.split_once('-').map(|(_, rest)| rest)
}

/// A text of nft with other names.
fn renamed(text: &str, changed: &HashMap<&str, &str>) -> String {
    let mut all = String::with_capacity(text.len());
    for word in text.split_inclusive([' ', '\n', ',', ';']) {
        let name = word.trim_end_matches([' ', '\n', ',', ';']);
        match base_of(name).and_then(|base| Some((base, changed.get(base)?))) {
            Some((base, other)) => {
                all.push_str(&name[..name.len() - base.len()]);
                all.push_str(other);
                all.push_str(&word[name.len()..]);
            }
            None => all.push_str(word),
        }
    }
    all
}
