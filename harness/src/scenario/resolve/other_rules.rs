//! Other rules: checks that they can be installed.

use std::sync::Arc;

use svclab_rules::cluster::{Cluster, Family, ProxyMode};
use svclab_rules::iptables::evaluate::{CompileError, CompileErrorKind, Program};
use svclab_rules::iptables::{self, Order, Parsed, RuleSet, Target};
use svclab_rules::ruleset::{ParseError, Rules};

use super::findings::Findings;
use crate::input::{Diagnostic, Span, limits};
use crate::scenario::model::{Install, OtherRules, Place as Namespace};
use crate::yaml::{At, Place};

mod tables;

/// Rules and their source place.
pub(crate) struct Written<'a> {
    /// The network namespace that they are for.
    pub(crate) place: Namespace,
    /// The family that they are for.
    pub(crate) family: Family,
    /// Their language.
    pub(crate) mode: ProxyMode,
    /// The text.
    pub(crate) text: String,
    /// Where the text starts.
    pub(crate) origin: Span,
    /// Their order relative to the generated rules.
    pub(crate) install: Install,
    /// The rules, parsed.
    pub(crate) parsed: Result<Rules, Vec<ParseError>>,
    /// Their entry.
    pub(crate) at: At<'a>,
    /// The column at which their lines start, if they are lines of a file.
    pub(crate) start: Option<usize>,
}

impl Written<'_> {
    /// Returns the rules as they are installed. If they could not be parsed, the namespace still counts as one with rules, so that tests
    /// are checked accordingly.
    pub(crate) fn into_rules(self) -> OtherRules {
        let Self { place, family, origin, install, parsed, .. } = self;
        let rules = parsed.unwrap_or_else(|_| RuleSet::new(family).into());
        OtherRules { place, family, rules: Arc::new(rules.for_family(family)), origin, install }
    }

    /// Returns whether they are nftables tables alongside kube-proxy's rules.
    fn is_other_tables(&self) -> bool {
        self.mode == ProxyMode::Nftables && self.install != Install::Instead
    }

    /// Returns whether they are the only rules in the namespace. Otherwise they are merged.
    fn alone(&self) -> bool {
        self.install == Install::Instead || matches!(self.place, Namespace::Pod(_))
    }

    /// Returns an error in a line, from 1, at the word that starts at a column, from 1.
    fn error(&self, line: usize, column: usize, message: impl Into<String>) -> Diagnostic {
        let message = message.into();
        let Some(start) = self.start else {
            return self.at.field("text").error(format!("line {line}: {message}"));
        };
        let origin = &self.origin;
        let span = Span { line: origin.line + line - 1, column: start + column - 1, file: origin.file.clone() };
        let text = self.text.lines().nth(line - 1).unwrap_or_default();
        let word = text.chars().skip(column - 1).take_while(|letter| !letter.is_whitespace()).count();
        Diagnostic { span, length: word.max(1), message, help: None, also: None }
    }
}

/// Parses rules according to their installation: nftables tables are kube-proxy's if they replace the generated ones.
pub(crate) fn parse(text: &str, mode: ProxyMode, family: Family, install: Install) -> Result<Rules, Vec<ParseError>> {
    match (mode, install) {
        (ProxyMode::Nftables, Install::Before | Install::After) => Rules::parse_other_tables(text),
        _ => Rules::parse(mode, family, text),
    }
}

/// Checks rules, given those of earlier entries.
pub(crate) fn check(written: &Written<'_>, before: &[Written<'_>], findings: &mut Findings) {
    conflicts(written, before, findings);
    if written.mode == ProxyMode::Nftables {
        return tables::check(written, before, findings);
    }
    chain_names(written, findings);
    if let Some(error) = no_rules(written) {
        return findings.add(error);
    }
    let help = if written.alone() {
        "Write the rule as iptables-save prints it: svclab parses all rules before it installs any."
    } else {
        "Write the rule as iptables-save prints it: svclab must parse rules that it merges with kube-proxy's."
    };
    match &written.parsed {
        Ok(Rules::Iptables(parsed)) => targets(written, parsed, findings),
        Ok(_) => {}
        Err(errors) => reject(written, errors, help, findings),
    }
}

