//! Match extensions (`-m`). Each has a file with its value, its parsing from options and from listings, its printing, evaluation and
//! explanation. [`EXTENSIONS`] lists them.
//!
//! A [`Match`] is the value in a rule; a [`Condition`] is its compiled form, a comparison of numbers.

mod addrtype;
mod comment;
mod conntrack;
mod field;
mod icmp;
mod iprange;
mod mark;
mod multiport;
mod nfacct;
mod other;
mod physdev;
mod recent;
mod set;
mod statistic;
mod transport;

use std::sync::Arc;

pub use self::addrtype::{AddressType, RouteType};
pub use self::conntrack::States;
pub(super) use self::field::Field;
pub use self::multiport::{Multiport, Side};
pub(super) use self::other::LISTED;
pub use self::other::{Other, UNREAD};
pub use self::physdev::Physdev;
pub use self::recent::{Recent, RecentAction};
pub use self::set::IpSet;
pub use self::statistic::{Probability, Statistic};
pub(super) use self::transport::PortField;
pub use self::transport::{Ports, TcpFlags};
use super::text::{Fault, Options, Printer};
use super::values::{Masked, Negatable, PortRange};
use crate::cluster::{Family, ProtocolNumber};
use crate::walk::{Assumptions, Edges, Environment, Held, Trace, Walker};

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
        /// True if written as `-m state --state`.
        old_name: bool,
        /// The states, one of which must hold.
        states: Negatable<States>,
    },
    /// `addrtype`: the types of the addresses in the routing table.
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
    /// `nfacct`: the nfacct object of this name counts the packet.
    Nfacct(Box<str>),
    /// An extension, or an option of one, that is not modelled. Its result is unknown.
    Other(Box<Other>),
}

/// A condition of a compiled rule. It is small, because there are several for each of very many rules.
#[derive(Debug, Clone)]
pub(super) enum Condition {
    /// A packet field equals `value` without the lowest `shift` bits of both. `shift` is below 128.
    Field { field: Field, negated: bool, shift: u8, value: u128 },
    /// A packet field under a mask.
    Masked(Box<field::MaskedField>),
    /// The protocol number.
    Protocol { negated: bool, number: u8 },
    /// A port lies in a range, and the protocol is this one.
    Port { protocol: u8, field: PortField, negated: bool, first: u16, last: u16 },
    /// The flags of a TCP header.
    TcpFlags { negated: bool, flags: TcpFlags },
    /// The type of an ICMP packet.
    Icmp(icmp::IcmpType),
    /// The packet's mark.
    Mark(Negatable<Masked>),
    /// The connection's mark.
    Connmark(Negatable<Masked>),
    /// The conntrack state.
    State(Negatable<States>),
    /// The same for the old `state` match, which ignores translation.
    OldState(Negatable<States>),
    /// Several options of `conntrack`.
    Conntrack(Box<conntrack::Conntrack>),
    /// The types of the packet's addresses.
    AddressType(Box<addrtype::AddressTypes>),
    /// Holds for this many of the 2^31 draws.
    Random(u32),
    /// Holds for `part` of `every` packets.
    Nth { part: u32, every: u32 },
    /// A limit that is assumed not to be reached.
    Limit,
    /// `recent`.
    Recent(Box<Recent>),
    /// Ports of a bridge.
    Physdev(Box<physdev::BridgePorts>),
    /// One of several ports.
    Multiport(Box<Multiport>),
    /// Membership in an ipset.
    Set(Box<set::SetLookup>),
    /// An address range.
    Between(Box<iprange::Between>),
    /// Interfaces that a text does not show.
    UnshownInterfaces,
    /// Holds for no packet.
    Never,
    /// Not modelled, for the given reason.
    Unknown(Arc<str>),
}

/// The result of parsing a match; nothing if its options are not modelled.
type Parsed = Result<Option<Match>, Fault>;

