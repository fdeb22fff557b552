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

/// Runs conntrack. That nothing was there to delete is success, though its exit code is 1.
fn call<S: AsRef<std::ffi::OsStr>>(namespace: &Namespace, arguments: &[S]) -> Result<(), LabError> {
    let output = run(namespace, PROGRAM, arguments, "")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || found_nothing(&said) {
        return Ok(());
    }
    Err(failed(namespace, PROGRAM, &said.lines().last().unwrap_or("no message")))
}

/// Whether a message is that of a call which found no connection: `conntrack v1.4.7 (conntrack-tools): 0 flow entries have been
/// deleted.`
fn found_nothing(message: &str) -> bool {
    let before = message.split_once(" flow entries").map(|(before, _)| before);
    before.and_then(|before| before.rsplit(' ').next()) == Some("0")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::found_nothing;

    #[rstest]
    #[case::none("conntrack v1.4.7 (conntrack-tools): 0 flow entries have been deleted.\n", true)]
    #[case::ten("conntrack v1.4.7 (conntrack-tools): 10 flow entries have been deleted.\n", false)]
    #[case::other("conntrack v1.4.7 (conntrack-tools): Operation failed: invalid parameters\n", false)]
    fn nothing_to_delete_is_told_from_a_failure(#[case] message: &str, #[case] expected: bool) {
        assert_eq!(found_nothing(message), expected);
    }
}
