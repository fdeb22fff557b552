//! Sources that are set apart: of a set of packets, those that answer otherwise in one branch of chance alone.
//!
//! In a cascade of endpoints, each endpoint has a rule for its own packets (`-s 10.0.0.1/32 -j KUBE-MARK-MASQ`). A packet of that endpoint
//! fares as all others do in every branch but this one. So instead of walking the whole cascade once more for every endpoint, the walk
//! notes where it was asked, and the packet of that endpoint is taken up there.

use super::branch::Branch;
use super::code::Code;
use super::machine::{Arrival, finish_all};
use super::pass::Work;
use super::program::Program;
use super::trace::Trace;

/// Which packets of a set do not fare as its witness does in a branch, by their sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Apart {
    /// Those from one address, as a number.
    One(u128),
    /// All but those from the witness' address.
    Others,
}

impl Apart {
    /// Whether packets from an address, other than the witness', are set apart.
    pub fn has(self, source: u128) -> bool {
        match self {
            Self::One(one) => one == source,
            Self::Others => true,
        }
    }
}

/// A place in a hook at which sources were set apart: before the rule that asked.
#[derive(Debug, Clone)]
pub struct Fork<T> {
    /// Which.
    pub apart: Apart,
    pub(super) work: Work<T>,
}

#[expect(private_bounds, reason = "languages are this crate's own")]
impl<C: Code> Program<C> {
    /// What becomes of a packet of the sources set apart, in the branch where they were. The arrival is that packet's.
    pub fn take_up<T: Trace>(
        &self,
        arrival: Arrival<'_>,
        fork: &Fork<T>,
        trace: impl FnOnce(&T) -> T,
    ) -> Vec<Branch<T>> {
        let mut work = fork.work.clone();
        work.walker.trace = trace(&work.walker.trace);
        work.walker.become_another(arrival.packet);
        let mut branches = Vec::new();
        finish_all(self, &arrival, work, &mut branches, &mut Vec::new());
        branches
    }
}
