//! What comes behind a first packet: second connections of a client and first ones of others, where there is session affinity; later
//! segments of a connection, where rules ask for the flags of TCP.

use std::net::{IpAddr, SocketAddr};

use svclab_rules::promise::Outcome;
use svclab_rules::walk::{Effect, Packet, Transport, address_bits, bits_address};

use super::survey::Asked;
use crate::predict::{Memory, Network, PredictedBranch, PredictedOutcome, Prediction};
use crate::sources::Context;

/// What is wrong with the affinity of a service's clients, as a lower-case fragment; `None` where each comes back to the endpoint of its
/// first connection, for as long as is promised, and no other client does.
pub(super) fn affinity_fault(context: &Context<'_>, asked: &Asked<'_>) -> Option<String> {
    let promise = context.promise(&asked.question);
    let Outcome::Delivered { endpoints, affinity_seconds: Some(seconds) } = &promise.outcome else { return None };
    if endpoints.len() < 2 {
        return None;
    }
    let again = Again { network: &context.network, asked, seconds: *seconds };
    asked.prediction.branches.iter().find_map(|branch| again.fault_behind(branch))
}

/// The flags of later segments: ACK, with PSH, URG and FIN.
const LATER: [u8; 5] = [16, 24, 48, 17, 25];

/// What is wrong with later segments of a promised connection, as a lower-case fragment; `None` where all get to the endpoint of the first.
pub(super) fn segment_fault(context: &Context<'_>, asked: &Asked<'_>) -> Option<String> {
    let promise = context.promise(&asked.question);
    let (Outcome::Delivered { .. }, Transport::Tcp { source, destination, .. }) =
        (&promise.outcome, asked.packet.transport)
    else {
        return None;
    };
    asked.prediction.branches.iter().find_map(|first| {
        let to = endpoint(first)?;
        LATER.into_iter().find_map(|flags| {
            let packet = Packet { transport: Transport::Tcp { source, destination, flags }, ..asked.packet };
            let later = context.network.predict_later(asked.senders, &packet, first)?;
            let lost = later.branches.iter().find(|branch| endpoint(branch) != Some(to))?;
            Some(format!("a later segment of a connection is lost (flags {flags:#04x}): {}", lost.outcome))
        })
    })
}

/// More connections behind the first one.
struct Again<'x, 'a> {
    network: &'x Network<'a>,
    asked: &'x Asked<'x>,
    seconds: u32,
}

impl Again<'_, '_> {
    fn fault_behind(&self, first: &PredictedBranch) -> Option<String> {
        let to = endpoint(first)?;
        let seconds = self.seconds;
        let soon = self.destinations(&self.asked.packet, first, seconds.saturating_sub(1))?;
        if soon != [to] {
            return Some(format!(
                "a second connection of a client of {to} within {seconds} s may go to another endpoint"
            ));
        }
        let late = self.destinations(&self.asked.packet, first, seconds.saturating_add(1))?;
        let fresh = destinations(&self.asked.prediction);
        if late != fresh {
            return Some(format!("a client of {to} stays with it for longer than {seconds} s"));
        }
        let other = self.another_client()?;
        let own = self.predict(&other, None)?;
        let behind = self.destinations(&other, first, 0)?;
        (behind != destinations(&own))
            .then(|| format!("a connection of another client depends on an earlier one of a client of {to}"))
    }

    /// A packet of another client whose first connection has the same choice.
    fn another_client(&self) -> Option<Packet> {
        if !self.asked.senders.have_sources() {
            return None;
        }
        let packet = self.asked.packet;
        let sources = &self.asked.region[svclab_rules::walk::Field::Source];
        let own = address_bits(packet.source);
        let near = [1, 2, 4, 8, 16, 128, 256].map(|bit| own ^ bit);
        let any = sources.ranges().iter().flat_map(|(first, last)| [*first, *last]);
        let other = near.into_iter().filter(|other| sources.contains(*other)).chain(any).find(|other| *other != own)?;
        Some(Packet { source: bits_address(other, packet.family()), ..packet })
    }

    /// Where a client's connection may go so many seconds after a first one.
    fn destinations(&self, packet: &Packet, first: &PredictedBranch, age: u32) -> Option<Vec<SocketAddr>> {
        let mut memory = Memory::new();
        for (netns, effect) in &first.remembered {
            let environment = memory.entry(*netns).or_insert_with(|| self.network.environment(*netns).clone());
            match effect {
                Effect::Note { list, address } => environment.recent.note(list, *address, age),
                Effect::Forget { list, address } => environment.recent.forget(list, *address),
            }
        }
        self.predict(packet, Some(&memory)).map(|prediction| destinations(&prediction))
    }

    fn predict(&self, packet: &Packet, memory: Option<&Memory>) -> Option<Prediction> {
        self.network.predict_set(self.asked.senders, packet, None, memory).map(|(_, prediction)| prediction)
    }
}

fn endpoint(branch: &PredictedBranch) -> Option<SocketAddr> {
    match &branch.outcome {
        PredictedOutcome::Delivered { destination, .. } => Some(*destination),
        _ => None,
    }
}

/// Where packets are delivered; what is lost counts as an address of none.
fn destinations(prediction: &Prediction) -> Vec<SocketAddr> {
    let nowhere = SocketAddr::new(IpAddr::from([0; 4]), 0);
    let mut all: Vec<SocketAddr> =
        prediction.branches.iter().map(|branch| endpoint(branch).unwrap_or(nowhere)).collect();
    all.sort_unstable();
    all.dedup();
    all
}
