//! Parsing of the output of `iptables -L`, with or without `-n`, `-v` and `--line-numbers`.
//!
//! A listing is meant for human readers. It does not name its table, hides interfaces without `-v`, and prints each extension in its own
//! words; words that svclab cannot parse are kept as a match that is not modelled. Probabilities have eleven digits, as in `iptables-save`,
//! which determine the 31 bits exactly. (iptables before 1.4.20 printed six, which fit thousands of thresholds.)

mod parent_chain;
mod picked;
mod row;
mod tables;
mod unfold;
mod words;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use self::row::{Columns, Row};
use super::super::ast::{Chain, Policy, Rule, RuleSet};
use super::super::table_name::TableName;
use super::super::targets::{Nat, Target};
use super::super::values::ChainName;
use super::SourceLines;
use crate::cluster::Family;
use crate::coverage::Coverage;

/// A parsed listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The rules. If no command names the table, it is inferred: the table in which kube-proxy writes, or the kernel has, such a chain.
    pub rules: RuleSet,
    /// The line of every rule.
    pub lines: SourceLines,
    /// The number of decimals of the shortest probability that does not determine its threshold; `None` if all do.
    pub rounded_digits: Option<usize>,
    /// The line, from 1, of the first row that is incomplete, as when a terminal or a copy truncated it.
    pub cut: Option<usize>,
    /// The tables and chains that the listing contains with all their rules.
    pub coverage: Coverage,
    /// The lines of rules whose chain is neither in the text nor evident: they are not among the rules.
    pub unplaced: Vec<usize>,
    /// The lines of rules with words that are not known, each with the first of these.
    pub unknown: Vec<(usize, String)>,
}

/// The kind of a line in a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListingLine {
    /// The heading of a chain.
    Chain,
    /// The heading of columns.
    Columns,
    /// A rule.
    Rule,
    /// The start of a truncated rule.
    Cut,
    /// Something else.
    Other,
}

/// Parses the chains of a listing, and skips everything else: prompts, prose, empty lines. Lines may have been joined. If a chain is listed
/// twice, the one with more rules counts. Returns `None` if there is no chain.
pub fn parse_listing(text: &str) -> Option<Listing> {
    let mut reader = ListingReader::default();
    for (number, line) in (1..).zip(text.lines()) {
        for line in unfold::lines(line, reader.columns) {
            reader.line(number, &line);
        }
    }
    reader.finish()
}

/// Splits a line that was joined from several, as on web pages: `... dpt:80 KUBE-SVC-B tcp -- ...`. A line of an intact listing is returned
/// unchanged.
pub fn unfold(line: &str) -> Vec<String> {
    unfold::lines(line, Columns::default())
}

/// A line-by-line parser of listings.
#[derive(Debug, Default)]
pub struct ListingReader {
    /// The chains so far.
    chains: Vec<Shown>,
    columns: Columns,
    rounded_digits: Option<usize>,
    cut: Option<usize>,
    /// The table named in a command.
    table: Option<TableName>,
    /// The only chain that a command lists.
    chain: Option<ChainName>,
    /// Whether the last line was blank, which ends a chain.
    is_over: bool,
    /// Whether chains may be missing.
    is_broken: bool,
    /// Whether lines between others are known to be filtered out.
    is_filtered: bool,
    rules: usize,
    /// The lines of rules with unknown words, and the first of these.
    unknown: Vec<(usize, String)>,
}

/// A chain with its rows.
#[derive(Debug)]
struct Shown {
    chain: Chain,
    /// The number of rules that jump to it, if the heading gives it.
    references: Option<usize>,
    lines: Vec<usize>,
    /// The table named in a command.
    table: Option<TableName>,
    /// Whether its heading is in the text.
    has_heading: bool,
    /// Whether its heading and every row after it are in the text.
    is_whole: bool,
    /// Whether the heading of its columns is in the text.
    has_columns: bool,
    /// Whether a row is in the text without the columns of interfaces.
    hides_interfaces: bool,
}

impl Shown {
    /// A chain without rows.
    fn new(chain: Chain, table: Option<TableName>, has_heading: bool) -> Self {
        Self {
            chain,
            references: None,
            lines: Vec::new(),
            table,
            has_heading,
            is_whole: has_heading,
            has_columns: false,
            hides_interfaces: false,
        }
    }
}

impl ListingReader {
    /// Sets the table of the chains that follow, as named in a command; without one, it is inferred from the chains' names.
    pub fn set_table(&mut self, table: Option<TableName>) {
        self.table = table;
    }

