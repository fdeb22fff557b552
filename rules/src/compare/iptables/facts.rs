//! Facts stated by single rules.

use crate::chains::iptables::{NODE_PORTS, frontend, marks_for_masquerade, service_of};
use crate::chains::{Frontend, Kind};
use crate::compare::finding::Fact;
use crate::iptables::{Match, Network, Probability, Rule, Statistic, Target};

/// The chain that marks packets to be dropped.
const DROP: &str = "KUBE-MARK-DROP";

/// Returns what a rule of a list, the chain of this name, states about its service.
pub(super) fn listed(list: &str, rule: &Rule) -> Option<Fact> {
    let address = frontend(rule)?;
    match rule.target.as_ref()? {
        Target::Jump(chain) if service_of(chain).is_some() => Some(Fact::Entry(address)),
        Target::Accept if list == NODE_PORTS => Some(Fact::HealthCheck(address.port)),
        _ => marked_or_rejected(rule, Some(address)),
    }
}

/// Returns what a rule in a service's own chain states.
pub(super) fn in_chain(kind: Kind, rule: &Rule) -> Option<Fact> {
    match (kind, &rule.source) {
        (Kind::Firewall, Some(source)) if !source.negated && rule.next_chain().is_some() => match &source.value {
            Network::Prefix(range) => Some(Fact::SourceRange(range.to_string())),
            Network::Masked(_) => None,
        },
        _ => marked_or_rejected(rule, frontend(rule)),
    }
}

fn marked_or_rejected(rule: &Rule, address: Option<Frontend>) -> Option<Fact> {
    match rule.target.as_ref()? {
        _ if marks_for_masquerade(rule) => Some(Fact::Masquerade(address)),
        Target::Jump(chain) if **chain == *DROP => Some(Fact::RejectResponse(address)),
        Target::Drop | Target::Reject(_) => Some(Fact::RejectResponse(address)),
        _ => None,
    }
}

/// Returns the probability of a rule without other matches.
pub(super) fn chance(rule: &Rule) -> Option<Probability> {
    let bare = Rule { counters: None, matches: Default::default(), target: None, ..rule.clone() } == Rule::default();
    let mut conditions = rule.matches.iter().filter(|condition| !condition.always_holds());
    match (bare, conditions.next(), conditions.next()) {
        (true, None, None) => Probability::from_threshold(Probability::ONE),
        (true, Some(Match::Statistic(Statistic::Random(chance))), None) if !chance.negated => Some(chance.value),
        _ => None,
    }
}
