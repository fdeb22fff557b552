//! A text → pieces of evidence.

use std::sync::LazyLock;

use regex::RegexSet;
use svclab_rules::iptables::ChainKind;

use super::command::{Command, command};
use super::continued_lines;
use super::families;
use super::filter::Filter;
use super::format::{self, Block, Context};
use super::heading;
use super::joined_lines::split;
use super::line::{Line, is_sentence, lines};
use super::logged::Complaint;
use super::loops;
use super::model::{Contents, Evidence, Format, Piece, Stretch};
use super::prefixes::peel;
use super::repairs::RepairSet;
use super::unread::{OLDER_SIDE, Unread};
use super::warnings;
use super::wrapped_nft;
use super::{hosts, releases};
use crate::text::counted;

/// The most pieces of a text: a dump has hundreds. Headings without contents, one on a line, would take 200 times the memory of their text.
const MAX_PIECES: usize = 100_000;

/// The most lines that cannot be read. Each is tried as a line of every format, and a text with so many is not evidence.
const MAX_UNREAD: usize = 20_000;

/// The length of the part of a text that is read first, to find out that it is not evidence.
const FIRST_PART: usize = 8 << 20;

/// The most lines of a text: each takes 60 bytes besides its text. Lines of evidence are so long that a file of the greatest length has fewer.
const MAX_LINES: usize = 4_000_000;

/// Reads a text of any kind. It never fails: what is not evidence is prose, and what cannot be read is listed.
pub fn read(text: &str) -> Evidence {
    read_up_to(text, Limits { pieces: MAX_PIECES, unread: MAX_UNREAD, first_part: FIRST_PART, lines: MAX_LINES })
}

/// Reads a text that is one of several, of which others are read already: the limits are those of all of them, but each is read up to its first
/// few lines that cannot be read.
pub(super) fn read_next(text: &str, others: &Evidence) -> Evidence {
    let left = |most: usize, used: usize, least: usize| most.saturating_sub(used).max(least);
    let pieces = left(MAX_PIECES, others.pieces.len(), MIN_PIECES);
    let unread = left(MAX_UNREAD, others.unread.len(), MIN_UNREAD);
    read_up_to(text, Limits { pieces, unread, first_part: FIRST_PART, lines: MAX_LINES })
}

/// The pieces and the lines that cannot be read of a file that are kept, however many others have.
const MIN_PIECES: usize = 1_000;
const MIN_UNREAD: usize = 100;

/// How much of a text is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The most pieces.
    pub(super) pieces: usize,
    /// The most lines that cannot be read.
    pub(super) unread: usize,
    /// The length of the part that is read first.
    pub(super) first_part: usize,
    /// The most lines.
    pub(super) lines: usize,
}

/// Reads a text up to limits.
pub(super) fn read_up_to(text: &str, limits: Limits) -> Evidence {
    if let Some(evidence) = whole(text) {
        return evidence;
    }
    let (text, beyond) = first_lines(text, limits.lines);
    let following = beyond.lines().count();
    let first = text.floor_char_boundary(limits.first_part);
    if let Some(end) = text[first..].find('\n').map(|end| first + end + 1).filter(|end| *end < text.len())
        && let (evidence, true) = read_lines(&text[..end], limits, text[end..].lines().count() + following)
    {
        return evidence;
    }
    let (mut evidence, is_cut) = read_lines(text, limits, following);
    if let Some(line) = beyond.lines().next().filter(|_| !is_cut) {
        let rest = counted(following, "line");
        let reason = format!("the text has more than {}: {rest} from here on not read", counted(limits.lines, "line"));
        evidence.unread.push(Unread { file: None, line: limits.lines + 1, text: line.to_owned(), reason });
    }
    evidence
}

/// The first lines of a text, and the rest.
fn first_lines(text: &str, most: usize) -> (&str, &str) {
    text.match_indices('\n').nth(most - 1).map_or((text, ""), |(at, _)| text.split_at(at + 1))
}

