//! Rules in any form that they are shown in, to cascades.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use svclab_rules::cascade::{Extent, FrameDefect, Shares, shares};
use svclab_rules::cluster::{Cluster, Node};
use svclab_rules::iptables::{self, ParseError};
use svclab_rules::nftables;
use svclab_rules::ruleset::{Rules, Unsupported};

use super::Report;
use crate::documents;
use crate::input::{Form, both_families, form, is_rule, other_family};
use crate::scenario::{Diagnostic, Diagnostics, Scenario, Span};
use crate::text::printable;

/// Reads rules that are no scenario. The file is what messages call it.
///
/// # Errors
///
/// Lines that cannot be read, or a text of no known form.
pub fn read(text: &str, file: &Path) -> Result<Report, Diagnostics> {
    let refused =
        |errors: Vec<Diagnostic>| Diagnostics { errors, sources: BTreeMap::from([(file.to_owned(), Arc::from(text))]) };
    let form = form(text).map_err(|(message, help)| refused(vec![mistake(file, (1, 1), message, help)]))?;
    let mut notes = Vec::new();
    let mut extent = Extent::Whole;
    let Shares { cascades, frame_defects } = match form {
        Form::Saved => {
            let (found, shown) = saved(text, file, &mut notes).map_err(refused)?;
            extent = shown;
            // A page on the web may show some rules in one form and services in the other.
            if found.cascades.is_empty() && !is_rejected(&found.frame_defects) {
                listed(text, &mut notes)
            } else {
                found
            }
        }
        Form::Listed => listed(text, &mut notes),
        Form::Nft => nft(text, file).map_err(refused)?,
        Form::Scenario => {
            let help = "Give the scenario by its file's name, for it may name other files.";
            return Err(refused(vec![mistake(file, (1, 1), "this is a scenario", help)]));
        }
    };
    if cascades.is_empty() && !is_rejected(&frame_defects) {
        let message = "these rules contain no chain that load-balances connections";
        let help =
            "Services are in the table `nat`, in chains KUBE-SVC-...; in nft's table kube-proxy, in chains service-...";
        return Err(refused(vec![mistake(file, (1, 1), message, help)]));
    }
    let source = format!("{}, {}", printable(file), form.words());
    let is_part = extent == Extent::Part;
    Ok(Report { source, form, is_part, notes, frame_defects, cascades, samples: Vec::new() })
}

fn is_rejected(defects: &[FrameDefect]) -> bool {
    defects.iter().any(|defect| matches!(defect, FrameDefect::Rejected { .. }))
}

/// The cascades of what `iptables-save` shows, and how much of it there is.
fn saved(text: &str, file: &Path, notes: &mut Vec<String>) -> Result<(Shares, Extent), Vec<Diagnostic>> {
    let (whole, before) = match text.lines().any(|line| line.trim_start().starts_with('*')) {
        true => (None, 0),
        false => {
            notes.push("the text is a part of a rule set: what is not in it is not known".to_owned());
            let (whole, before) = completed(text);
            (Some(whole), before)
        }
    };
    let extent = if whole.is_some() { Extent::Part } else { Extent::Whole };
    let text = whole.as_deref().unwrap_or(text);
    let errors = match iptables::parse_either_family(text) {
        Ok(parsed) => return Ok((shares(&Rules::Iptables(parsed), extent), extent)),
        Err(errors) => errors,
    };
    if let Some((line, family)) = other_family(text) {
        let (message, help) = both_families(family);
        return Err(vec![mistake(file, (line.saturating_sub(before).max(1), 1), &message, help)]);
    }
    // A page on the web shows some lines of a table with its heading, and prose between.
    let is_prose = |error: &ParseError| !is_rule(&error.text);
    if before == 0 && errors.iter().any(is_prose) {
        let rules: Vec<&str> = text.lines().map(|line| if is_rule(line) { line } else { "" }).collect();
        return saved(&rules.join("\n"), file, notes);
    }
    Err(errors.iter().map(|error| of_line(error, before, file)).collect())
}

/// Some lines of `iptables-save` as a table that has all chains that they name; and how many lines stand before theirs.
fn completed(text: &str) -> (String, usize) {
    let mut known = HashSet::new();
    let mut chains = Vec::new();
    for line in text.lines().filter(|line| is_rule(line)) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let named = words.windows(2).filter(|pair| pair[0] == "-A").map(|pair| pair[1]);
        chains.extend(named.filter(|name| known.insert(*name)));
    }
    let mut whole = String::from("*nat\n");
    chains.iter().for_each(|chain| whole += &format!(":{chain} - [0:0]\n"));
    let mut shown = Shown::default();
    for line in text.lines() {
        // What stands between rules, as prompts do, is left out; the numbers of lines stay.
        whole += if is_rule(line) && !shown.is_again(line) { line } else { "" };
        whole.push('\n');
    }
    (whole + "COMMIT\n", chains.len() + 1)
}

