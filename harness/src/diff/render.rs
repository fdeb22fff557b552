//! The page for a person.

use super::merge::{Change, Example};
use super::{Diff, classes};
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
    page.labelled(0, format!("{mark}  "), change.target);
    page.labelled(2, "who      ", who(change));
    page.labelled(2, "was      ", &change.was);
    page.labelled(2, "is       ", &change.is);
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
        show_example(page, example, &change.rules);
    }
    page.labelled(2, "id       ", change.id());
}

fn show_example(page: &mut Page, example: &Example, rules: &[Option<String>; 2]) {
    page.labelled(2, "example  ", format!("{} > {} {}", example.from, example.to(), example.protocol()));
    for (label, outcomes, rule) in [("was  ", &example.was, &rules[0]), ("is   ", &example.is, &rules[1])] {
        for (position, outcome) in outcomes.iter().enumerate() {
            page.labelled(11, if position == 0 { label } else { "     " }, outcome);
        }
        if let Some(rule) = rule.as_ref().filter(|rule| !is_named(rule, outcomes)) {
            page.labelled(11, "     by ", rule);
        }
    }
}

/// Whether outcomes name the rule already.
fn is_named(rule: &str, outcomes: &[String]) -> bool {
    let text = rule.split_once(": ").map_or(rule, |(_, text)| text);
    outcomes.iter().any(|outcome| outcome.contains(text))
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
