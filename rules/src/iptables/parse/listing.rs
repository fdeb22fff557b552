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
use super::super::values::{Negatable, ProtocolNumber};
use super::values;
use crate::cluster::{Family, Protocol};
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
        let protocol = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter().find(|own| own.as_str() == word);
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
        self.rule.matches.push(Match::Recent(Box::new(Recent {
            action: Negatable { negated, value: action },
            seconds: value("seconds:").and_then(|seconds| seconds.parse().ok()),
            reap: words.contains(&"reap"),
            hit_count: value("hit_count:").and_then(|count| count.parse().ok()),
            same_ttl: words.contains(&"TTL-Match"),
            name: value("name:").unwrap_or_default().into(),
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
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::iptables::parse;

    /// What `iptables-save` of 1.8.9 showed of the rules whose listings stand below.
    const SAVED: &str = r#"*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-A - [0:0]
:KUBE-SEP-B - [0:0]
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "default/foo cluster IP" -m tcp --dport 80 -j KUBE-SVC-A
-A KUBE-SVC-A -m comment --comment "default/foo" -m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-B --mask 255.255.255.255 --rsource -j KUBE-SEP-B
-A KUBE-SVC-A -m comment --comment "default/foo" -m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-B
-A KUBE-SEP-B -p tcp -m comment --comment "default/foo" -m recent --set --name KUBE-SEP-B --mask 255.255.255.255 --rsource -m tcp -j DNAT --to-destination 10.0.0.1:80
COMMIT
"#;

    #[rstest]
    #[case::numeric(
        "Chain KUBE-SERVICES (2 references)
target     prot opt source               destination
KUBE-SVC-A  6    --  0.0.0.0/0            10.96.0.1            /* default/foo cluster IP */ tcp dpt:80

Chain KUBE-SVC-A (1 references)
target     prot opt source               destination
KUBE-SEP-B  0    --  0.0.0.0/0            0.0.0.0/0            /* default/foo */ recent: CHECK seconds: 10800 reap name: KUBE-SEP-B side: source mask: 255.255.255.255
KUBE-SEP-B  0    --  0.0.0.0/0            0.0.0.0/0            /* default/foo */ statistic mode random probability 0.33333333349

Chain KUBE-SEP-B (2 references)
target     prot opt source               destination
DNAT       6    --  0.0.0.0/0            0.0.0.0/0            /* default/foo */ recent: SET name: KUBE-SEP-B side: source mask: 255.255.255.255 tcp to:10.0.0.1:80
"
    )]
    #[case::with_names_and_bullets(
        "root@worker:~# iptables -t nat -L

Chain KUBE-SERVICES (2 references)

target     prot opt source               destination

  • KUBE-SVC-A  tcp  --  anywhere             10.96.0.1            /* default/foo cluster IP */ tcp dpt:http

As can be seen above, there is one service.

Chain KUBE-SVC-A (1 references)
target prot opt source destination
KUBE-SEP-B all -- anywhere anywhere /* default/foo */ recent: CHECK seconds: 10800 reap name: KUBE-SEP-B side: source mask: 255.255.255.255
KUBE-SEP-B all -- anywhere anywhere /* default/foo */ statistic mode random probability 0.33333333349
Chain KUBE-SEP-B (2 references)
target prot opt source destination
DNAT tcp -- anywhere anywhere /* default/foo */ recent: SET name: KUBE-SEP-B side: source mask: 255.255.255.255 tcp to:10.0.0.1:80
"
    )]
    #[case::with_counters_and_numbers(
        "Chain KUBE-SERVICES (2 references)
num   pkts bytes target     prot opt in     out     source               destination
1       12K   1M KUBE-SVC-A  tcp  --  *      *       0.0.0.0/0            10.96.0.1            /* default/foo cluster IP */ tcp dpt:80

Chain KUBE-SVC-A (1 references)
num   pkts bytes target     prot opt in     out     source               destination
1        0     0 KUBE-SEP-B  all  --  *      *       0.0.0.0/0            0.0.0.0/0            /* default/foo */ recent: CHECK seconds: 10800 reap name: KUBE-SEP-B side: source mask: 255.255.255.255
2        0     0 KUBE-SEP-B  all  --  *      *       0.0.0.0/0            0.0.0.0/0            /* default/foo */ statistic mode random probability 0.33333333349

