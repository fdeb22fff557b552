//! Draws one path of a packet: machines from left to right, time from top to bottom.

use super::model::{Explanation, HookVisit, Matched, OutcomeKind, Path, RuleVisit};
use crate::svg::{Canvas, Text, width_of, wrapped};
use crate::text::counted;

/// The space around everything, and between lanes.
const MARGIN: f64 = 28.0;
const GAP: f64 = 56.0;
/// The width of a lane with rules, and of one without.
const WIDE: f64 = 430.0;
const NARROW: f64 = 210.0;
/// The space inside a card, and between cards.
const PADDING: f64 = 12.0;
const BETWEEN: f64 = 30.0;
/// The distance between lines of text.
const LINE: f64 = 16.0;
/// The height of a pill.
const PILL: f64 = 46.0;
/// Maximum number of paths in the legend.
const MAX_PATHS: usize = 8;

/// Draws the path with this number, from 1; if there are fewer paths, the last one.
pub fn svg(explanation: &Explanation, chosen: usize) -> String {
    let chosen = chosen.clamp(1, explanation.paths.len().max(1)) - 1;
    let packet = &explanation.packet;
    let title = format!("{} > {} {}", packet.from, packet.to, packet.protocol);
    let lanes = Lanes::of(explanation, explanation.paths.get(chosen));
    let mut picture = Picture { canvas: Canvas::default(), y: MARGIN, lanes, last: None };
    picture.head(explanation, &title, chosen);
    if let Some(path) = explanation.paths.get(chosen) {
        picture.path(explanation, path);
    }
    picture.finish(&title)
}

/// The machines on a path, each in a column.
struct Lanes {
    names: Vec<String>,
    /// The left edge and the width of each.
    places: Vec<(f64, f64)>,
}

impl Lanes {
    fn of(explanation: &Explanation, path: Option<&Path>) -> Self {
        let mut names: Vec<String> = vec![explanation.packet.from.clone()];
        let visits_of = || path.into_iter().flat_map(|path| path.original.iter().chain(&path.reply));
        let there = path.into_iter().flat_map(|path| &path.original).map(|visit| visit.place.clone());
        let end = path.and_then(|path| path.at.clone());
        let back = path.into_iter().flat_map(|path| &path.reply).map(|visit| visit.place.clone());
        for name in there.chain(end).chain(back) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let mut x = MARGIN;
        let place = |name: &String| {
            let is_wide = visits_of().any(|visit| visit.place == *name);
            let width = if is_wide { WIDE } else { NARROW.max(width_of(name, 14.0) + 2.0 * PADDING) };
            x += width + GAP;
            (x - width - GAP, width)
        };
        let places = names.iter().map(place).collect();
        Self { names, places }
    }

    fn place(&self, name: &str) -> (f64, f64) {
        let position = self.names.iter().position(|one| one == name).unwrap_or(0);
        self.places[position]
    }

    fn middle(&self, name: &str) -> f64 {
        let (x, width) = self.place(name);
        x + width / 2.0
    }

    fn right(&self) -> f64 {
        self.places.last().map_or(0.0, |(x, width)| x + width)
    }
}

/// The picture under construction.
struct Picture {
    canvas: Canvas,
    /// The height up to which it is drawn.
    y: f64,
    lanes: Lanes,
    /// The lane and lower edge of what was drawn last.
    last: Option<(String, f64)>,
}

impl Picture {
    fn width(&self) -> f64 {
        (self.lanes.right() + MARGIN).max(900.0)
    }

