//! Parallel work on several items.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::RunError;

/// Processes items in parallel, as many at a time as labs may run, and passes each result to `finished` as soon as it and those before it
/// are ready. The results are in the order of the items.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    jobs: Option<NonZeroUsize>,
    work: impl Fn(&T) -> R + Sync,
    finished: &(dyn Fn(&R) + Sync),
) -> Vec<R> {
    in_parallel_with(items, jobs, || (), |(), item| work(item), finished)
}

/// Like [`in_parallel`], with a value for each thread, made by `start`.
pub(crate) fn in_parallel_with<T: Sync, S, R: Send>(
    items: &[T],
    jobs: Option<NonZeroUsize>,
    start: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &T) -> R + Sync,
    finished: &(dyn Fn(&R) + Sync),
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(InOrder { done: Vec::with_capacity(items.len()), waiting: BTreeMap::new() });
    let take = || {
        let mut own = start();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { break };
            let result = work(&mut own, item);
            results.lock().unwrap_or_else(PoisonError::into_inner).add(index, result, finished);
        }
    };
    let jobs = jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        for _ in 1..jobs.min(items.len()) {
            // If fewer threads can be started, they share the work; this thread always exists.
            let _ = thread::Builder::new().spawn_scoped(scope, take);
        }
        take();
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).done
}

/// Results, sorted as they become ready.
struct InOrder<R> {
    /// Results in order, without a gap.
    done: Vec<R>,
    /// Results after a gap, by index.
    waiting: BTreeMap<usize, R>,
}

impl<R> InOrder<R> {
    fn add(&mut self, index: usize, result: R, finished: &dyn Fn(&R)) {
        self.waiting.insert(index, result);
        while let Some(result) = self.waiting.remove(&self.done.len()) {
            finished(&result);
            self.done.push(result);
        }
    }
}

/// Turns a panic into an error of the scenario that it occurred in, so that other scenarios continue.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, RunError>) -> Result<T, RunError> {
    match std::panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(panic) => Err(RunError::Panic(panic_message(panic.as_ref()))),
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "for no known reason".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    /// The first result is ready last, and is still reported first.
    #[test]
    fn results_are_reported_in_order() {
        let (all_others, reported) = (Barrier::new(2), Mutex::new(Vec::new()));
        let work = |item: &u32| {
            if [0, 3].contains(item) {
                all_others.wait();
            }
            item * 10
        };
        let report = |result: &u32| reported.lock().expect("no thread panics").push(*result);
        let results = in_parallel(&[0, 1, 2, 3], NonZeroUsize::new(2), work, &report);
        assert_eq!(results, [0, 10, 20, 30]);
        assert_eq!(*reported.lock().expect("no thread panics"), results);
    }
}
