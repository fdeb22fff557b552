//! Jumps from base chains to kube-proxy's chains, and duplicate rules.

use std::mem::{Discriminant, discriminant};

use super::NAMING;
use super::rule::{recalled, text};
use crate::chains::StructureDefect;
use crate::chains::copies::{Copies, copies};
use crate::chains::structure::leads;
use crate::cluster::Family;
use crate::coverage::{Coverage, nft_table};
use crate::nftables::{Chain, Rule, Statement, Table};
use crate::walk::Hook;

/// The jumps that every release writes, from the base chain of type `nat` at a hook, and the consequence if one is missing.
const JUMPS: [(Hook, &str, &str); 3] = [
    (Hook::Prerouting, "services", "connections from pods and other hosts reach no service"),
    (Hook::Output, "services", "connections from this node reach no service"),
    (Hook::Postrouting, "masquerading", "no connection to a service is masqueraded"),
];

/// Returns the consequence of a missing jump from a base chain.
pub(crate) fn effect(chain: &Chain, rule: &Rule) -> Option<&'static str> {
    let hook = chain.base.filter(|base| base.nat)?.hook;
    let is_to = |to: &str| rule.statements.iter().flat_map(Statement::chains).any(|next| **next == *to);
    JUMPS.iter().find(|(at, to, _)| *at == hook && is_to(to)).map(|(.., effect)| *effect)
}

/// Returns the defects of a table as a whole.
pub(crate) fn structure_defects(table: &Table, coverage: &Coverage) -> Vec<StructureDefect> {
    let name = nft_table(table.family);
    let is_whole = coverage.has_table(name);
    let missing = JUMPS.iter().filter(|_| is_whole).filter_map(|&(hook, to, effect)| {
        let at_hook = table.chains.iter().filter(|chain| chain.base.is_some_and(|base| base.nat && base.hook == hook));
        let at_hook: Vec<&str> = at_hook.map(|chain| &*chain.name).collect();
        let chain = at_hook.first().map_or_else(|| format!("at hook {}", hook.lowercase()), ToString::to_string);
        is_missing(table, at_hook, to).then_some(StructureDefect::MissingJump { table: name, chain, to, effect })
    });
    let repeated = table.chains.iter().flat_map(|chain| {
        // A duplicate jump to an endpoint is a defect of its service.
        let is_structure = |copies: &Copies| !leads_to_endpoint(&chain.rules[copies.numbers[0] - 1]);
        let all = copies_of(chain, table.family).into_iter().filter(is_structure);
        all.map(|copies| StructureDefect::repeated(name, &chain.name, copies))
    });
    missing.chain(repeated).collect()
}

/// Returns whether no chain at a hook leads to a chain of the table. A table without any base chain is an excerpt.
fn is_missing(table: &Table, at_hook: Vec<&str>, to: &str) -> bool {
    let next = |chain: &str| -> Vec<&str> {
        let rules = table.chains.iter().filter(|own| *own.name == *chain).flat_map(|own| &own.rules);
        rules.flat_map(|rule| &rule.statements).flat_map(Statement::chains).map(|next| &**next).collect()
    };
    let has = |is: &dyn Fn(&Chain) -> bool| table.chains.iter().any(is);
    has(&|chain| chain.base.is_some()) && has(&|chain| *chain.name == *to) && !leads(at_hook, to, next)
}

/// Finds the duplicate rules of a chain.
pub(super) fn copies_of(chain: &Chain, family: Family) -> Vec<Copies> {
    copies(&chain.rules, key, |rule| text(rule, family))
}

/// Returns the parts of a rule that two rules of a chain rarely share.
fn key(rule: &Rule) -> (usize, Option<Discriminant<Statement>>, Option<&str>) {
    let next = rule.statements.iter().flat_map(Statement::chains).next().map(|next| &**next);
    (rule.conditions.len(), rule.statements.first().map(discriminant), next)
}

/// Returns whether a rule sends new clients to endpoints.
fn leads_to_endpoint(rule: &Rule) -> bool {
    let translates = |one: &Statement| matches!(one, Statement::Dnat(_) | Statement::BalanceDnat(_));
    let mut chains = rule.statements.iter().flat_map(Statement::chains);
    recalled(rule).is_none()
        && (chains.any(|chain| NAMING.is_endpoint(chain)) || rule.statements.iter().any(translates))
}
