//! A queue of flows that several workers share.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::progress::Counting;
use super::{Limit, ProbeError};
use crate::lab::{Connections, LabError};

/// The number of flows between two flushes of conntrack tables: far below the default limit of 262,144 entries, and
/// below the number of ports that a masquerade to one endpoint can choose from.
pub(crate) const FLUSH_EVERY: u64 = 16_384;
/// The source ports, used in turn.
const PORTS: Range<u16> = 1024..u16::MAX;

/// The flows to send, in windows. Each worker takes the next window when it has finished one, so that a busy CPU does not delay the others.
pub(super) struct FlowQueue {
    /// The number of the first flow's tag.
    pub(super) first_tag: u64,
    flows: u64,
    workers: usize,
    taken: AtomicU64,
    flushes_begun: AtomicU64,
    /// The number of the last completed flush.
    flushed: AtomicU64,
    /// The number of collisions on nodes before this work: see [`Connections::collisions`].
    collided_before: u64,
    /// The number of flows dropped by collisions since then, and sent again.
    resent: AtomicU64,
    /// The progress counter to report to.
    counting: Option<Arc<Counting>>,
    limit: Option<Limit>,
}

impl FlowQueue {
    /// A queue of this many flows for this many workers, at least one.
    pub(super) fn new(first_tag: u64, flows: u64, workers: usize, collided_before: u64) -> Self {
        let none = || AtomicU64::new(0);
        Self {
            first_tag,
            flows,
            workers: workers.max(1),
            taken: none(),
            flushes_begun: none(),
            flushed: none(),
            collided_before,
            resent: none(),
            counting: None,
            limit: None,
        }
    }

    /// Also reports progress.
    pub(super) fn reporting_to(self, counting: &Arc<Counting>) -> Self {
        Self { counting: Some(Arc::clone(counting)), ..self }
    }

    /// Also limits the time.
    pub(super) fn within(self, limit: Option<Limit>) -> Self {
        Self { limit, ..self }
    }

    /// Fails when the time limit has passed.
    pub(super) fn check_time(&self) -> Result<(), ProbeError> {
        Limit::check(self.limit)
    }

    /// Records that a window's flows were counted.
    pub(super) fn counted(&self, flows: &Range<u64>) {
        self.counting.iter().for_each(|counting| counting.counted(flows.end - flows.start));
    }

    /// The maximum number of flows in a window. The windows of all workers together add up to [`FLUSH_EVERY`].
    pub(super) fn window(&self) -> u64 {
        FLUSH_EVERY / self.workers as u64
    }

    /// The numbers of the next window's flows, for one worker; `None` if nothing is left.
    pub(super) fn take(&self) -> Option<Range<u64>> {
        let begin = self.taken.fetch_add(self.window(), Ordering::Relaxed);
        (begin < self.flows).then(|| begin..self.flows.min(begin + self.window()))
    }

    /// Discards the remaining flows, because another worker has failed.
    pub(super) fn abandon(&self) {
        self.taken.store(self.flows, Ordering::Relaxed);
    }

    /// The source ports of the worker with this number. No other worker uses them, and they are enough for more than three windows, so
    /// there is a whole window, and with it a flush, between two flows with the same port.
    pub(super) fn ports(&self, worker: usize) -> Range<u16> {
        let (all, workers) = (PORTS.len(), self.workers);
        // Both bounds are within [`PORTS`].
        let port = |part: usize| PORTS.start + (all * part / workers) as u16;
        port(worker)..port(worker + 1)
    }

    /// The number of flushes, to compare at the end of a window.
    pub(super) fn flushes(&self) -> u64 {
        self.flushes_begun.load(Ordering::SeqCst)
    }

    /// Whether the nodes' collisions so far can account for this number of lost flows. If so, these flows must be sent again, and no other
    /// worker may claim the collisions.
    pub(super) fn may_repeat(&self, lost: u64, collided: u64) -> bool {
        let most = collided.saturating_sub(self.collided_before);
        let repeat = |so_far: u64| Some(so_far + lost).filter(|all| *all <= most);
        self.resent.fetch_update(Ordering::SeqCst, Ordering::SeqCst, repeat).is_ok()
    }

    /// Flushes the conntrack tables of nodes, unless another worker has started and completed a flush since `before`.
    pub(super) fn flush_since(&self, before: u64, connections: &[Connections]) -> Result<(), LabError> {
        if self.flushed.load(Ordering::SeqCst) > before {
            return Ok(());
        }
        let number = self.flushes_begun.fetch_add(1, Ordering::SeqCst) + 1;
        connections.iter().try_for_each(Connections::flush)?;
        self.flushed.fetch_max(number, Ordering::SeqCst);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    fn every_flow_is_taken_once(#[values(1, 2, 3, 4)] workers: usize, #[values(1, 16_384, 100_001)] flows: u64) {
        let work = FlowQueue::new(1, flows, workers, 0);
        let mut next = 0;
        while let Some(window) = work.take() {
            assert_eq!(window.start, next);
            assert!(!window.is_empty() && window.end - window.start <= work.window());
            next = window.end;
        }
        assert_eq!(next, flows);
    }

    #[rstest]
    fn workers_share_no_port(#[values(1, 2, 3, 4)] workers: usize) {
        let work = FlowQueue::new(1, 1, workers, 0);
        let mut next = PORTS.start;
        for worker in 0..workers {
            let ports = work.ports(worker);
            assert_eq!(ports.start, next);
            assert!(ports.len() as u64 > 3 * work.window(), "{ports:?}");
            next = ports.end;
        }
        assert_eq!(next, PORTS.end);
    }

    #[test]
    fn what_is_abandoned_is_not_taken() {
        let work = FlowQueue::new(1, 100_000, 2, 0);
        assert!(work.take().is_some());
        work.abandon();
        assert_eq!(work.take(), None);
    }

    #[test]
    fn a_flush_that_began_before_is_not_enough() {
        let work = FlowQueue::new(1, 1, 2, 0);
        let before = work.flushes();
        work.flush_since(before, &[]).unwrap();
        assert_eq!(work.flushes(), 1);
        // A window of another worker that started before that flush need not flush again; one that starts now must.
        work.flush_since(before, &[]).unwrap();
        assert_eq!(work.flushes(), 1);
        work.flush_since(work.flushes(), &[]).unwrap();
        assert_eq!(work.flushes(), 2);
    }
    #[test]
    fn only_what_nodes_dropped_by_themselves_is_sent_again() {
        let work = FlowQueue::new(1, 1, 2, 7);
        assert!(!work.may_repeat(1, 7), "dropped before");
        assert!(work.may_repeat(2, 10));
        assert!(!work.may_repeat(2, 10), "one of three is left");
        assert!(work.may_repeat(1, 10));
        assert!(!work.may_repeat(1, 10));
    }
}
