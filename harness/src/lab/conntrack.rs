//! The nodes' connection tables.

use std::io;
use std::process::Stdio;
use std::thread;

use super::LabError;
use super::namespaces::Namespace;
use super::programs;

/// The program that edits connection tables.
const PROGRAM: &str = "conntrack";

/// Empties the connection tables of namespaces, all at the same time.
pub(super) fn flush<'lab>(namespaces: impl IntoIterator<Item = &'lab Namespace>) -> Result<(), LabError> {
    thread::scope(|scope| {
        let flushing: Vec<_> =
            namespaces.into_iter().map(|namespace| scope.spawn(|| run(namespace, &["-F".to_owned()]))).collect();
        flushing.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

/// Runs conntrack in a namespace. Exit code 1 with "0 flow entries have been deleted" is success: nothing was there.
pub(super) fn run(namespace: &Namespace, arguments: &[String]) -> Result<(), LabError> {
    let mut command = programs::command(PROGRAM)?;
    let output = namespace.run(|| command.args(arguments).stdin(Stdio::null()).output())?;
    let failed = |source| LabError::Socket { space: namespace.name().to_owned(), what: "running conntrack", source };
    let output = output.map_err(failed)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || said.contains("0 flow entries") {
        return Ok(());
    }
    let message = said.lines().last().unwrap_or("no message").to_owned();
    let what = "running conntrack";
    Err(LabError::Socket { space: namespace.name().to_owned(), what, source: io::Error::other(message) })
}
