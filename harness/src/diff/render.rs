//! Renders the result as text.

use super::merge::{Change, OutcomeChange, Severity};
use super::notes::Note;
use super::{Diff, Example, KernelOutcomes, Live};
use crate::page::{BAD, FAINT, GOOD, MARKED, Page, Settings};
use crate::scenario::VantageKind;
use crate::text::{counted, grouped, link, list};

/// The maximum number of kinds of destinations named.
const MAX_TARGETS: usize = 4;
/// The maximum number of services named.
const MAX_SERVICES: usize = 6;

/// Renders the answer, the changes, and what was compared.
pub fn page(diff: &Diff, settings: Settings) -> String {
    let mut page = Page::new(settings);
    if !settings.is_quiet() {
        let answer = page.paint(if diff.holds() { GOOD } else { BAD }, answer(diff));
        page.line(0, format!("{}: {answer}", diff.sides.join(" → ")));
    }
    for change in diff.changes.iter().filter(|change| !settings.is_quiet() || change.accepted.is_none()) {
        show(&mut page, change);
    }
    if !settings.is_quiet() {
        diff.notes.iter().for_each(|note| show_note(&mut page, note));
    }
    if !settings.is_quiet() || !diff.holds() {
        page.gap();
        for line in diff.closing() {
            let style = if diff.holds() { GOOD } else { FAINT };
            page.line(0, page.paint(style, line));
        }
    }
    page.finish()
}

/// `8 changes, 3 of which lose packets`.
fn answer(diff: &Diff) -> String {
    let all = diff.changes.len();
    if all == 0 {
        return match (diff.is_cut, diff.knows_all_rules()) {
            (true, _) => "no change found so far",
            (false, true) => "no traffic changes",
            (false, false) => "no traffic is known to change",
        }
        .to_owned();
    }
    let number = |holds: &dyn Fn(&Change) -> bool| diff.changes.iter().filter(|change| holds(change)).count();
    let losing = match (all, number(&|change| change.severity() == Severity::Lost)) {
        (_, 0) => String::new(),
        (1, _) => ", which loses packets".to_owned(),
        (_, 1) => ", 1 of which loses packets".to_owned(),
        (_, losing) => format!(", {losing} of which lose packets"),
    };
    let accepted = match number(&|change| change.accepted.is_some()) {
        0 => String::new(),
        accepted => format!(", {accepted} accepted"),
    };
    format!("{}{losing}{accepted}", counted(all, "change"))
}

/// The width of a label, including its indent.
const LABEL: usize = 11;

/// Adds a line of a change after its label.
fn line(page: &mut Page, label: &str, text: impl std::fmt::Display) {
    page.labelled(2, format!("{label:0$}", LABEL - 2), text);
}

fn show(page: &mut Page, change: &Change) {
    page.gap();
    let (style, mark) = match (&change.accepted, change.severity()) {
        (Some(_), _) => (MARKED, "ACCEPTED"),
        (None, Severity::Lost) => (BAD, "LOST"),
        (None, Severity::Otherwise | Severity::LostOtherwise) => (BAD, "CHANGED"),
        (None, Severity::Gained) => (BAD, "GAINED"),
    };
    page.labelled(0, format!("{}  ", page.paint(style, mark)), targets(change));
    line(page, "affects", who(change));
    show_outcomes(page, change);
    if let Some(known) = change.known {
        line(page, "why", known.what);
        if let Some(link) = link(known.document) {
            line(page, "", page.paint(FAINT, link));
        }
    } else if let Some(since) = &change.since {
        line(page, "since", since);
    }
    for again in &change.then {
        let what = again.known.map_or("changed again", |known| known.what);
        line(page, "then", format!("{}: {what} ({})", again.since, counted(again.classes, "class")));
    }
    if let Some(reason) = change.accepted.as_ref().filter(|reason| !reason.is_empty()) {
        line(page, "because", reason);
    }
    if let Some(example) = &change.example {
        show_example(page, example);
    }
    if let Some(live) = &change.live {
        show_live(page, live);
    }
    line(page, "id", page.paint(FAINT, change.id()));
}

fn show_live(page: &mut Page, live: &Live) {
    let KernelOutcomes { seen, is_predicted, alike } = match live {
        Live::Sent(sent) => sent,
        Live::NotSent(why) => return line(page, "kernel", format!("not sent: {why}")),
    };
    for (label, seen, is_predicted) in
        [("kernel  before  ", &seen[0], is_predicted[0]), ("        after   ", &seen[1], is_predicted[1])]
    {
        let doubt = if is_predicted { String::new() } else { page.paint(BAD, "  NOT AS PREDICTED") };
        page.labelled(2, label, format!("{seen}{doubt}"));
    }
    if let Some(why) = alike {
        line(page, "", why);
    }
}