    /// Sets the chain that a command lists alone: rows without a heading are of it.
    pub fn set_chain(&mut self, chain: Option<&str>) {
        self.chain = chain.map(ChainName::from);
    }

    /// Lines are omitted here.
    pub fn gap(&mut self) {
        self.is_broken = true;
        if let Some(last) = self.chains.last_mut().filter(|_| !self.is_over) {
            last.is_whole = false;
        }
    }

    /// Returns whether the line is the start of a row, at which the text ends, and records the cut.
    pub fn end(&mut self, number: usize, line: &str) -> bool {
        let words = line.split_whitespace().skip_while(|word| word.starts_with(|first: char| first.is_ascii_digit()));
        let words: Vec<&str> = words.collect();
        let is_target = |word: &str| {
            let is_of_name =
                |letter: u8| letter.is_ascii_uppercase() || letter.is_ascii_digit() || b"-_".contains(&letter);
            word.len() > 2 && word.bytes().all(is_of_name)
        };
        let is_row = match words.as_slice() {
            [target] => is_target(target),
            [target, protocol] => is_target(target) && row::is_protocol(protocol),
            _ => false,
        };
        let Some(last) = self.chains.last_mut().filter(|last| is_row && last.has_columns && !self.is_over) else {
            return false;
        };
        last.is_whole = false;
        self.is_broken = true;
        self.cut = self.cut.or(Some(number));
        true
    }

    /// Reads a blank line, as after the last row of a chain.
    pub fn blank(&mut self) {
        // Some texts have a blank line after every line.
        self.is_over = self.chains.last().is_some_and(|last| last.has_columns);
    }

    /// Returns the number of rules read.
    pub fn rules(&self) -> usize {
        self.rules
    }

    /// Reads the next line.
    pub fn line(&mut self, number: usize, line: &str) -> ListingLine {
        // Web pages may have bullets before rows.
        let line =
            line.trim_start_matches(|letter: char| letter.is_whitespace() || "•·*>|-".contains(letter)).trim_end();
        if let Some((chain, references)) = heading(line) {
            self.columns = Columns::default();
            self.is_over = false;
            self.chains.push(Shown { references, ..Shown::new(chain, self.table, true) });
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
        // Without its columns, the rows of a chain show which there are.
        let is_guessed = self.chains.last().is_some_and(|last| !last.has_columns && last.chain.rules.is_empty());
        if let Some(columns) = Columns::guessed(&words).filter(|_| is_guessed) {
            self.columns = columns;
        }
        let columns = self.columns;
        let Some(Shown { chain, lines, is_whole, hides_interfaces, .. }) = self.chains.last_mut() else {
            return ListingLine::Other;
        };
        match Row::split(&words, columns) {
            Some(row) => {
                *hides_interfaces |= !columns.has_interfaces();
                let (rule, is_cut) = row.rule(&mut self.rounded_digits);
                // A row with unknown words may be any rule.
                *is_whole &= !is_cut && !rule.is_unread();
                self.unknown.extend(rule.unread_words().filter(|_| !is_cut).map(|word| (number, word.to_owned())));
                chain.rules.push(rule);
                lines.push(number);
                self.is_over = false;
                self.rules += 1;
                self.cut = self.cut.or(is_cut.then_some(number));
                if is_cut { ListingLine::Cut } else { ListingLine::Rule }
            }
            None if Row::is_start(&words, columns) => {
                *is_whole = false;
                self.is_broken = true;
                self.cut = self.cut.or(Some(number));
                ListingLine::Cut
            }
            None => ListingLine::Other,
        }
    }

    /// Opens the chain of a row whose heading is missing, as after `iptables -L | grep`.
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
        self.is_broken = true;
        self.is_over = false;
        self.chains.push(match &self.chain {
            Some(chain) => {
                Shown { is_whole: false, has_columns: true, ..Shown::new(Chain::user(&**chain), table, true) }
            }
            None => Shown::new(Chain::user(UNNAMED), table, false),
        });
    }

