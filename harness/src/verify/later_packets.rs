//! Packets after a first one: second connections of a client and first ones of others, if rules remember clients; later segments of a
//! connection, in both directions; and replies that conntrack classifies as INVALID.

use std::net::{IpAddr, SocketAddr};

use svclab_rules::promise::{Promise, PromisedOutcome};
use svclab_rules::walk::{Field, Narrowing, Packet, Region, Transport, address_bits, address_from_bits};

use crate::predict::{
    Cause, LaterReply, Network, PredictedBranch, PredictedOutcome, PredictedReply, Prediction, Senders,
};

/// The flags of later segments: ACK, with PSH, URG and FIN; and RST, alone and with ACK.
const LATER: [u8; 7] = [16, 24, 48, 17, 25, 4, 20];

/// The packets after the first that are examined.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Depth {
    /// Later segments of connections, in both directions. The release's own rules need no such check.
    pub(crate) segments: bool,
    /// The segments with all flags, if rules compare them.
    pub(crate) flags: bool,
}

/// The outcome of packets after a first one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Later {
    /// The outcome, in comparable words.
    pub(crate) words: Vec<String>,
    /// The fault, as a lower-case fragment.
    pub(crate) fault: Option<String>,
}

/// Whether the outcome of a packet or of its reply cannot be determined.
fn is_unknown(branch: &PredictedBranch) -> bool {
    matches!(
        branch.outcome,
        PredictedOutcome::Unknown { .. } | PredictedOutcome::Delivered { reply: PredictedReply::Unknown(_), .. }
    )
}

/// A first packet with its promise and prediction.
pub(super) struct FirstPacket<'x, 'a> {
    pub(super) network: &'x Network<'a>,
    /// The network with the release's own rules.
    pub(super) released: &'x Network<'a>,
    pub(super) senders: &'x Senders,
    pub(super) packet: Packet,
    pub(super) promise: &'x Promise,
    pub(super) prediction: &'x Prediction,
    /// The set of packets that this one represents.
    pub(super) narrowing: &'x Narrowing,
}

impl FirstPacket<'_, '_> {
    pub(super) fn later(&self, depth: Depth) -> Later {
        let mut later = Later::default();
        let PromisedOutcome::Delivered { endpoints, affinity_seconds } = &self.promise.outcome else { return later };
        // The outcome of later packets is then unknown, too; the first packet's result already says so.
        if self.prediction.branches.iter().any(is_unknown) {
            return later;
        }
        let are_remembered = self.prediction.branches.iter().any(|branch| !branch.remembered.is_empty());
        if are_remembered || affinity_seconds.is_some() && endpoints.len() > 1 {
            self.connections(*affinity_seconds, &mut later);
        }
        if depth.segments && matches!(self.packet.transport, Transport::Tcp { .. }) {
            self.segments(depth, &mut later);
        }
        // The order of branches does not matter.
        later.words.sort_unstable();
        later
    }

    /// Second connections of the client, and first ones of others.
    fn connections(&self, affinity: Option<u32>, later: &mut Later) {
        let seconds = affinity.unwrap_or(0);
        // Predict again: the prediction for an endpoint that connects to its own service contains only its own branch.
        let fresh = self.destinations(&self.packet, &[], 0);
        let other = self.another_client();
        let own = other.map(|other| self.destinations(&other, &[], 0));
        let all: Vec<&PredictedBranch> =
            self.prediction.branches.iter().filter(|one| endpoint(one).is_some()).collect();
        // If all first connections together change nothing, none of them does individually.
        let is_forgotten = self.destinations(&self.packet, &all, seconds.saturating_add(1)) == fresh;
        let is_private = other.map(|other| self.destinations(&other, &all, 0)) == own;
        for (first, to) in all.iter().filter_map(|first| Some((*first, endpoint(first)?))) {
            let first = std::slice::from_ref(&first);
            let at_once = self.destinations(&self.packet, first, seconds.saturating_sub(1));
            let afterwards = || self.destinations(&self.packet, first, seconds.saturating_add(1));
            let afterwards = (!is_forgotten).then(afterwards).filter(|afterwards| *afterwards != fresh);
            let behind = || other.map(|other| self.destinations(&other, first, 0));
            let behind = (!is_private).then(behind).filter(|behind| *behind != own).flatten();
            let words = |other: &Option<Vec<SocketAddr>>| other.as_deref().map_or("anywhere".to_owned(), listed);
            later.words.push(format!(
                "after a connection to {to}, the client's next one goes to {}, later ones to {}; another client's goes to {}",
                listed(&at_once),
                words(&afterwards),
                words(&behind),
            ));
            let fault = match affinity {
                None if at_once != fresh => {
                    Some(format!("a connection depends on an earlier one to {to}, without session affinity"))
                }
                Some(seconds) if at_once != [to] => Some(format!(
                    "a second connection of a client of {to} within {seconds} s may go to another endpoint"
                )),
                Some(seconds) if afterwards.is_some() => {
                    Some(format!("a client of {to} stays with it for longer than {seconds} s"))
                }
                _ if behind.is_some() => {
                    Some(format!("a connection of another client depends on an earlier one of a client of {to}"))
                }
                _ => None,
            };
            later.fault = later.fault.take().or(fault);
        }
    }