/// Rules that a text has shown so far.
#[derive(Default)]
struct Shown<'a> {
    lines: HashSet<&'a str>,
    /// The chain of the last one.
    chain: Option<&'a str>,
    /// Chains before that.
    left: HashSet<Option<&'a str>>,
}

impl<'a> Shown<'a> {
    /// Whether a page shows a rule once more: it has shown it already, and other chains since. In a table all rules of a chain
    /// stand together, so a rule that is there twice is not taken for that.
    fn is_again(&mut self, line: &'a str) -> bool {
        let chain = line.split_whitespace().skip_while(|word| *word != "-A").nth(1);
        if chain != self.chain {
            self.left.insert(std::mem::replace(&mut self.chain, chain));
        }
        !self.lines.insert(line.trim()) && self.left.contains(&chain)
    }
}

fn listed(text: &str, notes: &mut Vec<String>) -> Shares {
    let Some(listing) = iptables::parse_listing(text) else { return Shares::default() };
    if let Some(digits) = listing.short_digits {
        let draws = 0.5 * 10_f64.powi(-i32::try_from(digits).unwrap_or(i32::MAX)) * 2_f64.powi(31);
        let grouped = crate::text::grouped(draws.ceil() as u64);
        notes.push(format!(
            "probabilities have {digits} digits here, so that the kernel's thresholds are known to ±{grouped} of 2^31 only; \
             iptables-save has them whole"
        ));
    }
    if let Some(line) = listing.cut {
        notes.push(format!("line {line} is cut off: the rest of its rule is not known, nor what followed"));
    }
    shares(&listing.rules.into(), Extent::Whole)
}

fn nft(text: &str, file: &Path) -> Result<Shares, Vec<Diagnostic>> {
    const HELP: &str = "Give what `nft list ruleset` shows, with `-j` or without, unchanged.";
    let parsed = nftables::parse(text).map_err(|errors| {
        let places = errors.iter().map(nftables::ParseError::in_text);
        places.map(|(place, message)| mistake(file, place, &message, HELP)).collect::<Vec<_>>()
    })?;
    if parsed.rules.tables.is_empty() && parsed.others.iter().any(|other| other.name == "nat") {
        let help = "nft shows rules of iptables-nft in its own words, and some of them not at all. Save them with iptables-save.";
        return Err(vec![mistake(file, (1, 1), "there is no table of kube-proxy, but one of iptables-nft", help)]);
    }
    Ok(shares(&Rules::Nftables(parsed), Extent::Whole))
}

/// The cascades of a node in a state of a scenario's cluster, of both families where it has addresses of both.
///
/// # Errors
///
/// Where rules cannot be written, or other rules cannot be read.
pub fn of_scenario(scenario: &Scenario, state: &Cluster, node: &Node) -> Result<Report, Unsupported> {
    let netns = format!("node/{}", node.name);
    let mut all = Shares::default();
    for document in documents::generate(scenario, state)?.into_iter().filter(|document| document.netns == netns) {
        let Shares { cascades, frame_defects } = shares(&document.rules, Extent::Whole);
        all.cascades.extend(cascades);
        all.frame_defects.extend(frame_defects);
    }
    let Shares { cascades, frame_defects } = all;
    let source = format!("node {} of {}, {}", node.name, printable(&scenario.file), Form::Scenario.words());
    Ok(Report {
        source,
        form: Form::Scenario,
        is_part: false,
        notes: Vec::new(),
        frame_defects,
        cascades,
        samples: Vec::new(),
    })
}

fn of_line(error: &ParseError, before: usize, file: &Path) -> Diagnostic {
    let word = error.text.chars().skip(error.column - 1).take_while(|letter| !letter.is_whitespace()).count();
    let help = "Give the text as iptables-save writes it.";
    let place = (error.line.saturating_sub(before).max(1), error.column);
    Diagnostic { length: word.max(1), ..mistake(file, place, &error.message, help) }
}

fn mistake(file: &Path, (line, column): (usize, usize), message: &str, help: &str) -> Diagnostic {
    let span = Span { file: file.to_owned(), line, column };
    Diagnostic { span, length: 1, message: message.to_owned(), help: Some(help.to_owned()), also: None }
}
