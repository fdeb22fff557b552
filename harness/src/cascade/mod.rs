//! How rules balance new connections among a service's endpoints, as reports for people and programs.
//!
//! 1. [`input`]: rules in any format, or a scenario → [`Report`];
//! 2. `sample`: counts of real packets, compared with the exact shares;
//! 3. [`console`], [`json`], [`svg`]: a report as a page, as JSON, as a picture; `figures`: its numbers as text.
//!
//! The shares themselves are [`svclab_rules::cascade`]'s.

mod before_services;
pub mod console;
mod figures;
pub mod input;
pub mod json;
pub(crate) mod sample;
pub mod svg;
#[cfg(test)]
mod tests;

use svclab_rules::cascade::{Assessment, Cascade, StructureDefect};

use crate::input::InputKind;
use crate::input::did_you_mean;
use sample::Sample;

/// The cascades of one rule set.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The source of the rules: `rules.txt, in the format of iptables-save`.
    pub source: String,
    /// The kind of the input.
    pub kind: InputKind,
    /// Whether the text contains only some lines of a rule set: a missing rule may change every share.
    pub is_part: bool,
    /// Notes on all shares: sentences without full stops.
    pub notes: Vec<String>,
    /// A description of lines of rules that could not be read: each may change every share.
    pub(crate) rules_not_read: Option<String>,
    /// Defects of the rules as a whole: missing jumps to kube-proxy's chains, duplicate rules.
    pub structure_defects: Vec<StructureDefect>,
    /// The cascades, in the order of the rules.
    pub cascades: Vec<Cascade>,
    /// The place of the rules, for each cascade; empty if the input has one rule set.
    pub(crate) places: Vec<String>,
    /// The results of real packets, for each cascade; empty if none were sent.
    pub(crate) samples: Vec<Option<Sample>>,
}

/// There is no such service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("these rules contain no load-balanced service `{name}`")]
pub struct UnknownService {
    /// The name.
    pub name: String,
    /// How to fix it: a full sentence.
    pub help: String,
}

impl Report {
    /// Returns the number of defects, of the rules as a whole and in all cascades.
    pub fn defects(&self) -> usize {
        self.structure_defects.len() + self.cascades.iter().map(|cascade| cascade.defects.len()).sum::<usize>()
    }

    /// Returns the number of unknown parts in all cascades.
    pub fn unknown(&self) -> usize {
        usize::from(self.rules_not_read.is_some())
            + self.cascades.iter().map(|cascade| cascade.unknown.len()).sum::<usize>()
    }

    /// Returns whether every share is known and even, and connections reach the cascades.
    pub fn is_even(&self) -> bool {
        self.rules_not_read.is_none()
            && self.structure_defects.is_empty()
            && self.cascades.iter().all(|cascade| cascade.assessment() == Assessment::Even)
    }

    /// Returns the results of real packets through a cascade, by its position.
    pub(crate) fn sample(&self, cascade: usize) -> Option<&Sample> {
        self.samples.get(cascade)?.as_ref()
    }

    /// Returns the place of a cascade's rules if the input has several rule sets, by its position.
    pub(crate) fn place(&self, cascade: usize) -> Option<&str> {
        self.places.get(cascade).map(String::as_str)
    }

    /// Returns the position and service of each cascade that packets were sent through, and whether they agree with the rules.
    #[doc(hidden)]
    pub fn sampled(&self) -> impl Iterator<Item = (usize, &str, bool)> {
        let all = self.cascades.iter().zip(&self.samples).enumerate();
        all.filter_map(|(number, (cascade, sample))| {
            Some((number, cascade.service.as_str(), sample.as_ref()?.agrees()))
        })
    }

    /// Returns whether the packets sent agree with the rules.
    pub fn samples_fit(&self) -> bool {
        self.samples.iter().flatten().all(Sample::agrees)
    }

    /// Keeps only the cascades of one service: by its name, with or without its Kubernetes namespace and port, or by its chain. Samples are
    /// removed, as they are taken later.
    ///
    /// # Errors
    ///
    /// If there is none; the help suggests the most similar name.
    pub fn retain(&mut self, name: &str) -> Result<(), UnknownService> {
        let known: Vec<String> = self.cascades.iter().map(|cascade| cascade.service.clone()).collect();
        let mut are_kept = self.cascades.iter().map(|cascade| has_name(cascade, name));
        self.places.retain(|_| are_kept.next().unwrap_or(false));
        self.cascades.retain(|cascade| has_name(cascade, name));
        self.samples.clear();
        // For rules that the kernel rejects, the shares of all services are unknown.
        if !self.cascades.is_empty() || known.is_empty() {
            return Ok(());
        }
        let mut names: Vec<&str> = known.iter().map(String::as_str).collect();
        names.dedup();
        let listed = || match names.len() {
            count if count > MAX_NAMES => format!("There are {count} services, such as `{}`.", names[0]),
            _ => format!("Choose one of these: {}.", names.join(", ")),
        };
        let help = did_you_mean(name, &names).unwrap_or_else(listed);
        Err(UnknownService { name: name.to_owned(), help })
    }
}

/// Maximum number of services listed if none was found.
const MAX_NAMES: usize = 20;

/// Returns whether a name matches a cascade: for `default/web:http`, also `default/web`, `web:http` and `web`.
fn has_name(cascade: &Cascade, name: &str) -> bool {
    let whole = cascade.service.as_str();
    let without_namespace = whole.split_once('/').map_or(whole, |(_, rest)| rest);
    let is = |one: &str| one == name || one.split_once(':').is_some_and(|(service, _)| service == name);
    is(whole) || is(without_namespace) || cascade.chain == name
}
