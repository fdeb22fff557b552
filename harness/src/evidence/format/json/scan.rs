//! JSON that was wrapped, cut, or went through a text editor or a web page → its text, and the elements that are whole.

use std::borrow::Cow;
use std::ops::Range;

use super::super::super::line::Line;
use super::super::super::repairs::Repair;
use super::super::command;

/// A part of the text that is a whole object of Kubernetes, of nft, or of `ip`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It has a kind, a version and metadata.
    Object,
    /// It is one thing of a list of nft's.
    Nft,
    /// It is an interface or a route.
    Ip,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The text, with what was put into it taken out.
    pub(super) text: String,
    /// Where each line starts in it.
    pub(super) starts: Vec<usize>,
    /// The whole elements, none within another.
    pub(super) elements: Vec<(Range<usize>, Kind)>,
    /// How lines were changed.
    pub(super) repairs: Vec<Repair>,
    state: State,
    stack: Vec<Frame>,
}

#[derive(Debug, Default)]
struct State {
    in_string: bool,
    is_escaped: bool,
    /// Where the last string started and ended.
    string: Range<usize>,
}

/// An object or list that is open.
#[derive(Debug)]
struct Frame {
    start: usize,
    is_list: bool,
    keys: usize,
    has_kind: bool,
    has_version: bool,
    has_metadata: bool,
    is_of_nft: bool,
    is_of_ip: bool,
    /// Whether something in it is not as JSON has it.
    is_broken: bool,
}

/// What nft's list has.
const OF_NFT: [&str; 12] = [
    "metainfo",
    "table",
    "chain",
    "set",
    "map",
    "rule",
    "element",
    "flowtable",
    "counter",
    "quota",
    "limit",
    "ct helper",
];

/// The lines by which the width of a terminal is known.
const WIDTH_BY: usize = 64;

/// The deepest nesting that is followed: the one that `serde_json` reads.
pub(super) const DEEPEST: usize = 128;

/// Follows lines up to the end of the first value, or of what looks like JSON. The first line starts one.
pub(super) fn scan(lines: &[Line<'_>]) -> Scan {
    let mut scan = Scan::default();
    let width = lines.iter().take(WIDTH_BY).map(|line| line.text.len()).max().unwrap_or_default();
    for (at, line) in lines.iter().enumerate() {
        let text = scan.straight(&line.text);
        let is_over = line.is_fence() || at > 0 && command(line.text.trim()).is_some();
        if is_over || !scan.state.in_string && !starts_token(text.trim_start()) || scan.stack.len() > DEEPEST {
            break;
        }
        scan.starts.push(scan.text.len());
        scan.add(&text);
        let next = lines.get(at + 1).map_or("", |next| next.text.trim_start());
        let goes_on = scan.state.in_string || text.trim_end().ends_with(',') || next.starts_with([']', '}']);
        if scan.stack.is_empty() && !goes_on {
            break;
        }
        // A line of the terminal's width goes on without a break. Another one ends a string that is open, which is broken.
        if line.text.len() == width && at + 1 < lines.len() {
            let is_within = scan.state.in_string || text.ends_with(|last: char| last.is_ascii_alphanumeric());
            if is_within && !scan.repairs.contains(&Repair::Wrapped) {
                scan.repairs.push(Repair::Wrapped);
            }
            continue;
        }
        if scan.state.in_string {
            scan.state.in_string = false;
            scan.stack.iter_mut().for_each(|frame| frame.is_broken = true);
        }
        scan.text.push('\n');
    }
    scan
}

/// Whether text starts as JSON goes on. A blank line ends it.
pub(super) fn starts_token(text: &str) -> bool {
    let literals = ["true", "false", "null"];
    text.starts_with(['{', '}', '[', ']', ',', ':', '"', '-'])
        || text.starts_with(|first: char| first.is_ascii_digit())
        || literals.iter().any(|word| text.starts_with(word))
}

impl Scan {
    /// A line with straight quotes, where all of its quotes are others: those of a text editor or of a web page.
    fn straight<'l>(&mut self, line: &'l str) -> Cow<'l, str> {
        const CURLED: [char; 5] = ['“', '”', '„', '‟', '″'];
        let has_straight = line.contains('"');
        let (text, repair) = if !has_straight && line.contains(CURLED) {
            (line.replace(CURLED, "\""), Repair::Typography)
        } else if !has_straight && line.contains("&quot;") {
            let quoted = line.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
            (quoted, Repair::Entities)
        } else {
            return Cow::Borrowed(line);
        };
        if !self.repairs.contains(&repair) {
            self.repairs.push(repair);
        }
        Cow::Owned(text)
    }

    fn add(&mut self, line: &str) {
        let offset = self.text.len();
        self.text += line;
        for (at, byte) in (offset..).zip(line.bytes()) {
            if self.state.in_string {
                match byte {
                    _ if self.state.is_escaped => self.state.is_escaped = false,
                    b'\\' => self.state.is_escaped = true,
                    b'"' => {
                        self.state.in_string = false;
                        self.state.string.end = at;
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => {
                    self.state.in_string = true;
                    self.state.string = at + 1..at + 1;
                }
                b':' => self.key(),
                b'{' | b'[' if self.stack.len() <= DEEPEST => self.stack.push(Frame::opened(at, byte == b'[')),
                b'}' | b']' => self.close(at, byte == b']'),
                _ => {}
            }
        }
    }

    fn key(&mut self) {
        let key = self.text.get(self.state.string.clone()).unwrap_or_default();
        let Some(frame) = self.stack.last_mut().filter(|frame| !frame.is_list) else { return };
        frame.keys += 1;
        match key {
            "kind" => frame.has_kind = true,
            "apiVersion" => frame.has_version = true,
            "metadata" => frame.has_metadata = true,
            "ifname" | "dst" | "dev" => frame.is_of_ip = true,
            _ => frame.is_of_nft |= OF_NFT.contains(&key),
        }
    }

    fn close(&mut self, at: usize, is_list: bool) {
        // What closes nothing is of a value whose start is not shown.
        let Some(frame) = self.stack.pop() else { return };
        if frame.is_list != is_list {
            self.stack.iter_mut().for_each(|outer| outer.is_broken = true);
            return;
        }
        let Some(kind) = frame.kind(self.stack.len()).filter(|_| !frame.is_broken) else { return };
        while self.elements.last().is_some_and(|(inner, _)| inner.start > frame.start) {
            self.elements.pop();
        }
        self.elements.push((frame.start..at + 1, kind));
    }

    /// The position of the line that has a place in the text.
    pub(super) fn line_of(&self, place: usize) -> usize {
        self.starts.partition_point(|start| *start <= place).saturating_sub(1)
    }
}

impl Frame {
    fn opened(start: usize, is_list: bool) -> Self {
        Self {
            start,
            is_list,
            keys: 0,
            has_kind: false,
            has_version: false,
            has_metadata: false,
            is_of_nft: false,
            is_of_ip: false,
            is_broken: false,
        }
    }

    /// What it is, with so many others around it.
    fn kind(&self, depth: usize) -> Option<Kind> {
        match () {
            () if self.is_list => None,
            () if self.has_kind && self.has_version && self.has_metadata => Some(Kind::Object),
            () if self.is_of_nft && self.keys == 1 && depth <= 2 => Some(Kind::Nft),
            () if self.is_of_ip && depth <= 1 => Some(Kind::Ip),
            () => None,
        }
    }
}
