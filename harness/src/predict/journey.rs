//! A packet on its way, from hook to hook and from namespace to namespace.

use std::net::SocketAddr;
use std::sync::Arc;

use svclab_rules::cluster::{Family, Protocol};
use svclab_rules::walk::{
    Assumptions, BridgePorts, By, Connection, Direction, Hook, Interface, Outcome, Packet, Share, State, Tracked,
    Tracking, Transport, Tuple,
};

use super::machine::LOOPBACK;
use super::prediction::{Cause, RulePlace, Stage, kind_of};
use super::routing::{Out, Way};
use super::{Machine, Network};
use crate::scenario::RejectKind;
use crate::topology::{ETH0, InterfaceKind, Role, SpaceId};
use crate::wire::Mac;

/// Linux' default time to live.
const TTL: u8 = 64;

/// A packet, and what is known of it where it is.
#[derive(Debug, Clone)]
pub(super) struct Leg {
    pub(super) share: Share,
    pub(super) packet: Packet,
    pub(super) tracking: Tracking,
    /// OUTPUT changed what routing looks at.
    reroute: bool,
    /// The connections that namespaces have entered in their tables.
    pub(super) known: Vec<(SpaceId, Connection)>,
    pub(super) ttl: u8,
    /// The packet inside of this tunnel's packet, with its time to live.
    pub(super) carried: Option<(Packet, u8)>,
    /// The packet that this ICMP error is about, as it is where the error is.
    pub(super) quoted: Option<Tuple>,
    pub(super) assumptions: Assumptions,
    trail: Trail,
}

/// The hooks passed, last first; branches share what they have in common.
#[derive(Debug, Clone, Default)]
struct Trail(Option<Arc<(Stage, Trail)>>);

impl Leg {
    pub(super) fn new(packet: Packet) -> Self {
        Self {
            share: Share::ONE,
            packet,
            tracking: Tracking::Untracked,
            reroute: false,
            known: Vec::new(),
            ttl: TTL,
            carried: None,
            quoted: None,
            assumptions: Assumptions::NONE,
            trail: Trail::default(),
        }
    }

    /// The hooks passed, in order.
    pub(super) fn stages(&self) -> Vec<Stage> {
        let mut stages = Vec::new();
        let mut rest = &self.trail;
        while let Trail(Some(last)) = rest {
            stages.push(last.0.clone());
            rest = &last.1;
        }
        stages.reverse();
        stages
    }

    /// An ICMP error about a packet.
    pub(super) fn about(self, quoted: Tuple) -> Self {
        Self { quoted: Some(quoted), ..self }
    }

    /// Starts on its own once more, as the packet of a tunnel does.
    pub(super) fn restart(&mut self, packet: Packet) {
        (self.packet, self.ttl) = (packet, TTL);
    }

    fn protocol(&self) -> Option<Protocol> {
        match self.packet.transport {
            Transport::Tcp { .. } => Some(Protocol::Tcp),
            Transport::Udp { .. } => Some(Protocol::Udp),
            Transport::Sctp { .. } => Some(Protocol::Sctp),
            Transport::Icmp { .. } | Transport::Other(_) => None,
        }
    }

    pub(super) fn source(&self) -> SocketAddr {
        SocketAddr::new(self.packet.source, self.packet.tuple().source_port)
    }

    pub(super) fn destination(&self) -> SocketAddr {
        SocketAddr::new(self.packet.destination, self.packet.tuple().destination_port)
    }
}

/// A way's end.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) leg: Leg,
    pub(super) how: Ended,
}

/// How a way ends.
#[derive(Debug, Clone)]
pub(super) enum Ended {
    /// Somebody gets it: who, and in which namespace.
    Received(SpaceId, String),
    /// An answer is back at the sender.
    Returned,
    Rejected(SpaceId, RejectKind, Cause),
    Dropped(SpaceId, Cause),
    /// The kernel has no way for a process's packet.
    Unsent(SpaceId, Cause),
    Unknown(RulePlace, Arc<str>),
}

/// Where an answer belongs: the sender's namespace, and its packet as it was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Home {
    pub(super) space: SpaceId,
    pub(super) sent: Tuple,
}

/// All branches of a packet's way.
pub(super) struct Journey<'n, 'a> {
    pub(super) network: &'n Network<'a>,
    /// For answers.
    home: Option<Home>,
    ends: Vec<End>,
}

impl<'n, 'a> Journey<'n, 'a> {
    pub(super) fn new(network: &'n Network<'a>, home: Option<Home>) -> Self {
        Self { network, home, ends: Vec::new() }
    }

