//! Annotations for GitHub Actions: a failure is shown at its line of the scenario, in the changed files of a pull request.
//!
//! The form is that of workflow commands: `::error file=F,line=L,col=C,title=T::MESSAGE`
//! (docs.github.com, "Workflow commands for GitHub Actions", setting an error message).

use super::words::{counts, duration, headline, trouble};
use super::{RunReport, ScenarioReport, Status, TestReport};
use crate::scenario::Span;

/// One `::error` line for each test that did not hold, and for each scenario that could not be run; then a `::notice` with
/// the counts.
pub fn render(run: &RunReport) -> String {
    let mut text = String::new();
    for scenario in &run.scenarios {
        for test in scenario.tests.iter().filter(|test| test.status() != Status::Ok) {
            text += &test_annotation(scenario, test);
        }
        if scenario.error.is_some() || scenario.tests.is_empty() {
            text += &scenario_annotation(scenario);
        }
    }
    let words = format!("{}, in {}", counts(run.counts()), duration(run.duration));
    text + &format!("::notice title=svclab::{}\n", message(&words))
}

fn test_annotation(scenario: &ScenarioReport, test: &TestReport) -> String {
    let failed = test.probes.iter().find(|probe| !probe.verdict.held);
    let trouble = trouble(test);
    let span = match (trouble.as_ref().and_then(|trouble| trouble.span.as_ref()), failed) {
        (Some(span), _) => span,
        (None, Some(probe)) => &probe.span,
        (None, None) => &test.span,
    };
    let mut lines: Vec<String> = match (&trouble, failed) {
        (Some(trouble), _) => [Some(trouble.message.clone()), trouble.help.clone()].into_iter().flatten().collect(),
        (None, Some(probe)) => {
            let differences = probe.verdict.differences.iter().map(ToString::to_string);
            [probe.title.clone()].into_iter().chain(differences).collect()
        }
        (None, None) => headline(test).into_iter().collect(),
    };
    lines.extend(failed.and_then(|probe| probe.look.clone()));
    annotation(span, &title(scenario, Some(test)), &lines.join("\n"))
}

fn scenario_annotation(scenario: &ScenarioReport) -> String {
    let start = Span { file: scenario.file.clone(), line: 1, column: 1 };
    let (span, words) = match &scenario.error {
        Some(error) => {
            let help = error.help.as_ref().map(|help| format!("\n{help}")).unwrap_or_default();
            (error.span.as_ref().unwrap_or(&start), format!("{}{help}", error.message))
        }
        None => (&start, "there is no test".to_owned()),
    };
    annotation(span, &title(scenario, None), &words)
}

fn title(scenario: &ScenarioReport, test: Option<&TestReport>) -> String {
    let test = test.map(|test| format!(": {}", test.name)).unwrap_or_default();
    format!("{}{test}", scenario.name)
}

fn annotation(span: &Span, title: &str, words: &str) -> String {
    let file = property(&span.file.display().to_string());
    let Span { line, column, .. } = span;
    format!("::error file={file},line={line},col={column},title={}::{}\n", property(title), message(words))
}

/// A message is one line: what would end it is escaped (`@actions/core`, command.ts).
fn message(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property ends at a colon or comma too.
fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}
