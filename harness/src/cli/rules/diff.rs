//! `svclab rules --diff`: rules that somebody saved, held against those that svclab writes.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use svclab_rules::cluster::{Family, ProxyMode};
use svclab_rules::compare::{Finding, Others, compare, leave_out_others};
use svclab_rules::iptables::{self, ParseError, RuleSet};

use super::{Refusal, Written};
use crate::scenario::{self, Diagnostic, Diagnostics, Span};

/// What takes the place of a file's name for standard input.
const STDIN: &str = "-";

/// What was found in a file.
pub(super) struct Diff {
    /// The file, as a person calls it.
    file: PathBuf,
    /// Whose rules it was held against.
    written: String,
    /// The differences, services first.
    pub(super) findings: Vec<Finding>,
    /// Those in what is not kube-proxy's.
    pub(super) foreign: Vec<Finding>,
    /// How much of the file is not kube-proxy's.
    others: Others,
}

impl Diff {
    /// One line that says what was compared with what, and how many differences there are.
    pub(super) fn summary(&self) -> String {
        let (file, written) = (self.file.display(), &self.written);
        match self.findings.len() {
            0 => format!("no difference: {file} has the rules that svclab writes for {written}"),
            1 => format!("1 difference in {file} from the rules that svclab writes for {written}:"),
            count => format!("{count} differences in {file} from the rules that svclab writes for {written}:"),
        }
    }

    /// One line on the rules that are not kube-proxy's, where there are any.
    pub(super) fn rest(&self, compared: bool) -> Option<String> {
        let Others { rules, chains } = self.others;
        let counted = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
        let (verb, past) = if rules == 1 { ("is", "was") } else { ("are", "were") };
        let rules_told = format!("{} of {}", counted(rules, "rule"), counted(chains, "chain"));
        let end = if compared { "; their differences:".to_owned() } else { format!(" and {past} not compared") };
        (rules > 0).then(|| format!("{rules_told} {verb} not kube-proxy's{end}"))
    }
}

/// How the rules of a file, or of standard input where it is `-`, are different from those written: what is missing is
/// missing in the file.
pub(super) fn diff(written: &Written, file: &Path) -> Result<Diff, Refusal> {
    if written.mode == ProxyMode::Nftables {
        let help = "Choose `--mode iptables`, or compare the text that is printed without `--diff`.";
        return Err(Refusal::new("--diff compares rules of iptables, and these are of nftables mode", help));
    }
    let (file, text) = match file.as_os_str() == STDIN {
        true => (PathBuf::from("standard input"), scenario::read_limited(io::stdin().lock())),
        false => (file.to_owned(), scenario::read_argument(file)),
    };
    let text = text.map_err(|error| scenario::unreadable(&file, &error))?;
    let mut found = read(&text, &file, written.family)?;
    let mut expected = iptables::parse(&written.text, written.family).map_err(|errors| {
        let message = format!("the rules of {} cannot be read: {}", written.whose, errors[0]);
        Refusal::new(message, "Write foreign rules as iptables-save does.")
    })?;
    let mut foreign = compare(&expected.rules, &found);
    let others = leave_out_others(&mut expected.rules, &mut found);
    let findings = compare(&expected.rules, &found);
    foreign.retain(|finding| !findings.contains(finding));
    Ok(Diff { file, written: written.whose.clone(), findings, foreign, others })
}

/// The rules that stand in a text, where it is one of rules.
fn read(text: &str, file: &Path, family: Family) -> Result<RuleSet, Diagnostics> {
    let refused = |errors| Diagnostics { errors, sources: BTreeMap::from([(file.to_owned(), Arc::from(text))]) };
    if let Some((line, message, help)) = foreign_form(text) {
        return Err(refused(vec![mistake(file, (line, 1), 1, message, help)]));
    }
    let parsed = iptables::parse(text, family);
    parsed
        .map(|parsed| parsed.rules)
        .map_err(|errors| refused(errors.iter().map(|one| of_line(one, file, family)).collect()))
}

/// What a text is that has no rules in the form of iptables-save: the first line that matters, and what to do.
fn foreign_form(text: &str) -> Option<(usize, &'static str, &'static str)> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let Some((index, first)) = lines.next() else {
        let help = "Save the rules with iptables-save, as root; `iptables-legacy-save` and `iptables-nft-save` each show \
                    what their own backend wrote.";
        return Some((1, "there are no rules in it", help));
    };
    let (message, help) = if first.starts_with("Chain ") {
        (
            "this is what `iptables -L` shows",
            "Save the rules with iptables-save: a listing leaves out half of each rule.",
        )
    } else if first.starts_with("table ") {
        ("these are rules of nft", "Save the rules with iptables-save; `--diff` compares rules of iptables.")
    } else {
        return None;
    };
    Some((index + 1, message, help))
}

/// A line that cannot be read.
fn of_line(error: &ParseError, file: &Path, family: Family) -> Diagnostic {
    let other = match family {
        Family::Ipv4 => "With what `ip6tables-save` wrote, choose `--family ipv6`.",
        Family::Ipv6 => "With what `iptables-save` wrote, choose `--family ipv4`.",
    };
    let help = format!("Give the text as iptables-save writes it, or as iptables-restore takes it. {other}");
    let word = error.text.chars().skip(error.column - 1).take_while(|letter| !letter.is_whitespace()).count();
    mistake(file, (error.line, error.column), word.max(1), &error.message, &help)
}

fn mistake(file: &Path, (line, column): (usize, usize), length: usize, message: &str, help: &str) -> Diagnostic {
    let span = Span { file: file.to_owned(), line, column };
    Diagnostic { span, length, message: message.to_owned(), help: Some(help.to_owned()), also: None }
}
