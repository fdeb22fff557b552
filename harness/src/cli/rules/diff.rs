//! `svclab rules --diff`: rules that somebody saved, held against those that svclab writes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use svclab_rules::cluster::{Family, ProxyMode};
use svclab_rules::compare::{Comparison, Others, Subject, compare_machines};
use svclab_rules::nftables;
use svclab_rules::profile::{Profile, releases};
use svclab_rules::ruleset::{ParseError, Rules};

use super::Written;
use crate::cli::refusal::Refusal;
use crate::cli::text_of;
use svclab::input;
use svclab::scenario::{Diagnostic, Diagnostics, Span};
use svclab::text::{counted, printable};

/// The rules of a file.
pub(super) struct Found {
    /// The file, as a person calls it.
    file: PathBuf,
    rules: Rules,
}

/// How the rules of a file are different from those that svclab writes.
pub(super) struct Diff {
    file: PathBuf,
    /// Whose rules it was held against.
    written: String,
    mode: ProxyMode,
    pub(super) comparison: Comparison,
}

impl Diff {
    /// One line that says what was compared with what, and how many differences there are in what is kube-proxy's: the exit code
    /// depends on these alone.
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

    /// One line on the rules that are not kube-proxy's, where there are any; `compared` says that their differences follow.
    pub(super) fn rest(&self, compared: bool) -> Option<String> {
        let Comparison { foreign, others: Others { rules, chains, tables }, .. } = &self.comparison;
        let holders = if *tables > 0 { counted(*tables, "other table") } else { counted(*chains, "chain") };
        let (verb, past) = if *rules == 1 { ("is", "was") } else { ("are", "were") };
        let told = (*rules > 0).then(|| format!("{} of {holders} {verb} not kube-proxy's", counted(*rules, "rule")));
        let differences =
            || format!("{} in other rules, without effect on the exit code:", counted(foreign.len(), "difference"));
        match told {
            Some(told) if compared && !foreign.is_empty() => Some(format!("{told}; {}", differences())),
            // What stands in tables of its own is never compared.
            Some(told) if compared && *tables == 0 => Some(format!("{told}; no difference in them")),
            Some(told) => Some(format!("{told} and {past} not compared")),
            None => (compared && !foreign.is_empty()).then(differences),
        }
    }

    /// Whether either side has rules that are not kube-proxy's.
    fn has_others(&self) -> bool {
        self.comparison.others.rules > 0 || !self.comparison.foreign.is_empty()
    }

    /// What may be the matter with the file as a whole.
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
    /// How these rules are different from those written: what is missing is missing here.
    pub(super) fn diff(&self, written: &Written) -> Diff {
        let comparison = compare_machines(&written.rules, &self.rules);
        Diff { file: self.file.clone(), written: written.whose.clone(), mode: written.rules.mode(), comparison }
    }
}

/// The releases whose rules these are likelier to be, where there are some with fewer differences.
pub(super) fn likelier(diff: &Diff, found: &Found, write: impl Fn(Profile) -> Option<Written>) -> Option<String> {
    let mut fewest = diff.comparison.own.len();
    let mut likeliest: Vec<Profile> = Vec::new();
    // Releases next to each other often write the same.
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

/// What somebody saved, as it is written.
pub(super) struct Saved {
    /// The file, as a person calls it.
    file: PathBuf,
    text: String,
}

impl Saved {
    /// Reads a file, or standard input where it is `-`.
    pub(super) fn read(file: &Path) -> Result<Self, Refusal> {
        let (file, text) = text_of(file);
        let text = text.map_err(|error| input::unreadable(&file, &error))?;
        Ok(Self { file, text })
    }

    /// The families whose rules it has, as far as that can be told: nft's tables name theirs, rules of iptables have addresses.
    pub(super) fn families(&self) -> Vec<Family> {
        match nftables::parse(&self.text) {
            Ok(parsed) if !parsed.rules.tables.is_empty() => {
                Family::ALL.into_iter().filter(|family| parsed.rules.table(*family).is_some()).collect()
            }
            _ => self.text.lines().find_map(input::family).into_iter().collect(),
        }
    }

    /// The rules, in the language of those that are written.
    pub(super) fn parse(&self, written: &Written) -> Result<Found, Refusal> {
        let Self { file, text } = self;
        let mode = written.rules.mode();
        let refused =
            |errors| Diagnostics { errors, sources: BTreeMap::from([(file.clone(), Arc::from(text.as_str()))]) };
        if let Some((line, message, help)) = foreign_form(text, mode) {
            return Err(refused(vec![mistake(file, (line, 1), 1, message, help)]).into());
        }
        if let (ProxyMode::Iptables, Some((line, family))) = (mode, input::other_family(text)) {
            let (message, help) = input::both_families(family);
            return Err(refused(vec![mistake(file, (line, 1), 1, &message, help)]).into());
        }
        let rules = Rules::parse(mode, written.family, text)
            .map_err(|errors| refused(errors.iter().map(|one| in_file(one, file, written.family)).collect()))?;
        Ok(Found { file: file.clone(), rules })
    }
}

/// What a text is that has no rules of a mode: the first line that matters, and what to do.
fn foreign_form(text: &str, mode: ProxyMode) -> Option<(usize, &'static str, &'static str)> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let Some((index, first)) = lines.next() else {
        let help = match mode {
            ProxyMode::Iptables => {
                "Save the rules with iptables-save, as root; `iptables-legacy-save` and `iptables-nft-save` each show \
                 what their own backend wrote."
            }
            ProxyMode::Nftables => "Save the rules with `nft list ruleset`, as root.",
        };
        return Some((1, "there are no rules in it", help));
    };
    let is_nft = first.starts_with("table ") || first.starts_with('{');
    let is_save = first.starts_with(['*', ':', '-', '[']);
    let (message, help) = match mode {
        _ if first.starts_with("Chain ") => (
            "this is what `iptables -L` shows",
            "Save the rules with iptables-save: a listing leaves out half of each rule.",
        ),
        ProxyMode::Iptables if is_nft => (
            "these are rules of nft",
            "Choose `--mode nftables`, if that is kube-proxy's; else save the rules with iptables-save.",
        ),
        ProxyMode::Nftables if is_save => (
            "these are rules of iptables",
            "Choose `--mode iptables`, if that is kube-proxy's; else save the rules with `nft list ruleset`.",
        ),
        _ => return None,
    };
    Some((index + 1, message, help))
}

/// A place of the file that cannot be read.
fn in_file(error: &ParseError, file: &Path, family: Family) -> Diagnostic {
    let help = match (error, family) {
        (ParseError::Nftables(_), _) => "Give the text as `nft list ruleset` shows it, or `nft -j list ruleset`.",
        (ParseError::Iptables(_), Family::Ipv4) => {
            "Give the text as iptables-save writes it, or as iptables-restore takes it. With what `ip6tables-save` wrote, choose \
             `--family ipv6`."
        }
        (ParseError::Iptables(_), Family::Ipv6) => {
            "Give the text as iptables-save writes it, or as iptables-restore takes it. With what `iptables-save` wrote, choose \
             `--family ipv4`."
        }
    };
    let (place, message) = error.in_text();
    mistake(file, place, error.width(), &message, help)
}

fn mistake(file: &Path, (line, column): (usize, usize), length: usize, message: &str, help: &str) -> Diagnostic {
    let span = Span { file: file.to_owned(), line, column };
    Diagnostic { span, length, message: message.to_owned(), help: Some(help.to_owned()), also: None }
}
