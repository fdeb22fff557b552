//! Rejection of unsafe text in nft input: names of host files, variables, and characters that nft tokenizes differently from this parser.

use super::Fault;

/// Script statements of nft. nft accepts them anywhere, and `nft list ruleset` never prints them.
const SCRIPT: [(&str, &str); 4] = [
    ("include", "`include` names a file of the host"),
    ("define", "`define` is not supported: write the value where it is used"),
    ("redefine", "`redefine` is not supported: write the value where it is used"),
    ("undefine", "`undefine` is not supported: write the value where it is used"),
];

/// Checks text outside of quotes and comments.
pub(super) fn check(text: &str) -> Result<(), Fault> {
    let has_cgroups = text.contains("cgroupv2");
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let continued = ["\\\n", "\\\r\n"].into_iter().find_map(|end| line.strip_suffix(end));
        let own = continued.unwrap_or_else(|| line.trim_end_matches(['\n', '\r']));
        in_line(own, has_cgroups).map_err(|(column, message)| (at + column, message))?;
        at += line.len();
    }
    Ok(())
}

/// Checks a line. `has_cgroups` is whether a quoted text may be a cgroup path: in a set, the path is in another line than the keyword.
fn in_line(line: &str, has_cgroups: bool) -> Result<(), Fault> {
    if let Some((at, letter)) = line.char_indices().find(|(_, letter)| letter.is_control() && *letter != '\t') {
        return Err((at, format!("control character {letter:?} in a rule")));
    }
    let mut start = 0;
    while let Some(length) = line[start..].find(['"', '#']) {
        let sign = start + length;
        words(&line[start..sign], start, has_cgroups)?;
        if line[sign..].starts_with('#') {
            return Ok(());
        }
        // For nft it would continue in the next line.
        let end = line[sign + 1..].find('"').ok_or((sign, "unterminated quote in this line".to_owned()))?;
        check_path(&line[sign + 1..][..end], sign, has_cgroups)?;
        start = sign + 1 + end + 1;
    }
    words(&line[start..], start, has_cgroups)
}

/// nft resolves a cgroup path below the cgroup root, and `..` leads out of it.
fn check_path(word: &str, at: usize, has_cgroups: bool) -> Result<(), Fault> {
    if has_cgroups && word.split('/').any(|part| part == "..") {
        return Err((at, format!("`{word}` escapes the cgroup hierarchy")));
    }
    Ok(())
}

/// Checks an unquoted part of a line, given the byte offset where it starts.
fn words(piece: &str, start: usize, has_cgroups: bool) -> Result<(), Fault> {
    let mut at = start;
    for word in piece.split(|letter: char| letter.is_ascii_whitespace() || "{},;=".contains(letter)) {
        if let Some((_, message)) = SCRIPT.iter().find(|(name, _)| *name == word) {
            return Err((at, (*message).to_owned()));
        }
        if word.starts_with('$') && word.len() > 1 {
            return Err((at, format!("`{word}` is a variable without a definition: write the value")));
        }
        check_path(word, at, has_cgroups)?;
        // At the end of a printed line, it would join the next one.
        if let Some(position) = word.find('\\') {
            return Err((at + position, "a backslash that does not end its line".to_owned()));
        }
        at += word.len() + 1;
    }
    Ok(())
}
