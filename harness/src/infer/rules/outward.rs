//! What rules of a dump would do outside of a lab: it is left out, and said.
//!
//! Targets and statements that only log, copy or measure packets decide nothing, so packets are handled as before without them. A statement that leaves
//! the decision to something that labs do not have makes the whole rule one that cannot be judged.

use std::collections::BTreeSet;

use svclab_rules::iptables::{Match, RuleSet, Target};
use svclab_rules::nftables::{self, Parsed, Statement};

use crate::scenario::OF_THE_MACHINE;
use crate::text::{counted, list};

/// Targets that log packets or send copies of them. Where `net.netfilter.nf_log_all_netns` is 1, `LOG` writes to the kernel log of the host.
const LOGGING: [&str; 4] = ["LOG", "NFLOG", "TEE", "ULOG"];

/// The most rules that are named.
const MAX_NAMED: usize = 3;

/// Leaves out targets that reach beyond packets of a lab, with their rules unless a match has an effect on later ones, and says what no program of a lab
/// decides.
pub(super) fn disarm(rules: &mut RuleSet, node: &str, changes: &mut Vec<String>) {
    let (mut logging, mut machine, mut queued) = (BTreeSet::new(), BTreeSet::new(), 0_usize);
    for chain in rules.tables.iter_mut().flat_map(|table| &mut table.chains) {
        chain.rules.retain_mut(|rule| {
            let Some(Target::Other(other)) = &rule.target else { return true };
            let name = other.name.to_string();
            queued += usize::from(name == "NFQUEUE");
            let of = match &*name {
                name if LOGGING.contains(&name) => &mut logging,
                name if OF_THE_MACHINE.contains(&name) => &mut machine,
                _ => return true,
            };
            of.insert(name);
            rule.target = None;
            rule.matches.iter().any(has_effect)
        });
    }
    let words = |names: BTreeSet<String>, why: &str| {
        let names = Vec::from_iter(names).join(", ");
        (!names.is_empty()).then(|| format!("target {names} of rules of node {node} left out: {why}"))
    };
    changes.extend(words(logging, "labs do not log or copy packets, which does not change what rules decide"));
    changes.extend(words(machine, "it affects the host"));
    if queued > 0 {
        let rules = counted(queued, "rule");
        changes.push(format!(
            "no program reads the queues of {rules} of node {node} with target NFQUEUE: what it decides is unknown, and a lab drops these packets, \
             or accepts them with --queue-bypass"
        ));
    }
}

/// Whether a match changes what others see: a list of clients, or a rate.
fn has_effect(one: &Match) -> bool {
    matches!(one, Match::Recent(_)) || matches!(one, Match::Other(other) if &*other.name == "hashlimit")
}

/// Leaves out rules of nft that a lab cannot have, or that lead packets out of it.
pub(super) fn leave_out_of_nft(parsed: &mut Parsed, node: &str, left_out: &mut Vec<String>) {
    for (is_such, why) in REASONS {
        let mut found = Vec::new();
        for chain in parsed.rules.tables.iter_mut().flat_map(|table| &mut table.chains) {
            chain.rules.retain(|rule| {
                let text = rule.statements.iter().find_map(|one| text(one).filter(|text| is_such(text)));
                found.extend(text.map(|text| format!("`{text}`")));
                text.is_none()
            });
        }
        if !found.is_empty() {
            // Lines are in the layout of all rules.
            parsed.lines = nftables::SourceLines::default();
            let (rules, texts) = (counted(found.len(), "rule"), list(found, MAX_NAMED));
            left_out.push(format!("{rules} of node {node} left out: {why}: {texts}"));
        }
    }
}

/// Whether the text of an unknown statement is such, and why its rule is left out.
type Reason = (fn(&str) -> bool, &'static str);

/// Why rules with an unknown statement are left out.
const REASONS: [Reason; 4] = [
    (|text| words(text).contains(&"queue"), "what the program that reads the queue decides is unknown"),
    (
        |text| words(text).iter().any(|word| matches!(*word, "dup" | "fwd")),
        "labs do not send packets or copies of them elsewhere",
    ),
    (
        |text| {
            let is_named = |pair: &[&str]| match pair[0] {
                "helper" | "timeout" | "expectation" => pair[1] == "set",
                "limit" | "quota" => pair[1] == "name",
                _ => false,
            };
            words(text).windows(2).any(is_named)
        },
        "labs do not have the object that they use",
    ),
    (
        |text| words(text).iter().any(|word| matches!(*word, "osf" | "socket" | "synproxy" | "tproxy")),
        "labs do not load the modules that they need",
    ),
];

fn text(statement: &Statement) -> Option<&str> {
    match statement {
        Statement::Other(text) => Some(text),
        _ => None,
    }
}

/// The words of a text outside of quotes.
fn words(text: &str) -> Vec<&str> {
    text.split('"').step_by(2).flat_map(str::split_whitespace).collect()
}
