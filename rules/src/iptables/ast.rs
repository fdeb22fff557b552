//! Rule sets as values: tables, chains, rules.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use arrayvec::ArrayString;
use ipnet::IpNet;
use smallvec::SmallVec;

use super::matches::Match;
use super::target::Target;
use crate::cluster::{Family, Protocol};

/// All tables of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSet {
    /// The family; iptables and ip6tables are apart from each other.
    pub family: Family,
    /// The tables, each at most once.
    pub tables: Vec<Table>,
}

impl RuleSet {
    /// A rule set without tables.
    pub fn new(family: Family) -> Self {
        Self { family, tables: Vec::new() }
    }

    /// The table of this name.
    pub fn table(&self, name: TableName) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// The table of this name, made where it is missing.
    pub fn table_mut(&mut self, name: TableName) -> &mut Table {
        let index = self.tables.iter().position(|table| table.name == name).unwrap_or_else(|| {
            self.tables.push(Table { name, chains: Vec::new() });
            self.tables.len() - 1
        });
        &mut self.tables[index]
    }

    /// The rules of a chain; none where there is no such chain.
    pub fn rules(&self, table: TableName, chain: &str) -> &[Rule] {
        let chain = self.table(table).and_then(|table| table.chain(chain));
        chain.map(|chain| chain.rules.as_slice()).unwrap_or_default()
    }
}

/// A table of the kernel, in the order in which `iptables-nft-save` shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableName {
    /// `mangle`.
    Mangle,
    /// `security`.
    Security,
    /// `raw`.
    Raw,
    /// `filter`.
    Filter,
    /// `nat`.
    Nat,
}

impl TableName {
    /// All tables.
    pub const ALL: [Self; 5] = [Self::Mangle, Self::Security, Self::Raw, Self::Filter, Self::Nat];

    /// The name in rule text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mangle => "mangle",
            Self::Security => "security",
            Self::Raw => "raw",
            Self::Filter => "filter",
            Self::Nat => "nat",
        }
    }

    /// The chains that the kernel enters, in hook order.
    pub fn builtin_chains(self) -> &'static [&'static str] {
        match self {
            Self::Mangle => &["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"],
            Self::Security | Self::Filter => &["INPUT", "FORWARD", "OUTPUT"],
            Self::Raw => &["PREROUTING", "OUTPUT"],
            Self::Nat => &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Which one.
    pub name: TableName,
    /// Its chains in the order of their declarations, each name once.
    pub chains: Vec<Chain>,
}

impl Table {
    /// The chain of this name.
    pub fn chain(&self, name: &str) -> Option<&Chain> {
        self.chains.iter().find(|chain| &*chain.name == name)
    }
}

/// A named list of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The name.
    pub name: ChainName,
    /// What happens to packets that reach the end, for the kernel's own chains; `None` for others, which return.
    pub policy: Option<Policy>,
    /// How often the policy was applied.
    pub counters: Counters,
    /// The rules, in order.
    pub rules: Vec<Rule>,
}

impl Chain {
    /// A chain that rules jump to, empty.
    pub fn user(name: impl Into<ChainName>) -> Self {
        Self { name: name.into(), policy: None, counters: Counters::default(), rules: Vec::new() }
    }

    /// A chain of the kernel with the policy ACCEPT, empty.
    pub fn builtin(name: impl Into<ChainName>) -> Self {
        Self { policy: Some(Policy::Accept), ..Self::user(name) }
    }
}

/// The name of a chain. Cheap to clone and to compare: it stands in place.
#[derive(Clone, PartialEq, Eq)]
pub struct ChainName(Text);

/// The bytes that the kernel has for the name of a chain (`XT_EXTENSION_MAXNAMELEN` without the end).
const LONGEST_NAME: usize = 28;

#[derive(Clone, PartialEq, Eq)]
enum Text {
    InPlace(ArrayString<LONGEST_NAME>),
    /// A name that no kernel takes; but a dump may have been edited.
    TooLong(Arc<str>),
}

impl ChainName {
    /// The name that starts so and ends so.
    pub(super) fn joined(start: &str, end: &str) -> Self {
        let mut name = ArrayString::new();
        let fits = name.try_push_str(start).and_then(|()| name.try_push_str(end)).is_ok();
        Self(if fits { Text::InPlace(name) } else { Text::TooLong(format!("{start}{end}").into()) })
    }
}

impl<T: AsRef<str>> From<T> for ChainName {
    fn from(name: T) -> Self {
        Self::joined(name.as_ref(), "")
    }
}

impl Deref for ChainName {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Text::InPlace(name) => name,
            Text::TooLong(name) => name,
        }
    }
}

impl Borrow<str> for ChainName {
    fn borrow(&self) -> &str {
        self
    }
}

impl Hash for ChainName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        str::hash(self, state);
    }
}

