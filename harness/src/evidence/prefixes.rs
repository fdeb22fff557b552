//! What terminals, mail, logs and web pages put around lines.
//!
//! A layer is taken off a run of lines that all have it, and only if a line of the run is recognised then that was not before.

use std::borrow::Cow;
use std::ops::Range;

use super::format;
use super::line::{Line, is_sentence, is_time};
use super::repairs::Repair;
use super::wrapped_lines::{Quality, quality};

/// A layer: what a line is without it; `None` if it has none.
type Layer = (Repair, for<'a> fn(&'a str) -> Option<Cow<'a, str>>);

const LAYERS: [Layer; 14] = [
    (Repair::Quote, |line| after(line.trim_start(), ">").map(Cow::Borrowed)),
    (Repair::Diff, |line| line.strip_prefix('+').filter(|rest| !rest.starts_with("++")).map(Cow::Borrowed)),
    (Repair::LogPrefix, |line| log_prefix(line).map(Cow::Borrowed)),
    // A blank is of the line itself where not all lines have one.
    (Repair::LineNumber, |line| line_number(line)?.strip_prefix(' ').map(Cow::Borrowed)),
    (Repair::LineNumber, |line| line_number(line).map(Cow::Borrowed)),
    (Repair::Pipes, |line| table_row(line).map(Cow::Owned)),
    (Repair::Pipes, |line| {
        let text = line.trim().strip_prefix(BARS)?.trim_matches(BARS);
        Some(Cow::Borrowed(text.strip_prefix(' ').unwrap_or(text)))
    }),
    (Repair::Comment, |line| after(line.trim_start(), "//").map(Cow::Borrowed)),
    (Repair::Comment, |line| after(line.trim_start(), SHELL_COMMENT).map(Cow::Borrowed)),
    (Repair::Bullet, |line| bullet(line).map(Cow::Borrowed)),
    (Repair::Backticks, |line| {
        let text = line.trim();
        Some(Cow::Borrowed(text.strip_prefix('`')?.strip_suffix('`')?))
            .filter(|text| !text.contains('`') && !text.starts_with('*'))
    }),
    (Repair::Entities, |line| line.contains('&').then(|| entities(line)).filter(|text| text != line).map(Cow::Owned)),
    (Repair::Entities, |line| {
        (line.contains('\\') && line.contains("\\\"")).then(|| Cow::Owned(line.replace("\\\"", "\"")))
    }),
    (Repair::Typography, |line| typography(line).map(Cow::Owned)),
];

/// What stands before lines in tables and on screens of programs.
const BARS: [char; 4] = ['|', '│', '⎢', '┃'];

/// What no program prints: a comment that is not plain is in straight quotes, kube-proxy's name endpoints with an arrow, nft has masks, values
/// of YAML are not anchors of this name, and columns of kubectl that are empty are in angle brackets.
const MANGLED: [&str; 17] = [
    "comment “",
    "comment ”",
    "comment „",
    "comment &quot;",
    "comment &#34;",
    " -&gt; ",
    " -&amp;gt; ",
    " &amp; ",
    " &lt; ",
    ": &quot;",
    ": &#34;",
    ": &#39;",
    "- &quot;",
    "- &#34;",
    "&lt;none&gt;",
    "&lt;unset&gt;",
    "&lt;pending&gt;",
];

/// A row of a table in Markdown: the cell that is a rule, else all cells with blanks between them. The line below a heading is blank.
fn table_row(line: &str) -> Option<String> {
    let cells: Vec<&str> = line.trim().strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    if cells.len() < 2 {
        return None;
    }
    let is_rule = |cell: &str| cell.len() > 2 && cell.bytes().all(|byte| matches!(byte, b'-' | b':'));
    if cells.iter().all(|cell| is_rule(cell)) {
        return Some(String::new());
    }
    let saved = cells.iter().find(|cell| cell.trim_matches('`').starts_with("-A "));
    Some(saved.map_or_else(|| cells.join("   "), |cell| cell.trim_matches('`').to_owned()))
}

/// What scripts have before comments, and people before output that they show in scripts. Rules after it were put out of effect.
const SHELL_COMMENT: &str = "#";

fn is_shell_comment(line: &Line<'_>) -> bool {
    line.text.trim_start().starts_with(SHELL_COMMENT)
}

/// The deepest nesting of layers: a quoted log of a diff.
const DEPTH: usize = 4;

