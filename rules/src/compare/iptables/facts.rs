//! Facts stated by single rules.

use std::borrow::Cow;

use crate::chains::iptables::{NODE_PORTS, frontend, marks_for_masquerade, service_of, transport};
use crate::chains::{Frontend, Kind};
use crate::cluster::Protocol;
use crate::compare::finding::Fact;
use crate::iptables::{Match, Network, Ports, Probability, Rule, Statistic, Target};

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

/// Leaves out that a rule in a service's own chain matches the protocol that the service has, as people write it: only packets of this protocol
/// reach the chain. A rule that translates, or that matches a port, needs it.
pub(super) fn without_protocol(rule: &Rule, protocol: Option<Protocol>) -> Cow<'_, Rule> {
    let is_plain = |one: &Match| !matches!(one, Match::Ports(ports) if *ports != Ports::any(ports.protocol));
    let is_own = protocol.is_some() && transport(rule) == protocol && rule.matches.iter().all(is_plain);
    if !is_own || matches!(rule.target, Some(Target::Dnat(_))) {
        return Cow::Borrowed(rule);
    }
    let mut rule = Rule { protocol: None, ..rule.clone() };
    rule.matches.retain(|one| !matches!(one, Match::Ports(_)));
    Cow::Owned(rule)
}
