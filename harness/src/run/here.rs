//! An attempt in a thread of this process.

use std::sync::Arc;

use super::attempt::{Attempt, Results, Supervisor};
use super::{RunError, guarded, session};
use crate::probe::Progress;
use crate::scenario::Scenario;

/// Carries out an attempt in a thread of this process. A panic is an error of this scenario alone.
pub(super) fn carry_out(
    scenario: &Scenario,
    attempt: &Attempt,
    progress: &Arc<Progress>,
    supervisor: &mut dyn Supervisor,
) -> Results {
    let mut tests = Vec::new();
    let ended = guarded(|| session::carry_out(scenario, attempt, progress, supervisor, &mut tests));
    (tests, ended.err().map(RunError::into_trouble))
}
