//! Mutants to try.

use svclab_rules::cluster::{Family, ProxyMode};
use svclab_rules::mutate::{Change, Rules, changes, sample};
use svclab_rules::{iptables, nftables};

use super::Options;
use crate::documents::Document;
use crate::predict::PredictError;
use crate::run::RunError;
use crate::scenario::{Install, OtherRules, Place};

/// A mutant to try.
pub(super) struct Candidate {
    /// Which document it is made of.
    pub(super) document: usize,
    pub(super) change: Change,
}

/// Documents, read.
pub(super) struct Originals<'a> {
    documents: &'a [Document],
    rules: Vec<Rules>,
}

impl<'a> Originals<'a> {
    /// Reads documents.
    ///
    /// # Errors
    ///
    /// The first that cannot be read.
    pub(super) fn read(documents: &'a [Document]) -> Result<Self, RunError> {
        let rules = documents
            .iter()
            .map(|document| read(document).map_err(|errors| PredictError::unreadable(document.netns.clone(), &errors)));
        Ok(Self { documents, rules: rules.collect::<Result<_, PredictError>>()? })
    }

    /// All that can go wrong with them that a kernel takes, or a sample of it. Where rules are given instead of kube-proxy's, mistakes
    /// are made in these alone.
    pub(super) fn candidates(&self, given: &[OtherRules], options: &Options) -> Vec<Candidate> {
        let instead: Vec<(String, Family)> = given.iter().filter_map(instead_of_generated).collect();
        let is_meant = |document: &Document| {
            instead.is_empty()
                || instead.iter().any(|(netns, family)| (netns, *family) == (&document.netns, document.family))
        };
        let all: Vec<Candidate> = (0..)
            .zip(&self.rules)
            .filter(|(document, _)| is_meant(&self.documents[*document]))
            .flat_map(|(document, rules)| changes(rules).into_iter().map(move |change| Candidate { document, change }))
            .collect();
        let number = options.sample.unwrap_or(all.len());
        let mut chosen = sample(all, number, options.seed);
        chosen.retain(|candidate| {
            let rules = candidate.change.apply(&self.rules[candidate.document]);
            rules.is_sound(self.documents[candidate.document].family)
        });
        chosen
    }

    /// A mutant, as it is installed.
    pub(super) fn mutated(&self, candidate: &Candidate) -> Document {
        let text = candidate.change.apply(&self.rules[candidate.document]).print();
        Document { text, ..self.documents[candidate.document].clone() }
    }
}

/// The namespace and family in which rules stand instead of kube-proxy's.
fn instead_of_generated(rules: &OtherRules) -> Option<(String, Family)> {
    match &rules.place {
        Place::Node(node) if rules.install == Install::Instead => Some((format!("node/{node}"), rules.family)),
        Place::Node(_) | Place::Pod(_) => None,
    }
}

fn read(document: &Document) -> Result<Rules, Vec<String>> {
    match document.mode {
        ProxyMode::Iptables => match iptables::parse(&document.text, document.family) {
            Ok(parsed) => Ok(Rules::Iptables(parsed.rules)),
            Err(errors) => Err(errors.iter().map(ToString::to_string).collect()),
        },
        ProxyMode::Nftables => match nftables::parse(&document.text) {
            Ok(parsed) => Ok(Rules::Nftables(parsed.rules)),
            Err(errors) => Err(errors.iter().map(ToString::to_string).collect()),
        },
    }
}