    /// Returns the parsed listing; `None` if there is no chain.
    pub fn finish(mut self) -> Option<Listing> {
        let used = self.used();
        // A text that ends with the heading of a referenced chain was cut there, and one that lacks all later chains may have been.
        let is_cut = self.ends_early(&used);
        if let Some(last) = self.chains.last_mut()
            && (is_cut || last.chain.rules.is_empty() && (!last.has_columns || used.contains(&last.chain.name)))
        {
            last.is_whole = false;
            self.is_broken = true;
        }
        let unplaced = if self.is_picked() { self.place() } else { Vec::new() };
        let Self { mut chains, rounded_digits, cut, is_broken, unknown, .. } = self;
        if chains.is_empty() {
            return None;
        }
        let tables = tables::tables(&chains);
        for (shown, placed) in chains.iter_mut().zip(&tables) {
            // Without rows, it may be the one of another table.
            shown.is_whole &= !placed.is_guessed || !shown.chain.rules.is_empty();
        }
        let family = family(&chains);
        let mut coverage = Coverage::default();
        for placed in &tables {
            if placed.has_builtins && !is_broken {
                coverage.add_table(placed.table.as_str());
            }
        }
        let mut all = once(chains.into_iter().zip(tables).map(|(shown, placed)| (placed.table, shown)));
        read_jumps(&mut all);
        mark_incomplete_callers(&mut all);
        partial_tables(&all).for_each(|table| coverage.remove_table(table.as_str()));
        let mut rules = RuleSet::new(family);
        let mut lines: Vec<Vec<Vec<usize>>> = Vec::new();
        for (table, Shown { chain, lines: own, is_whole, hides_interfaces, .. }) in all {
            if hides_interfaces {
                coverage.add_without_interfaces(table.as_str(), &chain.name);
            }
            if is_whole && !(table == TableName::Nat && leads_nowhere(&chain)) {
                coverage.add_chain(table.as_str(), &chain.name);
            } else {
                coverage.add_truncated(table.as_str(), &chain.name);
            }
            rules.table_mut(table).chains.push(chain);
            lines.resize_with(rules.tables.len(), Vec::new);
            let position = rules.tables.iter().position(|known| known.name == table).unwrap_or_default();
            lines[position].push(own);
        }
        Some(Listing { rules, lines: SourceLines(lines), rounded_digits, cut, coverage, unplaced, unknown })
    }

    /// Returns whether the text ends within the last chain of a longer listing: chains are listed by name after the built-in ones, and the
    /// referenced chains that are not in the text come after the last one.
    fn ends_early(&self, used: &HashSet<ChainName>) -> bool {
        let names: Vec<&ChainName> = self.chains.iter().map(|shown| &shown.chain.name).collect();
        let is_builtin =
            |name: &ChainName| TableName::ALL.iter().any(|table| table.builtin_chains().contains(&&**name));
        let Some(first) = names.iter().position(|name| !is_builtin(name)).filter(|first| *first > 0) else {
            return false;
        };
        let own = &names[first..];
        let Some(last) = own.last().filter(|_| own.is_sorted() && !self.is_over) else { return false };
        let shown: HashSet<&ChainName> = names.iter().copied().collect();
        let mut missing = used.iter().filter(|name| !shown.contains(name)).peekable();
        missing.peek().is_some() && missing.all(|name| name > last)
    }

    /// Returns the chains that rules jump to.
    fn used(&self) -> HashSet<ChainName> {
        let rules = self.chains.iter().flat_map(|shown| &shown.chain.rules);
        rules.filter_map(Rule::next_chain).cloned().collect()
    }
}

/// The chain of rows without a heading.
const UNNAMED: &str = "(unnamed)";

/// Returns the family of the first address in a match or target.
fn family(chains: &[Shown]) -> Family {
    let mut all = chains.iter().flat_map(|shown| &shown.chain.rules);
    let of_rule = |rule: &Rule| match (&rule.target, rule.source.as_ref().or(rule.destination.as_ref())) {
        (Some(Target::Dnat(Nat { addresses: Some((address, _)), .. })), _) => Some(Family::of(*address)),
        (_, Some(network)) => Some(network.value.family()),
        _ => None,
    };
    all.find_map(of_rule).unwrap_or(Family::Ipv4)
}

/// `Chain KUBE-SERVICES (2 references)`, `Chain INPUT (policy ACCEPT 0 packets, 0 bytes)`. Returns the number of references as well.
fn heading(line: &str) -> Option<(Chain, Option<usize>)> {
    let rest = line.strip_prefix("Chain ")?.trim_start();
    // `column -t` puts several blanks between words.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (name, rest) = rest.split_once(" (").map(|(name, rest)| (name.trim_end(), words(rest)))?;
    if name.is_empty() || name.contains(char::is_whitespace) {
        return None;
    }
    let policy = match rest.strip_prefix("policy ") {
        Some(word) if word.starts_with("DROP") => Some(Policy::Drop),
        Some(_) => Some(Policy::Accept),
        None if rest.contains("references") => None,
        None => return None,
    };
    let references = rest.split_once(" references").and_then(|(count, _)| count.parse().ok());
    Some((Chain { policy, ..Chain::user(name) }, references))
}

