//! Text within HTML.

use std::time::Duration;

use crate::report::Status;
use crate::text::{duration, markup};

/// Lines within `<pre>`.
pub(super) fn lines(text: &str) -> String {
    text.trim_matches('\n').lines().map(markup).collect::<Vec<_>>().join("\n")
}

/// A duration in words, or nothing.
pub(super) fn time(seconds: Option<f64>) -> String {
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.map(|time| markup(&duration(time))).unwrap_or_default()
}

/// The word for a result, as on the console.
pub(super) fn word(status: Status, flaky: bool) -> &'static str {
    match (status, flaky) {
        (Status::Ok, true) => "FLAKY",
        (Status::Ok, false) => "ok",
        (Status::Failed, _) => "FAIL",
        (Status::Error, _) => "ERROR",
    }
}

/// The CSS class of a result.
pub(super) fn class(status: Status, flaky: bool) -> &'static str {
    if flaky { "flaky" } else { status.as_str() }
}
