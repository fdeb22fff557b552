//! JUnit XML, which CI systems show as a table of tests.
//!
//! A scenario is a test suite, a test is a test case with the scenario's file as class. A failure's text is that of the command.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Property, Report, SerializeError, TestCase, TestCaseStatus, TestRerun, TestSuite};

use super::model::{Case, Results, Suite};
use super::words::{environment, headline, problem};
use crate::report::{Status, by_program};
use crate::text::{harmless, one_line};

/// The report as an XML document.
///
/// # Errors
///
/// If the XML writer fails; no input is known to cause that.
pub fn render(results: &Results) -> Result<String, SerializeError> {
    let mut report = Report::new(format!("svclab {}", results.command));
    report.set_time(time(results.seconds));
    report.add_test_suites(results.suites.iter().map(|one| suite(results, one)));
    report.to_string()
}

fn suite(results: &Results, suite: &Suite) -> TestSuite {
    let repetition = suite.repetition.map(|number| format!(" (repetition {number})")).unwrap_or_default();
    let mut xml_suite = TestSuite::new(format!("{}{repetition}", xml(&suite.name)));
    xml_suite.set_time(time(suite.seconds));
    for (name, value) in environment(&results.environment) {
        xml_suite.add_property(Property::new(name, xml(&value)));
    }
    for (program, nodes) in by_program(&suite.programs) {
        let value = xml(&program);
        if nodes.is_empty() {
            xml_suite.add_property(Property::new("proxy", value.as_str()));
        }
        for node in nodes {
            xml_suite.add_property(Property::new(format!("proxy/{}", xml(node)), value.as_str()));
        }
    }
    for case in &suite.cases {
        xml_suite.add_test_case(test_case(suite, case));
    }
    if suite.is_wrong_by_itself() {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message(xml(suite.error.as_ref().map_or("no tests", |error| error.message.as_str())));
        status.set_description(xml(&suite.error.as_ref().map(problem).unwrap_or_default()));
        xml_suite.add_test_case(named(suite, "the lab", None, status));
    }
    if !suite.notes.is_empty() {
        xml_suite.set_system_out(xml(&suite.notes.join("\n")));
    }
    xml_suite
}

fn test_case(suite: &Suite, case: &Case) -> TestCase {
    let mut status = match case.status {
        Status::Ok => TestCaseStatus::success(),
        Status::Failed => failure(suite, case, NonSuccessKind::Failure),
        Status::Error => failure(suite, case, NonSuccessKind::Error),
    };
    for earlier in &case.earlier {
        let kind = if earlier.status == Status::Error { NonSuccessKind::Error } else { NonSuccessKind::Failure };
        let mut rerun = TestRerun::new(kind);
        rerun.set_message(xml(&headline(earlier)));
        rerun.set_description(xml(earlier.text.as_deref().unwrap_or_default()));
        rerun.set_time(time(earlier.seconds));
        status.add_rerun(rerun);
    }
    let mut xml_case = named(suite, &case.name, case.seconds, status);
    xml_case.set_assertions(case.checks.len());
    let figures: Vec<&str> = case.checks.iter().flat_map(|check| &check.measured).map(String::as_str).collect();
    if !figures.is_empty() {
        xml_case.set_system_out(xml(&figures.join("\n")));
    }
    xml_case
}

fn failure(suite: &Suite, case: &Case, kind: NonSuccessKind) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(xml(&headline(case)));
    let lab = suite.error.as_ref().filter(|_| suite.explains(case)).map(problem);
    status.set_description(xml(&lab.or_else(|| case.text.clone()).unwrap_or_default()));
    status
}

fn named(suite: &Suite, name: &str, seconds: Option<f64>, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(xml(name), status);
    case.set_classname(xml(&one_line(&suite.file)));
    case.set_time(time(seconds));
    case
}

fn time(seconds: Option<f64>) -> Duration {
    Duration::try_from_secs_f64(seconds.unwrap_or_default()).unwrap_or_default()
}

/// Text without the control characters that XML does not allow; only line ends and tabs are kept. The XML writer escapes markup.
fn xml(text: &str) -> String {
    harmless(text, false)
}
