//! Rules from the output of `iptables -L`, with or without `-n`, `-v` and `--line-numbers`.
//!
//! A listing is made for people. It does not name its table, hides interfaces without `-v`, and names what
//! svclab does not read of it in words of each extension's own; such a rule keeps them as a match that is not
//! modelled. Probabilities have eleven digits, as in `iptables-save`, from which the 31 bits follow exactly. (iptables
//! before 1.4.20 showed six, which leave thousands of thresholds open.)

mod tables;
mod unfold;

use std::collections::{HashMap, HashSet};

use super::super::ast::{Chain, Policy, Rule, RuleSet};
use super::super::chain_name::ChainKind;
use super::super::matches::{Match, Other, Probability, Statistic, parse_listed};
use super::super::table_name::TableName;
use super::super::targets::{Listed, Nat, Target};
use super::super::text::values;
use super::super::values::{ChainName, Negatable};
use super::SourceLines;
use crate::cluster::{Family, ProtocolNumber};
use crate::coverage::Coverage;

/// Digits behind the point from which a threshold of 31 bits follows.
const EXACT_DIGITS: usize = 10;

/// What was read of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The rules. Where no command names the table, it is that in which kube-proxy, or a kernel, has such a chain.
    pub rules: RuleSet,
    /// The line of every rule.
    pub lines: SourceLines,
    /// The digits behind the point of the shortest probability whose threshold does not follow from them; `None` where all do.
    pub short_digits: Option<usize>,
    /// The line, from 1, of the first row that ends before its rule does, as where a terminal or a copy cut it off.
    pub cut: Option<usize>,
    /// The tables and chains that are shown with all their rules.
    pub coverage: Coverage,
}

/// What a line of a listing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineOfListing {
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
    short_digits: Option<usize>,
    cut: Option<usize>,
    /// The table that a command names.
    table: Option<TableName>,
    /// Whether the last line was blank, behind which a chain is over.
    is_over: bool,
    /// Whether chains may be left out.
    is_broken: bool,
    rules: usize,
}

/// A chain with its rows.
#[derive(Debug)]
struct Shown {
    chain: Chain,
    lines: Vec<usize>,
    /// The table that a command names.
    table: Option<TableName>,
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
    pub fn line(&mut self, number: usize, line: &str) -> LineOfListing {
        // Pages on the web put bullets before rows.
        let line =
            line.trim_start_matches(|letter: char| letter.is_whitespace() || "•·*>|-".contains(letter)).trim_end();
        if let Some(chain) = heading(line) {
            self.columns = Columns::default();
            self.is_over = false;
            let table = self.table;
            self.chains.push(Shown { chain, lines: Vec::new(), table, is_whole: true, has_columns: false });
            return LineOfListing::Chain;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.contains(&"prot") && words.contains(&"source") {
            self.columns = Columns::of(&words);
            if let Some(last) = self.chains.last_mut() {
                last.has_columns = true;
            }
            return LineOfListing::Columns;
        }
        if self.chains.is_empty() && self.row_of_any_chain(&words).is_none() {
            return LineOfListing::Other;
        }
        let Some(Shown { chain, lines, is_whole, .. }) = self.chains.last_mut() else { return LineOfListing::Other };
        match Row::split(&words, self.columns) {
            Some(row) => {
                let (rule, is_cut) = row.rule(&mut self.short_digits);
                // What a listing says in words that are not understood may be any rule.
                *is_whole &= !is_cut && !rule.matches.iter().any(is_unknown);
                chain.rules.push(rule);
                lines.push(number);
                self.is_over = false;
                self.rules += 1;
                self.cut = self.cut.or(is_cut.then_some(number));
                if is_cut { LineOfListing::Cut } else { LineOfListing::Rule }
            }
            None if Row::is_begun(&words, self.columns) => {
                *is_whole = false;
                self.is_broken = true;
                self.cut = self.cut.or(Some(number));
                LineOfListing::Cut
            }
            None => LineOfListing::Other,
        }
    }

    /// Opens the chain of a row whose heading is missing, as `iptables -L | grep` shows it.
    fn row_of_any_chain(&mut self, words: &[&str]) -> Option<()> {
        let columns = Columns::guessed(words)?;
        let row = Row::split(words, columns)?;
        let (rule, _) = row.rule(&mut None);
        self.columns = columns;
        let name = match rule.next_chain() {
            Some(next)
                if ChainKind::Service.is_of(next) || ChainKind::Firewall.is_of(next) || rule.destination.is_some() =>
            {
                "KUBE-SERVICES"
            }
            _ => UNNAMED,
        };
        let table = self.table.or(Some(TableName::Nat));
        let chain = Chain::user(name);
        self.chains.push(Shown { chain, lines: Vec::new(), table, is_whole: false, has_columns: false });
        Some(())
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
        let Self { chains, short_digits, cut, is_broken, .. } = self;
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
                coverage.add_cut(table.as_str(), &chain.name);
            }
            rules.table_mut(table).chains.push(chain);
            lines.resize_with(rules.tables.len(), Vec::new);
            let position = rules.tables.iter().position(|known| known.name == table).unwrap_or_default();
            lines[position].push(own);
        }
        Some(Listing { rules, lines: SourceLines(lines), short_digits, cut, coverage })
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

/// Which columns the heading of a chain names.
#[derive(Debug, Clone, Copy, Default)]
struct Columns {
    numbers: bool,
    counters: bool,
    interfaces: bool,
}

impl Columns {
    /// Those of a heading's words.
    fn of(words: &[&str]) -> Self {
        let has = |name| words.contains(&name);
        Self { numbers: has("num"), counters: has("pkts"), interfaces: has("in") }
    }

