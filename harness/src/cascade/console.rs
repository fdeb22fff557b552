//! The report as a page for a terminal.

use std::fmt::Write;

use svclab_rules::cascade::{Assessment, Cascade, Case, Step};

use super::sample::Sample;
use super::{Report, figures};
use crate::input::InputKind;
use crate::page::{BAD, DRAWN, GOOD, MARKED, Page, STRONG, Settings};
use crate::text::counted;

mod sampled;

/// Maximum number of endpoints listed in full.
const MAX_ROWS: usize = 24;
/// Maximum number of endpoints whose bars each start where the previous one ends.
const MAX_STEPS: usize = 12;
/// Maximum and minimum width of a bar.
const MAX_BAR: usize = 20;
const LEAST_BAR: usize = 10;
/// The headings of the table's columns, and whether they contain numbers.
const HEADINGS: [(&str, bool); 8] = [
    ("rule", true),
    ("endpoint", false),
    ("probability", true),
    ("threshold", true),
    ("share", true),
    ("", false),
    ("deviation", true),
    ("cumulative", true),
];
/// The columns that are omitted first if the page is narrow: `threshold` and `cumulative`.
const DISPENSABLE: [usize; 2] = [3, 7];

/// Renders the report.
pub fn render(report: &Report, settings: Settings) -> String {
    let mut page = Page::new(settings);
    let quiet = settings.is_quiet();
    for defect in &report.structure_defects {
        let label = page.paint(BAD, "DEFECT");
        page.labelled(0, format!("{label}  "), defect);
    }
    let mut last = None;
    for (index, cascade) in report.cascades.iter().enumerate() {
        let sample = report.sample(index);
        if !quiet || cascade.assessment() != Assessment::Even || sample.is_some_and(|sample| !sample.agrees()) {
            let place = report.place(index);
            if let Some(place) = place.filter(|_| last != place) {
                page.line(0, format!("the rules from {place}"));
                page.gap();
            }
            last = place;
            block(&mut page, cascade, sample);
        }
    }
    if !quiet && report.is_even() && report.kind != InputKind::Scenario {
        page.line(
            0,
            "note: only the chains of services were examined, not the rules that jump to them: see `svclab verify`",
        );
    }
    for note in report.notes.iter().filter(|_| !quiet) {
        page.line(0, format!("note: {note}"));
    }
    if !quiet || !report.is_even() || !report.samples_fit() {
        page.line(0, format!("{}: {}", report.source, summary(report, &page)));
    }
    page.finish()
}

fn summary(report: &Report, page: &Page) -> String {
    let all = report.cascades.len();
    let endpoints: usize = report.cascades.iter().map(|cascade| cascade.endpoints).sum();
    let head = format!("{}, {}", counted(all, "cascade"), counted(endpoints, "endpoint"));
    let head = match report.samples.iter().flatten().filter(|sample| !sample.agrees()).count() {
        0 => head,
        failed => {
            let words = format!("{} inconsistent with the shares of the rules", counted(failed, "sample"));
            format!("{head}; {}", page.paint(BAD, words))
        }
    };
    let of = |wanted: Assessment| report.cascades.iter().filter(|own| own.assessment() == wanted).count();
    let defects = match report.defects() {
        0 => None,
        defects => {
            let of_cascades = match of(Assessment::Defective) {
                0 => String::new(),
                cascades => format!(" in {cascades}"),
            };
            let words = format!("{}{of_cascades}", counted(defects, "defect"));
            Some(page.paint(BAD, words))
        }
    };
    let unknown = match of(Assessment::Unknown) {
        0 => None,
        count => {
            let words = format!("shares of {} unknown: incomplete rules", counted(count, "cascade"));
            Some(page.paint(MARKED, words))
        }
    };
    match [defects, unknown].into_iter().flatten().collect::<Vec<_>>() {
        none if none.is_empty() => {
            let words =
                if report.is_part { "shares are even as far as these lines show" } else { "every share is even" };
            format!("{head}; {}", page.paint(GOOD, words))
        }
        words => format!("{head}; {}", words.join("; ")),
    }
}

