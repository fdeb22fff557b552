//! Results of `svclab verify`: each failing disagreement is a failed test; all other flows are one passed test.

use serde::Deserialize;
use serde_json::Value;

use super::model::{Case, Check, Problem, Rules, Sources, Suite};
use crate::report::{Machines, NodeProgram, Status};
use crate::text::counted;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scenario {
    name: String,
    file: String,
    #[serde(default)]
    status: String,
    seconds: Option<f64>,
    error: Option<Problem>,
    machines: Option<Machines>,
    #[serde(default)]
    programs: Vec<NodeProgram>,
    #[serde(default)]
    flows: usize,
    #[serde(default)]
    unexamined_classes: usize,
    #[serde(default)]
    ignored_rules: Vec<String>,
    #[serde(default)]
    not_promised: usize,
    #[serde(default)]
    coverage: Vec<Row>,
    #[serde(default)]
    findings: Vec<Finding>,
}

#[derive(Deserialize)]
struct Row {
    from: String,
    kind: String,
    flows: usize,
    disagreeing: usize,
}

#[derive(Deserialize)]
struct Finding {
    fails: bool,
    meaning: String,
    what: String,
    flows: usize,
    example: Example,
}

#[derive(Deserialize)]
struct Example {
    flow: String,
    promise: String,
    prediction: Vec<String>,
    observation: String,
    rules: Vec<String>,
}

pub(super) fn suites(scenarios: Value) -> Result<Vec<Suite>, serde_json::Error> {
    Ok(serde_json::from_value::<Vec<Scenario>>(scenarios)?.into_iter().map(suite).collect())
}

fn suite(scenario: Scenario) -> Suite {
    let Scenario { name, file, status, seconds, error, machines, programs, flows, .. } = scenario;
    let Scenario { unexamined_classes, ignored_rules, not_promised, coverage, findings, .. } = scenario;
    let row = |row: &Row| {
        let agreeing = row.flows - row.disagreeing.min(row.flows);
        format!("{} > {}: {agreeing} of {}", row.from, row.kind, counted(row.flows, "flow"))
    };
    let failing: usize = findings.iter().filter(|finding| finding.fails).map(|finding| finding.flows).sum();
    let others = case(format!("all sources agree on {}", counted(flows - failing.min(flows), "flow")), Status::Ok);
    let shown = Check { measured: coverage.iter().map(row).collect(), ..check("coverage", Status::Ok) };
    let others = Case { checks: vec![shown], seconds, ..others };
    let mut notes: Vec<String> = Vec::new();
    if not_promised > 0 {
        notes.push(format!("nothing is promised for {}", counted(not_promised, "flow")));
    }
    notes.extend(findings.iter().filter(|finding| !finding.fails).map(note));
    let left = format!("at least {} of packets not followed", counted(unexamined_classes, "class"));
    let left = (unexamined_classes > 0).then(|| case(left, Status::Failed));
    let others = error.is_none().then_some(others);
    let unknown: Vec<Case> = match status.as_str() {
        "ok" => {
            notes.extend(ignored_rules);
            Vec::new()
        }
        _ => ignored_rules.into_iter().map(|words| case(words, Status::Failed)).collect(),
    };
    let cases = findings.iter().filter(|finding| finding.fails).map(failed).chain(left).chain(unknown).chain(others);
    Suite { name, file, repetition: None, seconds, error, notes, machines, programs, cases: cases.collect() }
}

fn note(finding: &Finding) -> String {
    format!("{}: {} ({})", counted(finding.flows, "flow"), finding.what, finding.meaning)
}

fn failed(finding: &Finding) -> Case {
    let Finding { meaning, what, flows, example, .. } = finding;
    let diagnosis = Sources {
        promise: Some(example.promise.clone()),
        prediction: example.prediction.clone(),
        unpredicted: example.prediction.is_empty().then(|| "the rules cannot be walked".to_owned()),
        observation: example.observation.clone(),
        meaning: meaning.clone(),
        kernel: None,
    };
    let rules = vec![Rules { place: String::new(), lines: example.rules.clone() }];
    let one = check(&example.flow, Status::Failed);
    let one = Check { observed: example.observation.clone(), diagnosis: Some(diagnosis), rules, ..one };
    let mut text = format!("{}: {what}\n{meaning}\n\nfor example  {}\n", counted(*flows, "flow"), example.flow);
    text += &format!("  promised   {}\n", example.promise);
    text.extend(example.prediction.iter().map(|branch| format!("  predicted  {branch}\n")));
    text += &format!("  observed   {}\n", example.observation);
    text.extend(example.rules.iter().map(|rule| format!("  rules      {rule}\n")));
    let case = case(format!("{what} ({})", counted(*flows, "flow")), Status::Failed);
    Case { text: Some(text), checks: vec![one], ..case }
}

/// An empty case.
pub(super) fn case(name: String, status: Status) -> Case {
    Case {
        name,
        at: None,
        tags: Vec::new(),
        status,
        flaky: false,
        seconds: None,
        error: None,
        text: None,
        checks: Vec::new(),
        earlier: Vec::new(),
    }
}

/// An empty check.
pub(super) fn check(title: &str, status: Status) -> Check {
    Check {
        title: title.to_owned(),
        at: None,
        status,
        expected: Default::default(),
        observed: String::new(),
        flow: None,
        differences: Vec::new(),
        measured: Vec::new(),
        balance: None,
        during: None,
        diagnosis: None,
        rules: Vec::new(),
        explain_command: None,
    }
}