/// Adds the outcome of the packets before and after, with the rule on each side that decides the outcome of one of them.
fn show_outcomes(page: &mut Page, change: &Change) {
    let rules = change.example.as_ref().map(|example| example.rules.each_ref().map(Option::as_deref));
    let rules = rules.unwrap_or_default();
    if let [OutcomeChange { contrast, .. }] = change.outcomes.as_slice() {
        for (label, words, rule) in
            [("before", contrast.was.to_string(), rules[0]), ("after", contrast.is_words(), rules[1])]
        {
            line(page, label, words);
            show_rule(page, rule);
        }
        return;
    }
    let (lines, more) = outcome_lines(&change.outcomes);
    for (number, OutcomeChange { contrast, classes }) in lines.iter().enumerate() {
        let words = format!("{} → {} ({})", contrast.was, contrast.is_words(), counted(*classes, "class"));
        line(page, if number == 0 { "change" } else { "" }, words);
    }
    if more > 0 {
        let ways = counted(change.outcomes.len() - lines.len(), "more way");
        line(page, "", format!("and {ways} in {}", counted(more, "class")));
    }
    if rules[0] == rules[1] {
        return show_rule(page, rules[0]);
    }
    for (label, rule) in [("rule before  ", rules[0]), ("rule after   ", rules[1])] {
        if let Some(rule) = rule {
            page.labelled(LABEL, page.paint(FAINT, label), rule);
        }
    }
}

fn show_rule(page: &mut Page, rule: Option<&str>) {
    if let Some(rule) = rule {
        page.labelled(LABEL, page.paint(FAINT, "rule  "), rule);
    }
}

/// Adds one of the packets; with all of its outcomes in verbose output.
fn show_example(page: &mut Page, example: &Example) {
    line(page, "packet", example.words());
    if !page.settings.is_verbose() {
        return;
    }
    page.labelled(LABEL, "all  ", &example.class);
    for (label, outcomes) in [("before  ", &example.was), ("after   ", &example.is)] {
        for (position, outcome) in outcomes.iter().enumerate() {
            page.labelled(LABEL, if position == 0 { label } else { "        " }, outcome);
        }
    }
}

fn show_note(page: &mut Page, note: &Note) {
    page.gap();
    page.labelled(0, format!("{}  ", page.paint(MARKED, "note")), &note.what);
    // There are many rules.
    if note.code != "rules" || page.settings.is_verbose() {
        note.details.iter().for_each(|line| page.labelled(6, "", line));
    } else {
        page.labelled(6, "", "-v lists them");
    }
    if let Some(known) = note.known {
        let link = link(known.document).map(|link| format!("  [{link}]")).unwrap_or_default();
        page.labelled(6, "known  ", format!("{}{link}", known.what));
    }
}

/// The maximum number of outcome changes listed.
const MAX_OUTCOMES: usize = 4;

/// Returns the most frequent outcome changes, and the number of classes of all others.
pub(super) fn outcome_lines(outcomes: &[OutcomeChange]) -> (&[OutcomeChange], usize) {
    let (lines, rest) = outcomes.split_at(outcomes.len().min(MAX_OUTCOMES));
    (lines, rest.iter().map(|one| one.classes).sum())
}

/// Returns the kinds of destinations of a change's packets, the most frequent first.
pub(super) fn targets(change: &Change) -> String {
    let (named, rest) = change.targets.split_at(change.targets.len().min(MAX_TARGETS));
    let named = named.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if rest.is_empty() { named } else { format!("{named} and {}", counted(rest.len(), "other destination")) }
}

/// Returns who is affected: services, vantage points, and how many classes of their packets.
pub(super) fn who(change: &Change) -> String {
    let services = list(&change.services, MAX_SERVICES);
    let services = if services.is_empty() { services } else { services + "; " };
    let origins: Vec<String> = change.origins.iter().map(|(kind, number)| origin(*kind, *number)).collect();
    let classes = counted(change.classes, "class");
    let most_severe = match (change.severity(), change.most_severe_classes()) {
        (_, most_severe) if most_severe == change.classes => String::new(),
        (Severity::Lost, most_severe) => format!(", {} of them lost", grouped(most_severe as u64)),
        (Severity::Gained, most_severe) => format!(", {} of them delivered now", grouped(most_severe as u64)),
        (Severity::Otherwise | Severity::LostOtherwise, _) => String::new(),
    };
    format!("{services}from {}; {classes} of packets{most_severe}", origins.join(", "))
}

fn origin(kind: VantageKind, number: usize) -> String {
    match kind {
        VantageKind::Localhost => format!("the loopback address of {}", counted(number, "node")),
        VantageKind::Host => counted(number, "outside host"),
        VantageKind::Node | VantageKind::Pod => counted(number, kind.as_str()),
    }
}
