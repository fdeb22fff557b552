//! Adds the generated rules and elements that chains, sets and maps lack.

use std::collections::HashSet;

use svclab_rules::iptables::{self, Match};
use svclab_rules::nftables;

/// A rule of either language.
pub(super) trait SameRule: Clone {
    /// Whether both do the same to the same packets. Comments and counters do nothing.
    fn is_same(&self, other: &Self) -> bool;
}

impl SameRule for iptables::Rule {
    fn is_same(&self, other: &Self) -> bool {
        let bare = |rule: &Self| {
            let mut rule = rule.without_counters();
            rule.matches.retain(|one| !matches!(one, Match::Comment(_)));
            rule
        };
        self.target == other.target && bare(self) == bare(other)
    }
}

impl SameRule for nftables::Rule {
    fn is_same(&self, other: &Self) -> bool {
        (&self.conditions, &self.statements) == (&other.conditions, &other.statements)
    }
}

/// Whether a chain lacks one of the generated rules.
pub(super) fn lacks_rules<T: SameRule>(own: &[T], generated: &[T]) -> bool {
    // Mostly, both have the same rules in the same order.
    let mut next = 0;
    generated.iter().any(|rule| {
        let is_next = own.get(next).is_some_and(|known| known.is_same(rule));
        let at = if is_next { Some(next) } else { own.iter().position(|known| known.is_same(rule)) };
        next = at.map_or(next, |at| at + 1);
        at.is_none()
    })
}

/// Adds the rules that a chain lacks, each as late as the order of the generated ones allows, so that no rule of the chain is overridden.
/// Rules that it had `before` it was reduced are not what it lacks.
pub(super) fn complete_chain<T: SameRule>(own: &mut Vec<T>, before: &[T], generated: &[T]) {
    let mut end = own.len();
    for rule in generated.iter().rev() {
        match own[..end].iter().rposition(|known| known.is_same(rule)) {
            Some(at) => end = at,
            None if own.iter().chain(before).any(|known| known.is_same(rule)) => {}
            None => own.insert(end, rule.clone()),
        }
    }
}

/// Whether a set or map lacks one of the generated elements.
pub(super) fn lacks_elements(own: &[nftables::Element], generated: &[nftables::Element]) -> bool {
    missing_elements(own, generated).next().is_some()
}

/// Adds the elements that a set or map lacked `before` it was reduced.
pub(super) fn complete_elements(
    own: &mut Vec<nftables::Element>,
    before: &[nftables::Element],
    generated: &[nftables::Element],
) {
    let missing: Vec<_> = missing_elements(before, generated).cloned().collect();
    let missing: Vec<_> = missing_elements(own, &missing).cloned().collect();
    own.extend(missing);
}

fn missing_elements<'g>(
    own: &[nftables::Element],
    generated: &'g [nftables::Element],
) -> impl Iterator<Item = &'g nftables::Element> {
    let known: HashSet<Vec<nftables::Key>> = own.iter().map(|element| element.key.clone()).collect();
    generated.iter().filter(move |element| !known.contains(&element.key))
}

/// The rules of a chain of a table, if it has the chain.
pub(super) fn rules_of<'t>(table: Option<&'t nftables::Table>, chain: &str) -> &'t [nftables::Rule] {
    table.and_then(|table| table.chain(chain)).map_or(&[], |chain| &chain.rules)
}

/// The elements of a set or map of a table, if it has the set.
pub(super) fn elements_of<'t>(table: Option<&'t nftables::Table>, set: &str) -> &'t [nftables::Element] {
    table.and_then(|table| table.set(set)).map_or(&[], |set| &set.elements)
}
