//! The chains of a hook after source NAT: they see the new source, which the caller determines.

use super::branch::Branch;
use super::chain_position::Work;
use super::code::Code;
use super::machine::{Arrival, finish_all};
use super::program::Program;
use super::trace::Trace;
use super::walker::Walker;

impl<T> Branch<T> {
    /// Returns whether later chains of the hook see the packet with its new source: settle it ([`Self::settle_source`]), then continue with
    /// [`Program::continue_settled`].
    pub fn continues(&self) -> bool {
        self.continues_at.is_some()
    }
}

#[expect(private_bounds, reason = "languages are this crate's own")]
impl<C: Code> Program<C> {
    /// Continues the walk of a branch that [continues](Branch::continues) and whose source is settled. Any other branch is returned as it is.
    pub fn continue_settled<T: Trace>(&self, arrival: Arrival<'_>, branch: Branch<T>) -> Vec<Branch<T>> {
        let Some(stop) = branch.continues_at.filter(|_| branch.source_nat.is_none()) else { return vec![branch] };
        let work = Work { walker: Walker::settled(branch), stop, place: None };
        let mut branches = Vec::with_capacity(1);
        finish_all(self, &arrival, work, &mut branches, &mut Vec::new());
        branches
    }
}
