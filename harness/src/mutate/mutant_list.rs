//! Mutants to try.

use std::sync::Arc;

use svclab_rules::cluster::Family;
use svclab_rules::mutate::{Change, changes, sample};

use super::Options;
use crate::documents::Document;
use crate::scenario::{Install, OtherRules, Place};

/// A mutant to try.
pub(super) struct Candidate {
    /// The position of the document that it changes.
    pub(super) document: usize,
    pub(super) change: Change,
}

/// The documents that mutants are derived from.
pub(super) struct Originals<'a>(pub(super) &'a [Document]);

impl Originals<'_> {
    /// Returns the mutants that a kernel accepts, out of all or of a sample, and the number of those that it rejects. Where rules replace
    /// kube-proxy's, only these are mutated.
    pub(super) fn candidates(&self, given: &[OtherRules], options: &Options) -> (Vec<Candidate>, usize) {
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
        let tried = chosen.len();
        chosen.retain(|candidate| {
            let document = &self.0[candidate.document];
            candidate.change.apply(&document.rules).is_sound(document.family)
        });
        let rejected = tried - chosen.len();
        (chosen, rejected)
    }

    /// Returns a mutant as a document.
    pub(super) fn mutated(&self, candidate: &Candidate) -> Document {
        let Document { netns, family, rules } = &self.0[candidate.document];
        let rules = Arc::new(candidate.change.apply(rules));
        Document { netns: netns.clone(), family: *family, rules }
    }
}

/// Returns the namespace and family of rules that replace kube-proxy's.
fn instead_of_generated(rules: &OtherRules) -> Option<(String, Family)> {
    match &rules.place {
        Place::Node(node) if rules.install == Install::Instead => Some((format!("node/{node}"), rules.family)),
        Place::Node(_) | Place::Pod(_) => None,
    }
}
