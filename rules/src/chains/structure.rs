//! Defects of rules as a whole, independent of any service.

use std::collections::HashSet;
use std::fmt;

use super::copies::Copies;

/// A defect of rules that does not belong to one service.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StructureDefect {
    /// The kernel rejects the rules.
    Rejected {
        /// The table.
        table: &'static str,
        /// The chain, if the defect is in one.
        chain: Option<String>,
        /// The number of the rule in the chain, from 1, if the defect is in one.
        rule: Option<usize>,
        /// Whether the rule closes a jump loop.
        is_loop: bool,
        /// The place and the reason.
        why: String,
    },
    /// A base chain has no path to kube-proxy's chain.
    MissingJump {
        /// The table.
        table: &'static str,
        /// The base chain; in nftables, the hook if it has no base chain.
        chain: String,
        /// The chain that it does not reach.
        to: &'static str,
        /// The consequence.
        effect: &'static str,
    },
    /// A chain contains the same rule several times.
    Repeated {
        /// The table.
        table: &'static str,
        /// The chain.
        chain: String,
        /// The rule.
        rule: String,
        /// The number of copies.
        times: usize,
        /// The number of the first copy in the chain, from 1.
        first: usize,
    },
}

impl StructureDefect {
    /// Returns a stable identifier for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Rejected { .. } => "rejected",
            Self::MissingJump { .. } => "missing-jump",
            Self::Repeated { .. } => "repeated-rule",
        }
    }

    pub(super) fn repeated(table: &'static str, chain: &str, Copies { rule, numbers }: Copies) -> Self {
        Self::Repeated { table, chain: chain.to_owned(), rule, times: numbers.len(), first: numbers[0] }
    }
}

impl fmt::Display for StructureDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected { why, .. } => write!(f, "the kernel rejects these rules: {why}"),
            Self::MissingJump { table, chain, to, effect } => {
                write!(f, "chain {chain} of {table} has no jump to {to}: {effect}")
            }
            Self::Repeated { table, chain, rule, times, first } => {
                write!(f, "chain {chain} of {table} has the same rule {times} times, first as rule {first}: `{rule}`")
            }
        }
    }
}

/// Returns whether jumps lead from one of the chains to `to`; `next` lists the targets of a chain.
pub(super) fn leads<'a>(from: Vec<&'a str>, to: &str, next: impl Fn(&'a str) -> Vec<&'a str>) -> bool {
    let (mut known, mut open): (HashSet<&str>, _) = (from.iter().copied().collect(), from);
    while let Some(chain) = open.pop() {
        if chain == to {
            return true;
        }
        open.extend(next(chain).into_iter().filter(|next| known.insert(next)));
    }
    false
}