    /// Later segments of the client and of the endpoint.
    fn segments(&self, depth: Depth, later: &mut Later) {
        let Transport::Tcp { source, destination, .. } = self.packet.transport else { return };
        let flags = if depth.flags { &LATER[..] } else { &LATER[..1] };
        for first in &self.prediction.branches {
            let (Some(to), PredictedOutcome::Delivered { reply, .. }) = (endpoint(first), &first.outcome) else {
                continue;
            };
            for &flags in flags {
                let packet = Packet { transport: Transport::Tcp { source, destination, flags }, ..self.packet };
                let on = self.network.predict_later(self.senders, &packet, first, Some(self.narrowing));
                let lost = on.iter().flat_map(|on| &on.branches).find(|branch| endpoint(branch) != Some(to));
                let back = self.reply(self.network, first, LaterReply { flags, is_invalid: false });
                let lost_reply = back.iter().find(|back| from(back) != from(reply));
                let replies = back.iter().map(|reply| from(reply).map_or("nowhere".to_owned(), |ip| ip.to_string()));
                later.words.push(format!(
                    "later segments ({}) to {to} are {}, reply from {}",
                    names(flags),
                    if lost.is_none() { "delivered" } else { "lost" },
                    replies.collect::<Vec<_>>().join(", ")
                ));
                let fault = lost.map(|lost| lost.outcome.to_string()).or(lost_reply.map(ToString::to_string));
                let fault =
                    fault.map(|what| format!("a later segment of a connection ({}) is lost: {what}", names(flags)));
                later.fault = later.fault.take().or(fault);
            }
            self.invalid(first, to, later);
        }
    }

    /// A reply that conntrack classifies as INVALID: its source is not translated back, so the client would reset the connection. If the
    /// release drops such packets, other rules must drop them, too.
    fn invalid(&self, first: &PredictedBranch, to: SocketAddr, later: &mut Later) {
        let reply = LaterReply { flags: LATER[0], is_invalid: true };
        let own = self.reply(self.network, first, reply);
        let Some(leaked) = own.iter().find_map(from) else { return };
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
            later.fault = later.fault.take().or(Some(what));
        }
    }

    fn reply(&self, network: &Network<'_>, first: &PredictedBranch, later: LaterReply) -> Vec<PredictedReply> {
        let narrowing = std::ptr::eq(network, self.network).then_some(self.narrowing);
        network.predict_reply(self.senders, &self.packet, first, later, narrowing)
    }

    /// A packet of another client whose first connection has the same choice of endpoints.
    fn another_client(&self) -> Option<Packet> {
        if !self.senders.have_sources() {
            return None;
        }
        let region: Region = self.narrowing.region();
        let sources = &region[Field::Source];
        let own = address_bits(self.packet.source);
        let near = [1, 2, 4, 8, 16, 128, 256].map(|bit| own ^ bit);
        let any = sources.ranges().iter().flat_map(|(first, last)| [*first, *last]);
        let other = near.into_iter().filter(|other| sources.contains(*other)).chain(any).find(|other| *other != own)?;
        Some(Packet { source: address_from_bits(other, self.packet.family()), ..self.packet })
    }

    /// The possible destinations of a client's connection this many seconds after first ones.
    fn destinations(&self, packet: &Packet, first: &[&PredictedBranch], age: u32) -> Vec<SocketAddr> {
        let memory = self.network.memory(first.iter().flat_map(|first| &first.remembered), age);
        let predicted = self.network.predict_set(self.senders, packet, None, Some(&memory));
        predicted.map(|(_, prediction)| destinations(&prediction)).unwrap_or_default()
    }
}

fn endpoint(branch: &PredictedBranch) -> Option<SocketAddr> {
    match &branch.outcome {
        PredictedOutcome::Delivered { destination, .. } => Some(*destination),
        _ => None,
    }
}

fn from(reply: &PredictedReply) -> Option<SocketAddr> {
    match reply {
        PredictedReply::From(address) => Some(*address),
        _ => None,
    }
}

/// Flags as netfilter names them: `ACK,PSH`.
fn names(flags: u8) -> String {
    let names = [(4, "RST"), (16, "ACK"), (8, "PSH"), (32, "URG"), (1, "FIN")];
    names.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect::<Vec<_>>().join(",")
}

/// Destinations in words: see [`destinations`].
fn listed(all: &[SocketAddr]) -> String {
    let word = |to: &SocketAddr| if to.port() == 0 { "nowhere".to_owned() } else { to.to_string() };
    all.iter().map(word).collect::<Vec<_>>().join(" or ")
}

/// The destinations of packets; a lost packet counts as the unspecified address.
fn destinations(prediction: &Prediction) -> Vec<SocketAddr> {
    let nowhere = SocketAddr::new(IpAddr::from([0; 4]), 0);
    let mut all: Vec<SocketAddr> =
        prediction.branches.iter().map(|branch| endpoint(branch).unwrap_or(nowhere)).collect();
    all.sort_unstable();
    all.dedup();
    all
}
