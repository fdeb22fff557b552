//! Text that no input of nft may have: names of files of the host, variables, and signs that nft splits
//! otherwise than this parser.

use super::Fault;

/// Statements of nft's scripts. They are allowed wherever a statement is, and `nft list ruleset` prints none.
const SCRIPT: [(&str, &str); 4] = [
    ("include", "`include` names a file of the host"),
    ("define", "`define` is not supported: write the value where it is used"),
    ("redefine", "`redefine` is not supported: write the value where it is used"),
    ("undefine", "`undefine` is not supported: write the value where it is used"),
];

/// Looks for them outside of quotes and comments.
pub(super) fn check(text: &str) -> Result<(), Fault> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let continued = ["\\\n", "\\\r\n"].into_iter().find_map(|end| line.strip_suffix(end));
        let own = continued.unwrap_or_else(|| line.trim_end_matches(['\n', '\r']));
        in_line(own).map_err(|(column, message)| (at + column, message))?;
        at += line.len();
    }
    Ok(())
}

fn in_line(line: &str) -> Result<(), Fault> {
    if let Some((at, letter)) = line.char_indices().find(|(_, letter)| letter.is_control() && *letter != '\t') {
        return Err((at, format!("control character {letter:?} in a rule")));
    }
    let mut start = 0;
    while let Some(length) = line[start..].find(['"', '#']) {
        let sign = start + length;
        words(&line[start..sign], start)?;
        if line[sign..].starts_with('#') {
            return Ok(());
        }
        // To nft it would go on in the next line.
        let end = line[sign + 1..].find('"').ok_or((sign, "a quote without its end in this line".to_owned()))?;
        start = sign + 1 + end + 1;
    }
    words(&line[start..], start)
}

/// Looks through a piece of a line that is in no quotes, and the byte where it starts.
fn words(piece: &str, start: usize) -> Result<(), Fault> {
    let mut at = start;
    for word in piece.split(|letter: char| letter.is_ascii_whitespace() || "{},;=".contains(letter)) {
        if let Some((_, message)) = SCRIPT.iter().find(|(name, _)| *name == word) {
            return Err((at, (*message).to_owned()));
        }
        if word.starts_with('$') && word.len() > 1 {
            return Err((at, format!("`{word}` stands for a text that is not here: write the value")));
        }
        // Printed at the end of a line, it would join the next one.
        if let Some(position) = word.find('\\') {
            return Err((at + position, "a backslash that does not end its line".to_owned()));
        }
        at += word.len() + 1;
    }
    Ok(())
}
