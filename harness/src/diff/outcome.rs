//! What becomes of packets, in words that can be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use svclab_rules::walk::{Packet, Share};

use crate::predict::{Cause, PredictedBranch, PredictedOutcome, PredictedReply, Prediction};
use crate::scenario::RejectKind;

/// By how much a share may differ: probabilities are written with ten digits in iptables mode, and `numgen` has none.
const TOLERANCE: f64 = 1e-6;

/// Whether the same becomes of a packet on both sides, with the same shares. Rules that decide may differ.
pub(super) fn is_alike(found: &[Option<Prediction>; 2], packet: &Packet) -> bool {
    is_alike_under(found, packet, &|address| address)
}

/// The same where other addresses stand on the second side for those of the first.
pub(super) fn is_alike_under(
    found: &[Option<Prediction>; 2],
    packet: &Packet,
    image: &dyn Fn(IpAddr) -> IpAddr,
) -> bool {
    let [Some(before), Some(after)] = found else { return found[0].is_none() && found[1].is_none() };
    let (before, after) = (shares(before, packet, image), shares(after, packet, &|address| address));
    before.len() == after.len()
        && before
            .iter()
            .zip(&after)
            .all(|((one, share), (other, of_other))| one == other && (share - of_other).abs() < TOLERANCE)
}

/// The rule that a prediction depends on and that is not modelled.
pub(super) fn unknown_rule(prediction: &Prediction) -> Option<String> {
    prediction.branches.iter().find_map(|branch| match &branch.outcome {
        PredictedOutcome::Unknown { rule, why } => Some(format!("{rule}: {why}")),
        PredictedOutcome::Delivered { reply: PredictedReply::Unknown(rule), .. } => Some(rule.to_string()),
        _ => None,
    })
}

/// Every outcome with its share. Why a packet is lost is left out, for rules of both modes differ.
fn shares(prediction: &Prediction, packet: &Packet, image: &dyn Fn(IpAddr) -> IpAddr) -> BTreeMap<String, f64> {
    let of = |address: &SocketAddr| SocketAddr::new(image(address.ip()), address.port());
    let mut shares = BTreeMap::new();
    for PredictedBranch { share, outcome, .. } in &prediction.branches {
        let words = match outcome {
            PredictedOutcome::Delivered { at, source, destination, reply } => {
                let keeps_port = packet.transport.ports().is_some_and(|(port, _)| port == source.port());
                let reply = match reply {
                    PredictedReply::From(address) => of(address).to_string(),
                    PredictedReply::Lost { .. } | PredictedReply::Unknown(_) => "none".to_owned(),
                };
                format!("{at} {} {} {keeps_port} {reply}", of(destination), image(source.ip()))
            }
            PredictedOutcome::Rejected { kind, at, .. } => format!("rejected {kind:?} {at}"),
            PredictedOutcome::Dropped { at, .. } => format!("dropped {at}"),
            PredictedOutcome::Unknown { rule, .. } => format!("unknown {rule}"),
        };
        *shares.entry(words).or_insert(0.0) += share.to_f64();
    }
    shares
}

/// What becomes of a packet, whichever endpoint it gets: `delivered to an endpoint, masqueraded`.
pub(super) fn kind(prediction: Option<&Prediction>, packet: &Packet) -> String {
    let Some(prediction) = prediction else { return "cannot be sent".to_owned() };
    let words: BTreeSet<String> =
        prediction.branches.iter().map(|branch| kind_of(&branch.outcome, prediction, packet)).collect();
    Vec::from_iter(words).join(", or ")
}

fn kind_of(outcome: &PredictedOutcome, prediction: &Prediction, packet: &Packet) -> String {
    match outcome {
        PredictedOutcome::Delivered { source, destination, reply, .. } => {
            let port = packet.transport.ports().map_or(0, |(_, port)| port);
            let asked = SocketAddr::new(packet.destination, port);
            // Of protocols without ports, the port is an identifier that rules do not translate.
            let has_ports = packet.transport.ports().is_some();
            let is_asked = |to: &SocketAddr| if has_ports { *to == asked } else { to.ip() == asked.ip() };
            let to = if is_asked(destination) { "delivered untranslated" } else { "delivered to an endpoint" };
            let masqueraded = if source.ip() == prediction.source.ip() { "" } else { ", masqueraded" };
            let reply = match reply {
                PredictedReply::From(address) if is_asked(address) => "",
                PredictedReply::From(_) => ", replies from another address",
                PredictedReply::Lost { .. } | PredictedReply::Unknown(_) => ", replies lost",
            };
            format!("{to}{masqueraded}{reply}")
        }
        PredictedOutcome::Rejected { kind, cause, .. } => {
            let how = match kind {
                RejectKind::TcpReset => " with a TCP reset",
                RejectKind::PortUnreachable => " with ICMP port unreachable",
                _ => "",
            };
            let why = if *cause == Cause::NoListener { ", as no process listens" } else { "" };
            format!("rejected{how}{why}")
        }
        PredictedOutcome::Dropped { at, .. } => match at.split_once('/') {
            Some(("node", _)) => "dropped on the node".to_owned(),
            Some((kind, _)) => format!("dropped on a {kind}"),
            None => "lost on the underlay".to_owned(),
        },
        PredictedOutcome::Unknown { .. } => "unknown".to_owned(),
    }
}

/// How many outcomes are listed.
const MOST_LISTED: usize = 4;

fn branch_words(branch: &PredictedBranch) -> String {
    if branch.share == Share::ONE {
        branch.outcome.to_string()
    } else {
        format!("{}: {}", branch.share, branch.outcome)
    }
}

/// What becomes of one packet, each outcome with its share.
pub(super) fn words(prediction: Option<&Prediction>) -> Vec<String> {
    let Some(prediction) = prediction else { return vec!["no address is fit to send it from".to_owned()] };
    let all = &prediction.branches;
    let mut words: Vec<String> = all.iter().take(MOST_LISTED).map(branch_words).collect();
    if let Some(more) = all.len().checked_sub(MOST_LISTED + 1) {
        words.push(format!("and {} more", more + 1));
    }
    words
}
