//! Groups of classes that change in the same way, each with one example.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use svclab_rules::cluster::{Family, Protocol};
use svclab_rules::walk::{Field, Packet, Region, Transport};

use super::fate::Contrast;
use super::outcome::words;
use super::target::{Target, Targets};
use super::traits::Trait;
use crate::predict::{Network, Prediction, Senders};
use crate::probe::FIRST_PORT;
use crate::scenario::{Vantage, VantageKind};
use crate::wire::TcpFlags;

/// A class of packets whose outcome changes.
pub(super) struct Differing<'x> {
    pub(super) senders: &'x Senders,
    pub(super) from: &'x Vantage,
    pub(super) region: &'x Region,
    pub(super) witness: Packet,
    pub(super) found: &'x [Option<Prediction>; 2],
    /// Its outcome on each side.
    pub(super) contrast: Contrast,
    /// What differs, if the outcome of the first packet is the same.
    pub(super) about: Option<Target>,
}

/// The properties that the classes of a group have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) target: Target,
    pub(super) family: Family,
    /// The kind of vantage point that sends the packets.
    pub(super) from: VantageKind,
    /// Whether the sides differ only in rules for packets in the state INVALID.
    pub(super) is_invalid: bool,
    /// Whether a packet with a loopback address leaves its node.
    pub(super) leaves_loopback: bool,
    pub(super) traits: Arc<BTreeSet<Trait>>,
    pub(super) contrast: Contrast,
}

/// Classes that change in the same way.
pub(super) struct Group {
    pub(super) services: BTreeSet<Arc<str>>,
    pub(super) origins: BTreeSet<Vantage>,
    pub(super) classes: usize,
    pub(super) example: Example,
}

/// All groups of a comparison.
#[derive(Default)]
pub(super) struct Groups {
    pub(super) all: BTreeMap<Key, Group>,
}

/// One of the packets of a change.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The sender.
    pub from: Vantage,
    /// The node that an outside host routes it through.
    pub via: Option<String>,
    /// The service that it is sent to.
    pub service: Option<Arc<str>>,
    /// The packet.
    pub packet: Packet,
    /// All packets of its class, as text.
    pub class: String,
    /// The outcomes before, each with its share.
    pub was: Vec<String>,
    /// The outcomes after.
    pub is: Vec<String>,
    /// The rule that decides its outcome on each side.
    pub rules: [Option<String>; 2],
    /// How easy it is to understand, and to send in a lab; lower is better.
    pub(super) rank: Rank,
}

/// How easy an example is to understand and to send in a lab. Lower is better; earlier fields weigh more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// Whether it has no ports, is sent to port 0, or is a segment outside of any connection that a process would have to send.
    is_odd: bool,
    /// Whether no machine has its source address.
    is_outside: bool,
    /// Whether a lab would not choose its source port.
    has_other_port: bool,
    /// Whether it opens no connection.
    is_segment: bool,
    is_not_tcp: bool,
    /// Whether an outside host routes it through a node.
    is_handed_over: bool,
}

/// SYN; SYN-ACK, as seen with asymmetric routes; RST; FIN with ACK.
const KNOWN_FLAGS: [u8; 4] = [Transport::SYN, 0x12, 0x04, 0x11];

impl Groups {
    /// Adds a class to its group.
    pub(super) fn add(&mut self, one: &Differing<'_>, networks: [&Network<'_>; 2], targets: &Targets) {
        let (target, claim) = targets.find(&one.witness);
        let key = Key {
            target: one.about.unwrap_or(target),
            family: one.witness.family(),
            from: one.from.kind(),
            is_invalid: one.about.is_none() && one.depends_on_invalid(networks),
            leaves_loopback: matches!(one.from, Vantage::Localhost(_)) && !one.witness.destination.is_loopback(),
            traits: claim.map(|claim| Arc::clone(&claim.traits)).unwrap_or_default(),
            contrast: one.contrast.clone(),
        };
        let rank = one.rank();
        let example = || Example {
            from: one.from.clone(),
            via: one.senders.via.clone(),
            service: claim.map(|claim| Arc::clone(&claim.service)),
            packet: one.packet(),
            class: one.region.to_string(),
            was: words(one.found[0].as_ref()),
            is: words(one.found[1].as_ref()),
            rules: [0, 1].map(|at| deciding(networks[at], one.found[at].as_ref()?)),
            rank,
        };
        let group = self.all.entry(key).or_insert_with(|| Group {
            services: BTreeSet::new(),
            origins: BTreeSet::new(),
            classes: 0,
            example: example(),
        });
        group.services.extend(claim.map(|claim| Arc::clone(&claim.service)));
        group.origins.insert(one.from.clone());
        group.classes += 1;
        if rank < group.example.rank {
            group.example = example();
        }
    }

    /// Adds the groups of other senders.
    pub(super) fn merge(&mut self, others: Self) {
        for (key, other) in others.all {
            match self.all.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(other);
                }
                Entry::Occupied(mut entry) => entry.get_mut().merge(other),
            }
        }
    }
}

impl Group {
    fn merge(&mut self, other: Self) {
        self.services.extend(other.services);
        self.origins.extend(other.origins);
        self.classes += other.classes;
        if other.example.rank < self.example.rank {
            self.example = other.example;
        }
    }
}

