//! Rules that follow the objects: what kube-proxy wrote for objects that are removed is replaced by what it writes without them.
//!
//! Without this, an endpoint could not be removed alone: the probabilities of the others would be wrong.

use std::sync::Arc;

use svclab_rules::ruleset::Rules;
use svclab_rules::{iptables, nftables};

use super::complete::{SameRule, elements_of, rules_of};
use super::rules::generated;
use crate::scenario::{Install, Scenario};

/// A smaller scenario, whose rules follow the objects that it lacks. What deviates from kube-proxy's rules stays.
pub(super) fn following(whole: &Scenario, mut smaller: Scenario) -> Scenario {
    let mut all = std::mem::take(&mut smaller.rules);
    for own in all.iter_mut().filter(|own| own.install == Install::Instead) {
        let (Some(before), Some(after)) = (generated(whole, own), generated(&smaller, own)) else { continue };
        let followed = match (&*own.rules, &before, &after) {
            (Rules::Iptables(own), Rules::Iptables(before), Rules::Iptables(after)) => {
                iptables_after(own.rules.clone(), &before.rules, &after.rules).into()
            }
            (Rules::Nftables(own), Rules::Nftables(before), Rules::Nftables(after)) => {
                nftables_after(own.rules.clone(), &before.rules, &after.rules).into()
            }
            _ => continue,
        };
        own.rules = Arc::new(followed);
    }
    smaller.rules = all;
    smaller
}

fn iptables_after(
    mut own: iptables::RuleSet,
    before: &iptables::RuleSet,
    after: &iptables::RuleSet,
) -> iptables::RuleSet {
    for table in &mut own.tables {
        for chain in &mut table.chains {
            let (before, after) = (before.rules(table.name, &chain.name), after.rules(table.name, &chain.name));
            follow(&mut chain.rules, before, after, SameRule::is_same);
        }
        let name = table.name;
        let has = |rules: &iptables::RuleSet, chain: &iptables::Chain| {
            rules.table(name).is_some_and(|table| table.chain(&chain.name).is_some())
        };
        table.remove_unused(|chain| !has(before, chain) || has(after, chain));
    }
    own
}

fn nftables_after(
    mut own: nftables::Ruleset,
    before: &nftables::Ruleset,
    after: &nftables::Ruleset,
) -> nftables::Ruleset {
    for table in &mut own.tables {
        let (before, after) = (before.table(table.family), after.table(table.family));
        for set in &mut table.sets {
            let (before, after) = (elements_of(before, &set.name), elements_of(after, &set.name));
            follow(&mut set.elements, before, after, |one, other| {
                (&one.key, &one.verdict) == (&other.key, &other.verdict)
            });
        }
        for chain in &mut table.chains {
            let (before, after) = (rules_of(before, &chain.name), rules_of(after, &chain.name));
            follow(&mut chain.rules, before, after, SameRule::is_same);
        }
        let has = |table: Option<&nftables::Table>, chain: &nftables::Chain| {
            table.is_some_and(|table| table.chain(&chain.name).is_some())
        };
        table.remove_unused(|chain| !has(before, chain) || has(after, chain));
    }
    own
}

/// Replaces a list that is as kube-proxy wrote it; from another, takes what kube-proxy no longer writes.
fn follow<T: Clone>(own: &mut Vec<T>, before: &[T], after: &[T], is_same: impl Fn(&T, &T) -> bool) {
    let are_same = |some: &[T], others: &[T]| {
        some.len() == others.len() && some.iter().zip(others).all(|(one, other)| is_same(one, other))
    };
    if are_same(before, after) {
        return;
    }
    if are_same(own, before) {
        *own = after.to_vec();
    } else {
        let has = |list: &[T], item: &T| list.iter().any(|other| is_same(other, item));
        own.retain(|item| !has(before, item) || has(after, item));
    }
}
