//! Lines of a text.

use std::borrow::Cow;

use super::repairs::{Repair, RepairSet};

/// A line, or a part of one.
#[derive(Debug, Clone)]
pub(super) struct Line<'t> {
    /// Its number in the text, from 1.
    pub(super) number: usize,
    /// What is read of it.
    pub(super) text: Cow<'t, str>,
    /// The line as it is in the text.
    pub(super) raw: &'t str,
    pub(super) mends: RepairSet,
}

impl<'t> Line<'t> {
    /// The line with another text.
    pub(super) fn with(&self, text: impl Into<Cow<'t, str>>, mend: Repair) -> Self {
        Self { text: text.into(), mends: self.mends.with(mend), ..*self }
    }

    /// What reports show of it: of a line with several rules, only its own.
    pub(super) fn shown(&self) -> String {
        if self.mends.has(Repair::Several) { self.text.clone().into_owned() } else { self.raw.to_owned() }
    }

    pub(super) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Whether it starts or ends a block of code in Markdown.
    pub(super) fn is_fence(&self) -> bool {
        let text = self.text.trim_start();
        text.starts_with("```") || text.starts_with("~~~") || text.starts_with("<pre") || text.starts_with("</pre")
    }

    /// Whether it is a number and nothing else: what web pages have next to code.
    pub(super) fn is_gutter(&self) -> bool {
        let text = self.text.trim();
        !text.is_empty() && text.len() <= 6 && text.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// Whether it is a prompt without a command.
    pub(super) fn is_prompt(&self) -> bool {
        let text = self.text.trim();
        matches!(text, "$" | "#" | ">" | "%")
            || (text.ends_with(['$', '#']) && text.contains('@') && !text.contains(" -"))
    }

    /// Whether it stands for copies of the line before it: `<repeated>`, `[repeated 40 times]`.
    pub(super) fn is_repetition(&self) -> bool {
        let text = self.text.trim();
        let inner = text.trim_matches(|letter: char| letter.is_whitespace() || "<>()[].…*".contains(letter));
        let inner = inner.to_ascii_lowercase();
        let is_counted = || inner.strip_prefix("repeated ").is_some_and(|count| count.ends_with("times"));
        inner.len() < text.len() && (matches!(&*inner, "repeated" | "repeats" | "repeat") || is_counted())
    }

    /// Whether it separates parts of an output of which nothing is known to be between them: `--` of `grep -A`, `36a37,38` and `@@` of `diff`.
    pub(super) fn is_group_separator(&self) -> bool {
        let text = self.text.trim();
        text == "--" || is_hunk(text)
    }

    /// Whether the text was left out: `...`, `[snip]`, `# ... other Services ...`.
    pub(super) fn is_ellipsis(&self) -> bool {
        let text = self.text.trim();
        self.is_group_separator() || matches!(text, "-- More --" | "--More--" | "(END)") || is_omission(text)
    }
}

/// Whether a person writes this for lines that are left out, with or without a mark of comments in front of it.
pub(super) fn is_omission(text: &str) -> bool {
    const WORDS: [&str; 6] = ["...", "…", "snip", "snipped", "omitted", "truncated"];
    let remark = text.trim_start_matches(['#', '/']);
    let is_remark = remark.len() < text.len();
    let starts_with_dots = || WORDS[..2].iter().any(|dots| remark.trim_start().starts_with(dots));
    if is_remark && starts_with_dots() {
        return true;
    }
    let is_enclosed = remark.starts_with(['[', '(', '<', '{', '-', '=', '*', '~']);
    let inner = remark.trim_matches([' ', '[', ']', '(', ')', '<', '>', '{', '}', '-', '=', '*', '~', '#', '/']);
    let is_dots = WORDS[..2].contains(&inner);
    is_dots || (is_remark || is_enclosed) && WORDS.iter().any(|word| inner.eq_ignore_ascii_case(word))
}

/// Whether a line is where a part of a `diff` starts: `36a37,38`, `31c31`, `@@ -12,3 +12,5 @@`.
fn is_hunk(text: &str) -> bool {
    let are_lines = |text: &str| {
        let (first, last) = text.split_once(',').unwrap_or((text, text));
        [first, last].iter().all(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_unified = || text.strip_prefix("@@ -").is_some_and(|rest| rest.contains(" @@"));
    // Nearly all lines are longer.
    let is_short = text.len() <= 40 && text.starts_with(|first: char| first.is_ascii_digit());
    let sides = is_short.then(|| text.split_once(['a', 'c', 'd'])).flatten();
    sides.is_some_and(|(before, after)| are_lines(before) && are_lines(after)) || is_unified()
}

/// The lines of a text, without control sequences, invisible characters and remarks of people behind rules.
pub(super) fn lines(text: &str) -> Vec<Line<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    (1..).zip(text.lines()).map(|(number, raw)| without_remark(cleaned(number, raw))).collect()
}

/// A line without what a person wrote behind a saved rule: `-j KUBE-MARK-MASQ   ← hairpin`, `-j X  # the first one`.
fn without_remark(line: Line<'_>) -> Line<'_> {
    const MARKS: [&str; 9] = [" ←", " ⇐", " ⬅", " ◀", " 👈", " <-", " <=", " #", " //"];
    if !line.text.contains("-A ") {
        return line;
    }
    // A comment of iptables is in quotes; what stands before the target is something else.
    let Some(target) = [" -j ", " -g "].iter().filter_map(|option| line.text.find(option)).min() else { return line };
    let mut is_quoted = false;
    let found = line.text.char_indices().find(|(at, letter)| {
        is_quoted ^= *letter == '"';
        *letter == ' ' && *at > target && !is_quoted && MARKS.iter().any(|mark| line.text[*at..].starts_with(mark))
    });
    match found {
        Some((at, _)) => Line { text: line.text[..at].trim_end().to_owned().into(), ..line },
        None => line,
    }
}

fn cleaned(number: usize, raw: &str) -> Line<'_> {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\t');
    let mends = RepairSet::default();
    if raw.bytes().all(is_plain) {
        return Line { number, text: Cow::Borrowed(raw), raw, mends };
    }
    let mut text = String::with_capacity(raw.len());
    let mut letters = raw.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            // A control sequence: `ESC [ ... letter`.
            '\u{1b}' if letters.next_if_eq(&'[').is_some() => {
                while letters.next().is_some_and(|letter| !letter.is_ascii_alphabetic()) {}
            }
            '\u{a0}' | '\u{2007}' | '\u{202f}' | '\u{2003}' | '\u{2002}' | '\u{3000}' => text.push(' '),
            '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{ad}' => {}
            '\t' => text.push(letter),
            letter if letter.is_control() => {}
            letter => text.push(letter),
        }
    }
    if text == raw {
        return Line { number, text: Cow::Borrowed(raw), raw, mends };
    }
    Line { number, text: text.into(), raw, mends: mends.with(Repair::Invisible) }
}

