//! Nodes' bridges, and how `br_netfilter` handles their packets (`br_netfilter_hooks.c`).

use svclab_rules::walk::{BridgePorts, Hook, Packet};

use super::packet_state::PacketState;
use super::prediction::Cause;
use super::route_table::Out;
use super::routing::RoutingDecision;
use super::traversal::Traversal;
use crate::topology::{InterfaceKind, NetnsId};
use crate::wire::Mac;

impl Traversal<'_, '_> {
    /// Receives a frame at a port of a bridge.
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

    /// Continues after PREROUTING has translated the packet. If the new destination is on the bridge, the packet is bridged, not routed
    /// (`br_nf_pre_routing_finish`), for IPv6 even on a machine that does not forward.
    fn after_translation(&mut self, netns: NetnsId, bridge: u32, port: u32, state: PacketState) {
        let machine = self.machine(netns);
        match machine.way_in(bridge, state.packet.source, state.packet.destination, self.set()) {
            Ok(RoutingDecision::Forward(out)) if out.interface == bridge => {
                match machine.neighbours().find(out.interface, out.next_hop, state.packet.destination, self.set()) {
                    Some(mac) => self.across(netns, bridge, port, mac, state),
                    None => self.lose(netns, state, Cause::NoNeighbour),
                }
            }
            _ => self.route(netns, bridge, state),
        }
    }

    /// Bridges a packet from port to port, through FORWARD and POSTROUTING.
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
                // With bridge-nf-call, the bridge compares with the MTU itself (`br_nf_dev_queue_xmit`).
                match self.mtu_exceeded(netns, to, &state) {
                    Some(mtu) if state.packet.destination.is_ipv6() || !state.extent.may_fragment => {
                        self.lose(netns, state, Cause::TooBig(mtu));
                        continue;
                    }
                    Some(mtu) => state.extent.largest = mtu,
                    None => {}
                }
                self.over_link(netns, to, mac, state);
            }
        }
    }

    /// The reason why a bridge does not forward from one port to another (`should_deliver`), if there is one.
    fn refusal(&self, netns: NetnsId, from: u32, to: u32) -> Option<Cause> {
        let port = self.machine(netns).netns.interface(to)?;
        if from == to && !port.hairpin {
            return Some(Cause::NoHairpin);
        }
        self.cause_on_link(netns, port)
    }

    /// The port of a bridge behind which a MAC address is.
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
