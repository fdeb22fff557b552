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
    /// The share of such packets that takes this path.
    pub share: Share,
    /// How it ends.
    pub outcome: HookVerdict,
    /// The packet as it leaves the hook, or as it was when its path ended. A source that [`Self::source_nat`] asks for is
    /// not in it before [`Self::settle_source`].
    pub packet: Packet,
    /// Its conntrack state then.
    pub tracking: Tracking,
    /// The new source that a rule sets: the caller knows what address and port it becomes.
    pub source_nat: Option<SourceNat>,
    /// True if OUTPUT changed what routing looks at (mark, address), so that the packet is routed again
    /// (`ip_route_me_harder`).
    pub reroute: bool,
    /// What is remembered for later packets.
    pub effects: Effects,
    /// What had to be assumed.
    pub assumptions: Assumptions,
    /// The matched rules.
    pub trace: T,
}

impl<T> Branch<T> {
    /// Gives the connection, and the packet, the new source.
    pub fn settle_source(&mut self, address: IpAddr, port: u16) {
        if let Tracking::Tracked(tracked) = &mut self.tracking {
            tracked.connection.bind_source(address, port);
            tracked.connection.translate(tracked.direction, Hook::Postrouting, &mut self.packet);
        }
        self.source_nat = None;
    }
}

/// The verdict on a packet at the end of a hook. There will be no others: whatever else the kernel does with a packet, as queueing it, is unknown here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookVerdict {
    /// It is accepted.
    Accept,
    /// It is lost.
    Drop(By),
    /// It is lost, and its sender gets a rejection.
    Reject(RuleId, RejectResponse),
    /// It is unknown.
    Unknown(Unknown),
}

/// What ended a packet's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// A rule.
    Rule(RuleId),
    /// The policy of a hook's chain.
    Policy(ChainId),
}

/// Why the outcome of a packet cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// The rule that it depends on.
    pub rule: RuleId,
    /// Why, as a lower-case fragment.
    pub why: Arc<str>,
}

/// What the sender of a rejected packet gets.
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
    /// The type and code of the ICMP error (RFC 792, RFC 1812, RFC 4443); nothing for a reset.
    pub fn icmp(self, family: Family) -> Option<(u8, u8)> {
        let (v4, v6) = match self {
            Self::TcpReset => return None,
            Self::PortUnreachable => ((3, 3), (1, 4)),
            Self::NetUnreachable => ((3, 0), (1, 0)),
            Self::HostUnreachable => ((3, 1), (1, 3)),
            // In IPv6 a header is unknown, which is a parameter problem.
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

/// Something that is remembered for later packets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// A `recent` list, or a dynamic set, notes the address.
    Note {
        /// The list's name.
        list: Arc<str>,
        /// The address, under the list's mask.
        address: IpAddr,
    },
    /// The list forgets it.
    Forget {
        /// The list's name.
        list: Arc<str>,
        /// The address, under the list's mask.
        address: IpAddr,
    },
}

/// What had to be assumed about state that was not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Assumptions(u8);

impl Assumptions {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// `statistic --mode nth`, `numgen inc`: the counter may have any value, all equally likely. Over many packets the share of one
    /// such rule is exact; two of them count in step, so that single packets are not independent.
    pub(crate) const COUNTER: Self = Self(1);
    /// `limit`: packets are rare enough that the limit is not reached, so that the rule holds.
    pub(crate) const BELOW_LIMIT: Self = Self(2);

    /// These and those.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of those are among these.
    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl fmt::Display for Assumptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            (Self::COUNTER, "the counter of `statistic --mode nth` or `numgen inc` may have any value"),
            (Self::BELOW_LIMIT, "`limit` is assumed not to be reached"),
        ];
        let mut said = words.iter().filter(|(one, _)| self.contains(*one)).map(|(_, words)| *words);
        f.write_str(said.next().unwrap_or("nothing"))?;
        said.try_for_each(|words| write!(f, "; {words}"))
    }
}
