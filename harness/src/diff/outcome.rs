//! Whether the same becomes of a packet on both sides, and what, in full.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use svclab_rules::walk::{Packet, Share};

use crate::predict::{PredictedBranch, PredictedOutcome, PredictedReply, Prediction};

/// By how much a share may differ: probabilities are written with ten digits in iptables mode, and `numgen` has none.
pub(super) const TOLERANCE: f64 = 1e-6;

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