    fn head(&mut self, explanation: &Explanation, title: &str, chosen: usize) {
        self.y += 14.0;
        self.canvas.text(Text { x: MARGIN, y: self.y, class: "title" }, title);
        self.y += 24.0;
        self.canvas.text(Text { x: MARGIN, y: self.y, class: "soft" }, &explanation.scenario);
        self.y += 10.0;
        let room = self.width() - 2.0 * MARGIN;
        for (kind, words) in explanation.doubts() {
            for line in wrapped(&format!("{kind}: {words}"), 12.0, room) {
                self.y += LINE;
                self.canvas.text(Text { x: MARGIN, y: self.y, class: "bad" }, &line);
            }
        }
        if let Some(promise) = &explanation.promise {
            for line in wrapped(&format!("promised: {}", promise.outcome), 12.0, room) {
                self.y += LINE;
                self.canvas.text(Text { x: MARGIN, y: self.y, class: "" }, &line);
            }
        }
        if let Some(reason) = &explanation.unpredicted {
            self.y += LINE;
            self.canvas.text(Text { x: MARGIN, y: self.y, class: "bad" }, &format!("no prediction: {reason}"));
        }
        self.y += 14.0;
        if explanation.paths.len() > 1 {
            self.shares(&explanation.paths, chosen, room);
        }
        for (position, path) in explanation.paths.iter().enumerate().take(MAX_PATHS) {
            self.y += LINE;
            let mark = if position == chosen && explanation.paths.len() > 1 { " · drawn below" } else { "" };
            let class = if path.outcome_kind == OutcomeKind::Delivered { "" } else { "bad" };
            let start = if explanation.paths.len() == 1 {
                "predicted: ".to_owned()
            } else {
                format!("{} · ", path.share.text)
            };
            let words = format!("{start}{}{mark}", path.outcome);
            self.canvas.text(Text { x: MARGIN, y: self.y, class }, &words);
        }
        self.y += 26.0;
    }

    /// Draws a bar of all paths, with widths proportional to their shares.
    fn shares(&mut self, paths: &[Path], chosen: usize, room: f64) {
        let mut x = MARGIN;
        for (position, path) in paths.iter().enumerate() {
            let width = room * path.share.number;
            let class = format!("share{}", position % 6);
            let height = if position == chosen { 24.0 } else { 18.0 };
            self.canvas.rectangle((x, self.y + 24.0 - height), ((width - 2.0).max(0.5), height), 3.0, &class);
            if width > width_of(&path.share.text, 11.0) + 12.0 {
                self.canvas.text(Text { x: x + 7.0, y: self.y + 17.0, class: "on" }, &path.share.text);
            }
            x += width;
        }
        self.y += 30.0;
    }

    fn path(&mut self, explanation: &Explanation, path: &Path) {
        let top = self.y;
        // Lanes are as long as their contents, and are drawn behind them.
        let head = std::mem::take(&mut self.canvas);
        self.y += 34.0;
        let packet = &explanation.packet;
        let to = packet.destination.to_string();
        self.pill(&packet.from, &format!("sends {}", packet.protocol), &format!("to {to}"), "pill", "there");
        for visit in &path.original {
            self.card(visit, "there");
        }
        let end = match path.outcome_kind {
            OutcomeKind::Delivered => ("receives it", "pill-good"),
            OutcomeKind::Rejected => ("rejected here", "pill-bad"),
            OutcomeKind::Dropped => ("dropped here", "pill-bad"),
            OutcomeKind::Unknown => ("not modelled further", "pill-bad"),
        };
        if let Some(at) = &path.at {
            let from = path.source.map(|source| format!("from {source}")).unwrap_or_default();
            self.pill(at, end.0, &from, end.1, "there");
        }
        for visit in &path.reply {
            self.card(visit, "back");
        }
        if let Some(address) = path.reply_from {
            self.pill(&packet.from, "receives the reply", &format!("from {address}"), "pill-good", "back");
        } else if path.reply_outcome.is_some() {
            self.pill(&packet.from, "receives no reply", "", "pill-bad", "back");
        } else if path.outcome_kind == OutcomeKind::Rejected {
            self.pill(&packet.from, "receives the rejection", "", "pill-bad", "back");
        }
        self.lanes_behind(head, top);
    }

    fn lanes_behind(&mut self, before: Canvas, top: f64) {
        let above = std::mem::replace(&mut self.canvas, before);
        for (name, (x, width)) in self.lanes.names.iter().zip(&self.lanes.places) {
            self.canvas.rectangle((x - 10.0, top), (width + 20.0, self.y - top), 10.0, "lane");
            self.canvas.text(Text { x: *x, y: top + 21.0, class: "name" }, name);
        }
        self.canvas.append(above);
    }

    /// Draws an arrow from the last element to a lane, at the current height.
    fn arrow(&mut self, lane: &str, class: &str) {
        let Some((last, bottom)) = self.last.clone() else { return };
        let (from, to) = (self.lanes.middle(&last), self.lanes.middle(lane));
        let half = (bottom + self.y) / 2.0;
        if last == lane {
            self.canvas.path(&[(from, bottom), (to, self.y - 1.0)], class);
        } else {
            self.canvas.path(&[(from, bottom), (from, half), (to, half), (to, self.y - 1.0)], class);
        }
    }

