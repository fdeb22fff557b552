//! What `-m` compares.

use std::sync::Arc;

use super::values::Negatable;
use crate::cluster::Protocol;

/// A match extension with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// `comment`: always holds.
    Comment(Arc<str>),
    /// `tcp`, `udp`, `sctp`: the header's ports and flags.
    Ports(Ports),
    /// `mark`: bits of the packet's mark.
    Mark(Negatable<Masked>),
    /// `connmark`: bits of the connection's mark.
    Connmark(Negatable<Masked>),
    /// `conntrack --ctstate`, and the older `state --state`.
    State {
        /// True where written as `-m state --state`.
        old_name: bool,
        /// The states, one of which must hold.
        states: Negatable<States>,
    },
    /// `addrtype`: what the routing table says of the addresses.
    AddressType(AddressType),
    /// `statistic`: chance, or every nth packet.
    Statistic(Statistic),
    /// `recent`: addresses seen before.
    Recent(Box<Recent>),
    /// `physdev`: ports of a bridge.
    Physdev(Box<Physdev>),
    /// `multiport`: several ports in one rule.
    Multiport(Box<Multiport>),
    /// `set`: membership in an ipset.
    Set(Box<Negatable<IpSet>>),
    /// `nfacct`: the kernel's accounting object of this name counts the packet. Without a quota, which kube-proxy's have not,
    /// it always holds (`nfacct_mt`).
    Nfacct(Box<str>),
    /// An extension, or an option of one, that is not modelled. What it compares is unknown.
    Other(Box<Other>),
}

impl Match {
    /// Whether it holds for every packet: a comment, or a counter.
    pub fn always_holds(&self) -> bool {
        matches!(self, Self::Comment(_) | Self::Nfacct(_))
    }
}

/// Text of an extension that is not modelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// The name behind `-m` or `-j`.
    pub name: Box<str>,
    /// Its options as they were written, without blanks around them; may be empty.
    pub text: Box<str>,
}

/// Options of `tcp`, `udp` and `sctp`. Without any, the match only says that the header is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports {
    /// The extension; `-p` names the same protocol.
    pub protocol: Protocol,
    /// `--sport`.
    pub source: Option<Negatable<PortRange>>,
    /// `--dport`.
    pub destination: Option<Negatable<PortRange>>,
    /// `--tcp-flags`.
    pub flags: Option<Negatable<TcpFlags>>,
}

impl Ports {
    /// The match without options.
    pub fn any(protocol: Protocol) -> Self {
        Self { protocol, source: None, destination: None, flags: None }
    }

    /// A match of one destination port.
    pub fn destination(protocol: Protocol, port: u16) -> Self {
        Self { destination: Some(Negatable::is(PortRange::one(port))), ..Self::any(protocol) }
    }
}

/// Ports from first to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PortRange {
    /// The lowest.
    pub first: u16,
    /// The highest, not below the first.
    pub last: u16,
}

impl PortRange {
    /// A single port.
    pub fn one(port: u16) -> Self {
        Self { first: port, last: port }
    }
}

/// Flags of the TCP header: of those in `mask`, exactly those in `set` are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TcpFlags {
    /// The flags looked at, as bits of the header's byte (FIN is 1, URG 32).
    pub mask: u8,
    /// The flags that must be on.
    pub set: u8,
}

/// The names of TCP's flags in the order in which iptables shows them, with their bits.
pub const TCP_FLAGS: [(&str, u8); 6] = [("FIN", 1), ("SYN", 2), ("RST", 4), ("PSH", 8), ("ACK", 16), ("URG", 32)];

/// A 32-bit value of which only the bits of a mask count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Masked {
    /// The bits.
    pub value: u32,
    /// Which of them count; all for `0xffffffff`.
    pub mask: u32,
}

impl Masked {
    /// Exactly these bits.
    pub fn bits(bits: u32) -> Self {
        Self { value: bits, mask: bits }
    }
}

/// A set of connection states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct States(u8);

impl States {
    /// The packet fits no connection.
    pub const INVALID: Self = Self(1);
    /// The first packet of a connection.
    pub const NEW: Self = Self(1 << 1);
    /// The first packet of a connection that belongs to another, or an ICMP error.
    pub const RELATED: Self = Self(1 << 2);
    /// The connection has seen packets both ways.
    pub const ESTABLISHED: Self = Self(1 << 3);
    /// `raw` exempted the packet.
    pub const UNTRACKED: Self = Self(1 << 4);
    /// The connection's source is rewritten.
    pub const SNAT: Self = Self(1 << 5);
    /// The connection's destination is rewritten.
    pub const DNAT: Self = Self(1 << 6);

