//! Duplicate rules in a chain, as bugs of kube-proxy and iptables leave them.

use std::collections::HashMap;
use std::hash::Hash;

/// A rule of which a chain has several copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copies {
    /// Its text.
    pub(crate) rule: String,
    /// The numbers of all copies, from 1; at least two.
    pub(crate) numbers: Vec<usize>,
}

/// Finds duplicate rules, in order. Equal rules must have equal keys: only the texts of rules with the same key are compared.
pub(super) fn copies<'r, R, K: Hash + Eq>(
    rules: &'r [R],
    key: impl Fn(&'r R) -> K,
    text: impl Fn(&'r R) -> String,
) -> Vec<Copies> {
    let mut by_key: HashMap<K, Vec<usize>> = HashMap::with_capacity(rules.len());
    for (rule, number) in rules.iter().zip(1..) {
        by_key.entry(key(rule)).or_default().push(number);
    }
    let mut found = Vec::new();
    for numbers in by_key.into_values().filter(|numbers| numbers.len() > 1) {
        let mut by_text: HashMap<String, Vec<usize>> = HashMap::new();
        numbers.into_iter().for_each(|number| by_text.entry(text(&rules[number - 1])).or_default().push(number));
        let several = by_text.into_iter().filter(|(_, numbers)| numbers.len() > 1);
        found.extend(several.map(|(rule, numbers)| Copies { rule, numbers }));
    }
    found.sort_by_key(|copies| copies.numbers[0]);
    found
}
