//! The page for a terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::finding::{Example, Finding};
use super::verification::{AddressKind, CoverageRow, SenderKind, Verification};
use super::{Options, Verified};
use crate::page::{BAD, FAINT, GOOD, MARKED, Page, Settings};
use crate::report::{Trouble, program_lines};
use crate::text::{counted, printable};

/// The maximum number of vantage points that have a row of their own.
const MAX_ROWS: usize = 24;
/// The maximum number of rules of an example.
const MAX_RULES: usize = 30;
/// The maximum number of predicted branches of an example.
const MAX_BRANCHES: usize = 6;
/// A blank of the width of an example's labels.
const NO_LABEL: &str = "           ";

/// The page of one scenario.
pub fn page(verified: &Verified, options: &Options, settings: Settings) -> String {
    let mut page = Page::new(settings);
    if settings.is_quiet() && verified.holds(options) {
        if let Some(words) = not_verified(verified) {
            page.line(0, format!("{}: {words}", printable(&verified.file)));
        }
        return page.finish();
    }
    page.line(0, format!("{}  {}", verified.name, printable(&verified.file)));
    if settings.is_verbose() {
        for program in program_lines(&verified.programs) {
            page.line(2, page.paint(FAINT, program));
        }
    }
    match &verified.result {
        Ok(verification) => {
            table(&mut page, verification);
            for defect in &verification.structure_defects {
                page.gap();
                let mark = page.paint(BAD, "DEFECT");
                page.labelled(2, format!("{mark}  "), defect);
            }
            for (position, difference) in verification.differences.iter().enumerate() {
                if position == 0 {
                    page.gap();
                    page.line(2, "rules that differ from those of kube-proxy:");
                }
                page.line(4, difference);
            }
            for finding in &verification.findings {
                show(&mut page, finding, finding.disagreement.fails(options.allow_unknown));
            }
            for note in &verification.notes {
                page.gap();
                page.labelled(2, format!("{}  ", page.paint(MARKED, "note")), note);
            }
            page.line(2, closing(&page, verification, options));
            if let Some(words) = not_verified(verified) {
                page.line(2, words);
            }
            for words in &verified.ignored_rules {
                let words = format!("not verified: {words}");
                page.line(2, if options.allow_unknown { words } else { page.paint(BAD, words) });
            }
        }
        Err(trouble) => show_trouble(&mut page, trouble),
    }
    page.gap();
    page.finish()
}

/// The tables that are not part of the lab: their rules may drop or change the same traffic.
fn not_verified(verified: &Verified) -> Option<String> {
    let tables = &verified.left_out;
    let number = counted(tables.len(), "table");
    (!tables.is_empty()).then(|| format!("not verified: {number} other than kube-proxy's: {}", tables.join(", ")))
}

/// The summary of several scenarios.
pub fn summary(all: &[Verified], options: &Options, settings: Settings) -> String {
    let held = all.iter().filter(|verified| verified.holds(options)).count();
    let flows: usize = all.iter().flat_map(|one| &one.result).map(Verification::flows).sum();
    let mut page = Page::new(settings);
    if (settings.is_quiet() && held == all.len()) || all.len() == 1 {
        return page.finish();
    }
    for verified in all.iter().filter(|verified| !verified.holds(options)) {
        page.line(0, format!("{}  {}", page.paint(BAD, "FAIL"), printable(&verified.file)));
    }
    let scenarios = counted(all.len(), "scenario");
    page.line(0, format!("{scenarios}: {held} ok, {} failed; {}", all.len() - held, counted(flows, "flow")));
    page.finish()
}

fn closing(page: &Page, verification: &Verification, options: &Options) -> String {
    let Verification { nodes, services, .. } = verification;
    let all = verification.flows();
    let head = format!("{}, {}: {}", counted(*nodes, "node"), counted(*services, "service"), counted(all, "flow"));
    let failed: usize = verification.failures(options).map(|finding| finding.flows).sum();
    let allowed: usize = verification.findings.iter().map(|finding| finding.flows).sum::<usize>() - failed;
    // What the lab could not send disagrees without an observation.
    let is_observed = failed == 0 || verification.failures(options).any(|finding| finding.example.is_observed);
    let sources = match options.no_lab || !is_observed {
        true => "promise and prediction",
        false => "promise, prediction and observation",
    };
    let mut text = match failed {
        0 => format!("{head}; {}", page.paint(GOOD, format!("{sources} agree"))),
        failed => {
            let words = format!("{sources} disagree on {}", counted(failed, "flow"));
            format!("{head}; {}", page.paint(BAD, words))
        }
    };
    if allowed > 0 {
        let _ = write!(text, ", except for {} noted above", counted(allowed, "flow"));
    }
    if verification.left_out > 0 {
        let left = counted(verification.left_out, "class");
        let _ = write!(text, "; incomplete: at least {left} not followed (--max-classes reached)");
    }
    if verification.not_promised > 0 {
        let _ = write!(text, "; nothing is promised for {}", counted(verification.not_promised, "flow"));
    }
    let _ = write!(text, " ({:.1} s)", verification.duration.as_secs_f64());
    text
}

