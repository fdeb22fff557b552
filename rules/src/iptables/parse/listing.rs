//! What `iptables -L` shows, with `-n`, `-v` and `--line-numbers` or without, back to rules.
//!
//! A listing is made for people. It does not say which table it is of, hides interfaces without `-v`, and names what
//! svclab does not read of it in words of each extension's own; such a rule keeps them as a match that is not
//! modelled. Probabilities have eleven digits, as in `iptables-save`, from which the 31 bits follow exactly. (iptables
//! before 1.4.20 showed six, which leave thousands of thresholds open.)

mod action;
mod condition;
mod unfold;

use std::net::IpAddr;

use super::super::ast::{Chain, Policy, Rule, RuleSet, TableName};
use super::super::matches::{Match, Other, PortRange, Ports, Probability, Recent, RecentAction, Statistic, TcpFlags};
use super::super::target::{Nat, Target};
use super::super::values::Negatable;
use super::values;
use crate::cluster::{Family, Protocol, ProtocolNumber};
use action::Action;
use condition::condition;

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

/// Reads the chains of a listing, and leaves out what stands between them: prompts, prose, empty lines. Lines may have been joined. A chain that is listed
/// again counts where it has more rules than before. `None` where there is no chain.
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

    /// How many words stand before a rule's target.
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

/// How much of a rule a line shows.
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
    /// What extensions say.
    words: &'a [&'a str],
}

impl<'a> Row<'a> {
    /// None where the words are no rule.
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

    /// Whether the words, which are no whole row, begin as one does.
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
            action: Action::default(),
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

/// Reads what extensions say of a rule.
struct Words<'a, 'r> {
    words: &'a [&'a str],
    rule: &'r mut Rule,
    /// The name of the rule's target, and what is said of it.
    target: Option<&'a str>,
    action: Action,
    /// Whether all words were understood, and whether the last ones are the beginning of something.
    is_known: bool,
    is_cut: bool,
    short_digits: &'r mut Option<usize>,
}

impl Words<'_, '_> {
    fn read(&mut self) {
        while let [word, rest @ ..] = self.words {
            let taken = self.extension(word, rest).unwrap_or_else(|| {
                self.is_known = false;
                self.is_cut |= is_begun(word, rest);
                self.unknown(word);
                0
            });
            self.words = rest.get(taken..).unwrap_or_default();
        }
    }

    /// Reads what begins with a word, and tells how many words more were taken; none where it is not known.
    fn extension(&mut self, word: &str, rest: &[&str]) -> Option<usize> {
        let protocol = word.parse::<Protocol>().ok();
        match (word, rest) {
            ("/*", _) => {
                let end = rest.iter().position(|word| *word == "*/")?;
                self.rule.matches.push(Match::Comment(rest[..end].join(" ").into()));
                Some(end + 1)
            }
            ("statistic", ["mode", "random", "probability", number, ..]) => {
                self.probability(number, false)?;
                Some(4)
            }
            ("statistic", ["mode", "random", "!", "probability", number, ..]) => {
                self.probability(number, true)?;
                Some(5)
            }
            ("recent:", _) => self.recent(rest, false),
            ("!", ["recent:", rest @ ..]) => self.recent(rest, true).map(|taken| taken + 1),
            _ if protocol.is_some() => self.ports(protocol?, rest),
            _ => {
                let words = self.words;
                if let Some((condition, length)) = condition(words) {
                    self.rule.matches.push(condition);
                    return Some(length - 1);
                }
                self.action.read(self.target, words).map(|length| length - 1)
            }
        }
    }

    fn probability(&mut self, number: &str, negated: bool) -> Option<()> {
        let probability = Probability::from_number(number.parse().ok()?)?;
        let digits = number.split_once('.').map_or(0, |(_, digits)| digits.len());
        let follows = digits >= EXACT_DIGITS || probability.threshold().trailing_zeros() >= 24;
        if !follows {
            *self.short_digits = Some(self.short_digits.map_or(digits, |short| short.min(digits)));
        }
        self.rule.matches.push(Match::Statistic(Statistic::Random(Negatable { negated, value: probability })));
        Some(())
    }

