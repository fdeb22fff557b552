//! The sections of the page, from its head to the rules of one path.

use super::glossary;
use crate::explain::model::{
    Change, Divergence, Explanation, HookVisit, KernelRun, Matched, OutcomeKind, Path, RuleVisit,
};
use crate::page::{BAD, FAINT, GOOD, MARKED, Page, STRONG, Settings};
use crate::text::{counted, shortened};

/// Maximum number of paths listed.
const MAX_PATHS: usize = 12;
/// Labels of the sources, padded to one width.
const PROMISED: &str = "promised   ";
const PREDICTED: &str = "predicted  ";
const OBSERVED: &str = "observed   ";
const NO_LABEL: &str = "           ";

/// Renders the explanation as text; the path with the number `chosen`, from 1, is shown rule by rule.
pub fn page(explanation: &Explanation, settings: Settings, chosen: usize) -> String {
    let mut page = Page::new(settings);
    head(&mut page, explanation);
    let chosen = explanation.kernel.as_ref().and_then(|kernel| kernel.path).unwrap_or(chosen);
    let chosen = chosen.clamp(1, explanation.paths.len().max(1)) - 1;
    paths(&mut page, &explanation.paths, chosen);
    for (position, difference) in explanation.rule_differences.iter().enumerate() {
        if position == 0 {
            page.gap();
            page.line(0, "rules that differ from those of kube-proxy:");
        }
        page.line(2, difference);
    }
    if let Some(one) = &explanation.kernel {
        kernel(&mut page, one);
    }
    if let Some(path) = explanation.paths.get(chosen) {
        directions(&mut page, path);
        if !settings.is_quiet() {
            glossary::add(&mut page, path);
        }
    }
    page.finish()
}

fn head(page: &mut Page, explanation: &Explanation) {
    let Explanation { packet, promise, unpredicted, file, step, families, .. } = explanation;
    let title = page.paint(STRONG, format!("{} > {} {}", packet.from, packet.to, packet.protocol));
    let at = if *step == 0 { String::new() } else { format!(", after {}", counted(*step, "change")) };
    let place = page.paint(FAINT, format!("{file}{at}"));
    page.line(0, format!("{title}  {place}"));
    for family in families {
        page.line(0, page.paint(FAINT, format!("also over {family}: --family {family}")));
    }
    let mut last = None;
    for (kind, words) in explanation.doubts() {
        if last.is_none() {
            page.gap();
        }
        let label = if last.replace(kind) == Some(kind) { "" } else { kind };
        page.labelled(0, format!("{label:0$}", NO_LABEL.len()), page.paint(MARKED, words));
    }
    if let Some(promise) = promise {
        let service = promise.service.as_ref().map(|service| format!("  ({service})")).unwrap_or_default();
        page.gap();
        page.labelled(0, PROMISED, format!("{}{service}", promise.outcome));
        for reason in &promise.reasons {
            let citation = page.paint(FAINT, format!("[{}]", reason.citation));
            page.line(PROMISED.len(), format!("{}  {citation}", reason.sentence));
        }
        if let Some(known_bug) = &promise.known_bug {
            page.line(PROMISED.len(), format!("known bug: {known_bug}"));
        }
    }
    if let Some(reason) = unpredicted {
        page.gap();
        page.labelled(0, PREDICTED, format!("nothing: {reason}"));
    }
}

/// Adds one line for each path, with its share and outcome.
fn paths(page: &mut Page, paths: &[Path], chosen: usize) {
    page.gap();
    let width = paths.iter().map(|path| path.share.text.len()).max().unwrap_or(0);
    for (position, path) in paths.iter().enumerate().take(MAX_PATHS) {
        let label = if position == 0 { PREDICTED } else { NO_LABEL };
        let hint = match (paths.len(), position == chosen) {
            (1, _) => String::new(),
            (_, true) => page.paint(MARKED, "  < explained below"),
            (_, false) => page.paint(FAINT, format!("  --path {}", position + 1)),
        };
        let style = if path.outcome_kind == OutcomeKind::Delivered { GOOD } else { BAD };
        let is_same = position > 0 && paths[position - 1].outcome == path.outcome;
        let words = if is_same { "the same outcome, by other rules" } else { path.outcome.as_str() };
        let outcome = page.paint(style, words);
        page.labelled(0, format!("{label}{:>width$}  ", path.share.text), format!("{outcome}{hint}"));
    }
    if let Some(more) = paths.len().checked_sub(MAX_PATHS + 1) {
        page.line(NO_LABEL.len(), format!("and {}", counted(more + 1, "more path")));
    }
}

