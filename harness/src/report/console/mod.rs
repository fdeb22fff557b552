//! The report for a terminal.

mod path;
mod probe;

use std::collections::BTreeMap;
use std::time::Duration;

use anstyle::Style;

use super::programs::program_lines;
use super::words::{duration, headline, trouble};
use super::{RunReport, ScenarioReport, Status, TestReport, Trouble};
use crate::judge::observed_words;
use crate::observation::Observation;
use crate::page::{BAD, FAINT, GOOD, MARKED, Page, STRONG, Settings};
use crate::text::{counted, one_line, printable};

/// The maximum length of test names after which durations are aligned.
const WIDEST_NAME: usize = 72;

/// The whole report: each scenario, then the summary.
pub fn render(run: &RunReport, settings: Settings) -> String {
    let scenarios: String = run.scenarios.iter().map(|report| scenario(report, settings)).collect();
    scenarios + &summary(run, settings)
}

/// One scenario with its tests, printed as soon as it has been run.
pub fn scenario(report: &ScenarioReport, settings: Settings) -> String {
    let quiet = settings.is_quiet();
    let mut page = Page::new(settings);
    let is_flaky = report.tests.iter().any(TestReport::is_flaky);
    if quiet && report.status() == Status::Ok && !is_flaky {
        return page.finish();
    }
    let place = page.paint(FAINT, printable(&report.file));
    let repetition = report.repetition.map(|number| format!("  (repetition {number})")).unwrap_or_default();
    page.line(0, format!("{}  {place}{repetition}", page.paint(STRONG, &report.name)));
    let width = report.tests.iter().map(|test| test.name.chars().count()).max().unwrap_or(0).min(WIDEST_NAME);
    for test in report.tests.iter().filter(|test| !quiet || test.status() != Status::Ok || test.is_flaky()) {
        outcome(&mut page, test, width);
        for (number, earlier) in (1..).zip(&test.earlier) {
            page.line(
                8,
                page.paint(
                    BAD,
                    format!(
                        "attempt {number} of {}: {}",
                        test.earlier.len() + 1,
                        headline(earlier).unwrap_or_default()
                    ),
                ),
            );
        }
        probe::add_test(&mut page, if test.is_flaky() { test.earlier.last().unwrap_or(test) } else { test });
        if let Some(error) = trouble(test).filter(|_| !report.is_explained_by_lab(test)) {
            show_trouble(&mut page, &error);
        }
    }
    if let Some(error) = &report.error {
        line(&mut page, word(Status::Error), style_of(Status::Error), "the lab", width, None);
        show_trouble(&mut page, error);
    } else if report.tests.is_empty() {
        line(&mut page, word(Status::Error), style_of(Status::Error), "no tests", width, None);
    }
    if settings.is_verbose() {
        for program in program_lines(&report.programs) {
            page.line(2, page.paint(FAINT, program));
        }
        syncs(&mut page, report);
    }
    for note in &report.notes {
        page.line(2, page.paint(FAINT, format!("note: {note}")));
    }
    page.gap();
    page.finish()
}

/// The sync times of programs under test, one line for each change.
fn syncs(page: &mut Page, report: &ScenarioReport) {
    for of_step in report.syncs.chunk_by(|one, next| one.step == next.step) {
        let what = if of_step[0].step == 0 { "start".to_owned() } else { format!("change {}", of_step[0].step) };
        let times =
            of_step.iter().map(|one| format!("{} {}", one.node, duration(Duration::from_secs_f64(one.seconds))));
        page.line(2, page.paint(FAINT, format!("synced after {what}: {}", times.collect::<Vec<_>>().join(", "))));
    }
}

/// One test, with its failure.
pub fn test(report: &TestReport, settings: Settings) -> String {
    let mut page = Page::new(settings);
    outcome(&mut page, report, report.name.chars().count().min(WIDEST_NAME));
    probe::add_test(&mut page, report);
    trouble(report).iter().for_each(|error| show_trouble(&mut page, error));
    page.finish()
}

/// The observation of a probe, with the path of its packet.
pub(crate) fn observed(title: &str, observation: &Observation, settings: Settings) -> String {
    let mut page = Page::new(settings);
    page.line(0, page.paint(STRONG, title));
    page.line(2, observed_words(observation));
    if let Observation::Flow(flow) = observation {
        path::observed(&mut page, 2, &flow.path);
    }
    page.finish()
}

/// The summary: what failed, how many tests ran, and how long it took.
pub fn summary(run: &RunReport, settings: Settings) -> String {
    let mut page = Page::new(settings);
    let status = run.status();
    if settings.is_quiet() && status == Status::Ok {
        return page.finish();
    }
    if status != Status::Ok {
        failures(&mut page, run);
    }
    not_applicable(&mut page, run);
    let words = page.paint(style_of(status), run.counts());
    let filtered = if run.filtered > 0 { format!(", {} filtered out", run.filtered) } else { String::new() };
    let others = run.not_applicable.len();
    let others = if others > 0 { format!(", {} not applicable", counted(others, "scenario")) } else { String::new() };
    let unstarted = if run.not_started > 0 { format!(", {} not started", run.not_started) } else { String::new() };
    let seed = run.seed.map(|seed| format!(" (--shuffle {seed})")).unwrap_or_default();
    page.line(0, format!("{words}{filtered}{others}{unstarted}{seed}, in {}", duration(run.duration)));
    page.finish()
}

/// The scenarios that the programs under test cannot run: one line for each reason.
fn not_applicable(page: &mut Page, run: &RunReport) {
    let mut by_reason: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for one in &run.not_applicable {
        by_reason.entry((&one.reason, &one.help)).or_default().push(&one.file);
    }
    for ((reason, help), files) in &by_reason {
        page.line(0, format!("not applicable: {reason}"));
        files.iter().for_each(|file| page.line(2, page.paint(FAINT, one_line(file))));
        page.line(2, help);
    }
    if !by_reason.is_empty() {
        page.gap();
    }
}

fn style_of(status: Status) -> Style {
    if status == Status::Ok { GOOD } else { BAD }
}

fn outcome(page: &mut Page, test: &TestReport, width: usize) {
    let (word, style) =
        if test.is_flaky() { ("FLAKY", MARKED) } else { (word(test.status()), style_of(test.status())) };
    line(page, word, style, &test.name, width, Some(test.duration));
}

fn line(page: &mut Page, word: &str, style: Style, name: &str, width: usize, time: Option<Duration>) {
    let time = time.map(duration).unwrap_or_default();
    let (word, time) = (page.paint(style, word), page.paint(FAINT, format!("{time:>10}")));
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

/// The places of all failures, at the end, where a reader of a long log starts.
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
