//! Rules from the words of a line: conditions in [`conditions`], statements in [`statements`], single words in [`scalars`].

mod conditions;
mod scalars;
mod statements;

use smallvec::smallvec;

pub(super) use self::scalars::{protocol, range, verdict};
use super::super::super::ast::Rule;
use super::super::super::statement::{Condition, Statement, Verdict};
use super::super::values;
use super::words::{Kind, Word};
use crate::cluster::{Family, Protocol};

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

/// The rule of the words of a line. From the first unknown word on the text is kept, because the end of an unknown expression is
/// unknown too.
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
        // What `reject` asks for is put before all that the rule does (nft's `reject_payload_gen_dependency`).
        let is_reject = first.is("reject");
        if rule.statements.is_empty() || is_reject {
            let implied = implied(words, first.text, within, part.is_some()).into_iter().flatten();
            let missing: Vec<_> = implied.filter(|one| !rule.conditions.iter().any(|known| asks(known, one))).collect();
            let at = if is_reject { 0 } else { rule.conditions.len() };
            rule.conditions.splice(at..at, missing);
        }
        let known = line.at;
        let text = |end: usize| Statement::Other(source[first.start..words[end - 1].end].into());
        match part {
            Some(Part::Condition(condition)) if rule.statements.is_empty() => rule.conditions.push(condition),
            // The statements before it are executed whether it holds or not.
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

/// The families of the table that rules are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    /// One family's.
    OneFamily,
    /// Those of `inet`, which packets of both families meet.
    BothFamilies,
}

/// The conditions that a part of a rule implies, by its first word: in tables of both families the family that has it; the protocol
/// where nothing more is known of it, or where only that one can be reset.
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
        "reject" if with("tcp") => Some(Condition::protocol(Protocol::Tcp)),
        _ if is_known => None,
        "icmp" => Some(Condition::Protocols { negated: false, numbers: smallvec![1] }),
        "icmpv6" => Some(Condition::Protocols { negated: false, numbers: smallvec![58] }),
        _ => protocol(first).map(Condition::protocol),
    };
    [family.filter(|_| within == Within::BothFamilies).map(Condition::Family), protocol]
}

/// Whether a condition implies another.
fn asks(known: &Condition, wanted: &Condition) -> bool {
    match known {
        Condition::Ports { protocol: Some(known), .. } if wanted.as_protocol().is_some() => {
            Some(*known) == wanted.as_protocol()
        }
        _ => known == wanted,
    }
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

    /// The next word, unless it is quoted; empty at the end.
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
                let chains = self.numgen("vmap", |line| match line.verdict()? {
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
                let ["{", "ip" | "ip6", side, "}"] = words else { return None };
                Some(Statement::Remember(values::side(side)?, set).into())
            }
            _ => {
                self.at -= 1;
                self.verdict().map(|verdict| Statement::Verdict(verdict).into())
            }
        }
    }
}
