//! Recognition of inputs by their content.

use svclab_rules::cluster::ProxyMode;
use svclab_rules::iptables;

use super::find::is_manifest;

/// The kind of an input that contains rules: a format of rules, or a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// The format of `iptables-save` and `iptables-restore`, or some lines of it.
    Saved,
    /// The output of `iptables -L`.
    Listed,
    /// The output of `nft list ruleset`, with or without `-j`.
    Nft,
    /// A scenario: the rules are those that a lab installs.
    Scenario,
}

impl InputKind {
    /// Describes it: `in the format of iptables-save`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Saved => "in the format of iptables-save",
            Self::Listed => "in the format of iptables -L",
            Self::Nft => "in the format of nft",
            Self::Scenario => "as a lab installs them",
        }
    }
}

/// Recognises the format of a text by its content.
///
/// # Errors
///
/// Message and help for an unrecognised format.
pub fn input_kind(text: &str) -> Result<InputKind, (&'static str, &'static str)> {
    const FORMATS: &str =
        "Pass the output of `iptables-save`, `iptables -t nat -L -n` or `nft list ruleset`, or a scenario.";
    if text.trim().is_empty() {
        return Err(("the input is empty", FORMATS));
    }
    if text.trim_start().starts_with('{') && text.contains("\"nftables\"") {
        return Ok(InputKind::Nft);
    }
    if is_manifest(text) {
        return Err((
            "these are Kubernetes objects, not rules",
            "Pass them to `svclab rules`, which generates their rules.",
        ));
    }
    if text.lines().any(|line| ["nodes:", "cluster:", "tests:"].iter().any(|key| line.starts_with(key))) {
        return Ok(InputKind::Scenario);
    }
    if text.lines().any(|line| is_rule(line) || TABLES.contains(&line.trim())) {
        return Ok(InputKind::Saved);
    }
    if text.lines().map(str::trim).any(|line| line.starts_with("table ") && line.ends_with('{')) {
        return Ok(InputKind::Nft);
    }
    match iptables::parse_listing(text) {
        Some(_) => Ok(InputKind::Listed),
        None => Err(("unrecognised rule format", FORMATS)),
    }
}

/// Returns whether a text looks like a scenario: YAML with one of its fields at the start of a line, and no code fence.
pub fn is_scenario(text: &str) -> bool {
    const FIELDS: [&str; 6] = ["name:", "cluster:", "nodes:", "services:", "tests:", "manifests:"];
    let has_field = text.lines().any(|line| FIELDS.iter().any(|field| line.starts_with(field)));
    has_field && !is_manifest(text) && is_yaml(text) && !text.lines().any(|line| line.starts_with("```"))
}

/// Returns whether a text is svclab input: rules in a known format, or YAML with fields or a list. Other texts are never quoted.
pub fn is_input(text: &str) -> bool {
    is_yaml(text) || input_kind(text).is_ok()
}

/// Returns whether a text looks like YAML (or JSON) with fields or a list, judging by its first non-blank line: `root:x:0:0` and
/// `KEY=value` do not. A blank text does.
pub(crate) fn is_yaml(text: &str) -> bool {
    let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let first =
        lines.find(|line| !line.is_empty() && !line.starts_with(['#', '%']) && *line != "---" && *line != "...");
    let Some(first) = first else { return true };
    let (name, rest) = first.split_once(':').unwrap_or((first, "-"));
    let is_field = rest.is_empty() || rest.starts_with([' ', '\t']);
    let is_letter = |letter: char| letter.is_alphanumeric() || "_-./\"'".contains(letter);
    first.starts_with('{') || first.starts_with("- ") || (is_field && name.trim_end().chars().all(is_letter))
}

/// Returns whether a text looks like rules in a format that can be installed.
pub(crate) fn is_rules(text: &str) -> bool {
    matches!(input_kind(text), Ok(InputKind::Saved | InputKind::Nft | InputKind::Listed)) || text.trim().is_empty()
}

/// Returns the language of rules, by their first words.
pub(crate) fn language(text: &str) -> ProxyMode {
    let words = ["table", "add", "create", "flush", "delete", "destroy", "define", "include"];
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default();
    let is_nft = first.starts_with('{') || first.split_whitespace().next().is_some_and(|word| words.contains(&word));
    if is_nft { ProxyMode::Nftables } else { ProxyMode::Iptables }
}

/// The headings of tables in `iptables-save`.
const TABLES: [&str; 5] = ["*nat", "*filter", "*mangle", "*raw", "*security"];

/// Returns whether a line appends a rule, with or without counters before it.
fn is_rule(line: &str) -> bool {
    let line = line.trim_start();
    let line = line.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map_or(line, |(_, rest)| rest);
    line.starts_with("-A ")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::scenario("# remark\n---\nname: x\n", true)]
    #[case::key_alone("tests:\n  - {}\n", true)]
    #[case::quoted("\"name\": x\n", true)]
    #[case::json("{\"apiVersion\": \"v1\"}", true)]
    #[case::list("- a\n", true)]
    #[case::broken("name: [x\n", true)]
    #[case::accounts("root:$6$x:19000:0:99999:7:::\n", false)]
    #[case::environment("KEY=a: b\n", false)]
    #[case::private_key("-----BEGIN PRIVATE KEY-----\n", false)]
    #[case::section("[client]\npassword: x\n", false)]
    #[case::word("secret\n", false)]
    fn yaml_is_recognised(#[case] text: &str, #[case] expected: bool) {
        assert_eq!(is_yaml(text), expected);
    }
}
