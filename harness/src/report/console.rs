//! The report for a person at a terminal.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

use super::way::stretches;
use super::words::{counts, direction, duration, trouble};
use super::{Diagnosis, KernelWay, ProbeReport, RunReport, ScenarioReport, Status, TestReport, Trouble};
use crate::judge::{Difference, Field, observed_words};
use crate::observation::{Observation, Sighting};
use crate::text::{counted, printable, shortened};

/// How the report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Whether it has colours, as ANSI escape sequences.
    pub colours: bool,
    /// How much it says.
    pub detail: Detail,
}

/// How much is said. Failures are always told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// Failures and nothing else.
    Quiet,
    /// One line a test.
    #[default]
    Normal,
    /// The path of every probe, interface by interface.
    Verbose,
}

/// The widest test name that durations are lined up behind.
const WIDEST_NAME: usize = 72;

/// Everything: each scenario, then the summary.
pub fn render(run: &RunReport, options: Options) -> String {
    let scenarios: String = run.scenarios.iter().map(|report| scenario(report, options)).collect();
    scenarios + &summary(run, options)
}

/// One scenario with its tests, as soon as it has been run.
pub fn scenario(report: &ScenarioReport, options: Options) -> String {
    let quiet = options.detail == Detail::Quiet;
    if quiet && report.status() == Status::Ok {
        return String::new();
    }
    let mut page = Page::new(options);
    page.heading(report);
    let width = report.tests.iter().map(|test| test.name.chars().count()).max().unwrap_or(0).min(WIDEST_NAME);
    for test in report.tests.iter().filter(|test| !quiet || test.status() != Status::Ok) {
        page.test(test, width);
        if let Some(trouble) = trouble(test).filter(|_| !report.is_told_by_lab(test)) {
            page.trouble(&trouble);
        }
    }
    if let Some(error) = &report.error {
        page.outcome(Status::Error, "the lab", width, None);
        page.trouble(error);
    } else if report.tests.is_empty() {
        page.outcome(Status::Error, "there is no test", width, None);
    }
    for note in &report.notes {
        page.line(2, page.paint(FAINT, format!("note: {note}")));
    }
    page.gap();
    page.text
}

/// The end: what failed, how much was done, and how long it took.
pub fn summary(run: &RunReport, options: Options) -> String {
    let mut page = Page::new(options);
    let status = run.status();
    if options.detail == Detail::Quiet && status == Status::Ok {
        return page.text;
    }
    if status != Status::Ok {
        page.failures(run);
    }
    let style = page.style_of(status);
    let words = page.paint(style, counts(run.counts()));
    let filtered = if run.filtered > 0 { format!(", {} left out", run.filtered) } else { String::new() };
    page.line(0, format!("{words}{filtered}, in {}", duration(run.duration)));
    page.text
}

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const MARKED: Style = AnsiColor::Yellow.on_default();
const STRONG: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

/// Text under construction.
struct Page {
    text: String,
    options: Options,
}

impl Page {
    fn new(options: Options) -> Self {
        Self { text: String::new(), options }
    }

    fn line(&mut self, indent: usize, text: impl Display) {
        let line = format!("{:indent$}{text}", "");
        self.text += line.trim_end();
        self.text.push('\n');
    }

    /// One empty line, never two.
    fn gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// Text with a style. It has to be padded before: escape sequences have no width.
    fn paint(&self, style: Style, text: impl Display) -> String {
        if self.options.colours { format!("{style}{text}{style:#}") } else { text.to_string() }
    }

    fn style_of(&self, status: Status) -> Style {
        if status == Status::Ok { GOOD } else { BAD }
    }

    fn heading(&mut self, report: &ScenarioReport) {
        let place = self.paint(FAINT, printable(&report.file));
        self.line(0, format!("{}  {place}", self.paint(STRONG, &report.name)));
    }

    fn outcome(&mut self, status: Status, name: &str, width: usize, time: Option<std::time::Duration>) {
        let time = time.map(duration).unwrap_or_default();
        let (word, time) = (self.paint(self.style_of(status), word(status)), self.paint(FAINT, format!("{time:>10}")));
        self.line(2, format!("{word} {name:width$} {time}"));
    }

