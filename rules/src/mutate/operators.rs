//! What can go wrong with a rule.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::Edit;
use crate::cluster::Family;
use crate::iptables::{Masked, Match, Negatable, Network, PortRange, Probability, Rule, Statistic, Table, Target};

/// A kind of mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// The rule is not there.
    DroppedRule,
    /// It stands behind the next one.
    SwappedRules,
    /// `statistic` with half of its probability.
    WrongProbability,
    /// `statistic` is not there, so that the rule takes all.
    LostProbability,
    /// A range of addresses with another length.
    WrongMask,
    /// Another port is compared.
    WrongPort,
    /// Another address is compared.
    WrongAddress,
    /// A `!` is not there.
    LostNegation,
    /// A condition is not there.
    LostCondition,
    /// `MARK` is not there.
    LostMark,
    /// Another bit is marked.
    WrongMark,
    /// `RETURN` instead of a jump.
    ReturnForJump,
    /// Another chain of the same kind is jumped to.
    WrongChain,
    /// `MASQUERADE` is not there.
    MissingMasquerade,
    /// `REJECT` is not there.
    MissingReject,
    /// `DROP` is not there.
    MissingDrop,
    /// `DNAT` to an endpoint that is no more.
    StaleEndpoint,
    /// `DNAT` to another port.
    WrongTargetPort,
}

impl Operator {
    /// The name, in words: `lost negation`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DroppedRule => "dropped rule",
            Self::SwappedRules => "swapped rules",
            Self::WrongProbability => "wrong probability",
            Self::LostProbability => "lost probability",
            Self::WrongMask => "wrong mask",
            Self::WrongPort => "wrong port",
            Self::WrongAddress => "wrong address",
            Self::LostNegation => "lost negation",
            Self::LostCondition => "lost condition",
            Self::LostMark => "lost mark",
            Self::WrongMark => "wrong mark",
            Self::ReturnForJump => "RETURN for jump",
            Self::WrongChain => "wrong chain",
            Self::MissingMasquerade => "missing MASQUERADE",
            Self::MissingReject => "missing REJECT",
            Self::MissingDrop => "missing DROP",
            Self::StaleEndpoint => "stale endpoint",
            Self::WrongTargetPort => "wrong target port",
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// All that can go wrong with the first of some rules that stand one behind the other in a table.
pub(super) fn edits(family: Family, table: &Table, rules: &[Rule]) -> Vec<(Operator, Edit)> {
    let mut edits = Vec::new();
    let Some(rule) = rules.first() else { return edits };
    edits.push((removal(rule), Edit::Remove));
    if rules.get(1).is_some_and(|next| next != rule) {
        edits.push((Operator::SwappedRules, Edit::SwapWithNext));
    }
    let mut replaced = Replacements { rule, found: Vec::new() };
    replaced.addresses(family);
    replaced.interfaces();
    replaced.matches();
    replaced.target(table);
    edits.extend(replaced.found);
    edits
}

/// What it is called that a rule is not there: by what the rule does.
fn removal(rule: &Rule) -> Operator {
    match rule.target {
        Some(Target::Mark(_)) => Operator::LostMark,
        Some(Target::Masquerade { .. }) => Operator::MissingMasquerade,
        Some(Target::Reject(_)) => Operator::MissingReject,
        Some(Target::Drop) => Operator::MissingDrop,
        _ => Operator::DroppedRule,
    }
}

/// Rules that differ from one in a single thing.
struct Replacements<'a> {
    rule: &'a Rule,
    found: Vec<(Operator, Edit)>,
}

