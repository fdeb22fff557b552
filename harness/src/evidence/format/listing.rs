//! `iptables -L`, with and without `-n`, `-v` and `--line-numbers`; grepped, or through `column -t`.

use std::borrow::Cow;

use svclab_rules::coverage::Coverage;
use svclab_rules::iptables::{Listing, ListingLine, ListingReader};

use super::super::filter::Filter;
use super::super::line::Line;
use super::super::model::{Contents, Format};
use super::super::repairs::{Repair, RepairSet};
use super::super::unread::NAME_OF_HOST;
use super::terminal::{first_output, is_rest, width};
use super::{Block, Command, Context, command, knows_block};

pub(super) fn knows(line: &str) -> bool {
    is_heading(line) || is_columns(line) || is_row(line)
}

/// `Chain KUBE-SERVICES (2 references)`
pub(super) fn is_heading(line: &str) -> bool {
    line.strip_prefix("Chain ").and_then(|rest| rest.trim_start().split_once(" (")).is_some_and(|(name, rest)| {
        !name.trim_end().contains(' ') && (rest.contains("references") || rest.starts_with("policy "))
    })
}

pub(super) fn is_columns(line: &str) -> bool {
    line.contains("target")
        && line.contains("prot")
        && line.contains("source")
        && line.contains("destination")
        && line.split_whitespace().count() <= 11
}

/// A row without the heading of its chain.
fn is_row(line: &str) -> bool {
    let has_option =
        || line.contains(" -- ") || !line.is_ascii() && [" — ", " – "].iter().any(|dash| line.contains(dash));
    !line.starts_with(['-', '+']) && has_option() && ListingReader::default().line(1, line) == ListingLine::Rule
}