    fn test(&mut self, test: &TestReport, width: usize) {
        self.outcome(test.status(), &test.name, width, Some(test.duration));
        let shown = test.probes.iter().filter(|probe| probe.verdict.held && !probe.verdict.shown.is_empty()).count();
        for probe in &test.probes {
            if !probe.verdict.held {
                self.failed(probe);
            } else if self.options.detail == Detail::Verbose {
                self.held(probe);
            } else if self.options.detail == Detail::Normal {
                let indent = if shown > 1 { 10 } else { 8 };
                if shown > 1 && !probe.verdict.shown.is_empty() {
                    self.line(8, self.paint(FAINT, &probe.title));
                }
                for shown in &probe.verdict.shown {
                    self.line(indent, self.paint(FAINT, shown));
                }
            }
        }
    }

    /// A probe that held, in full.
    fn held(&mut self, probe: &ProbeReport) {
        self.line(8, self.paint(STRONG, &probe.title));
        self.line(10, observed_words(&probe.observation));
        for shown in &probe.verdict.shown {
            self.line(10, shown);
        }
        self.path(10, probe, false);
    }

    /// A probe that failed, what matters most first: what is wrong, who is wrong, by which rules, and where to look.
    fn failed(&mut self, probe: &ProbeReport) {
        let span = self.paint(FAINT, &probe.span);
        self.gap();
        self.line(8, format!("{}  {span}", self.paint(STRONG, &probe.title)));
        for difference in &probe.verdict.differences {
            self.difference(difference);
        }
        self.rest_of_the_expectation(probe);
        if let Some(diagnosis) = &probe.diagnosis {
            self.diagnosis(diagnosis);
        }
        if probe.rules.iter().any(|excerpt| !excerpt.lines.is_empty()) {
            self.gap();
        }
        for excerpt in probe.rules.iter().filter(|excerpt| !excerpt.lines.is_empty()) {
            self.line(8, format!("{} {}", self.paint(FAINT, "rules that decide on"), excerpt.place));
            for rule in &excerpt.lines {
                self.line(10, shortened(rule));
            }
        }
        match &probe.observation {
            Observation::Flow(_) if self.options.detail == Detail::Verbose => self.path(8, probe, true),
            Observation::Flow(flow) => self.way(&flow.path),
            Observation::Tally(_) => {}
        }
        if let Some(command) = &probe.look {
            self.gap();
            self.line(8, format!("{}  {command}", self.paint(FAINT, "look further")));
        }
        self.gap();
    }

    /// The way of a packet in few lines: a line wherever it was changed.
    fn way(&mut self, path: &[Sighting]) {
        self.gap();
        let stretches = stretches(path);
        let heading = if path.is_empty() { "it was seen nowhere on its way" } else { "its way, as far as it was seen" };
        self.line(8, self.paint(FAINT, heading));
        let width = stretches.iter().map(|stretch| stretch.places().chars().count()).max().unwrap_or(0);
        for (at, stretch) in stretches.iter().enumerate() {
            let line = format!("{:width$}  {}", stretch.places(), stretch.packet);
            if at + 1 < stretches.len() {
                self.line(10, line);
            } else {
                let Sighting { interface, direction: way, .. } = stretch.last;
                let end = format!("< last seen {} by {interface}", direction(*way));
                self.line(10, format!("{}  {}", self.paint(MARKED, line), self.paint(MARKED, end)));
            }
        }
    }

    /// What all sources say.
    fn diagnosis(&mut self, diagnosis: &Diagnosis) {
        let Diagnosis { promise, prediction, unpredicted, observation, meaning, kernel, untraced } = diagnosis;
        self.gap();
        self.line(8, self.paint(STRONG, meaning));
        if let Some(promise) = promise {
            self.line(8, format!("should    {promise}"));
        }
        for (position, branch) in prediction.iter().enumerate() {
            self.line(8, format!("{:<8}  {branch}", if position == 0 { "would" } else { "" }));
        }
        if let Some(reason) = unpredicted {
            self.line(8, format!("would     no prediction: {reason}"));
        }
        self.line(8, format!("did       {observation}, when it was sent again"));
        match kernel {
            Some(KernelWay { alike, difference: Some(difference), .. }) => {
                let heading = format!("the kernel met {} as predicted, and then parts:", counted(*alike, "rule"));
                self.line(18, self.paint(MARKED, heading));
                for line in difference {
                    self.line(20, shortened(line));
                }
            }
            Some(KernelWay { alike, .. }) => {
                self.line(18, self.paint(FAINT, format!("the kernel met {} as predicted", counted(*alike, "rule"))));
            }
            None => {}
        }
        if let Some(reason) = untraced {
            self.line(18, self.paint(FAINT, format!("the kernel was not traced: {reason}")));
        }
    }

