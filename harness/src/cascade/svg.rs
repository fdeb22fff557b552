//! The report as an SVG picture, in light or dark colours by the reader's preference.

use svclab_rules::cascade::{Cascade, Step};

use super::sample::Sample;
use super::{Report, figures};
use crate::svg::{Canvas, Text, wrapped};
use crate::text::{counted, grouped};

/// Sizes in pixels: of the picture, and of its columns.
const WIDTH: f64 = 960.0;
const MARGIN: f64 = 28.0;
const BARS: f64 = 250.0;
const LONGEST_BAR: f64 = 380.0;
const ROW: f64 = 28.0;
const BAR: f64 = 16.0;
/// Maximum number of endpoints drawn per cascade; the rest are counted.
const MAX_ROWS: usize = 40;
/// Maximum number of letters of an endpoint's name.
const NAME: usize = 28;

/// Renders the whole report as an SVG document.
pub fn render(report: &Report) -> String {
    let mut picture = Picture { canvas: Canvas::default(), y: MARGIN };
    for defect in &report.structure_defects {
        picture.prose(&format!("Defect: {defect}"), "bad");
    }
    for (index, cascade) in report.cascades.iter().enumerate() {
        picture.cascade(cascade, report.place(index), report.sample(index));
    }
    for note in &report.notes {
        picture.prose(note, "soft");
    }
    picture.prose(&report.source, "soft");
    let title = format!("Shares of endpoints: {}", report.source);
    picture.canvas.finish(&title, WIDTH, picture.y + MARGIN - 8.0)
}

/// The picture under construction.
struct Picture {
    canvas: Canvas,
    /// The current vertical position.
    y: f64,
}

impl Picture {
    fn cascade(&mut self, cascade: &Cascade, place: Option<&str>, sample: Option<&Sample>) {
        self.y += 12.0;
        self.text(MARGIN, "title", &figures::title(cascade));
        self.y += 20.0;
        let frontends = Some(figures::frontends(cascade)).filter(|frontends| !frontends.is_empty());
        let head = [frontends.as_deref(), Some(&cascade.chain), place];
        let head: Vec<&str> = head.into_iter().flatten().filter(|part| *part != cascade.service).collect();
        self.text(MARGIN, "soft", &head.join("  ·  "));
        self.y += 14.0;
        self.rows(cascade, sample);
        self.y += 16.0;
        self.prose(&format!("{}.", cascade.sentence()), "");
        if cascade.has_affinity {
            self.prose(figures::affinity(cascade), "soft");
        }
        for defect in &cascade.defects {
            self.prose(&format!("Defect: {defect}"), "bad");
        }
        for unknown in &cascade.unknown {
            self.prose(&format!("Unknown: {unknown}"), "bad");
        }
        if let Some(sample) = sample {
            self.prose(&legend(sample), "soft");
            sample.confirmations.iter().for_each(|shown| self.prose(&format!("Sampled: {shown}."), ""));
            sample.faults.iter().for_each(|fault| self.prose(&format!("Fault: {fault}"), "bad"));
        }
        self.y += 18.0;
    }

    /// Draws a bar for each endpoint, and a line at the even share.
    fn rows(&mut self, cascade: &Cascade, sample: Option<&Sample>) {
        let even = cascade.even().to_f64();
        let seen = sample.and_then(|sample| sample.fit.as_ref());
        let seen = seen.iter().flat_map(|fit| &fit.cells).map(|cell| cell.interval.high);
        let largest = cascade.steps.iter().map(|step| step.share.to_f64()).chain(seen).fold(even, f64::max);
        let scale = LONGEST_BAR / largest;
        let top = self.y;
        let (first, between, last) = figures::folded(cascade, MAX_ROWS);
        first.iter().for_each(|step| self.row(cascade, step, sample, scale));
        if between > 0 {
            self.y += ROW;
            self.text(BARS, "soft", &format!("{} more endpoints", grouped(between as u64)));
        }
        last.iter().for_each(|step| self.row(cascade, step, sample, scale));
        if cascade.endpoints > 1 {
            let x = BARS + even * scale;
            self.canvas.path(&[(x, top + 4.0), (x, self.y + 8.0)], "even");
        }
    }

    /// Draws an endpoint's bar, hatched if its share is unknown, with the results of a sample.
    fn row(&mut self, cascade: &Cascade, step: &Step, sample: Option<&Sample>, scale: f64) {
        self.y += ROW;
        let top = self.y - BAR + 3.0;
        let name: String = step.endpoint.chars().take(NAME).collect();
        self.text(MARGIN, "", &name);
        let x = BARS + LONGEST_BAR + 18.0;
        if cascade.is_known(step) {
            let share = figures::percent(step.share);
            let tooltip = format!(
                "{share} of new connections; deviation from even: {}; cumulative share: {:.4} %",
                figures::deviation(cascade.deviation(step)),
                step.cumulative.to_f64() * 100.0
            );
            self.canvas.rectangle((BARS, top), (LONGEST_BAR, BAR), 3.0, "track");
            self.canvas.bar((BARS, top), (step.share.to_f64() * scale, BAR), "bar", &tooltip);
            self.text(x, "", &format!("{:.4} %", step.share.to_f64() * 100.0));
        } else {
            self.canvas.bar((BARS, top), (LONGEST_BAR, BAR), "unknown", "The share is unknown.");
            self.text(x, "soft", "unknown");
        }
        if let Some(sample) = sample {
            self.interval(sample, &step.endpoint, top + BAR / 2.0, scale);
        }
        self.text(x + 96.0, "soft", &format!("rule {}: {}", step.rule, step.chance.words()));
    }

    /// Draws the confidence interval of an endpoint's share as a line with ends, and the count as a dot.
    fn interval(&mut self, sample: &Sample, endpoint: &str, y: f64, scale: f64) {
        let place = sample.arrivals.iter().position(|own| own.endpoint == endpoint);
        let Some((fit, cell)) = sample.fit.as_ref().zip(place).and_then(|(fit, at)| Some((fit, fit.cells.get(at)?)))
        else {
            return;
        };
        let at = |share: f64| BARS + share * scale;
        let (low, high) = (at(cell.interval.low), at(cell.interval.high));
        let (top, bottom) = (y - 5.0, y + 5.0);
        self.canvas.path(&[(low, top), (low, bottom), (low, y), (high, y), (high, top), (high, bottom)], "interval");
        let middle = at(cell.count as f64 / fit.flows.max(1) as f64);
        let tooltip = format!("{} of {} flows arrived", grouped(cell.count), grouped(fit.flows));
        self.canvas.dot((middle, y), 4.0, "seen", &tooltip);
    }

    /// Draws lines of prose, wrapped to the width.
    fn prose(&mut self, text: &str, class: &str) {
        for line in wrapped(text, 12.0, WIDTH - 2.0 * MARGIN) {
            self.y += 18.0;
            self.text(MARGIN, class, &line);
        }
    }

    fn text(&mut self, x: f64, class: &str, text: &str) {
        self.canvas.text(Text { x, y: self.y, class }, text);
    }
}

/// Returns the legend of a sample.
fn legend(sample: &Sample) -> String {
    let flows = counted(sample.sent, "flow");
    let Sample { from, to, .. } = sample;
    format!(
        "Bars are exact shares; the dashed line is the even share. Sampled: {flows} from {from} to {to}; a dot is the share that \
         arrived, the line through it is the confidence interval."
    )
}
