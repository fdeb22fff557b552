//! Lowering of matches to conditions, in the order of evaluation.

use crate::cluster::Family;
use crate::iptables::matches::{Condition, Field};
use crate::iptables::{Negatable, Rule};

/// Appends the conditions of a rule, in an order that gives the same result as the rule's own.
///
/// The kernel stops at the first condition that does not hold. Random conditions are moved after deterministic ones, so that a packet's
/// path branches as late as possible; conditions are never moved past one with an effect.
pub(super) fn conditions(rule: &Rule, family: Family, out: &mut Vec<Condition>) {
    let start = out.len();
    out.extend(rule.source.as_ref().and_then(|network| Field::Source.address(network, family)));
    out.extend(rule.destination.as_ref().and_then(|network| Field::Destination.address(network, family)));
    out.extend(rule.in_interface.as_ref().and_then(|name| Field::Input.interface(name)));
    out.extend(rule.out_interface.as_ref().and_then(|name| Field::Output.interface(name)));
    let protocol = rule.protocol.filter(|protocol| protocol.value.0 != 0);
    out.extend(protocol.map(|Negatable { negated, value }| Condition::Protocol { negated, number: value.0 }));
    if let Some(fragment) = rule.fragment
        && !fragment.negated
    {
        out.push(Condition::Never);
    }
    rule.matches.iter().for_each(|found| found.compile(rule.protocol, family, out));
    delay_chance(&mut out[start..]);
}

fn delay_chance(conditions: &mut [Condition]) {
    for start in (0..conditions.len()).rev().filter(|at| conditions[*at].is_chance()).collect::<Vec<_>>() {
        let rest = &conditions[start + 1..];
        let passed = rest.iter().take_while(|next| !next.is_chance() && !next.has_effect()).count();
        conditions[start..=start + passed].rotate_left(1);
    }
}
