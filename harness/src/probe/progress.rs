//! Progress of counting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The number of flows being counted, shared by all labs of a run; reading it blocks no lab.
#[derive(Debug, Default)]
pub struct Progress(Mutex<Sums>);

#[derive(Debug, Default)]
struct Sums {
    under_way: usize,
    wanted: u64,
    counted: u64,
}

impl Progress {
    /// Flows counted and the most that there will be, over all counts since the last idle moment; zeros if none is running.
    pub fn flows(&self) -> (u64, u64) {
        self.change(|sums| (sums.counted, sums.wanted))
    }

    /// Starts a count of at most this many flows.
    pub(crate) fn begin(self: &Arc<Self>, flows: u64) -> Arc<Counting> {
        self.change(|sums| {
            sums.under_way += 1;
            sums.wanted += flows;
        });
        Arc::new(Counting { of: Arc::clone(self), wanted: AtomicU64::new(flows), counted: AtomicU64::new(0) })
    }

    /// Registers counts of another process, which reports their sums.
    pub(crate) fn elsewhere(self: &Arc<Self>) -> Elsewhere {
        Elsewhere { of: Arc::clone(self), counted: 0, wanted: 0 }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Sums) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A count that is in flight until this is dropped.
#[derive(Debug)]
pub(crate) struct Counting {
    of: Arc<Progress>,
    wanted: AtomicU64,
    counted: AtomicU64,
}

impl Counting {
    /// Adds to the number of flows to count.
    pub(crate) fn expect(&self, flows: u64) {
        self.wanted.fetch_add(flows, Ordering::Relaxed);
        self.of.change(|sums| sums.wanted += flows);
    }

    /// Adds to the number of counted flows.
    pub(crate) fn counted(&self, flows: u64) {
        self.counted.fetch_add(flows, Ordering::Relaxed);
        self.of.change(|sums| sums.counted += flows);
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let left = self.wanted.load(Ordering::Relaxed).saturating_sub(self.counted.load(Ordering::Relaxed));
        self.of.change(|sums| {
            sums.under_way -= 1;
            sums.wanted -= left;
            if sums.under_way == 0 {
                *sums = Sums::default();
            }
        });
    }
}

/// Counts of another process, in flight until this is dropped.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    of: Arc<Progress>,
    counted: u64,
    wanted: u64,
}

impl Elsewhere {
    /// Sets the current sums; zeros if no count is running.
    pub(crate) fn are(&mut self, counted: u64, wanted: u64) {
        let (before, after) = (self.wanted > 0, wanted > 0);
        self.of.change(|sums| {
            sums.under_way = sums.under_way + usize::from(after) - usize::from(before);
            sums.counted = (sums.counted + counted).saturating_sub(self.counted);
            sums.wanted = (sums.wanted + wanted).saturating_sub(self.wanted);
            if sums.under_way == 0 {
                *sums = Sums::default();
            }
        });
        (self.counted, self.wanted) = (counted, wanted);
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.are(0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_those_of_all_counts_under_way() {
        let progress = Arc::new(Progress::default());
        assert_eq!(progress.flows(), (0, 0));
        let (one, other) = (progress.begin(100), progress.begin(50));
        one.counted(30);
        other.counted(50);
        assert_eq!(progress.flows(), (80, 150));
        // What was counted is enough: the rest is no longer expected.
        drop(one);
        assert_eq!(progress.flows(), (80, 80));
        drop(other);
        assert_eq!(progress.flows(), (0, 0));
    }

    #[test]
    fn counts_of_other_processes_are_added() {
        let progress = Arc::new(Progress::default());
        let (own, mut other) = (progress.begin(100), progress.elsewhere());
        own.counted(30);
        other.are(20, 50);
        other.are(50, 60);
        assert_eq!(progress.flows(), (80, 160));
        other.are(0, 0);
        assert_eq!(progress.flows(), (30, 100));
        other.are(1, 2);
        drop(own);
        assert_eq!(progress.flows(), (31, 32));
        drop(other);
        assert_eq!(progress.flows(), (0, 0));
    }
}
