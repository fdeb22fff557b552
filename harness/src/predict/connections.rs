//! What machines know of connections: conntrack's table.

use svclab_rules::cluster::Protocol;
use svclab_rules::walk::{Direction, State, Tracked, Tracking, Tuple};

use super::packet_state::PacketState;
use super::traversal::Traversal;
use crate::topology::NetnsId;

impl Traversal<'_, '_> {
    /// What a machine's connection table has for an ICMP error: the connection of the packet that the error is about, as that left the machine.
    fn look_up_error(&self, netns: NetnsId, state: &PacketState, quoted: Tuple) -> Tracking {
        let mut here = state.known.iter().filter(|(of, _)| *of == netns).map(|(_, connection)| *connection);
        here.find(|connection| connection.reply == quoted.reversed()).map_or(Tracking::Invalid, |connection| {
            let Tracking::Tracked(tracked) = Tracking::established(connection, Direction::Reply) else {
                return Tracking::Invalid;
            };
            Tracking::Tracked(Tracked { state: State::Related, ..tracked })
        })
    }

    /// What a machine's connection table has for a packet that comes to it.
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
        match found {
            Some(connection) if tuple == connection.original && !self.is_answer && !state.is_later => {
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
