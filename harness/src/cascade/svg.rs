//! The report as a picture. It follows the reader's light or dark scheme, by itself and inside of a page.

use std::fmt::Write;

use svclab_rules::cascade::{Cascade, Step};

use super::sample::Sample;
use super::{Report, figures};
use crate::text::counted;
use crate::text::markup;

/// Lengths in pixels: of the picture, and of the columns in it.
const WIDTH: f64 = 960.0;
const MARGIN: f64 = 28.0;
const BARS: f64 = 250.0;
const LONGEST_BAR: f64 = 380.0;
const ROW: f64 = 28.0;
const BAR: f64 = 16.0;
/// Endpoints that are drawn of one cascade; the rest is counted.
const MOST_ROWS: usize = 40;
/// Letters of a line of prose.
const LINE: usize = 118;
/// Letters of an endpoint's name.
const NAME: usize = 30;

const STYLE: &str = "\
svg { --paper: #ffffff; --ink: #1f2328; --faint: #59636e; --rule: #d1d9e0; --bar: #2f6feb; --bad: #c5221f; }
@media (prefers-color-scheme: dark) {
  svg { --paper: #0d1117; --ink: #e6edf3; --faint: #9198a1; --rule: #3d444d; --bar: #4c8dff; --bad: #ff7b72; }
}
text { font: 13px ui-sans-serif, system-ui, -apple-system, 'Segoe UI', 'Noto Sans', sans-serif; fill: var(--ink); }
.paper { fill: var(--paper); }
.title { font-size: 16px; font-weight: 600; }
.faint { fill: var(--faint); }
.number { font-family: ui-monospace, SFMono-Regular, Menlo, 'DejaVu Sans Mono', monospace; font-size: 12px; }
.bar { fill: var(--bar); }
.track { fill: var(--rule); opacity: 0.35; }
.even { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 3 3; }
.interval { stroke: var(--ink); stroke-width: 1.5; fill: none; }
.seen { fill: var(--paper); stroke: var(--ink); stroke-width: 1.5; }
.bad { fill: var(--bad); }";

/// The hatching of bars whose length is unknown.
const UNKNOWN: &str = "<defs><pattern id=\"unknown\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
    patternTransform=\"rotate(45)\"><path d=\"M0 0V6\" stroke=\"#8c959f\" stroke-width=\"3\"/></pattern></defs>";

/// The whole report as an SVG document.
pub fn render(report: &Report) -> String {
    let mut picture = Picture { body: String::new(), y: MARGIN };
    for defect in &report.frame_defects {
        picture.prose(&format!("Defect: {defect}"), "bad");
    }
    for (index, cascade) in report.cascades.iter().enumerate() {
        picture.cascade(cascade, report.sample(index));
    }
    for note in &report.notes {
        picture.prose(note, "faint");
    }
    picture.prose(&report.source, "faint");
    let height = picture.y + MARGIN - 8.0;
    let title = markup(&format!("Shares of endpoints: {}", report.source));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} \
         {height}\">\n<title>{title}</title>\n<style>\n{STYLE}\n</style>\n{UNKNOWN}\n<rect class=\"paper\" width=\"100%\" height=\"100%\" \
         rx=\"8\"/>\n{}</svg>\n",
        picture.body
    )
}

/// What has been drawn, and how far down.
struct Picture {
    body: String,
    y: f64,
}

impl Picture {
    fn cascade(&mut self, cascade: &Cascade, sample: Option<&Sample>) {
        self.y += 12.0;
        self.text(MARGIN, "title", &figures::title(cascade));
        self.y += 20.0;
        let frontends = Some(figures::frontends(cascade)).filter(|frontends| !frontends.is_empty());
        let head = [frontends.as_deref(), Some(&cascade.chain)];
        let head: Vec<&str> = head.into_iter().flatten().filter(|part| *part != cascade.service).collect();
        self.text(MARGIN, "faint", &head.join("  ·  "));
        self.y += 14.0;
        self.rows(cascade, sample);
        self.y += 16.0;
        self.prose(&format!("{}.", cascade.sentence()), "ink");
        if cascade.has_affinity {
            self.prose(figures::affinity(cascade), "faint");
        }
        for defect in &cascade.defects {
            self.prose(&format!("Defect: {defect}"), "bad");
        }
        for unknown in &cascade.unknown {
            self.prose(&format!("Unknown: {unknown}"), "bad");
        }
        if let Some(sample) = sample {
            self.prose(&legend(sample), "faint");
            sample.shown.iter().for_each(|shown| self.prose(&format!("Sampled: {shown}."), "ink"));
            sample.faults.iter().for_each(|fault| self.prose(&format!("Fault: {fault}"), "bad"));
        }
        self.y += 18.0;
    }