fn block(page: &mut Page, cascade: &Cascade, sample: Option<&Sample>) {
    let title = page.paint(STRONG, figures::title(cascade));
    let frontends = Some(figures::frontends(cascade)).filter(|frontends| !frontends.is_empty());
    let frontends = frontends.map(|frontends| format!("  {frontends}")).unwrap_or_default();
    let chain = if cascade.chain == cascade.service { String::new() } else { format!("  {}", cascade.chain) };
    page.line(0, format!("{title}{frontends}{chain}"));
    table(page, cascade);
    page.line(2, format!("{}.", cascade.sentence()));
    if cascade.steps.iter().any(|step| cascade.is_known(step)) {
        page.line(2, accuracy(cascade));
    }
    if cascade.has_affinity {
        page.line(2, figures::affinity(cascade));
    }
    cascade.cases.iter().for_each(|case| other_connections(page, case));
    for defect in &cascade.defects {
        page.labelled(2, format!("{}  ", page.paint(BAD, "DEFECT")), defect);
    }
    for unknown in &cascade.unknown {
        page.labelled(2, format!("{}  ", page.paint(MARKED, "UNKNOWN")), unknown);
    }
    if let Some(sample) = sample {
        sampled::block(page, sample);
    }
    page.gap();
}

/// Adds the outcome of connections that rules handle differently from those in the table.
fn other_connections(page: &mut Page, case: &Case) {
    page.line(2, format!("A connection {}, by rule {}:", case.example, case.rule));
    for (fate, share) in case.fates.iter().take(MAX_ROWS) {
        let fraction = figures::short_fraction(*share).map(|fraction| format!("  = {fraction}")).unwrap_or_default();
        page.line(4, format!("{:>14}{fraction}  {fate}", figures::percent(*share)));
    }
    if let Some(more) = case.fates.len().checked_sub(MAX_ROWS + 1) {
        page.line(4, format!("... {} more", more + 1));
    }
}

/// Describes the accuracy of the shares.
fn accuracy(cascade: &Cascade) -> String {
    let draws = if cascade.steps.iter().any(|step| step.chance.draws() > 1 << 31) { "2^32" } else { "2^31" };
    let bound = figures::bound(cascade);
    format!("Thresholds are out of {draws}. Shares are exact to ±{bound:.1e} percentage points.")
}

/// Adds the rows of the table, as wide as their columns need; bars use the rest of the page.
fn table(page: &mut Page, cascade: &Cascade) {
    let most = if page.settings.is_verbose() { usize::MAX } else { MAX_ROWS };
    let (first, between, last) = figures::folded(cascade, most);
    let rows: Vec<[String; 8]> = first.iter().chain(last).map(|step| row(cascade, step)).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([HEADINGS[column].0.chars().count()]).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
    let heading = |widths: &[usize]| aligned(&HEADINGS.map(|(name, _)| name.to_owned()), widths);
    for column in DISPENSABLE {
        if heading(&widths).chars().count() + 2 > page.settings.width {
            widths[column] = 0;
        }
    }
    let headings = heading(&widths);
    let room = page.settings.width.saturating_sub(headings.chars().count() + 4).min(MAX_BAR);
    page.row(2, headings);
    for (index, (row, step)) in rows.iter().zip(first.iter().chain(last)).enumerate() {
        if between > 0 && index == first.len() {
            page.line(2, format!("... {} more; -v lists them", counted(between, "endpoint")));
        }
        let has_bar = cascade.is_known(step) && room >= LEAST_BAR;
        let bar = if has_bar { bar(page, cascade, step, room) } else { String::new() };
        page.row(2, format!("{}  {bar}", aligned(row, &widths)));
    }
}

fn row(cascade: &Cascade, step: &Step) -> [String; 8] {
    let (chance, threshold) = (step.chance.words(), figures::threshold(step.chance));
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

/// Formats a row of cells: numbers are aligned right, words left; empty columns are omitted.
fn aligned(cells: &[String; 8], widths: &[usize]) -> String {
    let mut text = String::new();
    for ((cell, (_, is_number)), width) in cells.iter().zip(HEADINGS).zip(widths).filter(|(_, width)| **width > 0) {
        let gap = if text.is_empty() { "" } else { "  " };
        // Writing to a string does not fail.
        let _ = if is_number { write!(text, "{gap}{cell:>width$}") } else { write!(text, "{gap}{cell:<width$}") };
    }
    text
}

/// Draws a share as a bar: with few endpoints it starts where the previous one ends; with many, the largest share fills it.
fn bar(page: &Page, cascade: &Cascade, step: &Step, width: usize) -> String {
    let share = step.share.to_f64();
    let at = |part: f64| (part * width as f64).round() as usize;
    let (before, own, whole) = if cascade.steps.len() <= MAX_STEPS {
        let end = step.cumulative.to_f64();
        (at(end - share), at(end) - at(end - share), width)
    } else {
        let largest = cascade.steps.iter().map(|step| step.share.to_f64()).fold(f64::MIN_POSITIVE, f64::max);
        (0, at(share / largest), 0)
    };
    let after = whole.saturating_sub(before + own);
    format!("{}{}{}", "░".repeat(before), page.paint(DRAWN, "█".repeat(own)), "·".repeat(after))
}
