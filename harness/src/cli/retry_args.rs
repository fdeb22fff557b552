//! Options for repetitions, retries and time limits of tests.

use std::num::NonZeroU32;
use std::time::Duration;

use svclab::run::Options;

use super::duration::duration;
use super::numbers::{repetitions, retries, seed};

/// Options for repetitions, retries and time limits of tests.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct AttemptArgs {
    /// Stop after the first test that does not pass.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_default_value = true, hide_possible_values = true, action = clap::ArgAction::Set)]
    fail_fast: bool,
    /// Repeat a test that does not pass up to N times, each time in a new lab. If it then passes, it is reported as flaky; the exit code is
    /// that of its last attempt.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = retries, hide_default_value = true)]
    retries: u32,
    /// Abort a test with an error if it takes longer than this, for example 30s or 2m.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Run every scenario N times.
    #[arg(long, value_name = "N", default_value = "1", value_parser = repetitions, hide_default_value = true)]
    repeat: NonZeroU32,
    /// Run scenarios in random order, and their tests too if none changes objects. The same seed gives the same order.
    #[arg(long, value_name = "SEED", value_parser = seed)]
    shuffle: Option<u64>,
}

impl AttemptArgs {
    /// Applies these options to those of a run.
    pub(super) fn apply(self, options: Options) -> Options {
        let Self { fail_fast, retries, timeout, repeat, shuffle } = self;
        Options { fail_fast, retries, timeout, repeat: repeat.get(), shuffle, ..options }
    }
}
