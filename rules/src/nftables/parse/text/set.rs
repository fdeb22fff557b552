//! Parsing of sets and maps, and their elements.

use super::super::super::ast::{Element, Set, SetKind};
use super::super::super::dynamic::Dynamic;
use super::super::super::key::{Datatype, Key};
use super::super::super::text::{Kind, Word};
use super::super::super::verdict::Verdict;
use super::{Fault, Reader, Scope};
use crate::cluster::Family;

impl<'a> Reader<'a> {
    /// Parses a set up to its `}`; returns it with the lines of its elements.
    pub(super) fn set(&mut self, name: Word<'a>, kind: SetKind, family: Family) -> Result<(Set, Vec<usize>), Fault> {
        let mut set =
            Set { name: name.text.into(), kind, key: Vec::new(), comment: None, dynamic: None, elements: Vec::new() };
        let (mut size, mut timeout, mut is_dynamic) = (None, None, false);
        let mut lines = Vec::new();
        while let Some(word) = self.inside()? {
            match word.text {
                // nft uses the last one, even for earlier elements.
                "type" | "typeof" if !set.key.is_empty() => {
                    return Err((word.start, format!("the {} has a second `{}`", kind.as_str(), word.text)));
                }
                "type" => set.key = self.types(|word| Datatype::of(word.text))?,
                "typeof" => set.key = self.types_of(family)?,
                "comment" => set.comment = Some(self.quoted()?),
                "size" => size = Some(self.read("number", |text| text.parse().ok())?),
                "timeout" => timeout = Some(self.read("time", seconds)?),
                "elements" => {
                    self.expect("=")?;
                    self.open()?;
                    self.elements(&mut set, &mut lines)?;
                }
                "flags" => {
                    let mut flags = Vec::new();
                    self.rest_of_line(&mut flags)?;
                    is_dynamic |= flags.iter().any(|flag| flag.is("dynamic"));
                }
                "auto-merge" | "gc-interval" | "policy" | "counter" => self.skip_statement()?,
                other => return Err((word.start, format!("`{other}` is not valid in a {}", kind.as_str()))),
            }
        }
        if set.key.is_empty() {
            return Err((name.start, format!("the {} has no `type`", kind.as_str())));
        }
        set.dynamic = (is_dynamic || timeout.is_some()).then(|| Dynamic::of(size, timeout));
        Ok((set, lines))
    }

