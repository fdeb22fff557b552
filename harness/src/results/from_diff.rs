//! Results of `svclab diff`: each change is a failed test, or a passed one if it is accepted; everything unchanged is one passed test.

use serde::Deserialize;
use serde_json::Value;

use super::from_verify::{case, check};
use super::model::{Case, Check, Rules, Suite};
use crate::report::Status;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Whole {
    before: String,
    after: String,
    files: [String; 2],
    changes: Vec<Change>,
    notes: Vec<Note>,
    classes: usize,
    complete: bool,
    unknown: Vec<Unknown>,
    not_compared: Vec<String>,
    unused_accepted: Vec<String>,
}

#[derive(Deserialize)]
struct Change {
    id: String,
    services: Vec<String>,
    outcomes: Vec<OutcomeChange>,
    classes: usize,
    known: Option<Known>,
    accepted: bool,
    reason: Option<String>,
    example: Option<Example>,
    live: Option<Live>,
}

#[derive(Deserialize)]
struct OutcomeChange {
    before: String,
    after: String,
    classes: usize,
}

#[derive(Deserialize)]
struct Known {
    what: String,
    document: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Example {
    from: String,
    to: String,
    protocol: String,
    before: Vec<String>,
    after: Vec<String>,
    rule_before: Option<String>,
    rule_after: Option<String>,
}

#[derive(Deserialize)]
struct Live {
    before: String,
    after: String,
}

#[derive(Deserialize)]
struct Note {
    what: String,
}

#[derive(Deserialize)]
struct Unknown {
    rule: String,
    classes: usize,
}

pub(super) fn suites(whole: Value) -> Result<Vec<Suite>, serde_json::Error> {
    Ok(vec![suite(serde_json::from_value(whole)?)])
}

fn suite(whole: Whole) -> Suite {
    let Whole { before, after, files, changes, notes, classes, complete, unknown, not_compared, unused_accepted } =
        whole;
    let name = format!("{before} → {after}");
    let others = if complete { "nothing else changes" } else { "incomplete: there are more classes" };
    let status = if complete { Status::Ok } else { Status::Failed };
    let others = case(format!("{others}: {classes} classes compared"), status);
    let cases = changes.iter().map(changed).chain(unknown.iter().map(unmodelled)).chain([others]).collect();
    let mut notes: Vec<String> = notes.into_iter().map(|note| note.what).collect();
    if !not_compared.is_empty() {
        notes.push(format!("not compared, exists on one side only: {}", not_compared.join(", ")));
    }
    notes.extend(unused_accepted.iter().map(|id| format!("accepted, but not found: {id}")));
    let [file, _] = files;
    Suite {
        name,
        file,
        repetition: None,
        seconds: None,
        error: None,
        notes,
        machines: None,
        programs: Vec::new(),
        cases,
    }
}

fn unmodelled(unknown: &Unknown) -> Case {
    let name = format!("effect unknown for {} classes of packets", unknown.classes);
    Case { text: Some(unknown.rule.clone()), ..case(name, Status::Failed) }
}

fn changed(change: &Change) -> Case {
    let status = if change.accepted { Status::Ok } else { Status::Failed };
    let mut text = String::new();
    for OutcomeChange { before, after, classes } in &change.outcomes {
        text += &format!("{before} → {after} ({classes} classes)\n");
    }
    if !change.services.is_empty() {
        text += &format!("services: {}\n", change.services.join(", "));
    }
    if let Some(Known { what, document }) = &change.known {
        text += &format!("known: {what}  [{document}]\n");
    }
    if let Some(reason) = &change.reason {
        text += &format!("accepted: {reason}\n");
    }
    let checks: Vec<Check> =
        change.example.iter().map(|example| checked(example, change.live.as_ref(), status)).collect();
    for Check { title, observed, .. } in &checks {
        text += &format!("\nfor example  {title}\n{observed}");
    }
    let name = format!("{} ({} classes)", change.id, change.classes);
    Case { text: Some(text), checks, ..case(name, status) }
}

fn checked(example: &Example, live: Option<&Live>, status: Status) -> Check {
    let title = format!("{} > {} {}", example.from, example.to, example.protocol);
    let mut observed = String::new();
    example.before.iter().for_each(|before| observed += &format!("  before  {before}\n"));
    example.after.iter().for_each(|after| observed += &format!("  after   {after}\n"));
    if let Some(Live { before, after }) = live {
        observed += &format!("  kernel  before: {before}; after: {after}\n");
    }
    let sides = [("before", &example.rule_before), ("after", &example.rule_after)];
    let rules = sides.into_iter().filter_map(|(side, rule)| {
        rule.as_ref().map(|rule| Rules { place: side.to_owned(), lines: vec![rule.clone()] })
    });
    Check { observed, rules: rules.collect(), ..check(&title, status) }
}
