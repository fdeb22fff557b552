//! Compares packet classes with single packets and with the kernel, for random clusters: every packet of a class must be handled like the
//! class, and its witness like the kernel does.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use svclab_rules::walk::{Field, Intervals, Packet, Region, Share, Transport};

use crate::documents;
use crate::predict::{Cause, Network, PredictedOutcome, PredictedReply, Prediction, Senders};
use crate::run::RunError;
use crate::scenario::Probe;
use crate::sources::Context;
use crate::testing;
use crate::topology;
use crate::verify::{Boundaries, ClassWalk, Depth, vantages};

use super::agreement::compare_with_kernel;
use super::case::Case;
use super::dice::Dice;
use super::{load, mutations, number, text_of};

/// The number of packets of each class that are compared with it.
const PACKETS: usize = 2;

/// The result of a run.
#[derive(Debug, Default)]
struct Sum {
    classes: usize,
    packets: usize,
    witnesses: usize,
    unknown: usize,
    failures: Vec<String>,
}

#[test]
fn classes_agree_with_packets_and_kernel() {
    testing::privileged(|| {
        let seed = number("SVCLAB_SEED").unwrap_or(7);
        let clusters = number("SVCLAB_CLUSTERS").unwrap_or(6);
        let most = number("SVCLAB_WITNESSES").unwrap_or(150);
        println!("SVCLAB_SEED={seed} SVCLAB_CLUSTERS={clusters} SVCLAB_WITNESSES={most}");
        let cases = number("SVCLAB_CASE").map_or(0..clusters, |case| case..case + 1);
        let mut sum = Sum::default();
        for number in cases {
            attempt(seed as u64, number, most, &mut sum);
        }
        let Sum { classes, packets, witnesses, unknown, failures } = &sum;
        println!(
            "{classes} classes, {packets} packets agree with theirs, {witnesses} witnesses with the kernel; {unknown} unknown"
        );
        assert!(*packets > 0 && *witnesses > 0, "nothing was compared");
        assert!(failures.is_empty(), "{} clusters disagree:\n{}", failures.len(), failures.join("\n"));
    });
}

fn attempt(seed: u64, number: usize, most: usize, sum: &mut Sum) {
    let case = Case::of(seed, number, 0);
    let mut dice = Dice::of(seed ^ 0x00c1_a55e, number as u64);
    if let Err(what) = compare(&case, &mut dice, most, sum) {
        let made = mutations::listed(&case.mutations);
        let failure = format!("cluster {number}, {:?}: {what}\n{}{made}", case.backend, text_of(&case.scenario));
        println!("{failure}");
        sum.failures.push(failure);
    }
}

