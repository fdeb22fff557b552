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
    /// Flows counted and the most that there will be, over all counts since the last idle moment; zeros where none is running.
    pub fn flows(&self) -> (u64, u64) {
        self.change(|sums| (sums.counted, sums.wanted))
    }

    /// A count begins, of so many flows at most.
    pub(super) fn begin(self: &Arc<Self>, flows: u64) -> Arc<Counting> {
        self.change(|sums| {
            sums.under_way += 1;
            sums.wanted += flows;
        });
        Arc::new(Counting { of: Arc::clone(self), wanted: flows, counted: AtomicU64::new(0) })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Sums) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A count that is in flight until this is dropped.
#[derive(Debug)]
pub(super) struct Counting {
    of: Arc<Progress>,
    wanted: u64,
    counted: AtomicU64,
}

impl Counting {
    /// So many flows more were counted.
    pub(super) fn counted(&self, flows: u64) {
        self.counted.fetch_add(flows, Ordering::Relaxed);
        self.of.change(|sums| sums.counted += flows);
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let left = self.wanted.saturating_sub(self.counted.load(Ordering::Relaxed));
        self.of.change(|sums| {
            sums.under_way -= 1;
            sums.wanted -= left;
            if sums.under_way == 0 {
                *sums = Sums::default();
            }
        });
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
        // What was counted is enough: the rest is not wanted any more.
        drop(one);
        assert_eq!(progress.flows(), (80, 80));
        drop(other);
        assert_eq!(progress.flows(), (0, 0));
    }
}
