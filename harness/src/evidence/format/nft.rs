//! `nft list ruleset`, `nft list table`, and chains or maps without their table.

use svclab_rules::coverage::{Coverage, nft_table};
use svclab_rules::nftables::{self, Parsed};

use super::super::blocks;
use super::super::command::Command;
use super::super::filter::Filter;
use super::super::line::Line;
use super::super::mending::{Mend, Mends};
use super::super::model::{Contents, Format};
use super::{Block, Context, command};

/// How often a block is read again without the line that could not be read.
const MOST_TRIALS: usize = 12;

pub(super) fn knows(line: &str) -> bool {
    is_table(line) || is_part(line)
}

/// `table ip kube-proxy {`
fn is_table(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("table ") else { return false };
    let words: Vec<&str> = rest.split_whitespace().take(4).collect();
    matches!(
        words.as_slice(),
        ["ip" | "ip6" | "inet" | "arp" | "bridge" | "netdev", _, "{", ..]
            | ["ip" | "ip6" | "inet" | "arp" | "bridge" | "netdev", _]
    ) && (rest.contains('{') || words.len() == 2)
}

/// `chain cluster-ips-check {`
fn is_part(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().take(4).collect();
    matches!(words.as_slice(), ["chain" | "map" | "set", _, "{"] | ["chain" | "map" | "set", _, "{", "#", ..])
}

