//! The page for a person at a terminal.

use std::collections::BTreeMap;
use std::fmt::Write;

use anstyle::AnsiColor;

use super::finding::{Example, Finding};
use super::verification::{AddressKind, Verification};
use super::{Options, Verified};
use crate::report::Trouble;
use crate::text::printable;

/// Vantage points up to which each has a row of its own.
const MOST_ROWS: usize = 24;
/// Rules of an example that are shown at most.
const MOST_RULES: usize = 30;
/// Branches of an example that are shown at most.
const MOST_BRANCHES: usize = 6;

/// How the page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// Whether it has colours, as ANSI escape sequences.
    pub colours: bool,
    /// Whether only what is wrong is said.
    pub quiet: bool,
}

/// What came of one scenario.
pub fn page(verified: &Verified, options: &Options, style: Style) -> String {
    if style.quiet && verified.holds(options) {
        return not_verified(verified)
            .map(|told| format!("{}: {told}\n", printable(&verified.file)))
            .unwrap_or_default();
    }
    let mut page = format!("{}  {}\n", verified.name, printable(&verified.file));
    match &verified.result {
        Ok(verification) => {
            table(&mut page, verification);
            for finding in &verification.findings {
                show(&mut page, finding, finding.disagreement.fails(options.allow_unknown), style);
            }
            line(&mut page, &format!("  {}", closing(verification, options, style)));
            not_verified(verified).iter().for_each(|told| line(&mut page, &format!("  {told}")));
        }
        Err(trouble) => show_trouble(&mut page, trouble, style),
    }
    page.push('\n');
    page
}

/// Which tables nobody looked at: their rules may drop or change the same traffic.
fn not_verified(verified: &Verified) -> Option<String> {
    let tables = &verified.left_out;
    let number = count(tables.len(), "table");
    (!tables.is_empty()).then(|| format!("not verified: {number} beside kube-proxy's: {}", tables.join(", ")))
}

/// The end, over all scenarios.
pub fn summary(all: &[Verified], options: &Options, style: Style) -> String {
    let held = all.iter().filter(|verified| verified.holds(options)).count();
    let flows: usize = all.iter().flat_map(|one| &one.result).map(Verification::flows).sum();
    if (style.quiet && held == all.len()) || all.len() == 1 {
        return String::new();
    }
    let mut text = String::new();
    for verified in all.iter().filter(|verified| !verified.holds(options)) {
        line(&mut text, &format!("{}  {}", paint(style, AnsiColor::Red, "FAIL"), printable(&verified.file)));
    }
    let scenarios = count(all.len(), "scenario");
    let words = format!("{scenarios}: {held} agree, {} do not; {}", all.len() - held, count(flows, "flow"));
    line(&mut text, &words);
    text
}

fn closing(verification: &Verification, options: &Options, style: Style) -> String {
    let Verification { nodes, services, .. } = verification;
    let all = verification.flows();
    let head = format!("{}, {}: {}", count(*nodes, "node"), count(*services, "service"), count(all, "flow"));
    let parted: usize = verification.failures(options).map(|finding| finding.flows).sum();
    let allowed: usize = verification.findings.iter().map(|finding| finding.flows).sum::<usize>() - parted;
    let sources = "promise, prediction and observation";
    let mut text = match parted {
        0 => format!("{head}; {}", paint(style, AnsiColor::Green, &format!("{sources} agree"))),
        parted => {
            let words = format!("{sources} part about {}", count(parted, "flow"));
            format!("{head}; {}", paint(style, AnsiColor::Red, &words))
        }
    };
    if allowed > 0 {
        let _ = write!(text, ", but for {} as told above", count(allowed, "flow"));
    }
    if verification.not_promised > 0 {
        let _ = write!(text, "; of {} nothing is promised", verification.not_promised);
    }
    let _ = write!(text, " ({:.1} s)", verification.duration.as_secs_f64());
    text
}