    /// The states with their names, in the order in which iptables shows them.
    pub const NAMES: [(&'static str, Self); 7] = [
        ("INVALID", Self::INVALID),
        ("NEW", Self::NEW),
        ("RELATED", Self::RELATED),
        ("ESTABLISHED", Self::ESTABLISHED),
        ("UNTRACKED", Self::UNTRACKED),
        ("SNAT", Self::SNAT),
        ("DNAT", Self::DNAT),
    ];

    /// These states and those.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether one of the states is among these.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Options of `addrtype`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AddressType {
    /// `--src-type`.
    pub source: Option<Negatable<RouteType>>,
    /// `--dst-type`.
    pub destination: Option<Negatable<RouteType>>,
}

/// A route's type in the sense of `ip route`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RouteType {
    /// No specific one.
    Unspec,
    /// Elsewhere, by a route.
    Unicast,
    /// An address of this machine.
    Local,
    /// A broadcast address.
    Broadcast,
    /// An anycast address.
    Anycast,
    /// A multicast group.
    Multicast,
    /// Packets are dropped without a word.
    Blackhole,
    /// Packets are answered with unreachable.
    Unreachable,
    /// Packets are answered with prohibited.
    Prohibit,
}

impl RouteType {
    /// The types with their names.
    pub const NAMES: [(&'static str, Self); 9] = [
        ("UNSPEC", Self::Unspec),
        ("UNICAST", Self::Unicast),
        ("LOCAL", Self::Local),
        ("BROADCAST", Self::Broadcast),
        ("ANYCAST", Self::Anycast),
        ("MULTICAST", Self::Multicast),
        ("BLACKHOLE", Self::Blackhole),
        ("UNREACHABLE", Self::Unreachable),
        ("PROHIBIT", Self::Prohibit),
    ];
}

/// Options of `statistic`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Statistic {
    /// `--mode random --probability`.
    Random(Negatable<Probability>),
    /// `--mode nth`: one packet of `every`, the one numbered `packet`.
    Nth {
        /// How many packets a turn has.
        every: Negatable<u32>,
        /// Which of them, from 0.
        packet: u32,
    },
}

/// A probability as the kernel has it: it draws 31 random bits and the rule holds where they are below the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Probability {
    threshold: u32,
}

impl Probability {
    /// The threshold that always holds: 2^31.
    pub const ONE: u32 = 1 << 31;

    /// The probability of a threshold from 0 to [`Self::ONE`].
    pub fn from_threshold(threshold: u32) -> Option<Self> {
        (threshold <= Self::ONE).then_some(Self { threshold })
    }

    /// The threshold that iptables makes of a number from 0 to 1: `lround(0x80000000 * number)`.
    pub fn from_number(number: f64) -> Option<Self> {
        if !(0.0..=1.0).contains(&number) {
            return None;
        }
        // The product lies between 0 and 2^31, so the conversion keeps its value.
        Some(Self { threshold: (number * f64::from(Self::ONE)).round() as u32 })
    }

    /// How many of the 2^31 draws hold.
    pub fn threshold(self) -> u32 {
        self.threshold
    }

    /// The share of draws that hold, from 0 to 1.
    pub fn share(self) -> f64 {
        f64::from(self.threshold) / f64::from(Self::ONE)
    }
}

/// Options of `recent`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recent {
    /// What is done with the list.
    pub action: Negatable<RecentAction>,
    /// `--seconds`: only entries that are not older.
    pub seconds: Option<u32>,
    /// `--reap`: forget older entries.
    pub reap: bool,
    /// `--hitcount`: at least so many entries.
    pub hit_count: Option<u32>,
    /// `--rttl`: the TTL must be the same.
    pub same_ttl: bool,
    /// `--name`.
    pub name: Arc<str>,
    /// `--mask`, all bits where left out.
    pub mask: std::net::IpAddr,
    /// `--rdest` instead of `--rsource`.
    pub destination: bool,
}

/// What `recent` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecentAction {
    /// `--set`: enter the address; always holds.
    Set,
    /// `--rcheck`: is it there?
    Check,
    /// `--update`: is it there? Then note the time.
    Update,
    /// `--remove`: is it there? Then strike it out.
    Remove,
}

/// Options of `physdev`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Physdev {
    /// `--physdev-in`.
    pub input: Option<Negatable<Box<str>>>,
    /// `--physdev-is-in`.
    pub is_input: Option<Negatable<()>>,
    /// `--physdev-out`.
    pub output: Option<Negatable<Box<str>>>,
    /// `--physdev-is-out`.
    pub is_output: Option<Negatable<()>>,
    /// `--physdev-is-bridged`.
    pub is_bridged: Option<Negatable<()>>,
}

/// Options of `multiport`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multiport {
    /// Which port is compared.
    pub side: Side,
    /// Ports and ranges, one of which must hold.
    pub ports: Negatable<Vec<PortRange>>,
}

/// Which of a packet's two ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// `--sports`.
    Source,
    /// `--dports`.
    Destination,
    /// `--ports`.
    Either,
}

/// Options of `set`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpSet {
    /// The set's name.
    pub name: Box<str>,
    /// What is looked up, as `dst,dst`.
    pub directions: Box<str>,
}
