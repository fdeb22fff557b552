//! The endpoints of service ports.

use std::net::SocketAddr;

use super::model::InferredPort;
use crate::chains::{Kind, Policy, Reading, To};

/// What a group of endpoints shows of its service port.
pub(super) struct Endpoints<'a> {
    /// The service port's part of the chain's name.
    pub(super) base: &'a str,
    policy: Policy,
    endpoints: Vec<SocketAddr>,
    affinity: Option<u32>,
}

impl Endpoints<'_> {
    pub(super) fn add_to(self, port: &mut InferredPort) {
        let all = if self.policy == Policy::Cluster { &mut port.endpoints } else { &mut port.local };
        all.extend(self.endpoints);
        port.affinity = port.affinity.or(self.affinity);
    }
}

/// The endpoints of all groups, and for how long clients come back to theirs.
pub(super) fn endpoints<'a>(reading: &impl Reading<'a>) -> Vec<Endpoints<'a>> {
    let of_group = |chain: &'a str| {
        let (kind, base) = reading.naming().of(chain)?;
        let Kind::Group(policy) = kind else { return None };
        let leads = reading.group(chain)?.leads;
        let endpoint = |to| match to {
            To::Chain(chain) => reading.endpoint(chain)?.destination,
            To::Address(address) => Some(address),
        };
        let affinity = leads.iter().find_map(|lead| lead.recall.as_ref()?.seconds);
        let endpoints = leads.iter().filter_map(|lead| endpoint(lead.to)).collect();
        Some(Endpoints { base, policy, endpoints, affinity })
    };
    reading.groups().into_iter().filter_map(of_group).collect()
}
