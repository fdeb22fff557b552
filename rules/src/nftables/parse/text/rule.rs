//! Rules as they stand in a line.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use super::super::super::ast::Rule;
use super::super::super::name::Name;
use super::super::super::print::REFUSALS;
use super::super::super::ranges::AddressRange;
use super::super::super::statement::{
    Addresses, Condition, ConnectionState, LookupKey, MarkChange, Side, Statement, Verdict,
};
use super::super::values;
use super::words::{Kind, Word};
use crate::cluster::{Family, Protocol};
use crate::walk::Refusal;

/// What a piece of a rule is.
enum Part {
    Condition(Condition),
    Statement(Statement),
    /// It counts packets or writes of them, which changes nothing for them.
    Nothing,
}

impl From<Condition> for Part {
    fn from(condition: Condition) -> Self {
        Self::Condition(condition)
    }
}

impl From<Statement> for Part {
    fn from(statement: Statement) -> Self {
        Self::Statement(statement)
    }
}

/// The rule of the words of a line. From the first that is not understood on, their text is kept: nothing tells where an
/// expression ends that is not known.
pub(super) fn rule(source: &str, words: &[Word<'_>], within: Within) -> Rule {
    let (words, comment) = match words {
        [words @ .., word, comment] if word.is("comment") && comment.kind == Kind::Quoted => {
            (words, Some(comment.text.into()))
        }
        _ => (words, None),
    };
    let mut rule = Rule { comment, ..Rule::default() };
    let mut line = Line { words, at: 0 };
    while let Some(first) = line.words.get(line.at) {
        let part = line.part();
        if rule.statements.is_empty() {
            let implied = implied(words, first.text, within, part.is_some());
            rule.conditions
                .extend(implied.into_iter().flatten().filter(|one| !rule.conditions.contains(one)).collect::<Vec<_>>());
        }
        let known = line.at;
        let text = |end: usize| Statement::Other(source[first.start..words[end - 1].end].into());
        match part {
            Some(Part::Condition(condition)) if rule.statements.is_empty() => rule.conditions.push(condition),
            // Statements that stand before it are carried out whether it holds or not.
            Some(Part::Condition(_)) => rule.statements.push(text(known)),
            Some(Part::Statement(statement)) => rule.statements.push(statement),
            Some(Part::Nothing) => {}
            None => {
                rule.statements.push(text(words.len()));
                break;
            }
        }
    }
    rule
}

/// The tables that rules stand in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    /// One family's.
    OneFamily,
    /// Those of `inet`, which packets of both families meet.
    BothFamilies,
}

/// What a part of a rule asks for by itself, by its first word: in tables of both families the family that has it; the protocol
/// where nothing more is known of it.
fn implied(words: &[Word<'_>], first: &str, within: Within, is_known: bool) -> [Option<Condition>; 2] {
    let with = |kind: &str| words.windows(2).any(|pair| pair[0].is("with") && pair[1].is(kind));
    let family = match first {
        "ip" | "icmp" => Some(Family::Ipv4),
        "ip6" | "icmpv6" => Some(Family::Ipv6),
        "reject" if with("icmp") => Some(Family::Ipv4),
        "reject" if with("icmpv6") => Some(Family::Ipv6),
        _ => None,
    };
    let protocol = match first {
        _ if is_known => None,
        "icmp" => Some(Condition::Protocols { negated: false, numbers: vec![1] }),
        "icmpv6" => Some(Condition::Protocols { negated: false, numbers: vec![58] }),
        _ => protocol(first).map(Condition::Protocol),
    };
    [family.filter(|_| within == Within::BothFamilies).map(Condition::Family), protocol]
}

/// The words of a rule, and which of them is next.
struct Line<'w, 'a> {
    words: &'w [Word<'a>],
    at: usize,
}

