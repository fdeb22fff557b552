//! An attempt in a thread of this process.

use super::attempt::{Assignment, Results};
use super::{RunError, guarded, session};

/// Carries out an attempt in a thread of this process. A panic is an error of this scenario alone.
pub(super) fn carry_out(assigned: Assignment<'_>) -> Results {
    let mut tests = Vec::new();
    let ended = guarded(|| session::carry_out(assigned, &mut tests));
    (tests, ended.err().map(RunError::into_trouble))
}
