//! Findings for people.

use std::path::Path;

use super::finding::Finding;
use super::severity::Severity;
use crate::page::{BAD, FAINT, MARKED, Page, Settings};
use crate::text::{counted, grouped, one_line, printable};

/// The most findings of one kind that are printed without `-v`.
const SHOWN: usize = 5;

/// Prints findings, and a line that counts them.
pub fn render(path: &Path, rules: usize, unread: usize, findings: &[Finding], settings: Settings) -> String {
    let mut page = Page::new(settings);
    let mut shown: Vec<(&str, usize)> = Vec::new();
    let most = if page.settings.is_verbose() { usize::MAX } else { SHOWN };
    for finding in findings {
        if page.settings.is_quiet() && finding.severity == Severity::Info {
            continue;
        }
        let count = match shown.iter_mut().find(|(id, _)| *id == finding.id) {
            Some((_, count)) => {
                *count += 1;
                *count
            }
            None => {
                shown.push((finding.id, 1));
                1
            }
        };
        if count > most {
            continue;
        }
        let style = match finding.severity {
            Severity::Error => BAD,
            Severity::Warning => MARKED,
            Severity::Info => FAINT,
        };
        let severity = page.paint(style, finding.severity.word());
        page.line(0, format!("{}: {severity}: {} ({})", finding.place, one_line(&finding.message), finding.id));
        page.line(2, format!("effect: {}", one_line(&finding.effect)));
        if finding.entry().is_some() {
            let issue = finding.issue().map(|issue| format!("as in {issue}; ")).unwrap_or_default();
            page.line(2, format!("{issue}ask for {}", finding.ask()));
        }
    }
    for (id, count) in shown.iter().filter(|(_, count)| *count > most) {
        page.line(0, format!("... and {} more of {id}; -v prints all", count - most));
    }
    if !findings.is_empty() {
        page.gap();
    }
    let of = |severity: Severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let unread = if unread > 0 {
        format!("; {} not read, see `svclab dump show`", counted(unread, "line"))
    } else {
        String::new()
    };
    let (errors, warnings) = (counted(of(Severity::Error), "error"), counted(of(Severity::Warning), "warning"));
    let numbers = format!("{errors}, {warnings}, {} info", grouped(of(Severity::Info) as u64));
    page.line(0, format!("{}, {}: {numbers}{unread}", printable(path), counted(rules, "rule")));
    page.finish()
}
