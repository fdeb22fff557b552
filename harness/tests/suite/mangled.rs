//! What is recognised of each format in mangled text: the table of `scenarios/bugs/FORMATS.md`.

mod samples;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use svclab::evidence::{self, Evidence, Source, node_rules};

use samples::samples;

const TABLE: &str = "../scenarios/bugs/FORMATS.md";
/// The first line of the table; it is the only one of the file.
const HEADING: &str = "| ";

/// The text is in a file of an archive.
const ARCHIVE: &str = "tar";

/// A way of mangling text, with its function.
type Mangling = (&'static str, fn(&str) -> String);

const MANGLINGS: [Mangling; 21] = [
    ("as printed", str::to_owned),
    ("prompts", |text| format!("root@node-1:~# sudo cat rules.txt\n{text}root@node-1:~# exit\n")),
    ("`kubectl logs` prefix", |text| each(text, |_, line| format!("[pod/kube-proxy-x2z9v/kube-proxy] {line}"))),
    ("timestamps", |text| each(text, |_, line| format!("2024-06-14T12:00:00.123456789Z stdout F {line}"))),
    ("journald prefix", |text| each(text, |_, line| format!("Jun 14 12:00:00 node-1 kube-proxy[123]: {line}"))),
    ("indented", |text| each(text, |_, line| format!("    {line}"))),
    ("tab before", |text| each(text, |_, line| format!("\t{line}"))),
    ("`> ` quote", |text| each(text, |_, line| format!("> {line}"))),
    ("diff `+`", |text| each(text, |_, line| format!("+{line}"))),
    ("`//` before", |text| each(text, |_, line| format!("// {line}"))),
    ("colours", |text| each(text, |_, line| format!("\u{1b}[32m{line}\u{1b}[0m"))),
    ("`grep -n`", |text| each(text, |at, line| format!("{}:{line}", at + 1))),
    ("line numbers", |text| each(text, |at, line| format!("{:6}  {line}", at + 1))),
    ("wrapped at 80", |text| each(text, |_, line| wrapped(line, 80))),
    ("no-break spaces", |text| text.replace(' ', "\u{a0}")),
    ("smart quotes", |text| each(text, |_, line| smart(line))),
    ("CRLF", |text| each(text, |_, line| format!("{line}\r"))),
    ("HTML entities", |text| {
        text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
    }),
    ("head cut", |text| text.lines().skip(text.lines().count() / 3).map(|line| format!("{line}\n")).collect()),
    ("tail cut", |text| text[..text.len() * 2 / 3].to_owned()),
    ("fences", |text| format!("This is what I see:\n\n```console\n{text}```\n\nThanks!\n")),
];

fn each(text: &str, change: impl Fn(usize, &str) -> String) -> String {
    text.lines().enumerate().map(|(at, line)| change(at, line) + "\n").collect()
}

fn wrapped(line: &str, width: usize) -> String {
    let letters: Vec<char> = line.chars().collect();
    letters.chunks(width).map(|part| part.iter().collect::<String>()).collect::<Vec<_>>().join("\n")
}

/// A line with typographic quotes in place of straight ones.
fn smart(line: &str) -> String {
    let mut is_open = false;
    let curl = |letter: char| match letter {
        '"' => {
            is_open = !is_open;
            if is_open { '“' } else { '”' }
        }
        other => other,
    };
    line.chars().map(curl).collect()
}

/// The evidence of a text, or of an archive that it is in.
fn evidence_of(format: &str, text: &str) -> Evidence {
    if format != ARCHIVE {
        return evidence::read(text);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node-1.tar");
    let mut archive = tar::Builder::new(fs::File::create(&path).unwrap());
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    archive.append_data(&mut header, "node-1/iptables-save.txt", text.as_bytes()).unwrap();
    archive.finish().unwrap();
    evidence::from_source(Source::Path(path)).unwrap()
}

/// What is read: the rules, one by one with how often they are there, the number of objects, and that of entries of each other format.
#[derive(PartialEq)]
struct Contents {
    rules: BTreeMap<String, usize>,
    objects: usize,
    entries: BTreeMap<String, u64>,
}

impl Contents {
    fn of(evidence: &Evidence) -> Self {
        let mut rules = BTreeMap::new();
        for set in node_rules(evidence) {
            let printed = set.rules.print();
            let lines =
                printed.lines().map(str::trim).filter(|line| line.contains(' ') && !line.starts_with([':', '#']));
            lines.for_each(|line| *rules.entry(line.to_owned()).or_default() += 1);
        }
        let document = serde_json::to_value(evidence::json::Document::of(Path::new(""), evidence)).unwrap();
        let mut entries = BTreeMap::new();
        for piece in document["pieces"].as_array().unwrap() {
            let count = piece["entries"].as_u64().unwrap();
            if count > 0 {
                *entries.entry(piece["format"].as_str().unwrap().to_owned()).or_default() += count;
            }
        }
        Self { rules, objects: evidence.objects(), entries }
    }

    fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.objects == 0 && self.entries.is_empty()
    }

    /// Whether all that is in it is in another one too.
    fn is_part_of(&self, whole: &Self) -> bool {
        self.objects <= whole.objects
            && self.rules.keys().all(|rule| whole.rules.contains_key(rule))
            && self.entries.iter().all(|(format, count)| whole.entries.get(format).is_some_and(|all| count <= all))
    }
}

/// The lines of a text that are neither in a piece, nor prose, nor listed as unread.
fn dropped(text: &str, evidence: &Evidence) -> Vec<usize> {
    let pieces = evidence.pieces.iter().map(|piece| piece.first..=piece.last);
    let prose = evidence.prose.iter().map(|prose| prose.first..=prose.last);
    let unread = evidence.unread.iter().map(|unread| unread.line..=unread.line);
    let known: HashSet<usize> = pieces.chain(prose).chain(unread).flatten().collect();
    let is_dropped = |(number, line): &(usize, &str)| !line.trim().is_empty() && !known.contains(number);
    (1..).zip(text.lines()).filter(is_dropped).map(|(number, _)| number).collect()
}

/// How much of a mangled text is recognised. No line of it is dropped silently.
fn recognised(format: &str, text: &str, (mangling, mangle): Mangling) -> &'static str {
    let whole = Contents::of(&evidence_of(format, text));
    assert!(!whole.is_empty(), "{format}");
    let mangled = mangle(text);
    let evidence = evidence_of(format, &mangled);
    if format != ARCHIVE {
        assert_eq!(dropped(&mangled, &evidence), Vec::<usize>::new(), "{format}, {mangling}");
    }
    let own = Contents::of(&evidence);
    match () {
        () if own == whole => "all",
        () if own.is_empty() => "no",
        () if own.is_part_of(&whole) => "part",
        () => "changed",
    }
}

