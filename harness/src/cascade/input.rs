//! Cascades from rules in any format.

use std::collections::BTreeSet;
use std::path::Path;

use svclab_rules::cascade::{Cascade, Shares, StructureDefect, shares};
use svclab_rules::cluster::{Cluster, Node};
use svclab_rules::coverage::Coverage;
use svclab_rules::ruleset::Unsupported;

use super::{Report, before_services};
use crate::documents;
use crate::evidence::{Evidence, Format, NodeRules, OF_IPTABLES_NFT, Unread, node_rules, not_judged};
use crate::input::{InputKind, limits};
use crate::scenario::{Diagnostic, Diagnostics, Scenario};
use crate::text::{list, one_line, printable};

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
    // A rule of such a chain that could not be read may be what is missing.
    let is_of_balancer = |unread: &&Unread| BALANCING.iter().any(|words| unread.text.contains(words));
    let (of_balancers, others): (Vec<&Unread>, Vec<&Unread>) = evidence.unread.iter().partition(is_of_balancer);
    let before = of_balancers.len();
    let mut errors: Vec<Diagnostic> = of_balancers
        .into_iter()
        .chain(others)
        .map(|unread| Diagnostic::at(&place(unread.file.as_deref()), (unread.line, 1), &unread.reason, UNREAD))
        .collect();
    match node_rules(evidence).first() {
        None if evidence.iptables_nft_piece().is_some() => {
            let [message, help] = OF_IPTABLES_NFT;
            errors.insert(0, Diagnostic::at(file, (1, 1), message, help));
        }
        // What could not be read of the rest is not.
        Some(set) => {
            let message = format!("no chain of {} load-balances connections", set.format.words());
            errors.insert(before, Diagnostic::at(&place(set.file.as_deref()), (set.first, 1), &message, SERVICES));
        }
        None if !evidence.pieces.is_empty() => {
            let message = format!("the input has no rules, only {}", evidence.formats());
            let first = &evidence.pieces[0];
            errors.insert(0, Diagnostic::at(&place(first.file.as_deref()), (first.first, 1), &message, FORMATS));
        }
        None if errors.is_empty() => errors.push(Diagnostic::at(file, (1, 1), "unrecognised rule format", FORMATS)),
        None => {}
    }
    errors.truncate(limits::ERRORS);
    Err(Diagnostics { errors, ..Diagnostics::default() })
}

/// What rules of chains that balance connections contain.
const BALANCING: [&str; 4] = ["-A KUBE-SVC-", "-A KUBE-SVL-", "-A KUBE-XLB-", "numgen "];

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
        places: Vec::new(),
        samples: Vec::new(),
    };
    let mut sets: Vec<(&NodeRules, Vec<Cascade>)> = Vec::new();
    for node in &nodes {
        let Shares { cascades, structure_defects } = shares(&node.rules, &node.coverage);
        if sets.is_empty() {
            report.kind = kind_of(node.format);
        }
        report.is_part |= !node.is_whole() && !cascades.is_empty();
        report.structure_defects.extend(structure_defects);
        report.notes.extend(notes(node));
        if !cascades.is_empty() {
            sets.push((node, cascades));
        }
    }
    if sets.len() > 1 {
        let place = |(node, cascades): &(&NodeRules, Vec<Cascade>)| vec![place_of(node); cascades.len()];
        report.places = sets.iter().flat_map(place).collect();
        report.notes.extend(differing(&sets));
    }
    report.cascades = sets.into_iter().flat_map(|(_, cascades)| cascades).collect();
    if report.is_part && report.kind != InputKind::Listed {
        report
            .notes
            .insert(0, "the text is an excerpt of a rule set: rules that it does not show are unknown".to_owned());
    }
    report.notes.extend(report.rules_not_read.clone());
    let is_cut = |unread: &&Unread| nodes.iter().any(|node| node.cut == Some((unread.file.clone(), unread.line)));
    let unread: Vec<&Unread> = evidence.unread.iter().filter(|unread| !is_cut(unread)).collect();
    if let Some(first) = unread.first().filter(|_| !report.cascades.is_empty()) {
        let (lines, first) = (crate::text::counted(unread.len(), "line"), first.line);
        report.notes.push(format!("{lines} could not be read, first line {first}: `svclab dump show` lists them"));
    }
    report.source = format!("{}, {}", printable(file), report.kind.words());
    report
}

