//! The report for a person at a terminal.

use std::fmt::Write;

use anstyle::{AnsiColor, Style as Ansi};
use svclab_rules::cascade::{Cascade, Step, Verdict};

use super::sample::Sample;
use super::{Report, figures};
use crate::input::Form;
use crate::text::counted;

mod sampled;

/// How the report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// Whether it has colours, as ANSI escape sequences.
    pub colours: bool,
    /// Whether only what is wrong is said.
    pub quiet: bool,
    /// Whether every endpoint is listed, however many there are.
    pub whole: bool,
}

/// Endpoints up to which all are listed.
const MOST_ROWS: usize = 24;
/// Endpoints up to which a bar shows its part of the whole, behind those before it.
const MOST_STAIRS: usize = 12;
/// The width of a bar, in letters.
const BAR: usize = 30;
/// The headings of the table's columns, and whether numbers stand in them.
const HEADINGS: [(&str, bool); 8] = [
    ("rule", true),
    ("endpoint", false),
    ("written", true),
    ("threshold", true),
    ("share", true),
    ("", false),
    ("off even", true),
    ("sum", true),
];

/// Everything.
pub fn render(report: &Report, style: Style) -> String {
    let mut page = String::new();
    for (index, cascade) in report.cascades.iter().enumerate() {
        let sample = report.sample(index);
        if !style.quiet || cascade.verdict() != Verdict::Even || sample.is_some_and(|sample| !sample.held()) {
            block(&mut page, cascade, sample, style);
        }
    }
    if !style.quiet && report.is_even() && report.form != Form::Scenario {
        line(
            &mut page,
            "note: only the chains of services were looked at, not the rules that lead there: see `svclab verify`",
        );
    }
    for note in report.notes.iter().filter(|_| !style.quiet) {
        line(&mut page, &format!("note: {note}"));
    }
    if !style.quiet || !report.is_even() || !report.samples_held() {
        line(&mut page, &format!("{}: {}", report.source, summary(report, style)));
    }
    page
}

fn summary(report: &Report, style: Style) -> String {
    let all = report.cascades.len();
    let endpoints: usize = report.cascades.iter().map(|cascade| cascade.endpoints).sum();
    let head = format!("{}, {}", counted(all, "cascade"), counted(endpoints, "endpoint"));
    let head = match report.samples.iter().flatten().filter(|sample| !sample.held()).count() {
        0 => head,
        failed => {
            let words = format!("{} not as the rules have it", counted(failed, "sample"));
            format!("{head}; {}", paint(style, AnsiColor::Red, &words))
        }
    };
    let verdicts = |verdict: Verdict| report.cascades.iter().filter(|own| own.verdict() == verdict).count();
    let defects = match report.defects() {
        0 => None,
        defects => {
            let words = format!("{} in {}", counted(defects, "defect"), verdicts(Verdict::Defective));
            Some(paint(style, AnsiColor::Red, &words))
        }
    };
    let unknown = match verdicts(Verdict::Unknown) {
        0 => None,
        count => {
            let words = format!("shares of {} unknown: these rules do not show all", counted(count, "cascade"));
            Some(paint(style, AnsiColor::Yellow, &words))
        }
    };
    match [defects, unknown].into_iter().flatten().collect::<Vec<_>>() {
        none if none.is_empty() => {
            let words =
                if report.is_part { "shares are even as far as these lines show" } else { "every share is even" };
            format!("{head}; {}", paint(style, AnsiColor::Green, words))
        }
        words => format!("{head}; {}", words.join("; ")),
    }
}

fn block(page: &mut String, cascade: &Cascade, sample: Option<&Sample>, style: Style) {
    let bold = if style.colours { Ansi::new().bold() } else { Ansi::new() };
    let title = figures::title(cascade);
    let frontends = Some(figures::frontends(cascade)).filter(|frontends| !frontends.is_empty());
    let frontends = frontends.map(|frontends| format!("  {frontends}")).unwrap_or_default();
    let chain = if cascade.chain == cascade.service { String::new() } else { format!("  {}", cascade.chain) };
    line(page, &format!("{bold}{title}{bold:#}{frontends}{chain}"));
    table(page, cascade, style);
    line(page, &format!("  {}.", cascade.sentence()));
    if cascade.steps.iter().any(|step| cascade.is_known(step)) {
        line(page, &format!("  {}", accuracy(cascade)));
    }
    if cascade.has_affinity {
        line(page, &format!("  {}", figures::affinity(cascade)));
    }
    for defect in &cascade.defects {
        line(page, &format!("  {}  {defect}", paint(style, AnsiColor::Red, "DEFECT")));
    }
    for unknown in &cascade.unknown {
        line(page, &format!("  {}  {unknown}", paint(style, AnsiColor::Yellow, "UNKNOWN")));
    }
    if let Some(sample) = sample {
        sampled::block(page, sample, style);
    }
    page.push('\n');
}

