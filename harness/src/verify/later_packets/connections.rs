//! Second connections of a client, and first ones of other clients, if rules remember clients.

use std::net::{IpAddr, SocketAddr};

use svclab_rules::walk::{Field, Packet, Region, address_bits, address_from_bits};

use super::{FirstPacket, Later, endpoint};
use crate::predict::{PredictedBranch, Prediction};
use crate::sources::Disagreement;

impl FirstPacket<'_, '_> {
    /// Second connections of the client, and first ones of others, after first ones to each destination, which have left these states.
    pub(super) fn connections(
        &self,
        states: &[(SocketAddr, Vec<PredictedBranch>)],
        affinity: Option<u32>,
        later: &mut Later,
    ) {
        let seconds = affinity.unwrap_or(0);
        // Predict again: the prediction for an endpoint that connects to its own service contains only its own branch.
        let fresh = self.destinations(&self.packet, &[], 0);
        let other = self.another_client();
        let own = other.map(|other| self.destinations(&other, &[], 0));
        let all: Vec<&PredictedBranch> = states.iter().flat_map(|(_, states)| states).collect();
        // If all first connections together change nothing, none of them does individually.
        let is_forgotten = self.destinations(&self.packet, &all, seconds.saturating_add(1)) == fresh;
        let is_private = other.map(|other| self.destinations(&other, &all, 0)) == own;
        for (to, first) in states.iter().flat_map(|(to, states)| different_lists(states).map(move |one| (*to, one))) {
            let at_once = self.destinations(&self.packet, &[first], 0);
            let last = self.destinations(&self.packet, &[first], seconds.saturating_sub(1));
            let afterwards = || self.destinations(&self.packet, &[first], seconds.saturating_add(1));
            let afterwards = (!is_forgotten).then(afterwards).filter(|afterwards| *afterwards != fresh);
            let of_other = || other.map(|other| self.destinations(&other, &[first], 0));
            let of_other = (!is_private).then(of_other).filter(|of_other| *of_other != own).flatten();
            let words = |other: &Option<Vec<SocketAddr>>| other.as_deref().map_or("anywhere".to_owned(), listed);
            later.words.push(format!(
                "after a connection to {to}, the client's next one goes to {}, later ones to {}; another client's goes to {}",
                listed(&last),
                words(&afterwards),
                words(&of_other),
            ));
            let fault = match affinity {
                None if at_once != fresh => {
                    Some(format!("a connection depends on an earlier one to {to}, without session affinity"))
                }
                Some(seconds) if at_once != [to] || last != [to] => Some(format!(
                    "a second connection of a client of {to} within {seconds} s may go to another endpoint"
                )),
                Some(seconds) if afterwards.is_some() => {
                    Some(format!("a client of {to} stays with it for longer than {seconds} s"))
                }
                _ if of_other.is_some() => {
                    Some(format!("a connection of another client depends on an earlier one of a client of {to}"))
                }
                _ => None,
            };
            if let Some(what) = fault {
                later.add_fault(Disagreement::Rules, what);
            }
        }
        states.iter().for_each(|(to, states)| self.repeated(&states[0], *to, later));
        if affinity.is_none() && self.destinations(&self.packet, &all, 0) != fresh {
            let what = "a connection depends on earlier ones to several endpoints, without session affinity";
            later.add_fault(Disagreement::Rules, what.to_owned());
        }
    }

    /// Third and further connections of the client at once, as many as rules count: one that has another outcome than the second is a fault.
    fn repeated(&self, first: &PredictedBranch, to: SocketAddr, later: &mut Later) {
        let again = self.destinations(&self.packet, &[first], 0);
        let mut effects = first.remembered.clone();
        for number in 2..=self.depth.hits + 1 {
            let memory = self.network.memory(&effects, 0);
            let predicted = self.network.predict_set(self.senders, &self.packet, None, Some(&memory));
            let Some((_, prediction)) = predicted else { return };
            let destinations = destinations(&prediction);
            if number > 2 && destinations != again {
                let (earlier, now) = (number - 1, listed(&destinations));
                let what = format!("after {earlier} connections of a client to {to}, its next one goes to {now}");
                later.words.push(what.clone());
                return later.add_fault(Disagreement::Rules, what);
            }
            let Some(same) = prediction.branches.iter().find(|branch| endpoint(branch) == Some(to)) else { return };
            effects.extend(same.remembered.iter().cloned());
        }
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

/// The states that differ in what lists contain; marks of a connection do not matter for others.
fn different_lists(states: &[PredictedBranch]) -> impl Iterator<Item = &PredictedBranch> {
    let is_new = |at: usize| states[..at].iter().all(|earlier| earlier.remembered != states[at].remembered);
    states.iter().enumerate().filter(move |(at, _)| is_new(*at)).map(|(_, state)| state)
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
