//! VXLAN: a packet inside of another one.

use std::net::IpAddr;
use std::sync::Arc;

use svclab_rules::walk::{Packet, Transport};

use super::packet_state::{Carried, PacketState};
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
    pub(super) fn enter_tunnel(&mut self, netns: NetnsId, device: u32, local: IpAddr, mac: Mac, mut leg: PacketState) {
        let mut entries = self.machine(netns).netns.fdb.iter();
        let found = entries.find(|entry| entry.interface == device && entry.mac == mac);
        let Some(remote) = found.and_then(|entry| entry.remote) else {
            return self.lose(netns, leg, Cause::NoNeighbour);
        };
        let inside = leg.carried.take();
        if inside.as_ref().is_some_and(|inside| inside.depth() == DEEPEST) {
            // The packet around it leads into a tunnel again and again, until the kernel has enough.
            return self.lose(netns, leg, Cause::TooManyHops);
        }
        let transport = Transport::Udp { source: FIRST_PORT, destination: VXLAN_PORT };
        let outer = Packet { mark: leg.packet.mark, ..Packet::new(local, remote, transport) };
        // The packet around it is nobody's answer, whatever it carries.
        leg.carried = Some(Arc::new(Carried { packet: leg.packet, ttl: leg.ttl, quoted: leg.quoted.take(), inside }));
        leg.restart(outer);
        self.send_from_process(netns, leg);
    }

    /// A tunnel's packet has come to its other end.
    pub(super) fn leave_tunnel(&mut self, netns: NetnsId, mut leg: PacketState) {
        if leg.destination().port() != VXLAN_PORT {
            // Rules gave it another port.
            return self.lose(netns, leg, Cause::NoListener);
        }
        let mut interfaces = self.machine(netns).netns.interfaces.iter();
        let device = interfaces.find(|interface| matches!(interface.kind, InterfaceKind::Vxlan { .. }));
        match (device.map(|device| device.index), leg.carried.take()) {
            (Some(device), Some(carried)) => {
                let Carried { packet, ttl, quoted, inside } = Arc::unwrap_or_clone(carried);
                // The packet keeps the mark of the one around it (`skb_scrub_packet`, which only another namespace makes forget it).
                leg.packet = Packet { mark: leg.packet.mark, ..packet };
                (leg.ttl, leg.quoted, leg.carried) = (ttl, quoted, inside);
                self.come_in(netns, device, None, leg);
            }
            _ => self.lose(netns, leg, Cause::NoListener),
        }
    }
}
