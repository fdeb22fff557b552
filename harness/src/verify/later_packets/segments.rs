//! Later packets of the connection that a first packet opened, in both directions; and replies that conntrack classifies as INVALID.

use std::net::SocketAddr;

use svclab_rules::walk::{Packet, Transport};

use super::{FirstPacket, Later, endpoint, is_unknown, source};
use crate::predict::{Cause, LaterReply, Network, PredictedBranch, PredictedReply};

/// The flags of later segments: ACK, with PSH, URG and FIN; and RST, alone and with ACK.
const FLAGS: [u8; 7] = [Transport::ACK, 24, 48, 17, 25, 4, 20];

/// The number of packets after the first that are followed while each changes a mark or a list. Rules that count further are not found.
const MAX_PACKETS: usize = 8;

/// A later packet of the sender.
#[derive(Clone, Copy)]
struct LaterPacket {
    packet: Packet,
    /// Its number in the connection, from 2.
    number: usize,
    /// Whether the connection has seen a reply.
    is_replied: bool,
}

impl FirstPacket<'_, '_> {
    /// Examines later packets of the sender and of the endpoint, in each branch.
    pub(super) fn segments(&self, later: &mut Later) {
        for first in &self.prediction.branches {
            let Some(to) = endpoint(first) else { continue };
            self.replied(first, to, later);
            match self.packet.transport {
                Transport::Tcp { .. } => self.invalid(first, to, later),
                Transport::Udp { .. } => self.unreplied(first, to, later),
                _ => {}
            }
        }
    }

    /// A second datagram before the reply. Without marks and lists, it is handled like the first.
    fn unreplied(&self, first: &PredictedBranch, to: SocketAddr, later: &mut Later) {
        let connections = first.unreplied.as_ref().unwrap_or(&first.connections);
        let is_marked = connections.iter().any(|(_, connection)| connection.mark != 0);
        if is_marked || !first.remembered.is_empty() {
            let sent = LaterPacket { packet: self.packet, number: 2, is_replied: false };
            self.judge(sent, (first, to), later);
        }
    }

    /// Packets after the reply, until one changes nothing for the next.
    fn replied(&self, first: &PredictedBranch, to: SocketAddr, later: &mut Later) {
        let most = MAX_PACKETS.max(self.depth.hits as usize);
        let mut last = None;
        for number in 2..=most + 1 {
            let before = last.as_ref().unwrap_or(first);
            let sent = LaterPacket { packet: self.with_flags(FLAGS[0]), number, is_replied: true };
            let after = self.judge(sent, (before, to), later);
            if number == 2 && self.depth.flags {
                for flags in &FLAGS[1..] {
                    self.judge(LaterPacket { packet: self.with_flags(*flags), ..sent }, (before, to), later);
                }
            }
            match after {
                Some(after) if !has_same_state(&after, before) => last = Some(after),
                _ => return,
            }
        }
    }

    /// The packet with other flags; only TCP has them.
    fn with_flags(&self, flags: u8) -> Packet {
        match self.packet.transport {
            Transport::Tcp { source, destination, .. } => {
                Packet { transport: Transport::Tcp { source, destination, flags }, ..self.packet }
            }
            _ => self.packet,
        }
    }

