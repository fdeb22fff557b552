//! SVG documents: shapes and text in light and dark colours, without scripts, links or CSS variables (which librsvg lacks).

use std::fmt::Write;

use crate::text::markup;

/// The width of a character relative to the font size: 0.6 in monospace fonts.
const LETTER: f64 = 0.602;

/// Shapes under construction.
#[derive(Debug, Default)]
pub(crate) struct Canvas {
    body: String,
}

/// The position and style of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// The classes of its style: see [`COLOURS`] and [`SHAPES`].
    pub(crate) class: &'a str,
}

impl Canvas {
    pub(crate) fn text(&mut self, at: Text<'_>, words: &str) {
        let Text { x, y, class } = at;
        let words = markup(words);
        self.add(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{words}</text>"));
    }

    pub(crate) fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), radius: f64, class: &str) {
        self.add(format_args!("{}/>", start_of_rectangle((x, y), (width, height), radius, class)));
    }

    /// A rectangle with a tooltip.
    pub(crate) fn bar(&mut self, place: (f64, f64), (width, height): (f64, f64), class: &str, tooltip: &str) {
        let start = start_of_rectangle(place, (width, height), 3.0, class);
        let tooltip: Vec<_> = tooltip.lines().map(markup).collect();
        self.add(format_args!("{start}><title>{}</title></rect>", tooltip.join("\n")));
    }

    /// A line through points, with an arrow's head if its class has one.
    pub(crate) fn path(&mut self, points: &[(f64, f64)], class: &str) {
        let list: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.add(format_args!("<polyline points=\"{}\" class=\"{class}\"/>", list.join(" ")));
    }

    /// A dot with a tooltip.
    pub(crate) fn dot(&mut self, (x, y): (f64, f64), radius: f64, class: &str, tooltip: &str) {
        let tooltip = markup(tooltip);
        self.add(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" class=\"{class}\"><title>{tooltip}</title></circle>"
        ));
    }

    /// A filled circle.
    pub(crate) fn circle(&mut self, (x, y): (f64, f64), radius: f64, class: &str) {
        self.add(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" class=\"{class}\"/>"));
    }

    /// Puts another canvas over this one.
    pub(crate) fn append(&mut self, other: Self) {
        self.body += &other.body;
    }

    /// The finished document.
    pub(crate) fn finish(self, title: &str, width: f64, height: f64) -> String {
        let Self { body } = self;
        let (title, light, dark) = (markup(title), colours(|(.., light, _)| *light), colours(|(.., dark)| *dark));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" role=\"img\">\n<title>{title}</title>\n<style>{SHAPES}{light}\n\
             @media(prefers-color-scheme:dark){{{dark}}}\n</style>\n{DEFINITIONS}\n\
             <rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n{body}</svg>\n"
        )
    }

    /// The element for an HTML page, which provides the style.
    pub(crate) fn element(self, title: &str, width: f64, height: f64) -> String {
        let (title, body) = (markup(title), self.body);
        format!(
            "<svg viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n\
             <title>{title}</title>\n{body}</svg>"
        )
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.body, "{element}");
    }
}

fn start_of_rectangle((x, y): (f64, f64), (width, height): (f64, f64), radius: f64, class: &str) -> String {
    format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{radius}\" class=\"{class}\""
    )
}

/// The width of monospace text.
pub(crate) fn width_of(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * LETTER
}

