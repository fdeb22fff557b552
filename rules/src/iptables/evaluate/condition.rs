//! Conditions of rules as comparisons of numbers.

use std::sync::Arc;

use crate::iptables::{Masked, Multiport, Negatable, PortRange, Recent, RecentAction, States};
use crate::walk::Direction;

/// A condition of a compiled rule. Small, as there are several for each of very many rules.
#[derive(Debug, Clone)]
pub(super) enum Condition {
    /// A number of the packet is `value` where the lowest `shift` bits of both are left out. `shift` is below 128.
    Field { field: Field, negated: bool, shift: u8, value: u128 },
    /// A number of the packet under a mask is `value`.
    Masked(Box<MaskedField>),
    /// The protocol's number.
    Protocol { negated: bool, number: u8 },
    /// A port lies in a range, and the protocol is this one.
    Port { protocol: u8, field: PortField, negated: bool, first: u16, last: u16 },
    /// The flags of a TCP header.
    TcpFlags { negated: bool, mask: u8, set: u8 },
    /// The type of an ICMP packet, and a range of its codes.
    Icmp { v6: bool, negated: bool, kind: u8, first: u8, last: u8 },
    /// The packet's mark.
    Mark(Negatable<Masked>),
    /// The connection's mark.
    Connmark(Negatable<Masked>),
    /// The state in the connection table.
    State(Negatable<States>),
    /// The same of the old `state` match, which knows no translation.
    OldState(Negatable<States>),
    /// Several options of `conntrack`.
    Conntrack(Box<Conntrack>),
    /// What kind of addresses the packet has.
    AddressType(Box<AddressTypes>),
    /// Holds for so many of the 2^31 draws.
    Random(u32),
    /// Holds for so many packets out of so many.
    Nth { part: u32, every: u32 },
    /// A limit that is taken not to be reached.
    Limit,
    /// `recent`.
    Recent(Box<Recent>),
    /// Ports of a bridge.
    Physdev(Box<PhysdevPorts>),
    /// One of several ports.
    Multiport(Box<Multiport>),
    /// Membership in an ipset.
    Set(Box<Negatable<SetLookup>>),
    /// An address between two others: `iprange`.
    Between(Box<Between>),
    /// Holds for no packet.
    Never,
    /// Not modelled, for this reason.
    Unknown(Arc<str>),
}

/// A number of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Source,
    Destination,
    Input,
    Output,
}

/// One of a packet's ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortField {
    Source,
    Destination,
}

/// See [`Condition::Masked`].
#[derive(Debug, Clone)]
pub(super) struct MaskedField {
    pub(super) field: Field,
    pub(super) negated: bool,
    pub(super) value: u128,
    pub(super) mask: u128,
}

/// See [`Condition::Between`].
#[derive(Debug, Clone)]
pub(super) struct Between {
    pub(super) field: Field,
    pub(super) negated: bool,
    pub(super) first: u128,
    pub(super) last: u128,
}

/// `conntrack` with more than `--ctstate`.
#[derive(Debug, Clone, Default)]
pub(super) struct Conntrack {
    pub(super) state: Option<Negatable<States>>,
    /// What the connection must be like.
    pub(super) parts: Vec<Negatable<ConnectionPart>>,
}

/// Something of a connection that `conntrack` compares.
#[derive(Debug, Clone)]
pub(super) enum ConnectionPart {
    /// `--ctdir`.
    Direction(Direction),
    /// `--ctproto`.
    Protocol(u8),
    /// `--ctorigsrc` and the like: a direction's source or destination under a mask.
    Address { direction: Direction, source: bool, value: u128, mask: u128 },
    /// `--ctorigsrcport` and the like.
    Port { direction: Direction, source: bool, range: PortRange },
}

/// `addrtype` with all its options. Several types of one side are as bits, by their place in
/// [`RouteType`].
#[derive(Debug, Clone, Default)]
pub(super) struct AddressTypes {
    pub(super) source: Option<Negatable<u16>>,
    pub(super) destination: Option<Negatable<u16>>,
    /// `--limit-iface-in`.
    pub(super) limit_input: bool,
    /// `--limit-iface-out`.
    pub(super) limit_output: bool,
}

/// `physdev` with the names as numbers.
#[derive(Debug, Clone)]
pub(super) struct PhysdevPorts {
    pub(super) input: Option<Negatable<Name>>,
    pub(super) output: Option<Negatable<Name>>,
    pub(super) is_input: Option<bool>,
    pub(super) is_output: Option<bool>,
    pub(super) is_bridged: Option<bool>,
}

/// The name of an interface, or its start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name {
    pub(super) value: u128,
    pub(super) mask: u128,
}

/// `set`: which set, and which of the packet's two sides for every dimension.
#[derive(Debug, Clone)]
pub(super) struct SetLookup {
    pub(super) name: Box<str>,
    /// True for `src`.
    pub(super) sources: Vec<bool>,
}

impl Condition {
    /// Whether chance decides it.
    pub(super) fn is_chance(&self) -> bool {
        matches!(self, Self::Random(_) | Self::Nth { .. })
    }

    /// Whether it is not known before a packet comes.
    pub(super) fn is_uncertain(&self) -> bool {
        self.is_chance() || matches!(self, Self::Limit | Self::Unknown(_))
    }

    /// Whether it changes what later rules find.
    pub(super) fn has_effect(&self) -> bool {
        matches!(self, Self::Recent(recent) if recent.action.value != RecentAction::Check)
    }
}