impl Differing<'_> {
    /// Returns one of its packets: for segments that open no connection, one with well-known flags.
    fn packet(&self) -> Packet {
        let Transport::Tcp { source, destination, .. } = self.witness.transport else { return self.witness };
        let flags = KNOWN_FLAGS.into_iter().find(|flags| self.region[Field::Flags].contains((*flags).into()));
        let transport = flags.map(|flags| Transport::Tcp { source, destination, flags });
        Packet { transport: transport.unwrap_or(self.witness.transport), ..self.witness }
    }

    /// Returns whether a rule for packets in the state INVALID decides the outcome on one side.
    fn depends_on_invalid(&self, networks: [&Network<'_>; 2]) -> bool {
        let mut sides = self.found.iter().zip(networks);
        sides.any(|(found, network)| {
            found.iter().flat_map(|one| &one.branches).any(|branch| network.is_ended_as_invalid(branch))
        })
    }

    fn rank(&self) -> Rank {
        let ports = self.witness.transport.ports();
        let opens =
            matches!(self.witness.transport, Transport::Tcp { flags: Transport::SYN, .. } | Transport::Udp { .. });
        let is_odd = ports.is_none_or(|(_, to)| to == 0) || !opens && !self.senders.have_sources();
        Rank {
            is_odd,
            is_outside: !self.senders.has(&self.witness),
            has_other_port: ports.map_or(0, |(from, _)| from) < FIRST_PORT,
            is_segment: !opens,
            is_not_tcp: !matches!(self.witness.transport, Transport::Tcp { .. }),
            is_handed_over: self.senders.via.is_some(),
        }
    }
}

impl Example {
    /// Predicts its packet, or one like it, under other rules. Returns `None` if its sender has no address for it.
    pub(super) fn predict(&self, network: &Network<'_>, packet: Packet) -> Option<Prediction> {
        let senders = Senders::of(network, std::slice::from_ref(&self.from));
        let own = senders.iter().find(|one| one.via == self.via && one.family == packet.family())?;
        network.predict_set(own, &packet, None, None).map(|(_, prediction)| prediction)
    }

    /// Returns the packet's destination in the format of `svclab explain --to`.
    pub(crate) fn to(&self) -> String {
        let address = self.packet.destination;
        let to = match self.packet.transport.ports() {
            Some((_, port)) => SocketAddr::new(address, port).to_string(),
            None => address.to_string(),
        };
        self.via.as_ref().map_or(to.clone(), |node| format!("{to}@{node}"))
    }

    /// Returns the protocol.
    pub(crate) fn protocol(&self) -> String {
        match self.packet.transport {
            Transport::Tcp { .. } => "tcp".to_owned(),
            Transport::Udp { .. } => "udp".to_owned(),
            Transport::Sctp { .. } => "sctp".to_owned(),
            Transport::Icmp { v6: false, .. } => "icmp".to_owned(),
            Transport::Icmp { v6: true, .. } => "icmpv6".to_owned(),
            Transport::Other(number) => format!("protocol {number}"),
        }
    }

    /// Returns the flags of a TCP segment that opens no connection.
    pub(crate) fn segment(&self) -> Option<TcpFlags> {
        match self.packet.transport {
            Transport::Tcp { flags, .. } if flags != Transport::SYN => Some(TcpFlags(flags)),
            _ => None,
        }
    }

    /// Returns its sender, destination and protocol as text.
    pub(crate) fn words(&self) -> String {
        let segment = self.segment().map(|flags| format!(" [{flags}]")).unwrap_or_default();
        format!("{} > {} {}{segment}", self.from, self.to(), self.protocol())
    }

    /// Returns how a lab can send it: the protocol, and the flags of a segment that opens no connection.
    ///
    /// # Errors
    ///
    /// The reason why a lab cannot send it.
    pub(super) fn sendable(&self) -> Result<(Protocol, Option<TcpFlags>), &'static str> {
        let Rank { is_odd, is_outside, has_other_port, is_segment, .. } = self.rank;
        match Protocol::from_number(self.packet.transport.protocol()) {
            None => Err("labs send only TCP, UDP and SCTP"),
            Some(_) if is_odd && is_segment => Err("processes send only segments that open a connection"),
            Some(_) if is_odd => Err("labs do not send packets to port 0"),
            Some(_) if is_outside => Err("no machine in the lab has its source address"),
            Some(_) if has_other_port => Err("a lab chooses other source ports"),
            Some(protocol) => Ok((protocol, self.segment())),
        }
    }

    /// Returns the packet with another source port.
    pub(super) fn packet_from(&self, port: u16) -> Packet {
        let transport = match self.packet.transport {
            Transport::Tcp { destination, flags, .. } => Transport::Tcp { source: port, destination, flags },
            Transport::Udp { destination, .. } => Transport::Udp { source: port, destination },
            Transport::Sctp { destination, .. } => Transport::Sctp { source: port, destination },
            other => other,
        };
        Packet { transport, ..self.packet }
    }
}

/// Returns the rule that decides the first outcome.
fn deciding(network: &Network<'_>, prediction: &Prediction) -> Option<String> {
    network.deciding(&prediction.branches.first()?.stages).map(|place| place.to_string())
}
