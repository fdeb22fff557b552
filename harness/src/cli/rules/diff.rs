//! `svclab rules --diff`: saved rules compared with those that svclab writes.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use svclab_rules::cascade::Extent;
use svclab_rules::cluster::{Family, ProxyMode};
use svclab_rules::compare::{Comparison, Others, Subject, compare_machines};
use svclab_rules::nftables;
use svclab_rules::profile::{Profile, releases};
use svclab_rules::ruleset::{ParseError, Rules};

use super::Written;
use crate::cli::failure::Failure;
use crate::cli::text_of;
use svclab::evidence::{self, Format, NodeRules, node_rules};
use svclab::input;
use svclab::scenario::{Diagnostic, Diagnostics, Span};
use svclab::text::{counted, printable};

/// The rules of a file.
pub(super) struct Found {
    /// The file's name in messages.
    file: PathBuf,
    rules: Rules,
}

/// The differences between the rules of a file and those that svclab writes.
pub(super) struct Diff {
    file: PathBuf,
    /// The node and release whose rules it was compared with.
    written: String,
    mode: ProxyMode,
    pub(super) comparison: Comparison,
}

impl Diff {
    /// Returns a line with what was compared and the number of differences in kube-proxy's rules; only these affect the exit code.
    pub(super) fn summary(&self) -> String {
        let (file, written) = (printable(&self.file), &self.written);
        let whose = if self.has_others() { " in kube-proxy's own rules" } else { "" };
        match self.comparison.own.len() {
            0 => format!("no difference{whose}: {file} has the rules that svclab writes for {written}"),
            count => {
                let differences = counted(count, "difference");
                format!("{differences}{whose} in {file} from the rules that svclab writes for {written}:")
            }
        }
    }

    /// Returns a line on the rules that are not kube-proxy's, if there are any; with `compared`, a list of their differences follows.
    pub(super) fn rest(&self, compared: bool) -> Option<String> {
        let Comparison { foreign, others: Others { rules, chains, tables }, .. } = &self.comparison;
        let holders = if *tables > 0 { counted(*tables, "other table") } else { counted(*chains, "chain") };
        let (verb, past) = if *rules == 1 { ("is", "was") } else { ("are", "were") };
        let counted_others =
            (*rules > 0).then(|| format!("{} of {holders} {verb} not kube-proxy's", counted(*rules, "rule")));
        let differences =
            || format!("{} in other rules, without effect on the exit code:", counted(foreign.len(), "difference"));
        match counted_others {
            Some(counted_others) if compared && !foreign.is_empty() => {
                Some(format!("{counted_others}; {}", differences()))
            }
            // Other tables are never compared.
            Some(counted_others) if compared && *tables == 0 => {
                Some(format!("{counted_others}; no difference in them"))
            }
            Some(counted_others) => Some(format!("{counted_others} and {past} not compared")),
            None => (compared && !foreign.is_empty()).then(differences),
        }
    }

    /// Whether either side has rules that are not kube-proxy's.
    fn has_others(&self) -> bool {
        self.comparison.others.rules > 0 || !self.comparison.foreign.is_empty()
    }

    /// Returns possible causes that concern the file as a whole.
    pub(super) fn hints(&self) -> Vec<&'static str> {
        let missing = self.comparison.own.iter().any(|finding| matches!(finding.subject, Subject::Table(_)));
        let hint = match self.mode {
            ProxyMode::Iptables => "iptables-save without `-t` saves all tables.",
            ProxyMode::Nftables => "`nft list ruleset` shows all tables.",
        };
        if missing { vec![hint] } else { Vec::new() }
    }
}

impl Found {
    /// Compares these rules with those written; `missing` means missing here.
    pub(super) fn diff(&self, written: &Written) -> Diff {
        let comparison = compare_machines(&written.rules, &self.rules);
        Diff { file: self.file.clone(), written: written.whose.clone(), mode: written.rules.mode(), comparison }
    }
}

/// Returns a hint at the releases with fewer differences, if there are any.
pub(super) fn likelier(diff: &Diff, found: &Found, write: impl Fn(Profile) -> Option<Written>) -> Option<String> {
    let mut fewest = diff.comparison.own.len();
    let mut likeliest: Vec<Profile> = Vec::new();
    // Consecutive releases often write the same rules.
    let mut before: Option<(Rules, usize)> = None;
    for version in Profile::kinds().filter(|_| diff.comparison.own.len() > 1) {
        let Some(written) = write(version).filter(|written| written.rules.mode() == diff.mode) else { continue };
        let count = match before.take_if(|(rules, _)| *rules == written.rules) {
            Some((_, count)) => count,
            None => found.diff(&written).comparison.own.len(),
        };
        before = Some((written.rules, count));
        if count < fewest {
            (fewest, likeliest) = (count, vec![version]);
        } else if count == fewest && !likeliest.is_empty() {
            likeliest.push(version);
        }
    }
    let count = if fewest == 0 { "no difference".to_owned() } else { counted(fewest, "difference") };
    let newest = likeliest.last()?;
    let others = if likeliest.len() > 1 {
        format!(" (or {})", releases::named(&likeliest[..likeliest.len() - 1]))
    } else {
        String::new()
    };
    Some(format!("With `--version {newest}`{others} there is {count}."))
}

/// Saved rules, not yet parsed.
pub(super) struct Saved {
    /// The file's name in messages.
    file: PathBuf,
    text: String,
    /// The tables of nftables in the text, parsed once for both families.
    tables: OnceCell<Result<nftables::Parsed, Vec<nftables::ParseError>>>,
}

