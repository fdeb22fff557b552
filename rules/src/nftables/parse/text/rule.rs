//! Rules as they stand in a line.

use std::net::{IpAddr, SocketAddr};

use super::super::super::ast::Rule;
use super::super::super::name::Name;
use super::super::super::ranges::AddressRange;
use super::super::super::statement::{Addresses, Condition, LookupKey, MarkChange, Side, Statement, Verdict};
use super::super::values;
use super::words::{Kind, Word};
use crate::cluster::Protocol;

/// What a piece of a rule is.
enum Part {
    Condition(Condition),
    Statement(Statement),
    /// It counts packets, which changes nothing for them.
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
pub(super) fn rule(source: &str, words: &[Word<'_>]) -> Rule {
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

    fn quoted(&mut self) -> Option<Box<str>> {
        let word = self.words.get(self.at).filter(|word| word.kind == Kind::Quoted)?;
        self.at += 1;
        Some(word.text.into())
    }

    /// None where it is nothing that kube-proxy writes.
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
            word @ ("mark" | "iif" | "iifname") => self.meta(word),
            "fib" => {
                let side = values::side(self.next())?;
                (self.next() == "type" && self.next() == "local").then(|| Condition::Local(side).into())
            }
            word @ ("tcp" | "udp" | "sctp") => {
                let port = (self.next() == "dport").then(|| self.next().parse().ok()).flatten()?;
                self.is_alone().then_some(Condition::DestinationPort(protocol(word)?, port).into())
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
            "masquerade" => (self.next() == "fully-random" && self.is_alone()).then_some(Statement::Masquerade.into()),
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

    /// Whether the word that was taken is not the first of a list.
    fn is_alone(&self) -> bool {
        !matches!(self.peek(), ",")
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
            [LookupKey::Protocol] => {
                let protocol = protocol(self.next());
                protocol.filter(|_| self.is_alone()).map(|protocol| Condition::Protocol(protocol).into())
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
        let condition = match (self.next(), self.next()) {
            ("state", "new") => Condition::New,
            ("status", "dnat") => Condition::Translated,
            _ => return None,
        };
        self.is_alone().then_some(condition.into())
    }

    /// What stands behind `meta`, which nft leaves out before some of it.
    fn meta(&mut self, word: &str) -> Option<Part> {
        match word {
            "mark" => self.mark(),
            "iif" => {
                let negated = self.negation();
                Some(Condition::InInterface { negated, name: self.quoted()? }.into())
            }
            "iifname" => {
                let negated = self.negation();
                Some(Condition::InInterfaceName { negated, name: self.quoted()? }.into())
            }
            _ => None,
        }
    }

    fn mark(&mut self) -> Option<Part> {
        match self.next() {
            "&" | "and" => {
                let bit = number(self.next())?;
                let set = match self.next() {
                    "!=" => true,
                    "==" => false,
                    _ => return None,
                };
                (number(self.next())? == 0).then_some(Condition::Mark { set, bit }.into())
            }
            "set" => {
                self.take("meta");
                self.take("mark").then_some(())?;
                let change = match self.next() {
                    "|" | "or" => MarkChange::Set,
                    "^" | "xor" => MarkChange::Flip,
                    _ => return None,
                };
                Some(Statement::Mark(change(number(self.next())?)).into())
            }
            _ => None,
        }
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
            return self.next().parse().ok().map(Statement::Dnat);
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

    fn reject(&mut self) -> Option<Statement> {
        if !self.take("with") {
            return Some(Statement::Reject);
        }
        let is_icmp = matches!(self.next(), "icmp" | "icmpv6");
        self.take("type");
        (is_icmp && self.next() == "port-unreachable").then_some(Statement::Reject)
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

fn range(word: &str) -> Option<AddressRange> {
    if let Some((first, last)) = word.split_once('-') {
        let (first, last): (IpAddr, IpAddr) = (first.parse().ok()?, last.parse().ok()?);
        return (first.is_ipv4() == last.is_ipv4() && first <= last).then_some(AddressRange { first, last });
    }
    let address = word.parse::<IpAddr>().map(AddressRange::from);
    address.or_else(|_| word.parse::<ipnet::IpNet>().map(AddressRange::from)).ok()
}

/// `16384` or `0x00004000`.
fn number(word: &str) -> Option<u32> {
    match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}
