//! A packet on its way, from hook to hook and from namespace to namespace.

use std::net::SocketAddr;

use svclab_rules::cluster::{Family, Protocol};
use svclab_rules::walk::{
    BridgePorts, By, Direction, Hook, Interface, Outcome, Packet, RejectResponse, State, Tracked, Tracking, Tuple,
};

use super::packet_state::{End, Ended, Home, PacketState};
use super::prediction::{Cause, Stage};
use super::routing::{Out, Way};
use super::{Machine, Network};
use crate::topology::{ETH0, InterfaceKind, LOOPBACK, NetnsId, Role};
use crate::wire::Mac;

/// All branches of a packet's way.
pub(super) struct Traversal<'n, 'a> {
    pub(super) network: &'n Network<'a>,
    home: Home<'n>,
    is_answer: bool,
    ends: Vec<End>,
}

impl<'n, 'a> Traversal<'n, 'a> {
    /// The way of the packet that a flow starts with.
    pub(super) fn there(network: &'n Network<'a>, home: Home<'n>) -> Self {
        Self { network, home, is_answer: false, ends: Vec::new() }
    }

    /// That of an answer to it, or of a rejection.
    pub(super) fn back(network: &'n Network<'a>, home: Home<'n>) -> Self {
        Self { is_answer: true, ..Self::there(network, home) }
    }

    pub(super) fn finish(self) -> Vec<End> {
        self.ends
    }

