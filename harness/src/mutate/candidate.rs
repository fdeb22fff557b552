//! Mutants to try.

use std::sync::Arc;

use svclab_rules::cluster::Family;
use svclab_rules::mutate::{Change, changes, sample};

use super::Options;
use crate::documents::Document;
use crate::scenario::{Install, OtherRules, Place};

/// A mutant to try.
pub(super) struct Candidate {
    /// Which document it is made of.
    pub(super) document: usize,
    pub(super) change: Change,
}

/// Documents that mutants are made of.
pub(super) struct Originals<'a>(pub(super) &'a [Document]);

impl Originals<'_> {
    /// All that can go wrong with them that a kernel takes, or a sample of it. Where rules are given instead of kube-proxy's, mistakes
    /// are made in these alone.
    pub(super) fn candidates(&self, given: &[OtherRules], options: &Options) -> Vec<Candidate> {
        let instead: Vec<(String, Family)> = given.iter().filter_map(instead_of_generated).collect();
        let is_meant = |document: &Document| {
            instead.is_empty()
                || instead.iter().any(|(netns, family)| (netns, *family) == (&document.netns, document.family))
        };
        let all: Vec<Candidate> = (0..)
            .zip(self.0)
            .filter(|(_, document)| is_meant(document))
            .flat_map(|(at, document)| {
                changes(&document.rules).into_iter().map(move |change| Candidate { document: at, change })
            })
            .collect();
        let number = options.sample.unwrap_or(all.len());
        let mut chosen = sample(all, number, options.seed);
        chosen.retain(|candidate| {
            let document = &self.0[candidate.document];
            candidate.change.apply(&document.rules).is_sound(document.family)
        });
        chosen
    }

    /// A mutant, as it is installed.
    pub(super) fn mutated(&self, candidate: &Candidate) -> Document {
        let Document { netns, family, rules } = &self.0[candidate.document];
        let rules = Arc::new(candidate.change.apply(rules));
        Document { netns: netns.clone(), family: *family, rules }
    }
}

/// The namespace and family in which rules stand instead of kube-proxy's.
fn instead_of_generated(rules: &OtherRules) -> Option<(String, Family)> {
    match &rules.place {
        Place::Node(node) if rules.install == Install::Instead => Some((format!("node/{node}"), rules.family)),
        Place::Node(_) | Place::Pod(_) => None,
    }
}
