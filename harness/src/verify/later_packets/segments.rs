//! Later packets of the connection that a first packet opened, in both directions; and replies that conntrack classifies as INVALID.

use std::fmt;
use std::net::SocketAddr;

use svclab_rules::walk::{Packet, Transport};

use super::{FirstPacket, Later, endpoint, is_unknown, source};
use crate::predict::{Cause, Network, PredictedBranch, PredictedReply};
use crate::sources::{Disagreement, assumed};

/// The flags of later segments: ACK, with PSH, URG and FIN; and RST, alone and with ACK.
const FLAGS: [u8; 7] = [Transport::ACK, 24, 48, 17, 25, 4, 20];

/// A later packet of the sender.
#[derive(Clone, Copy)]
pub(super) struct LaterPacket {
    packet: Packet,
    /// Its number in the connection, from 2.
    number: usize,
    /// Whether the connection has seen a reply.
    is_replied: bool,
}

impl FirstPacket<'_, '_> {
    /// The packets that may follow as a given number after a reply: TCP segments with different flags, if rules compare them.
    pub(super) fn following(&self, number: usize) -> impl Iterator<Item = LaterPacket> {
        let first = self.packet;
        let flags = match first.transport {
            Transport::Tcp { .. } if self.depth.flags => &FLAGS[..],
            _ => &FLAGS[..1],
        };
        flags.iter().map(move |flags| {
            let transport = match first.transport {
                Transport::Tcp { source, destination, .. } => Transport::Tcp { source, destination, flags: *flags },
                other => other,
            };
            LaterPacket { packet: Packet { transport, ..first }, number, is_replied: true }
        })
    }

    /// A second datagram before the reply. Without marks and lists, it is handled like the first.
    pub(super) fn unreplied(&self, first: &PredictedBranch, to: SocketAddr, later: &mut Later) {
        let connections = first.unreplied.as_ref().unwrap_or(&first.connections);
        let is_marked = connections.iter().any(|(_, connection)| connection.mark != 0);
        let is_datagram = matches!(self.packet.transport, Transport::Udp { .. });
        if is_datagram && (is_marked || !first.remembered.is_empty()) {
            let sent = LaterPacket { packet: self.packet, number: 2, is_replied: false };
            self.judge(sent, (first, to), later);
        }
    }

    /// Judges a later packet after those that left `before`, and its reply, which has the same flags. Returns the branches in which it is
    /// delivered.
    pub(super) fn judge(
        &self,
        sent: LaterPacket,
        (before, to): (&PredictedBranch, SocketAddr),
        later: &mut Later,
    ) -> Vec<PredictedBranch> {
        let given = (before, sent.is_replied);
        let on = self.network.predict_later(self.senders, &sent.packet, given, Some(self.narrowing));
        let Some(on) = on else { return Vec::new() };
        let lost = on.branches.iter().find(|branch| endpoint(branch) != Some(to));
        let replies = || on.branches.iter().filter_map(|branch| branch.outcome.reply());
        let expected = before.outcome.reply().and_then(source);
        let lost_reply = replies().find(|reply| source(reply) != expected);
        let from = replies().map(|reply| source(reply).map_or("nowhere".to_owned(), |ip| ip.to_string()));
        let from = from.collect::<Vec<_>>().join(", ");
        let is_delivered = if lost.is_none() { "delivered" } else { "lost" };
        later.words.push(format!("{sent} to {to} is {is_delivered}, reply from {from}"));
        if let Some(what) = lost.map(|lost| lost.outcome.to_string()).or(lost_reply.map(ToString::to_string)) {
            match lost.is_some_and(is_unknown) || matches!(lost_reply, Some(PredictedReply::Unknown(_))) {
                true => later.add_fault(Disagreement::Unknown, format!("{sent} may be lost: {what}")),
                false => later.add_fault(Disagreement::Rules, format!("{sent} is lost: {what}")),
            }
        }
        if let Some(what) = assumed(&on) {
            later.add_fault(Disagreement::Rules, format!("{sent} {what}"));
        }
        on.branches.into_iter().filter(|branch| endpoint(branch) == Some(to)).collect()
    }

    /// A reply that conntrack classifies as INVALID: its source is not translated back, so the client would reset the connection. If the
    /// release drops such packets, other rules must drop them, too.
    pub(super) fn invalid(&self, first: &PredictedBranch, to: SocketAddr, later: &mut Later) {
        if !matches!(self.packet.transport, Transport::Tcp { .. }) {
            return;
        }
        let own = self.invalid_reply(self.network, first);
        let Some(leaked) = own.iter().find_map(source) else { return };
        let released = self.released.predict_set(self.senders, &self.packet, None, None);
        let branches = released.map(|(_, prediction)| prediction.branches).unwrap_or_default();
        let Some(same) = branches.iter().find(|branch| endpoint(branch) == Some(to)) else { return };
        let is_dropped = |reply: &PredictedReply| matches!(reply, PredictedReply::Lost { cause: Cause::Rule(_), .. });
        let released = self.invalid_reply(self.released, same);
        if !released.is_empty() && released.iter().all(is_dropped) {
            let what = format!(
                "a reply that conntrack classifies as INVALID is not dropped: the client gets it from {leaked}, and would \
                 reset the connection"
            );
            later.words.push(what.clone());
            later.add_fault(Disagreement::Rules, what);
        }
    }

    fn invalid_reply(&self, network: &Network<'_>, first: &PredictedBranch) -> Vec<PredictedReply> {
        let narrowing = std::ptr::eq(network, self.network).then_some(self.narrowing);
        network.predict_invalid_reply(self.senders, &self.packet, first, narrowing)
    }
}

impl fmt::Display for LaterPacket {
    /// `a later segment of a connection (ACK)`, `a second datagram of a flow before the reply`, `segment 5 from the client in a connection
    /// (ACK)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// Flags as netfilter names them: `ACK,PSH`.
fn names(flags: u8) -> String {
    let names = [(4, "RST"), (Transport::ACK, "ACK"), (8, "PSH"), (32, "URG"), (1, "FIN")];
    names.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect::<Vec<_>>().join(",")
}
