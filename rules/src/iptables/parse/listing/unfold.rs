//! Listings without line breaks, as on web pages: `... dpt:80 KUBE-SVC-B tcp -- ...`.

use super::row::{Columns, is_option, is_protocol};

/// Splits a joined line into headings of chains, headings of columns, rows, and prompts. A line that is one of these is returned unchanged.
pub(super) fn lines(line: &str, mut columns: Columns) -> Vec<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut lines: Vec<Vec<&str>> = vec![Vec::new()];
    let (mut at, mut in_comment) = (0, false);
    while let Some(&word) = words.get(at) {
        let rest = &words[at..];
        let length = match () {
            () if in_comment => 0,
            () if is_heading(rest) => {
                columns = Columns::default();
                2
            }
            () => match columns_of(rest) {
                Some((named, length)) => {
                    columns = named;
                    length
                }
                None if is_row(rest, columns) => columns.before_target() + 2,
                None => usize::from(is_prompt(word)),
            },
        };
        if length > 0 && !lines.last().is_some_and(Vec::is_empty) {
            lines.push(Vec::new());
        }
        let end = (at + length.max(1)).min(words.len());
        in_comment = if in_comment { word != "*/" } else { word == "/*" };
        if let Some(line) = lines.last_mut() {
            line.extend(&words[at..end]);
        }
        at = end;
    }
    lines.iter().map(|words| words.join(" ")).collect()
}

/// `Chain KUBE-SERVICES (2 references)`.
fn is_heading(words: &[&str]) -> bool {
    matches!(words, ["Chain", _, count, what, ..] if count.starts_with('(') && (what.starts_with("references") || *count == "(policy"))
}

/// `pkts bytes target prot opt in out source destination`, and its number of words.
fn columns_of(words: &[&str]) -> Option<(Columns, usize)> {
    const NAMES: [&str; 10] = ["num", "pkts", "bytes", "target", "prot", "opt", "in", "out", "source", "destination"];
    let length = words.iter().take_while(|word| NAMES.contains(word)).count();
    let named = &words[..length];
    let is_whole = named.contains(&"target") && named.contains(&"prot") && named.last() == Some(&"destination");
    is_whole.then(|| (Columns::of(named), length))
}

/// Returns whether the words start a rule with a target. A rule without one cannot be distinguished from the end of the previous rule.
fn is_row(words: &[&str], columns: Columns) -> bool {
    let before = columns.before_target();
    let counts = words.iter().take(before).all(|word| word.starts_with(|letter: char| letter.is_ascii_digit()));
    let is_name = |word: &str| {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        word.starts_with(|letter: char| letter.is_ascii_alphabetic()) && word.chars().all(plain)
    };
    let named = |words: &[&str]| matches!(words, [target, protocol, option, ..] if is_name(target) && is_protocol(protocol) && is_option(option));
    counts && words.get(before..).is_some_and(named)
}

/// `root@kube-master:~#`.
fn is_prompt(word: &str) -> bool {
    word.contains('@') && word.ends_with(['#', '$'])
}
