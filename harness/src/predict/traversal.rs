//! The path of a packet, from hook to hook and from namespace to namespace.

use std::net::{IpAddr, SocketAddr};

use svclab_rules::cluster::{Family, Protocol};
use svclab_rules::walk::{
    BridgePorts, Field, Hook, Interface, Narrowing, Packet, RejectResponse, Share, Tuple, address_bits,
};

use super::packet_state::{End, Ended, Origin, PacketState};
use super::prediction::Cause;
use super::route_table::Out;
use super::routing::RoutingDecision;
use super::set_queries::{Set, is_among, loopback};
use super::{Machine, Network};
use crate::topology::{self, Carrier, ETH0, InterfaceKind, LOOPBACK, NetnsId, Role, UNDERLAY};
use crate::wire::Mac;

/// The bytes of a VLAN tag, which a link lets pass in addition to its MTU (`VLAN_HLEN`).
const VLAN_TAG: u16 = 4;

/// 100 % in millionths.
const ALL_MILLIONTHS: u32 = 1_000_000;

/// All branches of a packet's path.
pub(super) struct Traversal<'n, 'a> {
    pub(super) network: &'n Network<'a>,
    pub(super) origin: Origin<'n>,
    /// The set of packets that the flow's packet represents, if any.
    pub(super) narrowing: Option<Narrowing>,
    pub(super) is_answer: bool,
    ends: Vec<End>,
}

impl<'n, 'a> Traversal<'n, 'a> {
    /// The traversal of a flow's first packet.
    pub(super) fn there(network: &'n Network<'a>, origin: Origin<'n>) -> Self {
        Self { network, origin, narrowing: origin.narrowing.cloned(), is_answer: false, ends: Vec::with_capacity(1) }
    }

    /// The traversal of a reply or a rejection.
    pub(super) fn back(network: &'n Network<'a>, origin: Origin<'n>) -> Self {
        let narrowing = origin.narrowing.map(Narrowing::for_replies);
        Self { is_answer: true, narrowing, ..Self::there(network, origin) }
    }