Chain KUBE-SEP-B (2 references)
num   pkts bytes target     prot opt in     out     source               destination
1        0     0 DNAT       tcp  --  *      *       0.0.0.0/0            0.0.0.0/0            /* default/foo */ recent: SET name: KUBE-SEP-B side: source mask: 255.255.255.255 tcp to:10.0.0.1:80
"
    )]
    fn a_listing_has_the_rules_that_were_saved(#[case] listing: &str) {
        let saved = parse(SAVED, Family::Ipv4).unwrap_or_else(|errors| panic!("{errors:?}")).rules;
        let read = parse_listing(listing).unwrap();
        assert_eq!(read.rules, saved);
        assert_eq!(read.short_digits, None);
        // As on pages that have lost all line ends: prose between rows cannot be told from them then.
        let without_prose = listing.replace("As can be seen above, there is one service.\n", "");
        let joined = without_prose.replace("\n\n", " root@worker:~# iptables -t nat -L ").replace('\n', " ");
        assert_eq!(parse_listing(&joined).unwrap().rules, saved, "{joined}");
    }

    #[test]
    fn what_is_not_known_is_no_condition_that_always_holds() {
        let text = "Chain A (1 references)\ntarget prot opt source destination\nB all -- worker1.example anywhere time from 08:00";
        let listing = parse_listing(text).unwrap();
        let rule = &listing.rules.rules(TableName::Nat, "A")[0];
        let words: Vec<&str> =
            rule.matches.iter().map(|one| if let Match::Other(other) = one { &*other.text } else { "" }).collect();
        assert_eq!(words, ["worker1.example", "time", "from", "08:00"]);
    }

    #[rstest]
    #[case::six("0.333333", Some(6))]
    #[case::as_written("0.33333", Some(5))]
    #[case::half("0.50000", None)]
    #[case::now("0.33333333349", None)]
    fn short_probabilities_are_told(#[case] number: &str, #[case] digits: Option<usize>) {
        let text =
            format!("Chain A (1 references)\nB all -- anywhere anywhere statistic mode random probability {number}");
        assert_eq!(parse_listing(&text).unwrap().short_digits, digits);
    }

    #[test]
    fn ipv6_has_no_option_column() {
        let text = "Chain KUBE-SEP-A (1 references)\ntarget     prot opt source               destination\n\
                    DNAT       tcp      anywhere             anywhere             tcp to:[fd00::2]:80";
        let listing = parse_listing(text).unwrap();
        assert_eq!(listing.rules.family, Family::Ipv6);
        assert!(matches!(&listing.rules.rules(TableName::Nat, "KUBE-SEP-A")[0].target, Some(Target::Dnat(_))));
    }

    /// A row of a listing that was copied or shown in part, after rows that are whole.
    #[rstest]
    #[case::no_destination("DNAT  tcp  --  anywhere  anywhere  /* default/foo */ tcp")]
    #[case::no_answer("REJECT  tcp  --  anywhere  10.96.0.2  tcp dpt:80")]
    #[case::no_mark("MARK  all  --  anywhere  anywhere")]
    #[case::comment("KUBE-SEP-B  all  --  anywhere  anywhere  /* default/foo")]
    #[case::probability("KUBE-SEP-B  all  --  anywhere  anywhere  statistic mode random")]
    #[case::columns("KUBE-SEP-B  all  --  anywhere")]
    fn a_row_that_is_cut_off_is_told(#[case] row: &str) {
        let whole = "Chain KUBE-SEP-A (1 references)\ntarget prot opt source destination\n\
                     MASQUERADE  all  --  anywhere  anywhere\n\
                     DNAT  tcp  --  anywhere  anywhere  tcp to:10.0.0.1:80\n";
        let listing = parse_listing(whole).unwrap();
        assert_eq!(listing.cut, None);
        assert_eq!(parse(&crate::iptables::print(&listing.rules), Family::Ipv4).unwrap().rules, listing.rules);
        let listing = parse_listing(&format!("{whole}{row}\n")).unwrap();
        assert_eq!(listing.cut, Some(5));
        let rule = &listing.rules.rules(TableName::Nat, "KUBE-SEP-A").get(2);
        assert!(rule.is_none_or(|rule| rule.matches.iter().any(|one| matches!(one, Match::Other(_)))), "{rule:?}");
    }

    /// A listing keeps them; rules are refused with them.
    #[rstest]
    #[case::nothing("a\0b")]
    #[case::bell("a\u{7}b")]
    fn control_characters_of_comments_are_refused_when_printed_and_read(#[case] comment: &str) {
        let text =
            format!("Chain KUBE-SVC-A (1 references)\nKUBE-SEP-B  all  --  anywhere  anywhere  /* {comment} */\n");
        let listing = parse_listing(&text).unwrap();
        assert_eq!(listing.rules.rules(TableName::Nat, "KUBE-SVC-A")[0].comment(), Some(comment));
        let errors = parse(&crate::iptables::print(&listing.rules), Family::Ipv4).expect_err("it is refused");
        assert!(errors[0].message.starts_with("the control character"), "{errors:?}");
    }

    #[test]
    fn prose_has_no_chains() {
        assert_eq!(parse_listing("Chain of events (as seen)\nall -- is well"), None);
    }

    /// What extensions say, in the words of their listings and of `iptables-save`.
    #[rstest]
    #[case::or("MARK", "MARK or 0x4000", "-j MARK --set-xmark 0x4000/0x4000")]
    #[case::xor("MARK", "MARK xor 0x4000", "-j MARK --set-xmark 0x4000/0x0")]
    #[case::and("MARK", "MARK and 0xffffbfff", "-j MARK --set-xmark 0x0/0x4000")]
    #[case::set("MARK", "MARK set 0x1", "-j MARK --set-xmark 0x1/0xffffffff")]
    #[case::xset("MARK", "MARK xset 0x4000/0xff00", "-j MARK --set-xmark 0x4000/0xff00")]
    #[case::random_fully(
        "MASQUERADE",
        "masq ports: 1024-2048 random-fully",
        "-j MASQUERADE --to-ports 1024-2048 --random-fully"
    )]
    #[case::redirect("REDIRECT", "redir ports 8080", "-j REDIRECT --to-ports 8080")]
    #[case::reject("REJECT", "reject-with icmp-port-unreachable", "-j REJECT --reject-with icmp-port-unreachable")]
    #[case::range(
        "DNAT",
        "to:10.0.0.1-10.0.0.5:80-90 random persistent",
        "-j DNAT --to-destination 10.0.0.1-10.0.0.5:80-90 --random --persistent"
    )]
    #[case::source("SNAT", "to:192.0.2.1", "-j SNAT --to-source 192.0.2.1")]
    #[case::goto("A", "[goto] ", "-g A")]
    #[case::mark("RETURN", "mark match ! 0x4000/0x4000", "-m mark ! --mark 0x4000/0x4000 -j RETURN")]
    #[case::type_of_address(
        "A",
        "ADDRTYPE match src-type !LOCAL dst-type LOCAL",
        "-m addrtype ! --src-type LOCAL --dst-type LOCAL -j A"
    )]
    #[case::state("A", "! ctstate INVALID,NEW", "-m conntrack ! --ctstate INVALID,NEW -j A")]
    #[case::old_state("A", "state ESTABLISHED", "-m state --state ESTABLISHED -j A")]
    #[case::members("A", "match-set KUBE-X dst,dst", "-m set --match-set KUBE-X dst,dst -j A")]
    #[case::accounting("A", "nfacct-name  localhost_nps", "-m nfacct --nfacct-name localhost_nps -j A")]
    #[case::bridge(
        "A",
        "PHYSDEV match ! --physdev-in veth0 --physdev-is-bridged",
        "-m physdev ! --physdev-in veth0 --physdev-is-bridged -j A"
    )]
    #[case::several("A", "multiport dports 80,8000:8080", "-m multiport --dports 80,8000:8080 -j A")]
    #[case::nth("A", "statistic mode nth every 3 packet 1", "-m statistic --mode nth --every 3 --packet 1 -j A")]
    fn extensions_are_read_in_the_words_of_listings(#[case] target: &str, #[case] said: &str, #[case] saved: &str) {
        let text = format!("Chain B (1 references)\n{target} 0 -- 0.0.0.0/0 0.0.0.0/0 {said}");
        let listing = parse_listing(&text).unwrap();
        assert_eq!(listing.cut, None);
        assert_eq!(
            listing.rules.rules(TableName::Nat, "B"),
            [crate::iptables::parse_rule(saved, Family::Ipv4).unwrap()]
        );
    }
}
