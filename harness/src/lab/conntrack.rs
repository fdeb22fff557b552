//! The nodes' connection tables.

use super::LabError;
use super::namespaces::Namespace;
use super::programs::{at_once, failed, run};

/// The program that edits connection tables.
const PROGRAM: &str = "conntrack";

/// Empties the connection tables of namespaces.
pub(super) fn flush<'lab>(namespaces: impl IntoIterator<Item = &'lab Namespace>) -> Result<(), LabError> {
    at_once(namespaces.into_iter().map(|namespace| || call(namespace, &["-F"])))
}

/// Runs conntrack in a namespace with each of several lists of arguments.
pub(super) fn call_each(namespace: &Namespace, calls: &[Vec<String>]) -> Result<(), LabError> {
    at_once(calls.iter().map(|arguments| || call(namespace, arguments)))
}

/// Runs conntrack. Exit code 1 with "0 flow entries have been deleted" is success: nothing was there.
fn call<S: AsRef<std::ffi::OsStr>>(namespace: &Namespace, arguments: &[S]) -> Result<(), LabError> {
    let output = run(namespace, PROGRAM, arguments, "")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || said.contains("0 flow entries") {
        return Ok(());
    }
    Err(failed(namespace, PROGRAM, &said.lines().last().unwrap_or("no message")))
}