    fn pill(&mut self, lane: &str, word: &str, more: &str, class: &str, way: &str) {
        self.arrow(lane, way);
        let (x, width) = self.lanes.place(lane);
        let words = match class {
            "pill-good" => "good",
            "pill-bad" => "bad",
            _ => "hook",
        };
        let height = if more.is_empty() { PILL - LINE } else { PILL };
        self.canvas.rectangle((x, self.y), (width, height), 14.0, class);
        self.canvas.text(Text { x: x + PADDING, y: self.y + 19.0, class: words }, word);
        if !more.is_empty() {
            self.canvas.text(Text { x: x + PADDING, y: self.y + 19.0 + LINE, class: "small" }, more);
        }
        self.below(lane, height);
    }

    fn below(&mut self, lane: &str, height: f64) {
        self.last = Some((lane.to_owned(), self.y + height));
        self.y += height + BETWEEN;
    }

    fn card(&mut self, visit: &HookVisit, way: &str) {
        self.arrow(&visit.place, way);
        let (x, width) = self.lanes.place(&visit.place);
        let lines = lines(visit, width - 2.0 * PADDING);
        let height = lines.len() as f64 * LINE + 2.0 * PADDING - 2.0;
        self.canvas.rectangle((x, self.y), (width, height), 8.0, "card");
        for (number, (class, indent, words)) in lines.iter().enumerate() {
            let y = self.y + PADDING + 11.0 + number as f64 * LINE;
            if *class == "mark" {
                self.canvas.rectangle((x + 4.0, y - 12.0), (width - 8.0, LINE), 3.0, "markbg");
            }
            self.canvas.text(Text { x: x + PADDING + indent, y, class }, words);
        }
        self.below(&visit.place, height);
    }

    fn finish(self, title: &str) -> String {
        let (width, height) = (self.width(), self.y + MARGIN - BETWEEN / 2.0);
        self.canvas.finish(title, width, height)
    }
}

/// Returns the lines of a card: the class, indent and text of each.
fn lines(visit: &HookVisit, width: f64) -> Vec<(&'static str, f64, String)> {
    let by =
        |word: &str, name: &Option<String>| name.as_ref().map(|name| format!(" · {word} {name}")).unwrap_or_default();
    let heading = format!("{}{}{}", visit.hook, by("in", &visit.input), by("out", &visit.output));
    let mut lines: Vec<_> = wrapped(&heading, 12.0, width).into_iter().map(|words| ("hook", 0.0, words)).collect();
    lines.extend(wrapped(&visit.packet, 11.0, width).into_iter().map(|words| ("small", 0.0, words)));
    for rule in &visit.rules {
        add_rule(&mut lines, rule, width);
    }
    if let Some(words) = &visit.connection {
        lines.extend(wrapped(words, 11.0, width).into_iter().map(|words| ("small", 0.0, words)));
    }
    if visit.without_effect > 0 {
        lines.push(("small", 0.0, format!("{} without effect", counted(visit.without_effect, "other rule"))));
    }
    for change in &visit.changes {
        lines.extend(
            wrapped(&format!("{} becomes {}", change.what, change.to), 12.0, width)
                .into_iter()
                .map(|words| ("mark", 0.0, words)),
        );
    }
    lines.extend(wrapped(&visit.next, 12.0, width).into_iter().map(|words| ("", 0.0, words)));
    lines
}

fn add_rule(lines: &mut Vec<(&'static str, f64, String)>, rule: &RuleVisit, width: f64) {
    let indent = 10.0 * rule.depth.min(6) as f64;
    let place = format!("{} · {} · rule {} of {}", rule.table, rule.chain, rule.number, rule.chain_length);
    let word = match rule.matched {
        Matched::Yes | Matched::NotChosen => "",
        Matched::Maybe => "possibly: ",
        Matched::Unknown => "unknown: ",
    };
    // Chains of nftables have long names.
    lines.extend(wrapped(&place, 11.0, width - indent).into_iter().map(|words| ("rule", indent, words)));
    let words = format!("{word}{}: {}", rule.condition, rule.effect);
    lines.extend(wrapped(&words, 11.0, width - indent - 8.0).into_iter().map(|words| ("small", indent + 8.0, words)));
}
