//! The comment of a pull request, and the matrix of releases.

use std::fmt::Write;

use super::merge::{Change, OutcomeChange};
use super::render::{outcome_lines, targets, who};
use super::{Diff, Known, Live, Step};
use crate::text::list;

/// Returns the changes as a Markdown table, with the examples folded.
pub fn markdown(diff: &Diff) -> String {
    let mut out = format!("### Service traffic: {}\n\n", diff.sides.join(" → "));
    if !diff.changes.is_empty() {
        out += "| to | who | was | is | known |\n| --- | --- | --- | --- | --- |\n";
    }
    for change in &diff.changes {
        let [was, is] = each(&change.outcomes);
        let cells = [targets(change), who(change), was, is, notes(change)].map(|cell| escaped(&cell));
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    if !diff.changes.is_empty() {
        out.push('\n');
        out += &examples(diff);
    }
    for note in &diff.notes {
        let _ = writeln!(out, "- {}", escaped(&note.what));
    }
    if !diff.notes.is_empty() {
        out.push('\n');
    }
    out + &escaped(&diff.closing().join("  \n")) + "\n"
}

/// Returns one example of each change, folded.
fn examples(diff: &Diff) -> String {
    let mut out = "<details><summary>one packet of each change</summary>\n\n```text\n".to_owned();
    for change in &diff.changes {
        let Some(example) = &change.example else { continue };
        let _ = writeln!(out, "{}\n  {}", change.id(), example.words());
        for (label, outcomes, rule) in
            [("before", &example.was, &example.rules[0]), ("after ", &example.is, &example.rules[1])]
        {
            outcomes.iter().for_each(|outcome| _ = writeln!(out, "  {label}  {outcome}"));
            rule.iter().for_each(|rule| _ = writeln!(out, "          rule {rule}"));
        }
        if let Some(Live::Sent(sent)) = &change.live {
            let alike = sent.alike.map(|why| format!("; {why}")).unwrap_or_default();
            let _ = writeln!(out, "  kernel: before: {}; after: {}{alike}", sent.seen[0], sent.seen[1]);
        }
    }
    // A fence that the text cannot close.
    out.replace("\n```\n", "\n'''\n") + "```\n\n</details>\n\n"
}

/// Returns the changes of every step, one row per step.
pub fn matrix(steps: &[Step]) -> String {
    let mut out = "| | what changes |\n| --- | --- |\n".to_owned();
    for Step { name, diff } in steps {
        let mut entries: Vec<String> = diff.changes.iter().map(entry).collect();
        entries.extend(diff.notes.iter().filter(|note| note.code == "held-ports").map(|note| escaped(&note.what)));
        entries.extend(diff.notes.iter().filter_map(|note| note.known).map(|known| linked(&known)));
        if diff.is_cut || !diff.knows_all_rules() {
            entries.push("not all classes could be compared".to_owned());
        }
        if entries.is_empty() {
            entries.push("nothing".to_owned());
        }
        let _ = writeln!(out, "| **{name}** | {} |", entries.join("<br>"));
    }
    out
}

/// Returns the text of a cell for a change: what changes, for which services, from what to what.
fn entry(change: &Change) -> String {
    let what = notes(change);
    let what = if change.known.is_some() { what } else { format!("`{}`", change.id()) };
    let services = list(change.services.iter().map(|name| name.strip_prefix("default/").unwrap_or(name)), 4);
    let services = if services.is_empty() { services } else { format!(" ({services})") };
    let first = change.outcomes.first().map(|first| format!("{} → {}", first.contrast.was, first.contrast.is_words()));
    let first = first.unwrap_or_default();
    format!("{what}: {}{services}: {}", escaped(&targets(change)), escaped(&first))
}

/// Returns a documented difference with a link to its document. Relative links to files in the repository do not work on a pull request's
/// page.
fn linked(known: &Known) -> String {
    let Known { what, document, .. } = known;
    if document.starts_with("https://") { format!("[{what}]({document})") } else { format!("{what} (`{document}`)") }
}

/// Returns what is known about a change.
fn notes(change: &Change) -> String {
    let known = change.known.map(|known| linked(&known));
    let since = change.since.as_ref().filter(|_| change.known.is_none()).map(|since| format!("since {since}"));
    let accepted = change.accepted.as_ref().map(|reason| format!("accepted {reason}").trim_end().to_owned());
    let then = change.then.iter().map(|again| match again.known {
        Some(known) => format!("then {}: {}", again.since, linked(&known)),
        None => format!("then {}", again.since),
    });
    let notes: Vec<String> = [accepted, known, since].into_iter().flatten().chain(then).collect();
    notes.join("; ")
}

/// Returns the outcomes of packets before and after, in the same order.
fn each(outcomes: &[OutcomeChange]) -> [String; 2] {
    let (lines, more) = outcome_lines(outcomes);
    let of = |side: fn(&OutcomeChange) -> String| {
        let words: Vec<String> = lines.iter().map(side).collect();
        format!("{}{}", words.join("<br>"), if more > 0 { "<br>..." } else { "" })
    };
    [of(|one| one.contrast.was.to_string()), of(|one| one.contrast.is_words())]
}

/// Escapes a text for a table cell; line breaks are kept.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace("&lt;br>", "<br>")
}
