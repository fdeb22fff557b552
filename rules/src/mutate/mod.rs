//! Rules with one thing wrong, to see whether anybody notices.
//!
//! [`changes`] lists what can go wrong with rules, without making any of it: each [`Change`] is one [`Operator`] at one rule, or
//! at one element of a set or map of nftables. [`Change::apply`] makes the mutant. A mutant that no kernel takes (a loop of
//! chains, a target where it cannot stand) is not [sound](Rules::is_sound): nobody needs a test to find it.
//!
//! - `operator`: the kinds of mistakes;
//! - `iptables`, `nftables`: where each can be made in rules of either language.

mod iptables;
mod near;
mod nftables;
mod operator;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::ruleset::Rules;

pub use operator::Operator;

/// One thing that goes wrong with rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What goes wrong.
    pub operator: Operator,
    /// Where.
    pub place: Place,
    /// The rule or element as its language writes it.
    pub was: String,
    /// What stands there instead; nothing where nothing does, or only the order is another.
    pub is: Option<String>,
    edit: AnyEdit,
}

/// Where a rule or an element stands. Shown as `table nat, chain KUBE-SERVICES, rule 3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The table: `nat`, `ip kube-proxy`.
    pub table: String,
    /// What of the table holds it.
    pub holder: Holder,
    /// The holder's name.
    pub name: String,
    /// The position in it, from 1.
    pub number: usize,
}

/// What rules and elements stand in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// A chain of rules.
    Chain,
    /// A set or map of elements.
    Set,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, holder, name, number } = self;
        match holder {
            Holder::Chain => write!(f, "table {table}, chain {name}, rule {number}"),
            Holder::Set => write!(f, "table {table}, set {name}, element {number}"),
        }
    }
}

/// What becomes of something in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Edit<T> {
    Remove,
    SwapWithNext,
    Replace(Box<T>),
}

impl<T: Clone> Edit<T> {
    fn apply(&self, list: &mut Vec<T>, at: usize) {
        match self {
            Self::Remove => drop(list.remove(at)),
            Self::SwapWithNext => list.swap(at, at + 1),
            Self::Replace(other) => list[at] = (**other).clone(),
        }
    }

    fn instead(&self) -> Option<&T> {
        match self {
            Self::Replace(other) => Some(other),
            Self::Remove | Self::SwapWithNext => None,
        }
    }
}

/// What becomes of something, and where exactly: the positions of its table and of its chain or set.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AnyEdit {
    Iptables([usize; 2], Edit<crate::iptables::Rule>),
    Nftables([usize; 2], Edit<crate::nftables::Rule>),
    Element([usize; 2], Edit<crate::nftables::Element>),
}

impl Change {
    /// The rules with this change; they must be those that the change was found in.
    #[must_use]
    pub fn apply(&self, rules: &Rules) -> Rules {
        let at = self.place.number - 1;
        match (&self.edit, rules) {
            (AnyEdit::Iptables([table, chain], edit), Rules::Iptables(parsed)) => {
                let mut rules = parsed.rules.clone();
                edit.apply(&mut rules.tables[*table].chains[*chain].rules, at);
                rules.into()
            }
            (AnyEdit::Nftables([table, chain], edit), Rules::Nftables(parsed)) => {
                let mut rules = parsed.rules.clone();
                edit.apply(&mut rules.tables[*table].chains[*chain].rules, at);
                rules.into()
            }
            (AnyEdit::Element([table, set], edit), Rules::Nftables(parsed)) => {
                let mut rules = parsed.rules.clone();
                edit.apply(&mut rules.tables[*table].sets[*set].elements, at);
                rules.into()
            }
            // It was found in other rules.
            _ => rules.clone(),
        }
    }
}

/// As a person reads it: `lost negation, table nat, chain KUBE-SVC-X, rule 1: -A KUBE-SVC-X ! -s 10.244.0.0/16 ...`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operator, place, was, .. } = self;
        write!(f, "{operator}, {place}: {was}")
    }
}

/// Everything that can go wrong with rules, in their order; nothing for tables that are not kube-proxy's.
pub fn changes(rules: &Rules) -> Vec<Change> {
    match rules {
        Rules::Iptables(parsed) => iptables::changes(&parsed.rules),
        Rules::Nftables(parsed) => nftables::changes(&parsed.rules),
        Rules::OtherTables(_) => Vec::new(),
    }
}

/// Some of several things, chosen by a seed: always the same of the same, in their order.
pub fn sample<T>(mut all: Vec<T>, number: usize, seed: u64) -> Vec<T> {
    let mut state = seed;
    while all.len() > number {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        all.remove(((mixed ^ (mixed >> 31)) % all.len() as u64) as usize);
    }
    all
}
