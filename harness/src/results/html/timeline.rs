//! The timeline of flows during a change: a row for each endpoint and for each outcome without an answer, a column for each slot.

use std::time::Duration;

use super::super::model::{During, TimelineRow};
use crate::svg::{Canvas, Text, width_of};
use crate::text::duration;

/// The width of the time axis, and the height of a row.
const WIDTH: f64 = 700.0;
const ROW: f64 = 22.0;
/// The font size of names.
const SIZE: f64 = 12.0;
/// The maximum width of names before they are shortened.
const LONGEST_NAME: f64 = 260.0;

/// The timeline; empty if no flow was sent.
pub(super) fn render(during: &During) -> String {
    let Some(parts) = during.timeline.first().map(|row| row.counts.len()).filter(|parts| *parts > 0) else {
        return String::new();
    };
    let names = during.timeline.iter().map(|row| width_of(&row.name, SIZE)).fold(0.0, f64::max).min(LONGEST_NAME);
    let left = names + 16.0;
    let time = Time { left, before: during.before, whole: (during.before + during.after).max(f64::MIN_POSITIVE) };
    let bottom = 24.0 + during.timeline.len() as f64 * ROW;
    let most = during.timeline.iter().flat_map(|row| &row.counts).copied().max().unwrap_or(1).max(1);
    let mut canvas = Canvas::default();
    for (index, row) in during.timeline.iter().enumerate() {
        draw_row(&mut canvas, row, (&time, parts, most), 24.0 + index as f64 * ROW);
    }
    mark(&mut canvas, (time.at(0.0), bottom), "change", "change");
    if let Some(first) = during.followed.as_ref().and_then(|follows| follows.first) {
        mark(&mut canvas, (time.at(first), bottom + 14.0), "follows", &format!("followed after {}", seconds(first)));
    }
    let text = |x, words: &str, canvas: &mut Canvas| canvas.text(Text { x, y: bottom + 32.0, class: "small" }, words);
    text(left, &format!("-{}", seconds(during.before)), &mut canvas);
    let end = seconds(during.after);
    text(left + WIDTH - width_of(&end, 11.0), &end, &mut canvas);
    let from = during.node.as_ref().map(|node| format!(" from node/{node}")).unwrap_or_default();
    let title = format!("Flows over time{from}: {} flows at {}/s", during.sent, during.rate);
    let picture = canvas.element(&title, left + WIDTH + 8.0, bottom + 40.0);
    format!("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Timeline\">{picture}</div>\n")
}

/// The positions of times.
struct Time {
    left: f64,
    before: f64,
    whole: f64,
}

impl Time {
    fn at(&self, seconds: f64) -> f64 {
        self.left + ((seconds + self.before) / self.whole).clamp(0.0, 1.0) * WIDTH
    }
}

fn draw_row(canvas: &mut Canvas, row: &TimelineRow, (time, parts, most): (&Time, usize, u32), y: f64) {
    let class = match row.fate.as_str() {
        "answered" => "answered",
        "stale" => "stale",
        _ => "failed",
    };
    let shown: String = if width_of(&row.name, SIZE) > LONGEST_NAME {
        let letters = (LONGEST_NAME / width_of("x", SIZE)) as usize - 1;
        row.name.chars().take(letters).chain(['…']).collect()
    } else {
        row.name.clone()
    };
    canvas.text(Text { x: 8.0, y: y + ROW - 8.0, class: "" }, &shown);
    canvas.path(&[(time.left, y + ROW - 4.0), (time.left + WIDTH, y + ROW - 4.0)], "axis");
    let width = WIDTH / parts as f64;
    for (part, count) in row.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let height = (f64::from(*count) / f64::from(most) * (ROW - 6.0)).max(2.0);
        let start = time.whole * part as f64 / parts as f64 - time.before;
        let tooltip = format!("{}: {count}, from {start:.3} s", row.name);
        let place = (time.left + width * part as f64, y + ROW - 4.0 - height);
        canvas.bar(place, ((width - 1.0).max(1.0), height), class, &tooltip);
    }
}

/// A vertical line with a word below it.
fn mark(canvas: &mut Canvas, (x, bottom): (f64, f64), class: &str, words: &str) {
    canvas.path(&[(x, 16.0), (x, bottom + 4.0)], class);
    canvas.text(Text { x: x + 4.0, y: bottom + 10.0, class: "small" }, words);
}

fn seconds(seconds: f64) -> String {
    duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}
