//! Results of `svclab mutate`: each kind of mutation is a test, which fails if a mutant of that kind survived.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::from_verify::{case, check};
use super::model::{Case, Check, Problem, Rules, Suite};
use crate::report::{Machines, Status};
use crate::text::counted;

#[derive(Deserialize)]
struct Scenario {
    name: String,
    file: String,
    seconds: Option<f64>,
    error: Option<Problem>,
    machines: Option<Machines>,
    baseline: Option<Baseline>,
    #[serde(default)]
    mutants: Vec<Mutant>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Baseline {
    failing_tests: Vec<String>,
    failing_flows: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mutant {
    operator: String,
    netns: String,
    table: String,
    name: String,
    number: usize,
    before: String,
    after: Option<String>,
    result: String,
    tests_fail: bool,
    example: Option<Example>,
}

#[derive(Deserialize)]
struct Example {
    flow: String,
    before: String,
    after: String,
}

pub(super) fn suites(scenarios: Value) -> Result<Vec<Suite>, serde_json::Error> {
    Ok(serde_json::from_value::<Vec<Scenario>>(scenarios)?.into_iter().map(suite).collect())
}

fn suite(scenario: Scenario) -> Suite {
    let Scenario { name, file, seconds, error, machines, baseline, mutants } = scenario;
    let mut kinds: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    mutants.iter().for_each(|mutant| kinds.entry(&mutant.operator).or_default().push(mutant));
    let mut cases: Vec<Case> = kinds.iter().map(|(operator, mutants)| kind(operator, mutants)).collect();
    if cases.is_empty() && error.is_none() {
        cases.push(case("no rule can be mutated".to_owned(), Status::Ok));
    }
    let notes = baseline.map(|baseline| {
        let tests = baseline.failing_tests.iter().map(|test| format!("fails without a mutation: {test}"));
        let flows = baseline.failing_flows;
        let flows = (flows > 0).then(|| format!("verify fails without a mutation on {}", counted(flows, "flow")));
        tests.chain(flows).collect()
    });
    let notes = notes.unwrap_or_default();
    Suite { name, file, repetition: None, seconds, error, notes, machines, programs: Vec::new(), cases }
}

fn kind(operator: &str, mutants: &[&Mutant]) -> Case {
    let number = |is: &dyn Fn(&Mutant) -> bool| mutants.iter().filter(|mutant| is(mutant)).count();
    let survived: Vec<&&Mutant> = mutants.iter().filter(|mutant| mutant.result == "survived").collect();
    let missed = number(&|mutant| mutant.result == "killed" && !mutant.tests_fail);
    let shown = [
        (number(&|mutant| mutant.tests_fail), "killed by tests"),
        (number(&|mutant| mutant.result == "killed"), "killed by verify"),
        (missed, "missed by tests"),
        (number(&|mutant| mutant.result == "equivalent"), "equivalent"),
        (number(&|mutant| mutant.result == "unspecified"), "unspecified"),
        (survived.len(), "survived"),
    ];
    let shown: Vec<String> =
        shown.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}")).collect();
    let status = if survived.is_empty() { Status::Ok } else { Status::Failed };
    let summary = Check { measured: shown, ..check(operator, Status::Ok) };
    let checks = [summary].into_iter().chain(survived.iter().map(|mutant| survivor(mutant))).collect();
    let text: String = survived.iter().map(|mutant| words(mutant)).collect();
    let name = format!("{operator}: {}", counted(mutants.len(), "mutant"));
    Case { checks, text: (!text.is_empty()).then_some(text), ..case(name, status) }
}

fn survivor(mutant: &Mutant) -> Check {
    let Mutant { netns, table, name, number, before, after, .. } = mutant;
    let lines =
        vec![format!("before  {before}"), format!("after   {}", after.as_deref().unwrap_or("removed or moved"))];
    let title = format!("{netns}, table {table}, {name}, number {number}");
    let sentence =
        |example: &Example| format!("{}: before: {}; after: {}", example.flow, example.before, example.after);
    let observed = mutant.example.as_ref().map(sentence).unwrap_or_default();
    let rules = vec![Rules { place: netns.clone(), lines }];
    Check { observed, rules, ..check(&title, Status::Failed) }
}

fn words(mutant: &Mutant) -> String {
    let Check { title, observed, rules, .. } = survivor(mutant);
    let lines: String = rules.iter().flat_map(|rules| &rules.lines).map(|line| format!("  {line}\n")).collect();
    format!("survived: {title}\n{lines}  {observed}\n")
}
