//! `mark` and `connmark`: bits of the mark of the packet, or of its connection.

use super::{Extension, Match};
use crate::iptables::text::{Printer, values};
use crate::iptables::{Masked, Negatable};
use crate::walk::{Edges, Held, Tracking};

pub(super) const MARK: Extension = Extension {
    name: "mark",
    options: &["--mark"],
    parse: |options| {
        options.iter().next().map(|option| option.negatable("mark", values::masked).map(Match::Mark)).transpose()
    },
    parse_listed: |words, negated| {
        parse_listed("mark", words, negated).map(|(mark, length)| (Match::Mark(mark), length))
    },
};

pub(super) const CONNMARK: Extension = Extension {
    name: "connmark",
    options: MARK.options,
    parse: |options| {
        options.iter().next().map(|option| option.negatable("mark", values::masked).map(Match::Connmark)).transpose()
    },
    parse_listed: |words, negated| {
        parse_listed("connmark", words, negated).map(|(mark, length)| (Match::Connmark(mark), length))
    },
};

/// `mark match 0x4000/0x4000`, `mark match ! 0x4000/0x4000`.
fn parse_listed(name: &str, words: &[&str], negated: bool) -> Option<(Negatable<Masked>, usize)> {
    let rest = words.strip_prefix(&[name, "match"]).filter(|_| !negated)?;
    let (negated, text, length) = super::listed_word(rest)?;
    Some((Negatable { negated, value: values::masked(text)? }, 2 + length))
}

pub(super) fn print(name: &str, mark: &Negatable<Masked>, out: &mut Printer) {
    out.push(name);
    out.option(" --mark ", mark.negated);
    out.hex(mark.value.value);
    if mark.value.mask != u32::MAX {
        out.push("/");
        out.hex(mark.value.mask);
    }
}

fn has(mark: u32, asked: Negatable<Masked>) -> bool {
    (mark & asked.value.mask == asked.value.value) ^ asked.negated
}

pub(super) fn holds(mark: u32, asked: Negatable<Masked>) -> Held {
    has(mark, asked).into()
}

/// `connmark_mt`: without a connection it never holds.
pub(super) fn connection_holds(tracking: &Tracking, asked: Negatable<Masked>) -> Held {
    tracking.connection().is_some_and(|connection| has(connection.mark, asked)).into()
}

pub(super) fn edges(mark: Masked, edges: &mut Edges) {
    edges.mark(mark.value, mark.mask);
}
