//! `conntrack`, and the older `state`: the connection tracking state of the packet.

use super::{Condition, Extension, Listed, Match, Parsed};
use crate::cluster::{Family, ProtocolNumber};
use crate::iptables::text::{KeptOption, Options, Printer, values};
use crate::iptables::{Negatable, PortRange};
use crate::walk::{Direction, Edges, Field, Held, Intervals, State, Trace, Tracked, Tracking, Walker, bits};

/// A set of connection states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct States(u8);

impl States {
    /// The packet belongs to no connection and cannot open one.
    pub const INVALID: Self = Self(1);
    /// The first packet of a connection.
    pub const NEW: Self = Self(1 << 1);
    /// The first packet of a connection related to another one, or an ICMP error.
    pub(crate) const RELATED: Self = Self(1 << 2);
    /// The connection has seen packets in both directions.
    pub(crate) const ESTABLISHED: Self = Self(1 << 3);
    /// The packet was exempted from tracking in `raw`.
    pub(crate) const UNTRACKED: Self = Self(1 << 4);
    /// The connection's source is translated.
    pub(crate) const SNAT: Self = Self(1 << 5);
    /// The connection's destination is translated.
    pub const DNAT: Self = Self(1 << 6);

    /// The states with their names, in the order in which iptables prints them.
    pub const NAMES: [(&'static str, Self); 7] = [
        ("INVALID", Self::INVALID),
        ("NEW", Self::NEW),
        ("RELATED", Self::RELATED),
        ("ESTABLISHED", Self::ESTABLISHED),
        ("UNTRACKED", Self::UNTRACKED),
        ("SNAT", Self::SNAT),
        ("DNAT", Self::DNAT),
    ];

    /// Returns the union of two sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether the set contains a state.
    pub const fn includes(self, state: Self) -> bool {
        self.0 & state.0 == state.0
    }

    /// Returns whether the sets have a state in common.
    pub(crate) const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(_, state)| self.intersects(*state)).map(|(name, _)| name)
    }
}

/// `conntrack` with more than `--ctstate`.
#[derive(Debug, Clone, Default)]
pub(in crate::iptables) struct Conntrack {
    state: Option<Negatable<States>>,
    /// The properties that the connection must have.
    parts: Vec<Negatable<Part>>,
}

/// A property of a connection that `conntrack` compares.
#[derive(Debug, Clone)]
enum Part {
    /// `--ctdir`.
    Direction(Direction),
    /// `--ctproto`.
    Protocol(u8),
    /// `--ctorigsrc` and the like: a direction's source or destination under a mask.
    Address { direction: Direction, source: bool, value: u128, mask: u128 },
    /// `--ctorigsrcport` and the like.
    Port { direction: Direction, source: bool, range: PortRange },
}

pub(super) const CONNTRACK: Extension = Extension {
    name: "conntrack",
    options: &["--ctstate"],
    parse: |options| parse(false, options),
    parse_listed: |words, negated| parse_listed("ctstate", false, words, negated),
};

pub(super) const STATE: Extension = Extension {
    name: "state",
    options: &["--state"],
    parse: |options| parse(true, options),
    parse_listed: |words, negated| parse_listed("state", true, words, negated),
};

fn parse(old_name: bool, options: &Options<'_>) -> Parsed {
    let Some(option) = options.iter().next() else { return Ok(None) };
    Ok(Some(Match::State { old_name, states: option.negatable("list of connection states", states)? }))
}

/// `RELATED,ESTABLISHED`.
fn states(text: &str) -> Option<States> {
    text.split(',').try_fold(States::default(), |all, word| {
        let (_, state) = States::NAMES.into_iter().find(|(name, _)| *name == word)?;
        Some(all.and(state))
    })
}

/// `ctstate RELATED,ESTABLISHED`.
fn parse_listed(name: &str, old_name: bool, words: &[&str], negated: bool) -> Listed {
    let [word, value, ..] = words else { return None };
    let value = states(value).filter(|_| *word == name)?;
    Some((Match::State { old_name, states: Negatable { negated, value } }, 2))
}

pub(super) fn print(old_name: bool, states: Negatable<States>, out: &mut Printer) {
    out.push(if old_name { " -m state" } else { " -m conntrack" });
    out.option(if old_name { " --state " } else { " --ctstate " }, states.negated);
    out.list(states.value.names(), "");
}

pub(super) fn explain(states: Negatable<States>) -> String {
    format!("{}in state {}", states.negation(), states.value.names().collect::<Vec<_>>().join(" or "))
}