/// The place of rules in an input with several rule sets.
fn place_of(node: &NodeRules) -> String {
    let host = node.host.as_ref().map(|host| format!("{}, ", one_line(host))).unwrap_or_default();
    format!("{host}{}", node.place())
}

/// The most services that are named.
const MAX_NAMED: usize = 5;

/// The services whose endpoints differ between rule sets of a kind, in words.
fn differing(sets: &[(&NodeRules, Vec<Cascade>)]) -> Option<String> {
    let endpoints =
        |cascade: &Cascade| -> BTreeSet<String> { cascade.steps.iter().map(|step| step.endpoint.clone()).collect() };
    let differs = |node: &NodeRules, cascade: &Cascade| {
        let are_whole = |other: &NodeRules| node.is_whole() && other.is_whole() && node.is_of_kind(other);
        let others = sets.iter().filter(|(other, _)| are_whole(other)).flat_map(|(_, cascades)| cascades);
        let mut same = others.filter(|other| other.chain == cascade.chain);
        same.any(|other| endpoints(other) != endpoints(cascade))
    };
    let is_of_all_nodes = |cascade: &&Cascade| !cascade.is_local();
    let of_set = |(node, cascades): &(&NodeRules, Vec<Cascade>)| {
        let differing = cascades.iter().filter(is_of_all_nodes).filter(|cascade| differs(node, cascade));
        differing.map(|cascade| cascade.service.clone()).collect::<Vec<_>>()
    };
    let services: BTreeSet<String> = sets.iter().flat_map(of_set).collect();
    (!services.is_empty()).then(|| {
        let services = list(services, MAX_NAMED);
        format!(
            "the rule sets have different endpoints of {services}: one of them is out of date, unless topology hints explain it"
        )
    })
}

fn kind_of(format: Format) -> InputKind {
    match format {
        Format::IptablesList => InputKind::Listed,
        Format::Nft | Format::NftJson => InputKind::Nft,
        _ => InputKind::Saved,
    }
}

/// Returns notes on what shares leave out, and on their accuracy in a listing.
fn notes(node: &NodeRules) -> Vec<String> {
    let mut notes: Vec<String> = before_services::note(&node.rules).into_iter().collect();
    if let Some(digits) = node.rounded_digits {
        let draws = 0.5 * 10_f64.powi(-i32::try_from(digits).unwrap_or(i32::MAX)) * 2_f64.powi(31);
        let grouped = crate::text::grouped(draws.ceil() as u64);
        notes.push(format!(
            "probabilities have {digits} digits here, so the kernel's thresholds are only known to ±{grouped} of 2^31; \
             iptables-save prints all digits"
        ));
    }
    if let Some((_, line)) = &node.cut {
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
    let (mut all, mut notes) = (Shares::default(), BTreeSet::new());
    for document in documents::generate(scenario, state)?.into_iter().filter(|document| document.netns == netns) {
        let Shares { cascades, structure_defects } = shares(&document.rules, &Coverage::all());
        all.cascades.extend(cascades);
        all.structure_defects.extend(structure_defects);
        notes.extend(before_services::note(&document.rules));
    }
    let Shares { cascades, structure_defects } = all;
    let source = format!("node {} of {}, {}", node.name, printable(&scenario.file), InputKind::Scenario.words());
    Ok(Report {
        source,
        kind: InputKind::Scenario,
        is_part: false,
        notes: notes.into_iter().collect(),
        rules_not_read: None,
        structure_defects,
        cascades,
        places: Vec::new(),
        samples: Vec::new(),
    })
}
