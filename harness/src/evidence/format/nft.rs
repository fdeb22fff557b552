//! `nft list ruleset`, `nft list table`, and chains or maps without their table.

mod cut;
mod hidden;
pub(super) mod iptables_nft;
mod stray;

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use svclab_rules::cluster::Family;
use svclab_rules::coverage::{Coverage, nft_table};
use svclab_rules::iptables::TableName;
use svclab_rules::nftables::{self, OtherTable, Parsed, Table};

use super::super::blocks::{self, Depth};
use super::super::command::Command;
use super::super::filter::Filter;
use super::super::line::Line;
use super::super::model::{Contents, Format};
use super::super::repairs::{Repair, RepairSet};
use super::{Block, Context, command};

/// How often a block is read again without the line that could not be read; then without all chains and sets that cannot be read.
const MAX_TRIALS: usize = 12;

pub(super) fn knows(line: &str) -> bool {
    is_start(line) || stray::is_bare(line) || iptables_nft::is_bare(line)
}

/// Whether a line is the heading of a table, chain, set or map.
pub(super) fn is_start(line: &str) -> bool {
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

/// How many lines `nft list tables` printed: names of tables, which no brace follows.
fn listed_tables(lines: &[Line<'_>]) -> Option<usize> {
    let taken = super::run(lines, |line| is_table(line.trim()) && !line.contains('{'));
    let next = lines.get(taken).map_or("", |line| line.text.trim());
    (taken > 0 && !next.starts_with('{')).then_some(taken)
}

/// `chain cluster-ips-check {`
fn is_part(line: &str) -> bool {
    if !["chain ", "map ", "set "].iter().any(|start| line.starts_with(start)) {
        return false;
    }
    let words: Vec<&str> = line.split_whitespace().take(4).collect();
    matches!(words.as_slice(), ["chain" | "map" | "set", _, "{"] | ["chain" | "map" | "set", _, "{", "#", ..])
}

pub(super) fn read(lines: &[Line<'_>], context: &Context) -> Option<Block> {
    let first = lines.first()?.text.trim();
    if !is_table(first) && !is_part(first) {
        return stray::bare(lines);
    }
    if let Some(taken) = listed_tables(lines) {
        let contents =
            Contents::Nftables { rules: Parsed::default(), count: 0, coverage: Coverage::default(), cut: None };
        return Some(Block::new(Format::Nft, taken, contents));
    }
    let is_headless = !is_table(first);
    let (mut taken, mut is_cut) = (0, false);
    let (mut names, mut headless_at) = (HashSet::new(), Vec::new());
    // Tables that follow each other are one block, as long as their names differ.
    loop {
        let next = taken + lines[taken..].iter().position(|line| !line.is_blank()).unwrap_or(0);
        let Some(line) = lines.get(next) else { break };
        let text = line.text.trim();
        let fits = if is_headless { is_part(text) } else { is_table(text) };
        let is_of_iptables = taken > 0 && iptables_nft::is_start(&lines[next..]);
        if !fits || is_of_iptables || !names.insert(text) {
            break;
        }
        let rest = &lines[next..];
        let headless = if is_headless { Vec::new() } else { stray::headless(rest) };
        let end = end_of(rest, is_headless, &headless);
        taken = next + end.unwrap_or_else(|| cut_end(rest, &headless));
        headless_at.extend(headless.into_iter().map(|at| next + at).filter(|at| *at < taken));
        if end.is_none() {
            is_cut = true;
            break;
        }
    }
    let taken = taken.max(1);
    let block = &*stray::without(&lines[..taken], &headless_at);
    let mut mends = Vec::new();
    if is_headless {
        mends.push((block[0].number, RepairSet::default().with(Repair::Heading)));
    }
    if is_cut {
        mends.push((block[taken - 1].number, RepairSet::default().with(Repair::Cut)));
    }
    let filter = filter(context);
    let last = (is_cut && filter != Filter::End).then(|| cut::cut_lines(block)).flatten();
    let cut = last.as_ref().map(|lines| block[lines.start].number);
    let headless = is_headless.then(|| family_of(block));
    let (rules, mut unread) = parsed(&without_dots(block), headless, last);
    let lacks_heading = !headless_at.is_empty();
    unread.extend(headless_at.into_iter().map(|at| (at, stray::HEADLESS.to_owned())));
    unread.sort_by_key(|(at, _)| *at);
    let rules = if is_headless { without_iptables(rules) } else { rules };
    let count = count(&rules);
    let unread_lines: Vec<usize> = unread.iter().map(|(at, _)| *at).collect();
    let mut coverage = blocks::coverage(block, headless, &unread_lines);
    limit(&rules, &mut coverage);
    let chains = rules.rules.tables.iter().flat_map(|table| {
        let names = table.chains.iter().map(|chain| &*chain.name).chain(table.sets.iter().map(|set| &*set.name));
        names.map(|name| (nft_table(table.family), name))
    });
    // A heading that is missing within a table was left out by what may have left out any other line.
    let filter = match filter {
        Filter::None | Filter::End if lacks_heading => Filter::Unknown("headings of chains are left out".to_owned()),
        known => known,
    };
    filter.apply(chains, None, false, &mut coverage);
    hidden::limit(block.iter().map(|line| &*line.text), &rules.rules.tables, &mut coverage);
    let contents = Contents::Nftables { rules, count, coverage, cut };
    Some(Block { format: Format::Nft, taken, contents, unread, mends })
}

/// Lines without the dots that stand for elements.
fn without_dots<'b, 't>(block: &'b [Line<'t>]) -> Cow<'b, [Line<'t>]> {
    let mut kept = Cow::Borrowed(block);
    for (at, line) in block.iter().enumerate() {
        if let Some(dots) = blocks::omitted_elements(&line.text) {
            let text = format!("{}{}", &line.text[..dots.start], &line.text[dots.end..]);
            kept.to_mut()[at].text = text.into();
        }
    }
    kept
}

/// What programs after the command leave. The lines of a chain do not name it, so words choose among them as anything else does.
fn filter(context: &Context) -> Filter {
    match context.command.as_ref().map(Command::filter).unwrap_or_default() {
        Filter::Lines(_) => Filter::Unknown("the rules of a chain do not name it".to_owned()),
        filter => filter,
    }
}

/// How many lines there are to the brace that closes the first one. A prompt follows the end, which is not shown then.
fn end_of(lines: &[Line<'_>], is_headless: bool, headless: &[usize]) -> Option<usize> {
    let mut depth = Depth::default();
    for (at, line) in lines.iter().enumerate().filter(|(at, _)| headless.binary_search(at).is_err()) {
        let text = line.text.trim();
        // What `grep -A` shows next may be of another chain.
        let is_over = line.is_fence() || line.is_group_separator() || is_table(text) || command(text).is_some();
        if at > 0 && is_over {
            return None;
        }
        // A chain or set is in no other one: that one has lost its end.
        if at > 0 && is_part(text) {
            if is_headless {
                return Some(at);
            }
            depth.leave_part();
        }
        if depth.follow(&line.text) {
            return Some(at + 1);
        }
    }
    None
}

/// How many lines of a block without its end belong to it: up to a blank line after which nothing is indented, or a command.
fn cut_end(lines: &[Line<'_>], headless: &[usize]) -> usize {
    let is_over = |(at, line): &(usize, &Line<'_>)| {
        let is_of_table =
            line.text.starts_with([' ', '\t', '}']) || line.is_blank() || headless.binary_search(at).is_ok();
        line.is_fence() || command(line.text.trim()).is_some() || !is_of_table
    };
    let end = lines.iter().enumerate().skip(1).find(is_over).map_or(lines.len(), |(at, _)| at);
    let blank = lines[..end].iter().rev().take_while(|line| line.is_blank()).count();
    (end - blank).max(1)
}

/// The tables, and the lines that could not be read.
fn parsed(block: &[Line<'_>], headless: Option<Family>, cut: Option<Range<usize>>) -> (Parsed, Vec<(usize, String)>) {
    let mut texts: Vec<&str> = block.iter().map(|line| line.text.as_ref()).collect();
    let rows = rows(block);
    let mut unread: Vec<(usize, String)> = Vec::new();
    let cut = cut.into_iter().flatten().map(|at| (at, cut::REASON));
    for (at, reason) in stray::astray(block).into_iter().chain(cut) {
        texts[at] = "";
        unread.push((at, reason.to_owned()));
    }
    for trial in 0..=MAX_TRIALS + 1 {
        let errors = match nftables::parse(&text_of(block, &texts, headless)) {
            Ok(parsed) => return (parsed.shifted(block[0].number - 1), unread),
            Err(errors) => errors,
        };
        let mut failed = Vec::new();
        for error in errors {
            let ((line, _), message) = error.in_text();
            failed.push((rows.partition_point(|row| *row < line).saturating_sub(1), message));
        }
        let is_line = |at: usize| !texts[at].trim().is_empty() && is_balanced(texts[at]);
        let is_last = trial >= MAX_TRIALS;
        // Lines that can be left out by themselves, else what is around the first one.
        let alone = failed.iter().filter(|(at, _)| !is_last && is_line(*at));
        let mut lost: Vec<(Range<usize>, usize, String)> =
            alone.map(|(at, message)| (*at..at + 1, *at, message.clone())).collect();
        if let Some((at, message)) = failed.into_iter().next().filter(|_| lost.is_empty()) {
            let parts = if is_last { broken_parts(block, &texts, headless) } else { vec![part_around(block, at)] };
            lost = parts.into_iter().map(|lines| (lines, at, message.clone())).collect();
            // What was left out did not help: the table itself cannot be read.
            if lost.iter().all(|(lines, ..)| texts[lines.clone()].iter().all(|text| text.trim().is_empty())) {
                unread.push((at, message));
                break;
            }
        }
        for (lines, at, message) in lost {
            let name = block[lines.start].text.trim().trim_end_matches('{').trim_end();
            let of_part = format!("`{name}` cannot be read: {message}");
            let known = lines.clone().filter(|own| !texts[*own].trim().is_empty());
            unread.extend(known.map(|own| (own, if own == at { message.clone() } else { of_part.clone() })));
            texts[lines].fill("");
        }
    }
    (Parsed::default(), unread)
}

/// The family of chains, sets and maps whose table is not shown: IPv6 if they only name its addresses.
fn family_of(block: &[Line<'_>]) -> Family {
    let names = |words: &[&str]| block.iter().any(|line| words.iter().any(|word| line.text.contains(word)));
    let is_ipv6 = names(&["ipv6_addr", "ip6 saddr", "ip6 daddr", "dnat to [", "dnat ip6 to"]);
    if is_ipv6 && !names(&["ipv4_addr", "ip saddr", "ip daddr", "dnat ip to"]) { Family::Ipv6 } else { Family::Ipv4 }
}

/// The chains, sets and maps that cannot be read by themselves.
fn broken_parts(block: &[Line<'_>], texts: &[&str], headless: Option<Family>) -> Vec<Range<usize>> {
    let family = headless.unwrap_or(Family::Ipv4);
    let mut broken = Vec::new();
    let mut at = 0;
    while at < block.len() {
        if !is_part(texts[at].trim()) {
            at += 1;
            continue;
        }
        let part = part_around(block, at);
        at = part.end;
        if nftables::parse(&text_of(&block[part.clone()], &texts[part.clone()], Some(family))).is_err() {
            broken.push(part);
        }
    }
    broken
}

/// The text of a block: with its lines one below the other as they stand, in a table, and with the braces that are missing.
fn text_of(block: &[Line<'_>], texts: &[&str], headless: Option<Family>) -> String {
    let heading = match headless {
        Some(Family::Ipv4) => "table ip kube-proxy { ",
        Some(Family::Ipv6) => "table ip6 kube-proxy { ",
        None => "",
    };
    let mut text = heading.to_owned();
    let mut number = block[0].number - 1;
    let mut depth = if headless.is_some() { Depth::IN_TABLE } else { Depth::default() };
    for (line, own) in block.iter().zip(texts) {
        while number + 1 < line.number {
            text.push('\n');
            number += 1;
        }
        if is_part(own.trim()) {
            text += &"} ".repeat(depth.leave_part());
        }
        depth.follow(own);
        text += own;
        text.push('\n');
        number = number.max(line.number);
    }
    text + &"}\n".repeat(depth.open())
}

/// How many lines there are before each line of a block in its text, where lines of one number are one below the other.
fn rows(block: &[Line<'_>]) -> Vec<usize> {
    let (mut number, mut row) = (block[0].number - 1, 0);
    let place = |line: &Line<'_>| {
        let own = row + line.number.saturating_sub(number + 1);
        (number, row) = (number.max(line.number), own + 1);
        own
    };
    block.iter().map(place).collect()
}

/// Whether a line opens as many braces as it closes, so that the others keep their nesting without it.
fn is_balanced(line: &str) -> bool {
    let count = |brace: char| blocks::punctuation(line).filter(|(_, letter)| *letter == brace).count();
    count('{') == count('}')
}

/// The lines of the chain, set or map around a line; the line alone where there is none.
fn part_around(block: &[Line<'_>], at: usize) -> Range<usize> {
    let Some(start) = (0..=at).rev().find(|at| is_part(block[*at].text.trim())) else { return at..at + 1 };
    let mut depth = Depth::default();
    for (offset, line) in block[start..].iter().enumerate() {
        if offset > 0 && (is_part(line.text.trim()) || is_table(line.text.trim())) {
            return start..start + offset;
        }
        if depth.follow(&line.text) {
            return start..start + offset + 1;
        }
    }
    start..block.len()
}

/// Chains without their table's heading are iptables' own where they are called as kube-proxy's are there.
fn without_iptables(rules: Parsed) -> Parsed {
    let mut chains = rules.rules.tables.iter().flat_map(|table| &table.chains);
    if !chains.any(|chain| chain.name.starts_with("KUBE-")) {
        return rules;
    }
    let other = OtherTable { family: "ip".to_owned(), name: "nat".to_owned(), rules: count(&rules) };
    Parsed { others: vec![other], ..Parsed::default() }
}

fn count(rules: &Parsed) -> usize {
    let own: usize = rules.rules.tables.iter().flat_map(|table| &table.chains).map(|chain| chain.rules.len()).sum();
    own + rules.others.iter().map(|other| other.rules).sum::<usize>()
}

/// All tables, as whole ones.
fn whole_tables(rules: &Parsed) -> Coverage {
    let mut coverage = Coverage::default();
    for table in &rules.rules.tables {
        let name = nft_table(table.family);
        coverage.add_table(name);
        table.chains.iter().for_each(|chain| coverage.add_chain(name, &chain.name));
        table.sets.iter().for_each(|set| coverage.add_chain(name, &set.name));
    }
    limit(rules, &mut coverage);
    coverage
}

/// Takes back that tables are whole which no kernel has, or which no packet reaches: `nft list chain` and `nft list map` print one part in its
/// table, `nft list sets` the sets alone, and `nft list chains` headings alone.
fn limit(rules: &Parsed, coverage: &mut Coverage) {
    let tables = &rules.rules.tables;
    let is_bare = |table: &Table| table.sets.is_empty() && table.chains.iter().all(|chain| chain.rules.is_empty());
    if tables.iter().all(is_bare) {
        coverage.clear();
    }
    let is_part = |table: &&Table| table.lacks_some() || table.chains.iter().all(|chain| chain.base.is_none());
    tables.iter().filter(is_part).for_each(|table| coverage.remove_table(nft_table(table.family)));
}

/// What `nft -j list ruleset` prints.
pub(super) fn read_json(text: &str) -> Result<Contents, String> {
    let rules = nftables::parse(text).map_err(|errors| errors.first().map(ToString::to_string).unwrap_or_default())?;
    let count = count(&rules);
    let coverage = whole_tables(&rules);
    Ok(Contents::Nftables { rules, count, coverage, cut: None })
}

/// A part of what it prints, of which nothing is known to be whole.
pub(super) fn read_part(text: &str) -> Result<Contents, String> {
    let contents = read_json(text)?;
    let Contents::Nftables { rules, count, .. } = contents else { return Ok(contents) };
    let mut coverage = Coverage::default();
    for table in &rules.rules.tables {
        let name = nft_table(table.family);
        table.chains.iter().for_each(|chain| coverage.add_truncated(name, &chain.name));
        table.sets.iter().for_each(|set| coverage.add_truncated(name, &set.name));
    }
    Ok(Contents::Nftables { rules, count, coverage, cut: None })
}

/// Whether a line within a table is not indented, as nft indents all: it may be the rest of the one before it. Names that a terminal cut within a list
/// can be parsed, too.
fn may_be_wrapped(text: &str) -> bool {
    let is_usual = |line: &str| line.is_empty() || line.starts_with([' ', '\t', '}', '#']) || is_start(line);
    text.lines().any(|line| !is_usual(line) && !line.starts_with("flush ") && !line.starts_with("add "))
}

/// A whole file of nft's own text, which is read at once.
pub(in super::super) fn whole(text: &str) -> Option<Contents> {
    let start = text.trim_start();
    if !(start.starts_with("table ") || start.starts_with("flush ") || start.starts_with("add ")) {
        return None;
    }
    if may_be_wrapped(text) {
        return None;
    }
    let rules = nftables::parse(text).ok()?;
    // Tables of iptables are read by themselves.
    let is_of_iptables = |table: &OtherTable| {
        table.family.starts_with("ip") && TableName::ALL.iter().any(|name| name.as_str() == table.name)
    };
    if rules.others.iter().any(is_of_iptables) || hidden::is_in(text, &rules.rules.tables) {
        return None;
    }
    let count = count(&rules);
    let coverage = whole_tables(&rules);
    Some(Contents::Nftables { rules, count, coverage, cut: None })
}