    /// Judges a later packet after those that left `before`, and a packet of the endpoint with the same flags. Returns the branch in which
    /// it is delivered and replied to.
    fn judge(
        &self,
        sent: LaterPacket,
        (before, to): (&PredictedBranch, SocketAddr),
        later: &mut Later,
    ) -> Option<PredictedBranch> {
        let given = (before, sent.is_replied);
        let on = self.network.predict_later(self.senders, &sent.packet, given, Some(self.narrowing))?;
        let lost = on.branches.iter().find(|branch| endpoint(branch) != Some(to));
        let back = match sent.packet.transport {
            Transport::Tcp { flags, .. } => self.reply(self.network, before, LaterReply { flags, is_invalid: false }),
            _ => on.branches.iter().filter_map(|branch| branch.outcome.reply().cloned()).collect(),
        };
        let expected = before.outcome.reply().and_then(source);
        let lost_reply = back.iter().find(|back| source(back) != expected);
        let from = back.iter().map(|reply| source(reply).map_or("nowhere".to_owned(), |ip| ip.to_string()));
        let from = from.collect::<Vec<_>>().join(", ");
        let is_delivered = if lost.is_none() { "delivered" } else { "lost" };
        later.words.push(format!("{sent} to {to} is {is_delivered}, reply from {from}"));
        let is_unknown = lost.is_some_and(is_unknown) || matches!(lost_reply, Some(PredictedReply::Unknown(_)));
        let is_lost = if is_unknown { "may be lost" } else { "is lost" };
        let fault = lost.map(|lost| lost.outcome.to_string()).or(lost_reply.map(ToString::to_string));
        later.add_fault(fault.map(|what| format!("{sent} {is_lost}: {what}")));
        on.branches.into_iter().find(|branch| endpoint(branch) == Some(to))
    }

    /// A reply that conntrack classifies as INVALID: its source is not translated back, so the client would reset the connection. If the
    /// release drops such packets, other rules must drop them, too.
    fn invalid(&self, first: &PredictedBranch, to: SocketAddr, later: &mut Later) {
        let reply = LaterReply { flags: FLAGS[0], is_invalid: true };
        let own = self.reply(self.network, first, reply);
        let Some(leaked) = own.iter().find_map(source) else { return };
        let released = self.released.predict_set(self.senders, &self.packet, None, None);
        let branches = released.map(|(_, prediction)| prediction.branches).unwrap_or_default();
        let Some(same) = branches.iter().find(|branch| endpoint(branch) == Some(to)) else { return };
        let is_dropped = |reply: &PredictedReply| matches!(reply, PredictedReply::Lost { cause: Cause::Rule(_), .. });
        let released = self.reply(self.released, same, reply);
        if !released.is_empty() && released.iter().all(is_dropped) {
            let what = format!(
                "a reply that conntrack classifies as INVALID is not dropped: the client gets it from {leaked}, and would \
                 reset the connection"
            );
            later.words.push(what.clone());
            later.add_fault(Some(what));
        }
    }

    fn reply(&self, network: &Network<'_>, first: &PredictedBranch, later: LaterReply) -> Vec<PredictedReply> {
        let narrowing = std::ptr::eq(network, self.network).then_some(self.narrowing);
        network.predict_reply(self.senders, &self.packet, first, later, narrowing)
    }
}

impl std::fmt::Display for LaterPacket {
    /// `a later segment of a connection (ACK)`, `a second datagram of a flow before the reply`, `segment 5 from the client in a connection (ACK)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, whole) = match self.packet.transport {
            Transport::Tcp { .. } => ("segment", "a connection"),
            Transport::Udp { .. } => ("datagram", "a flow"),
            _ => ("packet", "an association"),
        };
        match (self.is_replied, self.number) {
            (false, _) => write!(f, "a second {kind} of {whole} before the reply")?,
            (true, 2) => write!(f, "a later {kind} of {whole}")?,
            (true, number) => write!(f, "{kind} {number} from the client in {whole}")?,
        }
        match self.packet.transport {
            Transport::Tcp { flags, .. } => write!(f, " ({})", names(flags)),
            _ => Ok(()),
        }
    }
}

/// Whether the next packet meets the same marks and lists.
fn has_same_state(one: &PredictedBranch, other: &PredictedBranch) -> bool {
    one.connections == other.connections && one.remembered == other.remembered
}

/// Flags as netfilter names them: `SYN`, `ACK,PSH`.
fn names(flags: u8) -> String {
    let names = [(Transport::SYN, "SYN"), (4, "RST"), (Transport::ACK, "ACK"), (8, "PSH"), (32, "URG"), (1, "FIN")];
    names.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect::<Vec<_>>().join(",")
}
