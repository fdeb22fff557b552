//! What is wrong with rules as a whole, whatever the service.

use std::collections::HashSet;
use std::fmt;

use super::copies::Copies;

/// Something wrong with rules that does not belong to one service.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameDefect {
    /// The kernel rejects the rules.
    Rejected {
        /// The table.
        table: &'static str,
        /// The chain, where it is about one.
        chain: Option<String>,
        /// The number of the rule in the chain, from 1, where it is about one.
        rule: Option<usize>,
        /// Whether the rule leads back to its own chain.
        is_loop: bool,
        /// Where, and why.
        why: String,
    },
    /// A chain of the kernel's hooks does not lead to kube-proxy's chain.
    MissingJump {
        /// The table.
        table: &'static str,
        /// The chain that packets enter by; of nftables, the hook where there is no such chain.
        chain: String,
        /// The chain that it does not lead to.
        to: &'static str,
        /// What follows from that.
        effect: &'static str,
    },
    /// A chain has the same rule several times.
    Repeated {
        /// The table.
        table: &'static str,
        /// The chain.
        chain: String,
        /// The rule.
        rule: String,
        /// How often the chain has it.
        times: usize,
        /// The number of the first copy in the chain, from 1.
        first: usize,
    },
}

impl FrameDefect {
    /// A name for programs, which stays the same.
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

impl fmt::Display for FrameDefect {
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

/// Whether jumps lead from one of the chains to another one; `next` lists where a chain leads to.
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