/// Vantage points in rows, kinds of addresses in columns: how many flows, and of these how many the sources agree about.
fn table(page: &mut String, verification: &Verification) {
    let mut points: Vec<&str> = Vec::new();
    for asked in &verification.asked {
        if !points.contains(&asked.from.as_str()) {
            points.push(&asked.from);
        }
    }
    let is_long = points.len() > MOST_ROWS;
    let mut rows: Vec<String> = Vec::new();
    let mut cells: BTreeMap<(usize, AddressKind), (usize, usize)> = BTreeMap::new();
    for asked in &verification.asked {
        let name = if is_long { group(&asked.from, &points) } else { asked.from.clone() };
        let row = rows.iter().position(|row| *row == name).unwrap_or_else(|| {
            rows.push(name);
            rows.len() - 1
        });
        let cell = cells.entry((row, asked.kind)).or_default();
        *cell = (cell.0 + asked.flows, cell.1 + asked.parted);
    }
    let columns = AddressKind::ALL.into_iter().filter(|kind| cells.keys().any(|(_, of)| of == kind));
    let columns: Vec<AddressKind> = columns.collect();
    let width = rows.iter().map(|row| row.chars().count()).max().unwrap_or(0);
    let heading: String = columns.iter().map(|kind| format!("  {:>13}", kind.heading())).collect();
    line(page, &format!("  {:width$}{heading}", ""));
    for (index, row) in rows.iter().enumerate() {
        let cell = |kind: &AddressKind| match cells.get(&(index, *kind)) {
            None => String::new(),
            Some((flows, 0)) => flows.to_string(),
            Some((flows, parted)) => format!("{} of {flows}", flows - parted),
        };
        let values: String = columns.iter().map(|kind| format!("  {:>13}", cell(kind))).collect();
        line(page, &format!("  {row:width$}{values}"));
    }
}

/// The row of a vantage point where there are too many for one each: `12 pods`.
fn group(from: &str, all: &[&str]) -> String {
    let kind = |name: &str| name.split(['/', '@']).next().unwrap_or_default().to_owned();
    let own = kind(from);
    let number = all.iter().filter(|name| kind(name) == own).count();
    if own == "localhost" { format!("localhost of {}", count(number, "node")) } else { count(number, &own) }
}

fn show(page: &mut String, finding: &Finding, fails: bool, style: Style) {
    let Finding { disagreement, what, flows, example } = finding;
    let mark = if fails { paint(style, AnsiColor::Red, "FAIL") } else { paint(style, AnsiColor::Yellow, "note") };
    line(page, "");
    line(page, &format!("  {mark}  {}: {what}", count(*flows, "flow")));
    line(page, &format!("        {}", disagreement.sentence()));
    if !fails {
        return;
    }
    let Example { flow, service, promise, prediction, observation, rules } = example;
    let service = service.as_ref().map(|service| format!("  ({service})")).unwrap_or_default();
    line(page, &format!("        for example  {flow}{service}"));
    line(page, &format!("          should     {promise}"));
    for (position, branch) in prediction.iter().take(MOST_BRANCHES).enumerate() {
        line(page, &format!("          {}{branch}", if position == 0 { "would      " } else { "           " }));
    }
    if let Some(more) = prediction.len().checked_sub(MOST_BRANCHES + 1) {
        line(page, &format!("                     and {}", count(more + 1, "branch")));
    }
    line(page, &format!("          did        {observation}"));
    for (position, rule) in rules.iter().take(MOST_RULES).enumerate() {
        line(page, &format!("          {}{rule}", if position == 0 { "by rules   " } else { "           " }));
    }
}

fn show_trouble(page: &mut String, trouble: &Trouble, style: Style) {
    line(page, &format!("  {}  {}", paint(style, AnsiColor::Red, "ERROR"), trouble.message));
    if let Some(help) = &trouble.help {
        line(page, &format!("         {help}"));
    }
}

fn line(page: &mut String, text: &str) {
    page.push_str(text.trim_end());
    page.push('\n');
}

fn paint(style: Style, colour: AnsiColor, text: &str) -> String {
    let paint = anstyle::Style::new().fg_color(Some(colour.into())).bold();
    if style.colours { format!("{paint}{text}{paint:#}") } else { text.to_owned() }
}

/// A number with its noun, thousands apart.
fn count(number: usize, noun: &str) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    let plural = match (number, noun) {
        (1, _) => "",
        (_, "branch") => "es",
        _ => "s",
    };
    format!("{text} {noun}{plural}")
}
