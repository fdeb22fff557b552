//! A packet on its way, and how the way ends.

use std::net::SocketAddr;
use std::sync::Arc;

use svclab_rules::cluster::Protocol;
use svclab_rules::walk::{Assumptions, Connection, Packet, Share, Tracking, Transport, Tuple};

use super::prediction::{Cause, RulePlace, Stage};
use crate::scenario::RejectKind;
use crate::topology::SpaceId;

/// Linux' default time to live.
const TTL: u8 = 64;

/// A packet, and what is known of it where it is.
#[derive(Debug, Clone)]
pub(super) struct Leg {
    pub(super) share: Share,
    pub(super) packet: Packet,
    pub(super) tracking: Tracking,
    /// OUTPUT changed what routing looks at.
    pub(super) reroute: bool,
    /// The connections that namespaces have entered in their tables.
    pub(super) known: Vec<(SpaceId, Connection)>,
    pub(super) ttl: u8,
    /// The packet inside of this tunnel's packet.
    pub(super) carried: Option<Carried>,
    /// The packet that this ICMP error is about, as it is where the error is.
    pub(super) quoted: Option<Tuple>,
    pub(super) assumptions: Assumptions,
    pub(super) trail: Trail,
}

/// What a tunnel's packet carries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Carried {
    pub(super) packet: Packet,
    pub(super) ttl: u8,
    /// What it is about, where it is an ICMP error.
    pub(super) quoted: Option<Tuple>,
}

/// The hooks passed, last first; branches share what they have in common.
#[derive(Debug, Clone, Default)]
pub(super) struct Trail(Option<Arc<(Stage, Trail)>>);

impl Trail {
    /// The same with one more hook.
    pub(super) fn and(&self, stage: Stage) -> Self {
        Self(Some(Arc::new((stage, self.clone()))))
    }
}

impl Leg {
    pub(super) fn new(packet: Packet) -> Self {
        Self {
            share: Share::ONE,
            packet,
            tracking: Tracking::Untracked,
            reroute: false,
            known: Vec::new(),
            ttl: TTL,
            carried: None,
            quoted: None,
            assumptions: Assumptions::NONE,
            trail: Trail::default(),
        }
    }

    /// The hooks passed, in order.
    pub(super) fn stages(&self) -> Vec<Stage> {
        let mut stages = Vec::new();
        let mut rest = &self.trail;
        while let Trail(Some(last)) = rest {
            stages.push(last.0.clone());
            rest = &last.1;
        }
        stages.reverse();
        stages
    }

    /// An ICMP error about a packet.
    pub(super) fn about(self, quoted: Tuple) -> Self {
        Self { quoted: Some(quoted), ..self }
    }

    /// Starts on its own once more, as the packet of a tunnel does.
    pub(super) fn restart(&mut self, packet: Packet) {
        (self.packet, self.ttl) = (packet, TTL);
    }

    pub(super) fn protocol(&self) -> Option<Protocol> {
        match self.packet.transport {
            Transport::Tcp { .. } => Some(Protocol::Tcp),
            Transport::Udp { .. } => Some(Protocol::Udp),
            Transport::Sctp { .. } => Some(Protocol::Sctp),
            Transport::Icmp { .. } | Transport::Other(_) => None,
        }
    }

    pub(super) fn source(&self) -> SocketAddr {
        SocketAddr::new(self.packet.source, self.packet.tuple().source_port)
    }

    pub(super) fn destination(&self) -> SocketAddr {
        SocketAddr::new(self.packet.destination, self.packet.tuple().destination_port)
    }
}

/// A way's end.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) leg: Leg,
    pub(super) how: Ended,
}

/// How a way ends.
#[derive(Debug, Clone)]
pub(super) enum Ended {
    /// Somebody gets it: who, and in which namespace.
    Received(SpaceId, String),
    /// An answer is back at the sender.
    Returned,
    Rejected(SpaceId, RejectKind, Cause),
    Dropped(SpaceId, Cause),
    /// The kernel has no way for a process's packet.
    Unsent(SpaceId, Cause),
    Unknown(RulePlace, Arc<str>),
}

/// Where an answer belongs: the sender's namespace, and its packet as it was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Home {
    pub(super) space: SpaceId,
    pub(super) sent: Tuple,
}

impl Home {
    /// The address that the sender asked.
    pub(super) fn asked(&self) -> SocketAddr {
        SocketAddr::new(self.sent.destination, self.sent.destination_port)
    }
}