/// The table with vantage points in rows and kinds of addresses in columns: the number of flows, and of those on which all sources agree.
fn table(page: &mut Page, verification: &Verification) {
    let points: BTreeSet<(SenderKind, &str)> =
        verification.coverage.iter().map(|row| (row.sender, row.from.as_str())).collect();
    let is_long = points.len() > MAX_ROWS;
    // The row that a vantage point shares with others of its kind.
    let shared = |kind: SenderKind| kind.counted(points.iter().filter(|(sender, _)| *sender == kind).count());
    let mut rows: Vec<String> = Vec::new();
    let mut cells: BTreeMap<(usize, AddressKind), (usize, usize)> = BTreeMap::new();
    for CoverageRow { from, sender, kind, flows, disagreeing } in &verification.coverage {
        let name = if is_long { shared(*sender) } else { from.clone() };
        let row = rows.iter().position(|row| *row == name).unwrap_or_else(|| {
            rows.push(name);
            rows.len() - 1
        });
        let cell = cells.entry((row, *kind)).or_default();
        *cell = (cell.0 + flows, cell.1 + disagreeing);
    }
    let columns = AddressKind::ALL.into_iter().filter(|kind| cells.keys().any(|(_, of)| of == kind));
    let columns: Vec<AddressKind> = columns.collect();
    let row = |(index, name): (usize, String)| {
        let cell = |kind: &AddressKind| match cells.get(&(index, *kind)) {
            None => String::new(),
            Some((flows, 0)) => flows.to_string(),
            Some((flows, disagreeing)) => format!("{} of {flows}", flows - disagreeing),
        };
        std::iter::once(name).chain(columns.iter().map(cell)).collect::<Vec<String>>()
    };
    let headings: Vec<&str> = std::iter::once("").chain(columns.iter().map(|kind| kind.heading())).collect();
    let rows: Vec<Vec<String>> = rows.into_iter().enumerate().map(row).collect();
    page.table(2, &headings, &rows);
}

fn show(page: &mut Page, finding: &Finding, fails: bool) {
    let Finding { disagreement, what, flows, example } = finding;
    let mark = if fails { page.paint(BAD, "FAIL") } else { page.paint(MARKED, "note") };
    page.gap();
    page.labelled(2, format!("{mark}  "), format!("{}: {what}", counted(*flows, "flow")));
    page.line(8, disagreement.sentence(example.is_observed));
    if !fails {
        return;
    }
    let Example { flow, service, promise, prediction, observation, rules, explain, .. } = example;
    let service = service.as_ref().map(|service| format!("  ({service})")).unwrap_or_default();
    page.labelled(8, "for example  ", format!("{flow}{service}"));
    page.labelled(10, "promised   ", promise);
    for (position, branch) in prediction.iter().take(MAX_BRANCHES).enumerate() {
        page.labelled(10, if position == 0 { "predicted  " } else { NO_LABEL }, branch);
    }
    if let Some(more) = prediction.len().checked_sub(MAX_BRANCHES + 1) {
        page.line(21, format!("and {} more", more + 1));
    }
    page.labelled(10, "observed   ", observation);
    for (position, rule) in rules.iter().take(MAX_RULES).enumerate() {
        page.labelled(10, if position == 0 { "rules      " } else { NO_LABEL }, rule);
    }
    if let Some(explain) = explain {
        page.command(10, "explain    ", explain);
    }
}

fn show_trouble(page: &mut Page, trouble: &Trouble) {
    page.labelled(2, format!("{}  ", page.paint(BAD, "ERROR")), &trouble.message);
    if let Some(help) = &trouble.help {
        page.line(9, help);
    }
}