/// Reports parse errors.
fn reject(written: &Written<'_>, errors: &[ParseError], help: &str, findings: &mut Findings) {
    for error in errors.iter().take(limits::ERRORS) {
        let ((line, column), message) = error.in_text();
        let help = match error {
            ParseError::Iptables(error) if error.is_missing_commit() => {
                "Add `COMMIT` after the last rule of the table."
            }
            _ => help,
        };
        findings.add(written.error(line, column, message).help(help));
    }
}

/// Targets that act on the whole machine instead of a network namespace: its audit log, timers, LED triggers, and SysRq.
pub(crate) const OF_THE_MACHINE: [&str; 4] = ["AUDIT", "IDLETIMER", "LED", "SYSRQ"];

/// Rejects rules whose targets affect more than packets.
fn targets(written: &Written<'_>, parsed: &Parsed, findings: &mut Findings) {
    let mut found = Vec::new();
    for (table, rules) in parsed.rules.tables.iter().enumerate() {
        for (chain, rules) in rules.chains.iter().enumerate() {
            for (rule, target) in
                rules.rules.iter().enumerate().filter_map(|(at, rule)| Some((at, rule.target.as_ref()?)))
            {
                if let Target::Other(other) = target
                    && OF_THE_MACHINE.contains(&&*other.name)
                {
                    found.push((parsed.lines.line(table, chain, rule).unwrap_or(1), other.name.clone()));
                }
            }
        }
    }
    for (line, name) in found.into_iter().take(limits::ERRORS) {
        let message = format!("target {name} acts on the whole machine, not on packets of a network namespace");
        findings.add(written.error(line, 1, message).help("Omit the rule: it does not affect packets."));
    }
}

/// The longest chain name that iptables accepts, in bytes (`XT_EXTENSION_MAXNAMELEN` without the terminating zero).
const CHAIN_NAME: usize = 28;

/// Rejects chain names that are too long.
fn chain_names(written: &Written<'_>, findings: &mut Findings) {
    let declared = written.text.lines().enumerate().filter_map(|(index, line)| {
        let (column, rest) = [":", "-N ", "--new-chain "].iter().find_map(|start| {
            let name = line.trim_start().strip_prefix(start)?.trim_start();
            Some((line.chars().count() - name.chars().count() + 1, name))
        })?;
        let name = rest.split_whitespace().next()?;
        (name.len() > CHAIN_NAME).then_some((index + 1, column, name))
    });
    for (line, column, name) in declared.take(limits::ERRORS) {
        let message = format!("chain name `{name}` is too long: {} bytes", name.len());
        findings.add(written.error(line, column, message).help(format!("Use at most {CHAIN_NAME} bytes.")));
    }
}

/// Checks rules against others of the same namespace and family. nftables tables do not conflict, nor do iptables rules with kube-proxy's
/// in nftables.
fn conflicts(written: &Written<'_>, before: &[Written<'_>], findings: &mut Findings) {
    if written.is_other_tables() {
        return;
    }
    let Written { place, family, install, .. } = written;
    let same = |other: &&Written<'_>| other.place == *place && other.family == *family && !other.is_other_tables();
    // Those of the same language exclude each other.
    let Some(other) = before.iter().filter(same).max_by_key(|other| other.mode == written.mode) else { return };
    if let Namespace::Pod(_) = place {
        let message = format!("duplicate {family} rules for the same pod");
        findings.wrong(written.at, message, "Merge the two: the second would replace the first.");
    } else if [*install, other.install].contains(&Install::Instead) && written.mode == other.mode {
        let message = format!("`install: instead` excludes other {family} rules on the same node");
        findings.wrong(written.at, message, "Merge them into one entry, or use `before` and `after`.");
    }
}

