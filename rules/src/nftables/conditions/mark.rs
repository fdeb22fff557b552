//! `meta mark & 0x00004000 == 0x00000000`: bits of the packet's mark.

use std::fmt::Write;

use super::{Condition, explain_not};
use crate::nftables::text::{Line, not, number};
use crate::walk::{Edges, Packet};

/// Bits of the packet's mark have this value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// True for `!=`.
    pub negated: bool,
    /// The bits to compare.
    pub mask: u32,
    /// Their value.
    pub value: u32,
}

/// Parses what follows `meta mark`.
pub(super) fn parse(line: &mut Line<'_, '_>) -> Option<Condition> {
    let mask = if line.take("&") || line.take("and") { number(line.next())? } else { u32::MAX };
    let negated = line.negation();
    let value = number(line.next())?;
    // Several values after a mask are not one word.
    (line.peek() != ",").then_some(Condition::Mark(Mark { negated, mask, value }))
}

impl Mark {
    pub(super) fn print(&self, out: &mut String) {
        let Self { negated, mask, value } = *self;
        let _ = match mask {
            u32::MAX => write!(out, "meta mark {}{value:#010x}", not(negated)),
            _ => write!(out, "meta mark & {mask:#010x} {} {value:#010x}", if negated { "!=" } else { "==" }),
        };
    }

    pub(super) fn explain(&self) -> String {
        match *self {
            Self { negated, mask: u32::MAX, value } => format!("{}marked {value:#x}", explain_not(negated)),
            Self { negated, mask, value: 0 } => format!("{}marked {mask:#x}", explain_not(!negated)),
            Self { negated, mask, value } => format!("{}marked {value:#x} under {mask:#x}", explain_not(negated)),
        }
    }

    pub(super) fn holds(&self, packet: &Packet) -> bool {
        (packet.mark & self.mask == self.value) ^ self.negated
    }

    pub(super) fn edges(&self, edges: &mut Edges) {
        edges.mark(self.value, self.mask);
    }
}