/// How exact the shares are.
fn accuracy(cascade: &Cascade) -> String {
    let draws = if cascade.steps.iter().any(|step| step.chance.draws() > 1 << 31) { "2^32" } else { "2^31" };
    let bound = figures::bound(cascade);
    format!("Thresholds are of {draws}. Shares are exact to ±{bound:.1e} percentage points.")
}

/// The rows of the table, as wide as their columns need.
fn table(page: &mut String, cascade: &Cascade, style: Style) {
    let most = if style.whole { usize::MAX } else { MOST_ROWS };
    let (first, between, last) = figures::folded(cascade, most);
    let rows: Vec<[String; 8]> = first.iter().chain(last).map(|step| row(cascade, step)).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([HEADINGS[column].0.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
    let headings: [String; 8] = HEADINGS.map(|(name, _)| name.to_owned());
    line(page, &format!("  {}", aligned(&headings, &widths)));
    for (index, (row, step)) in rows.iter().zip(first.iter().chain(last)).enumerate() {
        if between > 0 && index == first.len() {
            line(page, &format!("  ... {} more; -v lists them", counted(between, "endpoint")));
        }
        let bar = if cascade.is_known(step) { bar(cascade, step, style) } else { String::new() };
        line(page, &format!("  {}  {bar}", aligned(row, &widths)));
    }
}

fn row(cascade: &Cascade, step: &Step) -> [String; 8] {
    let (chance, threshold) = (figures::chance(step.chance), figures::threshold(step.chance));
    if !cascade.is_known(step) {
        let unknown = || "?".to_owned();
        return [
            step.rule.to_string(),
            step.endpoint.clone(),
            chance,
            threshold,
            unknown(),
            String::new(),
            unknown(),
            unknown(),
        ];
    }
    [
        step.rule.to_string(),
        step.endpoint.clone(),
        chance,
        threshold,
        figures::percent(step.share),
        figures::short_fraction(step.share).map(|fraction| format!("= {fraction}")).unwrap_or_default(),
        figures::deviation(cascade.deviation(step)),
        format!("{:.2} %", step.cumulative.to_f64() * 100.0),
    ]
}

/// Cells side by side: numbers to the right, words to the left. A column in which nothing stands takes no room.
fn aligned(cells: &[String; 8], widths: &[usize]) -> String {
    let mut text = String::new();
    for ((cell, (_, is_number)), width) in cells.iter().zip(HEADINGS).zip(widths).filter(|(_, width)| **width > 0) {
        let gap = if text.is_empty() { "" } else { "  " };
        // Writing to a string does not fail.
        let _ = if is_number { write!(text, "{gap}{cell:>width$}") } else { write!(text, "{gap}{cell:<width$}") };
    }
    text
}

/// A share as a bar: of few endpoints, each behind what those before it took; of many, as long as it is of the largest.
fn bar(cascade: &Cascade, step: &Step, style: Style) -> String {
    let share = step.share.to_f64();
    let at = |part: f64| (part * BAR as f64).round() as usize;
    let (before, own, whole) = if cascade.steps.len() <= MOST_STAIRS {
        let end = step.cumulative.to_f64();
        (at(end - share), at(end) - at(end - share), BAR)
    } else {
        let largest = cascade.steps.iter().map(|step| step.share.to_f64()).fold(f64::MIN_POSITIVE, f64::max);
        (0, at(share / largest), 0)
    };
    let after = whole.saturating_sub(before + own);
    format!("{}{}{}", "░".repeat(before), paint(style, AnsiColor::Cyan, &"█".repeat(own)), "·".repeat(after))
}

fn paint(style: Style, colour: AnsiColor, text: &str) -> String {
    let colour = if style.colours { Ansi::new().fg_color(Some(colour.into())) } else { Ansi::new() };
    format!("{colour}{text}{colour:#}")
}

/// Adds a line, without blanks at its end.
fn line(page: &mut String, text: &str) {
    page.push_str(text.trim_end());
    page.push('\n');
}
