//! Tables of iptables-nft as `nft list ruleset` prints them, read as what `iptables-save` prints of the same rules.
//!
//! nft prints some of iptables' matches and targets in its own words, leaves out comments, and names others without what they ask. A rule
//! with one of these is listed as unread, and kept as a rule that may do anything.

mod statement;

use std::borrow::Cow;
use std::collections::HashSet;

use svclab_rules::cluster::Family;
use svclab_rules::coverage::Coverage;
use svclab_rules::iptables::{ChainKind, ELLIPSIS, End, Excerpt, Parsed, TableName, parse_excerpt};

use super::super::super::filter::Filter;
use super::super::super::line::Line;
use super::super::super::model::{Contents, Format};
use super::super::super::repairs::{Repair, RepairSet};
use super::super::{Block, Context, command};

/// The base chains of iptables.
const HOOKS: [&str; 5] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];

/// The most lines of a table that are looked at for a chain.
const MAX_HEAD: usize = 40;

/// Why a line below no heading is not read.
const HEADLESS: &str = "the heading of its chain is not shown";

/// Why a line is not read that may be of another chain.
const ASTRAY: &str = "the end of the chain before it is not shown, so it may be of another one";

/// Why no line of a table is known to be shown, where `grep` left out any.
const NOT_SHOWN: &str = "the rules of a chain do not name it";

