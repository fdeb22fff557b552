//! What a text is, by its content.

use svclab_rules::iptables;

use super::find::is_manifest;

/// A form in which rules are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// What `iptables-save` writes and `iptables-restore` takes, or some lines of it.
    Saved,
    /// What `iptables -L` shows.
    Listed,
    /// What `nft list ruleset` shows, with `-j` or without.
    Nft,
    /// A scenario: the rules are those that a lab installs.
    Scenario,
}

impl Form {
    /// In words: `as iptables-save shows them`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Saved => "as iptables-save shows them",
            Self::Listed => "as iptables -L shows them",
            Self::Nft => "as nft shows them",
            Self::Scenario => "as a lab installs them",
        }
    }
}

/// What a text is, by its content.
///
/// # Errors
///
/// The message and help for a text that is of no known form.
pub fn form(text: &str) -> Result<Form, (&'static str, &'static str)> {
    const FORMS: &str =
        "Give what `iptables-save`, `iptables -t nat -L -n` or `nft list ruleset` shows, or a scenario.";
    if text.trim().is_empty() {
        return Err(("there is nothing in it", FORMS));
    }
    if text.trim_start().starts_with('{') && text.contains("\"nftables\"") {
        return Ok(Form::Nft);
    }
    if is_manifest(text) {
        let help = "Let `svclab rules FILE` write their rules, and pipe these to `svclab cascade -`.";
        return Err(("these are Kubernetes objects, and no rules", help));
    }
    if text.lines().any(|line| ["nodes:", "cluster:", "tests:"].iter().any(|key| line.starts_with(key))) {
        return Ok(Form::Scenario);
    }
    if text.lines().any(|line| is_rule(line) || TABLES.contains(&line.trim())) {
        return Ok(Form::Saved);
    }
    if text.lines().any(|line| line.starts_with("table ") && line.ends_with('{')) {
        return Ok(Form::Nft);
    }
    match iptables::parse_listing(text) {
        Some(_) => Ok(Form::Listed),
        None => Err(("this is no form of rules that is known", FORMS)),
    }
}

/// The headings of tables in `iptables-save`.
const TABLES: [&str; 5] = ["*nat", "*filter", "*mangle", "*raw", "*security"];

/// Whether a line appends a rule, with counters before it or without.
pub(crate) fn is_rule(line: &str) -> bool {
    let line = line.trim_start();
    let line = line.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map_or(line, |(_, rest)| rest);
    line.starts_with("-A ")
}