    pub(super) fn finish(self) -> Vec<End> {
        self.ends
    }

    pub(super) fn machine(&self, space: SpaceId) -> &'n Machine {
        &self.network.machines[space]
    }

    fn end(&mut self, leg: Leg, how: Ended) {
        self.ends.push(End { leg, how });
    }

    pub(super) fn lose(&mut self, space: SpaceId, leg: Leg, cause: Cause) {
        self.end(leg, Ended::Dropped(space, cause));
    }

    /// Puts a packet on the wire of a pod or an outside host.
    pub(super) fn send_from_wire(&mut self, space: SpaceId, to: Option<Mac>, leg: Leg) {
        match to {
            Some(mac) => self.over_link(space, ETH0, mac, leg),
            None => self.lose(space, leg, Cause::NoNeighbour),
        }
    }

    /// Sends a packet as a process does; its source is chosen already.
    pub(super) fn send_from_process(&mut self, space: SpaceId, mut leg: Leg) {
        let machine = self.machine(space);
        let route = |leg: &Leg| machine.route_output(leg.packet.source, leg.packet.destination);
        let out = match route(&leg) {
            Ok(out) => out,
            Err(cause) => return self.end(leg, Ended::Unsent(space, cause)),
        };
        leg.tracking = self.look_up(space, &leg);
        leg.packet = Packet { input: None, output: machine.interface(out.interface), bridge: None, ..leg.packet };
        for leg in self.hook(space, Hook::Output, leg, None) {
            match if leg.reroute { route(&leg) } else { Ok(out) } {
                Ok(out) => self.leave(space, out, leg),
                // The kernel goes on trying to send a SYN (`tcp_connect`); of others it tells that it has no way.
                Err(cause) if leg.protocol() == Some(Protocol::Tcp) => self.lose(space, leg, cause),
                Err(cause) => self.end(leg, Ended::Unsent(space, cause)),
            }
        }
    }

    /// A frame leaves by one end of a link.
    pub(super) fn over_link(&mut self, space: SpaceId, interface: u32, mac: Mac, mut leg: Leg) {
        let kind = self.machine(space).space.interface(interface).map(|interface| &interface.kind);
        let Some(InterfaceKind::VethOwner(end) | InterfaceKind::VethPeer(end)) = kind else {
            return self.lose(space, leg, Cause::NoNeighbour);
        };
        // Between namespaces a mark is lost (`skb_scrub_packet`).
        leg.packet.mark = 0;
        let there = &self.machine(end.space).space;
        match there.role {
            Role::Pod | Role::Host => self.at_wire(end.space, leg),
            Role::Underlay | Role::Node | Role::RoutingPod => {
                match there.interface(end.index).map(|port| (port.bridge, port.mac)) {
                    Some((Some(bridge), _)) => self.enter_bridge(end.space, bridge, end.index, mac, leg),
                    Some((None, own)) if own == mac => self.come_in(end.space, end.index, None, leg),
                    _ => self.lose(end.space, leg, Cause::NoNeighbour),
                }
            }
        }
    }

    /// A pod or an outside host gets a packet.
    fn at_wire(&mut self, space: SpaceId, leg: Leg) {
        let there = &self.machine(space).space;
        if !there.addresses_on_wire.contains(&leg.packet.destination) {
            return self.lose(space, leg, Cause::NotItsAddress);
        }
        let at = there.name.clone();
        let how = if self.is_home(space, &leg) { Ended::Returned } else { Ended::Received(space, at) };
        self.end(leg, how);
    }

    fn is_home(&self, space: SpaceId, leg: &Leg) -> bool {
        let is_about = |sent: &Tuple| match leg.quoted {
            Some(quoted) => quoted == *sent && leg.packet.destination == sent.source,
            None => leg.destination() == SocketAddr::new(sent.source, sent.source_port),
        };
        self.home.is_some_and(|home| home.space == space && is_about(&home.sent))
    }

    /// A packet for a machine's kernel comes in by an interface.
    pub(super) fn come_in(&mut self, space: SpaceId, by: u32, bridge: Option<BridgePorts>, leg: Leg) {
        for leg in self.before_routing(space, by, bridge, leg) {
            self.route(space, by, leg);
        }
    }

    /// PREROUTING.
    pub(super) fn before_routing(
        &mut self,
        space: SpaceId,
        by: u32,
        bridge: Option<BridgePorts>,
        mut leg: Leg,
    ) -> Vec<Leg> {
        let is_loopback = leg.packet.source.is_loopback() || leg.packet.destination.is_loopback();
        if is_loopback && leg.packet.source.is_ipv6() {
            // `ip6_rcv_core`, before any rule.
            self.lose(space, leg, Cause::Martian);
            return Vec::new();
        }
        leg.tracking = self.look_up(space, &leg);
        leg.packet = Packet { input: self.machine(space).interface(by), output: None, bridge, ..leg.packet };
        self.hook(space, Hook::Prerouting, leg, None)
    }

    /// What follows PREROUTING.
    pub(super) fn route(&mut self, space: SpaceId, by: u32, mut leg: Leg) {
        let machine = self.machine(space);
        match machine.route_input(by, leg.packet.source, leg.packet.destination) {
            Err(cause) => self.lose(space, leg, cause),
            Ok(Way::Local) => self.for_the_machine(space, leg),
            Ok(Way::Forward(_)) if leg.ttl <= 1 => self.lose(space, leg, Cause::TooManyHops),
            Ok(Way::Forward(out)) => {
                leg.ttl -= 1;
                leg.packet.output = machine.interface(out.interface);
                for leg in self.hook(space, Hook::Forward, leg, None) {
                    self.leave(space, out, leg);
                }
            }
        }
    }

    /// POSTROUTING, and out.
    fn leave(&mut self, space: SpaceId, out: Out, mut leg: Leg) {
        leg.packet.output = self.machine(space).interface(out.interface);
        for mut leg in self.hook(space, Hook::Postrouting, leg, Some(out)) {
            enter_in_table(space, &mut leg);
            if out.interface == LOOPBACK {
                leg.packet = Packet { input: Some(Interface::LOOPBACK), output: None, ..leg.packet };
                // Routed already, with its connection at hand.
                for leg in self.hook(space, Hook::Prerouting, leg, None) {
                    self.for_the_machine(space, leg);
                }
            } else {
                self.hand_over(space, out, leg);
            }
        }
    }

    /// From an interface to whoever has the next hop's address on the link.
    pub(super) fn hand_over(&mut self, space: SpaceId, out: Out, leg: Leg) {
        let plan = &self.machine(space).space;
        let mut neighbours = plan.neighbours.iter();
        let found = neighbours.find(|one| one.interface == out.interface && one.address == out.next_hop);
        let Some(mac) = found.map(|neighbour| neighbour.mac) else {
            return self.lose(space, leg, Cause::NoNeighbour);
        };
        match plan.interface(out.interface).map(|interface| &interface.kind) {
            Some(InterfaceKind::Vxlan { local, .. }) => self.enter_tunnel(space, out.interface, *local, mac, leg),
            Some(InterfaceKind::Bridge) => match self.port_toward(space, out.interface, mac) {
                Some(port) => self.over_link(space, port, mac, leg),
                None => self.lose(space, leg, Cause::NoNeighbour),
            },
            _ => self.over_link(space, out.interface, mac, leg),
        }
    }

    /// INPUT, and to the process that listens.
    fn for_the_machine(&mut self, space: SpaceId, mut leg: Leg) {
        leg.packet.output = None;
        for mut leg in self.hook(space, Hook::Input, leg, None) {
            enter_in_table(space, &mut leg);
            if leg.carried.is_some() {
                self.leave_tunnel(space, leg);
            } else if self.is_home(space, &leg) {
                self.end(leg, Ended::Returned);
            } else {
                let protocol = leg.protocol();
                let listener = protocol.and_then(|protocol| self.machine(space).listener(protocol, leg.destination()));
                let how = match (listener, protocol) {
                    (Some(at), _) => Ended::Received(space, at.to_owned()),
                    (None, Some(Protocol::Tcp)) => Ended::Rejected(space, RejectKind::TcpReset, Cause::NobodyListens),
                    (None, Some(Protocol::Udp)) => {
                        Ended::Rejected(space, RejectKind::PortUnreachable, Cause::NobodyListens)
                    }
                    // An ABORT, or protocol unreachable where the kernel has no SCTP.
                    (None, _) => Ended::Rejected(space, RejectKind::Any, Cause::NobodyListens),
                };
                self.end(leg, how);
            }
        }
    }

    /// Takes a packet through a hook; returns what goes on. `out` is the way that it leaves by.
    pub(super) fn hook(&mut self, space: SpaceId, hook: Hook, leg: Leg, out: Option<Out>) -> Vec<Leg> {
        let machine = self.machine(space);
        let family = Family::of(leg.packet.destination);
        let Some(rules) = machine.rules(family) else { return vec![leg] };
        let branches = rules.walk(&machine.environment, hook, &leg.packet, leg.tracking);
        let mut accepted = Vec::with_capacity(branches.len());
        for mut branch in branches {
            let mut is_lost = false;
            if let (Some(wanted), Some(out)) = (branch.source_nat, out) {
                let masquerade = machine.preferred(out, branch.packet.destination);
                match masquerade.or(wanted.address) {
                    Some(address) => {
                        let present = branch.packet.tuple().source_port;
                        let (address, port) = wanted.choose(address, present);
                        branch.settle_source(address, port);
                    }
                    None => is_lost = true,
                }
            }
            let path = std::mem::take(&mut branch.trace);
            let (came, left, tracking) = (leg.packet, branch.packet, leg.tracking);
            let stage = Stage { space, family, hook, came, left, tracking, path };
            let leg = Leg {
                share: branch.share.within(leg.share),
                packet: branch.packet,
                tracking: branch.tracking,
                reroute: branch.reroute,
                known: leg.known.clone(),
                ttl: leg.ttl,
                carried: leg.carried,
                quoted: leg.quoted,
                assumptions: leg.assumptions.and(branch.assumptions),
                trail: Trail(Some(Arc::new((stage, leg.trail.clone())))),
            };
            let place = |rule| machine.place(family, rule);
            let how = match branch.outcome {
                Outcome::Accept if is_lost => Some(Ended::Dropped(space, Cause::NoAddress)),
                Outcome::Accept => None,
                Outcome::Drop(By::Rule(rule)) => place(rule).map(|rule| Ended::Dropped(space, Cause::Rule(rule))),
                Outcome::Drop(By::Policy(chain)) => {
                    let (table, chain) = rules.chain(chain);
                    let cause = Cause::Policy { table: table.to_owned(), chain: chain.to_owned() };
                    Some(Ended::Dropped(space, cause))
                }
                Outcome::Reject(rule, refusal) => {
                    place(rule).map(|rule| Ended::Rejected(space, kind_of(refusal), Cause::Rule(rule)))
                }
                Outcome::Unknown(unknown) => place(unknown.rule).map(|rule| Ended::Unknown(rule, unknown.why)),
            };
            match how {
                None => accepted.push(leg),
                Some(how) => self.end(leg, how),
            }
        }
        accepted
    }

    /// What it has for an ICMP error: the connection of the packet that the error is about, as that left the machine.
    fn look_up_error(&self, space: SpaceId, leg: &Leg, quoted: Tuple) -> Tracking {
        let mut here = leg.known.iter().filter(|(of, _)| *of == space).map(|(_, connection)| *connection);
        here.find(|connection| connection.reply == quoted.reversed()).map_or(Tracking::Invalid, |connection| {
            let Tracking::Tracked(tracked) = Tracking::established(connection, Direction::Reply) else {
                return Tracking::Invalid;
            };
            Tracking::Tracked(Tracked { state: State::Related, ..tracked })
        })
    }

    /// What a machine's connection table has for a packet that comes to it.
    fn look_up(&self, space: SpaceId, leg: &Leg) -> Tracking {
        let tuple = leg.packet.tuple();
        if let Some(quoted) = leg.quoted {
            return self.look_up_error(space, leg, quoted);
        }
        let mut here = leg.known.iter().filter(|(of, _)| *of == space).map(|(_, connection)| *connection);
        let found = here.find(|connection| tuple == connection.original || tuple == connection.reply);
        match found {
            Some(connection) if tuple == connection.original && self.home.is_none() => {
                let direction = Direction::Original;
                Tracking::Tracked(Tracked { connection, direction, state: State::New, attached: false })
            }
            Some(connection) if tuple == connection.original => Tracking::established(connection, Direction::Original),
            Some(connection) => Tracking::established(connection, Direction::Reply),
            // A SYN-ACK or an INIT ACK opens no connection.
            None if self.home.is_some() && leg.carried.is_none() && leg.protocol() != Some(Protocol::Udp) => {
                Tracking::Invalid
            }
            None => Tracking::first(&leg.packet),
        }
    }
}

/// A packet leaves a machine's rules behind, and the machine remembers its connection.
pub(super) fn enter_in_table(space: SpaceId, leg: &mut Leg) {
    if leg.quoted.is_some() {
        // What the error quotes is translated back along with it.
        leg.quoted = leg.tracking.connection().map(|connection| connection.original).or(leg.quoted);
        return;
    }
    if let Some(connection) = leg.tracking.connection()
        && !leg.known.iter().any(|(of, known)| *of == space && known.original == connection.original)
    {
        leg.known.push((space, *connection));
    }
}