    /// The set of packets that network decisions apply to. Each pod has its own route, so replies are routed as a single packet; rules are
    /// evaluated for the whole set.
    pub(super) fn set(&self) -> Set<'_> {
        self.narrowing.as_ref().filter(|_| !self.is_answer)
    }

    pub(super) fn finish(self) -> Vec<End> {
        self.ends
    }

    pub(super) fn machine(&self, netns: NetnsId) -> &'n Machine {
        &self.network.machines[netns]
    }

    pub(super) fn end(&mut self, state: PacketState, how: Ended) {
        self.ends.push(End { state, how });
    }

    pub(super) fn lose(&mut self, netns: NetnsId, state: PacketState, cause: Cause) {
        self.end(state, Ended::Dropped(netns, cause));
    }

    /// Puts a packet on the wire of a pod or an outside host.
    pub(super) fn send_from_wire(&mut self, netns: NetnsId, to: Option<Mac>, mut state: PacketState) {
        match to {
            Some(mac) => {
                self.split_for(netns, ETH0, &mut state);
                self.over_link(netns, ETH0, mac, state);
            }
            None => self.lose(netns, state, Cause::NoNeighbour),
        }
    }

    /// Sends the first packet of a process's socket: before rules are evaluated, the kernel rejects broadcast addresses (`tcp_v4_connect`,
    /// `udp_sendmsg`, `sctp_v4_addr_valid`).
    pub(super) fn send_from_socket(&mut self, netns: NetnsId, state: PacketState) {
        match self.machine(netns).is_broadcast(state.packet.destination, self.set()) {
            true => self.end(state, Ended::Unsent(netns, Cause::Broadcast)),
            false => self.send_from_process(netns, state),
        }
    }

    /// Sends a process's packet, whose source is already chosen.
    pub(super) fn send_from_process(&mut self, netns: NetnsId, state: PacketState) {
        let out = self.machine(netns).route_output(state.packet.source, state.packet.destination, self.set());
        self.send_by(netns, out, state);
    }

    /// Sends a packet by a route that was looked up for it.
    pub(super) fn send_by(&mut self, netns: NetnsId, out: Result<Out, Cause>, mut state: PacketState) {
        let machine = self.machine(netns);
        let out = match out {
            Ok(out) => out,
            Err(cause) => return self.end(state, Ended::Unsent(netns, cause)),
        };
        self.split_for(netns, out.interface, &mut state);
        if !state.is_attached() {
            state.tracking = self.look_up(netns, &state);
        }
        self.name_output(netns, out, &state.packet);
        state.packet = Packet { input: None, output: machine.interface(out.interface), bridge: None, ..state.packet };
        for mut state in self.hook(netns, Hook::Output, state, None) {
            // A packet sent by a tunnel still belongs to its device (`skb->dev`), which `ip_output` passes as the input interface. No other
            // locally generated packet has one.
            state.packet.input = state.carried.as_ref().and_then(|carried| carried.packet.output);
            let routed =
                |state: &PacketState| machine.route_output(state.packet.source, state.packet.destination, self.set());
            match if state.reroute { routed(&state) } else { Ok(out) } {
                Ok(out) => self.leave(netns, out, state),
                Err(cause) => self.end_without_way(netns, state, cause),
            }
        }
    }

    /// Narrows the set by the output interface, which rules may match, if the packet goes to one of many equivalent pods.
    fn name_output(&self, netns: NetnsId, out: Out, packet: &Packet) {
        let machine = self.machine(netns);
        let Some(set) = self.set().filter(|_| machine.alike.has(packet.destination, out.interface)) else { return };
        if let Some(own) = machine.interface(out.interface)
            && set.is_open(Field::Destination, address_bits(packet.destination))
        {
            set.name_interfaces(Field::Destination, own, &machine.alike.named[packet.family() as usize]);
        }
    }

    /// Ends the path of a process's packet that has no route after OUTPUT.
    pub(super) fn end_without_way(&mut self, netns: NetnsId, state: PacketState, cause: Cause) {
        // The kernel keeps trying to send a SYN (`tcp_connect`); for other packets it returns an error.
        let is_tcp = state.protocol(self.set()) == Some(Protocol::Tcp);
        self.end(state, if is_tcp { Ended::Dropped(netns, cause) } else { Ended::Unsent(netns, cause) });
    }

    /// The MTU of an interface, if a packet or a fragment of it is larger.
    pub(super) fn mtu_exceeded(&self, netns: NetnsId, interface: u32, state: &PacketState) -> Option<u16> {
        let mtu = self.machine(netns).netns.interface(interface)?.mtu;
        (state.extent.largest > mtu).then_some(mtu)
    }

    /// Fragments a packet that is too big for its sender's own link.
    fn split_for(&self, netns: NetnsId, interface: u32, state: &mut PacketState) {
        if let Some(mtu) = self.mtu_exceeded(netns, interface, state) {
            (state.extent.largest, state.extent.may_fragment) = (mtu, true);
        }
    }

    /// Sends a frame over a link.
    pub(super) fn over_link(&mut self, netns: NetnsId, interface: u32, mac: Mac, mut state: PacketState) {
        let own = self.machine(netns).netns.interface(interface);
        let Some((own, InterfaceKind::VethOwner(end) | InterfaceKind::VethPeer(end))) = own.map(|own| (own, &own.kind))
        else {
            return self.lose(netns, state, Cause::NoNeighbour);
        };
        // A link leaves room for the tag of a VLAN (`is_skb_forwardable`). Fragments made here fit the MTU.
        let too_big = || {
            let mtu = self.mtu_exceeded(netns, interface, &state)?;
            (state.extent.largest > mtu + VLAN_TAG).then_some(Cause::TooBig(mtu))
        };
        if let Some(cause) = self.cause_on_link(netns, own).or_else(too_big) {
            return self.lose(netns, state, cause);
        }
        // The mark is lost between namespaces (`skb_scrub_packet`).
        state.packet.mark = 0;
        let loss = own.impairment.loss;
        if !loss.is_zero() {
            let owner = self.network.topology.link_owner(netns, end.netns).to_owned();
            let share = |millionths: u32| Share::of(millionths, ALL_MILLIONTHS).within(state.share);
            let (lost, rest) = (share(loss.millionths()), share(ALL_MILLIONTHS - loss.millionths()));
            self.lose(netns, PacketState { share: lost, ..state.clone() }, Cause::Loss(owner));
            if rest == Share::ZERO {
                return;
            }
            state.share = rest;
        }
        let there = &self.machine(end.netns).netns;
        match there.role {
            Role::Pod | Role::Host => self.at_wire(end.netns, state),
            Role::Underlay | Role::Node | Role::RoutingPod => {
                match there.interface(end.index).map(|port| (port.bridge, port.mac)) {
                    Some((Some(bridge), _)) => self.enter_bridge(end.netns, bridge, end.index, mac, state),
                    Some((None, own)) if own == mac => self.come_in(end.netns, end.index, None, state),
                    _ => self.lose(end.netns, state, Cause::NoNeighbour),
                }
            }
        }
    }

    /// The reason why one end of a link does not send.
    pub(super) fn cause_on_link(&self, netns: NetnsId, end: &topology::Interface) -> Option<Cause> {
        let (InterfaceKind::VethOwner(far) | InterfaceKind::VethPeer(far)) = end.kind else { return None };
        (end.carrier != Carrier::Up)
            .then(|| Cause::LinkDown(self.network.topology.link_owner(netns, far.netns).to_owned()))
    }

    /// Receives a packet at a pod or an outside host.
    fn at_wire(&mut self, netns: NetnsId, state: PacketState) {
        let there = &self.machine(netns).netns;
        let own = there.addresses_on_wire.iter().map(|address| (address_bits(*address), address_bits(*address)));
        // Packets of the set that go to other equivalent pods have reached their own.
        let set = self.set().filter(|_| !state.is_at_one_of_many);
        if !is_among(set, Field::Destination, state.packet.destination, &own.collect()) {
            return self.lose(netns, state, Cause::NotItsAddress);
        }
        if state.carried.is_some() {
            // A pod does not decapsulate tunnels.
            return self.lose(netns, state, Cause::NoListener);
        }
        let at = there.name.clone();
        let how = if self.is_at_origin(netns, &state) { Ended::Returned } else { Ended::Received(netns, at) };
        self.end(state, how);
    }

    fn is_at_origin(&self, netns: NetnsId, state: &PacketState) -> bool {
        let is_about = |sent: &Tuple| match state.quoted {
            Some(quoted) => quoted == *sent && state.packet.destination == sent.source,
            None => state.destination() == SocketAddr::new(sent.source, sent.source_port),
        };
        self.is_answer && self.origin.netns == netns && is_about(&self.origin.sent)
    }

    /// Receives a packet at an interface of a machine's kernel.
    pub(super) fn come_in(&mut self, netns: NetnsId, by: u32, bridge: Option<BridgePorts>, state: PacketState) {
        let origin = &self.machine(self.origin.netns).netns;
        if netns == UNDERLAY
            && self.is_answer
            && origin.role == Role::Host
            && state.packet.destination == self.origin.sent.source
            && !origin.addresses_on_wire.contains(&state.packet.destination)
        {
            // The packet represents one from a host whose address no machine of the lab has.
            let how = if self.is_at_origin(self.origin.netns, &state) {
                Ended::Returned
            } else {
                Ended::Received(self.origin.netns, origin.name.clone())
            };
            return self.end(state, how);
        }
        for state in self.before_routing(netns, by, bridge, state) {
            self.route(netns, by, state);
        }
    }

    /// Evaluates PREROUTING.
    pub(super) fn before_routing(
        &mut self,
        netns: NetnsId,
        by: u32,
        bridge: Option<BridgePorts>,
        mut state: PacketState,
    ) -> Vec<PacketState> {
        if bridge.is_none() && has_ipv6_loopback(&state.packet, self.set()) {
            // `ip6_rcv_core`, before any rule.
            self.lose(netns, state, Cause::Martian);
            return Vec::new();
        }
        state.tracking = self.look_up(netns, &state);
        state.packet = Packet { input: self.machine(netns).interface(by), output: None, bridge, ..state.packet };
        self.hook(netns, Hook::Prerouting, state, None)
    }

    /// Routes a packet after PREROUTING.
    pub(super) fn route(&mut self, netns: NetnsId, by: u32, mut state: PacketState) {
        let machine = self.machine(netns);
        if state.packet.bridge.is_some() && has_ipv6_loopback(&state.packet, self.set()) {
            // Rules have seen the bridged packet before `ip6_rcv_core` does.
            return self.lose(netns, state, Cause::Martian);
        }
        match machine.route_input(by, state.packet.source, state.packet.destination, self.set()) {
            // `ip_error`, `ip6_pkt_discard`.
            Err(Cause::NoRoute) => {
                self.end(state, Ended::Rejected(netns, RejectResponse::NetUnreachable, Cause::NoRoute));
            }
            Err(cause) => self.lose(netns, state, cause),
            Ok(RoutingDecision::Local) => self.for_the_machine(netns, state),
            Ok(RoutingDecision::Forward(_)) if state.ttl <= 1 => self.lose(netns, state, Cause::TooManyHops),
            Ok(RoutingDecision::Forward(out)) => {
                // `ip_forward`, `ip6_forward`: before FORWARD. The size decides, whatever the kind of the response.
                if let Some(mtu) = self.mtu_exceeded(netns, out.interface, &state) {
                    if state.packet.destination.is_ipv6() || !state.extent.may_fragment {
                        return self
                            .end(state, Ended::Rejected(netns, RejectResponse::NetUnreachable, Cause::TooBig(mtu)));
                    }
                    state.extent.largest = mtu;
                }
                state.ttl -= 1;
                self.name_output(netns, out, &state.packet);
                state.packet.output = machine.interface(out.interface);
                for state in self.hook(netns, Hook::Forward, state, None) {
                    self.leave(netns, out, state);
                }
            }
        }
    }

    /// Evaluates POSTROUTING and sends the packet.
    fn leave(&mut self, netns: NetnsId, out: Out, mut state: PacketState) {
        state.packet.output = self.machine(netns).interface(out.interface);
        for mut state in self.hook(netns, Hook::Postrouting, state, Some(out)) {
            state.enter_in_table(netns);
            if out.interface == LOOPBACK {
                state.packet = Packet { input: Some(Interface::LOOPBACK), output: None, ..state.packet };
                // It is routed already, and its connection is attached.
                for state in self.hook(netns, Hook::Prerouting, state, None) {
                    self.for_the_machine(netns, state);
                }
            } else {
                self.hand_over(netns, out, state);
            }
        }
    }

    /// Sends a packet from an interface to the machine that has the next hop's address on the link.
    pub(super) fn hand_over(&mut self, netns: NetnsId, out: Out, mut state: PacketState) {
        let machine = self.machine(netns);
        let (plan, to) = (&machine.netns, state.packet.destination);
        state.is_at_one_of_many = out.next_hop == to && machine.alike.has(to, out.interface);
        let set = self.set().filter(|_| !state.is_at_one_of_many);
        let Some(mac) = machine.neighbours().find(out.interface, out.next_hop, to, set) else {
            return self.lose(netns, state, Cause::NoNeighbour);
        };
        match plan.interface(out.interface).map(|interface| &interface.kind) {
            Some(InterfaceKind::Vxlan { local, .. }) => self.enter_tunnel(netns, out.interface, *local, mac, state),
            Some(InterfaceKind::Bridge) => match self.port_toward(netns, out.interface, mac) {
                Some(port) => self.over_link(netns, port, mac, state),
                None => self.lose(netns, state, Cause::NoNeighbour),
            },
            _ => self.over_link(netns, out.interface, mac, state),
        }
    }

    /// Evaluates INPUT and delivers to the process that listens.
    fn for_the_machine(&mut self, netns: NetnsId, mut state: PacketState) {
        state.packet.output = None;
        for mut state in self.hook(netns, Hook::Input, state, None) {
            state.enter_in_table(netns);
            if state.carried.is_some() {
                self.leave_tunnel(netns, state);
            } else if self.is_at_origin(netns, &state) {
                self.end(state, Ended::Returned);
            } else {
                let protocol = state.protocol(self.set());
                let machine = self.machine(netns);
                let listener =
                    protocol.and_then(|protocol| machine.listener(protocol, state.destination(), self.set()));
                let how = match (listener, protocol) {
                    (Some(at), _) => Ended::Received(netns, at.to_owned()),
                    (None, Some(Protocol::Tcp)) => Ended::Rejected(netns, RejectResponse::TcpReset, Cause::NoListener),
                    (None, Some(Protocol::Udp)) => {
                        Ended::Rejected(netns, RejectResponse::PortUnreachable, Cause::NoListener)
                    }
                    (None, Some(Protocol::Sctp))
                        if self.has_sctp_listener(netns) && !machine.environment.kernel.replies_to_sctp() =>
                    {
                        Ended::Dropped(netns, Cause::NoListener)
                    }
                    (None, _) => Ended::Rejected(netns, RejectResponse::ProtocolUnreachable, Cause::NoListener),
                };
                self.end(state, how);
            }
        }
    }

    /// Whether a process listens for SCTP on a machine: it uses a raw socket, which receives the packets for all ports, and a kernel
    /// without SCTP rejects no packet that a raw socket receives (`ip_protocol_deliver_rcu`).
    fn has_sctp_listener(&self, netns: NetnsId) -> bool {
        let Origin { netns: origin, sent, .. } = self.origin;
        let is_process = !matches!(self.machine(origin).netns.role, Role::Pod | Role::Host);
        self.machine(netns).takes(Protocol::Sctp)
            || origin == netns && is_process && sent.protocol == Protocol::Sctp.number()
    }
}

/// Whether a packet has an address that is never on a wire.
fn has_ipv6_loopback(packet: &Packet, set: Set<'_>) -> bool {
    let ends = [(Field::Source, packet.source), (Field::Destination, packet.destination)];
    let is = |(field, address): (Field, IpAddr)| is_among(set, field, address, &loopback(Family::Ipv6));
    packet.destination.is_ipv6() && ends.into_iter().any(is)
}
