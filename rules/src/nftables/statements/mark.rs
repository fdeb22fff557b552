//! `meta mark set meta mark | 0x00004000`: a change of the packet's mark.

use std::fmt::Write;

use super::{Action, Statement};
use crate::nftables::text::{Line, number};

/// A change of the packet's mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MarkChange {
    /// `|`: a bit is set.
    Set(u32),
    /// `^`: a bit is flipped.
    Flip(u32),
    /// `meta mark & 0xffffff00 | 0x00000001`: bits are kept, others set; if none is kept, the mark is set to this number.
    Write {
        /// The bits that are kept.
        kept: u32,
        /// The bits that are set.
        set: u32,
    },
}

/// Parses what follows `meta mark set`: a number, or `meta mark` with bits that are kept, set or flipped.
pub(super) fn parse(line: &mut Line<'_, '_>) -> Option<Statement> {
    line.take("meta");
    if !line.take("mark") {
        return number(line.next()).map(|set| Statement::Mark(MarkChange::Write { kept: 0, set }));
    }
    let word = line.next();
    let bits = number(line.next())?;
    Some(Statement::Mark(match word {
        "|" | "or" => MarkChange::Set(bits),
        "^" | "xor" => MarkChange::Flip(bits),
        "&" | "and" if line.take("|") || line.take("or") => MarkChange::Write { kept: bits, set: number(line.next())? },
        "&" | "and" => MarkChange::Write { kept: bits, set: 0 },
        _ => return None,
    }))
}

impl MarkChange {
    pub(super) fn print(self, out: &mut String) {
        out.push_str("meta mark set ");
        let _ = match self {
            Self::Set(bit) => write!(out, "meta mark | {bit:#010x}"),
            Self::Flip(bit) => write!(out, "meta mark ^ {bit:#010x}"),
            Self::Write { kept: 0, set } => write!(out, "{set:#010x}"),
            Self::Write { kept, set: 0 } => write!(out, "meta mark & {kept:#010x}"),
            Self::Write { kept, set } => write!(out, "meta mark & {kept:#010x} | {set:#010x}"),
        };
    }

    /// Compiles to the bits that are cleared, and those that are then flipped.
    pub(super) fn compile(self) -> Action {
        let (mask, value) = match self {
            Self::Set(bits) => (bits, bits),
            Self::Flip(bits) => (0, bits),
            Self::Write { kept, set } => (!kept | set, set),
        };
        Action::Mark { mask, value }
    }
}