/// The result of parsing a match in a listing, with the number of words read; nothing if the words are not this match.
type Listed = Option<(Match, usize)>;

/// The parser of an extension.
#[derive(Debug)]
pub(super) struct Extension {
    /// The name after `-m`.
    pub(super) name: &'static str,
    /// The modelled options.
    options: &'static [&'static str],
    /// Reads these options.
    parse: fn(&Options<'_>) -> Parsed,
    /// Reads what `iptables -L` prints for it at the start of some words (one at least), after a `!` if the flag is set.
    parse_listed: fn(&[&str], bool) -> Listed,
}

/// All modelled extensions, the frequent ones first.
const EXTENSIONS: [Extension; 15] = [
    comment::COMMENT,
    transport::TCP,
    transport::UDP,
    statistic::STATISTIC,
    mark::MARK,
    recent::RECENT,
    addrtype::ADDRTYPE,
    conntrack::CONNTRACK,
    transport::SCTP,
    mark::CONNMARK,
    conntrack::STATE,
    physdev::PHYSDEV,
    multiport::MULTIPORT,
    set::SET,
    nfacct::NFACCT,
];

impl Extension {
    /// Returns the extension of a name; nothing if it is not modelled.
    pub(super) fn of(name: &str) -> Option<&'static Self> {
        const ALL: &[Extension] = &EXTENSIONS;
        ALL.iter().find(|extension| extension.name == name)
    }

    /// Returns whether an option is one of its modelled options.
    pub(super) fn knows(&self, option: &str) -> bool {
        self.options.contains(&option)
    }

    /// Parses the match; nothing if it has options that are not modelled.
    pub(super) fn parse(&self, options: &Options<'_>) -> Parsed {
        if options.iter().any(|option| !self.knows(option.name)) { Ok(None) } else { (self.parse)(options) }
    }
}

/// Parses the output of `iptables -L` for a match, word for word as the extension's `print` function writes it. Returns the match and the
/// number of words read.
pub(super) fn parse_listed(words: &[&str]) -> Listed {
    let (negated, rest) = listed_negation(words);
    let before = usize::from(negated);
    let read = |extension: &Extension| (extension.parse_listed)(rest, negated);
    let (found, length) = if rest.is_empty() { None } else { EXTENSIONS.iter().find_map(read) }?;
    Some((found, before + length))
}

/// Returns whether a `!` comes first, and the words after it.
fn listed_negation<'w, 'a>(words: &'w [&'a str]) -> (bool, &'w [&'a str]) {
    match words {
        ["!", rest @ ..] => (true, rest),
        rest => (false, rest),
    }
}

/// Returns a word, whether it is negated by a `!` before it or at its start, and the number of words read.
fn listed_word<'a>(words: &[&'a str]) -> Option<(bool, &'a str, usize)> {
    match words {
        ["!", word, ..] => Some((true, word, 2)),
        [word, ..] => Some(word.strip_prefix('!').map_or((false, *word, 1), |word| (true, word, 1))),
        [] => None,
    }
}

impl Match {
    /// Returns the negation of the match, if it compares only one thing.
    pub(crate) fn negation(&mut self) -> Option<&mut bool> {
        match self {
            Self::Mark(mark) | Self::Connmark(mark) => Some(&mut mark.negated),
            Self::State { states, .. } => Some(&mut states.negated),
            Self::Set(set) => Some(&mut set.negated),
            Self::Multiport(ports) => Some(&mut ports.ports.negated),
            Self::AddressType(AddressType { source: Some(side), .. } | AddressType { destination: Some(side), .. }) => {
                Some(&mut side.negated)
            }
            _ => None,
        }
    }

    /// Returns whether it holds for every packet: a comment, or a counter.
    pub fn always_holds(&self) -> bool {
        matches!(self, Self::Comment(_) | Self::Nfacct(_)) && !self.hides_interfaces()
    }

