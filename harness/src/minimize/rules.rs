//! Rule sets with some of their rules removed.

use std::collections::HashSet;

use svclab_rules::iptables::{Chain, ChainKind, Policy, TableName, Target};
use svclab_rules::nftables::{self, Statement, Verdict};
use svclab_rules::ruleset::Rules;

use crate::scenario::{OtherRules, Place, Scenario};

/// The rules that kube-proxy writes for the node of some rules.
pub(super) fn generated(scenario: &Scenario, rules: &OtherRules) -> Option<Rules> {
    let Place::Node(node) = &rules.place else { return None };
    Rules::generate(&scenario.cluster, scenario.cluster.node(node)?, rules.family).ok()
}

/// The number of parts that can be removed one by one: rules, and elements of sets and maps.
pub(super) fn units(rules: &Rules) -> usize {
    match rules {
        Rules::Iptables(parsed) => {
            parsed.rules.tables.iter().flat_map(|table| &table.chains).map(|chain| chain.rules.len()).sum()
        }
        Rules::Nftables(parsed) => {
            let tables = parsed.rules.tables.iter();
            tables
                .map(|table| {
                    let elements: usize = table.sets.iter().map(|set| set.elements.len()).sum();
                    elements + table.chains.iter().map(|chain| chain.rules.len()).sum::<usize>()
                })
                .sum()
        }
        Rules::OtherTables(_) => 0,
    }
}

/// The rules reduced to the units with these numbers, without chains that are no longer referenced. An endpoint's chain keeps its
/// translation as long as a rule leads to it: packets that it does not translate are lost just as well without its translation.
pub(super) fn with(rules: &Rules, kept: &HashSet<usize>) -> Rules {
    let mut number = 0..;
    let mut is_kept = || number.next().is_some_and(|number| kept.contains(&number));
    match rules {
        Rules::Iptables(parsed) => {
            let mut rules = parsed.rules.clone();
            for chain in rules.tables.iter_mut().flat_map(|table| &mut table.chains) {
                let is_endpoint = ChainKind::Endpoint.is_of(&chain.name);
                chain.rules.retain(|rule| is_kept() || is_endpoint && matches!(rule.target, Some(Target::Dnat(_))));
            }
            for table in &mut rules.tables {
                // A chain without rules returns, so it may be removed if nothing jumps to it. One of no Service may have lost its jump, which is
                // what fails then; it goes with its rules.
                let is_of_service = |chain: &Chain| ChainKind::of(&chain.name).is_some();
                let has_own = |chain: &Chain| !chain.rules.is_empty() && !is_of_service(chain);
                table.remove_unused(|chain| chain.policy.is_some() && !is_usual(chain) || has_own(chain));
            }
            rules.tables.retain(|table| table.name == TableName::Nat || !table.chains.is_empty());
            rules.into()
        }
        Rules::Nftables(parsed) => {
            let mut rules = parsed.rules.clone();
            let has_own = |chain: &nftables::Chain| {
                !chain.rules.is_empty() && (chain.base.is_some() || service_part(&chain.name).is_none())
            };
            for table in &mut rules.tables {
                table.sets.iter_mut().for_each(|set| set.elements.retain(|_| is_kept()));
                for chain in &mut table.chains {
                    let is_endpoint = is_of_endpoint(&chain.name);
                    let translates = |rule: &nftables::Rule| {
                        rule.statements.iter().any(|statement| matches!(statement, Statement::Dnat { .. }))
                    };
                    chain.rules.retain(|rule| is_kept() || is_endpoint && translates(rule));
                }
                table.remove_unused(has_own);
            }
            rules.into()
        }
        Rules::OtherTables(_) => rules.clone(),
    }
}

/// The units that do not belong to a service other than this one (`namespace/name`): neither their comments nor the chains that they lead
/// to name another.
pub(super) fn about(rules: &Rules, service: &str) -> HashSet<usize> {
    let comment_is_own = |comment: Option<&str>| comment.is_none_or(|comment| is_own(comment, service));
    let mut kept = Vec::new();
    match rules {
        Rules::Iptables(parsed) => {
            let all = parsed.rules.tables.iter().flat_map(|table| &table.chains).flat_map(|chain| &chain.rules);
            kept.extend(all.map(|rule| comment_is_own(rule.comment())));
        }
        Rules::Nftables(parsed) => {
            for table in &parsed.rules.tables {
                let elements = table.sets.iter().flat_map(|set| &set.elements);
                kept.extend(elements.map(|element| {
                    let next = match &element.verdict {
                        Some(Verdict::Jump(next) | Verdict::Goto(next)) => Some(next),
                        _ => None,
                    };
                    comment_is_own(element.comment.as_deref()) && next.is_none_or(|name| chain_is_own(name, service))
                }));
                for chain in &table.chains {
                    let is_own = chain_is_own(&chain.name, service);
                    kept.extend(chain.rules.iter().map(|rule| is_own && comment_is_own(rule.comment.as_deref())));
                }
            }
        }
        Rules::OtherTables(_) => {}
    }
    (0..).zip(kept).filter(|(_, is_kept)| *is_kept).map(|(number, _)| number).collect()
}

/// Whether a comment, such as `namespace/name:port cluster IP`, names this service or no service.
fn is_own(comment: &str, service: &str) -> bool {
    let word = comment.split_whitespace().next().unwrap_or_default();
    let named = word.split_once(':').map_or(word, |(named, _)| named);
    named.split('/').count() != 2 || named == service
}

/// Whether the name of a chain contains this service or no service.
fn chain_is_own(name: &str, service: &str) -> bool {
    service_part(name).is_none_or(|rest| rest.strip_prefix(service).is_some_and(|rest| rest.starts_with('/')))
}

/// `ns1/svc1/tcp/p80` of a chain `service-ULMVA6XW-ns1/svc1/tcp/p80`; `None` for a chain of no service.
fn service_part(chain: &str) -> Option<&str> {
    chain.splitn(3, '-').nth(2).filter(|rest| rest.matches('/').count() >= 3)
}

/// Whether a chain is an endpoint's: `endpoint-RWDFHKLM-ns1/svc1/tcp/p80__10.180.0.1/80`.
fn is_of_endpoint(chain: &str) -> bool {
    chain.starts_with("endpoint-")
}

/// Whether a built-in chain does nothing.
fn is_usual(chain: &Chain) -> bool {
    chain.rules.is_empty() && chain.policy == Some(Policy::Accept)
}
