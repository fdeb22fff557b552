//! Taps, which capture packets at the interfaces of a namespace that forwards.

use std::net::IpAddr;
use std::time::Duration;

use super::batch::{BATCH, SNAP, receive_many};
use super::drain::MAX_PACKETS;
use super::receivers::Outlets;
use crate::lab::{Channel, Lab, LabError, filter};
use crate::observation::{Capture, Direction};
use crate::topology::{InterfaceKind, NetnsId, Topology};
use crate::wire::{Frame, Packet};

/// A packet socket on all interfaces of a namespace.
pub(super) struct Tap {
    pub(super) netns: NetnsId,
    pub(super) channel: Channel,
    pub(super) outlets: Outlets,
}

/// A packet at an interface.
pub(super) struct Passing<'a> {
    /// The namespace's name.
    pub place: &'a str,
    /// The interface's name.
    pub interface: &'a str,
    /// In or out.
    pub direction: Direction,
    /// When, since 1970.
    pub time: Duration,
    /// The packet.
    pub packet: Packet,
    /// The frame that contained it.
    pub frame: &'a [u8],
    /// The pod or host to which it is delivered here.
    pub receiver: Option<NetnsId>,
}

impl Passing<'_> {
    /// The frame as a capture file has it.
    pub(super) fn capture(&self) -> Capture {
        Capture {
            comment: None,
            place: self.place.to_owned(),
            interface: self.interface.to_owned(),
            direction: self.direction,
            time: self.time,
            frame: self.frame.to_vec(),
        }
    }
}

/// Whether a packet is link-local multicast (RFC 4291, section 2.7.1), such as neighbour discovery and group reports. Kernels send it on
/// their own, and it cannot reach a Service.
fn is_on_link(destination: IpAddr) -> bool {
    const SCOPE: u16 = 0x000f;
    const LINK_LOCAL: u16 = 2;
    matches!(destination, IpAddr::V6(group) if group.is_multicast() && group.segments()[0] & SCOPE == LINK_LOCAL)
}

impl Tap {
    /// Opens a tap in a namespace.
    pub(super) fn open(lab: &Lab, netns: NetnsId) -> Result<Self, LabError> {
        Ok(Self { netns, channel: lab.channel(netns, 0)?, outlets: Outlets::of(lab.topology(), netns) })
    }

    /// Limits the tap to packets that leave toward a pod or an outside host and, if a CPU is given, to those that this CPU processes.
    pub(super) fn count_only(&self, cpu: Option<usize>) -> Result<(), LabError> {
        match self.outlets.first() {
            Some(first) => filter::attach(&self.channel, &filter::outgoing_from(first, cpu, SNAP)),
            None => filter::attach(&self.channel, &filter::nothing()),
        }
    }

    /// Passes the first bytes of every available frame to a function, with the interface that it left through. Returns the number of
    /// frames.
    pub(super) fn read_many(&self, mut each: impl FnMut(&[u8], u32)) -> Result<usize, LabError> {
        let mut packets = 0;
        // If packets loop, there is always one more.
        while packets <= MAX_PACKETS {
            let received = receive_many(self.channel.fd(), &mut each);
            let received = received.map_err(|source| self.channel.error("receiving many frames", source))?;
            packets += received;
            if received < BATCH {
                break;
            }
        }
        Ok(packets)
    }

    /// Returns the next packet that passed; other frames are skipped. The frame is written to the buffer, and truncated if it does not fit.
    pub(super) fn next<'a>(
        &self,
        topology: &'a Topology,
        buffer: &'a mut [u8],
    ) -> Result<Option<Passing<'a>>, LabError> {
        // If packets loop, there is always one more.
        for _ in 0..MAX_PACKETS {
            let Some(seen) = self.channel.receive(buffer)? else { break };
            let netns = &topology.namespaces[self.netns];
            // The raw listeners capture the loopback; barrier frames pass there.
            let Some(interface) = netns.interface(seen.interface) else { continue };
            // Packets that pass a bridge also pass its ports.
            if interface.kind == InterfaceKind::Bridge {
                continue;
            }
            let length = seen.length.min(buffer.len());
            let Ok(Frame { packet, .. }) = Frame::decode(&buffer[..length]) else { continue };
            if is_on_link(packet.destination) {
                continue;
            }
            let outgoing = seen.outgoing.then(|| self.outlets.receiver(interface.index, packet.destination));
            return Ok(Some(Passing {
                place: &netns.name,
                interface: &interface.name,
                direction: if seen.outgoing { Direction::Out } else { Direction::In },
                time: seen.time,
                packet,
                frame: &buffer[..length],
                receiver: outgoing.flatten(),
            }));
        }
        Ok(None)
    }
}
