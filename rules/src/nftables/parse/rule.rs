//! Parsing of rules from the words of a line, or from JSON expressions.

use serde_json::value::RawValue;
use smallvec::smallvec;

use super::super::ast::Rule;
use super::super::conditions::{self, Condition, Ports, Protocols};
use super::super::statements::{self, Statement};
use super::super::text::{self, Kind, Line, Word, Words};
use super::expression;
use crate::cluster::{Family, Protocol, ProtocolNumber};

/// A part of a rule.
enum Part {
    Condition(Condition),
    Statement(Statement),
    /// A counter, which does not affect packets.
    Nothing,
    /// A log, which does not either.
    Log,
}

/// Parses the words of a line; returns the rule and how many `log` statements were omitted. From the first unknown word on, the text is kept,
/// because the end of an unknown expression is unknown too.
///
/// # Errors
///
/// The byte offset and the reason, if nft cannot have printed these words.
pub(super) fn from_words(source: &str, words: &[Word<'_>], within: Within) -> Result<(Rule, usize), (usize, String)> {
    let (words, comment) = match words {
        [words @ .., word, comment] if word.is("comment") && comment.kind == Kind::Quoted => {
            (words, Some(comment.text.into()))
        }
        _ => (words, None),
    };
    let mut rule = Rule { comment, ..Rule::default() };
    let (mut line, mut logs) = (Line::of(words), 0);
    while let Some(first) = line.word() {
        let found = part(&mut line);
        add_implied(&mut rule, words, first, within, found.is_some());
        let kept = |end: usize| Statement::Other(in_one_line(&source[first.start..words[end - 1].end]));
        match found {
            Some(Part::Condition(condition)) if rule.statements.is_empty() => rule.conditions.push(condition),
            // Earlier statements are executed whether or not it holds.
            Some(Part::Condition(_)) => rule.statements.push(kept(line.taken())),
            Some(Part::Statement(statement)) => rule.statements.push(statement),
            Some(Part::Nothing) => {}
            Some(Part::Log) => logs += 1,
            None => {
                let at = words.iter().position(|word| word.start == first.start).unwrap_or(0);
                let unknown = &words[at..];
                if let Some(fault) = text::fault(unknown, at == 0).or_else(|| text::name_fault(unknown)) {
                    return Err(fault);
                }
                rule.statements.push(kept(words.len()));
                break;
            }
        }
    }
    Ok((rule, logs))
}

/// Joins lines that end in a backslash.
fn in_one_line(text: &str) -> Box<str> {
    text.replace("\\\r\n", " ").replace("\\\n", " ").into()
}

/// Parses JSON expressions, each converted to nft's text. Unknown ones keep their JSON: as a condition if it is a `match` before all
/// statements, otherwise as a statement.
pub(super) fn from_json(expressions: &[&RawValue], comment: Option<&str>) -> Rule {
    let mut rule = Rule { comment: comment.map(Into::into), ..Rule::default() };
    for raw in expressions {
        let text = expression::text(raw.get());
        let words: Vec<Word<'_>> = text.iter().flat_map(|text| Words::of(text).all()).collect();
        let mut line = Line::of(&words);
        let found = part(&mut line).filter(|_| line.is_done());
        if let (Some(first), Some(_)) = (words.first(), &found) {
            add_implied(&mut rule, &words, *first, Within::OneFamily, true);
        }
        match found {
            Some(Part::Condition(condition)) if rule.statements.is_empty() => rule.conditions.push(condition),
            Some(Part::Statement(statement)) => rule.statements.push(statement),
            Some(Part::Nothing | Part::Log) => {}
            None if expression::is_match(raw.get()) && rule.statements.is_empty() => {
                rule.conditions.push(Condition::Other(raw.get().into()));
            }
            Some(Part::Condition(_)) | None => rule.statements.push(Statement::Other(raw.get().into())),
        }
    }
    rule
}

/// Parses the next part; nothing if it is not modelled.
fn part(line: &mut Line<'_, '_>) -> Option<Part> {
    match line.peek() {
        "counter" => {
            line.skip(1)?;
            match line.peek() {
                "packets" => line.skip(4)?,
                "name" => line.skip(2)?,
                _ => {}
            }
            Some(Part::Nothing)
        }
        "log" => {
            line.skip(1)?;
            while let "prefix" | "level" | "group" | "snaplen" | "queue-threshold" | "flags" = line.peek() {
                line.skip(2)?;
            }
            Some(Part::Log)
        }
        // `nft monitor trace` shows such a packet: nothing is done to it.
        "meta" | "nftrace" if line.attempt(parse_nftrace).is_some() => Some(Part::Nothing),
        _ => {
            let statement = line.attempt(|line| statements::parse(line).map(Part::Statement));
            statement.or_else(|| conditions::parse(line).map(Part::Condition))
        }
    }
}

/// Parses `meta nftrace set 1`.
fn parse_nftrace(line: &mut Line<'_, '_>) -> Option<()> {
    line.take("meta");
    (line.take("nftrace") && line.take("set") && matches!(line.next(), "0" | "1")).then_some(())
}

/// The families of the table that rules are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    /// A table of one family.
    OneFamily,
    /// An `inet` table, which packets of both families traverse.
    BothFamilies,
}

/// Adds conditions implied by a part of a rule, if the rule does not have them yet.
fn add_implied(rule: &mut Rule, words: &[Word<'_>], first: Word<'_>, within: Within, is_known: bool) {
    // The condition that `reject` implies goes before all statements (nft's `reject_payload_gen_dependency`).
    let is_reject = first.is("reject");
    if rule.statements.is_empty() || is_reject {
        let implied = implied(words, first.text, within, is_known).into_iter().flatten();
        let missing: Vec<_> = implied.filter(|one| !rule.conditions.iter().any(|known| asks(known, one))).collect();
        let at = if is_reject { 0 } else { rule.conditions.len() };
        rule.conditions.splice(at..at, missing);
    }
}

/// Returns the conditions implied by a part of a rule, by its first word: in `inet` tables its family; the protocol if nothing else about
/// it is modelled, and TCP for `reject with tcp reset`.
fn implied(words: &[Word<'_>], first: &str, within: Within, is_known: bool) -> [Option<Condition>; 2] {
    let with = |kind: &str| words.windows(2).any(|pair| pair[0].is("with") && pair[1].is(kind));
    let family = match first {
        "ip" | "icmp" => Some(Family::Ipv4),
        "ip6" | "icmpv6" => Some(Family::Ipv6),
        "reject" if with("icmp") => Some(Family::Ipv4),
        "reject" if with("icmpv6") => Some(Family::Ipv6),
        _ => None,
    };
    let number = |number: u8| Condition::Protocols(Protocols { negated: false, numbers: smallvec![number] });
    let protocol = match first {
        "reject" if with("tcp") => Some(Condition::protocol(Protocol::Tcp)),
        _ if is_known => None,
        "icmp" => Some(number(1)),
        "icmpv6" => Some(number(58)),
        _ => ProtocolNumber::parse(first).and_then(ProtocolNumber::transport).map(Condition::protocol),
    };
    [family.filter(|_| within == Within::BothFamilies).map(Condition::Family), protocol]
}

/// Returns whether a condition implies another.
fn asks(known: &Condition, wanted: &Condition) -> bool {
    match known {
        Condition::Ports(Ports { protocol: Some(known), .. }) if wanted.as_protocol().is_some() => {
            Some(*known) == wanted.as_protocol()
        }
        _ => known == wanted,
    }
}