pub(super) fn read(lines: &[Line<'_>], context: &Context) -> Option<Block> {
    let first = lines.first()?.text.trim();
    if !knows(first) {
        return None;
    }
    let mut reader = ListingReader::default();
    reader.set_table(context.command.as_ref().and_then(|command| command.table()));
    reader.set_chain(context.command.as_ref().and_then(Command::listed_chain));
    let mut unread = Vec::new();
    let mut mends = Vec::new();
    let has_heading = is_heading(first);
    if !has_heading {
        mends.push((lines[0].number, RepairSet::default().with(Repair::Heading)));
    }
    let width = width(first_output(lines));
    let taken = rows(lines, width, &mut reader, &mut unread, &mut mends);
    if matches!(context.command.as_ref().map(Command::filter), Some(Filter::End)) {
        reader.gap();
    }
    let mut count =
        reader.rules() - unread.iter().filter(|(_, reason)| reason.contains("cut off")).count().min(reader.rules());
    let Listing { rules, lines: source, rounded_digits, cut, mut coverage, unplaced, unknown } =
        reader.finish().unwrap_or_else(empty);
    let position = |number: &usize| lines[..taken].binary_search_by_key(number, |line| line.number).ok();
    unread.extend(unplaced.iter().filter_map(position).map(|at| (at, UNPLACED.to_owned())));
    let unknown: Vec<&(usize, String)> = unknown.iter().filter(|(number, _)| !unplaced.contains(number)).collect();
    unread.extend(unknown.iter().filter_map(|(number, words)| Some((position(number)?, not_known(words)))));
    unread.sort_by_key(|(at, _)| *at);
    count -= (unplaced.len() + unknown.len()).min(count);
    let rules = svclab_rules::iptables::Parsed { rules, lines: source };
    // A filter picks rows, whatever chain they are in.
    if !matches!(context.command.as_ref().map(Command::filter).unwrap_or_default(), Filter::None | Filter::End) {
        coverage = coverage.uncovered();
    }
    let contents = Contents::Iptables { rules, count, coverage, rounded_digits, cut };
    Some(Block { format: Format::IptablesList, taken: taken.max(1), contents, unread, mends })
}

/// Reads rows up to the end of the listing. Returns how many lines it takes.
fn rows(
    lines: &[Line<'_>],
    width: Option<usize>,
    reader: &mut ListingReader,
    unread: &mut Vec<(usize, String)>,
    mends: &mut Vec<(usize, RepairSet)>,
) -> usize {
    let (mut at, mut taken) = (0, 0);
    let mut last_row: Option<Cow<'_, str>> = None;
    while let Some(line) = lines.get(at) {
        if line.is_fence() || (at > 0 && command(line.text.trim()).is_some()) {
            break;
        }
        if line.is_blank() || line.is_gutter() {
            if line.is_ellipsis() {
                reader.gap();
            } else if line.is_blank() {
                reader.blank();
            }
            at += 1;
            continue;
        }
        if line.is_group_separator() {
            // What follows may be of any chain.
            reader.gap();
            break;
        }
        let (joined, count) = whole_row(&lines[at..], width);
        if line.is_repetition()
            && let Some(row) = &last_row
        {
            reader.line(line.number, row);
            mends.push((line.number, RepairSet::default().with(Repair::Repeated)));
            at += 1;
            taken = at;
            continue;
        }
        let is_joined = joined.is_some();
        let row = joined.map_or(Cow::Borrowed(&*line.text), Cow::Owned);
        let kind = reader.line(line.number, &row);
        last_row = (kind == ListingLine::Rule).then_some(row);
        match kind {
            ListingLine::Other if at == taken && is_end(&lines[at + 1..]) && reader.end(line.number, &line.text) => {
                mends.push((line.number, RepairSet::default().with(Repair::Cut)));
                unread.push((at, "the row is cut off".to_owned()));
            }
            ListingLine::Other => {
                // A line between rows was not read; after a blank line, or before something else, the listing is over.
                let is_between = at == taken
                    && lines.get(at + 1).is_some_and(|next| knows(next.text.trim()) && !is_heading(next.text.trim()));
                if !is_between || knows_block(line.text.trim()) {
                    if line.is_ellipsis() {
                        reader.gap();
                    }
                    break;
                }
                reader.gap();
                if !line.is_ellipsis() {
                    unread.push((at, "it is not a row of an iptables listing".to_owned()));
                }
            }
            ListingLine::Cut => {
                mends.push((line.number, RepairSet::default().with(Repair::Cut)));
                unread.push((at, "the row is cut off".to_owned()));
            }
            ListingLine::Chain | ListingLine::Columns | ListingLine::Rule => {}
        }
        if is_joined {
            mends.push((line.number, RepairSet::default().with(Repair::Wrapped)));
        }
        at += count;
        taken = at;
    }
    taken
}

/// Whether nothing follows in the text, or in the fences around it.
fn is_end(lines: &[Line<'_>]) -> bool {
    lines.iter().find(|line| !line.is_blank()).is_none_or(Line::is_fence)
}

/// The most lines of a row.
const MAX_LINES: usize = 6;

/// A row that was wrapped, joined, and how many lines it took. The width is that of the terminal that wrapped it, if it is known.
fn whole_row(lines: &[Line<'_>], width: Option<usize>) -> (Option<String>, usize) {
    let is_full = |line: &Line<'_>| Some(line.text.chars().count()) == width;
    let rest = lines.windows(2).take_while(|pair| is_full(&pair[0]) && is_rest(&pair[1])).count();
    if (1..MAX_LINES).contains(&rest) {
        let joined: String = lines[..=rest].iter().map(|line| &*line.text).collect();
        if matches!(ListingReader::default().line(1, &joined), ListingLine::Rule | ListingLine::Columns) {
            return (Some(joined), rest + 1);
        }
    }
    let text = lines[0].text.trim_end();
    let is_open = text.rfind("/*").is_some_and(|open| !text[open..].contains("*/"));
    let Some(next) = lines.get(1).map(|next| next.text.trim()) else { return (None, 1) };
    let continues =
        ["to:", "tcp dpt:", "udp dpt:", "dpt:", "mode random", "probability ", "reject-with ", "statistic ", "recent:"];
    let is_known_rest = continues.iter().any(|start| next.starts_with(start));
    let is_other = next.is_empty() || knows_block(next) || command(next).is_some();
    match (is_open || is_known_rest) && !is_other {
        true => (Some(format!("{text} {next}")), 2),
        false => (None, 1),
    }
}

/// Why a row is not read.
const UNPLACED: &str = "the heading of its chain is not shown, and the row does not say which one it is";

/// Why a row with unknown words is not read.
fn not_known(words: &str) -> String {
    match (words.strip_prefix("source "), words.strip_prefix("destination ")) {
        (Some(name), _) => format!("{NAME_OF_HOST} `{name}`"),
        (_, Some(name)) => format!("only its machine can resolve the destination `{name}`"),
        _ => format!("`{words}` is not known in a row of a listing"),
    }
}

fn empty() -> Listing {
    Listing {
        rules: svclab_rules::iptables::RuleSet::new(svclab_rules::cluster::Family::Ipv4),
        lines: svclab_rules::iptables::SourceLines::default(),
        rounded_digits: None,
        cut: None,
        coverage: Coverage::default(),
        unplaced: Vec::new(),
        unknown: Vec::new(),
    }
}