    /// Returns the match that stands for interfaces that a text does not show: a comment, which the kernel accepts.
    pub(in crate::iptables) fn unshown_interfaces() -> Self {
        Self::Comment(comment::UNSHOWN_INTERFACES.into())
    }

    /// Returns whether it stands for interfaces that a text does not show.
    pub(in crate::iptables) fn hides_interfaces(&self) -> bool {
        matches!(self, Self::Comment(text) if **text == *comment::UNSHOWN_INTERFACES)
    }

    pub(super) fn print(&self, out: &mut Printer) {
        match self {
            Self::Comment(text) => comment::print(text, out),
            Self::Ports(ports) => ports.print(out),
            Self::Mark(mark) => mark::print(" -m mark", mark, out),
            Self::Connmark(mark) => mark::print(" -m connmark", mark, out),
            Self::State { old_name, states } => conntrack::print(*old_name, *states, out),
            Self::AddressType(types) => types.print(out),
            Self::Statistic(statistic) => statistic.print(out),
            Self::Recent(recent) => recent.print(out),
            Self::Physdev(physdev) => physdev.print(out),
            Self::Multiport(ports) => ports.print(out),
            Self::Set(set) => set.print(out),
            Self::Nfacct(name) => nfacct::print(name, out),
            Self::Other(other) => {
                out.push(" -m ");
                other.print(out);
            }
        }
    }

    /// Adds its conditions; `protocol` is the `-p` of the rule.
    pub(super) fn compile(
        &self,
        protocol: Option<Negatable<ProtocolNumber>>,
        family: Family,
        out: &mut Vec<Condition>,
    ) {
        out.push(match self {
            Self::Comment(_) if self.hides_interfaces() => Condition::UnshownInterfaces,
            Self::Comment(_) | Self::Nfacct(_) => return,
            Self::Ports(ports) => return ports.compile(protocol, out),
            Self::Statistic(statistic) => return out.extend(statistic.compile()),
            Self::Mark(mark) => Condition::Mark(*mark),
            Self::Connmark(mark) => Condition::Connmark(*mark),
            Self::State { old_name: false, states } => Condition::State(*states),
            Self::State { old_name: true, states } => Condition::OldState(*states),
            Self::AddressType(types) => types.compile(),
            Self::Recent(recent) => recent.compile(),
            Self::Physdev(physdev) => physdev.compile(),
            Self::Multiport(ports) => Condition::Multiport(ports.clone()),
            Self::Set(set) => set.compile(),
            Self::Other(other) => other.compile(family),
        });
    }

    /// Describes what it requires of a packet, as a fragment: `to port 80`. Returns nothing if it always holds or is random.
    pub fn explain(&self) -> Option<String> {
        Some(match self {
            Self::Comment(_) if self.hides_interfaces() => "at interfaces that the text does not show".to_owned(),
            Self::Comment(_) | Self::Nfacct(_) | Self::Statistic(_) => return None,
            Self::Ports(ports) => return ports.explain(),
            Self::Mark(mark) => format!("{}marked {}", mark.negation(), mark.value.explain()),
            Self::Connmark(mark) => format!("its connection {}marked {}", mark.negation(), mark.value.explain()),
            Self::State { states, .. } => conntrack::explain(*states),
            Self::AddressType(types) => types.explain(),
            Self::Recent(recent) => recent.explain(),
            Self::Physdev(_) => "at certain ports of a bridge".to_owned(),
            Self::Multiport(ports) => ports.explain(),
            Self::Set(set) => set.explain(),
            Self::Other(other) => format!("matches `-m {}` (not modelled)", other.name),
        })
    }
}

impl Condition {
    /// Returns whether packets are followed both if it holds and if it does not.
    pub(super) fn is_chance(&self) -> bool {
        matches!(self, Self::Random(_) | Self::Nth { .. } | Self::UnshownInterfaces)
    }