/// `12:00:00` at the start.
pub(super) fn is_time(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() >= 8
        && [0, 1, 3, 4, 6, 7].iter().all(|at| bytes[*at].is_ascii_digit())
        && bytes[2] == b':'
        && bytes[5] == b':'
}

/// Whether a line certainly is a rule, although it cannot be read: one of nft, without the heading of its chain.
pub(super) fn looks_like_rule(text: &str) -> bool {
    let marks = [" jump KUBE-", " goto KUBE-", "jump service-", "goto endpoint-", "jump mark-for-masquerade"];
    let starts = ["ip", "ip6", "meta", "iifname", "oifname", "tcp", "udp", "sctp", "ct", "fib", "counter", "numgen"];
    let first = text.split_whitespace().next().unwrap_or_default();
    starts.contains(&first) && marks.iter().any(|mark| text.contains(mark))
}

/// The most bytes that stand before a rule which cannot be read because of them: a number, a mark, a bar.
const WIDEST_MARGIN: usize = 16;

/// Whether a line certainly is a rule of kube-proxy behind a margin: of saved rules, or a row of a listing.
pub(super) fn is_rule_with_margin(text: &str) -> bool {
    let starts = |mark: &str| text.find(mark).is_some_and(|at| at <= WIDEST_MARGIN && !text[..at].contains('`'));
    starts("-A KUBE-")
        || KINDS.iter().any(|kind| starts(kind)) && [" -- ", " -j "].iter().any(|mark| text.contains(mark))
}

/// How the names of the chains start that rules of Services lead to.
const KINDS: [&str; 8] =
    ["KUBE-SVC-", "KUBE-SEP-", "KUBE-SVL-", "KUBE-XLB-", "KUBE-EXT-", "KUBE-FW-", "KUBE-MARK-", "KUBE-SERVICES"];

/// Whether a row of a listing leads to a chain of a Service, or translates.
pub(super) fn leads_to_service(text: &str) -> bool {
    let kinds = &KINDS[..KINDS.len() - 1];
    text.contains("DNAT ") || kinds.iter().any(|kind| text.contains(kind))
}

/// Whether a line has words as sentences and headings do.
pub(super) fn is_sentence(text: &str) -> bool {
    let words = text.split_whitespace().count();
    let plain = text.split_whitespace().filter(|word| {
        let word = word.trim_matches(|letter: char| letter.is_ascii_punctuation());
        !word.is_empty() && word.chars().all(|letter| letter.is_alphabetic() || "'-’".contains(letter))
    });
    let plain = plain.count();
    text.starts_with(['#', '!'])
        || !text.is_ascii()
        || (words >= 3 && plain * 2 >= words)
        || (words <= 3 && plain == words)
}
