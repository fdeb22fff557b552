//! Wording that the renderers share.

use super::model::{Case, Difference, Problem, Results};
use crate::environment::{Environment, Implementation};
use crate::text::counted;

/// The counts, including tests that were filtered out or not started.
pub(super) fn all_counts(results: &Results) -> String {
    let mut words = results.counts().to_string();
    if results.filtered > 0 {
        words += &format!(", {} filtered out", results.filtered);
    }
    if results.not_started > 0 {
        words += &format!(", {} not started", results.not_started);
    }
    if let Some(shard) = &results.shard {
        words += &format!(" (shard {} of {})", shard.number, shard.total);
    }
    if let Some(seed) = results.seed {
        words += &format!(" (--shuffle {seed})");
    }
    words
}

/// The machine and the programs: each with its name.
pub(super) fn environment(environment: &Environment) -> Vec<(&'static str, String)> {
    let none = || "not installed".to_owned();
    let iptables = environment.iptables.as_ref();
    let backend = iptables.map_or("none", |iptables| match iptables.backend {
        Implementation::Nft => "iptables-nft",
        Implementation::Legacy => "iptables-legacy",
    });
    let machine = &environment.machine;
    vec![
        ("svclab", environment.svclab_version.clone()),
        ("kernel", environment.kernel.clone()),
        ("iptables", iptables.map_or_else(none, |iptables| iptables.version.clone())),
        ("backend", backend.to_owned()),
        ("nft", environment.nft.clone().unwrap_or_else(none)),
        ("machine", format!("{}, {}", machine.architecture, counted(machine.cpus, "CPU"))),
    ]
}

/// A difference in one line.
pub(super) fn difference(difference: &Difference) -> String {
    let Difference { field, expected, observed, reason } = difference;
    format!("{field}: expected {expected}, observed {observed}: {reason}")
}

/// The first failure of a test, in one line.
pub(super) fn headline(case: &Case) -> String {
    let differences: Vec<&Difference> = case.checks.iter().flat_map(|check| &check.differences).collect();
    if let Some(error) = &case.error {
        return error.message.clone();
    }
    match differences.as_slice() {
        [] => {
            let meanings = case.checks.iter().filter_map(|check| check.diagnosis.as_ref());
            meanings.map(|sources| sources.meaning.clone()).next().unwrap_or_else(|| case.name.clone())
        }
        [only] => difference(only),
        [first, others @ ..] => format!("{} (and {} more)", difference(first), others.len()),
    }
}

/// The attempts of a test, if there were several: `2, the last of which passed; before: ...`, `3, none of which passed`.
pub(super) fn attempts(case: &Case) -> Option<String> {
    let last = case.earlier.last()?;
    let number = case.earlier.len() + 1;
    Some(if case.flaky {
        format!("{number}, the last of which passed; before: {}", headline(last))
    } else {
        format!("{number}, none of which passed")
    })
}

/// An error with its fix, in lines.
pub(super) fn problem(problem: &Problem) -> String {
    let help = problem.help.as_ref().map(|help| format!("\n{help}")).unwrap_or_default();
    format!("{}{help}", problem.message)
}
