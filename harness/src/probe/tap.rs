//! Eyes: what passes the interfaces of a namespace that forwards packets.

use std::time::Duration;

use crate::lab::{Channel, Lab, LabError};
use crate::observation::{Capture, Direction};
use crate::topology::{InterfaceKind, Role, SpaceId, Topology};
use crate::wire::{Frame, Packet};

/// A packet socket on all interfaces of a namespace.
pub(super) struct Tap {
    pub(super) space: SpaceId,
    pub(super) channel: Channel,
}

/// A packet at an interface.
pub(super) struct Passing<'lab> {
    /// The namespace's name.
    pub place: &'lab str,
    /// The interface's name.
    pub interface: &'lab str,
    /// In or out.
    pub direction: Direction,
    /// When, since 1970.
    pub time: Duration,
    /// The packet.
    pub packet: Packet,
    /// The frame that it came in.
    pub frame: Vec<u8>,
    /// The pod or host that gets it now, and that it is for.
    pub receiver: Option<SpaceId>,
}

impl Passing<'_> {
    /// As a file keeps it.
    pub(super) fn capture(&self) -> Capture {
        Capture {
            place: self.place.to_owned(),
            interface: self.interface.to_owned(),
            direction: self.direction,
            time: self.time,
            frame: self.frame.clone(),
        }
    }
}

impl Tap {
    /// Opens a tap in a namespace.
    pub(super) fn open(lab: &Lab, space: SpaceId) -> Result<Self, LabError> {
        Ok(Self { space, channel: lab.channel(space, 0)? })
    }

    /// The next packet that passed; other frames are skipped.
    pub(super) fn next<'lab>(&self, topology: &'lab Topology) -> Result<Option<Passing<'lab>>, LabError> {
        let mut buffer = [0; 2048];
        while let Some(seen) = self.channel.receive(&mut buffer)? {
            let space = &topology.spaces[self.space];
            // The loopback is heard by the ears; markers pass there.
            let Some(interface) = space.interface(seen.interface) else { continue };
            // What passes a bridge passes its ports as well.
            if interface.kind == InterfaceKind::Bridge {
                continue;
            }
            let bytes = &buffer[..seen.length.min(buffer.len())];
            let Ok(frame) = Frame::decode(bytes) else { continue };
            let receiver =
                if seen.outgoing { receiver(topology, self.space, interface.index, &frame.packet) } else { None };
            return Ok(Some(Passing {
                place: &space.name,
                interface: &interface.name,
                direction: if seen.outgoing { Direction::Out } else { Direction::In },
                time: seen.time,
                packet: frame.packet,
                frame: bytes.to_vec(),
                receiver,
            }));
        }
        Ok(None)
    }
}

/// Who gets a packet that leaves by an interface, where that is the pod or host that it is for.
fn receiver(topology: &Topology, space: SpaceId, interface: u32, packet: &Packet) -> Option<SpaceId> {
    let behind = topology.behind(space, interface)?;
    let at_wire = matches!(topology.spaces[behind].role, Role::Pod | Role::Host);
    (at_wire && topology.spaces[behind].addresses_on_wire.contains(&packet.destination)).then_some(behind)
}
