//! Later packets of the connection that a first packet opened, in both directions; and replies that conntrack classifies as INVALID.

use std::fmt;

use svclab_rules::walk::{Packet, Transport};

use super::{FirstPacket, Later, LaterFault, endpoint, is_unknown, source};
use crate::predict::{Cause, Network, PredictedBranch, PredictedReply};
use crate::sources::{Disagreement, assumed};

/// The flags of later segments: ACK, with PSH, URG and FIN; and RST, alone and with ACK.
const FLAGS: [u8; 7] = [
    Transport::ACK,
    Transport::ACK | Transport::PSH,
    Transport::ACK | Transport::URG,
    Transport::ACK | Transport::FIN,
    Transport::ACK | Transport::PSH | Transport::FIN,
    Transport::RST,
    Transport::RST | Transport::ACK,
];

/// The order in which flags are named.
const NAMED: [u8; 5] = [Transport::RST, Transport::ACK, Transport::PSH, Transport::URG, Transport::FIN];

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
    pub(super) fn unreplied(&self, first: &PredictedBranch, later: &mut Later) {
        let connections = first.unreplied.as_ref().unwrap_or(&first.connections);
        let is_marked = connections.iter().any(|(_, connection)| connection.mark != 0);
        let is_datagram = matches!(self.packet.transport, Transport::Udp { .. });
        if is_datagram && (is_marked || !first.remembered.is_empty()) {
            let sent = LaterPacket { packet: self.packet, number: 2, is_replied: false };
            self.judge(sent, first, later);
        }
    }

    /// Judges a later packet after those that left `before`, and its reply, which has the same flags. Returns the branches in which it is
    /// delivered.
    pub(super) fn judge(&self, sent: LaterPacket, before: &PredictedBranch, later: &mut Later) -> Vec<PredictedBranch> {
        let given = (before, sent.is_replied);
        let prediction = self.network.predict_later(self.senders, &sent.packet, given, Some(self.narrowing));
        let Some((prediction, to)) = prediction.zip(endpoint(before)) else { return Vec::new() };
        let lost = prediction.branches.iter().find(|branch| endpoint(branch) != Some(to));
        let replies = || prediction.branches.iter().filter_map(|branch| branch.outcome.reply());
        let expected = before.outcome.reply().and_then(source);
        let lost_reply = replies().find(|reply| source(reply) != expected);
        let from = replies().map(|reply| source(reply).map_or("nowhere".to_owned(), |ip| ip.to_string()));
        let from = from.collect::<Vec<_>>().join(", ");
        let outcome = if lost.is_none() { "delivered" } else { "lost" };
        later.words.push(format!("{sent} to {to} is {outcome}, reply from {from}"));
        let fault = |disagreement, what| LaterFault { disagreement, what, prediction: Some(prediction.clone()) };
        if let Some(what) = lost.map(|lost| lost.outcome.to_string()).or(lost_reply.map(ToString::to_string)) {
            let is_unknown = lost.is_some_and(is_unknown) || matches!(lost_reply, Some(PredictedReply::Unknown(_)));
            later.keep(match is_unknown {
                true => fault(Disagreement::Unknown, format!("{sent} may be lost: {what}")),
                false => fault(Disagreement::Rules, format!("{sent} is lost: {what}")),
            });
        }
        if let Some(what) = assumed(&prediction) {
            later.keep(fault(Disagreement::Rules, format!("{sent} {what}")));
        }
        prediction.branches.into_iter().filter(|branch| endpoint(branch) == Some(to)).collect()
    }

    /// A reply that conntrack classifies as INVALID: its source is not translated back, so the client would reset the connection. If the
    /// release drops such packets, other rules must drop them, too.
    pub(super) fn invalid(&self, first: &PredictedBranch, later: &mut Later) {
        if !matches!(self.packet.transport, Transport::Tcp { .. }) {
            return;
        }
        let own = self.invalid_reply(self.network, first);
        let Some(leaked) = own.iter().find_map(source) else { return };
        let released = self.released.predict_set(self.senders, &self.packet, None, None);
        let branches = released.map(|(_, prediction)| prediction.branches).unwrap_or_default();
        let Some(same) = branches.iter().find(|branch| endpoint(branch) == endpoint(first)) else { return };
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
    let name = |bit: u8| Transport::FLAGS.into_iter().find(|(_, other)| *other == bit).map(|(name, _)| name);
    NAMED.into_iter().filter(|bit| flags & bit != 0).filter_map(name).collect::<Vec<_>>().join(",")
}
