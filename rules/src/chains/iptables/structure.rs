//! Jumps from built-in chains to kube-proxy's chains, and duplicate rules.

use super::NAMING;
use super::rule::{destination, frontend, masquerade_without_chains, recall};
use crate::chains::copies::{Copies, copies};
use crate::chains::structure::leads;
use crate::chains::{Frontend, Kind, StructureDefect};
use crate::cluster::Family;
use crate::coverage::Coverage;
use crate::iptables::{Chain, Match, Negatable, Network, Rule, RuleSet, Table, TableName, print_rule};

/// A jump that every kube-proxy release writes.
struct Jump {
    table: TableName,
    from: &'static str,
    to: &'static str,
    /// The consequence if it is missing.
    effect: &'static str,
}

const JUMPS: [Jump; 4] = [
    Jump {
        table: TableName::Nat,
        from: "PREROUTING",
        to: "KUBE-SERVICES",
        effect: "connections from pods and other hosts reach no service",
    },
    Jump {
        table: TableName::Nat,
        from: "OUTPUT",
        to: "KUBE-SERVICES",
        effect: "connections from this node reach no service",
    },
    Jump {
        table: TableName::Nat,
        from: "POSTROUTING",
        to: "KUBE-POSTROUTING",
        effect: "no connection to a service is masqueraded",
    },
    Jump {
        table: TableName::Filter,
        from: "FORWARD",
        to: "KUBE-FORWARD",
        effect: "connections to services are forwarded only if the policy or another rule accepts them",
    },
];

/// The chains that have several rules which differ in their comments alone: one for each port of a Service with a health check, and for
/// connections from pods and to them (up to 1.21).
const DIFFER_IN_COMMENTS: [&str; 2] = ["KUBE-NODEPORTS", "KUBE-FORWARD"];

/// Returns the consequence of a missing jump from a built-in chain.
pub(crate) fn effect(table: TableName, from: &str, to: &str) -> Option<&'static str> {
    let jump = JUMPS.iter().find(|jump| (jump.table, jump.from, jump.to) == (table, from, to));
    jump.map(|jump| jump.effect)
}

/// Returns the defects of rules as a whole.
pub(crate) fn structure_defects(rules: &RuleSet, coverage: &Coverage) -> Vec<StructureDefect> {
    let missing =
        JUMPS.iter().filter(|jump| is_missing(rules, coverage, jump)).map(|jump| StructureDefect::MissingJump {
            table: jump.table.as_str(),
            chain: jump.from.to_owned(),
            to: jump.to,
            effect: jump.effect,
        });
    let chains = rules.tables.iter().flat_map(|table| table.chains.iter().map(move |chain| (table.name, chain)));
    // Older releases write the rules of KUBE-FW once for each address of the load balancer.
    let is_firewall = |name: &str| NAMING.of(name).is_some_and(|(kind, _)| kind == Kind::Firewall);
    // Where comments are not shown, nor are rules distinguished that differ in nothing else.
    let has_comments = chains.clone().any(|(_, chain)| chain.rules.iter().any(|rule| rule.comment().is_some()));
    let is_distinct = |name: &str| has_comments || !DIFFER_IN_COMMENTS.contains(&name);
    let chains = chains.filter(|(_, chain)| !is_firewall(&chain.name) && is_distinct(&chain.name));
    let repeated = chains.flat_map(|(table, chain)| {
        // Rules of other programs differ in their interfaces, which a listing may not show. Those of kube-proxy and kubelet have none. What is
        // not read of two rules may differ.
        let is_surely_equal = move |rule: &Rule| {
            let is_own =
                chain.name.starts_with("KUBE-") || rule.next_chain().is_some_and(|next| next.starts_with("KUBE-"));
            let shows_all = !rule.hides_interfaces() && !coverage.hides_interfaces(table.as_str(), &chain.name);
            !rule.is_unread() && (is_own || shows_all)
        };
        // A duplicate jump to an endpoint is a defect of its service.
        let is_structure = move |copies: &Copies| {
            let rule = &chain.rules[copies.numbers[0] - 1];
            (!leads_to_endpoint(rule) || recall(rule, rules.family).is_some()) && is_surely_equal(rule)
        };
        let is_whole = coverage.has_chain(table.as_str(), &chain.name);
        let all = copies_of(chain, rules.family).into_iter().filter(is_structure);
        let all = all.filter_map(move |copies| if is_whole { Some(copies) } else { without_later(chain, copies) });
        all.map(move |copies| StructureDefect::repeated(table.as_str(), &chain.name, copies))
    });
    missing.chain(repeated).collect()
}

/// Returns whether a jump is missing in a table that contains both chains. An incomplete chain may have it.
fn is_missing(rules: &RuleSet, coverage: &Coverage, jump: &Jump) -> bool {
    let Some(table) = rules.table(jump.table) else { return false };
    let next = |chain: &str| -> Vec<&str> {
        if !coverage.has_chain(jump.table.as_str(), chain) {
            return vec![jump.to];
        }
        let rules = table.chain(chain).into_iter().flat_map(|chain| &chain.rules);
        rules.filter_map(Rule::next_chain).map(|next| &**next).collect()
    };
    let is_replaced = || jump.from == "POSTROUTING" && masquerade_without_chains(rules);
    has(table, jump.from) && has(table, jump.to) && !leads(vec![jump.from], jump.to, next) && !is_replaced()
}

fn has(table: &Table, chain: &str) -> bool {
    table.chain(chain).is_some()
}

/// Finds the duplicate rules of a chain, except rules that only count. Releases up to 1.19 write rules that differ only in their comments.
pub(super) fn copies_of(chain: &Chain, family: Family) -> Vec<Copies> {
    let mut all = copies(&chain.rules, key, |rule| print_rule(family, &chain.name, &rule.without_counters()));
    all.iter_mut().for_each(|copies| copies.numbers.retain(|number| !chain.only_counts(number - 1)));
    all.retain(|copies| copies.numbers.len() > 1);
    all
}

/// Removes rules that are not copies, but the same rule listed again at a later time: a copy would see only packets that the first one let pass,
/// so it cannot have counted more. Rules with `statistic` are kept: they may by chance.
fn without_later(chain: &Chain, mut copies: Copies) -> Option<Copies> {
    let first = &chain.rules[copies.numbers[0] - 1];
    let is_random = first.matches.iter().any(|one| matches!(one, Match::Statistic(_)));
    let counted = |rule: &Rule| rule.counters.map(|counters| counters.packets);
    let is_later = |rule: &Rule| counted(first).zip(counted(rule)).is_some_and(|(first, other)| other > first);
    copies.numbers.retain(|number| is_random || !is_later(&chain.rules[number - 1]));
    (copies.numbers.len() > 1).then_some(copies)
}

/// The chain that a rule jumps to, its source and destination, and its frontend.
type CopyKey<'r> = (Option<&'r str>, [Option<&'r Negatable<Network>>; 2], Option<Frontend>);

/// Returns the parts of a rule that two rules of a chain rarely share.
fn key(rule: &Rule) -> CopyKey<'_> {
    (rule.next_chain().map(|next| &**next), [rule.source.as_ref(), rule.destination.as_ref()], frontend(rule))
}

fn leads_to_endpoint(rule: &Rule) -> bool {
    destination(rule).is_some() || rule.next_chain().is_some_and(|next| NAMING.is_endpoint(next))
}