    /// A bar for each endpoint, and where an even one would end.
    fn rows(&mut self, cascade: &Cascade, sample: Option<&Sample>) {
        let even = cascade.even().to_f64();
        let seen = sample.and_then(|sample| sample.fit.as_ref());
        let seen = seen.iter().flat_map(|fit| &fit.cells).map(|cell| cell.interval.high);
        let largest = cascade.steps.iter().map(|step| step.share.to_f64()).chain(seen).fold(even, f64::max);
        let scale = LONGEST_BAR / largest;
        let top = self.y;
        let (first, between, last) = figures::folded(cascade, MOST_ROWS);
        first.iter().for_each(|step| self.row(cascade, step, sample, scale));
        if between > 0 {
            self.y += ROW;
            self.text(BARS, "faint", &format!("{} endpoints more", crate::text::grouped(between as u64)));
        }
        last.iter().for_each(|step| self.row(cascade, step, sample, scale));
        if cascade.endpoints > 1 {
            let x = BARS + even * scale;
            self.add(format_args!(
                "<line class=\"even\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"><title>even: {}</title></line>",
                top + 4.0,
                self.y + 8.0,
                figures::percent(cascade.even())
            ));
        }
    }

    fn row(&mut self, cascade: &Cascade, step: &Step, sample: Option<&Sample>, scale: f64) {
        self.y += ROW;
        let (top, length) = (self.y - BAR + 3.0, step.share.to_f64() * scale);
        let name: String = step.endpoint.chars().take(NAME).collect();
        self.text(MARGIN, "number", &name);
        self.add(format_args!(
            "<rect class=\"track\" x=\"{BARS}\" y=\"{top:.1}\" width=\"{LONGEST_BAR}\" height=\"{BAR}\" rx=\"3\"/>"
        ));
        let x = BARS + LONGEST_BAR + 18.0;
        let written = format!("rule {}: {}", step.rule, step.chance.words());
        self.text(x + 96.0, "number faint", &written);
        if !cascade.is_known(step) {
            self.add(format_args!(
                "<rect fill=\"url(#unknown)\" x=\"{BARS}\" y=\"{top:.1}\" width=\"{LONGEST_BAR}\" height=\"{BAR}\" \
                 rx=\"3\"><title>the share is unknown</title></rect>"
            ));
            return self.text(x, "number", "unknown");
        }
        let off = figures::deviation(cascade.deviation(step));
        self.add(format_args!(
            "<rect class=\"bar\" x=\"{BARS}\" y=\"{top:.1}\" width=\"{length:.2}\" height=\"{BAR}\" rx=\"3\"><title>{} of new \
             connections; off even: {off}; with those before it {:.4} %</title></rect>",
            figures::percent(step.share),
            step.cumulative.to_f64() * 100.0
        ));
        if let Some(sample) = sample {
            self.interval(sample, &step.endpoint, top + BAR / 2.0, scale);
        }
        self.text(x, "number", &format!("{:.4} %", step.share.to_f64() * 100.0));
    }

    /// The shares that fit what arrived at an endpoint, as a line with ends, and what arrived as a dot.
    fn interval(&mut self, sample: &Sample, endpoint: &str, y: f64, scale: f64) {
        let place = sample.arrivals.iter().position(|own| own.endpoint == endpoint);
        let Some((fit, cell)) = sample.fit.as_ref().zip(place).and_then(|(fit, at)| Some((fit, fit.cells.get(at)?)))
        else {
            return;
        };
        let at = |share: f64| BARS + share * scale;
        let (low, high) = (at(cell.interval.low), at(cell.interval.high));
        let middle = at(cell.count as f64 / fit.flows.max(1) as f64);
        let (top, bottom) = (y - 5.0, y + 5.0);
        self.add(format_args!(
            "<path class=\"interval\" d=\"M{low:.1} {y:.1}H{high:.1}M{low:.1} {top:.1}V{bottom:.1}M{high:.1} {top:.1}V{bottom:.1}\"/>"
        ));
        self.add(format_args!(
            "<circle class=\"seen\" cx=\"{middle:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{} of {} flows arrived</title></circle>",
            crate::text::grouped(cell.count),
            crate::text::grouped(fit.flows)
        ));
    }

    /// Lines of prose, broken between words.
    fn prose(&mut self, text: &str, class: &str) {
        let mut line = String::new();
        for word in text.split(' ') {
            if !line.is_empty() && line.chars().count() + word.chars().count() >= LINE {
                self.prose_line(&line, class);
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.prose_line(&line, class);
    }

    fn prose_line(&mut self, line: &str, class: &str) {
        self.y += 18.0;
        self.text(MARGIN, class, line);
    }

    fn text(&mut self, x: f64, class: &str, text: &str) {
        let y = self.y;
        self.add(format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", markup(text)));
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.body, "{element}");
    }
}

/// What was sent, and how the picture shows what came of it.
fn legend(sample: &Sample) -> String {
    let flows = counted(sample.sent, "flow");
    let Sample { from, to, .. } = sample;
    format!(
        "Bars are exact shares, the dashed line is even. Sampled: {flows} from {from} to {to}; a dot is what arrived of them, and \
         the line through it has the shares that fit."
    )
}
