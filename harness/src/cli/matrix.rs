//! Scenarios on several kernels: the tests that differ, then each kernel's results.

use std::collections::BTreeMap;

use super::Exit;
use super::console::Console;
use svclab::explain::{Explanation, KernelRun};
use svclab::report::{RunReport, ScenarioReport, Status, console};
use svclab::text::path_text;

/// The results of a run on one kernel.
pub(super) struct OnKernel {
    /// As `uname -r` prints it.
    pub(super) release: String,
    pub(super) report: RunReport,
}

/// A test whose status is not the same on all kernels.
#[derive(Debug, PartialEq, Eq)]
struct Differing {
    /// `scenarios/a.yaml: the name of the test`.
    test: String,
    /// The status on each kernel; `None` if it was not run.
    statuses: Vec<Option<Status>>,
}

/// Prints the differences first, then the results of each kernel.
pub(super) fn show(all: &[OnKernel], console: &Console) {
    console.text(differences(all));
    for OnKernel { release, report } in all {
        let (settings, failed) = (console.settings(), |one: &&ScenarioReport| one.status() != Status::Ok);
        console.text(format!("kernel {release}\n"));
        report.scenarios.iter().filter(failed).for_each(|one| console.text(console::scenario(one, settings)));
        console.text(console::summary(report, settings));
    }
}

/// Describes what several kernels did with one packet: first whether they differ.
pub(super) fn explained(all: &[(String, Explanation)]) -> String {
    let kernels: Vec<(&str, &KernelRun)> =
        all.iter().filter_map(|(release, one)| one.kernel.as_ref().map(|kernel| (release.as_str(), kernel))).collect();
    let is_alike = |(_, one): &(&str, &KernelRun)| {
        let (_, first) = kernels[0];
        (&one.observed, one.matched, &one.divergence) == (&first.observed, first.matched, &first.divergence)
    };
    let is_random = all.iter().any(|(_, one)| one.paths.len() > 1);
    let count = kernels.len();
    let first = if kernels.iter().all(is_alike) {
        format!("{count} kernels handle the packet in the same way:\n")
    } else if is_random && kernels.iter().all(|(_, kernel)| kernel.agrees()) {
        format!("{count} kernels handle the packet as predicted; rules choose its path at random:\n")
    } else {
        format!("{count} kernels handle the packet differently:\n")
    };
    let width = kernels.iter().map(|(release, _)| release.len()).max().unwrap_or_default();
    let of_kernel = |(release, kernel): &(&str, &KernelRun)| {
        let (observed, matched) = (&kernel.observed, kernel.matched);
        let agrees = if kernel.agrees() { "as predicted" } else { "not as predicted" };
        format!("  {release:width$}  {observed}; {matched} rules matched, {agrees}\n")
    };
    first + &kernels.iter().map(of_kernel).collect::<String>()
}

/// Returns the most severe of several exit codes.
pub(super) fn gravest(exits: impl Iterator<Item = Exit>) -> Exit {
    exits.max_by_key(|exit| exit.code()).unwrap_or(Exit::Held)
}

fn differences(all: &[OnKernel]) -> String {
    let found = differing(all);
    if found.is_empty() {
        return format!("All tests have the same result on {} kernels.\n", all.len());
    }
    let of_test = |Differing { test, statuses }: &Differing| {
        let cells =
            all.iter().zip(statuses).map(|(kernel, status)| format!("\n  {:9} {}", word(*status), kernel.release));
        format!("{test}{}\n", cells.collect::<String>())
    };
    let tests = if found.len() == 1 { "1 test ends".to_owned() } else { format!("{} tests end", found.len()) };
    format!("{tests} differently:\n{}", found.iter().map(of_test).collect::<String>())
}

fn word(status: Option<Status>) -> &'static str {
    match status {
        Some(Status::Ok) => "ok",
        Some(Status::Failed) => "FAILED",
        Some(_) => "ERROR",
        None => "not run",
    }
}

/// Returns the tests with different results, in the order of their files.
fn differing(all: &[OnKernel]) -> Vec<Differing> {
    let mut tests: BTreeMap<(String, u32, usize), Differing> = BTreeMap::new();
    for (number, kernel) in all.iter().enumerate() {
        for scenario in &kernel.report.scenarios {
            let (file, repetition) = (path_text(&scenario.file), scenario.repetition.unwrap_or_default());
            for (index, test) in scenario.tests.iter().enumerate() {
                let key = (file.clone(), repetition, index);
                let of_test = || Differing { test: format!("{file}: {}", test.name), statuses: vec![None; all.len()] };
                tests.entry(key).or_insert_with(of_test).statuses[number] = Some(test.status());
            }
        }
    }
    tests.into_values().filter(|test| test.statuses.iter().any(|status| *status != test.statuses[0])).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use svclab::input::Span;
    use svclab::report::{Cause, TestReport, Trouble};

    /// Returns a kernel on which this many tests end with an error.
    fn on(release: &str, tests: usize) -> OnKernel {
        let file = PathBuf::from("a.yaml");
        let test = |index: usize| TestReport {
            name: format!("test {index}"),
            span: Span { file: file.clone(), line: 1, column: 1 },
            tags: Vec::new(),
            probes: Vec::new(),
            error: Some(Trouble { cause: Cause::Environment, message: "why".to_owned(), help: None, span: None }),
            earlier: Vec::new(),
            duration: Duration::ZERO,
        };
        let mut scenario = ScenarioReport::default();
        scenario.file = file.clone();
        scenario.tests = (0..tests).map(test).collect();
        OnKernel {
            release: release.to_owned(),
            report: RunReport { scenarios: vec![scenario], ..RunReport::default() },
        }
    }

    #[test]
    fn tests_that_end_alike_are_not_listed() {
        assert_eq!(differences(&[on("6.1", 2), on("6.12", 2)]), "All tests have the same result on 2 kernels.\n");
    }

    #[test]
    fn tests_that_differ_are_listed_by_kernel() {
        let expected = "\
1 test ends differently:
a.yaml: test 1
  ERROR     6.1
  not run   6.12
  ERROR     6.18
";
        assert_eq!(differences(&[on("6.1", 2), on("6.12", 1), on("6.18", 2)]), expected);
    }
}
