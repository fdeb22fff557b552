//! The table for a person, and JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json as value};

use super::{Fate, Mutant, Mutants};

/// How many mutants of a kind came to what end.
#[derive(Debug, Default)]
struct Counts {
    all: usize,
    equivalent: usize,
    by_tests: usize,
    by_verify: usize,
    mended: usize,
    open: usize,
    survived: usize,
}

impl Counts {
    fn add(&mut self, mutant: &Mutant) {
        self.all += 1;
        self.by_tests += usize::from(mutant.tests_fail);
        *match mutant.fate {
            Fate::Equivalent => &mut self.equivalent,
            Fate::Killed => &mut self.by_verify,
            Fate::Mended => &mut self.mended,
            Fate::Open => &mut self.open,
            Fate::Survived => &mut self.survived,
        } += 1;
    }

    fn row(&self, name: &str) -> String {
        let Self { all, equivalent, by_tests, by_verify, mended, open, survived } = self;
        format!("  {name:20}{all:>8}{equivalent:>12}{by_tests:>8}{by_verify:>8}{mended:>8}{open:>6}{survived:>10}\n")
    }
}

/// What became of a scenario's mutants: a row for each kind of mistake, then those that survived.
pub fn table(mutants: &Mutants) -> String {
    let mut text = format!("{}  {}\n", mutants.name, mutants.file.display());
    let tried = match &mutants.result {
        Ok(tried) => tried,
        Err(trouble) => {
            let _ = writeln!(text, "  {}\n", trouble.message);
            return text;
        }
    };
    let mut rows: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut sum = Counts::default();
    for mutant in tried {
        rows.entry(mutant.operator).or_default().add(mutant);
        sum.add(mutant);
    }
    let _ = writeln!(
        text,
        "  {:20}{:>8}{:>12}{:>8}{:>8}{:>8}{:>6}{:>10}",
        "", "mutants", "equivalent", "tests", "verify", "mended", "open", "survived"
    );
    text.extend(rows.iter().map(|(name, counts)| counts.row(name)));
    text += &sum.row("all");
    for mutant in tried.iter().filter(|mutant| mutant.fate == Fate::Survived) {
        let Mutant { operator, space, family, table, holder, name, number, was, .. } = mutant;
        let _ =
            writeln!(text, "  survived: {operator}, {space} {family}, table {table}, {holder} {name}, {number}: {was}");
        if let Some(is) = &mutant.is {
            let _ = writeln!(text, "    now {is}");
        }
        if let Some(example) = &mutant.example {
            let _ = writeln!(text, "    {} flows differ: {example}", mutant.flows);
        }
    }
    let _ = writeln!(text, "  {:.1} s\n", mutants.duration.as_secs_f64());
    text
}

/// All of it as JSON: a list of scenarios, each with `name`, `file`, `seconds`, and `mutants` or `error`.
pub fn json(all: &[Mutants]) -> Value {
    let scenario = |mutants: &Mutants| {
        let (key, result) = match &mutants.result {
            Ok(tried) => ("mutants", value!(tried)),
            Err(trouble) => ("error", value!(trouble.message)),
        };
        let file = mutants.file.display().to_string();
        value!({"name": mutants.name, "file": file, "seconds": mutants.duration.as_secs_f64(), key: result})
    };
    all.iter().map(scenario).collect()
}
