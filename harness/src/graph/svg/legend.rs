//! The legend below the machines: what happens on the path of a flow.

use super::super::model::{Flow, Graph};
use super::layout::{LINE, Layout, MARGIN};
use super::step_number::{NUMBER, numbered};
use crate::explain::OutcomeKind;
use crate::svg::{Canvas, Text, width_of, wrapped};

/// Draws the legend, and returns where it ends.
pub(super) fn draw(canvas: &mut Canvas, graph: &Graph, flow: &Flow, layout: &Layout) -> f64 {
    let room = layout.width - 2.0 * MARGIN;
    let mut legend = Legend { canvas, y: layout.bottom + 26.0, room };
    legend.lines("name", 0.0, &flow.title);
    for note in &flow.notes {
        legend.lines("", 0.0, note);
    }
    for (number, outcome) in flow.outcomes.iter().enumerate() {
        let class = if outcome.kind == OutcomeKind::Delivered { "" } else { "bad" };
        let words = match &outcome.share {
            None => format!("predicted: {}", outcome.words),
            Some(share) if number == 0 => format!("predicted: {share}: {} (drawn with its reply)", outcome.words),
            Some(share) => format!("{share}: {}", outcome.words),
        };
        let indent = if number == 0 { 0.0 } else { width_of("predicted: ", 12.0) };
        legend.lines(class, indent, &words);
    }
    legend.y += 6.0;
    let names = flow.steps.iter().map(|step| width_of(graph.name(step.place), 12.0)).fold(0.0, f64::max);
    for (number, step) in flow.steps.iter().enumerate() {
        let (left, y) = (MARGIN + NUMBER, legend.y);
        numbered(legend.canvas, (left, y - 4.0), number + 1, step.way);
        legend.canvas.text(Text { x: left + 16.0, y, class: "hook" }, graph.name(step.place));
        for words in &step.words {
            legend.lines("", NUMBER + 16.0 + names + 14.0, words);
        }
        legend.y += 4.0;
    }
    legend.y - LINE
}

struct Legend<'a> {
    canvas: &'a mut Canvas,
    y: f64,
    room: f64,
}

impl Legend<'_> {
    /// Draws a text, wrapped to the available width.
    fn lines(&mut self, class: &str, indent: f64, words: &str) {
        for line in wrapped(words, 12.0, (self.room - indent).max(200.0)) {
            self.canvas.text(Text { x: MARGIN + indent, y: self.y, class }, &line);
            self.y += LINE;
        }
    }
}
