//! Nodes' bridges, and what `br_netfilter` makes of them (`br_netfilter_hooks.c`).

use svclab_rules::walk::{BridgePorts, Hook, Packet};

use super::journey::{Journey, enter_in_table};
use super::leg::Leg;
use super::prediction::Cause;
use super::routing::{Out, Way};
use crate::topology::{InterfaceKind, SpaceId};
use crate::wire::Mac;

impl Journey<'_, '_> {
    /// A frame comes to a port of a bridge.
    pub(super) fn enter_bridge(&mut self, space: SpaceId, bridge: u32, port: u32, mac: Mac, leg: Leg) {
        let is_own = self.network.by_mac.get(&mac) == Some(&(space, bridge));
        if !self.machine(space).bridges_call(leg.packet.destination.is_ipv4()) {
            return match self.port_toward(space, bridge, mac) {
                _ if is_own => self.come_in(space, bridge, None, leg),
                Some(to) if self.may_send(space, port, to) => self.over_link(space, to, mac, leg),
                Some(_) => self.lose(space, leg, Cause::NoHairpin),
                None => self.lose(space, leg, Cause::NoNeighbour),
            };
        }
        let ports = BridgePorts { input: self.machine(space).interface(port), ..BridgePorts::default() };
        let before = leg.packet.destination;
        for leg in self.before_routing(space, bridge, Some(ports), leg) {
            if leg.packet.destination == before && !is_own {
                self.across(space, bridge, port, mac, leg);
            } else if leg.packet.destination == before {
                self.route(space, bridge, leg);
            } else {
                self.after_translation(space, bridge, port, leg);
            }
        }
    }

    /// A packet whose new destination is on the bridge is not routed: it goes across (`br_nf_pre_routing_finish`), in IPv6 also where
    /// the machine does not forward.
    fn after_translation(&mut self, space: SpaceId, bridge: u32, port: u32, leg: Leg) {
        let machine = self.machine(space);
        match machine.way_in(bridge, leg.packet.source, leg.packet.destination) {
            Ok(Way::Forward(out)) if out.interface == bridge => {
                let mut neighbours = machine.space.neighbours.iter();
                let found = neighbours.find(|one| one.interface == bridge && one.address == out.next_hop);
                match found.map(|neighbour| neighbour.mac) {
                    Some(mac) => self.across(space, bridge, port, mac, leg),
                    None => self.lose(space, leg, Cause::NoNeighbour),
                }
            }
            _ => self.route(space, bridge, leg),
        }
    }

    /// From port to port, by FORWARD and POSTROUTING.
    fn across(&mut self, space: SpaceId, bridge: u32, port: u32, mac: Mac, mut leg: Leg) {
        let Some(to) = self.port_toward(space, bridge, mac) else {
            return self.lose(space, leg, Cause::NoNeighbour);
        };
        if !self.may_send(space, port, to) {
            return self.lose(space, leg, Cause::NoHairpin);
        }
        let machine = self.machine(space);
        let (input, output) = (machine.interface(port), machine.interface(to));
        leg.packet.output = machine.interface(bridge);
        leg.packet.bridge = Some(BridgePorts { input, output, bridged: true });
        let out = Out { interface: bridge, next_hop: leg.packet.destination };
        for mut leg in self.hook(space, Hook::Forward, leg, None) {
            leg.packet = Packet { input: None, ..leg.packet };
            for mut leg in self.hook(space, Hook::Postrouting, leg, Some(out)) {
                enter_in_table(space, &mut leg);
                leg.packet.bridge = None;
                self.over_link(space, to, mac, leg);
            }
        }
    }

    /// Whether a bridge sends what came in by one port out by another (`should_deliver`).
    fn may_send(&self, space: SpaceId, from: u32, to: u32) -> bool {
        from != to || self.machine(space).space.interface(to).is_some_and(|port| port.hairpin)
    }

    /// The port of a bridge that a hardware address is behind.
    pub(super) fn port_toward(&self, space: SpaceId, bridge: u32, mac: Mac) -> Option<u32> {
        let owner = self.network.by_mac.get(&mac)?;
        let mut ports = self.machine(space).space.interfaces.iter().filter(|port| port.bridge == Some(bridge));
        let found = ports.find(|port| match port.kind {
            InterfaceKind::VethOwner(end) | InterfaceKind::VethPeer(end) => (end.space, end.index) == *owner,
            InterfaceKind::Bridge | InterfaceKind::Vxlan { .. } => false,
        });
        found.map(|port| port.index)
    }
}