impl PartialOrd for ChainName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ChainName {
    fn cmp(&self, other: &Self) -> Ordering {
        str::cmp(self, other)
    }
}

impl fmt::Debug for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

/// What the kernel does at the end of one of its own chains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The packet goes on.
    Accept,
    /// The packet is lost.
    Drop,
}

/// Packets and bytes that a rule or policy was applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Counters {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The `-m` of a rule. Most rules have two at most; those stand in place.
pub type Matches = SmallVec<[Match; 2]>;

/// A rule: conditions, all of which must hold, and what happens then.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// What `iptables-save -c` shows before the rule.
    pub counters: Option<Counters>,
    /// `-s`.
    pub source: Option<Negatable<Network>>,
    /// `-d`.
    pub destination: Option<Negatable<Network>>,
    /// `-i`; a `+` at the end stands for any rest.
    pub in_interface: Option<Negatable<Box<str>>>,
    /// `-o`.
    pub out_interface: Option<Negatable<Box<str>>>,
    /// `-p`.
    pub protocol: Option<Negatable<ProtocolNumber>>,
    /// `-f`, true for `! -f`: IPv4 fragments but the first.
    pub fragment: Option<Negatable<()>>,
    /// `-m`, in order.
    pub matches: Matches,
    /// `-j` or `-g`. Without one, a rule only counts packets.
    pub target: Option<Target>,
}

impl Rule {
    /// The text of the first `-m comment`.
    pub fn comment(&self) -> Option<&str> {
        self.matches.iter().find_map(|m| match m {
            Match::Comment(text) => Some(&**text),
            _ => None,
        })
    }

    /// The chain that the rule sends packets to.
    pub fn next_chain(&self) -> Option<&ChainName> {
        match &self.target {
            Some(Target::Jump(chain) | Target::Goto(chain)) => Some(chain),
            _ => None,
        }
    }
}

/// A condition, or with `!` its opposite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Negatable<T> {
    /// True where a `!` stands before the condition.
    pub negated: bool,
    /// The condition.
    pub value: T,
}

impl<T> Negatable<T> {
    /// The condition itself.
    pub fn is(value: T) -> Self {
        Self { negated: false, value }
    }

    /// The opposite of the condition.
    pub fn not(value: T) -> Self {
        Self { negated: true, value }
    }
}

/// Addresses that `-s` and `-d` compare with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Network {
    /// A prefix, without bits behind its length.
    Prefix(IpNet),
    /// An address under a mask that is no prefix length.
    Masked(Box<(IpAddr, IpAddr)>),
}

impl Network {
    /// One address.
    pub fn host(address: IpAddr) -> Self {
        Self::Prefix(IpNet::from(address))
    }

    /// A range; bits behind its length are dropped, as iptables does.
    pub fn range(range: IpNet) -> Self {
        Self::Prefix(range.trunc())
    }

    /// The family of the addresses.
    pub fn family(&self) -> Family {
        match self {
            Self::Prefix(range) => Family::of(range.addr()),
            Self::Masked(masked) => Family::of(masked.0),
        }
    }
}

/// A protocol's number in the IP header; 0 stands for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProtocolNumber(pub u8);

/// Names that iptables knows by itself or finds in `/etc/protocols`. The first name of a number is the one shown.
const PROTOCOLS: &[(u8, &str)] = &[
    (0, "all"),
    (1, "icmp"),
    (2, "igmp"),
    (4, "ipencap"),
    (6, "tcp"),
    (17, "udp"),
    (33, "dccp"),
    (41, "ipv6"),
    (47, "gre"),
    (50, "esp"),
    (51, "ah"),
    (58, "ipv6-icmp"),
    (58, "icmpv6"),
    (89, "ospf"),
    (103, "pim"),
    (112, "vrrp"),
    (132, "sctp"),
    (135, "mobility-header"),
    (135, "ipv6-mh"),
    (135, "mh"),
    (136, "udplite"),
];

impl ProtocolNumber {
    /// The protocol of a name or number, in any case of letters.
    pub fn parse(text: &str) -> Option<Self> {
        let by_name = PROTOCOLS.iter().find(|(_, name)| name.eq_ignore_ascii_case(text)).map(|(number, _)| *number);
        by_name.or_else(|| text.parse().ok()).map(Self)
    }

    /// The name, for protocols that have a well-known one.
    pub fn name(self) -> Option<&'static str> {
        PROTOCOLS.iter().find(|(number, _)| *number == self.0).map(|(_, name)| *name)
    }

    /// The transport protocol, for those with ports that Services know.
    pub fn transport(self) -> Option<Protocol> {
        [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter().find(|protocol| protocol.number() == self.0)
    }
}

impl From<Protocol> for ProtocolNumber {
    fn from(protocol: Protocol) -> Self {
        Self(protocol.number())
    }
}
