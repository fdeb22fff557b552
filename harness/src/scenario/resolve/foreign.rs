//! Foreign rules: whether they can be installed where they are meant to be.

use svclab_rules::cluster::ProxyMode;
use svclab_rules::iptables::{self, ParseError};

use super::super::diagnostics::Diagnostic;
use super::super::limits;
use super::super::model::{ForeignRules, Install, Place as Namespace, Span};
use super::super::tree::{At, Place};
use super::findings::Findings;

/// Checks rules, given those that were written before them. `at` is their entry, and `start` the column that their
/// lines start at, where these are lines of a file.
pub(crate) fn check(
    rules: &ForeignRules,
    before: &[ForeignRules],
    at: At<'_>,
    start: Option<usize>,
    mode: ProxyMode,
    findings: &mut Findings,
) {
    beside(rules, before, at, findings);
    // Rules that stand alone are for iptables-restore to judge. Others must be understood before they can be merged.
    if rules.install == Install::Instead || matches!(rules.place, Namespace::Pod(_)) {
        return;
    }
    if mode == ProxyMode::Nftables {
        let message = "these rules cannot be merged with those of nftables mode";
        let help = "Set `install: instead`, or `cluster.proxy.mode: iptables`.";
        findings.wrong(at.field("install"), message, help);
        return;
    }
    for error in iptables::parse(&rules.text, rules.family).err().unwrap_or_default().into_iter().take(limits::MISTAKES)
    {
        findings.add(unreadable(&error, rules, at, start));
    }
}

/// Checks that there is room for rules beside those of the same namespace and family.
fn beside(rules: &ForeignRules, before: &[ForeignRules], at: At<'_>, findings: &mut Findings) {
    let same = |other: &&ForeignRules| other.place == rules.place && other.family == rules.family;
    let Some(other) = before.iter().find(same) else { return };
    let family = rules.family;
    if let Namespace::Pod(_) = rules.place {
        let message = format!("a second set of {family} rules for the same pod");
        findings.wrong(at, message, "Write all of them in one: the second would replace the first.");
    } else if [rules.install, other.install].contains(&Install::Instead) {
        let message = format!("`instead` leaves no room for other {family} rules on the same node");
        findings.wrong(at, message, "Write all of them in one, or use `before` and `after`.");
    }
}

/// A mistake inside of rules.
fn unreadable(error: &ParseError, rules: &ForeignRules, at: At<'_>, start: Option<usize>) -> Diagnostic {
    const HELP: &str = "Rules that stand before or after kube-proxy's are merged with them, so svclab must understand \
        them: write them as iptables-save does.";
    let Some(start) = start else {
        return at.field("text").mistake(format!("line {}: {}", error.line, error.message)).help(HELP);
    };
    let span = Span {
        line: rules.origin.line + error.line - 1,
        column: start + error.column - 1,
        file: rules.origin.file.clone(),
    };
    let word = error.text.chars().skip(error.column - 1).take_while(|letter| !letter.is_whitespace()).count();
    let message = error.message.clone();
    Diagnostic { span, length: word.max(1), message, help: Some(HELP.to_owned()), also: None }
}
