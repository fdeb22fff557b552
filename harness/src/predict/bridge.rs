//! Nodes' bridges, and how `br_netfilter` treats them (`br_netfilter_hooks.c`).

use svclab_rules::walk::{BridgePorts, Hook, Packet};

use super::packet_state::PacketState;
use super::prediction::Cause;
use super::route_table::Out;
use super::routing::Way;
use super::traversal::Traversal;
use crate::topology::{InterfaceKind, NetnsId};
use crate::wire::Mac;

impl Traversal<'_, '_> {
    /// A frame comes to a port of a bridge.
    pub(super) fn enter_bridge(&mut self, netns: NetnsId, bridge: u32, port: u32, mac: Mac, state: PacketState) {
        let is_own = self.network.by_mac.get(&mac) == Some(&(netns, bridge));
        if !self.machine(netns).bridges_call(state.packet.destination.is_ipv4()) {
            return match self.port_toward(netns, bridge, mac) {
                _ if is_own => self.come_in(netns, bridge, None, state),
                Some(to) => match self.refusal(netns, port, to) {
                    None => self.over_link(netns, to, mac, state),
                    Some(cause) => self.lose(netns, state, cause),
                },
                None => self.lose(netns, state, Cause::NoNeighbour),
            };
        }
        let ports = BridgePorts { input: self.machine(netns).interface(port), ..BridgePorts::default() };
        let before = state.packet.destination;
        for state in self.before_routing(netns, bridge, Some(ports), state) {
            if state.packet.destination == before && !is_own {
                self.across(netns, bridge, port, mac, state);
            } else if state.packet.destination == before {
                self.route(netns, bridge, state);
            } else {
                self.after_translation(netns, bridge, port, state);
            }
        }
    }

    /// A packet whose new destination is on the bridge is not routed: it goes across (`br_nf_pre_routing_finish`), in IPv6 also where
    /// the machine does not forward.
    fn after_translation(&mut self, netns: NetnsId, bridge: u32, port: u32, state: PacketState) {
        let machine = self.machine(netns);
        match machine.way_in(bridge, state.packet.source, state.packet.destination, self.set()) {
            Ok(Way::Forward(out)) if out.interface == bridge => {
                match machine.neighbours().find(out.interface, out.next_hop, state.packet.destination, self.set()) {
                    Some(mac) => self.across(netns, bridge, port, mac, state),
                    None => self.lose(netns, state, Cause::NoNeighbour),
                }
            }
            _ => self.route(netns, bridge, state),
        }
    }

    /// From port to port, by FORWARD and POSTROUTING.
    fn across(&mut self, netns: NetnsId, bridge: u32, port: u32, mac: Mac, mut state: PacketState) {
        let Some(to) = self.port_toward(netns, bridge, mac) else {
            return self.lose(netns, state, Cause::NoNeighbour);
        };
        if let Some(cause) = self.refusal(netns, port, to) {
            return self.lose(netns, state, cause);
        }
        let machine = self.machine(netns);
        let (input, output) = (machine.interface(port), machine.interface(to));
        state.packet.output = machine.interface(bridge);
        state.packet.bridge = Some(BridgePorts { input, output, bridged: true });
        let out = Out { interface: bridge, next_hop: state.packet.destination };
        for mut state in self.hook(netns, Hook::Forward, state, None) {
            state.packet = Packet { input: None, ..state.packet };
            for mut state in self.hook(netns, Hook::Postrouting, state, Some(out)) {
                state.enter_in_table(netns);
                state.packet.bridge = None;
                self.over_link(netns, to, mac, state);
            }
        }
    }

    /// Why a bridge does not send what came in by one port out by another (`should_deliver`).
    fn refusal(&self, netns: NetnsId, from: u32, to: u32) -> Option<Cause> {
        let port = self.machine(netns).netns.interface(to)?;
        if from == to && !port.hairpin {
            return Some(Cause::NoHairpin);
        }
        self.cause_on_link(netns, port)
    }

    /// The port of a bridge that a hardware address is behind.
    pub(super) fn port_toward(&self, netns: NetnsId, bridge: u32, mac: Mac) -> Option<u32> {
        let (owner, index) = *self.network.by_mac.get(&mac)?;
        let end = match self.machine(owner).netns.interface(index)?.kind {
            InterfaceKind::VethOwner(end) | InterfaceKind::VethPeer(end) => end,
            InterfaceKind::Bridge | InterfaceKind::Vxlan { .. } => return None,
        };
        let port = self.machine(netns).netns.interface(end.index).filter(|_| end.netns == netns);
        port.filter(|port| port.bridge == Some(bridge)).map(|port| port.index)
    }
}
