//! How rules share new connections out among a service's endpoints, for people and programs to read.
//!
//! 1. [`input`]: text of any format that shows rules, or a scenario → [`Report`];
//! 2. `sample`: counts of real packets, compared with the exact shares;
//! 3. [`console`], [`json`], [`svg`]: a report as a page, as JSON, as a picture; `figures`: its numbers as text.
//!
//! The shares themselves are [`svclab_rules::cascade`]'s.

pub mod console;
mod figures;
pub mod input;
pub mod json;
pub(crate) mod sample;
pub mod svg;
#[cfg(test)]
mod tests;

use svclab_rules::cascade::{Assessment, Cascade, FrameDefect};

use crate::input::Form;
use crate::input::did_you_mean;
use sample::Sample;

/// The cascades of one rule set.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Where the rules come from: `rules.txt, as iptables-save shows them`.
    pub source: String,
    /// The form that they were read in.
    pub form: Form,
    /// Whether the text shows only some lines of a rule set: a rule that it lacks may change every share.
    pub is_part: bool,
    /// Notes on all shares: sentences without their full stops.
    pub notes: Vec<String>,
    /// What lines of rules could not be read, in words: each may change every share.
    pub(crate) rules_not_read: Option<String>,
    /// What is wrong with the rules as a whole: missing jumps to kube-proxy's chains, rules that a chain has several times.
    pub frame_defects: Vec<FrameDefect>,
    /// The cascades, in the order of the rules.
    pub cascades: Vec<Cascade>,
    /// The results of real packets, for each cascade; empty if none were sent.
    pub(crate) samples: Vec<Option<Sample>>,
}

/// No service is called so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("these rules contain no load-balanced service `{name}`")]
pub struct UnknownService {
    /// The name.
    pub name: String,
    /// What to do: a full sentence.
    pub help: String,
}

impl Report {
    /// How many defects the rules have, as a whole and in all cascades.
    pub fn defects(&self) -> usize {
        self.frame_defects.len() + self.cascades.iter().map(|cascade| cascade.defects.len()).sum::<usize>()
    }

    /// How many things all cascades leave unknown.
    pub fn unknown(&self) -> usize {
        usize::from(self.rules_not_read.is_some())
            + self.cascades.iter().map(|cascade| cascade.unknown.len()).sum::<usize>()
    }

    /// Whether every share is known and even, and connections come to the cascades.
    pub fn is_even(&self) -> bool {
        self.rules_not_read.is_none()
            && self.frame_defects.is_empty()
            && self.cascades.iter().all(|cascade| cascade.assessment() == Assessment::Even)
    }

    /// The results of real packets through a cascade, by its position.
    pub(crate) fn sample(&self, cascade: usize) -> Option<&Sample> {
        self.samples.get(cascade)?.as_ref()
    }

    /// Whether packets went as the rules have it, as far as any were sent.
    pub fn samples_fit(&self) -> bool {
        self.samples.iter().flatten().all(Sample::held)
    }

    /// Leaves the cascades of one service: by its name, with its Kubernetes namespace or port or without, or by its chain. Samples
    /// are taken behind this, and are left out.
    ///
    /// # Errors
    ///
    /// If there is none; the help names the nearest one.
    pub fn retain(&mut self, name: &str) -> Result<(), UnknownService> {
        let known: Vec<String> = self.cascades.iter().map(|cascade| cascade.service.clone()).collect();
        self.cascades.retain(|cascade| is_called(cascade, name));
        self.samples.clear();
        // Of rules that the kernel rejects, no shares are known of any service.
        if !self.cascades.is_empty() || known.is_empty() {
            return Ok(());
        }
        let mut names: Vec<&str> = known.iter().map(String::as_str).collect();
        names.dedup();
        let listed = || match names.len() {
            count if count > MAX_NAMES => format!("There are {count} services, as `{}`.", names[0]),
            _ => format!("Choose one of these: {}.", names.join(", ")),
        };
        let help = did_you_mean(name, &names).unwrap_or_else(listed);
        Err(UnknownService { name: name.to_owned(), help })
    }
}

/// Services that are listed where none was found.
const MAX_NAMES: usize = 20;

/// `default/web:http` is called so, and `default/web`, `web:http` and `web`.
fn is_called(cascade: &Cascade, name: &str) -> bool {
    let whole = cascade.service.as_str();
    let without_namespace = whole.split_once('/').map_or(whole, |(_, rest)| rest);
    let is = |one: &str| one == name || one.split_once(':').is_some_and(|(service, _)| service == name);
    is(whole) || is(without_namespace) || cascade.chain == name
}
