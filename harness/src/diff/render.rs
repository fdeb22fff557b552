//! The page for a person.

use super::merge::{Change, OutcomeChange};
use super::notes::Note;
use super::{Diff, Example, classes};
use crate::page::{BAD, FAINT, GOOD, MARKED, Page, Settings};
use crate::text::counted;

/// How many services are named.
const MOST_SERVICES: usize = 6;

/// The changes, and what was compared.
pub fn page(diff: &Diff, settings: Settings) -> String {
    let mut page = Page::new(settings);
    let [before, after] = &diff.sides;
    if !settings.is_quiet() {
        page.line(0, format!("{before} → {after}"));
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

fn show(page: &mut Page, change: &Change) {
    page.gap();
    let mark = match &change.accepted {
        Some(_) => page.paint(MARKED, "accepted"),
        None => page.paint(BAD, "CHANGE"),
    };
    page.labelled(0, format!("{mark}  "), targets(change));
    page.labelled(2, "who      ", who(change));
    show_outcomes(page, &change.outcomes);
    if let Some(since) = &change.since {
        page.labelled(2, "since    ", since);
    }
    if let Some(known) = change.known {
        page.labelled(2, "known    ", format!("{}  [{}]", known.what, known.document));
    }
    if let Some(reason) = change.accepted.as_ref().filter(|reason| !reason.is_empty()) {
        page.labelled(2, "because  ", reason);
    }
    if let Some(example) = &change.example {
        show_example(page, example);
    }
    if let Some(live) = &change.live {
        for (label, seen, is_predicted) in [
            ("kernel   was  ", &live.seen[0], live.is_predicted[0]),
            ("         is   ", &live.seen[1], live.is_predicted[1]),
        ] {
            let doubt = if is_predicted { String::new() } else { page.paint(BAD, "  NOT AS PREDICTED") };
            page.labelled(2, label, format!("{seen}{doubt}"));
        }
    }
    page.labelled(2, "id       ", change.id());
}

fn show_outcomes(page: &mut Page, outcomes: &[OutcomeChange]) {
    if let [one] = outcomes {
        page.labelled(2, "was      ", &one.was);
        page.labelled(2, "is       ", &one.is);
        return;
    }
    let (lines, more) = outcome_lines(outcomes);
    for (number, one) in lines.iter().enumerate() {
        let label = if number == 0 { "was → is   " } else { "           " };
        page.labelled(2, label, format!("{} → {} ({})", one.was, one.is, classes(one.classes)));
    }
    if more > 0 {
        page.labelled(2, "           ", format!("and {} more ways in {}", outcomes.len() - lines.len(), classes(more)));
    }
}

fn show_example(page: &mut Page, example: &Example) {
    page.labelled(2, "example  ", format!("{} > {} {}", example.from, example.to(), example.protocol()));
    if page.settings.is_verbose() {
        page.labelled(11, "all  ", &example.class);
    }
    for (label, outcomes, rule) in
        [("was  ", &example.was, &example.rules[0]), ("is   ", &example.is, &example.rules[1])]
    {
        for (position, outcome) in outcomes.iter().enumerate() {
            page.labelled(11, if position == 0 { label } else { "     " }, outcome);
        }
        if let Some(rule) = rule.as_ref().filter(|rule| !is_named(rule, outcomes)) {
            page.labelled(11, "     by ", rule);
        }
    }
}

fn show_note(page: &mut Page, note: &Note) {
    page.gap();
    page.labelled(0, format!("{}  ", page.paint(MARKED, "note")), &note.what);
    // Rules are many.
    if note.code != "rules" || page.settings.is_verbose() {
        note.details.iter().for_each(|line| page.labelled(6, "", line));
    } else {
        page.labelled(6, "", "-v lists them");
    }
    if let Some(known) = note.known {
        page.labelled(6, "known  ", format!("{}  [{}]", known.what, known.document));
    }
}

/// Whether outcomes name the rule already.
fn is_named(rule: &str, outcomes: &[String]) -> bool {
    let text = rule.split_once(": ").map_or(rule, |(_, text)| text);
    outcomes.iter().any(|outcome| outcome.contains(text))
}

/// How many ways in which packets change are listed.
const MOST_OUTCOMES: usize = 4;

/// The most frequent ways, and the number of classes of all others.
pub(super) fn outcome_lines(outcomes: &[OutcomeChange]) -> (&[OutcomeChange], usize) {
    let (lines, rest) = outcomes.split_at(outcomes.len().min(MOST_OUTCOMES));
    (lines, rest.iter().map(|one| one.classes).sum())
}

/// What the packets of a change are sent to.
pub(super) fn targets(change: &Change) -> String {
    change.targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Who is affected: services, vantage points, and how many classes of their packets.
pub(super) fn who(change: &Change) -> String {
    let services: Vec<&str> = change.services.iter().take(MOST_SERVICES).map(String::as_str).collect();
    let more = change.services.len().saturating_sub(MOST_SERVICES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let services = if services.is_empty() { String::new() } else { format!("{}{more}; ", services.join(", ")) };
    let origins: Vec<String> = change.origins.iter().map(|(kind, number)| origin(kind, *number)).collect();
    let classes = classes(change.classes);
    format!("{services}from {}; {classes} of packets", origins.join(", "))
}

fn origin(kind: &str, number: usize) -> String {
    match kind {
        "localhost" => format!("the loopback address of {}", counted(number, "node")),
        "host" => counted(number, "outside host"),
        kind => counted(number, kind),
    }
}