/// Rejects texts with control characters, which no iptables rule contains.
fn no_rules(written: &Written<'_>) -> Option<Diagnostic> {
    const HELP: &str = "Use the format of iptables-save: `*TABLE`, chains, rules, `COMMIT`.";
    for (index, line) in written.text.lines().enumerate() {
        let control = |letter: char| letter.is_control() && letter != '\t';
        if let Some((column, letter)) = line.chars().enumerate().find(|(_, letter)| control(*letter)) {
            let message = format!("control character {letter:?} in a rule");
            return Some(written.error(index + 1, column + 1, message).help(HELP));
        }
    }
    None
}

/// How to correct rules that lead a packet through too many others.
const FEWER_JUMPS: &str = "Remove repeated jumps to the same chain. The limit is 16,777,216 rules per packet, or 16 times the number of \
    rules if that is more.";

/// Checks all rules for errors that the kernel rejects: jumps to missing chains, loops, misplaced targets. Merged rules are checked after
/// merging.
pub(crate) fn programs(all: &[Written<'_>], cluster: &Cluster, findings: &mut Findings) {
    for written in all {
        if written.mode == ProxyMode::Nftables {
            tables::programs(written, findings);
            continue;
        }
        // Parse errors have been reported already.
        let Ok(Rules::Iptables(own)) = &written.parsed else { continue };
        let merged = if written.alone() { Some(own.rules.clone()) } else { merged(written, all, cluster) };
        let Some(merged) = merged else { continue };
        let errors = Program::compile(&merged).err().unwrap_or_default();
        let found = errors.iter().filter_map(|error| Some((line(error, &merged, own)?, &error.kind)));
        for (line, error_kind) in found.take(limits::ERRORS) {
            let help = match error_kind {
                // The first depends on the iptables variant; the second is useless, but can be loaded.
                CompileErrorKind::TooDeep | CompileErrorKind::NoHook => continue,
                CompileErrorKind::MissingChain(name) => {
                    format!("Declare it in the same table, as `:{name} - [0:0]`, or check the name.")
                }
                CompileErrorKind::TooLong(_) => FEWER_JUMPS.to_owned(),
                _ => "The kernel rejects this: iptables-restore would load nothing.".to_owned(),
            };
            findings.add(written.error(line, 1, format!("this rule {}", verb(error_kind))).help(help));
        }
    }
}

/// Describes an error in a rule, as the rest of a sentence about it.
fn verb(kind: &CompileErrorKind) -> String {
    match kind {
        CompileErrorKind::Misplaced { target, place } => format!("has target {target}, which is not valid {place}"),
        CompileErrorKind::Loop(_) => format!("closes a {kind}"),
        other => other.to_string(),
    }
}

/// Returns the rules of a node as they would be installed, as far as they can be parsed.
fn merged(written: &Written<'_>, all: &[Written<'_>], cluster: &Cluster) -> Option<RuleSet> {
    let Written { place, family, .. } = written;
    let Namespace::Node(node) = place else { return None };
    let mut rules = match cluster.proxy.mode {
        ProxyMode::Iptables => iptables::generate(cluster, cluster.node(node)?, *family).ok()?,
        // kube-proxy's rules are in separate tables.
        ProxyMode::Nftables => RuleSet::new(*family),
    };
    for other in all.iter().filter(|other| other.place == *place && other.family == *family) {
        let order = if other.install == Install::Before { Order::Before } else { Order::After };
        rules = iptables::merge(rules, other.parsed.as_ref().ok()?.iptables()?, order);
    }
    Some(rules)
}

/// Returns the line of the rule with an error, if it is one of these.
fn line(error: &CompileError, merged: &RuleSet, own: &Parsed) -> Option<usize> {
    let name = error.chain.as_deref()?;
    let wrong = merged.rules(error.table, name).get(error.rule?.checked_sub(1)?)?;
    let table = own.rules.tables.iter().position(|table| table.name == error.table)?;
    let chains = &own.rules.tables[table].chains;
    let chain = chains.iter().position(|chain| &*chain.name == name)?;
    let rule = chains[chain].rules.iter().position(|rule| rule == wrong)?;
    own.lines.line(table, chain, rule)
}