    /// Returns whether its result is not determined by the packet.
    pub(super) fn is_uncertain(&self) -> bool {
        self.is_chance() || matches!(self, Self::Limit | Self::Unknown(_))
    }

    /// Returns whether it changes what later rules see.
    pub(super) fn has_effect(&self) -> bool {
        matches!(self, Self::Recent(recent) if recent.has_effect())
    }

    /// Evaluates it for a packet, and records its effects.
    pub(super) fn holds<T: Trace>(&self, walker: &mut Walker<T>, environment: &Environment) -> Held {
        match self {
            Self::Field { field, negated, shift, value } => (field.is_under(walker, *shift, *value) ^ negated).into(),
            Self::Masked(masked) => masked.holds(walker),
            Self::Between(range) => range.holds(walker).into(),
            Self::Protocol { negated, number } => (walker.is_protocol(&[*number]) ^ negated).into(),
            Self::Port { protocol, field, negated, first, last } => {
                field.holds(walker, *protocol, PortRange { first: *first, last: *last }, *negated)
            }
            Self::TcpFlags { negated, flags } => flags.holds(walker, *negated),
            Self::Icmp(kind) => kind.holds(walker),
            Self::Mark(mark) => mark::holds(walker.packet.mark, *mark),
            Self::Connmark(mark) => mark::connection_holds(walker.tracking(), *mark),
            Self::State(states) => states.holds(walker.tracking()).into(),
            Self::OldState(states) => states.holds_untranslated(walker.tracking()).into(),
            Self::Conntrack(options) => options.holds(walker),
            Self::AddressType(types) => types.holds(walker, environment),
            Self::Random(threshold) => Held::Random(*threshold, 1 << 31),
            Self::Nth { part, every } => {
                walker.assume(Assumptions::COUNTER);
                Held::Random(*part, u64::from(*every))
            }
            // Either for all packets of an interface or for none: the shares say nothing.
            Self::UnshownInterfaces => {
                walker.assume(Assumptions::INTERFACES);
                Held::Random(1, 2)
            }
            Self::Limit => Held::Assuming(Assumptions::BELOW_LIMIT),
            Self::Recent(recent) => recent.holds(walker, &environment.recent),
            Self::Physdev(ports) => ports.holds(walker).into(),
            Self::Multiport(ports) => ports.holds(walker).into(),
            Self::Set(lookup) => lookup.holds(walker, environment),
            Self::Never => Held::No,
            Self::Unknown(why) => Held::Unknown(why.clone()),
        }
    }

    /// Adds the values at which its result changes.
    pub(super) fn edges(&self, edges: &mut Edges) {
        match self {
            Self::Field { field, shift, value, .. } => {
                let first = value >> shift << shift;
                field.edges(first, first | ((1 << shift) - 1), edges);
            }
            Self::Masked(masked) => masked.edges(edges),
            Self::Between(range) => range.edges(edges),
            Self::Protocol { number, .. } => drop(edges.protocols.insert(*number)),
            Self::Port { protocol, field, first, last, .. } => {
                field.edges(*protocol, PortRange { first: *first, last: *last }, edges);
            }
            Self::TcpFlags { .. } => TcpFlags::edges(edges),
            Self::Multiport(ports) => ports.edges(edges),
            Self::Mark(mark) => mark::edges(mark.value, edges),
            Self::Conntrack(options) => options.edges(edges),
            Self::AddressType(types) => types.edges(edges),
            Self::Recent(recent) => recent.edges(edges),
            Self::Limit | Self::Physdev(_) | Self::Connmark(_) => edges.history = true,
            // The result is the same for the first packets of all connections, or unknown for all.
            Self::State(_)
            | Self::OldState(_)
            | Self::Random(_)
            | Self::Nth { .. }
            | Self::UnshownInterfaces
            | Self::Set(_)
            | Self::Icmp(_)
            | Self::Never
            | Self::Unknown(_) => {}
        }
    }
}
