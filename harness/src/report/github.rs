//! Annotations for GitHub Actions: each failure at its line of the scenario, in the changed files of a pull request.
//!
//! The form is that of workflow commands: `::error file=F,line=L,col=C,title=T::MESSAGE`
//! (docs.github.com, "Workflow commands for GitHub Actions", setting an error message).

use super::words::{counts, duration, trouble};
use super::{RunReport, ScenarioReport, Status, TestReport};
use crate::scenario::Span;
use crate::text::{harmless, one_line, printable};

/// One `::error` line for each failed probe, each test that could not finish, and each lab that failed; then a `::notice` with the
/// counts.
pub fn render(run: &RunReport) -> String {
    let mut text = String::new();
    for scenario in &run.scenarios {
        let failed = |test: &TestReport| test.status() != Status::Ok && !scenario.is_explained_by_lab(test);
        for test in scenario.tests.iter().filter(|test| failed(test)) {
            text += &test_annotations(scenario, test);
        }
        if scenario.error.is_some() || scenario.tests.is_empty() {
            text += &scenario_annotation(scenario);
        }
    }
    let words = format!("{}, in {}", counts(run.counts()), duration(run.duration));
    text + &format!("::notice title=svclab::{}\n", message(&words))
}

/// An annotation for each failed probe, and one for the test's error.
fn test_annotations(scenario: &ScenarioReport, test: &TestReport) -> String {
    let title = title(scenario, Some(test));
    let failed = test.probes.iter().filter(|probe| !probe.verdict.held).map(|probe| {
        let differences = probe.verdict.differences.iter().map(ToString::to_string);
        let lines = [probe.title.clone()].into_iter().chain(differences).chain(probe.look.clone());
        annotation(&probe.span, &title, &lines.collect::<Vec<_>>().join("\n"))
    });
    let error = trouble(test).map(|trouble| {
        let help = trouble.help.map(|help| format!("\n{help}")).unwrap_or_default();
        annotation(trouble.span.as_ref().unwrap_or(&test.span), &title, &format!("{}{help}", trouble.message))
    });
    failed.chain(error).collect()
}

fn scenario_annotation(scenario: &ScenarioReport) -> String {
    let start = Span::start_of(&scenario.file);
    let (span, words) = match &scenario.error {
        Some(error) => {
            let help = error.help.as_ref().map(|help| format!("\n{help}")).unwrap_or_default();
            (error.span.as_ref().unwrap_or(&start), format!("{}{help}", error.message))
        }
        None => (&start, "no tests".to_owned()),
    };
    annotation(span, &title(scenario, None), &words)
}

fn title(scenario: &ScenarioReport, test: Option<&TestReport>) -> String {
    let test = test.map(|test| format!(": {}", test.name)).unwrap_or_default();
    format!("{}{test}", scenario.name)
}

fn annotation(span: &Span, title: &str, words: &str) -> String {
    let file = property(&printable(&span.file).to_string());
    let Span { line, column, .. } = span;
    format!("::error file={file},line={line},col={column},title={}::{}\n", property(title), message(words))
}

/// A message is one line: line ends are escaped (`@actions/core`, command.ts).
fn message(text: &str) -> String {
    harmless(text, false).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property ends at a colon or comma too.
fn property(text: &str) -> String {
    message(&one_line(text)).replace(':', "%3A").replace(',', "%2C")
}