    /// Those of a row without a heading, by its words.
    fn guessed(words: &[&str]) -> Option<Self> {
        let all = [(false, false), (false, true), (true, false), (true, true)];
        let columns = all.map(|(numbers, counters)| Self { numbers, counters, interfaces: counters });
        columns.into_iter().find(|columns| {
            let before = columns.before_target();
            let counts = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_digit());
            let named = |words: &[&str]| matches!(words, [_, protocol, option, ..] if is_protocol(protocol) && is_option(option));
            words.len() > before && words[..before].iter().all(counts) && named(&words[before..]) && Row::split(words, *columns).is_some()
        })
    }

    /// The number of words before a rule's target.
    fn before_target(self) -> usize {
        usize::from(self.numbers) + 2 * usize::from(self.counters)
    }
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

/// A rule's columns.
struct Row<'a> {
    target: Option<&'a str>,
    protocol: ProtocolNumber,
    interfaces: Option<[&'a str; 2]>,
    source: &'a str,
    destination: &'a str,
    /// The words of extensions.
    words: &'a [&'a str],
}

impl<'a> Row<'a> {
    /// None where the words are not a rule.
    fn split(words: &'a [&'a str], columns: Columns) -> Option<Self> {
        let words = words.get(columns.before_target()..).filter(|words| words.len() >= 3)?;
        // A rule without a target has nothing in its column, and the lack of an option is shown by `--` in IPv4 alone.
        let at =
            usize::from(!(words.first().is_some_and(|word| is_protocol(word)) && is_behind_protocol(words.get(1)?)));
        let target = (at == 1).then(|| words[0]);
        let protocol = words.get(at).filter(|word| is_protocol(word))?;
        let protocol = ProtocolNumber::parse(protocol.trim_start_matches('!'))?;
        let rest = &words[at + 1..];
        let rest = if is_option(rest.first()?) { &rest[1..] } else { rest };
        let (interfaces, rest) = match (columns.interfaces, rest) {
            (true, [input, output, rest @ ..]) => (Some([*input, *output]), rest),
            (true, _) => return None,
            (false, rest) => (None, rest),
        };
        let [source, destination, words @ ..] = rest else { return None };
        Some(Row { target, protocol, interfaces, source, destination, words })
    }

    /// Whether the words are the start of a row.
    fn is_begun(words: &[&str], columns: Columns) -> bool {
        let words = words.get(columns.before_target()..).unwrap_or_default();
        matches!(words, [protocol, option, ..] | [_, protocol, option, ..] if is_protocol(protocol) && is_option(option))
    }

    /// The rule, and whether it is cut off.
    fn rule(&self, short_digits: &mut Option<usize>) -> (Rule, bool) {
        let mut rule = Rule::default();
        if self.protocol.0 != 0 {
            rule.protocol = Some(Negatable::is(self.protocol));
        }
        let mut said = Words {
            words: self.words,
            rule: &mut rule,
            target: self.target,
            action: Listed::default(),
            is_known: true,
            is_cut: false,
            short_digits,
        };
        said.place(self.source, true);
        said.place(self.destination, false);
        said.read();
        let lacks_words = |name: &str| said.is_known && said.action.lacks(name);
        let is_cut = said.is_cut || self.target.is_some_and(lacks_words);
        if is_cut {
            said.unknown("cut off");
        }
        let (action, is_known) = (said.action, said.is_known);
        if let Some([input, output]) = self.interfaces {
            rule.in_interface = interface(input);
            rule.out_interface = interface(output);
        }
        rule.target = self.target.map(|name| action.target(name, is_known));
        (rule, is_cut)
    }
}

