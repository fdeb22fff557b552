//! Cascades from rules in any format.

use std::path::Path;

use svclab_rules::cascade::{Shares, StructureDefect, shares};
use svclab_rules::cluster::{Cluster, Node};
use svclab_rules::coverage::Coverage;
use svclab_rules::ruleset::Unsupported;

use super::Report;
use crate::documents;
use crate::evidence::{Evidence, Format, NodeRules, OF_IPTABLES_NFT, Unread, node_rules, not_judged};
use crate::input::{InputKind, limits};
use crate::scenario::{Diagnostic, Diagnostics, Scenario};
use crate::text::printable;

/// Reads the cascades of rules that are not a scenario, in any format. `file` is the name in messages.
///
/// # Errors
///
/// Evidence without rules that balance connections.
pub fn read(evidence: &Evidence, file: &Path) -> Result<Report, Diagnostics> {
    let report = evidence_report(evidence, file);
    // For rules that the kernel rejects, only the cause is reported.
    let is_rejected = report.structure_defects.iter().any(|defect| matches!(defect, StructureDefect::Rejected { .. }));
    if is_rejected || !report.cascades.is_empty() {
        return Ok(report);
    }
    let place = |own: Option<&str>| own.map_or_else(|| file.to_owned(), |own| file.join(own));
    let mut errors: Vec<Diagnostic> = evidence
        .unread
        .iter()
        .map(|unread| Diagnostic::at(&place(unread.file.as_deref()), (unread.line, 1), &unread.reason, UNREAD))
        .collect();
    match node_rules(evidence).first() {
        None if evidence.iptables_nft_piece().is_some() => {
            let [message, help] = OF_IPTABLES_NFT;
            errors.insert(0, Diagnostic::at(file, (1, 1), message, help));
        }
        Some(set) if errors.is_empty() => {
            let message = format!("no chain of {} load-balances connections", set.format.words());
            errors.push(Diagnostic::at(&place(set.file.as_deref()), (set.first, 1), &message, SERVICES));
        }
        None if errors.is_empty() => errors.push(Diagnostic::at(file, (1, 1), "unrecognised rule format", FORMATS)),
        _ => {}
    }
    errors.truncate(limits::ERRORS);
    Err(Diagnostics { errors, ..Diagnostics::default() })
}

const FORMATS: &str =
    "Pass the output of `iptables-save`, `iptables -t nat -L -n` or `nft list ruleset`, or a scenario.";
const UNREAD: &str = "Pass the text as iptables-save or nft prints it; `svclab dump show` lists what was read.";
const SERVICES: &str =
    "Services are in the table `nat`, in chains KUBE-SVC-...; in nft's table kube-proxy, in chains service-...";

/// Reads the cascades of all rules in evidence.
fn evidence_report(evidence: &Evidence, file: &Path) -> Report {
    let nodes = node_rules(evidence);
    let mut report = Report {
        source: String::new(),
        kind: InputKind::Saved,
        is_part: false,
        notes: Vec::new(),
        rules_not_read: not_judged(evidence, &nodes),
        structure_defects: Vec::new(),
        cascades: Vec::new(),
        samples: Vec::new(),
    };
    for node in &nodes {
        let Shares { cascades, structure_defects } = shares(&node.rules, &node.coverage);
        if report.cascades.is_empty() {
            report.kind = kind_of(node.format);
        }
        report.is_part |= !node.is_whole() && !cascades.is_empty();
        report.cascades.extend(cascades);
        report.structure_defects.extend(structure_defects);
        report.notes.extend(notes(node));
    }
    if report.is_part && report.kind != InputKind::Listed {
        report
            .notes
            .insert(0, "the text is an excerpt of a rule set: rules that it does not show are unknown".to_owned());
    }
    report.notes.extend(report.rules_not_read.clone());
    let is_cut = |unread: &&Unread| nodes.iter().any(|node| node.cut == Some(unread.line) && node.file == unread.file);
    let unread: Vec<&Unread> = evidence.unread.iter().filter(|unread| !is_cut(unread)).collect();
    if let Some(first) = unread.first().filter(|_| !report.cascades.is_empty()) {
        let (lines, first) = (crate::text::counted(unread.len(), "line"), first.line);
        report.notes.push(format!("{lines} could not be read, first line {first}: `svclab dump show` lists them"));
    }
    report.source = format!("{}, {}", printable(file), report.kind.words());
    report
}

fn kind_of(format: Format) -> InputKind {
    match format {
        Format::IptablesList => InputKind::Listed,
        Format::Nft | Format::NftJson => InputKind::Nft,
        _ => InputKind::Saved,
    }
}

/// Returns notes on the accuracy of shares from a listing.
fn notes(node: &NodeRules) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(digits) = node.rounded_digits {
        let draws = 0.5 * 10_f64.powi(-i32::try_from(digits).unwrap_or(i32::MAX)) * 2_f64.powi(31);
        let grouped = crate::text::grouped(draws.ceil() as u64);
        notes.push(format!(
            "probabilities have {digits} digits here, so the kernel's thresholds are only known to ±{grouped} of 2^31; \
             iptables-save prints all digits"
        ));
    }
    if let Some(line) = node.cut {
        notes.push(format!("line {line} is cut off: the rest of its rule and everything after it are unknown"));
    }
    notes
}

/// Returns the cascades of a node in a state of a scenario's cluster, of both families if it has addresses of both.
///
/// # Errors
///
/// If rules cannot be generated, or other rules cannot be parsed.
pub fn scenario_report(scenario: &Scenario, state: &Cluster, node: &Node) -> Result<Report, Unsupported> {
    let netns = format!("node/{}", node.name);
    let mut all = Shares::default();
    for document in documents::generate(scenario, state)?.into_iter().filter(|document| document.netns == netns) {
        let Shares { cascades, structure_defects } = shares(&document.rules, &Coverage::all());
        all.cascades.extend(cascades);
        all.structure_defects.extend(structure_defects);
    }
    let Shares { cascades, structure_defects } = all;
    let source = format!("node {} of {}, {}", node.name, printable(&scenario.file), InputKind::Scenario.words());
    Ok(Report {
        source,
        kind: InputKind::Scenario,
        is_part: false,
        notes: Vec::new(),
        rules_not_read: None,
        structure_defects,
        cascades,
        samples: Vec::new(),
    })
}
