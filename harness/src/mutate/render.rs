//! The page for a terminal.

use std::collections::BTreeMap;

use super::counts::Counts;
use super::mutant::{Baseline, Example, Mutant, MutantStatus, Mutants, Tried};
use crate::page::{BAD, FAINT, Page, Settings};
use crate::text::{counted, printable};

/// The level of detail of the page.
#[derive(Debug, Clone, Copy, Default)]
pub struct Detail {
    /// List all mutants that the tests missed, not only the first of each kind.
    pub all_missed: bool,
    /// The requested number of mutants.
    pub sample: Option<usize>,
}

/// The number of mutants of a kind that are listed as missed by the tests.
const OF_A_KIND: usize = 1;

/// A column of the table.
struct Column {
    heading: &'static str,
    meaning: &'static str,
    count: fn(&Counts) -> usize,
    shown: Shown,
}

/// When a column is shown.
#[derive(PartialEq)]
enum Shown {
    Always,
    /// If the scenario has tests.
    WithTests,
    /// If it counts at least one mutant.
    IfAny,
}

const COLUMNS: [Column; 7] = [
    Column { heading: "equivalent", meaning: "no flow differs", count: |of| of.equivalent, shown: Shown::Always },
    Column { heading: "tests", meaning: "a test fails", count: |of| of.killed_by_tests, shown: Shown::WithTests },
    Column {
        heading: "verify",
        meaning: "`svclab verify` fails",
        count: |of| of.killed_by_verify,
        shown: Shown::Always,
    },
    Column {
        heading: "missed",
        meaning: "verify fails, but no test does",
        count: |of| of.missed_by_tests,
        shown: Shown::WithTests,
    },
    Column {
        heading: "before",
        meaning: "`svclab verify` already fails on the unmodified rules, and passes with the mutation",
        count: |of| of.failing_before,
        shown: Shown::IfAny,
    },
    Column {
        heading: "unspecified",
        meaning: "flows differ in what the Service API does not specify",
        count: |of| of.unspecified,
        shown: Shown::IfAny,
    },
    Column {
        heading: "survived",
        meaning: "flows differ, and verify passes",
        count: |of| of.survived,
        shown: Shown::Always,
    },
];

/// Renders the results of a scenario's mutants: a row for each kind of mutation, the failures without one, the mutants that the tests
/// missed, and those that survived.
pub fn page(mutants: &Mutants, detail: Detail, settings: Settings) -> String {
    let mut page = Page::new(settings);
    page.line(0, format!("{}  {}", mutants.name, printable(&mutants.file)));
    match &mutants.result {
        Ok(tried) => {
            write_table(&mut page, tried);
            write_sample(&mut page, tried, detail.sample);
            write_baseline(&mut page, &tried.baseline);
            write_missed(&mut page, tried, detail);
            let survived = tried.mutants.iter().filter(|mutant| mutant.result == MutantStatus::Survived);
            survived.for_each(|mutant| write_mutant(&mut page, "survived", mutant));
            page.line(2, format!("{:.1} s", mutants.duration.as_secs_f64()));
        }
        Err(trouble) => {
            page.line(2, &trouble.message);
            trouble.help.iter().for_each(|help| page.line(2, format!("help: {help}")));
        }
    }
    page.gap();
    page.finish()
}

/// Renders the totals of several scenarios; empty for one.
pub fn summary(all: &[Mutants], settings: Settings) -> String {
    let mut page = Page::new(settings);
    if all.len() < 2 {
        return page.finish();
    }
    let tried: Vec<&Tried> = all.iter().filter_map(|mutants| mutants.result.as_ref().ok()).collect();
    let failed = match all.len() - tried.len() {
        0 => String::new(),
        failed => format!(", {failed} not tried"),
    };
    page.line(0, counted(tried.len(), "scenario") + &failed);
    let counts = Counts::of(tried.iter().flat_map(|tried| &tried.mutants));
    let columns = columns(&counts, tried.iter().any(|tried| tried.baseline.tests > 0));
    page.table(2, &headings(&columns), &[row("all", &counts, &columns)]);
    page.finish()
}

