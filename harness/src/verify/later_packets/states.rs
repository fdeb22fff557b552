//! The states of a connection that rules distinguish: its marks, and the lists to which they add its packets.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use svclab_rules::walk::{Effect, Tuple};

use super::{FirstPacket, Later};
use crate::predict::PredictedBranch;
use crate::sources::Disagreement;
use crate::topology::NetnsId;

/// The maximum number of states of a connection that are followed, in addition to the number of packets that rules count.
const MAX_STATES: usize = 63;

/// What rules can distinguish after some packets of a connection.
#[derive(PartialEq, Eq, Hash)]
struct State {
    marks: Vec<(NetnsId, Tuple, u32)>,
    /// The number of times that each address was added to a list, as far as rules count.
    listed: BTreeMap<(NetnsId, String, IpAddr), usize>,
}

impl State {
    /// The state that packets have left; rules count `hits` packets.
    fn of(after: &PredictedBranch, hits: usize) -> Self {
        let marks = after.connections.iter().map(|(netns, one)| (*netns, one.original, one.mark)).collect();
        let mut listed = BTreeMap::new();
        for (netns, effect) in &after.remembered {
            match effect {
                Effect::Add { list, address } => {
                    let times: &mut usize = listed.entry((*netns, list.to_string(), *address)).or_default();
                    *times = hits.min(*times + 1);
                }
                Effect::Remove { list, address } => drop(listed.remove(&(*netns, list.to_string(), *address))),
            }
        }
        Self { marks, listed }
    }
}

impl FirstPacket<'_, '_> {
    /// Follows a connection from its first packet and the reply through all states that later packets lead to, and judges these packets.
    /// Returns a branch for each state, starting with the first packet's.
    pub(super) fn follow(&self, first: &PredictedBranch, later: &mut Later) -> Vec<PredictedBranch> {
        let hits = self.depth.hits.max(1) as usize;
        let most = MAX_STATES + hits;
        let mut known = HashSet::from([State::of(first, hits)]);
        // Each with the number of the client's packets that led there.
        let mut states = vec![(first.clone(), 1)];
        let mut next = 0;
        while let Some((before, packets)) = states.get(next).cloned() {
            for sent in self.following(packets + 1) {
                for after in self.judge(sent, &before, later) {
                    if known.insert(State::of(&after, hits)) {
                        states.push((after, packets + 1));
                    }
                }
            }
            next += 1;
            if states.len() > most {
                let what = format!("later packets: rules distinguish more than {most} states of a connection");
                later.add_fault(Disagreement::Unknown, what);
                break;
            }
        }
        states.into_iter().map(|(state, _)| state).collect()
    }
}
