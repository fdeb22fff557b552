//! Classes that change alike, each group with one example.

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

/// A class of packets of which something else becomes.
pub(super) struct Differing<'x> {
    pub(super) senders: &'x Senders,
    pub(super) from: &'x Vantage,
    pub(super) region: &'x Region,
    pub(super) witness: Packet,
    pub(super) found: &'x [Option<Prediction>; 2],
    /// The outcome of it on each side.
    pub(super) contrast: Contrast,
    /// What differs, if it is not the outcome of the first packet.
    pub(super) about: Option<Target>,
}

/// What the classes of a group have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) target: Target,
    pub(super) family: Family,
    /// The kind of vantage point that sends.
    pub(super) from: VantageKind,
    /// Only rules for packets in the state INVALID distinguish the sides.
    pub(super) is_invalid: bool,
    /// A packet with a loopback address leaves its node.
    pub(super) leaves_loopback: bool,
    pub(super) traits: Arc<BTreeSet<Trait>>,
    pub(super) contrast: Contrast,
}

/// Classes that change alike.
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
    /// Who sends it.
    pub from: Vantage,
    /// The node that an outside host hands it to.
    pub via: Option<String>,
    /// The service that it is sent to.
    pub service: Option<Arc<str>>,
    /// The packet.
    pub packet: Packet,
    /// All packets of its class, in words.
    pub class: String,
    /// What became of it, each outcome with its share.
    pub was: Vec<String>,
    /// The outcome of it.
    pub is: Vec<String>,
    /// The rule of each side that decides about it.
    pub rules: [Option<String>; 2],
    /// How easy it is to follow, and to send in a lab: the least is the best.
    pub(super) rank: Rank,
}

/// How easy an example is to follow and to send in a lab; the least is the best, and what comes first weighs most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// It has no ports, goes to port 0, or is a segment of no connection that a process would have to send.
    is_odd: bool,
    /// No machine has its source.
    is_outside: bool,
    /// A lab would not choose its source port.
    has_other_port: bool,
    /// It opens no connection.
    is_segment: bool,
    is_not_tcp: bool,
    /// An outside host hands it to a node.
    is_handed_over: bool,
}

/// SYN; SYN-ACK, as it comes where routes are asymmetric; RST; FIN with ACK.
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
    /// One of its packets: of segments that open no connection, one of those that people know.
    fn packet(&self) -> Packet {
        let Transport::Tcp { source, destination, .. } = self.witness.transport else { return self.witness };
        let flags = KNOWN_FLAGS.into_iter().find(|flags| self.region[Field::Flags].contains((*flags).into()));
        let transport = flags.map(|flags| Transport::Tcp { source, destination, flags });
        Packet { transport: transport.unwrap_or(self.witness.transport), ..self.witness }
    }

    /// Whether a rule for packets in the state INVALID decides on one side.
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
    /// The outcome of its packet, or of one like it, by other rules. `None` where its sender has no address for it.
    pub(super) fn predict(&self, network: &Network<'_>, packet: Packet) -> Option<Prediction> {
        let senders = Senders::of(network, std::slice::from_ref(&self.from));
        let own = senders.iter().find(|one| one.via == self.via && one.family == packet.family())?;
        network.predict_set(own, &packet, None, None).map(|(_, prediction)| prediction)
    }

    /// Where the packet is sent, as `svclab explain --to` takes it.
    pub(crate) fn to(&self) -> String {
        let address = self.packet.destination;
        let to = match self.packet.transport.ports() {
            Some((_, port)) => SocketAddr::new(address, port).to_string(),
            None => address.to_string(),
        };
        self.via.as_ref().map_or(to.clone(), |node| format!("{to}@{node}"))
    }

    /// The protocol.
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

    /// The flags of a TCP segment that opens no connection.
    pub(crate) fn segment(&self) -> Option<TcpFlags> {
        match self.packet.transport {
            Transport::Tcp { flags, .. } if flags != Transport::SYN => Some(TcpFlags(flags)),
            _ => None,
        }
    }

    /// Who sends it, where, and by which protocol.
    pub(crate) fn words(&self) -> String {
        let segment = self.segment().map(|flags| format!(" [{flags}]")).unwrap_or_default();
        format!("{} > {} {}{segment}", self.from, self.to(), self.protocol())
    }

    /// How a lab can send it: the protocol, and the flags of a segment that opens no connection.
    ///
    /// # Errors
    ///
    /// Why a lab cannot.
    pub(super) fn sendable(&self) -> Result<(Protocol, Option<TcpFlags>), &'static str> {
        let Rank { is_odd, is_outside, has_other_port, is_segment, .. } = self.rank;
        match Protocol::from_number(self.packet.transport.protocol()) {
            None => Err("labs send TCP, UDP and SCTP alone"),
            Some(_) if is_odd && is_segment => Err("processes send only segments that open a connection"),
            Some(_) if is_odd => Err("labs send nothing to port 0"),
            Some(_) if is_outside => Err("no machine of the lab has its source"),
            Some(_) if has_other_port => Err("labs choose other source ports"),
            Some(protocol) => Ok((protocol, self.segment())),
        }
    }

    /// The packet from another source port.
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

/// The rule that decides the first outcome.
fn deciding(network: &Network<'_>, prediction: &Prediction) -> Option<String> {
    network.deciding(&prediction.branches.first()?.stages).map(|place| place.to_string())
}