/// Writes the number of mutants of each kind, and what the columns mean.
fn write_table(page: &mut Page, Tried { mutants, baseline, .. }: &Tried) {
    let mut kinds: BTreeMap<&str, Counts> = BTreeMap::new();
    for mutant in mutants {
        kinds.entry(&mutant.operator).or_default().add(mutant);
    }
    let all = Counts::of(mutants);
    let columns = columns(&all, baseline.tests > 0);
    let rows = kinds.iter().map(|(name, counts)| row(name, counts, &columns));
    let rows: Vec<Vec<String>> = rows.chain([row("all", &all, &columns)]).collect();
    page.table(2, &headings(&columns), &rows);
    let widest = columns.iter().map(|column| column.heading.len()).max().unwrap_or(0);
    for Column { heading, meaning, .. } in columns {
        page.labelled(4, page.paint(FAINT, format!("{heading:widest$}  ")), page.paint(FAINT, meaning));
    }
}

fn columns(all: &Counts, has_tests: bool) -> Vec<&'static Column> {
    let is_shown = |column: &&Column| match column.shown {
        Shown::Always => true,
        Shown::WithTests => has_tests,
        Shown::IfAny => (column.count)(all) > 0,
    };
    COLUMNS.iter().filter(is_shown).collect()
}

fn headings(columns: &[&Column]) -> Vec<&'static str> {
    ["", "mutants"].into_iter().chain(columns.iter().map(|column| column.heading)).collect()
}

fn row(name: &str, counts: &Counts, columns: &[&Column]) -> Vec<String> {
    let numbers = columns.iter().map(|column| (column.count)(counts));
    let numbers = std::iter::once(counts.mutants).chain(numbers).map(|number| number.to_string());
    std::iter::once(name.to_owned()).chain(numbers).collect()
}

/// Writes the number of mutants if it is not the requested number.
fn write_sample(page: &mut Page, tried: &Tried, sample: Option<usize>) {
    let all = tried.mutants.len() + tried.rejected;
    if let Some(asked) = sample.filter(|asked| *asked > all) {
        page.line(2, format!("--sample {asked}: only {all} mutants exist"));
    }
    if tried.rejected > 0 {
        page.line(2, format!("the kernel rejected {}", counted(tried.rejected, "other mutant")));
    }
}

/// Writes the failures without a mutation.
fn write_baseline(page: &mut Page, baseline: &Baseline) {
    if !baseline.failing_tests.is_empty() {
        let names: Vec<String> = baseline.failing_tests.iter().map(|name| format!("`{name}`")).collect();
        let names = names.join(", ");
        page.line(2, format!("already fails on the unmodified rules, so it cannot kill mutants: {names}"));
    }
    if baseline.failing_flows > 0 {
        let flows = counted(baseline.failing_flows, "flow");
        page.line(2, format!("on the unmodified rules `svclab verify` fails for {flows}"));
    }
}

/// Writes the mutants that verify detects and the tests do not, by kind.
fn write_missed(page: &mut Page, tried: &Tried, detail: Detail) {
    if tried.baseline.tests == 0 {
        return page.line(2, "the scenario has no tests");
    }
    let mut kinds: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in tried.mutants.iter().filter(|mutant| mutant.is_missed()) {
        kinds.entry(&mutant.operator).or_default().push(mutant);
    }
    let most = if detail.all_missed { usize::MAX } else { OF_A_KIND };
    kinds
        .values()
        .flat_map(|of_kind| of_kind.iter().take(most))
        .for_each(|mutant| write_mutant(page, "missed", mutant));
    let left_out: usize = kinds.values().map(|of_kind| of_kind.len().saturating_sub(most)).sum();
    if left_out > 0 {
        page.line(2, format!("and {left_out} more that the tests missed: use --missed to list all"));
    }
}

/// Writes a mutant with its change.
fn write_mutant(page: &mut Page, what: &str, mutant: &Mutant) {
    let what = if mutant.result == MutantStatus::Survived { page.paint(BAD, what) } else { what.to_owned() };
    page.line(2, format!("{what}: {mutant}"));
    page.labelled(4, "before  ", &mutant.before);
    mutant.after.iter().for_each(|after| page.labelled(4, "after   ", after));
    if let Some(Example { flow, before, after }) = &mutant.example {
        let (flows, verb) = (counted(mutant.flows, "flow"), if mutant.flows == 1 { "differs" } else { "differ" });
        page.line(4, format!("{flows} {verb}, for example {flow}"));
        page.labelled(6, "before  ", before);
        page.labelled(6, "after   ", after);
    }
}