impl<'a> Line<'_, 'a> {
    fn peek(&self) -> &'a str {
        self.words.get(self.at).filter(|word| word.kind != Kind::Quoted).map_or("", |word| word.text)
    }

    /// The next word, not one in quotes; empty at the end, which is no word that is looked for.
    fn next(&mut self) -> &'a str {
        let word = self.peek();
        self.at += 1;
        word
    }

    fn take(&mut self, text: &str) -> bool {
        let is = self.peek() == text;
        self.at += usize::from(is);
        is
    }

    /// None where it is not modelled.
    fn part(&mut self) -> Option<Part> {
        if let Some(key) = self.keyed() {
            return key;
        }
        match self.next() {
            "ct" => self.connection(),
            "meta" => {
                let word = self.next();
                self.meta(word)
            }
            word @ ("mark" | "iif" | "iifname" | "oif" | "oifname") => self.meta(word),
            "fib" => {
                let side = values::side(self.next())?;
                (self.next() == "type" && self.next() == "local").then(|| Condition::Local(side).into())
            }
            word @ ("tcp" | "udp" | "sctp") => self.ports(Some(protocol(word)?)),
            "th" => self.ports(None),
            "ip" | "ip6" => matches!(self.next(), "protocol" | "nexthdr").then(|| self.protocols())?,
            "log" => {
                while let "prefix" | "level" | "group" | "snaplen" | "queue-threshold" | "flags" = self.peek() {
                    self.at += 2;
                }
                (self.at <= self.words.len()).then_some(Part::Nothing)
            }
            "counter" => {
                if self.take("packets") {
                    self.at += 3;
                } else if self.take("name") {
                    self.at += 1;
                }
                (self.at <= self.words.len()).then_some(Part::Nothing)
            }
            "numgen" => {
                let count = self.numgen()?;
                (self.next() == "vmap").then_some(())?;
                let chains = self.numbered(count, |line| match line.verdict()? {
                    Verdict::Goto(chain) => Some(chain),
                    Verdict::Jump(_) | Verdict::Accept | Verdict::Drop | Verdict::Return => None,
                });
                Some(Statement::Balance(chains?).into())
            }
            "dnat" => self.dnat().map(Part::Statement),
            "snat" => self.snat().map(Part::Statement),
            "masquerade" => {
                let random = self.take("fully-random");
                (!self.has_more()).then_some(Statement::Masquerade { random }.into())
            }
            "reject" => self.reject().map(Part::Statement),
            "update" => {
                let set = values::set(self.next())?;
                let words = [self.next(), self.next(), self.next(), self.next()];
                let source = matches!(words, ["{", "ip" | "ip6", "saddr", "}"]);
                source.then_some(Statement::RememberSource(set).into())
            }
            _ => {
                self.at -= 1;
                self.verdict().map(|verdict| Statement::Verdict(verdict).into())
            }
        }
    }

    /// Whether more is said of a translation: ports, or how they are chosen.
    fn has_more(&self) -> bool {
        matches!(self.peek(), "," | "to" | ":" | "random" | "fully-random" | "persistent")
    }

    /// `a`, `a,b`, `{ a, b }`: what stands behind a comparison.
    fn several<T>(&mut self, read: impl Fn(&Word<'a>) -> Option<T>) -> Option<Vec<T>> {
        let braces = self.take("{");
        let mut values = Vec::new();
        loop {
            values.push(self.words.get(self.at).and_then(&read)?);
            self.at += 1;
            if !self.take(",") {
                break;
            }
        }
        let is_whole = if braces { self.take("}") } else { self.peek() != "|" };
        is_whole.then_some(values)
    }

    /// Behind `tcp` or `th`: `dport 80`, `sport != { 22, 80-90 }`.
    fn ports(&mut self, protocol: Option<Protocol>) -> Option<Part> {
        let side = match self.next() {
            "sport" => Side::Source,
            "dport" => Side::Destination,
            _ => return None,
        };
        let negated = self.negation();
        let ports = self.several(|word| ports(word.text))?;
        Some(match (protocol, side, negated, ports.as_slice()) {
            (Some(protocol), Side::Destination, false, [range]) if range.start() == range.end() => {
                Condition::DestinationPort(protocol, *range.start()).into()
            }
            _ => Condition::Ports { protocol, side, negated, ports }.into(),
        })
    }

    /// Behind `meta l4proto` or `ip protocol`.
    fn protocols(&mut self) -> Option<Part> {
        let negated = self.negation();
        let numbers = self.several(|word| protocol_number(word.text))?;
        let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
        Some(match numbers.as_slice() {
            [number] if !negated => match all.into_iter().find(|protocol| protocol.number() == *number) {
                Some(protocol) => Condition::Protocol(protocol).into(),
                None => Condition::Protocols { negated, numbers }.into(),
            },
            _ => Condition::Protocols { negated, numbers }.into(),
        })
    }

    /// What starts with a key that the packet makes; none where no such key comes next.
    fn keyed(&mut self) -> Option<Option<Part>> {
        let start = self.at;
        let mut key: Vec<LookupKey> = Vec::new();
        loop {
            let Some(part) = self.key_part() else {
                self.at = start;
                return None;
            };
            key.push(part);
            if !self.take(".") {
                break;
            }
        }
        if self.take("vmap") {
            return Some(values::set(self.next()).map(|map| Statement::Lookup(key, map).into()));
        }
        Some(match *key.as_slice() {
            [LookupKey::Address(side)] => self.addresses(side),
            [LookupKey::Protocol] => self.protocols(),
            [LookupKey::DestinationPort] if values::set(self.peek()).is_none() => {
                self.at = start + 1;
                self.ports(None)
            }
            _ => values::set(self.next()).map(|set| Condition::InSet(key, set).into()),
        })
    }

    fn key_part(&mut self) -> Option<LookupKey> {
        match (self.next(), self.next()) {
            ("ip" | "ip6", field) => values::side(field).map(LookupKey::Address),
            ("meta", "l4proto") => Some(LookupKey::Protocol),
            ("th", "dport") => Some(LookupKey::DestinationPort),
            _ => None,
        }
    }

    fn addresses(&mut self, side: Side) -> Option<Part> {
        let negated = self.negation();
        let value = if self.take("{") {
            let mut ranges = vec![range(self.next())?];
            while self.take(",") {
                ranges.push(range(self.next())?);
            }
            (self.next() == "}").then_some(Addresses::Ranges(ranges))?
        } else {
            let word = self.next();
            match (values::set(word), word.parse::<IpAddr>(), word.parse()) {
                (Some(set), ..) => Addresses::Set(set),
                (None, Ok(address), _) => Addresses::One(address),
                (None, Err(_), Ok(prefix)) => Addresses::Prefix(prefix),
                _ => Addresses::Ranges(vec![range(word)?]),
            }
        };
        Some(Condition::Address { side, negated, value }.into())
    }

    /// Takes `!=` or `==`.
    fn negation(&mut self) -> bool {
        let negated = self.take("!=");
        self.take("==");
        negated
    }

    fn connection(&mut self) -> Option<Part> {
        match self.next() {
            "state" => {
                let negated = self.negation();
                let is_set = self.peek() == "{";
                let states =
                    self.several(|word| ConnectionState::ALL.into_iter().find(|state| word.text == state.as_str()))?;
                // `!= new,established` compares all bits at once, of which a packet has one only.
                let is_plain = !negated || is_set || states.len() == 1;
                is_plain.then_some(Condition::State { negated, states }.into())
            }
            "status" => (self.next() == "dnat" && self.peek() != ",").then_some(Condition::Translated.into()),
            _ => None,
        }
    }

    /// What stands behind `meta`, which nft leaves out before some of it.
    fn meta(&mut self, word: &str) -> Option<Part> {
        match word {
            "mark" => self.mark(),
            "iif" | "iifname" | "oif" | "oifname" => {
                let negated = self.negation();
                let mut names: Vec<Box<str>> =
                    self.several(|word| (word.kind != Kind::Sign).then(|| word.text.into()))?;
                let (output, by_name) = (word.starts_with('o'), word.ends_with("name"));
                Some(match names.len() {
                    1 if !output && by_name => Condition::InInterfaceName { negated, name: names.remove(0) }.into(),
                    1 if !output => Condition::InInterface { negated, name: names.remove(0) }.into(),
                    _ => Condition::Interfaces { output, by_name, negated, names }.into(),
                })
            }
            "nfproto" => match self.next() {
                "ipv4" => Some(Condition::Family(Family::Ipv4).into()),
                "ipv6" => Some(Condition::Family(Family::Ipv6).into()),
                _ => None,
            },
            _ => None,
        }
    }

    fn mark(&mut self) -> Option<Part> {
        match self.next() {
            "&" | "and" => {
                let mask = number(self.next())?;
                let negated = self.negation();
                Some(match number(self.next())? {
                    0 => Condition::Mark { set: negated, bit: mask }.into(),
                    value => Condition::Marked { negated, mask, value }.into(),
                })
            }
            "set" => self.mark_change().map(|change| Statement::Mark(change).into()),
            _ => {
                self.at -= 1;
                let negated = self.negation();
                let value = number(self.next())?;
                (self.peek() != ",").then_some(Condition::Marked { negated, mask: u32::MAX, value }.into())
            }
        }
    }

    /// Behind `meta mark set`: a number, or `meta mark` with bits that are kept, set or turned over.
    fn mark_change(&mut self) -> Option<MarkChange> {
        self.take("meta");
        if !self.take("mark") {
            return number(self.next()).map(|set| MarkChange::Write { kept: 0, set });
        }
        let word = self.next();
        let bits = number(self.next())?;
        Some(match word {
            "|" | "or" => MarkChange::Set(bits),
            "^" | "xor" => MarkChange::Flip(bits),
            "&" | "and" if self.take("|") || self.take("or") => {
                MarkChange::Write { kept: bits, set: number(self.next())? }
            }
            "&" | "and" => MarkChange::Write { kept: bits, set: 0 },
            _ => return None,
        })
    }

    fn verdict(&mut self) -> Option<Verdict> {
        verdict(self.next(), || self.next())
    }

    /// `random mod N`, behind `numgen`.
    fn numgen(&mut self) -> Option<usize> {
        (self.next() == "random" && self.next() == "mod").then(|| self.next().parse().ok()).flatten()
    }

    /// `{ 0 : a, 1 : b }`: a value for every number below the count.
    fn numbered<T>(&mut self, count: usize, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        self.take("{").then_some(())?;
        let mut values: Vec<(usize, T)> = Vec::new();
        loop {
            let number = self.next().parse().ok()?;
            self.take(":").then_some(())?;
            values.push((number, read(self)?));
            if !self.take(",") {
                break;
            }
        }
        values.sort_by_key(|(number, _)| *number);
        let complete = self.take("}") && values.iter().map(|(number, _)| *number).eq(0..count);
        complete.then(|| values.into_iter().map(|(_, value)| value).collect())
    }

    /// Behind `dnat`: `to 10.0.0.1:80`, or `ip to numgen random mod 1 map { 0 : 10.0.0.1 . 80 }`. Earlier releases of nft
    /// show `ip addr . port to` there.
    fn dnat(&mut self) -> Option<Statement> {
        if self.take("ip") || self.take("ip6") {
            let _ = self.take("addr") && self.take(".") && self.take("port");
        }
        self.take("to").then_some(())?;
        if !self.take("numgen") {
            let word = self.next();
            let to_address = || word.parse().ok().map(Statement::DnatAddress);
            return word.parse().ok().map(Statement::Dnat).or_else(to_address).filter(|_| !self.has_more());
        }
        let count = self.numgen()?;
        (self.next() == "map").then_some(())?;
        let destinations = self.numbered(count, |line| {
            let address: IpAddr = line.next().parse().ok()?;
            line.take(".").then_some(())?;
            Some(SocketAddr::new(address, line.next().parse().ok()?))
        });
        destinations.map(Statement::BalanceDnat)
    }

    /// Behind `snat`: `to 10.0.0.1`, `to 10.0.0.1:80`.
    fn snat(&mut self) -> Option<Statement> {
        let _ = self.take("ip") || self.take("ip6");
        self.take("to").then_some(())?;
        let word = self.next();
        let with_port = || word.parse::<SocketAddr>().ok().map(|to| Statement::Snat(to.ip(), Some(to.port())));
        let to = word.parse().ok().map(|address| Statement::Snat(address, None));
        to.or_else(with_port).filter(|_| !self.has_more())
    }

    fn reject(&mut self) -> Option<Statement> {
        if !self.take("with") {
            return Some(Statement::Reject(Refusal::PortUnreachable));
        }
        let kind = self.next();
        self.take("type");
        let word = self.next();
        let of = |family: Family| {
            let is = |(of, _, known): &&(Family, Refusal, &str)| *of == family && *known == word;
            REFUSALS.iter().find(is).map(|(_, refusal, _)| *refusal)
        };
        let refusal = match kind {
            "tcp" => (word == "reset").then_some(Refusal::TcpReset),
            "icmp" => of(Family::Ipv4),
            "icmpv6" => of(Family::Ipv6),
            // What both families have, by names of its own (`nft_reject_icmpv6_code`).
            "icmpx" => match word {
                "port-unreachable" | "admin-prohibited" | "no-route" => of(Family::Ipv6),
                "host-unreachable" => Some(Refusal::HostUnreachable),
                _ => None,
            },
            _ => None,
        };
        refusal.map(Statement::Reject)
    }
}

