//! Positions of a table's chains and sets in a program.

use std::collections::HashMap;
use std::sync::Arc;

use super::name::Name;
use super::verdict::Verdict;
use crate::cluster::Family;

/// The positions of a table's chains and sets. All chains that rules name are known to exist.
pub(super) struct Positions<'a> {
    pub(super) table: &'a Name,
    pub(super) family: Family,
    pub(super) chains: HashMap<&'a str, u32>,
    pub(super) sets: HashMap<&'a str, u32>,
}

impl Positions<'_> {
    /// Returns the list of the keys that rules add to a set.
    pub(super) fn list(&self, set: &str) -> Arc<str> {
        format!("{} {set}", self.table).into()
    }

    pub(super) fn chain(&self, name: &Name) -> u32 {
        self.chains[&**name]
    }

    pub(super) fn verdict(&self, verdict: &Verdict) -> Verdict<u32> {
        verdict.map(|chain| self.chain(chain))
    }
}
