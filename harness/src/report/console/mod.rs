//! The report for a person at a terminal.

mod path;
mod probe;

use std::time::Duration;

use anstyle::Style;

use super::words::{counts, duration, trouble};
use super::{RunReport, ScenarioReport, Status, TestReport, Trouble};
use crate::page::{BAD, FAINT, GOOD, Page, STRONG, Settings};
use crate::text::printable;

/// The widest test name that durations are aligned behind.
const WIDEST_NAME: usize = 72;

/// Everything: each scenario, then the summary.
pub fn render(run: &RunReport, settings: Settings) -> String {
    let scenarios: String = run.scenarios.iter().map(|report| scenario(report, settings)).collect();
    scenarios + &summary(run, settings)
}

/// One scenario with its tests, as soon as it has been run.
pub fn scenario(report: &ScenarioReport, settings: Settings) -> String {
    let quiet = settings.is_quiet();
    let mut page = Page::new(settings);
    if quiet && report.status() == Status::Ok {
        return page.finish();
    }
    let place = page.paint(FAINT, printable(&report.file));
    page.line(0, format!("{}  {place}", page.paint(STRONG, &report.name)));
    let width = report.tests.iter().map(|test| test.name.chars().count()).max().unwrap_or(0).min(WIDEST_NAME);
    for test in report.tests.iter().filter(|test| !quiet || test.status() != Status::Ok) {
        outcome(&mut page, test.status(), &test.name, width, Some(test.duration));
        probe::of_test(&mut page, test);
        if let Some(error) = trouble(test).filter(|_| !report.is_explained_by_lab(test)) {
            show_trouble(&mut page, &error);
        }
    }
    if let Some(error) = &report.error {
        outcome(&mut page, Status::Error, "the lab", width, None);
        show_trouble(&mut page, error);
    } else if report.tests.is_empty() {
        outcome(&mut page, Status::Error, "no tests", width, None);
    }
    for note in &report.notes {
        page.line(2, page.paint(FAINT, format!("note: {note}")));
    }
    page.gap();
    page.finish()
}

/// The end: what failed, how many tests ran, and how long it took.
pub fn summary(run: &RunReport, settings: Settings) -> String {
    let mut page = Page::new(settings);
    let status = run.status();
    if settings.is_quiet() && status == Status::Ok {
        return page.finish();
    }
    if status != Status::Ok {
        failures(&mut page, run);
    }
    let words = page.paint(style_of(status), counts(run.counts()));
    let filtered = if run.filtered > 0 { format!(", {} filtered out", run.filtered) } else { String::new() };
    page.line(0, format!("{words}{filtered}, in {}", duration(run.duration)));
    page.finish()
}

fn style_of(status: Status) -> Style {
    if status == Status::Ok { GOOD } else { BAD }
}

fn outcome(page: &mut Page, status: Status, name: &str, width: usize, time: Option<Duration>) {
    let time = time.map(duration).unwrap_or_default();
    let (word, time) = (page.paint(style_of(status), word(status)), page.paint(FAINT, format!("{time:>10}")));
    page.labelled(2, format!("{word} "), format!("{name:width$} {time}"));
}

fn show_trouble(page: &mut Page, trouble: &Trouble) {
    page.gap();
    for line in trouble.message.lines() {
        page.line(8, page.paint(BAD, line));
    }
    if let Some(span) = &trouble.span {
        page.line(8, page.paint(FAINT, span));
    }
    if let Some(help) = &trouble.help {
        page.line(8, help);
    }
    page.gap();
}

/// The places of everything that failed, at the end, where a reader of a long log starts.
fn failures(page: &mut Page, run: &RunReport) {
    let mut failure = |status: Status, place: String, name: &str| {
        let (word, place) = (page.paint(BAD, word(status)), page.paint(FAINT, place));
        page.labelled(0, format!("{word} "), format!("{place}  {name}"));
    };
    for scenario in run.scenarios.iter().filter(|scenario| scenario.status() != Status::Ok) {
        let failed = |test: &&TestReport| test.status() != Status::Ok;
        for test in scenario.tests.iter().filter(failed) {
            failure(test.status(), test.span.to_string(), &test.name);
        }
        if scenario.error.is_some() || scenario.tests.is_empty() {
            failure(Status::Error, printable(&scenario.file).to_string(), &scenario.name);
        }
    }
    page.gap();
}

/// The word that a line starts with, padded to one width.
fn word(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok   ",
        Status::Failed => "FAIL ",
        Status::Error => "ERROR",
    }
}