    fn difference(&mut self, difference: &Difference) {
        let Difference { field, expected, observed, reason } = difference;
        let (is, should) = (self.paint(BAD, "observed"), self.paint(GOOD, "expected"));
        let field = field.as_str();
        self.gap();
        self.line(8, format!("{field:<8}  {should}  {expected}"));
        self.line(8, format!("{:8}  {is}  {observed}", ""));
        for part in reason.split("; ").filter(|part| part != observed) {
            self.line(28, self.paint(FAINT, part));
        }
    }

    /// What else was expected: a reader of a failure should not have to look it up.
    fn rest_of_the_expectation(&mut self, probe: &ProbeReport) {
        let differs = |field| probe.verdict.differences.iter().any(|difference| difference.field == field);
        // Source and reply of a single flow are not judged where it went astray.
        let astray =
            matches!(probe.observation, Observation::Flow(_)) && (differs(Field::Outcome) || differs(Field::Flows));
        let word = if astray { "expected" } else { "held    " };
        self.gap();
        for (field, words) in probe.expected.iter().filter(|(field, _)| !differs(*field)) {
            self.line(8, self.paint(FAINT, format!("{:<8}  {word}  {words}", field.as_str())));
        }
    }

    fn path(&mut self, indent: usize, probe: &ProbeReport, failed: bool) {
        let Observation::Flow(flow) = &probe.observation else { return };
        let width =
            |part: fn(&Sighting) -> &str| flow.path.iter().map(|at| part(at).chars().count()).max().unwrap_or(0);
        let (places, interfaces) = (width(|at| &at.place), width(|at| &at.interface));
        if failed {
            self.gap();
            let heading =
                if flow.path.is_empty() { "it was seen nowhere on its way" } else { "its way, as far as it was seen" };
            self.line(indent, self.paint(FAINT, heading));
        }
        let indent = if failed { indent + 2 } else { indent };
        for (at, Sighting { place, interface, direction: way, packet, .. }) in flow.path.iter().enumerate() {
            let way = direction(*way);
            let line = format!("{:>2}  {place:places$}  {interface:interfaces$}  {way:<3}  {packet}", at + 1);
            let last = failed && at + 1 == flow.path.len();
            match last {
                true => {
                    self.line(indent, format!("{}  {}", self.paint(MARKED, line), self.paint(MARKED, "< last seen")))
                }
                false => self.line(indent, line),
            }
        }
    }

    fn trouble(&mut self, trouble: &Trouble) {
        self.gap();
        for line in trouble.message.lines() {
            self.line(8, self.paint(BAD, line));
        }
        if let Some(span) = &trouble.span {
            self.line(8, self.paint(FAINT, span));
        }
        if let Some(help) = &trouble.help {
            self.line(8, help);
        }
        self.gap();
    }

    /// The places of everything that failed, at the end, where a reader of a long log begins.
    fn failures(&mut self, run: &RunReport) {
        for scenario in run.scenarios.iter().filter(|scenario| scenario.status() != Status::Ok) {
            for test in scenario.tests.iter().filter(|test| test.status() != Status::Ok) {
                let word = self.paint(BAD, word(test.status()));
                self.line(0, format!("{word} {}  {}", self.paint(FAINT, &test.span), test.name));
            }
            if scenario.error.is_some() || scenario.tests.is_empty() {
                let (word, place) =
                    (self.paint(BAD, word(Status::Error)), self.paint(FAINT, printable(&scenario.file)));
                self.line(0, format!("{word} {place}  {}", scenario.name));
            }
        }
        self.gap();
    }
}

/// What a line begins with, all of one width.
fn word(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok   ",
        Status::Failed => "FAIL ",
        Status::Error => "ERROR",
    }
}
