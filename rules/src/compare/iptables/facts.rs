//! What single rules say.

use std::net::IpAddr;

use super::chains::service_of;
use crate::cluster::{Protocol, ProtocolNumber};
use crate::compare::finding::{Address, Fact};
use crate::compare::kind::Kind;
use crate::iptables::{Match, Network, Probability, RecentAction, Rule, Statistic, Target};

/// The chains that mark packets.
pub(crate) const MASQUERADE: &str = "KUBE-MARK-MASQ";
const DROP: &str = "KUBE-MARK-DROP";

/// What a rule of a list says of its service.
pub(super) fn listed(rule: &Rule) -> Option<Fact> {
    let address = address(rule)?;
    match rule.target.as_ref()? {
        Target::Jump(chain) if service_of(chain).is_some() => Some(Fact::Entry(address)),
        Target::Accept => Some(Fact::HealthCheck(address.port)),
        _ => marked_or_refused(rule, Some(address)),
    }
}

/// What a rule in a service's own chain says.
pub(super) fn in_chain(kind: Kind, rule: &Rule) -> Option<Fact> {
    match (kind, &rule.source) {
        (Kind::Firewall, Some(source)) if !source.negated && rule.next_chain().is_some() => match &source.value {
            Network::Prefix(range) => Some(Fact::SourceRange(range.to_string())),
            Network::Masked(_) => None,
        },
        _ => marked_or_refused(rule, address(rule)),
    }
}

fn marked_or_refused(rule: &Rule, address: Option<Address>) -> Option<Fact> {
    match rule.target.as_ref()? {
        Target::Jump(chain) if **chain == *MASQUERADE => Some(Fact::Masquerade(address)),
        Target::Jump(chain) if **chain == *DROP => Some(Fact::RejectResponse(address)),
        Target::Drop | Target::Reject(_) => Some(Fact::RejectResponse(address)),
        _ => None,
    }
}

/// The single address and port that a rule looks for.
pub(crate) fn address(rule: &Rule) -> Option<Address> {
    let protocol = transport(rule)?;
    let port = rule.matches.iter().find_map(|condition| match condition {
        Match::Ports(ports) => {
            ports.destination.filter(|range| !range.negated && range.value.first == range.value.last)
        }
        _ => None,
    })?;
    let ip = match &rule.destination {
        None => None,
        Some(destination) if destination.negated => return None,
        Some(destination) => Some(host(&destination.value)?),
    };
    Some(Address { ip, port: port.value.first, protocol })
}

/// The protocol that a rule asks for, where it has ports.
pub(crate) fn transport(rule: &Rule) -> Option<Protocol> {
    rule.protocol
        .filter(|protocol| !protocol.negated)
        .map(|protocol| protocol.value)
        .and_then(ProtocolNumber::transport)
}

/// The address of a network that is one.
pub(crate) fn host(network: &Network) -> Option<IpAddr> {
    match network {
        Network::Prefix(range) => (range.prefix_len() == range.max_prefix_len()).then(|| range.addr()),
        Network::Masked(_) => None,
    }
}

/// The chance of a rule that depends on nothing else.
pub(super) fn chance(rule: &Rule) -> Option<Probability> {
    let bare = Rule { counters: None, matches: Default::default(), target: None, ..rule.clone() } == Rule::default();
    let mut conditions = rule.matches.iter().filter(|condition| !condition.always_holds());
    match (bare, conditions.next(), conditions.next()) {
        (true, None, None) => Probability::from_threshold(Probability::ONE),
        (true, Some(Match::Statistic(Statistic::Random(chance))), None) if !chance.negated => Some(chance.value),
        _ => None,
    }
}

pub(super) fn checks_recent(rule: &Rule) -> bool {
    let check = |condition: &Match| match condition {
        Match::Recent(recent) => matches!(recent.action.value, RecentAction::Check | RecentAction::Update),
        _ => false,
    };
    rule.matches.iter().any(check)
}
