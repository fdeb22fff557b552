//! VXLAN: a packet encapsulated in another one.

use std::net::IpAddr;
use std::sync::Arc;

use svclab_rules::walk::{Packet, Transport};

use super::packet_state::{Carried, Extent, PacketState};
use super::prediction::Cause;
use super::traversal::Traversal;
use crate::topology::{InterfaceKind, NetnsId};
use crate::wire::{Mac, VXLAN_PORT};

/// The lowest source port of a tunnel packet; the actual port depends on a hash.
const FIRST_PORT: u16 = 32_768;
/// The number of nested tunnels before the kernel drops a packet (`XMIT_RECURSION_LIMIT`).
const DEEPEST: usize = 8;

impl Traversal<'_, '_> {
    /// Encapsulates a packet: the outer packet is sent like a process's packet, with the same mark.
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
            // The outer packet is encapsulated again and again, until the kernel's recursion limit.
            return self.lose(netns, state, Cause::TooManyHops);
        }
        let transport = Transport::Udp { source: FIRST_PORT, destination: VXLAN_PORT };
        let outer = Packet { mark: state.packet.mark, ..Packet::new(local, remote, transport) };
        // The outer packet is not a reply, whatever it carries.
        state.carried = Some(Arc::new(Carried {
            packet: state.packet,
            ttl: state.ttl,
            extent: state.extent,
            quoted: state.quoted.take(),
            inside,
        }));
        let overhead = self.machine(netns).netns.interface(device).map_or(0, |device| device.kind.overhead());
        // The outer packet may be fragmented, and each fragment of the inner packet gets an outer packet of its own.
        let around = state.extent.largest.saturating_add(overhead);
        state.extent = Extent { size: around, largest: around, may_fragment: true };
        state.restart(outer);
        self.send_from_process(netns, state);
    }

    /// Decapsulates a tunnel packet at its other end.
    pub(super) fn leave_tunnel(&mut self, netns: NetnsId, mut state: PacketState) {
        if state.destination().port() != VXLAN_PORT {
            // Rules have changed its port.
            return self.lose(netns, state, Cause::NoListener);
        }
        let mut interfaces = self.machine(netns).netns.interfaces.iter();
        let device = interfaces.find(|interface| matches!(interface.kind, InterfaceKind::Vxlan { .. }));
        match (device.map(|device| device.index), state.carried.take()) {
            (Some(device), Some(carried)) => {
                let Carried { packet, ttl, extent, quoted, inside } = Arc::unwrap_or_clone(carried);
                // The inner packet keeps the mark of the outer one (`skb_scrub_packet` clears it only between namespaces).
                state.packet = Packet { mark: state.packet.mark, ..packet };
                (state.ttl, state.extent, state.quoted, state.carried) = (ttl, extent, quoted, inside);
                self.come_in(netns, device, None, state);
            }
            _ => self.lose(netns, state, Cause::NoListener),
        }
    }
}
