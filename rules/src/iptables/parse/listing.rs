//! Rules from the output of `iptables -L`, with or without `-n`, `-v` and `--line-numbers`.
//!
//! A listing is made for people. It does not name its table, hides interfaces without `-v`, and names what
//! svclab does not read of it in words of each extension's own; such a rule keeps them as a match that is not
//! modelled. Probabilities have eleven digits, as in `iptables-save`, from which the 31 bits follow exactly. (iptables
//! before 1.4.20 showed six, which leave thousands of thresholds open.)

mod home;
mod row;
mod tables;
mod unfold;
mod words;

use std::collections::{HashMap, HashSet};

use self::row::{Columns, Row};
use super::super::ast::{Chain, Policy, Rule, RuleSet};
use super::super::matches::Match;
use super::super::table_name::TableName;
use super::super::targets::{Nat, Target};
use super::super::values::ChainName;
use super::SourceLines;
use crate::cluster::Family;
use crate::coverage::Coverage;

/// What was read of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The rules. Where no command names the table, it is that in which kube-proxy, or a kernel, has such a chain.
    pub rules: RuleSet,
    /// The line of every rule.
    pub lines: SourceLines,
    /// The digits after the point of the shortest probability whose threshold does not follow from them; `None` where all do.
    pub rounded_digits: Option<usize>,
    /// The line, from 1, of the first row that ends before its rule does, as where a terminal or a copy cut it off.
    pub cut: Option<usize>,
    /// The tables and chains that are shown with all their rules.
    pub coverage: Coverage,
    /// The lines of rules whose chain is not shown and does not follow from them: they are not among the rules.
    pub unplaced: Vec<usize>,
}

/// What a line of a listing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListingLine {
    /// The heading of a chain.
    Chain,
    /// The heading of columns.
    Columns,
    /// A rule.
    Rule,
    /// The beginning of a rule that is cut off.
    Cut,
    /// Something else.
    Other,
}

/// Reads the chains of a listing, and skips everything else: prompts, prose, empty lines. Lines may have been joined. A chain that is listed
/// again counts where it has more rules than before. `None` if there is no chain.
pub fn parse_listing(text: &str) -> Option<Listing> {
    let mut reader = ListingReader::default();
    for (number, line) in (1..).zip(text.lines()) {
        for line in unfold::lines(line, reader.columns) {
            reader.line(number, &line);
        }
    }
    reader.finish()
}

/// The lines that a line was joined from, as on pages of the web: `... dpt:80 KUBE-SVC-B tcp -- ...`. A line that is one of
/// a listing stays as it is.
pub fn unfold(line: &str) -> Vec<String> {
    unfold::lines(line, Columns::default())
}

/// Reads a listing line by line.
#[derive(Debug, Default)]
pub struct ListingReader {
    /// The chains so far.
    chains: Vec<Shown>,
    columns: Columns,
    rounded_digits: Option<usize>,
    cut: Option<usize>,
    /// The table that a command names.
    table: Option<TableName>,
    /// Whether the last line was blank, behind which a chain is over.
    is_over: bool,
    /// Whether chains may be left out.
    is_broken: bool,
    /// Whether lines between others are known to be filtered out.
    is_filtered: bool,
    rules: usize,
}

/// A chain with its rows.
#[derive(Debug)]
struct Shown {
    chain: Chain,
    lines: Vec<usize>,
    /// The table that a command names.
    table: Option<TableName>,
    /// Whether its heading is shown.
    has_heading: bool,
    /// Whether its heading is shown, and every row behind it.
    is_whole: bool,
    /// Whether the heading of its columns is shown.
    has_columns: bool,
}

impl ListingReader {
    /// Sets the table of the chains that follow, as a command names it; by their names where there is none.
    pub fn set_table(&mut self, table: Option<TableName>) {
        self.table = table;
    }

    /// Lines are left out here.
    pub fn gap(&mut self) {
        self.is_broken = true;
        if let Some(last) = self.chains.last_mut().filter(|_| !self.is_over) {
            last.is_whole = false;
        }
    }

    /// A line is blank, as behind the last row of a chain.
    pub fn blank(&mut self) {
        // Some texts have a blank line behind every line.
        self.is_over = self.chains.last().is_some_and(|last| last.has_columns);
    }

    /// How many rules were read.
    pub fn rules(&self) -> usize {
        self.rules
    }

