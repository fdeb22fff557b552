//! Shapes and text as SVG.

use crate::text::markup;
use std::fmt::Write;

/// The width of a letter of 12 px: monospace fonts have 0.6 of their size, others less on the whole.
const LETTER: f64 = 0.602;

/// Shapes under construction.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    body: String,
}

/// A stretch of text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a> {
    pub(super) x: f64,
    pub(super) y: f64,
    /// The class that says how it looks: see [`STYLE`].
    pub(super) class: &'a str,
}

impl Canvas {
    pub(super) fn text(&mut self, at: Text<'_>, words: &str) {
        let Text { x, y, class } = at;
        let _ = writeln!(self.body, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>", markup(words));
    }

    pub(super) fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), radius: f64, class: &str) {
        let _ = writeln!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{radius}\" class=\"{class}\"/>"
        );
    }

    /// A line through points, with an arrow's head where its class asks for one.
    pub(super) fn path(&mut self, points: &[(f64, f64)], class: &str) {
        let list: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(self.body, "<polyline points=\"{}\" class=\"{class}\"/>", list.join(" "));
    }

    /// Puts what is on another one over this.
    pub(super) fn append(&mut self, other: Self) {
        self.body += &other.body;
    }

    /// The picture.
    pub(super) fn finish(self, title: &str, width: f64, height: f64) -> String {
        let Self { body } = self;
        let title = markup(title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" role=\"img\">\n<title>{title}</title>\n<style>{STYLE}</style>\n{MARKERS}\n\
             <rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n{body}</svg>\n"
        )
    }
}

/// How wide monospace text is.
pub(super) fn width_of(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * LETTER
}

/// Text in lines that are at most so wide; a longer word is cut.
pub(super) fn wrapped(text: &str, size: f64, width: f64) -> Vec<String> {
    let most = ((width / (size * LETTER)) as usize).max(1);
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let needed = line.chars().count() + usize::from(!line.is_empty()) + word.chars().count();
        if needed > most && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
        while line.chars().count() > most {
            let rest: String = line.chars().skip(most).collect();
            lines.push(line.chars().take(most).collect());
            line = rest;
        }
    }
    lines.push(line);
    lines
}

/// How things look, by day and by night.
const STYLE: &str = "
svg{--paper:#fbfaf8;--card:#fff;--ink:#1d2530;--soft:#677383;--line:#cfd5dc;--lane:#f2f1ed;--there:#1f6feb;--back:#8250df;\
--good:#1a7f4b;--bad:#c0392b;--mark:#9a5b00;--markbg:#fff3d6}
@media(prefers-color-scheme:dark){svg{--paper:#14181d;--card:#1c232b;--ink:#e6ebf0;--soft:#93a0ae;--line:#3a4551;--lane:#191f26;\
--there:#69a7ff;--back:#bb95ff;--good:#56c88b;--bad:#ff7b6e;--mark:#f0b75a;--markbg:#3a2f17}}
text{font:12px ui-monospace,'SFMono-Regular','DejaVu Sans Mono',Menlo,Consolas,monospace;fill:var(--ink)}
.paper{fill:var(--paper)}.card{fill:var(--card);stroke:var(--line)}.lane{fill:var(--lane)}
.title{font-size:18px;font-weight:700}.name{font-size:14px;font-weight:700}.hook{font-weight:700}.soft{fill:var(--soft)}
.small{font-size:11px;fill:var(--soft)}.rule{font-size:11px;font-weight:700}.mark{fill:var(--mark);font-weight:700}
.markbg{fill:var(--markbg)}.good{fill:var(--good);font-weight:700}.bad{fill:var(--bad);font-weight:700}
.pill{fill:var(--card);stroke:var(--line)}.pill-good{fill:var(--card);stroke:var(--good);stroke-width:2}
.pill-bad{fill:var(--card);stroke:var(--bad);stroke-width:2}
.there{fill:none;stroke:var(--there);stroke-width:2;marker-end:url(#there)}
.back{fill:none;stroke:var(--back);stroke-width:2;stroke-dasharray:6 4;marker-end:url(#back)}
.head-there{fill:var(--there)}.head-back{fill:var(--back)}
.edge-there{fill:var(--there)}.edge-back{fill:var(--back)}
.share0{fill:#1f6feb}.share1{fill:#6ea8fe}.share2{fill:#1a7f4b}.share3{fill:#63c394}.share4{fill:#8250df}.share5{fill:#c1a3f0}
.on{font-size:11px;font-weight:700;fill:#fff}
";

const MARKERS: &str = "<defs><marker id=\"there\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" \
markerHeight=\"7\" orient=\"auto-start-reverse\"><path d=\"M0 0L10 5L0 10z\" class=\"head-there\"/></marker>\
<marker id=\"back\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" \
orient=\"auto-start-reverse\"><path d=\"M0 0L10 5L0 10z\" class=\"head-back\"/></marker></defs>";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_between_words_and_long_words_are_cut() {
        let width = 10.5 * 12.0 * LETTER;
        assert_eq!(wrapped("one two three", 12.0, width), ["one two", "three"]);
        assert_eq!(wrapped("a-word-that-is-long", 12.0, width), ["a-word-tha", "t-is-long"]);
        assert_eq!(wrapped("", 12.0, width), [""]);
    }

    #[test]
    fn nothing_in_a_text_is_markup() {
        let mut canvas = Canvas::default();
        canvas.text(Text { x: 0.0, y: 0.0, class: "name" }, "<b> & c");
        assert!(canvas.finish("<t>", 1.0, 1.0).contains("&lt;b&gt; &amp; c</text>"));
    }
}