/// Takes off all layers.
pub(super) fn peel(lines: &mut [Line<'_>]) {
    peel_code(lines);
    for _ in 0..DEPTH {
        let mut is_changed = false;
        for (mend, layer) in LAYERS {
            for run in runs(lines, layer) {
                is_changed |= peel_run(&mut lines[run], mend, layer);
            }
        }
        if !is_changed {
            return;
        }
    }
}

/// Takes off the backticks around code of several lines.
fn peel_code(lines: &mut [Line<'_>]) {
    let mut start = None;
    for at in 0..lines.len() {
        let text = lines[at].text.trim();
        if !text.contains('`') {
            continue;
        }
        let is_single = text.matches('`').count() == 1;
        if let Some(first) = start.filter(|_| is_single && text.ends_with('`')) {
            let [before, after] = [first, at].map(|at: usize| lines[at].text.replacen('`', "", 1));
            lines[first] = lines[first].with(before, Repair::Backticks);
            lines[at] = lines[at].with(after, Repair::Backticks);
            start = None;
        } else {
            start = (is_single && text.starts_with('`')).then_some(at);
        }
    }
}

/// The runs of lines that have a layer. A blank line belongs to a run if lines on both sides do.
fn runs(lines: &[Line<'_>], layer: for<'a> fn(&'a str) -> Option<Cow<'a, str>>) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if layer(&line.text).is_none() {
            continue;
        }
        match runs.last_mut() {
            Some(run) if lines[run.end..at].iter().all(Line::is_blank) => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

fn peel_run(lines: &mut [Line<'_>], mend: Repair, layer: for<'a> fn(&'a str) -> Option<Cow<'a, str>>) -> bool {
    let is_inner = matches!(mend, Repair::Typography | Repair::Entities);
    let gains = |line: &Line<'_>| {
        layer(&line.text).is_some_and(|text| {
            let (before, after) = (line.text.trim_start(), text.trim_start());
            if mend == Repair::Comment && is_shell_comment(line) {
                return format::is_heading_of_output(after.trim_end());
            }
            let is_mangled = is_inner && MANGLED.iter().any(|part| before.contains(part));
            let is_better = || is_inner && quality(before) == Quality::Broken && quality(after) != Quality::Broken;
            is_mangled || is_known_inside(after, DEPTH - 1) && (!format::knows(before) || is_better())
        })
    };
    let gaining: Vec<bool> = lines.iter().map(gains).collect();
    if !gaining.contains(&true) {
        return false;
    }
    // Code quotes single rules in comments between others; what has several lines is one comment.
    let is_rule = |line: &Line<'_>| layer(&line.text).is_some_and(|text| quality(&text) != Quality::Broken);
    let is_single = match mend {
        Repair::Bullet | Repair::Backticks => true,
        Repair::Comment if !lines.iter().any(is_shell_comment) => {
            lines.iter().zip(&gaining).filter(|(_, gains)| **gains).all(|(line, _)| is_rule(line))
        }
        _ => false,
    };
    for (line, gains) in lines.iter_mut().zip(gaining) {
        // Bullets belong to single lines, the others to a block.
        if is_single && !gains {
            continue;
        }
        if let Some(text) = layer(&line.text).map(Cow::into_owned) {
            // A comment between the rows of a commented table stays one.
            if mend == Repair::Comment
                && is_shell_comment(line)
                && is_sentence(text.trim())
                && !format::knows(text.trim())
            {
                continue;
            }
            *line = line.with(text, mend);
        }
    }
    true
}

/// Whether a line is recognised, or is within more layers: those of a quoted log of a diff are all taken off, or none.
fn is_known_inside(text: &str, depth: usize) -> bool {
    let text = text.trim_start();
    let within = |layer: &for<'a> fn(&'a str) -> Option<Cow<'a, str>>| {
        layer(text).is_some_and(|inner| inner != text && is_known_inside(&inner, depth - 1))
    };
    format::knows(text) || depth > 0 && LAYERS.iter().any(|(_, layer)| within(layer))
}

/// The text after a mark, and after one blank that follows it.
fn after<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(mark)?;
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

/// `Jun 14 12:00:00 node kube-proxy[123]: `, `2024-06-14T12:00:00.123456789Z stderr F `, `[pod/kube-proxy-x/kube-proxy] `, `kube-proxy-x kube-proxy ` of
/// stern, `[   14.414142] ` of the kernel and of consoles.
fn log_prefix(line: &str) -> Option<&str> {
    if let Some(rest) = line.strip_prefix("[pod/") {
        return rest.split_once("] ").map(|(_, rest)| rest);
    }
    if let Some(rest) = after_uptime(line).or_else(|| after_container(line)) {
        return Some(rest);
    }
    if let Some((time, rest)) = line.split_once(' ').filter(|(time, _)| is_timestamp(time)) {
        let _ = time;
        let stream = rest.strip_prefix("stdout ").or(rest.strip_prefix("stderr "));
        if let Some(rest) = stream {
            return rest.strip_prefix("F ").or(rest.strip_prefix("P ")).or(Some(rest));
        }
        // `HOST PROGRAM[PID]: ` of journalctl -o short-iso.
        return after_program(rest).or(Some(rest));
    }
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = line.get(..3).filter(|month| months.contains(month))?;
    let rest = line[month.len()..].trim_start();
    let (_, rest) =
        rest.split_once(' ').filter(|(day, _)| day.len() <= 2 && day.bytes().all(|byte| byte.is_ascii_digit()))?;
    let (_, rest) = rest.split_once(' ').filter(|(time, _)| is_time(time))?;
    after_program(rest)
}

/// The text after the seconds since the start: `[   14.414142] `, `[   14.414142] : `.
fn after_uptime(line: &str) -> Option<&str> {
    let (time, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let (seconds, fraction) = time.trim_start().split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(seconds) && is_number(fraction)).then(|| rest.strip_prefix(": ").unwrap_or(rest))
}

/// The text after a pod and its container, which has the start of the pod's name: `kube-proxy-22hmk kube-proxy `.
fn after_container(line: &str) -> Option<&str> {
    let (pod, rest) = line.split_once(' ')?;
    let (container, rest) = rest.split_once(' ')?;
    (!container.is_empty() && pod.strip_prefix(container)?.starts_with('-')).then_some(rest)
}

fn after_program(rest: &str) -> Option<&str> {
    let (before, rest) = rest.split_once(": ")?;
    let is_program = before.split_whitespace().count() <= 2 && before.ends_with(']') || before.split(' ').count() == 2;
    is_program.then_some(rest)
}

/// `2024-06-14T12:00:00Z`, with fractions and zones.
fn is_timestamp(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() >= 19
        && bytes[4] == b'-'
        && bytes[7] == b'-'
        && bytes[10] == b'T'
        && word.get(11..).is_some_and(is_time)
}

/// `  12  -A ...`, `12: ...`, `12:-A ...` of `grep -n`, `rules.txt:12:...`.
fn line_number(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if (1..=7).contains(&digits) {
        let rest = &text[digits..];
        // Copied with the numbers that a page puts in front of code.
        if ["-A ", "-N ", "-P "].iter().any(|start| rest.starts_with(start)) {
            return Some(rest);
        }
        if are_counters(rest) {
            return None;
        }
        return rest.strip_prefix([':', '.', ')', '|', '-']).or(rest.strip_prefix([' ', '\t']));
    }
    let (name, rest) = text.split_once(':')?;
    let is_file = name.len() <= 80
        && name.contains(['.', '/', '-'])
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte))
        && !name.starts_with('-');
    if !is_file {
        return None;
    }
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let numbered = rest.get(digits..).and_then(|rest| rest.strip_prefix(':')).filter(|_| digits > 0);
    Some(numbered.unwrap_or(rest))
}

/// Whether what follows a number in a row of `iptables -L -v` is the other counter, and then a target: `  12   720 KUBE-MARK-MASQ  6    -- `.
fn are_counters(rest: &str) -> bool {
    let is_counter = |word: &str| {
        let digits = word.trim_end_matches(['K', 'M', 'G', 'T']);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let mut words = rest.split_whitespace();
    rest.starts_with([' ', '\t'])
        && rest.contains(" -- ")
        && words.next().is_some_and(is_counter)
        && words.next().is_some_and(|word| !is_counter(word))
}

fn bullet(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let rest = text.strip_prefix(['•', '·', '‣', '◦', '▪', '*', '-', '→', '←'])?;
    rest.starts_with([' ', '\t']).then(|| rest.trim_start()).filter(|rest| !rest.starts_with('*'))
}

fn entities(line: &str) -> String {
    let known = [
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&gt;", ">"),
        ("&lt;", "<"),
        ("&nbsp;", " "),
        ("&amp;", "&"),
    ];
    known.iter().fold(
        line.to_owned(),
        |text, (entity, letter)| if text.contains(entity) { text.replace(entity, letter) } else { text },
    )
}

/// A line with the quotes and dashes of a keyboard. A dash before a letter stands for as many as the option has.
fn typography(line: &str) -> Option<String> {
    const MADE: [char; 14] = ['“', '”', '„', '‟', '″', '‘', '’', '‚', '′', '–', '—', '−', '‐', '‑'];
    if line.is_ascii() || !line.contains(MADE) {
        return None;
    }
    let mut text = String::with_capacity(line.len());
    let mut letters = line.chars().peekable();
    let mut before = ' ';
    while let Some(letter) = letters.next() {
        match letter {
            '“' | '”' | '„' | '‟' | '″' => text.push('"'),
            '‘' | '’' | '‚' | '′' => text.push('\''),
            // `–dport` was `--dport`; `–A` was `-A`; a dash between blanks is the column of options.
            '–' | '—' if before == ' ' => {
                let rest: Vec<char> = letters.clone().take(2).collect();
                let is_short = matches!(rest.as_slice(), [name] | [name, ' '] if name.is_alphabetic());
                text.push_str(if is_short { "-" } else { "--" });
            }
            '–' | '—' | '−' | '‐' | '‑' => text.push('-'),
            letter => text.push(letter),
        }
        before = letter;
    }
    Some(text)
}
