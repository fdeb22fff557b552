//! What comes back to the sender.

use svclab_rules::walk::{Interface, Packet, Transport};

use super::journey::{Journey, enter_in_table};
use super::leg::{End, Ended, Home, Leg};
use super::prediction::{Cause, Predicted, PredictedBranch, PredictedReply};
use super::{Network, SpaceId};
use crate::scenario::RejectKind;
use crate::topology::Role;
use crate::wire::Mac;

/// The flags of a SYN-ACK.
const SYN_ACK: u8 = 0x12;
/// Those of a reset.
const RST_ACK: u8 = 0x14;

impl Network<'_> {
    /// An end in words of a prediction, with all that can become of the answer.
    pub(super) fn branches(&self, end: End, home: Home) -> Vec<PredictedBranch> {
        let End { leg, how } = end;
        let branch = |leg: &Leg, outcome| PredictedBranch {
            share: leg.share,
            outcome,
            assumptions: leg.assumptions,
            stages: leg.stages(),
            back: Vec::new(),
        };
        let name = |space: SpaceId| self.topology.spaces[space].name.clone();
        let outcome = match how {
            Ended::Received(space, at) => {
                let answers = self.answers(space, &leg, home).into_iter();
                let of = |answer: End| {
                    let outcome = Predicted::Delivered {
                        at: at.clone(),
                        source: leg.source(),
                        destination: leg.destination(),
                        reply: self.reply(&answer),
                    };
                    let share = leg.share.within(answer.leg.share);
                    PredictedBranch { share, back: answer.leg.stages(), ..branch(&leg, outcome) }
                };
                return answers.map(of).collect();
            }
            // Only answers come home.
            Ended::Returned => return Vec::new(),
            Ended::Rejected(space, kind, cause) => {
                let told = match (kind, &cause, self.bridge_port(space, &leg)) {
                    (RejectKind::TcpReset, Cause::Rule(_), Some(port)) => self.reset_by_port(space, port, &leg, home),
                    _ => self.refusals(space, &leg, kind, home),
                };
                let told = told.into_iter();
                let of = |answer: End| {
                    let (share, back) = (leg.share.within(answer.leg.share), answer.leg.stages());
                    let is_strange = kind == RejectKind::TcpReset && answer.leg.source() != home.asked();
                    let outcome = match answer.how {
                        // The sender knows nothing of who says this.
                        Ended::Returned if is_strange => {
                            Predicted::Dropped { at: name(home.space), cause: Cause::NobodyListens }
                        }
                        Ended::Returned => Predicted::Rejected { kind, at: name(space), cause: cause.clone() },
                        Ended::Unknown(rule, why) => Predicted::Unknown { rule, why },
                        // The refusal is lost, so that the sender knows nothing.
                        Ended::Dropped(at, cause) | Ended::Unsent(at, cause) | Ended::Rejected(at, _, cause) => {
                            Predicted::Dropped { at: name(at), cause }
                        }
                        Ended::Received(at, _) => Predicted::Dropped { at: name(at), cause: Cause::NobodyListens },
                    };
                    PredictedBranch { share, back, ..branch(&leg, outcome) }
                };
                return told.map(of).collect();
            }
            // Nobody is told of a tunnel's packet.
            Ended::Unsent(space, cause) if leg.carried.is_some() => Predicted::Dropped { at: name(space), cause },
            Ended::Unsent(space, cause) => Predicted::Rejected { kind: RejectKind::Unsent, at: name(space), cause },
            Ended::Dropped(space, cause) => Predicted::Dropped { at: name(space), cause },
            Ended::Unknown(rule, why) => Predicted::Unknown { rule, why },
        };
        vec![branch(&leg, outcome)]
    }

    /// Follows the answer of whoever got a packet.
    fn answers(&self, space: SpaceId, leg: &Leg, home: Home) -> Vec<End> {
        let packet = &leg.packet;
        let transport = match packet.transport {
            Transport::Tcp { source, destination, .. } => {
                Transport::Tcp { source: destination, destination: source, flags: SYN_ACK }
            }
            Transport::Udp { source, destination } => Transport::Udp { source: destination, destination: source },
            Transport::Sctp { source, destination } => Transport::Sctp { source: destination, destination: source },
            other => other,
        };
        let mut answer = Leg::new(Packet::new(packet.destination, packet.source, transport));
        answer.known.clone_from(&leg.known);
        let mut journey = Journey::new(self, Some(home));
        match self.topology.spaces[space].role {
            Role::Pod | Role::Host => {
                let next_hop = self.topology.next_hop(space, packet.source);
                journey.send_from_wire(space, next_hop, answer);
            }
            Role::Underlay | Role::Node | Role::RoutingPod => journey.send_from_process(space, answer),
        }
        journey.finish()
    }

    /// Follows what a kernel says that refuses a packet: a TCP reset, or an ICMP error from the address that was asked where
    /// that is its own, else from the one towards the sender.
    fn refusals(&self, space: SpaceId, leg: &Leg, kind: RejectKind, home: Home) -> Vec<End> {
        let mut known = leg.clone();
        enter_in_table(space, &mut known);
        let packet = &leg.packet;
        let tuple = packet.tuple();
        let mut answer = match (kind, packet.transport) {
            (RejectKind::TcpReset, Transport::Tcp { source, destination, .. }) => {
                let transport = Transport::Tcp { source: destination, destination: source, flags: RST_ACK };
                Leg::new(Packet::new(packet.destination, packet.source, transport))
            }
            _ => {
                let machine = &self.machines[space];
                // `::1` is asked by the interface that has it alone (`ipv6_chk_addr`).
                let is_elsewhere = packet.destination.is_ipv6() && packet.destination.is_loopback();
                let is_own = machine.environment.addresses.interface_of(packet.destination).is_some() && !is_elsewhere;
                let toward = || machine.source_toward(packet.source).unwrap_or(packet.destination);
                let from = if is_own { packet.destination } else { toward() };
                let v6 = from.is_ipv6();
                let (kind, code) = if v6 { (1, 4) } else { (3, 3) };
                let transport = Transport::Icmp { v6, kind, code, id: 0 };
                let error = Leg::new(Packet::new(from, packet.source, transport));
                error.about(tuple)
            }
        };
        answer.known = known.known;
        let mut journey = Journey::new(self, Some(home));
        journey.send_from_process(space, answer);
        journey.finish()
    }

    /// The port of a bridge that a packet came in by, where the bridge hands packets to iptables.
    fn bridge_port(&self, space: SpaceId, leg: &Leg) -> Option<u32> {
        let input = leg.packet.bridge?.input?;
        let mut interfaces = self.topology.spaces[space].interfaces.iter();
        interfaces.find(|port| Interface::new(&port.name) == Some(input)).map(|port| port.index)
    }

    /// Follows the reset by which a rule refuses a packet from a bridge: it goes out by the port that the packet came in by, and
    /// meets no rule and no translation (`nf_send_reset`, where there is `nf_bridge_info`).
    fn reset_by_port(&self, space: SpaceId, port: u32, leg: &Leg, home: Home) -> Vec<End> {
        let Transport::Tcp { source, destination, .. } = leg.packet.transport else { return Vec::new() };
        let transport = Transport::Tcp { source: destination, destination: source, flags: RST_ACK };
        let reset = Leg::new(Packet::new(leg.packet.destination, leg.packet.source, transport));
        let mut journey = Journey::new(self, Some(home));
        journey.over_link(space, port, Mac::default(), reset);
        journey.finish()
    }

    fn reply(&self, answer: &End) -> PredictedReply {
        let at = |space: &SpaceId| self.topology.spaces[*space].name.clone();
        match &answer.how {
            Ended::Returned => PredictedReply::From(answer.leg.source()),
            Ended::Rejected(space, _, cause) | Ended::Dropped(space, cause) | Ended::Unsent(space, cause) => {
                PredictedReply::Lost { at: at(space), cause: cause.clone() }
            }
            // Somebody else gets it, who does not know what it is.
            Ended::Received(space, _) => PredictedReply::Lost { at: at(space), cause: Cause::NobodyListens },
            Ended::Unknown(rule, _) => PredictedReply::Unknown(rule.clone()),
        }
    }
}