    /// `tcp dpt:80`, `udp spts:1000:2000 dpt:!53`, `tcp flags:0x17/0x02`; a protocol alone says that the header is there.
    fn ports(&mut self, protocol: Protocol, words: &[&str]) -> Option<usize> {
        let mut ports = Ports::any(protocol);
        let mut taken = 0;
        while let Some((side, text)) = words.get(taken).and_then(|word| word.split_once(':')) {
            let (negated, text) = text.strip_prefix('!').map_or((false, text), |text| (true, text));
            match side {
                "dpt" | "dpts" => ports.destination = Some(Negatable { negated, value: range(text)? }),
                "spt" | "spts" => ports.source = Some(Negatable { negated, value: range(text)? }),
                "flags" => ports.flags = Some(Negatable { negated, value: flags(text)? }),
                _ => break,
            }
            taken += 1;
        }
        self.rule.matches.push(Match::Ports(ports));
        Some(taken)
    }

    /// `recent: CHECK seconds: 10800 reap name: NAME side: source mask: 255.255.255.255`.
    fn recent(&mut self, words: &[&str], negated: bool) -> Option<usize> {
        let action = match *words.first()? {
            "SET" => RecentAction::Set,
            "CHECK" => RecentAction::Check,
            "UPDATE" => RecentAction::Update,
            "REMOVE" => RecentAction::Remove,
            _ => return None,
        };
        let at = |key: &str| words.iter().position(|word| *word == key);
        let value = |key: &str| at(key).and_then(|at| words.get(at + 1)).copied();
        let mask = value("mask:").and_then(|mask| mask.parse().ok());
        // `--name` takes no option for a name, and rules are saved without quotes around it.
        let name = value("name:").filter(|name| !name.starts_with(['-', '!']) && !name.contains(['"', '\'', '\\']))?;
        self.rule.matches.push(Match::Recent(Box::new(Recent {
            action: Negatable { negated, value: action },
            seconds: value("seconds:").and_then(|seconds| seconds.parse().ok()),
            reap: words.contains(&"reap"),
            hit_count: value("hit_count:").and_then(|count| count.parse().ok()),
            same_ttl: words.contains(&"TTL-Match"),
            name: name.into(),
            mask: mask.unwrap_or(IpAddr::from([255; 4])),
            destination: value("side:") == Some("dest"),
        })));
        let last = at("mask:").or_else(|| at("side:")).or_else(|| at("name:"));
        Some(last.map_or(1, |at| at + 2))
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
            // The name of a machine or network, which only the machine that was listed can tell.
            None => self.unknown(word),
            Some(network) if is_source => self.rule.source = Some(network),
            Some(network) => self.rule.destination = Some(network),
        }
    }

    fn unknown(&mut self, word: &str) {
        self.rule.matches.push(Match::Other(Box::new(Other { name: "listing".into(), text: word.into() })));
    }
}

/// `80`, `http`, `1000:2000`.
fn range(text: &str) -> Option<PortRange> {
    let (first, last) = text.split_once(':').unwrap_or((text, text));
    Some(PortRange { first: port(first)?, last: port(last)? })
}

/// `0x17/0x02`, or without `-n` `FIN,SYN,RST,ACK/SYN`.
fn flags(text: &str) -> Option<TcpFlags> {
    let (mask, set) = text.split_once('/')?;
    let bits = |text: &str| match text.starts_with("0x") {
        true => u8::try_from(values::number(text)?).ok(),
        false => values::tcp_flags(text),
    };
    Some(TcpFlags { mask: bits(mask)?, set: bits(set)? })
}

/// A port by its number, or by the name that a listing without `-n` has for it in `/etc/services`, of those that Services often have.
fn port(text: &str) -> Option<u16> {
    const NAMES: [(&str, u16); 16] = [
        ("http", 80),
        ("https", 443),
        ("domain", 53),
        ("http-alt", 8080),
        ("webcache", 8080),
        ("ssh", 22),
        ("smtp", 25),
        ("ntp", 123),
        ("imap2", 143),
        ("ldap", 389),
        ("mysql", 3306),
        ("postgresql", 5432),
        ("amqp", 5672),
        ("sip", 5060),
        ("redis", 6379),
        ("git", 9418),
    ];
    let known = NAMES.iter().find(|(name, _)| *name == text);
    known.map_or_else(|| text.parse().ok(), |(_, number)| Some(*number))
}

#[cfg(test)]
mod tests;
