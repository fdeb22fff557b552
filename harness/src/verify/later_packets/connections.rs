//! Second connections of a client, and first ones of other clients, if rules remember clients.

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use svclab_rules::walk::{Field, Packet, Region, address_bits, address_from_bits};

use super::{FirstPacket, Later, endpoint};
use crate::predict::{PredictedBranch, Prediction};
use crate::sources::Disagreement;

/// The destinations of connections after a first one.
struct Afterwards {
    /// The destination of the first one.
    to: SocketAddr,
    /// Those of the client's next connection at once.
    at_once: Vec<SocketAddr>,
    /// The same at the end of the affinity time.
    last: Vec<SocketAddr>,
    /// The same after that time, if the first connection still makes a difference.
    expired: Option<Vec<SocketAddr>>,
    /// Those of another client's first connection, if the client's makes a difference.
    of_other: Option<Vec<SocketAddr>>,
}

impl FirstPacket<'_, '_> {
    /// Second connections of the client, and first ones of others, after first ones, each of which has left one of these states.
    pub(super) fn connections(&self, states: &[Vec<PredictedBranch>], affinity: Option<u32>, later: &mut Later) {
        // Predict again: the prediction for an endpoint that connects to its own service contains only its own branch.
        let fresh = self.destinations(&self.packet, &[], 0);
        let all: Vec<&PredictedBranch> = states.iter().flatten().collect();
        for after in self.afterwards(states, &all, &fresh, affinity.unwrap_or(0)) {
            later.words.push(after.to_string());
            if let Some(what) = after.fault(affinity, &fresh) {
                later.add_fault(Disagreement::Rules, what);
            }
        }
        states.iter().for_each(|states| self.repeated(&states[0], later));
        if affinity.is_none() && self.destinations(&self.packet, &all, 0) != fresh {
            let what = "a connection depends on earlier ones to several endpoints, without session affinity";
            later.add_fault(Disagreement::Rules, what.to_owned());
        }
    }

    /// The connections after each state that differs in what lists contain; marks of a connection do not matter for others. `fresh` are
    /// the destinations of a first connection.
    fn afterwards(
        &self,
        states: &[Vec<PredictedBranch>],
        all: &[&PredictedBranch],
        fresh: &[SocketAddr],
        seconds: u32,
    ) -> Vec<Afterwards> {
        let other = self.another_client();
        let own = other.map(|other| self.destinations(&other, &[], 0));
        // If all first connections together change nothing, none of them does individually.
        let is_forgotten = self.destinations(&self.packet, all, seconds.saturating_add(1)) == fresh;
        let is_private = other.map(|other| self.destinations(&other, all, 0)) == own;
        let of = |first: &PredictedBranch| {
            let after = |seconds: u32| self.destinations(&self.packet, &[first], seconds);
            let expired = (!is_forgotten).then(|| after(seconds.saturating_add(1)));
            let of_other = other.filter(|_| !is_private).map(|other| self.destinations(&other, &[first], 0));
            Some(Afterwards {
                to: endpoint(first)?,
                at_once: after(0),
                last: after(seconds.saturating_sub(1)),
                expired: expired.filter(|expired| expired != fresh),
                of_other: of_other.filter(|of_other| Some(of_other) != own.as_ref()),
            })
        };
        let different = states.iter().flat_map(|states| {
            let mut known = HashSet::new();
            states.iter().filter(move |state| known.insert(&state.remembered))
        });
        different.filter_map(of).collect()
    }

    /// Third and further connections of the client at once, as many as rules count: one that has another outcome than the second is a fault.
    fn repeated(&self, first: &PredictedBranch, later: &mut Later) {
        let Some(to) = endpoint(first) else { return };
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

impl Afterwards {
    /// What is not as promised. `fresh` are the destinations of a first connection.
    fn fault(&self, affinity: Option<u32>, fresh: &[SocketAddr]) -> Option<String> {
        let Self { to, at_once, last, expired, of_other } = self;
        match affinity {
            None if at_once != fresh => {
                Some(format!("a connection depends on an earlier one to {to}, without session affinity"))
            }
            Some(seconds) if [at_once, last].into_iter().any(|destinations| *destinations != [*to]) => {
                Some(format!("a second connection of a client of {to} within {seconds} s may go to another endpoint"))
            }
            Some(seconds) if expired.is_some() => {
                Some(format!("a client of {to} stays with it for longer than {seconds} s"))
            }
            _ if of_other.is_some() => {
                Some(format!("a connection of another client depends on an earlier one of a client of {to}"))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Afterwards {
    /// All destinations, to compare them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { to, at_once: _, last, expired, of_other } = self;
        let words = |other: &Option<Vec<SocketAddr>>| other.as_deref().map_or("anywhere".to_owned(), listed);
        let (last, expired, of_other) = (listed(last), words(expired), words(of_other));
        write!(f, "after a connection to {to}, the client's next one goes to {last}, ")?;
        write!(f, "later ones to {expired}; another client's goes to {of_other}")
    }
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
