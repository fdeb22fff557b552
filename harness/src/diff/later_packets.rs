//! Packets after the first: later connections of its client if there is session affinity, and later segments of its connection if the rules
//! are replaced in between.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use svclab_rules::cluster::Cluster;
use svclab_rules::walk::{Packet, Transport};

use super::fate::{Contrast, PacketOutcome, PacketOutcomes};
use crate::predict::{Network, PredictedBranch, PredictedOutcome, PredictedReply, Prediction, Senders};

/// A first packet with its outcome on both sides.
#[derive(Clone, Copy)]
pub(super) struct Both<'x, 'a> {
    pub(super) networks: [&'x Network<'a>; 2],
    pub(super) senders: [&'x Senders; 2],
    pub(super) packet: &'x Packet,
    pub(super) found: &'x [Option<Prediction>; 2],
}

/// The times after which clients return: shortly before and after every affinity timeout.
pub(super) struct Ages {
    ends: BTreeSet<u32>,
    asked: BTreeSet<u32>,
}

impl Ages {
    pub(super) fn of(clusters: [&Cluster; 2]) -> Self {
        let services = clusters.into_iter().flat_map(|cluster| &cluster.services);
        let ends: BTreeSet<u32> = services.filter_map(|service| service.affinity_seconds).collect();
        let asked = ends.iter().flat_map(|end| [end.saturating_sub(1), end.saturating_add(1)]).collect();
        Self { ends, asked }
    }

    /// Returns how later connections of a client differ if first ones do not.
    pub(super) fn difference(&self, both: Both<'_, '_>) -> Option<Contrast> {
        let Both { networks, senders, packet, found } = both;
        let is_noted =
            |one: &Prediction| one.branches.len() > 1 && one.branches.iter().any(|one| !one.remembered.is_empty());
        if !found.iter().flatten().any(is_noted) {
            return None;
        }
        let [was, is] = [0, 1].map(|at| {
            let kept = found[at].as_ref().and_then(|first| self.kept(networks[at], senders[at], packet, first));
            self.fate(kept)
        });
        (was != is).then(|| Contrast::between(was, is))
    }

    /// Returns the longest of the tested times after which a client of each endpoint still returns to it.
    fn kept(&self, network: &Network<'_>, senders: &Senders, packet: &Packet, first: &Prediction) -> Option<u32> {
        let comes_back = |branch: &PredictedBranch, age: u32| {
            let again = network.predict_again(senders, packet, branch, age);
            let to = destination(&branch.outcome);
            again.is_some_and(|again| again.branches.iter().all(|branch| destination(&branch.outcome) == to))
        };
        let is_kept = |age: &u32| first.branches.iter().all(|branch| comes_back(branch, *age));
        self.asked.iter().copied().take_while(is_kept).last()
    }

    fn fate(&self, kept: Option<u32>) -> PacketOutcome {
        match kept {
            None => PacketOutcome::Anywhere,
            Some(age) if self.ends.contains(&(age + 1)) => PacketOutcome::Returns(age + 1),
            Some(age) => PacketOutcome::ReturnsForMoreThan(age.saturating_sub(1)),
        }
    }
}

/// Whether connections of one side can continue under the rules of the other: the namespaces must be the same.
pub(super) struct Lasting {
    is_comparable: bool,
}

impl Lasting {
    pub(super) fn of(networks: [&Network<'_>; 2]) -> Self {
        let [before, after] = networks.map(|network| &network.topology().namespaces);
        let is_alike =
            before.len() == after.len() && before.iter().zip(after).all(|(one, other)| one.name == other.name);
        Self { is_comparable: is_alike }
    }

    /// Returns how a translated TCP connection ends that is open when the rules are replaced. Packets with loopback addresses depend on a
    /// sysctl that is not reset.
    pub(super) fn broken(&self, both: Both<'_, '_>) -> Option<Contrast> {
        let Both { networks, senders, packet, found } = both;
        let Transport::Tcp { source, destination: port, .. } = packet.transport else { return None };
        if !self.is_comparable || packet.source.is_loopback() || packet.destination.is_loopback() {
            return None;
        }
        let later =
            Packet { transport: Transport::Tcp { source, destination: port, flags: Transport::ACK }, ..*packet };
        let first = found[0].as_ref()?.branches.iter().find(|branch| is_answered(&branch.outcome))?;
        if destination(&first.outcome) == Some(SocketAddr::new(packet.destination, port)) {
            return None;
        }
        let at = |side: usize| networks[side].predict_later(senders[side], &later, (first, true), None);
        let goes_on = |later: &Prediction| {
            later.branches.iter().all(|branch| {
                is_answered(&branch.outcome) && destination(&branch.outcome) == destination(&first.outcome)
            })
        };
        let after = at(1)?;
        (!goes_on(&after) && at(0).is_some_and(|before| goes_on(&before)))
            .then(|| Contrast::between(PacketOutcome::GoesOn, PacketOutcomes::of(Some(&after), &later)))
    }
}

fn destination(outcome: &PredictedOutcome) -> Option<SocketAddr> {
    match outcome {
        PredictedOutcome::Delivered { destination, .. } => Some(*destination),
        _ => None,
    }
}

fn is_answered(outcome: &PredictedOutcome) -> bool {
    matches!(outcome, PredictedOutcome::Delivered { reply: PredictedReply::From(_), .. })
}