/// Adds what the kernel did.
fn kernel(page: &mut Page, kernel: &KernelRun) {
    let KernelRun { observed, predicted, as_predicted, matched, divergence, .. } = kernel;
    let indent = OBSERVED.len();
    page.gap();
    let odd = if *predicted == Some(false) { page.paint(BAD, "  which is not predicted") } else { String::new() };
    page.labelled(0, OBSERVED, format!("{observed}{odd}"));
    let rules = counted(*as_predicted, "rule");
    match (divergence, predicted) {
        (None, _) if *matched == 0 => page.line(indent, "the kernel traced no matching rule"),
        (None, None) => page.line(indent, format!("the kernel matched {}", counted(*matched, "rule"))),
        (None, _) => page.line(indent, page.paint(GOOD, format!("the kernel matched {rules}, as predicted"))),
        (Some(Divergence { place, packet, predicted, kernel }), _) => {
            let words = format!("the kernel matched {rules} as predicted, then {packet} diverged on {place}:");
            page.line(indent, page.paint(BAD, words));
            page.labelled(indent + 2, PREDICTED, shortened(predicted.as_deref().unwrap_or("no further rule")));
            page.labelled(indent + 2, "kernel     ", shortened(kernel));
        }
    }
}

fn directions(page: &mut Page, path: &Path) {
    if let Some(assumed) = &path.assumed {
        page.gap();
        page.labelled(0, "assumed    ", assumed);
    }
    page.gap();
    let heading = if path.original.is_empty() { "no hook is on the path" } else { "original direction" };
    page.line(0, page.paint(STRONG, heading));
    visits(page, &path.original, 1);
    if !path.reply.is_empty() {
        let is_rejected = path.outcome_kind == OutcomeKind::Rejected;
        let heading = if is_rejected { "reply direction (the rejection)" } else { "reply direction" };
        page.gap();
        page.line(0, page.paint(STRONG, heading));
        visits(page, &path.reply, path.original.len() + 1);
    } else if let Some(reply) = &path.reply_outcome {
        page.line(0, reply);
    }
}

fn visits(page: &mut Page, visits: &[HookVisit], first: usize) {
    for (number, one) in (first..).zip(visits) {
        page.gap();
        visit(page, number, one);
    }
}

fn visit(page: &mut Page, number: usize, visit: &HookVisit) {
    let (place, hook) = (page.paint(STRONG, &visit.place), page.paint(STRONG, visit.hook));
    let through =
        |word: &str, name: &Option<String>| name.as_ref().map(|name| format!("  {word} {name}")).unwrap_or_default();
    let (input, output) = (through("in", &visit.input), through("out", &visit.output));
    page.line(0, format!("{number:>2}  {place}  {hook}{input}{output}"));
    page.line(4, &visit.packet);
    if let Some(words) = &visit.connection {
        page.line(4, page.paint(FAINT, words));
    }
    let mut table = "";
    for one in &visit.rules {
        if one.table != table {
            table = &one.table;
            page.line(4, format!("table {table}"));
        }
        rule(page, one);
    }
    match (visit.without_effect, visit.rules.is_empty()) {
        (0, true) if visit.connection.is_none() => page.line(6, page.paint(FAINT, "no rules")),
        (0, _) => {}
        (number, true) => page.line(6, page.paint(FAINT, format!("{} without effect", counted(number, "rule")))),
        (number, false) => page.line(6, page.paint(FAINT, format!("{} without effect", counted(number, "other rule")))),
    }
    for Change { what, from, to } in &visit.changes {
        page.line(4, page.paint(MARKED, format!("{what:<11} {from} becomes {to}")));
    }
    page.line(4, format!("> {}", visit.next));
}

fn rule(page: &mut Page, rule: &RuleVisit) {
    let indent = 6 + 2 * rule.depth;
    let mark = match rule.kernel {
        None => String::new(),
        Some(true) => page.paint(GOOD, "= "),
        Some(false) => page.paint(BAD, "! "),
    };
    page.line(indent - 2 * usize::from(rule.kernel.is_some()), format!("{mark}{}", shortened(&rule.text)));
    let place = page.paint(FAINT, format!("{} rule {} of {}", rule.chain, rule.number, rule.chain_length));
    let word = match rule.matched {
        Matched::Yes | Matched::NotChosen => String::new(),
        Matched::Maybe => page.paint(MARKED, "possibly: "),
        Matched::Unknown => page.paint(BAD, "unknown: "),
    };
    page.line(indent + 2, format!("{word}{}: {}  {place}", rule.condition, rule.effect));
    if let Some(note) = &rule.note {
        page.line(indent + 2, page.paint(FAINT, note));
    }
}