/// Wraps text into lines of at most this width; a longer word is cut.
pub(crate) fn wrapped(text: &str, size: f64, width: f64) -> Vec<String> {
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

/// A CSS rule for one colour: selector, property, and the value in a light and in a dark scheme.
type Colour = (&'static str, &'static str, &'static str, &'static str);

/// All colours.
const COLOURS: [Colour; 27] = [
    (".paper", "fill", "#fbfaf8", "#14181d"),
    (".card,.pill,.pill-good,.pill-bad,.seen", "fill", "#fff", "#1c232b"),
    (".card,.pill", "stroke", "#cfd5dc", "#3a4551"),
    (".lane", "fill", "#f2f1ed", "#191f26"),
    (".track", "fill", "#e4e7eb", "#232b34"),
    ("text", "fill", "#1d2530", "#e6ebf0"),
    (".soft,.small", "fill", "#677383", "#93a0ae"),
    (".good", "fill", "#1a7f4b", "#56c88b"),
    (".bad", "fill", "#c0392b", "#ff7b6e"),
    (".mark", "fill", "#9a5b00", "#f0b75a"),
    (".markbg", "fill", "#fff3d6", "#3a2f17"),
    (".pill-good", "stroke", "#1a7f4b", "#56c88b"),
    (".pill-bad", "stroke", "#c0392b", "#ff7b6e"),
    (".there", "stroke", "#1f6feb", "#69a7ff"),
    (".back", "stroke", "#8250df", "#bb95ff"),
    (".head-there,.bar", "fill", "#1f6feb", "#69a7ff"),
    (".head-back", "fill", "#8250df", "#bb95ff"),
    (".even,.interval,.seen", "stroke", "#1d2530", "#e6ebf0"),
    (".hatch", "stroke", "#677383", "#93a0ae"),
    (".unknown", "stroke", "#677383", "#93a0ae"),
    (".on", "fill", "#fff", "#fff"),
    (".link", "stroke", "#aeb7c2", "#4a5663"),
    (".other", "stroke", "#8ab4f8", "#3f6aa8"),
    (".outline-good", "stroke", "#1a7f4b", "#56c88b"),
    (".outline-bad", "stroke", "#c0392b", "#ff7b6e"),
    (".step-there", "fill", "#1f6feb", "#2a6fd6"),
    (".step-back", "fill", "#8250df", "#8250df"),
];

fn colours(value: fn(&Colour) -> &'static str) -> String {
    COLOURS.iter().map(|colour| format!("{}{{{}:{}}}", colour.0, colour.1, value(colour))).collect()
}

/// The styles that do not depend on the colour scheme.
const SHAPES: &str = "
text{font:12px ui-monospace,'SFMono-Regular','DejaVu Sans Mono',Menlo,Consolas,monospace}
.title{font-size:18px;font-weight:700}.name{font-size:14px;font-weight:700}.hook,.mark,.good,.bad{font-weight:700}
.small{font-size:11px}.rule,.on{font-size:11px;font-weight:700}.pill-good,.pill-bad{stroke-width:2}
.there{fill:none;stroke-width:2;marker-end:url(#there)}
.back{fill:none;stroke-width:2;stroke-dasharray:6 4;marker-end:url(#back)}
.even{fill:none;stroke-width:1.5;stroke-dasharray:3 3}.interval{fill:none;stroke-width:1.5}.seen{stroke-width:1.5}
.unknown{fill:url(#hatch)}.link{fill:none;stroke-width:1.5}.other{fill:none;stroke-width:1.5;marker-end:url(#there)}
.outline-good,.outline-bad{fill:none;stroke-width:2}
.tag0{fill:#0b6e69}.tag1{fill:#9a5b00}.tag2{fill:#b03079}.tag3{fill:#475569}.tag4{fill:#3f7a0c}.tag5{fill:#4338ca}
.share0{fill:#1f6feb}.share1{fill:#6ea8fe}.share2{fill:#1a7f4b}.share3{fill:#63c394}.share4{fill:#8250df}.share5{fill:#c1a3f0}
";

const DEFINITIONS: &str = "<defs><marker id=\"there\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" \
markerHeight=\"7\" orient=\"auto-start-reverse\"><path d=\"M0 0L10 5L0 10z\" class=\"head-there\"/></marker>\
<marker id=\"back\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" \
orient=\"auto-start-reverse\"><path d=\"M0 0L10 5L0 10z\" class=\"head-back\"/></marker>\
<pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
<path d=\"M0 0V6\" class=\"hatch\"/></pattern></defs>";

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

    /// librsvg and other renderers do not support CSS variables, and draw black instead.
    #[test]
    fn colours_are_literal() {
        let picture = Canvas::default().finish("", 1.0, 1.0);
        assert!(!picture.contains("var(") && picture.contains(".paper{fill:#fbfaf8}"), "{picture}");
    }
}
