//! The outcomes of a packet at a hook.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;

use super::connection::{SourceNat, Tracking};
use super::hook::Hook;
use super::packet::Packet;
use super::share::Share;
use super::trace::{ChainId, NoTrace, RuleId};
use crate::cluster::Family;

/// One of the possible outcomes of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch<T = NoTrace> {
    /// The share of packets that take this path.
    pub share: Share,
    /// The verdict.
    pub outcome: HookVerdict,
    /// The packet as it leaves the hook, or as it was when its path ended. A source set by [`Self::source_nat`] is applied by
    /// [`Self::settle_source`].
    pub packet: Packet,
    /// Its conntrack state at that time.
    pub tracking: Tracking,
    /// The source NAT that a rule requests: the caller determines the actual address and port.
    pub source_nat: Option<SourceNat>,
    /// The stop at which the walk continues with the new source, if later chains of the hook see it.
    pub(super) continues_at: Option<usize>,
    /// True if OUTPUT changed fields that routing depends on (mark, address), so that the packet is routed again
    /// (`ip_route_me_harder`).
    pub reroute: bool,
    /// Changes of state that later packets see.
    pub effects: Effects,
    /// Assumptions made.
    pub assumptions: Assumptions,
    /// The matched rules.
    pub trace: T,
}

impl<T> Branch<T> {
    /// Applies the new source to the connection and the packet.
    pub fn settle_source(&mut self, address: IpAddr, port: u16) {
        if let Tracking::Tracked(tracked) = &mut self.tracking {
            tracked.connection.bind_source(address, port);
            tracked.connection.translate(tracked.direction, Hook::Postrouting, &mut self.packet);
        }
        self.source_nat = None;
    }
}

/// The verdict at the end of a hook. There will be no other variants: anything else that the kernel does with a packet, such as queueing
/// it, is unknown here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookVerdict {
    /// The packet is accepted.
    Accept,
    /// The packet is dropped.
    Drop(By),
    /// The packet is rejected, and its sender gets a response.
    Reject(RuleId, RejectResponse),
    /// The verdict is unknown.
    Unknown(Unknown),
}

/// What ended a packet's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// A rule.
    Rule(RuleId),
    /// The policy of a base chain.
    Policy(ChainId),
}

/// Why the outcome of a packet cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// The rule that it depends on.
    pub rule: RuleId,
    /// The reason, as a lower-case fragment.
    pub why: Arc<str>,
}

/// The response to a rejected packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RejectResponse {
    /// A TCP reset.
    TcpReset,
    /// ICMP: the port is closed.
    PortUnreachable,
    /// ICMP: the network is unreachable; in IPv6 no route.
    NetUnreachable,
    /// ICMP: the host is unreachable; in IPv6 address unreachable.
    HostUnreachable,
    /// ICMP: the protocol is unknown. No rule uses it in IPv6.
    ProtocolUnreachable,
    /// ICMP: the network is prohibited; IPv4 only.
    NetProhibited,
    /// ICMP: the host is prohibited; IPv4 only.
    HostProhibited,
    /// ICMP: administratively prohibited.
    AdminProhibited,
    /// ICMPv6: the source address failed a policy.
    PolicyFail,
    /// ICMPv6: a reject route.
    RejectRoute,
}

impl RejectResponse {
    /// Returns type and code of the ICMP error (RFC 792, RFC 1812, RFC 4443); nothing for a reset.
    pub fn icmp(self, family: Family) -> Option<(u8, u8)> {
        let (v4, v6) = match self {
            Self::TcpReset => return None,
            Self::PortUnreachable => ((3, 3), (1, 4)),
            Self::NetUnreachable => ((3, 0), (1, 0)),
            Self::HostUnreachable => ((3, 1), (1, 3)),
            // In IPv6 this is an unknown next header: a parameter problem.
            Self::ProtocolUnreachable => ((3, 2), (4, 1)),
            Self::NetProhibited => ((3, 9), (1, 1)),
            Self::HostProhibited => ((3, 10), (1, 1)),
            Self::AdminProhibited => ((3, 13), (1, 1)),
            Self::PolicyFail => ((3, 13), (1, 5)),
            Self::RejectRoute => ((3, 13), (1, 6)),
        };
        Some(if family == Family::Ipv4 { v4 } else { v6 })
    }
}

/// Effects, in order. Most branches have none or one.
pub type Effects = SmallVec<[Effect; 1]>;

/// A change of state that later packets see.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The address is added to a `recent` list or dynamic set.
    Add {
        /// The list's name.
        list: Arc<str>,
        /// The address, under the list's mask.
        address: IpAddr,
    },
    /// The address is removed from the list.
    Remove {
        /// The list's name.
        list: Arc<str>,
        /// The address, under the list's mask.
        address: IpAddr,
    },
}

/// Assumptions about unknown state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Assumptions(u8);

impl Assumptions {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// `statistic --mode nth`, `numgen inc`: the counter may have any value, all equally likely. Over many packets the share of one such
    /// rule is exact; two such rules count in step, so their results for one packet are not independent.
    pub(crate) const COUNTER: Self = Self(1);
    /// `limit`: packets are rare enough that the limit is not reached, so the match holds.
    pub(crate) const BELOW_LIMIT: Self = Self(2);
    /// Interfaces of rules that a text does not show: one branch for a rule that has the packet's, and one for a rule that does not.
    pub(crate) const INTERFACES: Self = Self(4);

    /// Returns the union of two sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns those about what rules have counted.
    #[must_use]
    pub const fn of_counts(self) -> Self {
        Self(self.0 & !Self::INTERFACES.0)
    }

    /// Returns whether the outcome may depend on interfaces of rules that a text does not show.
    pub const fn depends_on_interfaces(self) -> bool {
        self.contains(Self::INTERFACES)
    }

    /// Returns whether `self` contains all of `other`.
    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl fmt::Display for Assumptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            (Self::COUNTER, "the counter of `statistic --mode nth` or `numgen inc` may have any value"),
            (Self::BELOW_LIMIT, "`limit` is assumed not to be reached"),
            (Self::INTERFACES, "rules whose interfaces the text does not show may match or not"),
        ];
        let mut said = words.iter().filter(|(one, _)| self.contains(*one)).map(|(_, words)| *words);
        f.write_str(said.next().unwrap_or("nothing"))?;
        said.try_for_each(|words| write!(f, "; {words}"))
    }
}