/// Compiles options that are kept as text.
pub(super) fn compile(options: &[KeptOption<'_>], family: Family) -> Option<Condition> {
    let mut conntrack = Conntrack::default();
    for option in options {
        let text = option.argument()?;
        let negated = option.negated;
        if option.name == "--ctstate" {
            conntrack.state = Some(Negatable { negated, value: states(text)? });
            continue;
        }
        let value = match option.name {
            "--ctproto" => Part::Protocol(ProtocolNumber::parse(text)?.0),
            "--ctdir" => Part::Direction(match text {
                "ORIGINAL" => Direction::Original,
                "REPLY" => Direction::Reply,
                _ => return None,
            }),
            name => tuple_part(name, text, family)?,
        };
        conntrack.parts.push(Negatable { negated, value });
    }
    Some(Condition::Conntrack(Box::new(conntrack)))
}

/// `--ctorigsrc 10.0.0.0/8`, `--ctrepldstport 80:90`.
fn tuple_part(name: &str, text: &str, family: Family) -> Option<Part> {
    let (name, is_port) = name.strip_suffix("port").map_or((name, false), |name| (name, true));
    let (direction, source) = match name {
        "--ctorigsrc" => (Direction::Original, true),
        "--ctorigdst" => (Direction::Original, false),
        "--ctreplsrc" => (Direction::Reply, true),
        "--ctrepldst" => (Direction::Reply, false),
        _ => return None,
    };
    if is_port {
        return Some(Part::Port { direction, source, range: values::ports(text, ':')? });
    }
    let all = u128::MAX >> (128 - family.bits());
    let number = |text: &str| values::address_bits(text, family);
    let (value, mask) = match text.split_once('/') {
        None => (number(text)?, all),
        Some((address, mask)) => {
            let by_length = |length: u32| all.checked_shl(u32::from(family.bits()) - length).unwrap_or(0) & all;
            let length = mask.parse().ok().filter(|length| *length <= u32::from(family.bits()));
            (number(address)?, length.map(by_length).or_else(|| number(mask))?)
        }
    };
    Some(Part::Address { direction, source, value: value & mask, mask })
}

/// Returns the state bit of a packet in `xt_state` and `xt_conntrack`.
fn state(tracking: &Tracking) -> States {
    match tracking {
        Tracking::Invalid => States::INVALID,
        Tracking::Untracked => States::UNTRACKED,
        Tracking::Tracked(Tracked { state: State::New, .. }) => States::NEW,
        Tracking::Tracked(Tracked { state: State::Established, .. }) => States::ESTABLISHED,
        Tracking::Tracked(Tracked { state: State::Related, .. }) => States::RELATED,
    }
}

impl Negatable<States> {
    /// `--ctstate`: the state, and whether the connection is translated.
    pub(super) fn holds(self, tracking: &Tracking) -> bool {
        let mut is = state(tracking);
        if let Some(connection) = tracking.connection() {
            is = if connection.is_snat() { is.and(States::SNAT) } else { is };
            is = if connection.is_dnat() { is.and(States::DNAT) } else { is };
        }
        self.value.intersects(is) ^ self.negated
    }

    /// `--state`, which ignores translation.
    pub(super) fn holds_untranslated(self, tracking: &Tracking) -> bool {
        self.value.intersects(state(tracking)) ^ self.negated
    }
}

impl Conntrack {
    /// `conntrack_mt`: without a connection only the state is compared; without a state option, the match then fails.
    pub(super) fn holds<T: Trace>(&self, walker: &Walker<T>) -> Held {
        let tracking = walker.tracking();
        if self.state.is_some_and(|states| !states.holds(tracking)) {
            return Held::No;
        }
        let Tracking::Tracked(tracked) = tracking else { return self.state.is_some().into() };
        for part in &self.parts {
            match part.value.holds(walker, tracked).negated(part.negated) {
                Held::Yes => {}
                other => return other,
            }
        }
        Held::Yes
    }

    pub(super) fn edges(&self, edges: &mut Edges) {
        self.parts.iter().for_each(|part| part.value.edges(edges));
    }
}

impl Part {
    fn holds<T: Trace>(&self, walker: &Walker<T>, tracked: &Tracked) -> Held {
        let tuple = |direction: Direction| match direction {
            Direction::Original => &tracked.connection.original,
            Direction::Reply => &tracked.connection.reply,
        };
        // The packet field with the same value, as long as nothing is translated.
        let is_source = |direction: Direction, source: bool| (direction == tracked.direction) == source;
        match *self {
            Self::Direction(direction) => (tracked.direction == direction).into(),
            Self::Protocol(number) => {
                walker.is_protocol(&[number]);
                (tracked.connection.original.protocol == number).into()
            }
            Self::Address { direction, source, value, mask } => {
                let tuple = tuple(direction);
                let address = bits(if source { tuple.source } else { tuple.destination });
                let field = if is_source(direction, source) { Field::Source } else { Field::Destination };
                walker.is_masked(field, address, value, mask, walker.packet.family().bits())
            }
            Self::Port { direction, source, range } => {
                let tuple = tuple(direction);
                let port = if source { tuple.source_port } else { tuple.destination_port };
                // For ICMP echo, both are the identifier.
                let is_source = is_source(direction, source) || walker.ports().is_none();
                let field = if is_source { Field::SourcePort } else { Field::DestinationPort };
                walker.trace.asked(field, port.into(), || Intervals::between(range.first.into(), range.last.into()));
                range.contains(port).into()
            }
        }
    }

    /// Adds the edges for a connection's first packet.
    fn edges(&self, edges: &mut Edges) {
        let of_source = |direction: Direction, source: bool| (direction == Direction::Original) == source;
        match *self {
            Self::Direction(_) => {}
            Self::Protocol(number) => drop(edges.protocols.insert(number)),
            Self::Address { direction, source, value, mask } => {
                Edges::masked(edges.addresses(of_source(direction, source)), value, mask);
            }
            Self::Port { direction, source, range } => {
                Edges::ports(edges.ports_of(of_source(direction, source)), range.first, range.last);
            }
        }
    }
}