/// Reads a text that more lines follow. Returns whether a limit is reached.
fn read_lines(text: &str, limits: Limits, following: usize) -> (Evidence, bool) {
    let mut lines = lines(text);
    peel(&mut lines);
    continued_lines::join(&mut lines);
    wrapped_nft::join(&mut lines);
    let lines = split(lines);
    let (releases, hosts) = (releases::find(text), hosts::find(text));
    let mut reader = Reader {
        evidence: Evidence {
            releases,
            hosts,
            legacy_warnings: warnings::of_legacy(text),
            ipvs: warnings::of_ipvs(text).into_iter().collect(),
            ..Evidence::default()
        },
        source: None,
        heading: None,
        machines: Vec::new(),
        output_end: 0,
        in_fence: false,
        is_adjacent: false,
    };
    let mut at = 0;
    let is_within = |found: &Evidence| found.pieces.len() < limits.pieces && found.unread.len() < limits.unread;
    while at < lines.len() && is_within(&reader.evidence) {
        at += reader.next(&lines, at);
    }
    let rest = lines.get(at);
    if let Some(line) = rest {
        let rest = counted(lines.len() - at + following, "line");
        let what = match reader.evidence.pieces.len() < limits.pieces {
            true => format!("{} lines that cannot be read", limits.unread),
            false => format!("{} pieces", limits.pieces),
        };
        let reason = format!("the text has more than {what}: {rest} from here on not read");
        reader.evidence.unread.push(Unread { file: None, line: line.number, text: line.shown(), reason });
    }
    if reader.in_fence {
        reader.cut_last(&lines);
    }
    families::assign(&mut reader.evidence, None);
    (reader.evidence, rest.is_some())
}

/// A file of one format without a mistake, which is read at once.
fn whole(text: &str) -> Option<Evidence> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (format, contents) = match format::whole(text)? {
        contents @ Contents::Nftables { .. } => (Format::Nft, contents),
        contents => (Format::IptablesSave, contents),
    };
    let mut shown = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()).map(|(number, _)| number);
    let first = shown.next()?;
    let last = shown.last().unwrap_or(first);
    let piece = Piece {
        file: None,
        format,
        first,
        last,
        command: None,
        host: None,
        heading: None,
        contents,
        repairs: Vec::new(),
        failed_to_load: None,
    };
    Some(Evidence { pieces: vec![piece], legacy_warnings: warnings::of_legacy(text), ..Evidence::default() })
}

/// Returns the line of the failure because of which kube-proxy's log shows rules: they follow it, without a command and without iptables-save's
/// own heading.
fn failure_before(log: &Piece, rules: &Piece, first_line: &str) -> Option<usize> {
    let Contents::Log { failures, .. } = &log.contents else { return None };
    let last = failures.last().filter(|failure| failure.complaint == Complaint::Sync)?;
    let is_plain = rules.command.is_none() && !first_line.trim_start().starts_with('#');
    let is_next = rules.first.saturating_sub(last.line) <= MAX_BETWEEN;
    (matches!(rules.contents, Contents::Iptables { .. }) && is_plain && is_next).then_some(last.line)
}

/// The most lines from that of a failure to the rules that kube-proxy tried to load: the rest of the message, and `Rules:`.
const MAX_BETWEEN: usize = 4;

struct Reader {
    evidence: Evidence,
    /// What the next lines may be the output of.
    source: Option<Source>,
    /// The machine that the last heading names.
    heading: Option<String>,
    /// The machines over which the command loops.
    machines: Vec<String>,
    /// The next line that is the heading of one of them, or the end.
    output_end: usize,
    /// Whether lines are between code fences.
    in_fence: bool,
    /// Whether the line before belongs to a piece or is unread.
    is_adjacent: bool,
}

/// A command whose output may follow.
struct Source {
    command: Command,
    /// Its line, until it was reported that any rule may be left out of its output.
    filtered: Option<Unread>,
    /// Whether lines of its output are left out before the next ones.
    has_gap: bool,
    /// Whether nothing has followed it: a page may have its output in the next block of code.
    is_last: bool,
}

impl Source {
    fn of(command: Command, line: &Line<'_>) -> Self {
        let filtered = match command.filter() {
            Filter::Unknown(why) => {
                let reason = format!("this command may hide any rule: {why}");
                Some(Unread { file: None, line: line.number, text: line.shown(), reason })
            }
            _ => None,
        };
        Self { command, filtered, has_gap: false, is_last: true }
    }
}

