//! Rules from the output of `iptables -L`, with or without `-n`, `-v` and `--line-numbers`.
//!
//! A listing is made for people. It does not name its table, hides interfaces without `-v`, and names what
//! svclab does not read of it in words of each extension's own; such a rule keeps them as a match that is not
//! modelled. Probabilities have eleven digits, as in `iptables-save`, from which the 31 bits follow exactly. (iptables
//! before 1.4.20 showed six, which leave thousands of thresholds open.)

mod unfold;

use super::super::ast::{Chain, Policy, Rule, RuleSet};
use super::super::matches::{Match, Other, Probability, Statistic, parse_listed};
use super::super::table_name::TableName;
use super::super::targets::{Listed, Nat, Target};
use super::super::text::values;
use super::super::values::Negatable;
use crate::cluster::{Family, ProtocolNumber};

/// Digits behind the point from which a threshold of 31 bits follows.
const EXACT_DIGITS: usize = 10;

/// What was read of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The rules, all taken to be of the table `nat`, where kube-proxy's services are.
    pub rules: RuleSet,
    /// The digits behind the point of the shortest probability whose threshold does not follow from them; `None` where all do.
    pub short_digits: Option<usize>,
    /// The line, from 1, of the first row that ends before its rule does, as where a terminal or a copy cut it off.
    pub cut: Option<usize>,
}

/// Reads the chains of a listing, and skips everything else: prompts, prose, empty lines. Lines may have been joined. A chain that is listed
/// again counts where it has more rules than before. `None` if there is no chain.
pub fn parse_listing(text: &str) -> Option<Listing> {
    let mut reader = Reader { chains: Vec::new(), columns: Columns::default(), short_digits: None, cut: None };
    for (number, line) in (1..).zip(text.lines()) {
        for line in unfold::lines(line, reader.columns) {
            if reader.line(&line) == Shown::InPart {
                reader.cut = reader.cut.or(Some(number));
            }
        }
    }
    let Reader { chains, short_digits, cut, .. } = reader;
    if chains.is_empty() {
        return None;
    }
    let mut all: Vec<Chain> = Vec::with_capacity(chains.len());
    for chain in chains {
        match all.iter_mut().find(|known| known.name == chain.name) {
            Some(known) if known.rules.len() < chain.rules.len() => *known = chain,
            Some(_) => {}
            None => all.push(chain),
        }
    }
    let mut rules = RuleSet::new(family(&all));
    rules.table_mut(TableName::Nat).chains = all;
    Some(Listing { rules, short_digits, cut })
}

/// The family of the first address that anything is translated to or compared with.
fn family(chains: &[Chain]) -> Family {
    let mut all = chains.iter().flat_map(|chain| &chain.rules);
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

    /// The number of words before a rule's target.
    fn before_target(self) -> usize {
        usize::from(self.numbers) + 2 * usize::from(self.counters)
    }
}

struct Reader {
    chains: Vec<Chain>,
    columns: Columns,
    short_digits: Option<usize>,
    cut: Option<usize>,
}

/// How much of a rule a line has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Nothing, or all.
    Whole,
    /// Its beginning.
    InPart,
}

impl Reader {
    fn line(&mut self, line: &str) -> Shown {
        // Pages on the web put bullets before rows.
        let line =
            line.trim_start_matches(|letter: char| letter.is_whitespace() || "•·*>|-".contains(letter)).trim_end();
        if let Some(chain) = heading(line) {
            self.columns = Columns::default();
            self.chains.push(chain);
            return Shown::Whole;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.contains(&"prot") && words.contains(&"source") {
            self.columns = Columns::of(&words);
            return Shown::Whole;
        }
        let Some(chain) = self.chains.last_mut() else { return Shown::Whole };
        match Row::split(&words, self.columns) {
            Some(row) => {
                let (rule, shown) = row.rule(&mut self.short_digits);
                chain.rules.push(rule);
                shown
            }
            None if Row::is_begun(&words, self.columns) => Shown::InPart,
            None => Shown::Whole,
        }
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

    fn rule(&self, short_digits: &mut Option<usize>) -> (Rule, Shown) {
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
        (rule, if is_cut { Shown::InPart } else { Shown::Whole })
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
        self.rule.matches.push(Match::Other(Box::new(Other { name: "listing".into(), text: word.into() })));
    }
}

#[cfg(test)]
mod tests;
