//! The comment of a pull request.

use std::fmt::Write;

use super::Diff;
use super::render::who;

/// The changes as a table of Markdown.
pub fn markdown(diff: &Diff) -> String {
    let [before, after] = &diff.sides;
    let mut out = format!("### Service traffic: {before} → {after}\n\n");
    if !diff.changes.is_empty() {
        out += "| to | who | was | is | known |\n| --- | --- | --- | --- | --- |\n";
    }
    for change in &diff.changes {
        let known = change.known.map(|known| format!("[{}]({})", known.what, known.document));
        let since = change.since.as_ref().map(|since| format!("since {since}"));
        let accepted = change.accepted.as_ref().map(|reason| format!("accepted {reason}").trim_end().to_owned());
        let notes: Vec<String> = [accepted, known, since].into_iter().flatten().collect();
        let cells = [change.target.to_string(), who(change), change.was.clone(), change.is.clone(), notes.join("; ")];
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    if !diff.changes.is_empty() {
        out.push('\n');
    }
    out + &diff.closing().join("  \n") + "\n"
}