fn is_protocol(word: &str) -> bool {
    ProtocolNumber::parse(word.trim_start_matches('!')).is_some()
}

fn is_option(word: &str) -> bool {
    matches!(word, "--" | "-f" | "!f" | "—" | "–")
}

fn is_behind_protocol(word: &str) -> bool {
    is_option(word) || word == "anywhere" || word.contains("::")
}

fn interface(name: &str) -> Option<Negatable<Box<str>>> {
    match name.strip_prefix('!') {
        Some(name) => Some(Negatable::not(name.into())),
        None if matches!(name, "*" | "any") => None,
        None => Some(Negatable::is(name.into())),
    }
}

/// Whether words that were not understood are the beginning of what would be.
fn is_begun(word: &str, rest: &[&str]) -> bool {
    match word {
        "/*" => true,
        "statistic" => rest.len() < 4,
        "recent:" | "to:" => rest.is_empty(),
        _ => false,
    }
}

/// Reads the words of extensions.
struct Words<'a, 'r> {
    words: &'a [&'a str],
    rule: &'r mut Rule,
    /// The name of the rule's target, and its options.
    target: Option<&'a str>,
    action: Listed,
    /// Whether all words were understood, and whether the last ones are the beginning of something.
    is_known: bool,
    is_cut: bool,
    short_digits: &'r mut Option<usize>,
}

impl Words<'_, '_> {
    fn read(&mut self) {
        while let [word, rest @ ..] = self.words {
            let taken = self.extension().unwrap_or_else(|| {
                self.is_known = false;
                self.is_cut |= is_begun(word, rest);
                self.unknown(word);
                1
            });
            self.words = self.words.get(taken..).unwrap_or_default();
        }
    }

    /// Reads the match or the words for the target that come next. Returns the number of words; none where they are not known.
    fn extension(&mut self) -> Option<usize> {
        let Some((found, length)) = parse_listed(self.words) else {
            return self.action.read(self.target, self.words);
        };
        if let Match::Statistic(Statistic::Random(probability)) = found {
            self.check_digits(self.words[length - 1], probability.value);
        }
        self.rule.matches.push(found);
        Some(length)
    }

    /// Notes a probability of which too few digits are listed to find its threshold.
    fn check_digits(&mut self, number: &str, probability: Probability) {
        let digits = number.split_once('.').map_or(0, |(_, digits)| digits.len());
        let follows = digits >= EXACT_DIGITS || probability.threshold().trailing_zeros() >= 24;
        if !follows {
            *self.short_digits = Some(self.short_digits.map_or(digits, |short| short.min(digits)));
        }
    }

    /// A source or destination; all where it is `anywhere`.
    fn place(&mut self, word: &str, is_source: bool) {
        let (negated, text) = word.strip_prefix('!').map_or((false, word), |rest| (true, rest));
        if matches!(text, "anywhere" | "0.0.0.0/0" | "::/0") {
            return;
        }
        // What every machine calls by these names, in a listing without `-n`.
        let text = match text {
            "localhost" => "127.0.0.1",
            "loopback/8" => "127.0.0.0/8",
            text => text,
        };
        let network = values::network(text).map(|value| Negatable { negated, value });
        match network {
            // The name of a machine or network, which only the listed machine can resolve.
            None => self.unknown(word),
            Some(network) if is_source => self.rule.source = Some(network),
            Some(network) => self.rule.destination = Some(network),
        }
    }

    fn unknown(&mut self, word: &str) {
        self.rule.matches.push(Match::Other(Box::new(Other { name: LISTED.into(), text: word.into() })));
    }
}

#[cfg(test)]
mod tests;
