//! Lines that were joined from several.

use svclab_rules::iptables;

use super::line::Line;
use super::repairs::Repair;
use super::tables;

/// The shortest line that is looked at: shorter ones hold one rule.
const SHORTEST: usize = 40;

/// The shortest line that may hold a table.
const SHORTEST_TABLE: usize = 60;

/// Takes lines apart that hold several rules, or rows of a listing.
pub(super) fn split(mut lines: Vec<Line<'_>>) -> Vec<Line<'_>> {
    let parts = |line: &Line<'_>| if line.text.len() < SHORTEST { Vec::new() } else { parts(&line.text) };
    // Few texts have such a line: the others are not copied.
    let Some(first) = lines.iter().position(|line| parts(line).len() > 1) else { return lines };
    for line in lines.split_off(first) {
        let parts = parts(&line);
        if parts.len() < 2 {
            lines.push(line);
        } else {
            lines.extend(parts.into_iter().map(|part| line.with(part, Repair::Several)));
        }
    }
    lines
}

fn parts(line: &str) -> Vec<String> {
    if line.contains('(') && line.contains("Chain ") && line.contains(" -- ") && line.contains(" (") {
        return iptables::unfold(line);
    }
    if line.len() > SHORTEST_TABLE && line.contains("NAME ") {
        let parts = tables::unfolded(line);
        if parts.len() > 2 {
            return parts;
        }
    }
    let rest = line.trim_start();
    // Only what starts as rules do is taken apart: a sentence may quote one.
    let starts = rest.starts_with("-A ")
        || rest.starts_with(['*', ':'])
        || rest.starts_with('[') && starts_a_line(rest)
        || rest.starts_with("-N ")
        || rest.starts_with("-P ");
    if !starts || !(line.contains(" -A ") || line.contains(" COMMIT") || line.contains("] :") || line.contains(" -N "))
    {
        return Vec::new();
    }
    let mut parts = Vec::new();
    let (mut start, mut in_quotes, mut before) = (0, false, ' ');
    for (at, letter) in line.char_indices() {
        if letter == '"' && before != '\\' {
            in_quotes = !in_quotes;
        }
        if !in_quotes
            && before == ' '
            && at > start
            && starts_a_line(&line[at..])
            && !line[start..at].trim().is_empty()
            && !is_counted(&line[start..at])
        {
            parts.push(line[start..at].trim().to_owned());
            start = at;
        }
        before = letter;
    }
    parts.push(line[start..].trim().to_owned());
    parts
}

/// Whether text is the counters before a rule.
fn is_counted(text: &str) -> bool {
    let text = text.trim();
    text.starts_with('[') && text.ends_with(']')
}

fn starts_a_line(rest: &str) -> bool {
    let mut words = rest.split(' ');
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_counters = || first.starts_with('[') && first.ends_with(']') && first.contains(':') && second == "-A";
    let is_chain = || first.len() > 1 && first.starts_with(':') && matches!(second, "-" | "ACCEPT" | "DROP");
    matches!(first, "-A" | "-N" | "-P" | "COMMIT" | "*nat" | "*filter" | "*mangle" | "*raw" | "*security")
        || is_counters()
        || is_chain()
}
