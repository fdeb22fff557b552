//! An attempt in a thread of this process.

use super::attempt::{Assignment, LabArtifacts, Results};
use super::{guarded, session};

/// Runs an attempt in a thread of this process. A panic is an error of this scenario only.
pub(super) fn carry_out(assigned: Assignment<'_>) -> Results {
    let mut tests = Vec::new();
    let (kept, error) = match guarded(|| session::carry_out(assigned, &mut tests)) {
        Ok(kept) => (kept, None),
        Err(error) => (LabArtifacts::default(), Some(error.into_trouble())),
    };
    Results { tests, error, kept }
}