/// A verdict by its first word; the other is asked for where there is one.
pub(super) fn verdict<'a>(word: &str, chain: impl FnOnce() -> &'a str) -> Option<Verdict> {
    let chain = || Some(Name::from(chain())).filter(|name| !name.is_empty());
    match word {
        "accept" => Some(Verdict::Accept),
        "drop" => Some(Verdict::Drop),
        "return" => Some(Verdict::Return),
        "jump" => chain().map(Verdict::Jump),
        "goto" => chain().map(Verdict::Goto),
        _ => None,
    }
}

/// `tcp`, or 6 as `nft -n` shows it.
pub(super) fn protocol(word: &str) -> Option<Protocol> {
    let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    all.into_iter().find(|protocol| word == protocol.as_str() || word.parse() == Ok(protocol.number()))
}

/// `10.0.0.1`, `10.0.0.0/8` or `10.0.0.1-10.0.0.3`.
pub(super) fn range(word: &str) -> Option<AddressRange> {
    if let Some((first, last)) = word.split_once('-') {
        let (first, last): (IpAddr, IpAddr) = (first.parse().ok()?, last.parse().ok()?);
        return (first.is_ipv4() == last.is_ipv4() && first <= last).then_some(AddressRange { first, last });
    }
    let address = word.parse::<IpAddr>().map(AddressRange::from);
    address.or_else(|_| word.parse::<ipnet::IpNet>().map(AddressRange::from)).ok()
}

/// `80` or `80-90`.
fn ports(word: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(first..=last)
}

/// The number of a protocol by its name in `/etc/protocols`, or as it is.
fn protocol_number(word: &str) -> Option<u8> {
    const NAMES: [(&str, u8); 13] = [
        ("icmp", 1),
        ("igmp", 2),
        ("tcp", 6),
        ("udp", 17),
        ("dccp", 33),
        ("gre", 47),
        ("esp", 50),
        ("ah", 51),
        ("ipv6-icmp", 58),
        ("icmpv6", 58),
        ("vrrp", 112),
        ("sctp", 132),
        ("udplite", 136),
    ];
    let named = NAMES.iter().find(|(name, _)| *name == word).map(|(_, number)| *number);
    named.or_else(|| word.parse().ok())
}

/// `16384` or `0x00004000`.
fn number(word: &str) -> Option<u32> {
    match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}
