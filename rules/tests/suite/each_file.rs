//! One test for many files. A test function for each file, as test attributes generate them, compiles slowly with thousands of files.
//!
//! The tests of svclab use it too.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// One test at a time uses all processors, because tests already run in parallel.
static PROCESSORS: Mutex<()> = Mutex::new(());

/// Checks every file that matches one of the patterns, on all processors, and fails with the names of those whose check failed.
///
/// # Panics
///
/// If a check fails, or a pattern matches no file.
pub(crate) fn each_file(patterns: &[&str], check: impl Fn(&Path) + Sync) {
    let _all = PROCESSORS.lock().unwrap_or_else(PoisonError::into_inner);
    let files: Vec<PathBuf> = patterns.iter().flat_map(|pattern| matching(pattern)).collect();
    let next = Mutex::new(files.iter());
    let failures = Mutex::new(Vec::new());
    let take = || next.lock().unwrap().next();
    let run = || {
        while let Some(file) = take() {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(file))) {
                failures.lock().unwrap().push(format!("{}: {}", file.display(), message(&*panic)));
            }
        }
    };
    thread::scope(|scope| {
        (0..thread::available_parallelism().map_or(1, usize::from)).for_each(|_| drop(scope.spawn(run)))
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} files fail:\n{}", failures.len(), files.len(), failures.join("\n"));
}

fn matching(pattern: &str) -> Vec<PathBuf> {
    let files: Vec<PathBuf> = glob::glob(pattern).unwrap().map(Result::unwrap).collect();
    assert!(!files.is_empty(), "no file matches {pattern}");
    files
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked")
}