    pub(super) fn machine(&self, netns: NetnsId) -> &'n Machine {
        &self.network.machines[netns]
    }

    fn end(&mut self, leg: PacketState, how: Ended) {
        self.ends.push(End { leg, how });
    }

    pub(super) fn lose(&mut self, netns: NetnsId, leg: PacketState, cause: Cause) {
        self.end(leg, Ended::Dropped(netns, cause));
    }

    /// Puts a packet on the wire of a pod or an outside host.
    pub(super) fn send_from_wire(&mut self, netns: NetnsId, to: Option<Mac>, leg: PacketState) {
        match to {
            Some(mac) => self.over_link(netns, ETH0, mac, leg),
            None => self.lose(netns, leg, Cause::NoNeighbour),
        }
    }

    /// Sends a packet as a process does; its source is chosen already.
    pub(super) fn send_from_process(&mut self, netns: NetnsId, leg: PacketState) {
        let out = self.machine(netns).route_output(leg.packet.source, leg.packet.destination);
        self.send_by(netns, out, leg);
    }

    /// The same by a way that was found for it.
    pub(super) fn send_by(&mut self, netns: NetnsId, out: Result<Out, Cause>, mut leg: PacketState) {
        let machine = self.machine(netns);
        let out = match out {
            Ok(out) => out,
            Err(cause) => return self.end(leg, Ended::Unsent(netns, cause)),
        };
        let route = |leg: &PacketState| machine.route_output(leg.packet.source, leg.packet.destination);
        if !leg.is_attached() {
            leg.tracking = self.look_up(netns, &leg);
        }
        leg.packet = Packet { input: None, output: machine.interface(out.interface), bridge: None, ..leg.packet };
        for mut leg in self.hook(netns, Hook::Output, leg, None) {
            // What a tunnel sends still belongs to its device (`skb->dev`), which `ip_output` names as the input. No other
            // packet of the machine itself has one.
            leg.packet.input = leg.carried.as_ref().and_then(|carried| carried.packet.output);
            match if leg.reroute { route(&leg) } else { Ok(out) } {
                Ok(out) => self.leave(netns, out, leg),
                Err(cause) => self.end_without_way(netns, leg, cause),
            }
        }
    }

    /// OUTPUT has sent a process's packet to where no way leads.
    fn end_without_way(&mut self, netns: NetnsId, leg: PacketState, cause: Cause) {
        // The kernel goes on trying to send a SYN (`tcp_connect`); of others it tells that it has no way.
        let is_tcp = leg.protocol() == Some(Protocol::Tcp);
        self.end(leg, if is_tcp { Ended::Dropped(netns, cause) } else { Ended::Unsent(netns, cause) });
    }

    /// A frame leaves by one end of a link.
    pub(super) fn over_link(&mut self, netns: NetnsId, interface: u32, mac: Mac, mut leg: PacketState) {
        let kind = self.machine(netns).netns.interface(interface).map(|interface| &interface.kind);
        let Some(InterfaceKind::VethOwner(end) | InterfaceKind::VethPeer(end)) = kind else {
            return self.lose(netns, leg, Cause::NoNeighbour);
        };
        // Between namespaces a mark is lost (`skb_scrub_packet`).
        leg.packet.mark = 0;
        let there = &self.machine(end.netns).netns;
        match there.role {
            Role::Pod | Role::Host => self.at_wire(end.netns, leg),
            Role::Underlay | Role::Node | Role::RoutingPod => {
                match there.interface(end.index).map(|port| (port.bridge, port.mac)) {
                    Some((Some(bridge), _)) => self.enter_bridge(end.netns, bridge, end.index, mac, leg),
                    Some((None, own)) if own == mac => self.come_in(end.netns, end.index, None, leg),
                    _ => self.lose(end.netns, leg, Cause::NoNeighbour),
                }
            }
        }
    }

    /// A pod or an outside host gets a packet.
    fn at_wire(&mut self, netns: NetnsId, leg: PacketState) {
        let there = &self.machine(netns).netns;
        if !there.addresses_on_wire.contains(&leg.packet.destination) {
            return self.lose(netns, leg, Cause::NotItsAddress);
        }
        if leg.carried.is_some() {
            // A pod knows nothing of tunnels.
            return self.lose(netns, leg, Cause::NoListener);
        }
        let at = there.name.clone();
        let how = if self.is_home(netns, &leg) { Ended::Returned } else { Ended::Received(netns, at) };
        self.end(leg, how);
    }

    fn is_home(&self, netns: NetnsId, leg: &PacketState) -> bool {
        let is_about = |sent: &Tuple| match leg.quoted {
            Some(quoted) => quoted == *sent && leg.packet.destination == sent.source,
            None => leg.destination() == SocketAddr::new(sent.source, sent.source_port),
        };
        self.is_answer && self.home.netns == netns && is_about(&self.home.sent)
    }

    /// A packet for a machine's kernel comes in by an interface.
    pub(super) fn come_in(&mut self, netns: NetnsId, by: u32, bridge: Option<BridgePorts>, leg: PacketState) {
        for leg in self.before_routing(netns, by, bridge, leg) {
            self.route(netns, by, leg);
        }
    }

    /// PREROUTING.
    pub(super) fn before_routing(
        &mut self,
        netns: NetnsId,
        by: u32,
        bridge: Option<BridgePorts>,
        mut leg: PacketState,
    ) -> Vec<PacketState> {
        if bridge.is_none() && has_ipv6_loopback(&leg.packet) {
            // `ip6_rcv_core`, before any rule.
            self.lose(netns, leg, Cause::Martian);
            return Vec::new();
        }
        leg.tracking = self.look_up(netns, &leg);
        leg.packet = Packet { input: self.machine(netns).interface(by), output: None, bridge, ..leg.packet };
        self.hook(netns, Hook::Prerouting, leg, None)
    }

    /// What follows PREROUTING.
    pub(super) fn route(&mut self, netns: NetnsId, by: u32, mut leg: PacketState) {
        let machine = self.machine(netns);
        if leg.packet.bridge.is_some() && has_ipv6_loopback(&leg.packet) {
            // Rules had what the bridge handed to them before `ip6_rcv_core` sees it.
            return self.lose(netns, leg, Cause::Martian);
        }
        match machine.route_input(by, leg.packet.source, leg.packet.destination) {
            // `ip_error`, `ip6_pkt_discard`.
            Err(Cause::NoRoute) => {
                self.end(leg, Ended::Rejected(netns, RejectResponse::NetUnreachable, Cause::NoRoute));
            }
            Err(cause) => self.lose(netns, leg, cause),
            Ok(Way::Local) => self.for_the_machine(netns, leg),
            Ok(Way::Forward(_)) if leg.ttl <= 1 => self.lose(netns, leg, Cause::TooManyHops),
            Ok(Way::Forward(out)) => {
                leg.ttl -= 1;
                leg.packet.output = machine.interface(out.interface);
                for leg in self.hook(netns, Hook::Forward, leg, None) {
                    self.leave(netns, out, leg);
                }
            }
        }
    }

    /// POSTROUTING, and out.
    fn leave(&mut self, netns: NetnsId, out: Out, mut leg: PacketState) {
        leg.packet.output = self.machine(netns).interface(out.interface);
        for mut leg in self.hook(netns, Hook::Postrouting, leg, Some(out)) {
            enter_in_table(netns, &mut leg);
            if out.interface == LOOPBACK {
                leg.packet = Packet { input: Some(Interface::LOOPBACK), output: None, ..leg.packet };
                // Routed already, with its connection at hand.
                for leg in self.hook(netns, Hook::Prerouting, leg, None) {
                    self.for_the_machine(netns, leg);
                }
            } else {
                self.hand_over(netns, out, leg);
            }
        }
    }

    /// From an interface to whoever has the next hop's address on the link.
    pub(super) fn hand_over(&mut self, netns: NetnsId, out: Out, leg: PacketState) {
        let plan = &self.machine(netns).netns;
        let mut neighbours = plan.neighbours.iter();
        let found = neighbours.find(|one| one.interface == out.interface && one.address == out.next_hop);
        let Some(mac) = found.map(|neighbour| neighbour.mac) else {
            return self.lose(netns, leg, Cause::NoNeighbour);
        };
        match plan.interface(out.interface).map(|interface| &interface.kind) {
            Some(InterfaceKind::Vxlan { local, .. }) => self.enter_tunnel(netns, out.interface, *local, mac, leg),
            Some(InterfaceKind::Bridge) => match self.port_toward(netns, out.interface, mac) {
                Some(port) => self.over_link(netns, port, mac, leg),
                None => self.lose(netns, leg, Cause::NoNeighbour),
            },
            _ => self.over_link(netns, out.interface, mac, leg),
        }
    }

    /// INPUT, and to the process that listens.
    fn for_the_machine(&mut self, netns: NetnsId, mut leg: PacketState) {
        leg.packet.output = None;
        for mut leg in self.hook(netns, Hook::Input, leg, None) {
            enter_in_table(netns, &mut leg);
            if leg.carried.is_some() {
                self.leave_tunnel(netns, leg);
            } else if self.is_home(netns, &leg) {
                self.end(leg, Ended::Returned);
            } else {
                let protocol = leg.protocol();
                let listener = protocol.and_then(|protocol| self.machine(netns).listener(protocol, leg.destination()));
                let how = match (listener, protocol) {
                    (Some(at), _) => Ended::Received(netns, at.to_owned()),
                    (None, Some(Protocol::Tcp)) => Ended::Rejected(netns, RejectResponse::TcpReset, Cause::NoListener),
                    (None, Some(Protocol::Udp)) => {
                        Ended::Rejected(netns, RejectResponse::PortUnreachable, Cause::NoListener)
                    }
                    (None, Some(Protocol::Sctp)) if self.hears_sctp(netns) => Ended::Dropped(netns, Cause::NoListener),
                    (None, _) => Ended::Rejected(netns, RejectResponse::ProtocolUnreachable, Cause::NoListener),
                };
                self.end(leg, how);
            }
        }
    }

    /// Whether a process speaks SCTP on a machine: it does so by a raw socket, which gets the packets for all ports, and a kernel
    /// without SCTP refuses nothing that a raw socket gets (`ip_protocol_deliver_rcu`).
    fn hears_sctp(&self, netns: NetnsId) -> bool {
        let Home { netns: home, sent, .. } = self.home;
        let is_process = !matches!(self.machine(home).netns.role, Role::Pod | Role::Host);
        self.machine(netns).takes(Protocol::Sctp)
            || home == netns && is_process && sent.protocol == Protocol::Sctp.number()
    }

    /// Takes a packet through a hook; returns what goes on. `out` is the way that it leaves by.
    pub(super) fn hook(&mut self, netns: NetnsId, hook: Hook, leg: PacketState, out: Option<Out>) -> Vec<PacketState> {
        let machine = self.machine(netns);
        let family = Family::of(leg.packet.destination);
        let Some(rules) = machine.rules(family) else { return vec![leg] };
        if let Some(rule) = self.home.budget.spend(&leg) {
            let why = "packets go in a circle, and on each round chance decides".into();
            self.end(leg, Ended::Unknown(rule, why));
            return Vec::new();
        }
        let branches = rules.walk(&machine.environment, hook, &leg.packet, leg.tracking);
        if branches.len() > 1 {
            // Not each branch tells of it: for a part a rule may hold by chance, and then not for another of its conditions.
            let steps = || branches.iter().flat_map(|branch| &branch.trace.0);
            let decided = steps().find(|step| step.is_by_chance()).or_else(|| steps().next());
            self.home.budget.split(&leg, branches.len(), decided.and_then(|step| machine.place(family, step.rule)));
        }
        let mut accepted = Vec::with_capacity(branches.len());
        for mut branch in branches {
            let mut is_lost = false;
            if let Some(wanted) = branch.source_nat {
                // INPUT knows no MASQUERADE.
                let masquerade = out.and_then(|out| machine.preferred(out, branch.packet.destination));
                match masquerade.or(wanted.address) {
                    Some(address) => {
                        let present = branch.packet.tuple().source_port;
                        let (address, port) = wanted.choose(address, present);
                        let is_open = wanted.first_port < wanted.last_port;
                        let known = self.home.chosen.get(&netns).copied();
                        let port = known.filter(|port| is_open && wanted.allows(*port)).unwrap_or(port);
                        branch.settle_source(address, port);
                    }
                    None => is_lost = true,
                }
            }
            let path = std::mem::take(&mut branch.trace);
            let (came, left, tracking) = (leg.packet, branch.packet, leg.tracking);
            let stage = Stage { netns, family, hook, came, left, tracking, path };
            let leg = PacketState {
                share: branch.share.within(leg.share),
                packet: branch.packet,
                tracking: branch.tracking,
                reroute: branch.reroute,
                known: leg.known.clone(),
                ttl: leg.ttl,
                carried: leg.carried.clone(),
                quoted: leg.quoted,
                assumptions: leg.assumptions.and(branch.assumptions),
                trail: leg.trail.and(stage),
            };
            let place = |rule| machine.place(family, rule);
            let how = match branch.outcome {
                Outcome::Accept if is_lost => Some(Ended::Dropped(netns, Cause::NoAddress)),
                Outcome::Accept => None,
                Outcome::Drop(By::Rule(rule)) => place(rule).map(|rule| Ended::Dropped(netns, Cause::Rule(rule))),
                Outcome::Drop(By::Policy(chain)) => {
                    let (table, chain) = rules.chain(chain);
                    let cause = Cause::Policy { table: table.to_owned(), chain: chain.to_owned() };
                    Some(Ended::Dropped(netns, cause))
                }
                Outcome::Reject(rule, rejection) => {
                    place(rule).map(|rule| Ended::Rejected(netns, rejection, Cause::Rule(rule)))
                }
                Outcome::Unknown(unknown) => place(unknown.rule).map(|rule| Ended::Unknown(rule, unknown.why)),
            };
            // A new way is looked for in the tables that ask for it, before those that filter.
            let rerouted = how.is_some() && leg.reroute;
            let way = rerouted.then(|| machine.route_output(leg.packet.source, leg.packet.destination));
            match (how, way) {
                (None, _) => accepted.push(leg),
                (Some(_), Some(Err(cause))) => self.end_without_way(netns, leg, cause),
                (Some(how), _) => self.end(leg, how),
            }
        }
        accepted
    }

    /// What it has for an ICMP error: the connection of the packet that the error is about, as that left the machine.
    fn look_up_error(&self, netns: NetnsId, leg: &PacketState, quoted: Tuple) -> Tracking {
        let mut here = leg.known.iter().filter(|(of, _)| *of == netns).map(|(_, connection)| *connection);
        here.find(|connection| connection.reply == quoted.reversed()).map_or(Tracking::Invalid, |connection| {
            let Tracking::Tracked(tracked) = Tracking::established(connection, Direction::Reply) else {
                return Tracking::Invalid;
            };
            Tracking::Tracked(Tracked { state: State::Related, ..tracked })
        })
    }

    /// What a machine's connection table has for a packet that comes to it.
    fn look_up(&self, netns: NetnsId, leg: &PacketState) -> Tracking {
        let tuple = leg.packet.tuple();
        if let Some(quoted) = leg.quoted {
            return self.look_up_error(netns, leg, quoted);
        }
        let mut here = leg.known.iter().filter(|(of, _)| *of == netns).map(|(_, connection)| *connection);
        let found = here.find(|connection| tuple == connection.original || tuple == connection.reply);
        match found {
            Some(connection) if tuple == connection.original && !self.is_answer => {
                let direction = Direction::Original;
                Tracking::Tracked(Tracked { connection, direction, state: State::New, attached: false })
            }
            Some(connection) if tuple == connection.original => Tracking::established(connection, Direction::Original),
            Some(connection) => Tracking::established(connection, Direction::Reply),
            // A SYN-ACK or an INIT ACK opens no connection.
            None if self.is_answer && leg.carried.is_none() && leg.protocol() != Some(Protocol::Udp) => {
                Tracking::Invalid
            }
            None => Tracking::first(&leg.packet),
        }
    }
}

/// Whether a packet has an address that is never on a wire.
fn has_ipv6_loopback(packet: &Packet) -> bool {
    [packet.source, packet.destination].iter().any(|address| address.is_ipv6() && address.is_loopback())
}

/// A packet leaves a machine's rules behind, and the machine remembers its connection.
pub(super) fn enter_in_table(netns: NetnsId, leg: &mut PacketState) {
    if leg.quoted.is_some() {
        // What the error quotes is translated back along with it.
        leg.quoted = leg.tracking.connection().map(|connection| connection.original).or(leg.quoted);
        return;
    }
    // A rejection settles nothing of the connection that it belongs to.
    let is_new = !matches!(leg.tracking, Tracking::Tracked(Tracked { state: State::Related, .. }));
    if let Some(connection) = leg.tracking.connection().filter(|_| is_new) {
        let mut known = leg.known.iter_mut();
        match known.find(|(of, known)| *of == netns && known.original == connection.original) {
            Some((_, known)) => *known = *connection,
            None => leg.known.push((netns, *connection)),
        }
    }
}