pub(super) fn read(lines: &[Line<'_>], context: &Context) -> Option<Block> {
    let first = lines.first()?.text.trim();
    if !knows(first) {
        return None;
    }
    let is_headless = !is_table(first);
    let (mut taken, mut is_cut) = (0, false);
    let mut names: Vec<&str> = Vec::new();
    // Tables that follow each other are one block, as long as their names differ.
    loop {
        let next = taken + lines[taken..].iter().position(|line| !line.is_blank()).unwrap_or(0);
        let Some(line) = lines.get(next) else { break };
        let text = line.text.trim();
        let fits = if is_headless { is_part(text) } else { is_table(text) };
        if !fits || names.contains(&text) {
            break;
        }
        names.push(text);
        match end_of(&lines[next..]) {
            Some(length) => taken = next + length,
            None => {
                taken = next + cut_end(&lines[next..]);
                is_cut = true;
                break;
            }
        }
    }
    let taken = taken.max(1);
    let block = &lines[..taken];
    let mut texts: Vec<&str> = block.iter().map(|line| line.text.as_ref()).collect();
    let mut mends = Vec::new();
    if is_headless {
        mends.push((block[0].number, Mends::default().with(Mend::Heading)));
    }
    if is_cut {
        mends.push((block[taken - 1].number, Mends::default().with(Mend::Cut)));
    }
    let (rules, unread) = parsed(block, &mut texts, is_headless, is_cut);
    let count = count(&rules);
    let unread_lines: Vec<usize> = unread.iter().map(|(at, _)| *at).collect();
    let mut coverage = blocks::coverage(block, is_headless, &unread_lines);
    let chains = rules.rules.tables.iter().flat_map(|table| {
        let names = table.chains.iter().map(|chain| &*chain.name).chain(table.sets.iter().map(|set| &*set.name));
        names.map(|name| (nft_table(table.family), name))
    });
    filter(context).apply(chains, None, false, &mut coverage);
    let contents = Contents::Nftables { rules, count, coverage };
    Some(Block { format: Format::Nft, taken, contents, unread, mends })
}

/// What programs behind the command leave. The lines of a chain do not name it, so words choose among them as anything else does.
fn filter(context: &Context) -> Filter {
    match context.command.as_ref().map(Command::filter).unwrap_or_default() {
        Filter::Lines(_) => Filter::Unknown,
        filter => filter,
    }
}

/// How many lines there are to the brace that closes the first one.
fn end_of(lines: &[Line<'_>]) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, line) in lines.iter().enumerate() {
        if at > 0 && (line.is_fence() || is_table(line.text.trim())) {
            return None;
        }
        for (_, letter) in blocks::punctuation(&line.text) {
            match letter {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => continue,
            }
            if depth == 0 {
                return Some(at + 1);
            }
        }
    }
    None
}

/// How many lines of a block without its end belong to it: up to a blank line behind which nothing is indented, or a command.
fn cut_end(lines: &[Line<'_>]) -> usize {
    let is_over = |line: &Line<'_>| {
        line.is_fence()
            || command(line.text.trim()).is_some()
            || (!line.text.starts_with([' ', '\t', '}']) && !line.is_blank())
    };
    let end = lines.iter().skip(1).position(is_over).map_or(lines.len(), |at| at + 1);
    let blank = lines[..end].iter().rev().take_while(|line| line.is_blank()).count();
    (end - blank).max(1)
}

/// The tables, and the lines that could not be read.
fn parsed(block: &[Line<'_>], texts: &mut [&str], is_headless: bool, is_cut: bool) -> (Parsed, Vec<(usize, String)>) {
    let mut unread = Vec::new();
    let before = block[0].number - 1;
    for _ in 0..MOST_TRIALS {
        // Empty lines before the block keep the numbers of lines.
        let mut text = "\n".repeat(before.saturating_sub(usize::from(is_headless)));
        if is_headless {
            text += if before > 0 { "table ip kube-proxy {\n" } else { "table ip kube-proxy { " };
        }
        let mut number = before;
        for (line, own) in block.iter().zip(texts.iter()) {
            while number + 1 < line.number {
                text.push('\n');
                number += 1;
            }
            text += own;
            text.push('\n');
            number = number.max(line.number);
        }
        if is_headless || is_cut {
            let letters = || text.lines().flat_map(blocks::punctuation).map(|(_, letter)| letter);
            let [opened, closed] = ['{', '}'].map(|brace| letters().filter(|letter| *letter == brace).count());
            text += &"}\n".repeat(opened.saturating_sub(closed));
        }
        let error = match nftables::parse(&text) {
            Ok(parsed) => return (parsed, unread),
            Err(mut errors) => errors.remove(0),
        };
        let ((line, _), message) = error.in_text();
        let Some(at) = block.iter().rposition(|own| own.number <= line).filter(|at| !texts[*at].trim().is_empty())
        else {
            unread.push((0, message));
            break;
        };
        unread.push((at, message));
        // The structure has to stay.
        texts[at] = match (texts[at].trim_end().ends_with('{'), texts[at].trim() == "}") {
            (true, _) | (_, true) => break,
            _ => "",
        };
    }
    (Parsed::default(), unread)
}

fn count(rules: &Parsed) -> usize {
    let own: usize = rules.rules.tables.iter().flat_map(|table| &table.chains).map(|chain| chain.rules.len()).sum();
    own + rules.others.iter().map(|other| other.rules).sum::<usize>()
}

/// All tables, as whole ones.
fn of_tables(rules: &Parsed) -> Coverage {
    let mut coverage = Coverage::default();
    rules.rules.tables.iter().for_each(|table| coverage.add_table(nft_table(table.family)));
    coverage
}

/// What `nft -j list ruleset` prints.
pub(super) fn of_json(text: &str) -> Result<(Contents, usize), String> {
    let rules = nftables::parse(text).map_err(|errors| errors.first().map(ToString::to_string).unwrap_or_default())?;
    let count = count(&rules);
    let coverage = of_tables(&rules);
    Ok((Contents::Nftables { rules, count, coverage }, count))
}

/// A whole file of nft's own text, which is read at once.
pub(in super::super) fn whole(text: &str) -> Option<Contents> {
    let start = text.trim_start();
    if !(start.starts_with("table ") || start.starts_with("flush ") || start.starts_with("add ")) {
        return None;
    }
    let rules = nftables::parse(text).ok()?;
    let count = count(&rules);
    let coverage = of_tables(&rules);
    Some(Contents::Nftables { rules, count, coverage })
}
