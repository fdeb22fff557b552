//! Other rules in nftables: kube-proxy's own tables, or other tables.

use svclab_rules::cluster::Family;
use svclab_rules::nftables::evaluate::{CompileError, CompileErrorKind, Part, Program};
use svclab_rules::nftables::{self, Condition, Name, Parsed, Statement};
use svclab_rules::ruleset::ParseError;

use super::super::findings::Findings;
use super::{Written, reject};
use crate::input::{Diagnostic, limits};
use crate::scenario::model::{Install, Note, Place};

/// The name of kube-proxy's tables.
const PROXY: &str = "kube-proxy";

/// Checks that tables can be parsed and installed, given the rules of earlier entries.
pub(super) fn check(written: &Written<'_>, before: &[Written<'_>], findings: &mut Findings) {
    if let Place::Pod(_) = written.place {
        let help = "Use the format of iptables-save: `*TABLE`, chains, rules, `COMMIT`.";
        let message = "nftables rules are supported on nodes only";
        findings.add(written.error(first_line(written), 1, message).help(help));
    } else if written.install == Install::Instead {
        instead(written, findings);
    } else {
        other_tables(written, before, findings);
    }
}

/// Checks that kube-proxy's table of the family exists.
fn instead(written: &Written<'_>, findings: &mut Findings) {
    const HELP: &str = "Use the unmodified output of `nft list ruleset`, with or without `-j`.";
    let family = written.family;
    match tables_of(written) {
        Ok(parsed) if parsed.rules.table(family).is_some() => {
            left_out(written, parsed, findings);
            if written.text.trim_start().starts_with('{') {
                untranslatable(written, parsed, findings);
            }
        }
        Ok(parsed) => {
            let message = format!("kube-proxy's {family} table is missing");
            let help = if parsed.rules.tables.is_empty() {
                "Use the whole output of `nft list ruleset`; other tables need `install: before` or `after`."
            } else {
                "Set the other `family`, or use the whole output of `nft list ruleset`."
            };
            findings.add(written.error(first_line(written), 1, message).help(help));
        }
        Err(errors) => reject(written, errors, HELP, findings),
    }
}

/// Rejects unsupported expressions in nft's JSON: rules are installed as text, and these have no known text.
fn untranslatable(written: &Written<'_>, parsed: &Parsed, findings: &mut Findings) {
    const HELP: &str =
        "Use the output of `nft list ruleset` without `-j`: unknown expressions are kept verbatim in text.";
    let Some(table) = parsed.rules.table(written.family) else { return };
    for chain in &table.chains {
        for (number, rule) in (1..).zip(&chain.rules) {
            let condition = rule.conditions.iter().find_map(|one| match one {
                Condition::Other(json) => Some(json),
                _ => None,
            });
            let statement = rule.statements.iter().find_map(|one| match one {
                Statement::Other(json) => Some(json),
                _ => None,
            });
            if let Some(json) = condition.or(statement) {
                let message = format!("chain {}, rule {number}: unsupported expression: {json}", chain.name);
                findings.add(written.error(first_line(written), 1, message).help(HELP));
            }
        }
    }
}

/// Adds a note on tables that are not installed.
fn left_out(written: &Written<'_>, parsed: &Parsed, findings: &mut Findings) {
    if let Some(note) = Note::tables_not_installed(parsed, written.origin.clone()) {
        findings.doubt(written.at, note.message);
    }
}

/// Checks tables other than kube-proxy's.
fn other_tables(written: &Written<'_>, before: &[Written<'_>], findings: &mut Findings) {
    const HELP: &str = "Use the format of `nft list ruleset` without `-j`: `table inet filter { ... }`.";
    if let Some(error) = removal(written).or_else(|| audit(written)) {
        return findings.add(error);
    }
    let parsed = match tables_of(written) {
        Ok(parsed) => parsed,
        Err(errors) => return reject(written, errors, HELP, findings),
    };
    let mut reject = |message: String, help: &str| {
        findings.add(written.error(first_line(written), 1, message).help(help));
    };
    if parsed.names.is_empty() {
        reject("no table found".to_owned(), HELP);
    }
    for other in &parsed.others {
        let message = format!("table {} {}: unsupported family", other.family, other.name);
        reject(message, "Omit it: svclab supports tables of `ip`, `ip6` and `inet`.");
    }
    if let Some(own) = parsed.names.iter().find(|table| table.name == PROXY) {
        let help = "Use `install: instead` for kube-proxy's tables, and a separate entry for other tables.";
        reject(format!("table {own} belongs to kube-proxy"), help);
    }
    let same = |other: &&Written<'_>| other.place == written.place && other.is_other_tables();
    let known = before.iter().filter(same).filter_map(|other| tables_of(other).ok());
    let known: Vec<(Family, &Name)> = known.flat_map(names).collect();
    if let Some((_, name)) = names(parsed).find(|name| known.contains(name)) {
        reject(format!("duplicate table `{name}` on this node"), "Merge the two.");
    }
}