pub(in super::super) fn read(lines: &[Line<'_>], context: &Context) -> Option<Block> {
    if !is_start(lines) {
        return bare(lines, context);
    }
    let first = Heading::of(&lines[0].text)?;
    let is_of_ipv6 = || lines.iter().take(MAX_HEAD).any(|line| line.text.trim_start().starts_with("ip6 "));
    let family = match first {
        Heading::Table(family, _) => family,
        Heading::Chain(_) if is_of_ipv6() => Family::Ipv6,
        Heading::Chain(_) => Family::Ipv4,
    };
    let (reader, length) = Reader::of(family, false).follow(lines);
    let own = &lines[..length];
    let reader = if is_picked(own) { Reader::of(family, true).follow(own).0 } else { reader };
    Some(reader.block(own, context))
}

/// Reads rules outside of any chain that kube-proxy has only in KUBE-SERVICES, as after `grep`.
fn bare(lines: &[Line<'_>], context: &Context) -> Option<Block> {
    let taken = super::super::run(lines, is_bare);
    let own = lines.get(..taken).filter(|own| !own.is_empty())?;
    let family = if own[0].text.trim_start().starts_with("ip6 ") { Family::Ipv6 } else { Family::Ipv4 };
    let mut reader = Reader::of(family, false);
    reader.is_headless = true;
    reader.chain = Some(SERVICES.to_owned());
    for (at, line) in own.iter().enumerate().filter(|(_, line)| !line.is_blank()) {
        reader.rule(at, line);
    }
    reader.chain = None;
    Some(reader.block(own, context))
}

/// The chain of the rules for addresses of Services.
const SERVICES: &str = "KUBE-SERVICES";

/// Whether a line is a rule for an address of a Service: only KUBE-SERVICES leads to the Service's chain for one.
pub(super) fn is_bare(line: &str) -> bool {
    let line = line.trim();
    let family = match line.split_once(" daddr ") {
        Some(("ip", rest)) if !rest.starts_with('!') => Family::Ipv4,
        Some(("ip6", rest)) if !rest.starts_with('!') => Family::Ipv6,
        _ => return false,
    };
    let leads_to_service = line.split_once(" jump ").is_some_and(|(conditions, next)| {
        let kind = ChainKind::of(next).map(|(kind, _)| kind);
        conditions.contains(" dport ")
            && !conditions.contains(" saddr ")
            && kind.is_some_and(|kind| kind != ChainKind::Endpoint)
    });
    leads_to_service && statement::saved(line, SERVICES, family).is_ok()
}

/// Whether lines were picked out of tables: none closes a chain.
fn is_picked(lines: &[Line<'_>]) -> bool {
    let is_chain = |line: &&Line<'_>| matches!(Heading::of(&line.text), Some(Heading::Chain(_)));
    !lines.iter().any(|line| line.text.trim() == "}") && lines.iter().filter(is_chain).nth(1).is_some()
}

/// Whether a table of iptables, or a chain of one, starts with the first line.
pub(super) fn is_start(lines: &[Line<'_>]) -> bool {
    let Some((first, rest)) = lines.split_first() else { return false };
    match Heading::of(&first.text) {
        Some(Heading::Table(..)) => has_own_chain(rest),
        Some(Heading::Chain(name)) => is_own_chain(name),
        None => false,
    }
}

/// Whether a line is a rule of iptables of which nft prints everything.
pub(in super::super::super) fn is_rule(text: &str) -> bool {
    Family::ALL.into_iter().any(|family| statement::saved(text, "KUBE-SERVICES", family).is_ok())
}

/// What a line with a brace opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heading<'t> {
    /// A table that iptables has.
    Table(Family, TableName),
    /// A chain.
    Chain(&'t str),
}

impl<'t> Heading<'t> {
    fn of(line: &'t str) -> Option<Self> {
        let mut words = line.split('#').next()?.split_whitespace();
        let heading = match (words.next()?, words.next()?) {
            ("table", family) => {
                let family = match family {
                    "ip" => Family::Ipv4,
                    "ip6" => Family::Ipv6,
                    _ => return None,
                };
                let name = words.next()?;
                Self::Table(family, TableName::ALL.into_iter().find(|table| table.as_str() == name)?)
            }
            ("chain", name) => Self::Chain(name),
            _ => return None,
        };
        (words.next() == Some("{") && words.next().is_none()).then_some(heading)
    }
}

/// Whether a table has a chain as iptables has: a base chain in capitals, or one of kube-proxy's.
fn has_own_chain(lines: &[Line<'_>]) -> bool {
    let first = lines.iter().take(MAX_HEAD).find_map(|line| Heading::of(&line.text));
    matches!(first, Some(Heading::Chain(name)) if is_own_chain(name))
}

fn is_own_chain(name: &str) -> bool {
    HOOKS.contains(&name) || name.starts_with("KUBE-")
}

/// A line of `iptables-save` with the number of the line of nft that it stands for.
type Saved = (usize, Cow<'static, str>);

/// What was read so far.
struct Reader {
    family: Family,
    /// The lines of all tables that are over.
    saved: Vec<Saved>,
    /// The declarations of chains, and the rules, of the table that is open.
    headings: Vec<Saved>,
    rules: Vec<Saved>,
    table: Option<TableName>,
    /// The tables so far.
    known: HashSet<TableName>,
    /// The chain that is open.
    chain: Option<String>,
    /// Whether the table that is open has a base chain.
    has_hook: bool,
    /// Whether the chains have no table.
    is_headless: bool,
    /// Whether lines were picked, so that a rule may be of another chain than the one before it.
    is_picked: bool,
    /// Whether a part of the table that is open is not shown.
    is_broken: bool,
    unread: Vec<(usize, String)>,
    /// The lines of rules of which a part is assumed.
    assumed: Vec<usize>,
    is_cut: bool,
}

impl Reader {
    fn of(family: Family, is_picked: bool) -> Self {
        Self {
            family,
            saved: Vec::new(),
            headings: Vec::new(),
            rules: Vec::new(),
            table: None,
            known: HashSet::new(),
            chain: None,
            has_hook: false,
            is_headless: false,
            is_picked,
            is_broken: false,
            unread: Vec::new(),
            assumed: Vec::new(),
            is_cut: false,
        }
    }

    /// Reads up to the end of the block. Returns how many lines it has.
    fn follow(mut self, lines: &[Line<'_>]) -> (Self, usize) {
        let mut length = 0;
        while let Some(line) = lines.get(length) {
            if line.is_fence() || (length > 0 && command(line.text.trim()).is_some()) || self.is_over(&lines[length..])
            {
                break;
            }
            self.line(length, line);
            length += 1;
        }
        // A heading in Markdown is not of the chains above it.
        let is_after = |line: &&Line<'_>| line.is_blank() || self.is_headless && line.text.starts_with('#');
        length -= lines[..length].iter().rev().take_while(is_after).count();
        (self, length)
    }

    /// Whether the next line is of another block.
    fn is_over(&self, lines: &[Line<'_>]) -> bool {
        let Some(line) = lines.first() else { return true };
        let text = line.text.trim();
        let is_between = self.table.is_none() && self.chain.is_none() && (self.is_headless || !self.known.is_empty());
        match Heading::of(&line.text) {
            Some(Heading::Table(family, name)) => {
                self.is_headless
                    || !self.known.is_empty() && (family != self.family || self.known.contains(&name))
                    || !has_own_chain(&lines[1..])
            }
            // nft prints each chain once.
            Some(Heading::Chain(name)) => {
                is_between && !(self.is_headless && is_own_chain(name) && !self.has_chain(name))
            }
            None => super::is_table(text) || is_between && !(text.is_empty() || text.starts_with('#') || text == "}"),
        }
    }

    /// Whether a chain of the table that is open was read.
    fn has_chain(&self, name: &str) -> bool {
        self.headings.iter().any(|(_, heading)| heading[1..].split(' ').next() == Some(name))
    }

    fn line(&mut self, at: usize, line: &Line<'_>) {
        let text = line.text.trim();
        match Heading::of(text) {
            Some(Heading::Table(_, name)) => {
                self.end_table(line.number, false);
                self.known.insert(name);
                self.table = Some(name);
                self.saved.push((line.number, format!("*{name}").into()));
            }
            Some(Heading::Chain(name)) => {
                self.is_headless |= self.known.is_empty();
                self.leave_chain(line.number);
                self.headings.push((line.number, format!(":{name} - [0:0]").into()));
                self.chain = Some(name.to_owned());
            }
            None if text.is_empty() || text.starts_with('#') => {}
            None if line.is_ellipsis() => self.gap(line.number),
            None if text == "}" => match self.chain.take() {
                Some(_) => {}
                None => self.end_table(line.number, true),
            },
            None => self.rule(at, line),
        }
    }

    /// Lines are left out here.
    fn gap(&mut self, number: usize) {
        self.is_broken = true;
        self.rules.push((number, ELLIPSIS.into()));
    }

    /// The chain that is open is over: by its brace, or by the next heading, before which its end is missing.
    fn leave_chain(&mut self, number: usize) {
        if self.chain.take().is_some() {
            self.gap(number);
        }
    }

    fn end_table(&mut self, number: usize, is_closed: bool) {
        self.leave_chain(number);
        let is_whole = is_closed && self.has_hook && !self.is_broken;
        if self.table.is_some() && !is_closed {
            self.is_cut = true;
        }
        self.saved.append(&mut self.headings);
        self.saved.append(&mut self.rules);
        if self.table.take().is_some() && is_closed {
            if !is_whole {
                self.saved.push((number, ELLIPSIS.into()));
            }
            self.saved.push((number, "COMMIT".into()));
        }
        (self.has_hook, self.is_broken) = (false, false);
    }

    fn rule(&mut self, at: usize, line: &Line<'_>) {
        let text = line.text.trim_start();
        let is_astray = self.is_picked && !text.starts_with("type ");
        let Some(chain) = self.chain.as_ref().filter(|_| !is_astray) else {
            self.unread.push((at, if is_astray { ASTRAY } else { HEADLESS }.to_owned()));
            return self.gap(line.number);
        };
        if text.starts_with("type ") && text.contains(" hook ") {
            self.has_hook = true;
            if text.contains("policy drop")
                && let Some((_, heading)) = self.headings.last_mut()
            {
                *heading = format!(":{chain} DROP [0:0]").into();
            }
            return;
        }
        let saved = match statement::saved(text, chain, self.family) {
            Ok(statement::Saved { text, is_assumed }) => {
                self.assumed.extend(is_assumed.then_some(line.number));
                text
            }
            Err(statement::Hidden { why, next }) => {
                self.unread.push((at, why));
                let next = next.map(|next| format!(" -j {next}")).unwrap_or_default();
                // What no option of iptables is: it stands for a rule that is not known.
                format!("-A {chain} ?{next}")
            }
        };
        self.rules.push((line.number, saved.into()));
    }

    fn block(mut self, lines: &[Line<'_>], context: &Context) -> Block {
        let last = lines[lines.len() - 1].number;
        let is_open = self.table.is_some() || self.chain.is_some();
        if self.is_headless {
            self.chain.take().inspect(|_| self.rules.push((last, ELLIPSIS.into())));
        }
        self.end_table(last, false);
        let rows = self.saved.iter().map(|(number, text)| (*number, text.as_ref()));
        let Excerpt { parsed, rules: count, mut coverage, unread, .. } =
            parse_excerpt(rows, self.family, None, End::Unknown);
        for error in unread {
            let at = lines.partition_point(|line| line.number < error.line).min(lines.len() - 1);
            self.unread.push((at, error.message));
        }
        // Of several reasons for a line the first is kept: the sort is stable.
        self.unread.sort_by_key(|(at, _)| *at);
        self.unread.dedup_by_key(|(at, _)| *at);
        limit(&parsed, &mut coverage);
        let of_line = |number: &usize| (*number, RepairSet::default().with(Repair::NotPrinted));
        let mut mends: Vec<_> = self.assumed.iter().map(of_line).collect();
        if self.is_headless {
            mends.push((lines[0].number, RepairSet::default().with(Repair::Heading)));
        }
        if is_open || self.is_cut {
            mends.push((last, RepairSet::default().with(Repair::Cut)));
        }
        let filter = match super::filter(context) {
            Filter::Lines(_) => Filter::Unknown(NOT_SHOWN.to_owned()),
            filter => filter,
        };
        let tables = parsed.rules.tables.iter();
        let chains = tables.flat_map(|table| table.chains.iter().map(|chain| (table.name.as_str(), &*chain.name)));
        filter.apply(chains, None, true, &mut coverage);
        let cut = is_open.then_some(last);
        let contents = Contents::Iptables { rules: parsed, count, coverage, rounded_digits: None, cut };
        Block { unread: self.unread, mends, ..Block::new(Format::IptablesNft, lines.len(), contents) }
    }
}

/// Takes back that tables are whole which no kernel has, since rules lead to chains that are not there: `nft list chain` prints one in its table.
fn limit(parsed: &Parsed, coverage: &mut Coverage) {
    for table in &parsed.rules.tables {
        let chains: HashSet<&str> = table.chains.iter().map(|chain| &*chain.name).collect();
        let mut rules = table.chains.iter().flat_map(|chain| &chain.rules);
        if rules.any(|rule| rule.next_chain().is_some_and(|next| !chains.contains(&**next))) {
            coverage.remove_table(table.name.as_str());
        }
    }
}