/// How good a cell is.
fn rank(cell: &str) -> u8 {
    match cell {
        "all" => 2,
        "no" => 0,
        _ => 1,
    }
}

/// The cells of a table by the names of rows and columns.
fn cells(table: &str) -> BTreeMap<(String, String), String> {
    let words = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let mut rows = table.lines().filter(|line| !line.contains("---")).map(words);
    let names = rows.next().unwrap_or_default();
    let cells = rows.flat_map(|row| {
        let of_row = row.iter().skip(1).zip(names.iter().skip(1));
        of_row.map(|(cell, name)| ((row[0].clone(), name.clone()), cell.clone())).collect::<Vec<_>>()
    });
    cells.collect()
}

/// As much is read of a mangled text as the table says, and a new table says no less than the one before.
#[test]
fn formats_are_recognised_however_they_are_mangled() {
    let samples = samples();
    let names: Vec<&str> = samples.iter().map(|(name, _)| *name).collect();
    let mut lines =
        vec![format!("{HEADING} | {} |", names.join(" | ")), format!("|{}", " --- |".repeat(names.len() + 1))];
    for mangling in MANGLINGS {
        let cells: Vec<&str> = samples.iter().map(|(name, text)| recognised(name, text, mangling)).collect();
        lines.push(format!("| {} | {} |", mangling.0, cells.join(" | ")));
    }
    let table = lines.join("\n") + "\n";
    let page = fs::read_to_string(TABLE).unwrap();
    let start = page.find(HEADING).expect("the table's heading");
    let found = cells(&table);
    let known = cells(&page[start..]);
    let lost: Vec<_> =
        known.iter().filter(|(place, cell)| found.get(*place).is_none_or(|own| rank(own) < rank(cell))).collect();
    assert!(lost.is_empty(), "less is read than before: {lost:#?}\n{table}");
    if std::env::var_os("INSTA_UPDATE").is_some_and(|mode| mode == "always") {
        fs::write(Path::new(TABLE), [&page[..start], &table].concat()).unwrap();
    }
    let page = fs::read_to_string(TABLE).unwrap();
    assert!(
        page[start..] == table,
        "write it again with `INSTA_UPDATE=always cargo test -p svclab --test suite mangled::`:\n{table}"
    );
}
