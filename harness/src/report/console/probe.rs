//! The probes on the page of a test.

use super::path;
use crate::judge::{Difference, Field, observed_words};
use crate::observation::Observation;
use crate::page::{BAD, FAINT, GOOD, MARKED, Page, STRONG};
use crate::report::{Diagnosis, KernelMatch, ProbeReport, TestReport};
use crate::text::{counted, shortened};

/// Adds the probes of a test: failed probes in full, of the others only the measurements.
pub(super) fn add_test(page: &mut Page, test: &TestReport) {
    let has_figures = |probe: &&ProbeReport| probe.judgment.held && !probe.judgment.shown.is_empty();
    let are_several = test.probes.iter().filter(has_figures).count() > 1;
    for probe in &test.probes {
        if !probe.judgment.held {
            failed(page, probe);
        } else if page.settings.is_verbose() {
            held(page, probe);
        } else if !page.settings.is_quiet() {
            let indent = if are_several { 10 } else { 8 };
            if are_several && !probe.judgment.shown.is_empty() {
                page.line(8, page.paint(FAINT, &probe.title));
            }
            for figure in figures(probe) {
                page.line(indent, page.paint(FAINT, figure));
            }
        }
    }
}

/// The measurements; for flows during a change also their outcomes.
fn figures(probe: &ProbeReport) -> Vec<String> {
    let is_stream = matches!(probe.observation, Observation::Stream(_));
    let observed = is_stream.then(|| observed_words(&probe.observation));
    observed.into_iter().chain(probe.judgment.shown.iter().cloned()).collect()
}

/// A probe that held, in full.
fn held(page: &mut Page, probe: &ProbeReport) {
    page.line(8, page.paint(STRONG, &probe.title));
    page.line(10, observed_words(&probe.observation));
    for shown in &probe.judgment.shown {
        page.line(10, shown);
    }
    if let Observation::Flow(flow) = &probe.observation {
        path::interfaces(page, 10, &flow.path, false);
    }
}

/// A probe that failed: what is wrong, which source disagrees, by which rules, and where to look.
fn failed(page: &mut Page, probe: &ProbeReport) {
    let span = page.paint(FAINT, &probe.span);
    page.gap();
    page.line(8, format!("{}  {span}", page.paint(STRONG, &probe.title)));
    for one in &probe.judgment.differences {
        difference(page, one);
    }
    rest_of_the_expectation(page, probe);
    if matches!(probe.observation, Observation::Stream(_)) {
        page.gap();
        figures(probe).iter().for_each(|figure| page.line(8, figure));
    }
    if let Some(sources) = &probe.diagnosis {
        diagnosis(page, sources);
    }
    if probe.rules.iter().any(|excerpt| !excerpt.lines.is_empty()) {
        page.gap();
    }
    for excerpt in probe.rules.iter().filter(|excerpt| !excerpt.lines.is_empty()) {
        page.line(8, format!("{} {}", page.paint(FAINT, "deciding rules on"), excerpt.place));
        for rule in &excerpt.lines {
            page.line(10, shortened(rule));
        }
    }
    if let Observation::Flow(flow) = &probe.observation {
        path::failed(page, &flow.path);
    }
    if let Some(command) = &probe.explain_command {
        page.gap();
        page.command(8, "see also  ", command);
    }
    page.gap();
}

/// The three sources for the flow, and how far the kernel followed the prediction.
fn diagnosis(page: &mut Page, diagnosis: &Diagnosis) {
    let Diagnosis { promise, prediction, unpredicted, observation, meaning, kernel, untraced, .. } = diagnosis;
    page.gap();
    page.line(8, page.paint(STRONG, meaning));
    if let Some(promise) = promise {
        page.labelled(8, "promised   ", promise);
    }
    for (position, branch) in prediction.iter().enumerate() {
        page.labelled(8, if position == 0 { "predicted  " } else { "           " }, branch);
    }
    if let Some(reason) = unpredicted {
        page.labelled(8, "predicted  ", format!("nothing: {reason}"));
    }
    page.labelled(8, "observed   ", format!("{observation} (resent)"));
    if let Some(KernelMatch { as_predicted, difference, .. }) = kernel {
        match difference {
            None => {
                let words = format!("the kernel matched {}, as predicted", counted(*as_predicted, "rule"));
                page.line(19, page.paint(FAINT, words));
            }
            Some(lines) => {
                let words = format!(
                    "the kernel matched {} as predicted, then one that was not:",
                    counted(*as_predicted, "rule")
                );
                page.line(19, page.paint(MARKED, words));
                lines.iter().for_each(|line| page.line(21, shortened(line)));
            }
        }
    }
    if let Some(reason) = untraced {
        page.line(19, page.paint(FAINT, format!("the kernel was not traced: {reason}")));
    }
}

fn difference(page: &mut Page, difference: &Difference) {
    let Difference { field, expected, observed, reason } = difference;
    let (is, should) = (page.paint(BAD, "observed"), page.paint(GOOD, "expected"));
    let field = field.as_str();
    page.gap();
    page.labelled(8, format!("{field:<8}  {should}  "), expected);
    page.labelled(8, format!("{:8}  {is}  ", ""), observed);
    for part in reason.split("; ").filter(|part| part != observed) {
        page.line(28, page.paint(FAINT, part));
    }
}

/// The other parts of the expectation, so that a reader of a failure need not look them up.
fn rest_of_the_expectation(page: &mut Page, probe: &ProbeReport) {
    let differs = |field| probe.judgment.differences.iter().any(|difference| difference.field == field);
    // Source and reply of a single flow are not judged if it was not delivered as expected.
    let unjudged =
        matches!(probe.observation, Observation::Flow(_)) && (differs(Field::Outcome) || differs(Field::Flows));
    let word = if unjudged { "expected" } else { "held    " };
    page.gap();
    for (field, words) in probe.expected.iter().filter(|(field, _)| !differs(*field)) {
        page.labelled(8, page.paint(FAINT, format!("{:<8}  {word}  ", field.as_str())), page.paint(FAINT, words));
    }
}