impl Replacements<'_> {
    fn add(&mut self, operator: Operator, change: impl FnOnce(&mut Rule)) {
        let mut rule = self.rule.clone();
        change(&mut rule);
        if rule != *self.rule {
            self.found.push((operator, Edit::Replace(Box::new(rule))));
        }
    }

    /// `-s` and `-d`.
    fn addresses(&mut self, family: Family) {
        type Side = fn(&mut Rule) -> &mut Option<Negatable<Network>>;
        let sides: [(Side, &Option<Negatable<Network>>); 2] =
            [(|rule| &mut rule.source, &self.rule.source), (|rule| &mut rule.destination, &self.rule.destination)];
        for (side, present) in sides {
            let Some(Negatable { negated, value: Network::Prefix(range) }) = present else { continue };
            let (negated, range) = (*negated, *range);
            if negated {
                self.add(Operator::LostNegation, |rule| *side(rule) = Some(Negatable::is(Network::Prefix(range))));
            }
            self.add(Operator::LostCondition, |rule| *side(rule) = None);
            if let Some(other) = another_length(range, family) {
                let value = Network::range(other);
                self.add(Operator::WrongMask, |rule| *side(rule) = Some(Negatable { negated, value }));
            }
            if range.prefix_len() == family.bits() {
                let value = Network::host(neighbour(range.addr()));
                self.add(Operator::WrongAddress, |rule| *side(rule) = Some(Negatable { negated, value }));
            }
        }
    }

    /// `-i` and `-o`.
    fn interfaces(&mut self) {
        if self.rule.in_interface.is_some() {
            self.add(Operator::LostCondition, |rule| rule.in_interface = None);
        }
        if self.rule.out_interface.is_some() {
            self.add(Operator::LostCondition, |rule| rule.out_interface = None);
        }
    }

    /// `-m`.
    fn matches(&mut self) {
        for (at, found) in self.rule.matches.iter().enumerate() {
            let lost = match found {
                // What only says that a header is there says what `-p` has said.
                Match::Comment(_) => None,
                Match::Ports(ports)
                    if ports.source.is_none() && ports.destination.is_none() && ports.flags.is_none() =>
                {
                    None
                }
                Match::Statistic(_) => Some(Operator::LostProbability),
                _ => Some(Operator::LostCondition),
            };
            if let Some(operator) = lost {
                self.add(operator, |rule| drop(rule.matches.remove(at)));
            }
            if let Some(other) = without_negation(found) {
                self.add(Operator::LostNegation, |rule| rule.matches[at] = other);
            }
            match found {
                Match::Ports(ports) => {
                    if let Some(Negatable { negated, value }) = ports.destination {
                        let destination = Some(Negatable { negated, value: shifted(value) });
                        let ports = crate::iptables::Ports { destination, ..ports.clone() };
                        self.add(Operator::WrongPort, |rule| rule.matches[at] = Match::Ports(ports));
                    }
                }
                Match::Statistic(Statistic::Random(Negatable { negated, value })) => {
                    if let Some(value) = Probability::from_threshold(value.threshold() / 2) {
                        let other = Match::Statistic(Statistic::Random(Negatable { negated: *negated, value }));
                        self.add(Operator::WrongProbability, |rule| rule.matches[at] = other);
                    }
                }
                Match::Mark(Negatable { negated, value }) => {
                    let other = Match::Mark(Negatable { negated: *negated, value: other_bit(*value) });
                    self.add(Operator::WrongMark, |rule| rule.matches[at] = other);
                }
                _ => {}
            }
        }
    }

    /// `-j`.
    fn target(&mut self, table: &Table) {
        match &self.rule.target {
            Some(Target::Jump(chain) | Target::Goto(chain)) => {
                self.add(Operator::ReturnForJump, |rule| rule.target = Some(Target::Return));
                if let Some(other) = sibling(table, chain) {
                    self.add(Operator::WrongChain, |rule| rule.target = Some(Target::Jump(other.into())));
                }
            }
            Some(Target::Mark(mark)) => {
                let other = other_bit(*mark);
                self.add(Operator::WrongMark, |rule| rule.target = Some(Target::Mark(other)));
            }
            Some(Target::Dnat(nat)) => {
                if let Some((first, _)) = nat.addresses {
                    let gone = stranger(first);
                    let nat = crate::iptables::Nat { addresses: Some((gone, gone)), ..nat.clone() };
                    self.add(Operator::StaleEndpoint, |rule| rule.target = Some(Target::Dnat(nat)));
                }
                if let Some(ports) = nat.ports {
                    let nat = crate::iptables::Nat { ports: Some(shifted(ports)), ..nat.clone() };
                    self.add(Operator::WrongTargetPort, |rule| rule.target = Some(Target::Dnat(nat)));
                }
            }
            _ => {}
        }
    }
}

/// The match with its opposite's opposite.
fn without_negation(found: &Match) -> Option<Match> {
    let mut other = found.clone();
    let negated = match &mut other {
        Match::Mark(mark) | Match::Connmark(mark) => &mut mark.negated,
        Match::State { states, .. } => &mut states.negated,
        Match::Set(set) => &mut set.negated,
        Match::Multiport(ports) => &mut ports.ports.negated,
        Match::AddressType(types) => match (&mut types.source, &mut types.destination) {
            (Some(side), _) | (None, Some(side)) => &mut side.negated,
            (None, None) => return None,
        },
        _ => return None,
    };
    std::mem::replace(negated, false).then_some(other)
}

/// A single address becomes a range of two, a range half of itself.
fn another_length(range: IpNet, family: Family) -> Option<IpNet> {
    let length = range.prefix_len();
    let other = if length == family.bits() { length - 1 } else { length + 1 };
    IpNet::new(range.addr(), other).ok().map(|other| other.trunc())
}

/// The address with its last bit flipped.
fn neighbour(address: IpAddr) -> IpAddr {
    flipped(address, 1)
}

/// An address of the same range that seldom anybody has.
fn stranger(address: IpAddr) -> IpAddr {
    flipped(address, 0xc0)
}

fn flipped(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() ^ u32::from(bits)).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() ^ u128::from(bits)).into(),
    }
}

/// The next port or ports; those at the end become the ones before.
fn shifted(ports: PortRange) -> PortRange {
    let PortRange { first, last } = ports;
    if last == u16::MAX {
        PortRange { first: first - 1, last: last - 1 }
    } else {
        PortRange { first: first + 1, last: last + 1 }
    }
}

/// The same with all bits one place up.
fn other_bit(mark: Masked) -> Masked {
    Masked { value: mark.value.rotate_left(1), mask: mark.mask.rotate_left(1) }
}

/// The next chain in the table whose name begins as this one's does: `KUBE-SEP-`, `KUBE-SVC-`.
fn sibling<'t>(table: &'t Table, chain: &str) -> Option<&'t str> {
    let prefix = &chain[..chain.rfind('-')? + 1];
    let mut alike =
        table.chains.iter().map(|chain| &*chain.name).filter(|name| name.starts_with(prefix)).collect::<Vec<_>>();
    let at = alike.iter().position(|name| *name == chain)?;
    alike.rotate_left(at);
    alike.get(1).copied()
}