    fn read<T>(&mut self, what: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, Fault> {
        let word = self.name()?;
        read(word.text).ok_or_else(|| (word.start, format!("`{}` is not a valid {what}", word.text)))
    }

    /// `ipv4_addr . inet_proto . inet_service : verdict`.
    fn types(&mut self, read: impl Fn(Word<'a>) -> Option<Datatype>) -> Result<Vec<Datatype>, Fault> {
        let mut types = Vec::new();
        loop {
            let word = self.name()?;
            let unknown = || (word.start, format!("keys of type `{}` are not known", word.text));
            types.push(read(word).ok_or_else(unknown)?);
            if !self.words.take(".") {
                break;
            }
        }
        self.only_verdicts()?;
        Ok(types)
    }

    /// `ip daddr . meta l4proto . th dport : verdict`.
    fn types_of(&mut self, family: Family) -> Result<Vec<Datatype>, Fault> {
        let mut types = Vec::new();
        loop {
            let (word, field) = (self.name()?, self.name()?);
            types.push(match (word.text, field.text) {
                ("ip" | "ip6", "saddr" | "daddr") => Datatype::Address(family),
                ("meta", "l4proto") => Datatype::Protocol,
                ("th" | "tcp" | "udp" | "sctp", "dport") => Datatype::Port,
                (word_text, field) => return Err((word.start, format!("keys `{word_text} {field}` are not known"))),
            });
            if !self.words.take(".") {
                break;
            }
        }
        self.only_verdicts()?;
        Ok(types)
    }

    fn only_verdicts(&mut self) -> Result<(), Fault> {
        if !self.words.take(":") {
            return Ok(());
        }
        let data = self.name()?;
        match data.text {
            "verdict" => Ok(()),
            other => Err((data.start, format!("a map to {other} is not known, only to verdicts"))),
        }
    }

    /// Parses elements up to the closing brace.
    fn elements(&mut self, set: &mut Set, lines: &mut Vec<usize>) -> Result<(), Fault> {
        if set.key.is_empty() {
            let start = self.words.peek().map_or(0, |word| word.start);
            return Err((start, "elements before the `type` of the keys".to_owned()));
        }
        loop {
            self.words.skip_newlines();
            if self.words.take("}") {
                return Ok(());
            }
            lines.push(self.words.peek().map_or(0, |word| word.line));
            let element = self.element(&set.key, set.kind)?;
            set.elements.push(element);
            self.words.skip_newlines();
            if !self.words.take(",") {
                return self.expect("}");
            }
        }
    }

    /// `10.96.0.1 . tcp . 80 comment "default/web:http" : drop`.
    fn element(&mut self, types: &[Datatype], kind: SetKind) -> Result<Element, Fault> {
        let mut key = Vec::with_capacity(types.len());
        for (index, datatype) in types.iter().enumerate() {
            if index > 0 {
                self.expect(".")?;
            }
            let word = self.name()?;
            let part =
                Key::parse(*datatype, word.text).filter(|part| types.len() == 1 || !matches!(part, Key::Addresses(_)));
            key.push(
                part.ok_or_else(|| (word.start, format!("`{}` is not a valid {}", word.text, datatype.as_str())))?,
            );
        }
        let mut comment = None;
        let mut verdict_of = None;
        while let Some(word) = self.words.peek().filter(|word| word.kind == Kind::Plain) {
            self.words.next();
            match word.text {
                "comment" => comment = Some(self.quoted()?),
                // Its expiry time, or its counter.
                "timeout" | "expires" => drop(self.name()?),
                "counter" => (0..4).try_for_each(|_| self.name().map(drop))?,
                ":" => {
                    let first = self.name()?;
                    let chain = match first.text {
                        "jump" | "goto" => self.name()?.text,
                        _ => "",
                    };
                    let read = Verdict::parse(first.text, || chain);
                    verdict_of =
                        Some(read.ok_or_else(|| (first.start, format!("`{}` is not a valid verdict", first.text)))?);
                }
                other => return Err((word.start, format!("`{other}` is not valid in an element"))),
            }
        }
        if verdict_of.is_some() != (kind == SetKind::VerdictMap) {
            let start = self.words.peek().map_or(0, |word| word.start);
            return Err((start, "elements of maps have a verdict, elements of sets have none".to_owned()));
        }
        Ok(Element { key, comment, verdict: verdict_of })
    }
}

/// Parses a text that is a single element.
pub(in super::super) fn element(text: &str, key: &[Datatype], kind: SetKind) -> Option<Element> {
    let mut reader = Reader::of(text, Scope::KubeProxy);
    let element = reader.element(key, kind).ok()?;
    reader.words.peek().is_none().then_some(element)
}

/// Parses `1d2h3m4s` to seconds; fractions of a second (`500ms`) are dropped.
pub(super) fn seconds(text: &str) -> Option<u32> {
    let mut rest = text;
    let mut total: u32 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u32 = rest[..digits].parse().ok()?;
        let unit = &rest[digits..];
        let unit = &unit[..unit.bytes().take_while(u8::is_ascii_alphabetic).count()];
        let length = match unit {
            "d" => 86_400,
            "h" => 3_600,
            "m" => 60,
            "s" | "" => 1,
            "ms" => 0,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(length)?)?;
        rest = &rest[digits + unit.len()..];
    }
    (!text.is_empty()).then_some(total)
}
