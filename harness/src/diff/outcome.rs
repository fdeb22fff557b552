//! Compares the outcome of a packet on both sides, and describes it in full.

use std::net::{IpAddr, SocketAddr};

use svclab_rules::walk::Packet;

use crate::predict::{PredictedOutcome, PredictedReply, Prediction};
use crate::scenario::RejectKind;

/// The tolerance for shares: iptables mode writes probabilities with ten digits, and `numgen` has no probabilities.
pub(super) const TOLERANCE: f64 = 1e-6;

/// Returns whether the outcome of a packet is the same on both sides, with the same shares. The rules that decide it may differ.
pub(super) fn is_alike(found: [&Option<Prediction>; 2], packet: &Packet) -> bool {
    is_alike_under(found, packet, &|address| address)
}

/// Compares outcomes whose addresses differ by a mapping.
pub(super) fn is_alike_under(
    found: [&Option<Prediction>; 2],
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

/// Returns the rule that a prediction depends on and that is not modelled.
pub(super) fn unknown_rule(prediction: &Prediction) -> Option<String> {
    prediction.branches.iter().find_map(|branch| match &branch.outcome {
        PredictedOutcome::Unknown { rule, why } => Some(format!("{rule}: {why}")),
        PredictedOutcome::Delivered { reply: PredictedReply::Unknown(rule), .. } => Some(rule.to_string()),
        _ => None,
    })
}

/// The possible outcomes of a packet, as far as they are compared. The reason why a packet is lost is left out, because it differs between
/// the modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome<'p> {
    Delivered { at: &'p str, to: SocketAddr, source: IpAddr, keeps_port: bool, reply: Option<SocketAddr> },
    Rejected { at: &'p str, kind: RejectKind },
    Dropped { at: &'p str },
    Unknown { chain: &'p str, number: usize },
}

/// Returns every outcome with its share, in order.
fn shares<'p>(
    prediction: &'p Prediction,
    packet: &Packet,
    image: &dyn Fn(IpAddr) -> IpAddr,
) -> Vec<(Outcome<'p>, f64)> {
    let of = |address: &SocketAddr| SocketAddr::new(image(address.ip()), address.port());
    let own_port = packet.transport.ports().map(|(port, _)| port);
    let outcome = |outcome: &'p PredictedOutcome| match outcome {
        PredictedOutcome::Delivered { at, source, destination, reply } => Outcome::Delivered {
            at,
            to: of(destination),
            source: image(source.ip()),
            keeps_port: own_port == Some(source.port()),
            reply: match reply {
                PredictedReply::From(address) => Some(of(address)),
                PredictedReply::Lost { .. } | PredictedReply::Unknown(_) => None,
            },
        },
        PredictedOutcome::Rejected { kind, at, .. } => Outcome::Rejected { at, kind: *kind },
        PredictedOutcome::Dropped { at, .. } => Outcome::Dropped { at },
        PredictedOutcome::Unknown { rule, .. } => Outcome::Unknown { chain: &rule.chain, number: rule.number },
    };
    let branches = prediction.branches.iter();
    let mut shares: Vec<(Outcome<'_>, f64)> =
        branches.map(|branch| (outcome(&branch.outcome), branch.share.to_f64())).collect();
    shares.sort_unstable_by_key(|(outcome, _)| *outcome);
    shares.dedup_by(|(next, more), (one, share)| {
        let is_same = next == one;
        if is_same {
            *share += *more;
        }
        is_same
    });
    shares
}

/// The maximum number of outcomes listed.
const MAX_LISTED: usize = 4;

/// Returns the outcomes of a packet as text, each with its share.
pub(super) fn words(prediction: Option<&Prediction>) -> Vec<String> {
    let none = || vec!["no usable source address".to_owned()];
    prediction.map_or_else(none, |prediction| prediction.outcome_lines(MAX_LISTED))
}
