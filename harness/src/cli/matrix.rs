//! A command on several kernels: the results that differ, then each kernel's own.

use std::collections::BTreeMap;

use super::Exit;
use super::console::Console;
use svclab::explain::{Explanation, KernelRun};

/// What a command found on one of several kernels.
#[derive(Debug)]
pub(super) struct OnKernel<T> {
    /// The release, as `uname -r` prints it; if several kernels have the same, also the kernel as it was given.
    pub(super) name: String,
    /// The result, unless there is none: then the reason has been reported.
    pub(super) result: Result<T, Exit>,
}

/// Results that are compared between kernels, by a key that orders them.
pub(super) type Outcomes<K> = BTreeMap<K, Outcome>;

/// A result that may differ between kernels: of a test, of a mutant, of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The test, mutant or check whose result it is.
    pub(super) of: String,
    /// The result in words: `ok`, `FAILED`.
    pub(super) result: String,
}

/// How results are compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compared {
    /// What has results, in the plural: `tests`.
    pub(super) what: &'static str,
    /// The result where there is none: `not run`.
    pub(super) missing: &'static str,
}

/// Prints the differences first, then the results of each kernel; returns the most severe exit code.
pub(super) fn show<T, K: Ord>(
    all: &[OnKernel<T>],
    compared: Compared,
    console: &Console,
    outcomes: impl Fn(&T) -> Outcomes<K>,
    page: impl Fn(&T) -> String,
    exit: impl Fn(&T) -> Exit,
) -> Exit {
    let columns = columns(all, outcomes);
    console.text(differences(&columns, compared));
    for OnKernel { name, result } in all {
        let page = result.as_ref().map_or_else(|_| "no result\n".to_owned(), &page);
        if !page.is_empty() {
            console.text(format!("\nkernel {name}\n{}\n", page.trim_end()));
        }
    }
    most_severe(all, exit)
}

/// Returns the most severe of several exit codes.
pub(super) fn most_severe<T>(all: &[OnKernel<T>], exit: impl Fn(&T) -> Exit) -> Exit {
    let exits = all.iter().map(|one| one.result.as_ref().map_or_else(|failed| *failed, &exit));
    exits.max_by_key(|exit| exit.code()).unwrap_or(Exit::Held)
}

/// Returns the results of the kernels that have any.
fn columns<T, K: Ord>(all: &[OnKernel<T>], outcomes: impl Fn(&T) -> Outcomes<K>) -> Vec<(&str, Outcomes<K>)> {
    all.iter().filter_map(|one| Some((one.name.as_str(), outcomes(one.result.as_ref().ok()?)))).collect()
}

fn differences<K: Ord>(columns: &[(&str, Outcomes<K>)], Compared { what, missing }: Compared) -> String {
    let count = columns.len();
    if count < 2 {
        return "Nothing to compare: fewer than two kernels have results.\n".to_owned();
    }
    let keys: BTreeMap<&K, &str> =
        columns.iter().flat_map(|(_, found)| found).map(|(key, outcome)| (key, outcome.of.as_str())).collect();
    let row = |(key, of): (&K, &str)| {
        let result =
            |(_, found): &(&str, Outcomes<K>)| found.get(key).map_or(missing, |outcome| &outcome.result).to_owned();
        let results: Vec<String> = columns.iter().map(result).collect();
        if results.iter().all(|result| *result == results[0]) {
            return None;
        }
        let width = results.iter().map(|result| result.chars().count()).max().unwrap_or_default();
        let cells = results.iter().zip(columns).map(|(result, (name, _))| format!("\n  {result:width$}  {name}"));
        Some(format!("{of}{}\n", cells.collect::<String>()))
    };
    let found: Vec<String> = keys.into_iter().filter_map(row).collect();
    match found.len() {
        0 => format!("All {what} have the same result on {count} kernels.\n"),
        1 => format!("1 result differs between kernels:\n{}", found.concat()),
        differing => format!("{differing} results differ between kernels:\n{}", found.concat()),
    }
}

/// Describes what several kernels did with one packet: first whether they differ.
pub(super) fn explained(all: &[(&str, &Explanation)]) -> String {
    let kernels: Vec<(&str, &KernelRun)> =
        all.iter().filter_map(|(name, one)| one.kernel.as_ref().map(|kernel| (*name, kernel))).collect();
    let is_alike = |(_, one): &(&str, &KernelRun)| {
        let (_, first) = kernels[0];
        (&one.observed, one.matched, &one.divergence) == (&first.observed, first.matched, &first.divergence)
    };
    let is_random = all.iter().any(|(_, one)| one.paths.len() > 1);
    let count = kernels.len();
    let first = if count < 2 {
        "Nothing to compare: fewer than two kernels have results:\n".to_owned()
    } else if kernels.iter().all(is_alike) {
        format!("{count} kernels handle the packet in the same way:\n")
    } else if is_random && kernels.iter().all(|(_, kernel)| kernel.agrees()) {
        format!("{count} kernels handle the packet as predicted; rules choose its path at random:\n")
    } else {
        format!("{count} kernels handle the packet differently:\n")
    };
    let width = kernels.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let of_kernel = |(name, kernel): &(&str, &KernelRun)| {
        let (observed, matched) = (&kernel.observed, kernel.matched);
        let agrees = if kernel.agrees() { "as predicted" } else { "not as predicted" };
        format!("  {name:width$}  {observed}; {matched} rules matched, {agrees}\n")
    };
    first + &kernels.iter().map(of_kernel).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: Compared = Compared { what: "tests", missing: "not run" };

    /// Returns a kernel on which tests end with these results.
    fn on<'k>(name: &'k str, results: &[&str]) -> (&'k str, Outcomes<usize>) {
        let outcome = |(number, result): (usize, &&str)| {
            (number, Outcome { of: format!("a.yaml: test {number}"), result: (*result).to_owned() })
        };
        (name, results.iter().enumerate().map(outcome).collect())
    }

    #[test]
    fn results_that_are_alike_are_not_listed() {
        let all = [on("6.1", &["ok", "FAILED"]), on("6.12", &["ok", "FAILED"])];
        assert_eq!(differences(&all, TESTS), "All tests have the same result on 2 kernels.\n");
    }

    #[test]
    fn results_that_differ_are_listed_by_kernel() {
        let expected = "\
1 result differs between kernels:
a.yaml: test 1
  FAILED   6.1
  not run  6.12
  FAILED   6.18
";
        let all = [on("6.1", &["ok", "FAILED"]), on("6.12", &["ok"]), on("6.18", &["ok", "FAILED"])];
        assert_eq!(differences(&all, TESTS), expected);
    }

    /// A kernel that does not start is neither alike nor different.
    #[test]
    fn kernels_without_results_are_not_compared() {
        let found = |name: &str, result| OnKernel { name: name.to_owned(), result };
        let all = [found("6.1", Ok(())), found("6.12", Err(Exit::Environment))];
        let columns = columns(&all, |()| on("", &["ok"]).1);
        assert_eq!(differences(&columns, TESTS), "Nothing to compare: fewer than two kernels have results.\n");
        assert_eq!(most_severe(&all, |()| Exit::Failed), Exit::Environment);
    }
}