fn compare(case: &Case, dice: &mut Dice, most: usize, sum: &mut Sum) -> Result<(), String> {
    let scenario = load(&text_of(&case.scenario))?;
    let documents = documents::generate(&scenario, &scenario.cluster).map_err(|error| error.to_string())?;
    let documents = mutations::made(&case.mutations, documents);
    let topology = topology::plan(&scenario);
    let context = Context::of::<RunError>(&scenario.hosts, &topology, &documents, &scenario.cluster);
    let context = context.map_err(|error| error.to_string())?;
    let boundaries = Boundaries::of(&scenario.cluster);
    let class_walk = ClassWalk::new(&context, &context.network, &boundaries, Depth::default());
    let mut probes: Vec<Probe> = Vec::new();
    let mut wrong = String::new();
    for senders in Senders::of(&context.network, &vantages(&scenario)) {
        class_walk.all(&senders, None, |asked| {
            sum.classes += 1;
            for _ in 0..PACKETS {
                let packet = packet_of(dice, &asked.region);
                let Some((sent, found)) = alone(&context.network, &senders, &packet) else { continue };
                // Only the original direction is compared for the network: a reply is routed like the witness's.
                let with_replies = !loses_replies(&asked.prediction) && !loses_replies(&found);
                let expected = fates(&asked.prediction, &asked.packet, with_replies);
                let found = fates(&found, &sent, with_replies);
                if expected.contains_key(UNKNOWN) || found.contains_key(UNKNOWN) {
                    sum.unknown += 1;
                } else if expected == found {
                    sum.packets += 1;
                } else if wrong.is_empty() {
                    let _ = write!(
                        wrong,
                        "{} of {}: {packet:?} is handled as {found:#?}, its class ({}; witness {:?}) as {expected:#?}",
                        asked.vantage, asked.promise.outcome, asked.region, asked.packet
                    );
                }
            }
            probes.extend(asked.probe(&scenario));
        });
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    while probes.len() > most {
        let at = dice.below(probes.len());
        probes.swap_remove(at);
    }
    let agreement = compare_with_kernel(&scenario, &documents, &probes, case.backend);
    let agreement = agreement.map_err(|error| error.to_string())?;
    sum.witnesses += agreement.agreed;
    sum.unknown += agreement.unknown.len();
    match agreement.contradictions.first() {
        Some(first) => Err(format!("{:?}: {first:#?}", probes[first.probe])),
        None => Ok(()),
    }
}

/// The outcome of a packet if it is unknown.
const UNKNOWN: &str = "unknown";

/// The outcome of a single packet as it is sent; `None` if no sender can send it.
fn alone(network: &Network<'_>, senders: &Senders, packet: &Packet) -> Option<(Packet, Prediction)> {
    let is_own = senders.are_pods() && packet.source == packet.destination;
    network.predict_set(senders, packet, None, None).filter(|_| !is_own)
}

/// Whether the network loses a reply, and not a rule.
fn loses_replies(prediction: &Prediction) -> bool {
    prediction.branches.iter().any(|branch| match &branch.outcome {
        PredictedOutcome::Delivered { reply: PredictedReply::Lost { cause, .. }, .. } => {
            !matches!(cause, Cause::Rule(_) | Cause::Policy { .. })
        }
        PredictedOutcome::Dropped { cause, rejected_at: Some(_), .. } => {
            !matches!(cause, Cause::Rule(_) | Cause::Policy { .. })
        }
        _ => false,
    })
}

/// The outcomes of a packet, by shares. The packet's own addresses and ports are worded as such, because they differ within a class.
fn fates(prediction: &Prediction, packet: &Packet, with_replies: bool) -> BTreeMap<String, Share> {
    let mut fates = BTreeMap::new();
    for branch in &prediction.branches {
        let share: &mut Share = fates.entry(fate(&branch.outcome, packet, with_replies)).or_insert(Share::ZERO);
        *share = share.plus(branch.share);
    }
    fates
}

fn fate(outcome: &PredictedOutcome, packet: &Packet, with_replies: bool) -> String {
    let tuple = packet.tuple();
    let to = SocketAddr::new(tuple.destination, tuple.destination_port);
    // One of several pods may have a packet's own address.
    let place = |at: &str| if at.starts_with("pod/") { "a pod".to_owned() } else { at.to_owned() };
    let own = |address: SocketAddr, own: SocketAddr, name: &str| {
        let ip = if address.ip() == own.ip() { name.to_owned() } else { address.ip().to_string() };
        if address.port() == own.port() {
            format!("{ip} with its port")
        } else {
            format!("{ip} port {}", address.port())
        }
    };
    match outcome {
        PredictedOutcome::Delivered { at, source, destination, reply } => {
            let at = if destination.ip() == to.ip() { place(at) } else { at.clone() };
            let kept = source.ip() == tuple.source;
            // A port chosen by the kernel is the next one.
            let source = if kept { "its source".to_owned() } else { source.ip().to_string() };
            let reply = match reply {
                PredictedReply::Unknown(_) => return UNKNOWN.to_owned(),
                _ if !with_replies => "somewhere".to_owned(),
                PredictedReply::From(from) => own(*from, to, "the address asked"),
                PredictedReply::Lost { .. } => "nowhere".to_owned(),
            };
            format!("{at} at {}, from {source}, reply from {reply}", own(*destination, to, "its address"))
        }
        PredictedOutcome::Rejected { at, .. } | PredictedOutcome::Dropped { at, rejected_at: None, .. }
            if !with_replies =>
        {
            format!("lost at {}", place(at))
        }
        PredictedOutcome::Dropped { rejected_at: Some(at), .. } if !with_replies => format!("lost at {}", place(at)),
        PredictedOutcome::Rejected { kind, at, .. } => format!("rejected {kind:?} by {}", place(at)),
        PredictedOutcome::Dropped { at, .. } => format!("dropped at {}", place(at)),
        PredictedOutcome::Unknown { .. } => UNKNOWN.to_owned(),
    }
}

/// A packet of a region, randomly at an edge of its intervals.
fn packet_of(dice: &mut Dice, region: &Region) -> Packet {
    let one = Field::ALL.into_iter().fold(region.clone(), |one, field| {
        let (first, last) = *dice.pick(region[field].ranges());
        let inside = first + (last - first) / (1 + dice.below(7) as u128);
        let number = *dice.pick(&[first, last, inside]);
        one.with(field, Intervals::one(number))
    });
    let like = Packet::new(IpAddr::from([0; 4]), IpAddr::from([0; 4]), Transport::Other(0));
    one.witness(&like).expect("a class has packets")
}
