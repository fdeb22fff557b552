//! The table for the terminal.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::counts::Counts;
use super::mutant::{Baseline, Fate, Mutant, Mutants, Tried};
use crate::text::{counted, printable};

/// The level of detail of the table.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// List all mutants that the tests missed, not only the first of each kind.
    pub all_missed: bool,
}

/// The number of mutants of a kind that are listed as missed by the tests.
const OF_A_KIND: usize = 1;

/// The meaning of the columns.
const LEGEND: &str = "  \
  equivalent: no flow differs; tests: a test fails; verify: `svclab verify` fails; missed: verify fails, but no test\n  \
  before: verify fails only without the mutation; unspecified: flows differ in what the Service API does not specify\n  \
  survived: flows differ, and verify passes\n";

/// Renders the results of a scenario's mutants: a row for each kind of mutation, the failures without one, the mutants that the tests
/// missed, and those that survived.
pub fn table(mutants: &Mutants, style: Style) -> String {
    let mut text = format!("{}  {}\n", mutants.name, printable(&mutants.file));
    let tried = match &mutants.result {
        Ok(tried) => tried,
        Err(trouble) => {
            let _ = writeln!(text, "  {}", trouble.message);
            if let Some(help) = &trouble.help {
                let _ = writeln!(text, "  help: {help}");
            }
            return text + "\n";
        }
    };
    let mut rows: BTreeMap<&str, Counts> = BTreeMap::new();
    for mutant in &tried.mutants {
        rows.entry(mutant.operator).or_default().add(mutant);
    }
    text += &heading();
    text.extend(rows.iter().map(|(name, counts)| row(name, counts)));
    text += &row("all", &Counts::of(&tried.mutants));
    text += LEGEND;
    text += &baseline(&tried.baseline);
    text += &missed(tried, style);
    for mutant in tried.mutants.iter().filter(|mutant| mutant.fate == Fate::Survived) {
        text += &one("survived", mutant);
    }
    let _ = writeln!(text, "  {:.1} s\n", mutants.duration.as_secs_f64());
    text
}

/// Renders the sum over several scenarios; nothing for one.
pub fn summary(all: &[Mutants]) -> String {
    let tried: Vec<&Tried> = all.iter().filter_map(|mutants| mutants.result.as_ref().ok()).collect();
    if all.len() < 2 {
        return String::new();
    }
    let counts = Counts::of(tried.iter().flat_map(|tried| &tried.mutants));
    let mut text = counted(tried.len(), "scenario");
    if tried.len() < all.len() {
        let _ = write!(text, ", {} not tried", all.len() - tried.len());
    }
    text + "\n" + &heading() + &row("all", &counts)
}

fn heading() -> String {
    let [a, b, c, d, e, f, g, h] =
        ["mutants", "equivalent", "tests", "verify", "missed", "before", "unspecified", "survived"];
    format!("  {:20}{a:>8}{b:>12}{c:>8}{d:>8}{e:>8}{f:>8}{g:>13}{h:>10}\n", "")
}

fn row(name: &str, counts: &Counts) -> String {
    let Counts { mutants, equivalent, survived, .. } = counts;
    let Counts { killed_by_tests, killed_by_verify, missed_by_tests, failing_before, unspecified, .. } = counts;
    format!(
        "  {name:20}{mutants:>8}{equivalent:>12}{killed_by_tests:>8}{killed_by_verify:>8}{missed_by_tests:>8}\
         {failing_before:>8}{unspecified:>13}{survived:>10}\n"
    )
}

/// Renders the failures without a mutation.
fn baseline(baseline: &Baseline) -> String {
    let mut text = String::new();
    if !baseline.failing_tests.is_empty() {
        let names: Vec<String> = baseline.failing_tests.iter().map(|name| format!("`{name}`")).collect();
        let _ =
            writeln!(text, "  already fails on the unmodified rules, so it cannot kill mutants: {}", names.join(", "));
    }
    if baseline.failing_flows > 0 {
        let flows = counted(baseline.failing_flows, "flow");
        let _ = writeln!(text, "  on the unmodified rules `svclab verify` fails for {flows}");
    }
    text
}

/// Renders the mutants that verify detects and the tests do not, by kind.
fn missed(tried: &Tried, style: Style) -> String {
    let mut text = String::new();
    if tried.baseline.tests == 0 {
        return "  the scenario has no tests\n".to_owned();
    }
    let mut kinds: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in tried.mutants.iter().filter(|mutant| mutant.is_missed()) {
        kinds.entry(mutant.operator).or_default().push(mutant);
    }
    let mut left_out = 0;
    for of_kind in kinds.values() {
        let shown = if style.all_missed { of_kind.len() } else { of_kind.len().min(OF_A_KIND) };
        text.extend(of_kind[..shown].iter().map(|mutant| one("missed", mutant)));
        left_out += of_kind.len() - shown;
    }
    if left_out > 0 {
        let _ = writeln!(text, "  and {left_out} more that the tests missed; use --missed to list all");
    }
    text
}

/// Renders a mutant with its change.
fn one(what: &str, mutant: &Mutant) -> String {
    let Mutant { operator, netns, family, table, holder, name, number, was, .. } = mutant;
    let mut text = format!("  {what}: {operator}, {netns} {family}, table {table}, {holder} {name}, {number}: {was}\n");
    if let Some(is) = &mutant.is {
        let _ = writeln!(text, "    now {is}");
    }
    if let Some(example) = &mutant.example {
        let (flows, verb) = (counted(mutant.flows, "flow"), if mutant.flows == 1 { "differs" } else { "differ" });
        let _ = writeln!(text, "    {flows} {verb}: {example}");
    }
    text
}