impl Saved {
    /// Reads a file, or standard input where it is `-`.
    pub(super) fn read(file: &Path) -> Result<Self, Failure> {
        let (file, text) = text_of(file);
        let text = text.map_err(|error| input::unreadable(&file, &error))?;
        Ok(Self { file, text, tables: OnceCell::new() })
    }

    fn tables(&self) -> &Result<nftables::Parsed, Vec<nftables::ParseError>> {
        self.tables.get_or_init(|| nftables::parse(&self.text))
    }

    /// Returns the families of its rules, where they are known: tables of nft have a family, rules of iptables have addresses.
    pub(super) fn families(&self) -> Vec<Family> {
        match self.tables() {
            Ok(parsed) if !parsed.rules.tables.is_empty() => {
                Family::ALL.into_iter().filter(|family| parsed.rules.table(*family).is_some()).collect()
            }
            _ => self.text.lines().find_map(input::family).into_iter().collect(),
        }
    }

    /// Parses the rules, in the language of those that are written.
    pub(super) fn parse(&self, written: &Written) -> Result<Found, Failure> {
        let Self { file, text, .. } = self;
        let mode = written.rules.mode();
        if let Some(rules) = self.quoted(written) {
            return Ok(Found { file: file.clone(), rules });
        }
        let refused =
            |errors| Diagnostics { errors, sources: BTreeMap::from([(file.clone(), Arc::from(text.as_str()))]) };
        if let Some((line, message, help)) = foreign_form(text, mode) {
            return Err(refused(vec![mistake(file, (line, 1), 1, message, help)]).into());
        }
        if let (ProxyMode::Iptables, Some((line, family))) = (mode, input::other_family(text)) {
            let (message, help) = input::both_families(family);
            return Err(refused(vec![mistake(file, (line, 1), 1, &message, help)]).into());
        }
        let rules = match mode {
            ProxyMode::Nftables => self
                .tables()
                .clone()
                .map(Rules::Nftables)
                .map_err(|errors| errors.into_iter().map(ParseError::from).collect()),
            ProxyMode::Iptables => Rules::parse(mode, written.family, text),
        };
        let rules =
            rules.map_err(|errors| refused(errors.iter().map(|one| in_file(one, file, written.family)).collect()))?;
        Ok(Found { file: file.clone(), rules })
    }
}

impl Saved {
    /// The rules in a text that cannot be parsed as it stands: quoted, indented, with prefixes or prompts. `None` where they can, and where
    /// only parts are shown: what is missing there would be reported as a difference.
    fn quoted(&self, written: &Written) -> Option<Rules> {
        let (mode, family) = (written.rules.mode(), written.family);
        if Rules::parse(mode, family, &self.text).is_ok() {
            return None;
        }
        let is_own = |node: &NodeRules| {
            let fits = node.rules.iptables().is_none_or(|rules| rules.family == family);
            node.extent == Extent::Whole && node.rules.mode() == mode && fits && node.format != Format::IptablesList
        };
        node_rules(&evidence::read(&self.text)).into_iter().find(is_own).map(|node| node.rules)
    }
}

/// Returns the line, message and help for a text that has no rules of a mode.
fn foreign_form(text: &str, mode: ProxyMode) -> Option<(usize, &'static str, &'static str)> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let Some((index, first)) = lines.next() else {
        let help = match mode {
            ProxyMode::Iptables => {
                "Save the rules with iptables-save, as root; `iptables-legacy-save` and `iptables-nft-save` each print \
                 the rules of their own backend."
            }
            ProxyMode::Nftables => "Save the rules with `nft list ruleset`, as root.",
        };
        return Some((1, "the file contains no rules", help));
    };
    let first = first.trim_start();
    let is_nft = first.starts_with("table ") || first.starts_with('{');
    let is_save = first.starts_with(['*', ':', '-', '[']);
    let (message, help) = match mode {
        _ if first.starts_with("Chain ") => (
            "this is the output of `iptables -L`",
            "Save the rules with iptables-save: a listing omits parts of each rule.",
        ),
        ProxyMode::Iptables if is_nft => (
            "these are nftables rules",
            "Choose `--mode nftables` if kube-proxy runs in that mode, or save the rules with iptables-save.",
        ),
        ProxyMode::Nftables if is_save => (
            "these are iptables rules",
            "Choose `--mode iptables` if kube-proxy runs in that mode, or save the rules with `nft list ruleset`.",
        ),
        _ => return None,
    };
    Some((index + 1, message, help))
}

/// Locates a parse error in the file.
fn in_file(error: &ParseError, file: &Path, family: Family) -> Diagnostic {
    let help = match (error, family) {
        (ParseError::Nftables(_), _) => "Use the output of `nft list ruleset` or `nft -j list ruleset`.",
        (ParseError::Iptables(_), Family::Ipv4) => {
            "Use the format of iptables-save. For the output of `ip6tables-save`, choose `--family ipv6`."
        }
        (ParseError::Iptables(_), Family::Ipv6) => {
            "Use the format of ip6tables-save. For the output of `iptables-save`, choose `--family ipv4`."
        }
    };
    let (place, message) = error.in_text();
    mistake(file, place, error.width(), &message, help)
}

fn mistake(file: &Path, (line, column): (usize, usize), length: usize, message: &str, help: &str) -> Diagnostic {
    let span = Span { file: file.to_owned(), line, column };
    Diagnostic { span, length, message: message.to_owned(), help: Some(help.to_owned()), also: None }
}
