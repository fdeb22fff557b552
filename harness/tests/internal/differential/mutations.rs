//! Mutations of rules.

use std::sync::Arc;

use crate::documents::Document;
use svclab_rules::cluster::{Family, ProxyMode};
use svclab_rules::mutate::{Change, changes};
use svclab_rules::ruleset::Rules;

use super::dice::Dice;

/// A mutation of one document.
#[derive(Debug, Clone)]
pub(crate) struct Mutation {
    netns: String,
    family: Family,
    change: Change,
}

impl Mutation {
    fn is_of(&self, document: &Document) -> bool {
        self.netns == document.netns && self.family == document.family && document.rules.mode() == ProxyMode::Nftables
    }

    /// The same mutation, for rules that may have other mutations before or after it.
    fn found_in(&self, rules: &Rules) -> Option<Change> {
        let is_same = |other: &Change| {
            let (own, other_place) = (&self.change.place, &other.place);
            let same_place = own.table == other_place.table && own.name == other_place.name;
            same_place
                && other.operator == self.change.operator
                && other.was == self.change.was
                && other.is == self.change.is
        };
        changes(rules).into_iter().find(is_same)
    }
}

/// Mutations as comments after a scenario.
pub(crate) fn listed(mutations: &[Mutation]) -> String {
    let line = |Mutation { netns, family, change }: &Mutation| {
        let instead = change.is.iter().map(|is| format!(" => {is}"));
        format!("# mutation: {netns}, {family}: {change}{}\n", instead.collect::<String>())
    };
    mutations.iter().map(line).collect()
}

/// Some mutations of nftables documents.
pub(crate) fn some(dice: &mut Dice, documents: &[Document]) -> Vec<Mutation> {
    let of_nftables = documents.iter().filter(|document| document.rules.mode() == ProxyMode::Nftables);
    let mutations = of_nftables.map(|document| {
        let changes = with_some(dice, document).0.into_iter();
        changes.map(|change| Mutation { netns: document.netns.clone(), family: document.family, change }).collect()
    });
    mutations.collect::<Vec<Vec<Mutation>>>().concat()
}

/// A document with up to four mutations, and the mutations.
pub(crate) fn with_some(dice: &mut Dice, document: &Document) -> (Vec<Change>, Document) {
    let mut rules = Arc::clone(&document.rules);
    let mut made = Vec::new();
    for _ in 0..dice.within(1..5) {
        let all = changes(&rules);
        if all.is_empty() {
            break;
        }
        let change = dice.pick(&all);
        let mutant = change.apply(&rules);
        if mutant.is_sound(document.family) {
            rules = Arc::new(mutant);
            made.push(change.clone());
        }
    }
    (made, Document { rules, ..document.clone() })
}

/// Documents with these mutations, as far as they apply.
pub(crate) fn made(mutations: &[Mutation], mut documents: Vec<Document>) -> Vec<Document> {
    for document in &mut documents {
        let mut own = mutations.iter().filter(|mutation| mutation.is_of(document)).peekable();
        if own.peek().is_none() {
            continue;
        }
        let mut rules = Arc::clone(&document.rules);
        for mutation in own {
            let mutant = mutation.found_in(&rules).map(|change| change.apply(&rules));
            rules = mutant.filter(|mutant| mutant.is_sound(document.family)).map_or(rules, Arc::new);
        }
        document.rules = rules;
    }
    documents
}
