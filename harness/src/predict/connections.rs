//! Connections known to machines: the conntrack table.

use std::collections::HashMap;
use std::net::SocketAddr;

use svclab_rules::cluster::Protocol;
use svclab_rules::walk::{Connection, Direction, State, Tracked, Tracking, Tuple};

use super::Network;
use super::packet_state::PacketState;
use super::prediction::{Prediction, Stage};
use super::traversal::Traversal;
use crate::scenario::ConntrackEntry;
use crate::topology::NetnsId;

/// The connections that conntrack tables contain before anything is sent, by both of their tuples.
#[derive(Debug, Clone, Default)]
pub(super) struct Restored(HashMap<(NetnsId, Tuple), (Connection, State)>);

impl Restored {
    /// How a packet with this tuple belongs to one of the connections, if it does.
    fn tracking(&self, netns: NetnsId, tuple: Tuple) -> Option<Tracking> {
        let (connection, state) = *self.0.get(&(netns, tuple))?;
        Some(if tuple == connection.original {
            Tracking::Tracked(Tracked { connection, direction: Direction::Original, state, attached: false })
        } else {
            Tracking::established(connection, Direction::Reply)
        })
    }
}

impl Network<'_> {
    /// The network with entries in its conntrack tables from the start. It can only predict flows with given ports, not sets of packets.
    pub(crate) fn with_connections(mut self, entries: &[ConntrackEntry]) -> Self {
        let mut all = HashMap::new();
        for entry in entries {
            let Some(netns) = self.topology.find(&format!("node/{}", entry.node)) else { continue };
            let tuple = |from: SocketAddr, to: SocketAddr| Tuple {
                protocol: entry.protocol.number(),
                source: from.ip(),
                source_port: from.port(),
                destination: to.ip(),
                destination_port: to.port(),
            };
            let connection = Connection {
                reply: tuple(entry.reply_from, entry.reply_to),
                destination_settled: true,
                source_settled: true,
                ..Connection::new(tuple(entry.from, entry.to))
            };
            let state = if entry.unreplied { State::New } else { State::Established };
            all.extend([connection.original, connection.reply].map(|own| ((netns, own), (connection, state))));
        }
        self.restored = Restored(all);
        self
    }

    /// Whether a flow to this address belongs to a connection that conntrack tables contain from the start, so that no rule chooses its
    /// endpoint.
    pub(crate) fn is_restored(&self, prediction: &Prediction, to: SocketAddr) -> bool {
        let leads = |stage: &Stage| {
            let original = self.restored_at(stage).map(|connection| connection.original);
            original.is_some_and(|one| SocketAddr::new(one.destination, one.destination_port) == to)
        };
        !self.restored.0.is_empty()
            && prediction.branches.iter().any(|branch| branch.stages.iter().any(|one| leads(one)))
    }

    /// The connection that conntrack tables contain from the start to which the packet belongs at a hook.
    pub(crate) fn restored_at(&self, stage: &Stage) -> Option<Connection> {
        let Tracking::Tracked(Tracked { connection, .. }) = stage.tracking else { return None };
        let (known, _) = self.restored.0.get(&(stage.netns, connection.original))?;
        (*known == connection).then_some(connection)
    }

    /// The network with empty conntrack tables; `None` if they are empty already.
    pub(crate) fn without_connections(&self) -> Option<Self> {
        (!self.restored.0.is_empty()).then(|| Self { restored: Restored::default(), ..self.clone() })
    }
}

impl Traversal<'_, '_> {
    /// Looks up an ICMP error in a machine's conntrack table: it belongs to the connection of the packet that it quotes, as that packet
    /// left the machine.
    fn look_up_error(&self, netns: NetnsId, state: &PacketState, quoted: Tuple) -> Tracking {
        let mut here = state.known.iter().filter(|(of, _)| *of == netns).map(|(_, connection)| *connection);
        here.find(|connection| connection.reply == quoted.reversed()).map_or(Tracking::Invalid, |connection| {
            let Tracking::Tracked(tracked) = Tracking::established(connection, Direction::Reply) else {
                return Tracking::Invalid;
            };
            Tracking::Tracked(Tracked { state: State::Related, ..tracked })
        })
    }

    /// Looks up a packet that arrives at a machine in its conntrack table.
    pub(super) fn look_up(&self, netns: NetnsId, state: &PacketState) -> Tracking {
        let tuple = state.packet.tuple();
        if let Some(quoted) = state.quoted {
            return self.look_up_error(netns, state, quoted);
        }
        if state.is_invalid {
            return Tracking::Invalid;
        }
        let mut here = state.known.iter().filter(|(of, _)| *of == netns).map(|(_, connection)| *connection);
        let found = here.find(|connection| tuple == connection.original || tuple == connection.reply);
        let restored = self.network.restored.tracking(netns, tuple);
        if let Some(tracking) = restored.filter(|_| found.is_none() && self.narrowing.is_none()) {
            return tracking;
        }
        match found {
            Some(connection) if tuple == connection.original && !self.is_answer && !state.is_replied => {
                let direction = Direction::Original;
                Tracking::Tracked(Tracked { connection, direction, state: State::New, attached: false })
            }
            Some(connection) if tuple == connection.original => Tracking::established(connection, Direction::Original),
            Some(connection) => Tracking::established(connection, Direction::Reply),
            // A SYN-ACK or an INIT ACK opens no connection.
            None if self.is_answer && state.carried.is_none() && state.protocol(self.set()) != Some(Protocol::Udp) => {
                Tracking::Invalid
            }
            None => Tracking::unknown(&state.packet, self.set()),
        }
    }
}