/// Returns each chain of a table once: of several listings, the longest.
fn once(chains: impl Iterator<Item = (TableName, Shown)>) -> Vec<(TableName, Shown)> {
    let mut known: HashMap<(TableName, ChainName), usize> = HashMap::new();
    let mut all: Vec<(TableName, Shown)> = Vec::new();
    for (table, shown) in chains {
        match known.entry((table, shown.chain.name.clone())) {
            Entry::Occupied(at) => {
                let at = *at.get();
                if all[at].1.chain.rules.len() < shown.chain.rules.len() {
                    all[at] = (table, shown);
                }
            }
            Entry::Vacant(new) => {
                new.insert(all.len());
                all.push((table, shown));
            }
        }
    }
    all
}

/// Reads targets with the name of a chain as jumps: as in iptables, a chain takes precedence over an extension of its name.
fn read_jumps(all: &mut [(TableName, Shown)]) {
    use Target::{Accept, Drop, Goto, Jump, Return};
    let known: HashSet<(TableName, ChainName)> =
        all.iter().map(|(table, shown)| (*table, shown.chain.name.clone())).collect();
    for (table, shown) in all {
        for target in shown.chain.rules.iter_mut().filter_map(|rule| rule.target.as_mut()) {
            let name = ChainName::from(target.name());
            if !matches!(target, Jump(_) | Goto(_) | Accept | Drop | Return) && known.contains(&(*table, name.clone()))
            {
                *target = Jump(name);
            }
        }
    }
}

/// The only chain from which kube-proxy jumps to a chain of a table: table, called chain, calling chain.
const CALLERS: [(TableName, &str, &str); 4] = [
    (TableName::Nat, "KUBE-NODEPORTS", "KUBE-SERVICES"),
    (TableName::Nat, "KUBE-POSTROUTING", "POSTROUTING"),
    (TableName::Filter, "KUBE-NODEPORTS", "INPUT"),
    (TableName::Filter, "KUBE-FORWARD", "FORWARD"),
];

/// Marks chains incomplete from which the kernel counts more jumps than the listing shows.
fn mark_incomplete_callers(all: &mut [(TableName, Shown)]) {
    let hidden = |table: TableName, called: &str| {
        let of_table = || all.iter().filter(|(own, _)| *own == table).map(|(_, shown)| shown);
        let jumps = of_table().flat_map(|shown| &shown.chain.rules).filter_map(Rule::next_chain);
        let shown = jumps.filter(|next| &***next == called).count();
        of_table().any(|chain| &*chain.chain.name == called && chain.references.is_some_and(|count| count > shown))
    };
    let is_caller = |(table, shown): &(TableName, Shown)| {
        CALLERS
            .iter()
            .any(|(of, called, caller)| of == table && &*shown.chain.name == *caller && hidden(*table, called))
    };
    let open: Vec<usize> = (0..all.len()).filter(|at| is_caller(&all[*at])).collect();
    open.into_iter().for_each(|at| all[at].1.is_whole = false);
}

/// Returns the tables that are not shown completely: with a chain that is cut, or without one that a rule jumps to, since in the kernel no
/// rule jumps to a missing chain.
fn partial_tables(all: &[(TableName, Shown)]) -> impl Iterator<Item = TableName> {
    let is_partial = |table: TableName| all.iter().any(|(own, shown)| *own == table && !shown.is_whole);
    let lacks_some = |table: TableName| {
        let own = || all.iter().filter(move |(of, _)| *of == table).map(|(_, shown)| &shown.chain);
        let names: HashSet<&ChainName> = own().map(|chain| &chain.name).collect();
        own().flat_map(|chain| &chain.rules).filter_map(Rule::next_chain).any(|next| !names.contains(next))
    };
    TableName::ALL.into_iter().filter(move |table| is_partial(*table) || lacks_some(*table))
}

#[cfg(test)]
mod tests;

/// Returns whether a list of services is shortened by hand: it marks packets, and leads neither to a service nor to node ports, to which kube-proxy
/// writes a last rule.
fn leads_nowhere(chain: &Chain) -> bool {
    let mut next = chain.rules.iter().filter_map(Rule::next_chain).peekable();
    &*chain.name == "KUBE-SERVICES" && next.peek().is_some() && next.all(|next| next.starts_with("KUBE-MARK-"))
}