/// Rejects statements that log to the audit log, which all network namespaces share.
fn audit(written: &Written<'_>) -> Option<Diagnostic> {
    let is_audit = |line: &str| {
        let words: Vec<&str> = line.split('"').step_by(2).flat_map(str::split_whitespace).collect();
        words.contains(&"log") && words.windows(2).any(|pair| pair == ["level", "audit"])
    };
    let (line, _) = (1..).zip(written.text.lines()).find(|(_, line)| is_audit(line))?;
    let message = "`log level audit` writes to the audit log of the whole machine";
    Some(written.error(line, 1, message).help("Omit the statement: it does not affect packets."))
}

/// Returns the tables by family.
fn names(parsed: &Parsed) -> impl Iterator<Item = (Family, &Name)> {
    parsed.rules.tables.iter().map(|table| (table.family, &table.name))
}

/// Returns the tables, or the parse errors.
fn tables_of<'w>(written: &'w Written<'_>) -> Result<&'w Parsed, &'w [ParseError]> {
    let rules = written.parsed.as_ref().map_err(Vec::as_slice)?;
    rules.nftables().ok_or(&[])
}

/// Rejects commands that delete existing rules.
fn removal(written: &Written<'_>) -> Option<Diagnostic> {
    let is_removal = |line: &str| {
        let mut words = line.split_whitespace();
        matches!(words.next(), Some("flush" | "delete" | "destroy"))
            && matches!(words.next(), Some("ruleset" | "table" | "chain" | "set" | "map"))
    };
    let line = written.text.lines().position(is_removal)? + 1;
    let message = "this command deletes existing rules";
    let help = "Omit it: svclab loads the tables into an empty namespace and flushes them itself.";
    Some(written.error(line, column(written, line), message).help(help))
}

/// Returns the column of the first word of a line, both from 1.
fn column(written: &Written<'_>, line: usize) -> usize {
    let text = written.text.lines().nth(line - 1).unwrap_or_default();
    text.chars().take_while(|letter| letter.is_whitespace()).count() + 1
}

/// Returns the first line that is neither blank nor a comment, from 1.
fn first_line(written: &Written<'_>) -> usize {
    let is_blank = |line: &&str| line.trim().is_empty() || line.trim().starts_with('#');
    written.text.lines().take_while(is_blank).count() + 1
}

/// Checks tables for errors that the kernel rejects. Parse errors have been reported already.
pub(super) fn programs(written: &Written<'_>, findings: &mut Findings) {
    let Ok(parsed) = tables_of(written) else { return };
    let families = Family::ALL.into_iter().filter(|family| written.is_other_tables() || *family == written.family);
    let errors = families.filter_map(|family| Program::compile(&parsed.rules, family).err()).flatten();
    let mut reported: Vec<(Option<usize>, CompileErrorKind)> = Vec::new();
    for error in errors {
        // An inet table is one of each family.
        let place = (line(parsed, &error), error.kind.clone());
        if reported.contains(&place) || reported.len() == limits::ERRORS {
            continue;
        }
        let help = match error.kind {
            CompileErrorKind::NoHook => {
                "Add `type filter hook forward priority 0;` to one of its chains, or omit the table."
            }
            CompileErrorKind::TooLong(_) => super::FEWER_JUMPS,
            _ => "The kernel rejects this: nft would load nothing.",
        };
        let line = place.0.unwrap_or(1);
        findings.add(written.error(line, column(written, line), error.to_string()).help(help));
        reported.push(place);
    }
}

/// Returns the line of an error, from 1; JSON has none.
fn line(Parsed { rules, lines, .. }: &Parsed, error: &CompileError) -> Option<usize> {
    let table = rules.tables.iter().position(|one| one.family == error.family && one.name == error.table)?;
    let nftables::Table { chains, sets, .. } = &rules.tables[table];
    // Of two with the same name, the second is the duplicate.
    let chain_of = |name: &Name| chains.iter().rposition(|chain| chain.name == *name);
    match &error.part {
        Part::Table => lines.chain(table, 0),
        Part::Chain(name) => lines.chain(table, chain_of(name)?),
        Part::Rule(name, number) => lines.rule(table, chain_of(name)?, number.checked_sub(1)?),
        Part::Set(name) => lines.set(table, sets.iter().rposition(|set| set.name == *name)?),
    }
}
