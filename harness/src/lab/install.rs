//! Installs rules in namespaces with iptables-restore and nft.

use svclab_rules::cluster::ProxyMode;
use svclab_rules::iptables::MAX_LINE_BYTES;

use super::namespaces::{Namespace, find};
use super::{Backend, LabError};
use super::{installed, nfacct, programs};
use crate::documents::Document;
use crate::text::shortened;

/// Installs documents, each replacing the content of its tables. Namespaces are done in parallel, and while `meanwhile` runs; the documents
/// of one namespace are installed one after the other, in order. `before` are the documents of an earlier sync that remember clients.
/// Returns what `meanwhile` returns.
///
/// # Errors
///
/// [`LabError::Rules`] with the program's message and the rule that it is about, [`LabError::Missing`], [`LabError::Program`] and
/// [`LabError::Killed`] if the program fails without a message, [`LabError::NotInstalled`] if it succeeds without effect, the errors of
/// `meanwhile`, and [`LabError::Unknown`] before anything is installed.
pub(super) fn install_all<T>(
    namespaces: &[Namespace],
    documents: &[Document],
    before: &[Document],
    backend: Backend,
    meanwhile: impl FnOnce() -> Result<T, LabError>,
) -> Result<T, LabError> {
    let found = documents.iter().map(|document| Ok((find(namespaces, &document.netns)?, document)));
    let placed = found.collect::<Result<Vec<_>, LabError>>()?;
    let together = placed.chunk_by(|(_, one), (_, next)| one.netns == next.netns);
    let calls = together.map(|documents| {
        move || {
            documents.iter().try_for_each(|(namespace, document)| {
                let before = before.iter().find(|before| before.replaces(document));
                install(namespace, document, before, backend)
            })
        }
    });
    programs::during(meanwhile, calls)
}

/// Installs one document and verifies that its rules are there.
///
/// # Errors
///
/// As [`install_all`].
pub(super) fn install(
    namespace: &Namespace,
    document: &Document,
    before: Option<&Document>,
    backend: Backend,
) -> Result<(), LabError> {
    let text = match before {
        Some(before) => document.rules.print_sync_after(&before.rules),
        None => document.rules.print_sync(),
    };
    nfacct::create(namespace, &document.rules)?;
    load(namespace, document, &text, backend)?;
    installed::check(namespace, document, &text, backend)
}

/// Loads a text with the program that installs a document. The text need not be the document's own.
///
/// # Errors
///
/// As [`install_all`].
pub(super) fn load(namespace: &Namespace, document: &Document, text: &str, backend: Backend) -> Result<(), LabError> {
    let mode = document.rules.mode();
    let program = backend.program(mode, document.family);
    let rejected = |message, rule| {
        let (program, netns) = (program.to_owned(), document.netns.clone());
        LabError::Rules { program, netns, message, rule }
    };
    if let Some(line) = too_long(mode, text) {
        let message =
            format!("iptables-restore splits lines longer than {MAX_LINE_BYTES} bytes: this one has {}", line.len());
        return Err(rejected(message, Some(shortened(line).into_owned())));
    }
    let arguments: &[&str] = if mode == ProxyMode::Nftables { &["-f", "-"] } else { &[] };
    let output = programs::run(namespace, program, arguments, text)?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if message.is_empty() {
        return Err(programs::failed(namespace, program, &format!("it printed no error ({})", output.status)));
    }
    let rule = line_number(&message).and_then(|number| text.lines().nth(number - 1)).map(str::to_owned);
    let rule = rule.filter(|line| line.trim() != "COMMIT");
    Err(rejected(message, rule))
}

/// The first line that iptables-restore would split into two. A printed rule can be longer than the rule as written.
fn too_long(mode: ProxyMode, text: &str) -> Option<&str> {
    let lines = (mode == ProxyMode::Iptables).then(|| text.lines());
    lines.into_iter().flatten().find(|line| line.len() > MAX_LINE_BYTES)
}

/// The line that a message names: `line 7 failed` or `Error occurred at line: 7` of iptables-restore, `/dev/stdin:7:3-9` of
/// nft.
fn line_number(message: &str) -> Option<usize> {
    let after = message.split("/dev/stdin").nth(1).or_else(|| message.split("line").nth(1))?;
    let after = after.trim_start_matches([':', ' ']);
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use svclab_rules::cluster::Family;
    use svclab_rules::iptables::RuleSet;

    use super::*;

    #[test]
    fn rules_for_an_unknown_namespace_are_an_error() {
        let rules = Arc::new(RuleSet::new(Family::Ipv4).into());
        let document = Document { netns: "node/nowhere".to_owned(), family: Family::Ipv4, rules };
        let installed = install_all(&[], &[document], &[], Backend::System, || Ok(()));
        let error = installed.expect_err("there is no such namespace");
        assert_eq!(error.to_string(), "the lab has no network namespace node/nowhere");
    }

    #[rstest::rstest]
    #[case("iptables-restore v1.8.9 (nf_tables): \nline 12: RULE_APPEND failed (No such file or directory)", Some(12))]
    #[case("iptables-restore: line 7 failed", Some(7))]
    #[case("Error occurred at line: 3\nTry `iptables-restore -h'", Some(3))]
    #[case("/dev/stdin:135:43-48: Error: Interface does not exist", Some(135))]
    #[case("Permission denied (you must be root)", None)]
    fn names_the_line(#[case] message: &str, #[case] expected: Option<usize>) {
        assert_eq!(line_number(message), expected);
    }
}
