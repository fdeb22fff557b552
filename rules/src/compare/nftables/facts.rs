//! What single rules and elements say.

use std::net::SocketAddr;

use crate::cluster::Protocol;
use crate::compare::finding::{Address, Fact};
use crate::compare::kind::Kind;
use crate::digits;
use crate::nftables::{Addresses, Condition, Key, MarkChange, Rule, Side, Statement, Verdict};

/// The chain that marks packets.
const MASQUERADE: &str = "mark-for-masquerade";

/// Where rules share traffic out to.
pub(crate) enum Balance<'a> {
    /// Chains of endpoints.
    Chains(&'a [crate::nftables::Name]),
    /// Endpoints themselves.
    Endpoints(Vec<String>),
}

/// What a rule shares out, if it does so whatever the packet is but of this protocol.
pub(crate) fn balance<'a>(rule: &'a Rule, protocol: &str) -> Option<Balance<'a>> {
    let of_protocol = match rule.conditions.as_slice() {
        [Condition::Protocol(asked)] => asked.as_str() == protocol,
        _ => false,
    };
    let text = |address: &SocketAddr| digits::socket(*address).to_string();
    match rule.statements.as_slice() {
        [Statement::Balance(chains)] if rule.conditions.is_empty() => Some(Balance::Chains(chains)),
        [Statement::BalanceDnat(all)] if of_protocol => Some(Balance::Endpoints(all.iter().map(text).collect())),
        [Statement::Dnat(one)] if of_protocol => Some(Balance::Endpoints(vec![text(one)])),
        _ => None,
    }
}

/// The endpoint's chain to which a rule sends clients that it knows.
pub(super) fn affinity(rule: &Rule) -> Option<&str> {
    let [Condition::Address { side: Side::Source, negated: false, value: Addresses::Set(set) }] = &*rule.conditions
    else {
        return None;
    };
    match rule.statements.as_slice() {
        [Statement::Verdict(Verdict::Goto(chain))] if set.starts_with("affinity-") => Some(chain),
        _ => None,
    }
}

/// What any other rule of a service's chain says.
pub(super) fn in_chain(kind: Kind, rule: &Rule) -> Option<Fact> {
    match rule.statements.as_slice() {
        [statement] if marks(statement) => match (kind, address(rule)) {
            (Kind::External, None) => Some(Fact::Masquerade(None)),
            (_, address) => address.map(|address| Fact::Masquerade(Some(address))),
        },
        [Statement::Verdict(Verdict::Drop)] if kind == Kind::Firewall => Some(Fact::RejectResponse(None)),
        _ => None,
    }
}

/// The sources that the rule of a firewall lets in.
pub(crate) fn source_ranges(rule: &Rule) -> Vec<String> {
    match rule.conditions.as_slice() {
        [Condition::Address { side: Side::Source, negated: true, value }] => match value {
            Addresses::One(address) => vec![address.to_string()],
            Addresses::Prefix(prefix) => vec![crate::nftables::AddressRange::from(*prefix).to_string()],
            Addresses::Ranges(ranges) => ranges.iter().map(ToString::to_string).collect(),
            Addresses::Set(_) => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// What a rule of an endpoint's chain says.
pub(super) fn in_endpoint(rule: &Rule, endpoint: &str) -> Option<Fact> {
    match rule.statements.as_slice() {
        [Statement::Dnat(_)] => Some(Fact::Translation(endpoint.to_owned())),
        [Statement::Remember(Side::Source, _)] => Some(Fact::Memory(endpoint.to_owned())),
        [statement] if marks(statement) => Some(Fact::Hairpin(endpoint.to_owned())),
        _ => None,
    }
}

/// Whether packets are marked for masquerading.
pub(crate) fn marks(statement: &Statement) -> bool {
    match statement {
        Statement::Verdict(Verdict::Jump(chain)) => **chain == *MASQUERADE,
        Statement::Mark(MarkChange::Set(_)) => true,
        _ => false,
    }
}

/// The single address and port that a rule looks for.
pub(crate) fn address(rule: &Rule) -> Option<Address> {
    let ip = rule.conditions.iter().find_map(|condition| match condition {
        Condition::Address { side: Side::Destination, negated: false, value: Addresses::One(ip) } => Some(*ip),
        _ => None,
    });
    let port = rule.conditions.iter().find_map(|condition| match condition {
        Condition::DestinationPort(protocol, port) => Some((*protocol, *port)),
        _ => None,
    });
    let (protocol, port) = port?;
    Some(Address { ip: Some(ip?), port, protocol })
}

/// The address and port of an element's key: `10.0.0.1 . tcp . 80`, or `tcp . 30080` of node ports.
pub(crate) fn address_of_key(key: &[Key]) -> Option<Address> {
    match *key {
        [Key::Address(ip), Key::Protocol(protocol), Key::Port(port)] => Some(Address { ip: Some(ip), port, protocol }),
        [Key::Protocol(protocol), Key::Port(port)] => Some(Address { ip: None, port, protocol }),
        _ => None,
    }
}

/// The endpoint of a connection to itself: `10.0.0.1 . 10.0.0.1 . tcp . 8080`.
pub(super) fn hairpin(key: &[Key]) -> Option<(String, Protocol)> {
    match *key {
        [Key::Address(from), Key::Address(to), Key::Protocol(protocol), Key::Port(port)] if from == to => {
            Some((digits::socket(SocketAddr::new(to, port)).to_string(), protocol))
        }
        _ => None,
    }
}
