//! The page for a person.

use anstyle::AnsiColor;

use super::model::{Change, Explanation, Kernel, Line, Matched, OutcomeKind, Parting, Stop, Way};
use crate::text::{counted, shortened};

/// How the page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// Whether it has colours, as ANSI escape sequences.
    pub colours: bool,
    /// Whether words that a reader may not know are left unexplained.
    pub brief: bool,
    /// The way that is told rule by rule, from 1; where there are fewer, the last.
    pub way: usize,
}

const STRONG: anstyle::Style = anstyle::Style::new().bold();
const FAINT: anstyle::Style = anstyle::Style::new().dimmed();
const GOOD: anstyle::Style = AnsiColor::Green.on_default();
const BAD: anstyle::Style = AnsiColor::Red.on_default().bold();
const MARKED: anstyle::Style = AnsiColor::Yellow.on_default();

/// Ways that are listed.
const MOST_WAYS: usize = 12;

/// The whole explanation as text.
pub fn page(explanation: &Explanation, style: Style) -> String {
    let mut page = Page { text: String::new(), style };
    page.head(explanation);
    let way = explanation.kernel.as_ref().and_then(|kernel| kernel.way).unwrap_or(style.way);
    let chosen = way.clamp(1, explanation.ways.len().max(1)) - 1;
    if let Some(way) = explanation.ways.get(chosen) {
        page.ways(&explanation.ways, chosen);
        page.kernel(explanation.kernel.as_ref());
        page.way(way);
        if !style.brief {
            page.glossary(way);
        }
    } else {
        page.kernel(explanation.kernel.as_ref());
    }
    page.text
}

struct Page {
    text: String,
    style: Style,
}

impl Page {
    fn line(&mut self, indent: usize, text: impl std::fmt::Display) {
        let line = format!("{:indent$}{text}", "");
        self.text += line.trim_end();
        self.text.push('\n');
    }

