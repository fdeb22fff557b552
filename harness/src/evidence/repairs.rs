//! How lines were changed to be read.

use schemars::JsonSchema;
use serde::Serialize;

/// A kind of change to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Repair {
    /// `> ` before it, as mail and Markdown quote.
    Quote,
    /// `+` before it, as a diff has.
    Diff,
    /// The prefix of journald, `kubectl logs` or a container runtime.
    LogPrefix,
    /// The number of the line, or the file's name of `grep`.
    LineNumber,
    /// `|` around it, as in a table.
    Pipes,
    /// `//` before it, as a comment in code.
    Comment,
    /// A bullet before it.
    Bullet,
    /// Backticks around it.
    Backticks,
    /// Control sequences of a terminal, no-break spaces, a byte-order mark.
    Invisible,
    /// Quotes and dashes that a text editor made.
    Typography,
    /// `&quot;` and the like.
    Entities,
    /// A rule that continues on the next line.
    Wrapped,
    /// Blanks within the name of a chain.
    NameApart,
    /// Several rules on one line.
    Several,
    /// `[unsupported revision]`: an iptables older than the rules' printed them.
    UnsupportedRevision,
    /// Options that nft does not print of a match of iptables.
    NotPrinted,
    /// The heading of a chain or table is missing.
    Heading,
    /// A line such as `<repeated>`, which stands for copies of the one before it.
    Repeated,
    /// Lines that `sort` put in another order.
    Sorted,
    /// The end is missing.
    Cut,
}

impl Repair {
    /// All kinds.
    pub(super) const ALL: [Self; 20] = [
        Self::Quote,
        Self::Diff,
        Self::LogPrefix,
        Self::LineNumber,
        Self::Pipes,
        Self::Comment,
        Self::Bullet,
        Self::Backticks,
        Self::Invisible,
        Self::Typography,
        Self::Entities,
        Self::Wrapped,
        Self::NameApart,
        Self::Several,
        Self::UnsupportedRevision,
        Self::NotPrinted,
        Self::Heading,
        Self::Repeated,
        Self::Sorted,
        Self::Cut,
    ];

    /// In words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Quote => "quote marks removed",
            Self::Diff => "diff marks removed",
            Self::LogPrefix => "log prefixes removed",
            Self::LineNumber => "line numbers removed",
            Self::Pipes => "table bars removed",
            Self::Comment => "comment marks removed",
            Self::Bullet => "bullets removed",
            Self::Backticks => "backticks removed",
            Self::Invisible => "control characters and invisible characters removed",
            Self::Typography => "quotes and dashes restored",
            Self::Entities => "HTML entities decoded",
            Self::Wrapped => "wrapped lines joined",
            Self::NameApart => "chain names joined",
            Self::Several => "rules on one line separated",
            Self::UnsupportedRevision => "printed by an older iptables",
            Self::NotPrinted => "completed with kube-proxy's options, which nft does not print",
            Self::Heading => "without the heading of its table or chain",
            Self::Repeated => "read as a copy of the line before it",
            Self::Sorted => "sorted lines put in the order in which kube-proxy writes rules",
            Self::Cut => "cut off",
        }
    }
}

/// What was done to lines of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RepairCount {
    /// What was done.
    pub(crate) how: Repair,
    /// The first line.
    pub(crate) first_line: usize,
    /// To how many lines.
    pub(crate) lines: usize,
}

/// The kinds of change to one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RepairSet(u32);

impl RepairSet {
    pub(super) fn with(self, mend: Repair) -> Self {
        Self(self.0 | 1 << mend as u32)
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn has(self, mend: Repair) -> bool {
        self.0 & (1 << mend as u32) != 0
    }

    /// The changes to lines, given with their numbers, by kind.
    pub(super) fn listed(lines: impl Iterator<Item = (usize, Self)>) -> Vec<RepairCount> {
        let mut found: Vec<RepairCount> = Vec::new();
        for (line, mends) in lines.filter(|(_, mends)| mends.0 != 0) {
            for how in Repair::ALL.into_iter().filter(|how| mends.has(*how)) {
                match found.iter_mut().find(|mending| mending.how == how) {
                    Some(mending) => mending.lines += 1,
                    None => found.push(RepairCount { how, first_line: line, lines: 1 }),
                }
            }
        }
        found
    }
}