impl Reader {
    /// Reads the block or line at a position. Returns its number of lines.
    fn next(&mut self, lines: &[Line<'_>], at: usize) -> usize {
        let line = &lines[at];
        if line.is_blank() {
            self.is_adjacent = false;
            // Marks of a quote, or invisible characters.
            return if line.raw.trim().is_empty() { 1 } else { self.prose(line) };
        }
        if line.is_fence() {
            self.in_fence = !self.in_fence;
            self.source.take_if(|source| !source.is_last);
            self.is_adjacent = false;
            return self.prose(line);
        }
        if let Some(mut command) = command(line.text.trim()) {
            self.machines = loops::machines(&command.text);
            self.output_end = at;
            if !self.machines.is_empty() {
                command.host = None;
            }
            // A page that lost its line ends has the output after the command.
            let has_output = command.text.len() > 150 && command.text.contains(" NAME ");
            self.source = Some(Source::of(command, line));
            self.is_adjacent = false;
            self.evidence.commands.push(Stretch { file: None, first: line.number, last: line.number });
            if has_output {
                return self.unread(line, "the output starts on the line of its command");
            }
            return self.prose(line);
        }
        if let Some(machine) = loops::heading(&line.text, &self.machines) {
            self.heading = Some(machine.clone());
            self.is_adjacent = false;
            return self.prose(line);
        }
        if line.is_ellipsis() {
            self.source.iter_mut().for_each(|source| source.has_gap = true);
        }
        let source = self.source.as_ref();
        let context = Context {
            command: source.map(|source| source.command.clone()),
            has_gap: source.is_some_and(|source| source.has_gap),
        };
        let own = &lines[at..self.end_of_output(lines, at)];
        let mut block = format::read(own, &context);
        if block.as_ref().is_some_and(|block| context.command.is_some_and(|command| !command.may_print(block.format))) {
            self.source = None;
            block = format::read(own, &Context::default());
        }
        match block {
            Some(block) => {
                let taken = block.taken.max(1);
                self.note_output();
                self.piece(&lines[at..at + taken], block);
                self.is_adjacent = true;
                taken
            }
            None if is_aside(line) => self.prose(line),
            None => self.other(line),
        }
    }

    /// The position after the output that a line is part of: the next machine's starts there.
    fn end_of_output(&mut self, lines: &[Line<'_>], at: usize) -> usize {
        if self.machines.is_empty() {
            return lines.len();
        }
        if self.output_end <= at {
            let is_heading = |line: &Line<'_>| loops::heading(&line.text, &self.machines).is_some();
            self.output_end = lines[at..].iter().position(is_heading).map_or(lines.len(), |next| at + next);
        }
        self.output_end
    }

    fn piece(&mut self, lines: &[Line<'_>], block: Block) {
        let Block { format, contents, unread, mends, .. } = block;
        if contents.rules() > 0 {
            self.evidence.unread.extend(self.source.as_mut().and_then(|source| source.filtered.take()));
        }
        for (at, reason) in unread {
            let line = &lines[at.min(lines.len() - 1)];
            self.evidence.unread.push(Unread { file: None, line: line.number, text: line.shown(), reason });
        }
        let mut all: Vec<(usize, RepairSet)> = lines.iter().map(|line| (line.number, line.mends)).collect();
        for (number, mends) in mends {
            // Lines come in their order.
            let at = all.partition_point(|(line, _)| *line < number);
            match all.get_mut(at).filter(|(line, _)| *line == number) {
                Some((_, known)) => *known = known.and(mends),
                None => all.insert(at, (number, mends)),
            }
        }
        all.dedup_by_key(|(number, mends)| (*number, *mends));
        let repairs = RepairSet::listed(all.into_iter());
        let (first, last) = (lines[0].number, lines[lines.len() - 1].number);
        let (command, host) = match &self.source {
            Some(Source { command, .. }) => (Some(command.text.clone()), command.host.clone()),
            None => (None, None),
        };
        let heading = self.heading.clone();
        let mut piece =
            Piece { file: None, format, first, last, command, host, heading, contents, repairs, failed_to_load: None };
        piece.failed_to_load = self.evidence.pieces.last().and_then(|log| failure_before(log, &piece, &lines[0].text));
        self.evidence.pieces.push(piece);
    }

    /// The text ends within code: what a filter would have selected after its last line is not known.
    fn cut_last(&mut self, lines: &[Line<'_>]) {
        let end = lines.iter().rev().find(|line| !line.is_blank()).map(|line| line.number);
        if let Some(piece) = self.evidence.pieces.last_mut().filter(|piece| Some(piece.last) == end)
            && let Contents::Iptables { coverage, cut, .. } = &mut piece.contents
            && coverage.has_filters()
        {
            coverage.remove_filters();
            *cut = cut.or(end);
        }
    }

    fn prose(&mut self, line: &Line<'_>) -> usize {
        match self.evidence.prose.last_mut() {
            Some(known) if known.last + 1 >= line.number => known.last = line.number,
            _ => self.evidence.prose.push(Stretch { file: None, first: line.number, last: line.number }),
        }
        1
    }

    /// A line of no format: prose, unless it looks like a part of some output.
    fn other(&mut self, line: &Line<'_>) -> usize {
        let text = line.text.trim();
        if let Some(host) = heading::ansible_host(text) {
            (self.source, self.heading) = (None, Some(host));
            return self.prose(line);
        }
        let older = text.strip_prefix(OLDER_SIDE).filter(|_| self.in_fence);
        let reason = if older.is_some_and(|older| format::knows(older.trim()) || looks_like_evidence(older)) {
            "it is of the older side of a `diff`"
        } else if looks_like_evidence(text) {
            if format::is_rule_of_nft(text) {
                "it is a rule of iptables as nft shows it, and the heading of its chain is not shown: `iptables-save` names the chain"
            } else if is_of_iptables_nft(text) {
                "it is a rule of iptables as nft shows it, without the matches that nft cannot show: `iptables-save` prints them"
            } else {
                "it looks like rules or output, but cannot be read by itself"
            }
        } else if format::is_of_json(text) {
            "it belongs to a JSON value that is not shown whole"
        } else if self.in_fence {
            "no known format"
        } else if self.is_adjacent && !is_sentence(text) && !heading::is_heading(text) {
            "no known format, next to what was read"
        } else {
            if !self.in_fence && is_sentence(text) {
                self.source.take_if(|source| !source.is_last || !is_label(text));
            }
            if !self.in_fence {
                self.heading = heading::machine_in(text).or(self.heading.take());
            }
            return self.prose(line);
        };
        self.unread(line, reason)
    }

    /// Records that something follows the command: what the next block of code has is not its output.
    fn note_output(&mut self) {
        if let Some(source) = &mut self.source {
            source.is_last = false;
        }
    }

    fn unread(&mut self, line: &Line<'_>, reason: &str) -> usize {
        self.note_output();
        let is_known = self.evidence.unread.last().is_some_and(|unread| unread.line == line.number);
        if !is_known {
            let unread = Unread { file: None, line: line.number, text: line.shown(), reason: reason.to_owned() };
            self.evidence.unread.push(unread);
        }
        1
    }
}

/// Whether a line only announces what follows: `Output:`.
fn is_label(text: &str) -> bool {
    text.ends_with([':', '：']) && text.split_whitespace().count() <= 3
}

/// Whether a line has no content of its own: a number, dots, a prompt without a command, a warning that programs print before their output.
fn is_aside(line: &Line<'_>) -> bool {
    // Between the sides of a part of a `diff`.
    let is_middle = line.text.trim() == "---";
    line.is_gutter()
        || line.is_ellipsis()
        || is_middle
        || line.is_prompt()
        || warnings::is_warning(line.text.trim())
        || warnings::is_version(line.text.trim())
}

/// Whether a line is a rule of iptables as nft shows it.
fn is_of_iptables_nft(text: &str) -> bool {
    OF_NFT.iter().any(|mark| text.contains(mark))
}

/// Strings that only such lines contain.
const OF_NFT: [&str; 4] = [" jump KUBE-", " goto KUBE-", "xt match ", "xt target "];

/// Strings that occur only in rules or output, wherever the line is.
const MARKS: [&str; 10] = [
    " -j ",
    "--dport ",
    "--to-destination ",
    "--comment ",
    "dpt:",
    " cluster IP */",
    "src=10.",
    "jump service-",
    "goto endpoint-",
    "--probability ",
];

/// All of these, and the prefixes of service chains: one search for all of them.
static MARKED: LazyLock<RegexSet> = LazyLock::new(|| {
    let any = |marks: &[&str]| marks.iter().map(|mark| regex::escape(mark)).collect::<Vec<_>>().join("|");
    let marks = any(&[&MARKS[..], &OF_NFT[..]].concat());
    let chains = any(&ChainKind::ALL.map(ChainKind::prefix));
    #[expect(clippy::expect_used, reason = "the marks are escaped")]
    RegexSet::new([marks, chains]).expect("patterns of escaped marks")
});

/// Whether a line certainly belongs to rules or output, although it cannot be read.
fn looks_like_evidence(text: &str) -> bool {
    let starts = ["-A ", "-I ", ":KUBE-", "KUBE-MARK-", "DNAT "];
    if starts.iter().any(|start| text.starts_with(start)) {
        return true;
    }
    let found = MARKED.matches(text);
    found.matched(0) || found.matched(1) && (ChainKind::of(text).is_some() || !is_sentence(text))
}