    fn gap(&mut self) {
        if !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    fn paint(&self, style: anstyle::Style, text: impl std::fmt::Display) -> String {
        if self.style.colours { format!("{style}{text}{style:#}") } else { text.to_string() }
    }

    fn head(&mut self, explanation: &Explanation) {
        let Explanation { packet, promise, unpredicted, file, step, families, .. } = explanation;
        let title = self.paint(STRONG, format!("{} > {} {}", packet.from, packet.to, packet.protocol));
        let at = if *step == 0 { String::new() } else { format!(", after {}", counted(*step, "change")) };
        let place = self.paint(FAINT, format!("{file}{at}"));
        self.line(0, format!("{title}  {place}"));
        for family in families {
            self.line(0, self.paint(FAINT, format!("in {family} too: --family {family}")));
        }
        if let Some(promise) = promise {
            let service = promise.service.as_ref().map(|service| format!("  ({service})")).unwrap_or_default();
            self.gap();
            self.line(0, format!("should  {}{service}", promise.outcome));
            for because in &promise.because {
                let citation = self.paint(FAINT, format!("[{}]", because.citation));
                self.line(8, format!("{}  {citation}", because.sentence));
            }
            if let Some(known_bug) = &promise.known_bug {
                self.line(8, format!("but {known_bug}"));
            }
        }
        if let Some(reason) = unpredicted {
            self.gap();
            self.line(0, format!("would   no prediction: {reason}"));
        }
    }

    /// What can become of the packet, a line each.
    fn ways(&mut self, ways: &[Way], chosen: usize) {
        self.gap();
        let width = ways.iter().map(|way| way.share.text.len()).max().unwrap_or(0);
        for (position, way) in ways.iter().enumerate().take(MOST_WAYS) {
            let start = if position == 0 { "would" } else { "" };
            let told = match (ways.len(), position == chosen) {
                (1, _) => String::new(),
                (_, true) => self.paint(MARKED, "  < told below"),
                (_, false) => self.paint(FAINT, format!("  --way {}", position + 1)),
            };
            let style = if way.verdict == OutcomeKind::Delivered { GOOD } else { BAD };
            let outcome = self.paint(style, &way.outcome);
            self.line(0, format!("{start:<8}{:>width$}  {outcome}{told}", way.share.text));
        }
        if let Some(more) = ways.len().checked_sub(MOST_WAYS + 1) {
            self.line(8, format!("and {}", counted(more + 1, "more way")));
        }
    }

    /// What the kernel did.
    fn kernel(&mut self, kernel: Option<&Kernel>) {
        let Some(kernel) = kernel else { return };
        let Kernel { observed, predicted, alike, met, difference, .. } = kernel;
        self.gap();
        let odd = if *predicted == Some(false) { self.paint(BAD, "  which is not predicted") } else { String::new() };
        self.line(0, format!("did     {observed}{odd}"));
        match (difference, predicted) {
            (None, _) if *met == 0 => self.line(8, "the kernel told of no rule that it met"),
            (None, None) => self.line(8, format!("on its way the kernel met {}", counted(*met, "rule"))),
            (None, _) => {
                let words = format!("the kernel met {} as predicted, one after the other", counted(*alike, "rule"));
                self.line(8, self.paint(GOOD, words));
            }
            (Some(Parting { place, packet, predicted, kernel }), _) => {
                let words = format!(
                    "the kernel met {} as predicted, and then leaves the way of {packet} on {place}:",
                    counted(*alike, "rule")
                );
                self.line(8, self.paint(BAD, words));
                self.line(10, format!("predicted  {}", shortened(predicted.as_deref().unwrap_or("no further rule"))));
                self.line(10, format!("kernel     {}", shortened(kernel)));
            }
        }
    }

    fn way(&mut self, way: &Way) {
        if let Some(assumed) = &way.assumed {
            self.gap();
            self.line(0, format!("assumed {assumed}"));
        }
        self.gap();
        let heading = if way.there.is_empty() { "no rules are on its way" } else { "the way there" };
        self.line(0, self.paint(STRONG, heading));
        self.stops(&way.there, 1);
        if !way.back.is_empty() {
            let heading =
                if way.verdict == OutcomeKind::Rejected { "the rejection's way back" } else { "the answer's way back" };
            self.gap();
            self.line(0, self.paint(STRONG, heading));
            self.stops(&way.back, way.there.len() + 1);
        } else if let Some(reply) = &way.reply {
            self.line(0, reply);
        }
    }

    fn stops(&mut self, stops: &[Stop], first: usize) {
        for (number, stop) in (first..).zip(stops) {
            self.gap();
            self.stop(number, stop);
        }
    }

    fn stop(&mut self, number: usize, stop: &Stop) {
        let place = self.paint(STRONG, &stop.place);
        let hook = self.paint(STRONG, stop.hook);
        let by = |word: &str, name: &Option<String>| {
            name.as_ref().map(|name| format!("  {word} {name}")).unwrap_or_default()
        };
        let (input, output) = (by("in by", &stop.input), by("out by", &stop.output));
        self.line(0, format!("{number:>2}  {place}  {hook}{input}{output}"));
        self.line(4, &stop.came);
        if let Some(words) = stop.connection {
            self.line(4, self.paint(FAINT, words));
        }
        let mut table = "";
        for line in &stop.rules {
            if line.table != table {
                table = &line.table;
                self.line(4, format!("table {table}"));
            }
            self.rule(line);
        }
        if stop.passed > 0 {
            let words = match stop.rules.is_empty() {
                true => format!("{} had nothing for it", counted(stop.passed, "rule")),
                false => format!("{} on its way had nothing for it", counted(stop.passed, "other rule")),
            };
            self.line(6, self.paint(FAINT, words));
        } else if stop.rules.is_empty() && stop.connection.is_none() {
            self.line(6, self.paint(FAINT, "no rule has anything for it"));
        }
        for Change { what, from, to } in &stop.changes {
            self.line(4, self.paint(MARKED, format!("{what:<11} {from} becomes {to}")));
        }
        self.line(4, format!("> {}", stop.then));
    }

    fn rule(&mut self, line: &Line) {
        let indent = 6 + 2 * line.depth;
        let mark = match line.kernel {
            None => String::new(),
            Some(true) => self.paint(GOOD, "= "),
            Some(false) => self.paint(BAD, "! "),
        };
        self.line(indent - 2 * usize::from(line.kernel.is_some()), format!("{mark}{}", shortened(&line.text)));
        let place = self.paint(FAINT, format!("{} {} of {}", line.chain, line.number, line.of));
        let word = match line.matched {
            Matched::Yes | Matched::NotByChance => String::new(),
            Matched::Perhaps => self.paint(MARKED, "perhaps: "),
            Matched::Unknown => self.paint(BAD, "unknown: "),
        };
        self.line(indent + 2, format!("{word}{}: {}  {place}", line.why, line.does));
        if let Some(note) = &line.note {
            self.line(indent + 2, self.paint(FAINT, note));
        }
    }

    /// The words of the way that somebody may not know, each with its meaning.
    fn glossary(&mut self, way: &Way) {
        let stops = || way.there.iter().chain(&way.back);
        let mut words: Vec<(&str, &str)> = Vec::new();
        if stops().next().is_some() {
            words.push(("hook", "a place in the kernel where a packet stops on its way, and rules are asked"));
        }
        for (hook, meaning) in HOOKS {
            if stops().any(|stop| stop.hook == hook) {
                words.push((hook, meaning));
            }
        }
        let lines = || stops().flat_map(|stop| &stop.rules);
        for (language, meanings) in RULES {
            if lines().any(|line| line.language == language) {
                words.extend(meanings);
            }
        }
        for (what, word, meaning) in CHANGES {
            if way.there.iter().any(|stop| stop.changes.iter().any(|change| change.what == what)) {
                words.push((word, meaning));
            }
        }
        for (language, meaning) in CHANCE {
            if lines().any(|line| line.language == language && line.chance.is_some()) {
                words.push(("chance", meaning));
            }
        }
        if lines().any(|line| REMEMBERING.iter().any(|words| line.text.contains(words))) {
            words.push(AFFINITY);
        }
        self.gap();
        self.line(0, self.paint(STRONG, "words"));
        for (word, meaning) in words {
            self.line(2, format!("{word:<12} {meaning}"));
        }
    }
}

/// What the hooks are.
const HOOKS: [(&str, &str); 5] = [
    ("PREROUTING", "the packet has come in by an interface, and where it goes is not decided yet"),
    ("INPUT", "it is for this machine itself"),
    ("FORWARD", "it is for another machine, and this one passes it on"),
    ("OUTPUT", "a process of this machine has sent it"),
    ("POSTROUTING", "it is about to leave by an interface"),
];

/// What rules are, in each language.
const RULES: [(&str, [(&str, &str); 3]); 2] = [
    (
        "iptables",
        [
            (
                "table",
                "rules of one purpose: at a hook the kernel asks raw, mangle, nat (for destinations), filter, nat (for sources)",
            ),
            ("chain", "a list of rules that are asked in order; `-j NAME` goes through another chain and comes back"),
            ("rule", "conditions, and what is done (`-j`) with a packet for which all of them hold"),
        ],
    ),
    (
        "nftables",
        [
            (
                "chain",
                "a list of rules that are asked in order; `jump` goes through another chain and comes back, `goto` does not",
            ),
            ("rule", "conditions, and what is done with a packet for which all of them hold, from left to right"),
            ("map", "what to do with a packet by its address, protocol or port: one look instead of a rule a service"),
        ],
    ),
];

/// What translation is.
const CHANGES: [(&str, &str, &str); 3] = [
    (
        "destination",
        "DNAT",
        "the destination is rewritten; the connection table remembers it, and rewrites answers the other way round",
    ),
    (
        "source",
        "SNAT",
        "the source is rewritten (MASQUERADE: to this machine's own), so that the answer comes back by this machine",
    ),
    ("mark", "mark", "a number that rules write on a packet for later rules; it never leaves the machine"),
];

/// What rules have that remember a client, in each language.
const REMEMBERING: [&str; 2] = ["-m recent --set", "update @"];

/// What that is for.
const AFFINITY: (&str, &str) = (
    "affinity",
    "a client that is remembered goes to its endpoint again; told here is a first connection, of one that is not",
);

/// How rules leave something to chance, in each language.
const CHANCE: [(&str, &str); 2] = [
    (
        "iptables",
        "each rule sees only what those before it left: 1/3, then 1/2 of the rest, then all that is left are a third each",
    ),
    ("nftables", "`numgen random mod 3` draws 0, 1 or 2, and a map has what is done for each"),
];
