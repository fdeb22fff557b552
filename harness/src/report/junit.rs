//! JUnit XML, which CI systems show as a table of tests.
//!
//! A scenario is a test suite, a test is a test case with the scenario's file as class. A failure's text is the console's.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, SerializeError, TestCase, TestCaseStatus, TestSuite};

use super::console;
use super::words::headline;
use super::{RunReport, ScenarioReport, Status, TestReport};
use crate::page::Settings;
use crate::text::{harmless, printable};

/// The report as an XML document.
///
/// # Errors
///
/// Where the XML writer fails; there is no input known that makes it.
pub fn render(run: &RunReport) -> Result<String, SerializeError> {
    let mut report = Report::new("svclab");
    report.set_time(run.duration);
    report.add_test_suites(run.scenarios.iter().map(suite));
    report.to_string()
}

fn suite(scenario: &ScenarioReport) -> TestSuite {
    let mut suite = TestSuite::new(xml(&scenario.name));
    suite.set_time(scenario.duration);
    for test in &scenario.tests {
        suite.add_test_case(test_case(scenario, test));
    }
    if scenario.is_wrong_by_itself() {
        let message = scenario.error.as_ref().map_or("no tests", |error| error.message.as_str());
        suite.add_test_case(case(scenario, "the lab", Duration::ZERO, not_ok(Status::Error, message, scenario)));
    }
    if !scenario.notes.is_empty() {
        suite.set_system_out(xml(&scenario.notes.join("\n")));
    }
    suite
}

fn test_case(scenario: &ScenarioReport, test: &TestReport) -> TestCase {
    let status = match test.status() {
        Status::Ok => TestCaseStatus::success(),
        status => {
            // Each test that the lab's error kept from running reports that error.
            let error = scenario.error.clone().filter(|_| status == Status::Error);
            let alone = ScenarioReport { tests: vec![test.clone()], error, ..scenario.clone() };
            not_ok(status, &headline(test).unwrap_or_default(), &alone)
        }
    };
    let mut case = case(scenario, &test.name, test.duration, status);
    case.set_assertions(test.probes.len());
    let figures: Vec<&str> = test.probes.iter().flat_map(|probe| &probe.verdict.shown).map(String::as_str).collect();
    if !figures.is_empty() {
        case.set_system_out(xml(&figures.join("\n")));
    }
    case
}

fn case(scenario: &ScenarioReport, name: &str, time: Duration, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(xml(name), status);
    case.set_classname(xml(&printable(&scenario.file).to_string()));
    case.set_time(time);
    case
}

/// A failed test, with the console's diagnosis.
fn not_ok(status: Status, message: &str, diagnosis: &ScenarioReport) -> TestCaseStatus {
    let kind = if status == Status::Error { NonSuccessKind::Error } else { NonSuccessKind::Failure };
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(xml(message));
    status.set_description(xml(&console::scenario(diagnosis, Settings::default())));
    status
}

/// Text that XML can hold: its only control characters are line ends and tabs. The XML writer escapes markup.
fn xml(text: &str) -> String {
    harmless(text, false)
}
