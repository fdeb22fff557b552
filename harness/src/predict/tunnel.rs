//! VXLAN: a packet inside of another one.

use std::net::IpAddr;
use std::sync::Arc;

use svclab_rules::walk::{Packet, Transport};

use super::packet_state::{Carried, Extent, PacketState};
use super::prediction::Cause;
use super::traversal::Traversal;
use crate::topology::{InterfaceKind, NetnsId};
use crate::wire::{Mac, VXLAN_PORT};

/// The lowest source port of a tunnel's packet; which one it is depends on a hash.
const FIRST_PORT: u16 = 32_768;
/// How many tunnels may be in one another before the kernel loses a packet (`XMIT_RECURSION_LIMIT`).
const DEEPEST: usize = 8;

impl Traversal<'_, '_> {
    /// A packet leaves by a tunnel: the packet around it is sent as a process's is, and bears the same mark.
    pub(super) fn enter_tunnel(
        &mut self,
        netns: NetnsId,
        device: u32,
        local: IpAddr,
        mac: Mac,
        mut state: PacketState,
    ) {
        let mut entries = self.machine(netns).netns.fdb();
        let found = entries.find(|entry| entry.interface == device && entry.mac == mac);
        let Some(remote) = found.and_then(|entry| entry.remote) else {
            return self.lose(netns, state, Cause::NoNeighbour);
        };
        let inside = state.carried.take();
        if inside.as_ref().is_some_and(|inside| inside.depth() == DEEPEST) {
            // The packet around it leads into a tunnel again and again, until the kernel has enough.
            return self.lose(netns, state, Cause::TooManyHops);
        }
        let transport = Transport::Udp { source: FIRST_PORT, destination: VXLAN_PORT };
        let outer = Packet { mark: state.packet.mark, ..Packet::new(local, remote, transport) };
        // The packet around it is not a reply, whatever it carries.
        state.carried = Some(Arc::new(Carried {
            packet: state.packet,
            ttl: state.ttl,
            extent: state.extent,
            quoted: state.quoted.take(),
            inside,
        }));
        let overhead = self.machine(netns).netns.interface(device).map_or(0, |device| device.kind.overhead());
        // The packet around it may be split, and each fragment of it has one of its own.
        let around = state.extent.largest.saturating_add(overhead);
        state.extent = Extent { size: around, largest: around, may_fragment: true };
        state.restart(outer);
        self.send_from_process(netns, state);
    }

    /// A tunnel's packet has come to its other end.
    pub(super) fn leave_tunnel(&mut self, netns: NetnsId, mut state: PacketState) {
        if state.destination().port() != VXLAN_PORT {
            // Rules gave it another port.
            return self.lose(netns, state, Cause::NoListener);
        }
        let mut interfaces = self.machine(netns).netns.interfaces.iter();
        let device = interfaces.find(|interface| matches!(interface.kind, InterfaceKind::Vxlan { .. }));
        match (device.map(|device| device.index), state.carried.take()) {
            (Some(device), Some(carried)) => {
                let Carried { packet, ttl, extent, quoted, inside } = Arc::unwrap_or_clone(carried);
                // The packet keeps the mark of the one around it (`skb_scrub_packet`, which only another namespace makes forget it).
                state.packet = Packet { mark: state.packet.mark, ..packet };
                (state.ttl, state.extent, state.quoted, state.carried) = (ttl, extent, quoted, inside);
                self.come_in(netns, device, None, state);
            }
            _ => self.lose(netns, state, Cause::NoListener),
        }
    }
}
