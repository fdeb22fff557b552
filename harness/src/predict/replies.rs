//! Replies and errors on their path back to the sender.

use svclab_rules::cluster::{Family, Protocol};
use svclab_rules::walk::{
    Direction, Field, Hook, Interface, Packet, RejectResponse, State, Tracked, Tracking, Transport, Tuple,
};

use super::packet_state::{End, Ended, Extent, Origin, PacketState};
use super::prediction::{Cause, PredictedBranch, PredictedOutcome, PredictedReply, Stage, kind_of};
use super::route_table::Out;
use super::set_queries::Set;
use super::traversal::Traversal;
use super::{NetnsId, Network};
use crate::scenario::RejectKind;
use crate::topology::Role;
use crate::wire::Mac;

/// The flags of a SYN-ACK.
const SYN_ACK: u8 = Transport::SYN | Transport::ACK;
/// The type and code of ICMP errors about a packet's size, of both families.
const FRAGMENTATION_NEEDED: (u8, u8) = (3, 4);
const PACKET_TOO_BIG: (u8, u8) = (2, 0);
/// The flags of a reset.
const RST_ACK: u8 = Transport::RST | Transport::ACK;

/// A packet that a kernel rejects.
struct Rejected<'a> {
    /// The namespace that rejects it.
    netns: NetnsId,
    state: &'a PacketState,
    response: RejectResponse,
    cause: &'a Cause,
}

impl Rejected<'_> {
    /// Whether a rule rejects it before it is routed. In IPv4 the error then has a route to the sender instead of one to its destination
    /// (`nf_reject_fill_skb_dst`), so the kernel does not know that this is its own address (`__icmp_send`, `RTCF_LOCAL`). A packet that
    /// re-enters through `lo` keeps the route by which it was sent.
    fn is_unrouted(&self) -> bool {
        let is_before = |stage: &Stage| stage.hook == Hook::Prerouting && stage.came.input != Some(Interface::LOOPBACK);
        matches!(self.cause, Cause::Rule(_)) && self.state.last_stage().is_some_and(is_before)
    }
}