    /// Reads the next line.
    pub fn line(&mut self, number: usize, line: &str) -> ListingLine {
        // Pages on the web put bullets before rows.
        let line =
            line.trim_start_matches(|letter: char| letter.is_whitespace() || "•·*>|-".contains(letter)).trim_end();
        if let Some(chain) = heading(line) {
            self.columns = Columns::default();
            self.is_over = false;
            let table = self.table;
            let shown =
                Shown { chain, lines: Vec::new(), table, has_heading: true, is_whole: true, has_columns: false };
            self.chains.push(shown);
            return ListingLine::Chain;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.contains(&"prot") && words.contains(&"source") {
            self.columns = Columns::of(&words);
            match self.chains.last_mut() {
                Some(last) if !last.has_columns && last.chain.rules.is_empty() => last.has_columns = true,
                // The heading of their chain was filtered out, so other lines may have been.
                Some(_) => {
                    self.is_filtered = true;
                    self.open_unnamed();
                }
                None => {}
            }
            return ListingLine::Columns;
        }
        if self.chains.is_empty() && self.row_of_any_chain(&words).is_none() {
            return ListingLine::Other;
        }
        let Some(Shown { chain, lines, is_whole, .. }) = self.chains.last_mut() else { return ListingLine::Other };
        match Row::split(&words, self.columns) {
            Some(row) => {
                let (rule, is_cut) = row.rule(&mut self.rounded_digits);
                // What a listing says in words that are not understood may be any rule.
                *is_whole &= !is_cut && !rule.matches.iter().any(is_unknown);
                chain.rules.push(rule);
                lines.push(number);
                self.is_over = false;
                self.rules += 1;
                self.cut = self.cut.or(is_cut.then_some(number));
                if is_cut { ListingLine::Cut } else { ListingLine::Rule }
            }
            None if Row::is_begun(&words, self.columns) => {
                *is_whole = false;
                self.is_broken = true;
                self.cut = self.cut.or(Some(number));
                ListingLine::Cut
            }
            None => ListingLine::Other,
        }
    }

    /// Opens the chain of a row whose heading is missing, as `iptables -L | grep` shows it.
    fn row_of_any_chain(&mut self, words: &[&str]) -> Option<()> {
        let columns = Columns::guessed(words)?;
        let row = Row::split(words, columns)?;
        row.rule(&mut None);
        self.columns = columns;
        self.open_unnamed();
        Some(())
    }

    /// Opens a chain whose heading is missing.
    fn open_unnamed(&mut self) {
        let table = self.table.or(Some(TableName::Nat));
        let chain = Chain::user(UNNAMED);
        self.is_broken = true;
        self.is_over = false;
        self.chains.push(Shown {
            chain,
            lines: Vec::new(),
            table,
            has_heading: false,
            is_whole: false,
            has_columns: false,
        });
    }

    /// What was read; `None` where there is no chain.
    pub fn finish(mut self) -> Option<Listing> {
        let used = self.used();
        // A text that ends with the heading of a chain that has rules to be used for was cut there.
        if let Some(last) = self.chains.last_mut()
            && last.chain.rules.is_empty()
            && (!last.has_columns || used.contains(&last.chain.name))
        {
            last.is_whole = false;
            self.is_broken = true;
        }
        let unplaced = if self.is_picked() { self.place() } else { Vec::new() };
        let Self { chains, rounded_digits, cut, is_broken, .. } = self;
        if chains.is_empty() {
            return None;
        }
        let tables = tables::tables(&chains);
        let family = family(&chains);
        let mut coverage = Coverage::default();
        let mut known: HashMap<(TableName, ChainName), usize> = HashMap::new();
        let mut all: Vec<(TableName, Shown)> = Vec::with_capacity(chains.len());
        for (shown, (table, has_builtins)) in chains.into_iter().zip(tables) {
            if has_builtins && !is_broken {
                coverage.add_table(table.as_str());
            }
            match known.get(&(table, shown.chain.name.clone())) {
                Some(&at) if all[at].1.chain.rules.len() < shown.chain.rules.len() => all[at] = (table, shown),
                Some(_) => {}
                None => {
                    known.insert((table, shown.chain.name.clone()), all.len());
                    all.push((table, shown));
                }
            }
        }
        let mut rules = RuleSet::new(family);
        let mut lines: Vec<Vec<Vec<usize>>> = Vec::new();
        let is_partial = |table: TableName| all.iter().any(|(own, shown)| *own == table && !shown.is_whole);
        // The kernel has no jump to a chain that is not there.
        let lacks_some = |table: TableName| {
            let own = || all.iter().filter(move |(of, _)| *of == table).map(|(_, shown)| &shown.chain);
            let names: HashSet<&ChainName> = own().map(|chain| &chain.name).collect();
            own().flat_map(|chain| &chain.rules).filter_map(Rule::next_chain).any(|next| !names.contains(next))
        };
        let partial: Vec<TableName> =
            TableName::ALL.into_iter().filter(|table| is_partial(*table) || lacks_some(*table)).collect();
        for table in partial {
            coverage.remove_table(table.as_str());
        }
        for (table, Shown { chain, lines: own, is_whole, .. }) in all {
            if is_whole {
                coverage.add_chain(table.as_str(), &chain.name);
            } else {
                coverage.add_truncated(table.as_str(), &chain.name);
            }
            rules.table_mut(table).chains.push(chain);
            lines.resize_with(rules.tables.len(), Vec::new);
            let position = rules.tables.iter().position(|known| known.name == table).unwrap_or_default();
            lines[position].push(own);
        }
        Some(Listing { rules, lines: SourceLines(lines), rounded_digits, cut, coverage, unplaced })
    }

    /// Whether rows were picked one by one: then the heading before a row need not be that of its chain.
    fn is_picked(&self) -> bool {
        let has_rows = |shown: &Shown| !shown.chain.rules.is_empty();
        self.chains.iter().any(|shown| !shown.has_heading && has_rows(shown))
            || self.chains.len() > 1 && !self.chains.iter().any(|shown| shown.has_columns)
    }

    /// Puts every row into the chain that it says itself. Returns the lines of the others.
    fn place(&mut self) -> Vec<usize> {
        self.is_broken = true;
        let mut unplaced = Vec::new();
        let mut rows = Vec::new();
        for shown in &mut self.chains {
            shown.is_whole &= shown.has_columns && !self.is_filtered;
            if shown.has_columns {
                continue;
            }
            rows.extend(std::mem::take(&mut shown.chain.rules).into_iter().zip(std::mem::take(&mut shown.lines)));
        }
        self.chains.retain(|shown| shown.has_heading);
        let table = self.table.or(Some(TableName::Nat));
        for (rule, line) in rows {
            let Some(name) = home::of(&rule) else {
                unplaced.push(line);
                continue;
            };
            let at = self.chains.iter().position(|shown| *shown.chain.name == *name).unwrap_or_else(|| {
                let chain = Chain::user(&*name);
                let (lines, has_heading) = (Vec::new(), false);
                self.chains.push(Shown { chain, lines, table, has_heading, is_whole: false, has_columns: false });
                self.chains.len() - 1
            });
            self.chains[at].chain.rules.push(rule);
            self.chains[at].lines.push(line);
        }
        self.rules -= unplaced.len();
        unplaced
    }

    /// The chains that rules jump to.
    fn used(&self) -> HashSet<ChainName> {
        let rules = self.chains.iter().flat_map(|shown| &shown.chain.rules);
        rules.filter_map(Rule::next_chain).cloned().collect()
    }
}

/// Whether a condition stands for words that are not understood.
fn is_unknown(one: &Match) -> bool {
    matches!(one, Match::Other(other) if &*other.name == LISTED)
}

/// The match that stands for words of a listing that are not understood.
const LISTED: &str = "listing";

/// The chain of rows of which no heading says it.
const UNNAMED: &str = "(unnamed)";

/// The family of the first address that anything is translated to or compared with.
fn family(chains: &[Shown]) -> Family {
    let mut all = chains.iter().flat_map(|shown| &shown.chain.rules);
    let of_rule = |rule: &Rule| match (&rule.target, rule.source.as_ref().or(rule.destination.as_ref())) {
        (Some(Target::Dnat(Nat { addresses: Some((address, _)), .. })), _) => Some(Family::of(*address)),
        (_, Some(network)) => Some(network.value.family()),
        _ => None,
    };
    all.find_map(of_rule).unwrap_or(Family::Ipv4)
}

/// `Chain KUBE-SERVICES (2 references)`, `Chain INPUT (policy ACCEPT 0 packets, 0 bytes)`.
fn heading(line: &str) -> Option<Chain> {
    let (name, rest) = line.strip_prefix("Chain ")?.split_once(" (")?;
    if name.is_empty() || name.contains(char::is_whitespace) {
        return None;
    }
    let policy = match rest.strip_prefix("policy ") {
        Some(word) if word.starts_with("DROP") => Some(Policy::Drop),
        Some(_) => Some(Policy::Accept),
        None if rest.contains("references") => None,
        None => return None,
    };
    Some(Chain { policy, ..Chain::user(name) })
}

#[cfg(test)]
mod tests;
