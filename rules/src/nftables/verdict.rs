//! Verdicts, of rules and of elements of maps.

use std::fmt;

use super::name::Name;
use crate::walk::{By, HookVerdict, Next, RuleId};

/// A verdict. Chains are given by name, or in compiled rules by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict<C = Name> {
    /// The packet continues in the next base chain.
    Accept,
    /// The packet is dropped.
    Drop,
    /// The packet continues after the rule that jumped here.
    Return,
    /// The packet continues in a chain, then returns.
    Jump(C),
    /// The packet continues in a chain, then returns to the caller of the current chain.
    Goto(C),
}

impl Verdict {
    /// Parses a verdict from its first word and the chain that follows it.
    pub(super) fn parse<'a>(word: &str, chain: impl FnOnce() -> &'a str) -> Option<Self> {
        let chain = || Some(Name::from(chain())).filter(|name| !name.is_empty());
        match word {
            "accept" => Some(Self::Accept),
            "drop" => Some(Self::Drop),
            "return" => Some(Self::Return),
            "jump" => chain().map(Self::Jump),
            "goto" => chain().map(Self::Goto),
            _ => None,
        }
    }

    pub(super) fn print(&self, out: &mut String) {
        match self {
            Self::Accept => out.push_str("accept"),
            Self::Drop => out.push_str("drop"),
            Self::Return => out.push_str("return"),
            Self::Jump(chain) => out.extend(["jump ", &**chain]),
            Self::Goto(chain) => out.extend(["goto ", &**chain]),
        }
    }
}

/// As in rules: `goto a`.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.print(&mut text);
        f.write_str(&text)
    }
}

impl<C> Verdict<C> {
    /// Returns the chain that it jumps to.
    pub(crate) fn chain(&self) -> Option<&C> {
        match self {
            Self::Jump(chain) | Self::Goto(chain) => Some(chain),
            Self::Accept | Self::Drop | Self::Return => None,
        }
    }

    /// Maps the chains.
    pub(super) fn map<D>(&self, chain: impl FnOnce(&C) -> D) -> Verdict<D> {
        match self {
            Self::Accept => Verdict::Accept,
            Self::Drop => Verdict::Drop,
            Self::Return => Verdict::Return,
            Self::Jump(name) => Verdict::Jump(chain(name)),
            Self::Goto(name) => Verdict::Goto(chain(name)),
        }
    }
}

impl Verdict<u32> {
    /// Returns the next step after a rule with this verdict.
    pub(super) fn next(self, rule: u32) -> Next {
        match self {
            Self::Accept => Next::Accept,
            Self::Drop => Next::end(HookVerdict::Drop(By::Rule(RuleId(rule)))),
            Self::Return => Next::Return,
            Self::Jump(chain) => Next::Jump(chain),
            Self::Goto(chain) => Next::Goto(chain),
        }
    }
}
