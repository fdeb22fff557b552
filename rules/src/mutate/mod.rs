//! Mutation testing of rules: rules with a single error, to measure whether tests detect it.
//!
//! [`changes`] lists the possible mutations without applying them: each [`Change`] is one [`Operator`] at one rule, or
//! at one element of a set or map of nftables. [`Change::apply`] makes the mutant. A mutant that the kernel rejects (a loop of
//! chains, a target in the wrong chain) is not [sound](Rules::is_sound): no test is needed to detect it.
//!
//! - `operator`: the kinds of mutations;
//! - `iptables`, `nftables`: where each applies in rules of either language; `adjacent_address`: the addresses that it changes them to.

mod adjacent_address;
mod iptables;
mod nftables;
mod operator;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::ruleset::Rules;

pub use operator::Operator;

/// A mutation: a single error in a rule or element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The kind.
    pub operator: Operator,
    /// Where.
    pub place: Place,
    /// The original rule or element, as its language writes it.
    pub was: String,
    /// Its replacement; `None` if it is removed or only moved.
    pub is: Option<String>,
    edit: AnyEdit,
}

/// The place of a rule or an element, displayed as `table nat, chain KUBE-SERVICES, rule 3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The table: `nat`, `ip kube-proxy`.
    pub table: String,
    /// The kind of its container.
    pub holder: Holder,
    /// The container's name.
    pub name: String,
    /// The position in the container, from 1.
    pub number: usize,
}

/// A container of rules or elements.
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

/// A change to an item of a list.
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

/// A change to a rule or element, with the positions of its table and of its chain or set.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AnyEdit {
    Iptables([usize; 2], Edit<crate::iptables::Rule>),
    Nftables([usize; 2], Edit<crate::nftables::Rule>),
    Element([usize; 2], Edit<crate::nftables::Element>),
}

impl Change {
    /// Returns the mutant of the rules that the change was listed for.
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
            // It was listed for other rules.
            _ => rules.clone(),
        }
    }
}

/// Displayed as `lost negation, table nat, chain KUBE-SVC-X, rule 1: -A KUBE-SVC-X ! -s 10.244.0.0/16 ...`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operator, place, was, .. } = self;
        write!(f, "{operator}, {place}: {was}")
    }
}

/// Returns all mutations of rules, in the rules' order; none for tables that are not kube-proxy's.
pub fn changes(rules: &Rules) -> Vec<Change> {
    match rules {
        Rules::Iptables(parsed) => iptables::changes(&parsed.rules),
        Rules::Nftables(parsed) => nftables::changes(&parsed.rules),
        Rules::OtherTables(_) => Vec::new(),
    }
}

/// Returns a random sample in the original order; the same seed chooses the same items.
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