impl Network<'_> {
    /// The branches of a packet that ends here: one for each possible outcome of the reply or the rejection.
    pub(super) fn branches(&self, end: End, origin: Origin<'_>) -> Vec<PredictedBranch> {
        let End { state, how } = end;
        let name = |netns: NetnsId| self.topology.namespaces[netns].name.clone();
        let outcome = match how {
            Ended::Received(netns, at) => return self.delivered(netns, &at, &state, origin),
            // Only replies return to the origin.
            Ended::Returned => return Vec::new(),
            Ended::Rejected(netns, response, cause) => {
                return self.rejected(&Rejected { netns, state: &state, response, cause: &cause }, origin);
            }
            // No process sent a tunnel packet, so none gets an error.
            Ended::Unsent(netns, cause) if state.carried.is_some() => {
                PredictedOutcome::Dropped { at: name(netns), cause, rejected_at: None }
            }
            Ended::Unsent(netns, cause) => {
                PredictedOutcome::Rejected { kind: RejectKind::Unsent, at: name(netns), cause }
            }
            Ended::Dropped(netns, cause) => PredictedOutcome::Dropped { at: name(netns), cause, rejected_at: None },
            Ended::Unknown(rule, why) => PredictedOutcome::Unknown { rule, why },
        };
        vec![state.branch(outcome)]
    }

    /// The branches of a delivered packet: one for each end of its reply.
    fn delivered(&self, netns: NetnsId, at: &str, state: &PacketState, origin: Origin<'_>) -> Vec<PredictedBranch> {
        let replies = self.answers(netns, state, origin).into_iter();
        let of = |reply: End| {
            let outcome = PredictedOutcome::Delivered {
                at: at.to_owned(),
                source: state.source(),
                destination: state.destination(),
                reply: self.reply(&reply),
            };
            state.branch_with(&reply, outcome)
        };
        replies.map(of).collect()
    }

    /// The branches of a rejected packet: one for each end of the rejection.
    fn rejected(&self, rejected: &Rejected<'_>, origin: Origin<'_>) -> Vec<PredictedBranch> {
        let &Rejected { netns, state, response, cause } = rejected;
        let name = |netns: NetnsId| self.topology.namespaces[netns].name.clone();
        let kind = kind_of(response, cause);
        let rejections = match (response, cause, self.bridge_port(netns, state)) {
            (RejectResponse::TcpReset, Cause::Rule(_), Some(port)) => self.reset_by_port(netns, port, state, origin),
            _ => self.rejections(rejected, origin),
        };
        let of = |rejection: End| {
            let dropped = |at, cause| PredictedOutcome::Dropped { at: name(at), cause, rejected_at: Some(name(netns)) };
            let is_strange = kind == RejectKind::TcpReset && rejection.state.source() != origin.asked();
            let outcome = match rejection.how.clone() {
                // The sender has no connection with the address that this comes from.
                Ended::Returned if is_strange => dropped(origin.netns, Cause::NoListener),
                Ended::Returned => PredictedOutcome::Rejected { kind, at: name(netns), cause: cause.clone() },
                Ended::Unknown(rule, why) => PredictedOutcome::Unknown { rule, why },
                // The rejection is lost, so the sender gets nothing.
                Ended::Dropped(at, cause) | Ended::Unsent(at, cause) | Ended::Rejected(at, _, cause) => {
                    dropped(at, cause)
                }
                Ended::Received(at, _) => dropped(at, Cause::NoListener),
            };
            state.branch_with(&rejection, outcome)
        };
        rejections.into_iter().map(of).collect()
    }

    /// Follows the reply of the receiver of a packet.
    fn answers(&self, netns: NetnsId, state: &PacketState, origin: Origin<'_>) -> Vec<End> {
        let packet = &state.packet;
        let transport = match packet.transport {
            Transport::Tcp { source, destination, flags } => {
                // Of later segments, each direction has the same kinds.
                let flags = if state.is_replied { flags } else { SYN_ACK };
                Transport::Tcp { source: destination, destination: source, flags }
            }
            Transport::Udp { source, destination } => Transport::Udp { source: destination, destination: source },
            Transport::Sctp { source, destination } => Transport::Sctp { source: destination, destination: source },
            other => other,
        };
        let mut answer = PacketState::new(Packet::new(packet.destination, packet.source, transport));
        answer.known.clone_from(&state.known);
        answer.effects.clone_from(&state.effects);
        // The reply to a datagram has the same size, and is not fragmented if it fits the receiver's link.
        answer.extent = Extent { largest: state.extent.size, ..state.extent };
        let is_on_wire = matches!(self.topology.namespaces[netns].role, Role::Pod | Role::Host);
        if is_on_wire && packet.source == packet.destination {
            return vec![End { state: answer, how: Ended::Dropped(netns, Cause::OwnSource) }];
        }
        self.replies(netns, answer, origin)
    }

    /// Follows a packet from a receiver to the sender of what it received.
    pub(super) fn replies(&self, netns: NetnsId, answer: PacketState, origin: Origin<'_>) -> Vec<End> {
        let mut traversal = Traversal::back(self, origin);
        match self.topology.namespaces[netns].role {
            Role::Pod | Role::Host => {
                let next_hop = self.next_hop(netns, answer.packet.destination, traversal.set());
                traversal.send_from_wire(netns, next_hop, answer);
            }
            Role::Underlay | Role::Node | Role::RoutingPod => traversal.send_from_process(netns, answer),
        }
        traversal.finish()
    }

    /// Follows the response of the kernel that rejects a packet: a TCP reset, or an ICMP error from the packet's destination
    /// if that is its own address, otherwise from its address towards the sender.
    fn rejections(&self, rejected: &Rejected<'_>, origin: Origin<'_>) -> Vec<End> {
        let &Rejected { netns, state, response, cause } = rejected;
        let packet = &state.packet;
        let family = Family::of(packet.source);
        let error = match cause {
            Cause::TooBig(_) => Some(if family == Family::Ipv4 { FRAGMENTATION_NEEDED } else { PACKET_TOO_BIG }),
            _ => response.icmp(family),
        };
        let is_reset = error.is_none();
        let mut answer = error.map_or_else(|| reset(packet), |error| self.error(rejected, error, origin.narrowing));
        answer.known.clone_from(&state.known);
        answer.effects.clone_from(&state.effects);
        let mut traversal = Traversal::back(self, origin);
        // A kernel without SCTP rejects before it looks for a socket.
        let is_early = *cause != Cause::NoListener || state.protocol(origin.narrowing) == Some(Protocol::Sctp);
        if is_early {
            answer.tracking = attached(state.tracking, is_reset);
        } else if let Some(way) = self.way_of_reset(netns, packet).filter(|_| is_reset) {
            traversal.send_by(netns, way, answer);
            return traversal.finish();
        }
        traversal.send_from_process(netns, answer);
        traversal.finish()
    }

    /// An ICMP error of a type and code about a rejected packet.
    fn error(&self, rejected: &Rejected<'_>, (kind, code): (u8, u8), set: Set<'_>) -> PacketState {
        let (packet, machine) = (&rejected.state.packet, &self.machines[rejected.netns]);
        // Whether `::1` is local is checked only on the loopback interface (`ipv6_chk_addr`).
        let is_elsewhere = packet.destination.is_ipv6() && packet.destination.is_loopback();
        let is_own = machine.is_own(Field::Destination, packet.destination, set) && !is_elsewhere;
        let is_own = is_own && !(packet.source.is_ipv4() && rejected.is_unrouted());
        let toward = || machine.source_toward(packet.source, None).unwrap_or(packet.destination);
        let from = if is_own { packet.destination } else { toward() };
        let transport = Transport::Icmp { v6: from.is_ipv6(), kind, code, id: 0 };
        PacketState::new(Packet::new(from, packet.source, transport)).about(packet.tuple())
    }

    /// The route of a reset to a process at `::1`. The kernel looks up a route through the interface by which the segment arrived
    /// (`tcp_v6_send_response`, `rt6_need_strict`); for a local segment that is the interface of its destination address (`ip6_rcv_core`).
    /// Unless the destination is `::1`, it finds at best a default route, which leads to no host; but a packet that OUTPUT translates back
    /// or marks is rerouted through any interface. `None` if the choice of route makes no difference.
    fn way_of_reset(&self, netns: NetnsId, packet: &Packet) -> Option<Result<Out, Cause>> {
        let to = packet.source;
        if to.is_ipv4() || !to.is_loopback() {
            return None;
        }
        let machine = &self.machines[netns];
        let asked = || machine.environment.addresses.interface_of(packet.destination);
        let input = packet.input.filter(|input| *input != Interface::LOOPBACK).or_else(asked)?;
        let index = self.index_of(netns, input)?;
        Some(machine.route_by(index, to).ok_or(Cause::NoRoute))
    }

    /// The index of an interface; `lo` is not part of the plan.
    fn index_of(&self, netns: NetnsId, interface: Interface) -> Option<u32> {
        let mut interfaces = self.topology.namespaces[netns].interfaces.iter();
        interfaces.find(|one| Interface::new(&one.name) == Some(interface)).map(|one| one.index)
    }

    /// The bridge port by which a packet arrived, if the bridge passes packets to iptables.
    fn bridge_port(&self, netns: NetnsId, state: &PacketState) -> Option<u32> {
        self.index_of(netns, state.packet.bridge?.input?)
    }

    /// Follows the reset by which a rule rejects a bridged packet: it leaves through the port by which the packet arrived, and passes no
    /// rules and no translation (`nf_send_reset`, if there is `nf_bridge_info`).
    fn reset_by_port(&self, netns: NetnsId, port: u32, state: &PacketState, origin: Origin<'_>) -> Vec<End> {
        let mut traversal = Traversal::back(self, origin);
        traversal.over_link(netns, port, Mac::default(), reset(&state.packet));
        traversal.finish()
    }

    pub(super) fn reply(&self, answer: &End) -> PredictedReply {
        let at = |netns: &NetnsId| self.topology.namespaces[*netns].name.clone();
        match &answer.how {
            Ended::Returned => PredictedReply::From(answer.state.source()),
            Ended::Rejected(netns, _, cause) | Ended::Dropped(netns, cause) | Ended::Unsent(netns, cause) => {
                PredictedReply::Lost { at: at(netns), cause: cause.clone() }
            }
            // It reaches another host, which has no such flow.
            Ended::Received(netns, _) => PredictedReply::Lost { at: at(netns), cause: Cause::NoListener },
            Ended::Unknown(rule, _) => PredictedReply::Unknown(rule.clone()),
        }
    }
}

/// A reset of the connection that a segment would open.
fn reset(packet: &Packet) -> PacketState {
    let Tuple { source_port, destination_port, .. } = packet.tuple();
    let transport = Transport::Tcp { source: destination_port, destination: source_port, flags: RST_ACK };
    PacketState::new(Packet::new(packet.destination, packet.source, transport))
}

/// The conntrack state of a rejection by a rule or a route: it is attached to the connection of the rejected packet without a lookup
/// (`nf_ct_attach`). The error of a missing socket is sent after the packet has lost its conntrack entry.
fn attached(tracking: Tracking, is_reset: bool) -> Tracking {
    let Tracking::Tracked(tracked) = tracking else { return Tracking::Untracked };
    let direction = match tracked.direction {
        Direction::Original => Direction::Reply,
        Direction::Reply => Direction::Original,
    };
    let mut connection = tracked.connection;
    // No nat rules are evaluated for an error (`nf_nat_ipv4_fn`); for a reset, those that the connection has not traversed yet.
    connection.destination_settled |= !is_reset;
    connection.source_settled |= !is_reset;
    Tracking::Tracked(Tracked { connection, direction, state: State::Related, attached: true })
}
