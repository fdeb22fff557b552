//! Planned tests, which expect what is promised.

use svclab_rules::cluster::{Family, Protocol};

use super::{field, words};
use crate::yaml::{Fields, Item};

/// A test of one probe that expects what is promised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedTest {
    /// Its name.
    pub(crate) name: String,
    /// The sender, as scenarios write it.
    pub(crate) from: String,
    /// The destination, as scenarios write it.
    pub(crate) to: String,
    /// The sender's port; `None` for any.
    pub(crate) source_port: Option<u16>,
    /// The protocol, if the destination does not determine it.
    pub(crate) protocol: Option<Protocol>,
    /// The family, if both ends have both.
    pub(crate) family: Option<Family>,
    /// How many flows are sent.
    pub(crate) flows: u64,
    /// The expected outcome.
    pub(crate) outcome: PlannedOutcome,
}

/// The promised outcome of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlannedOutcome {
    /// It is delivered.
    Delivered {
        /// The possible destinations, as scenarios write them; any if empty.
        targets: Vec<String>,
        /// The source that the receiver sees, as a keyword.
        source: Option<&'static str>,
        /// Whether the reply comes from the VIP.
        is_from_vip: bool,
        /// Whether every target gets some of the flows.
        is_spread: bool,
        /// Whether one target gets all of the flows.
        is_sticky: bool,
    },
    /// The packet is rejected: the sender gets a TCP reset or an ICMP error.
    Rejected,
    /// The packet is dropped: the sender gets no reply.
    Dropped,
    /// Rejected or dropped.
    Fails,
}

pub(super) fn test(test: &PlannedTest) -> Item {
    let probe = [
        Some(field("from", test.from.as_str())),
        Some(field("to", test.to.as_str())),
        test.protocol.map(|protocol| field("protocol", protocol.to_string().to_lowercase())),
        test.family.map(|family| field("family", family.to_string().to_lowercase())),
        test.source_port.map(|port| field("sourcePort", Item::Bare(port.to_string()))),
        (test.flows > 1).then(|| field("flows", Item::Bare(test.flows.to_string()))),
    ];
    let expect: Fields = match &test.outcome {
        PlannedOutcome::Delivered { targets, source, is_from_vip, is_spread, is_sticky } => {
            let listed = match targets.as_slice() {
                [] => None,
                [one] => Some(field("delivered", one.as_str())),
                all => Some(field("delivered", words(all))),
            };
            let fields = [
                listed,
                source.map(|word| field("source", word)),
                is_from_vip.then(|| field("reply", "from-vip")),
                is_spread.then(|| field("balance", "all")),
                is_sticky.then(|| field("affinity", true)),
            ];
            fields.into_iter().flatten().collect()
        }
        PlannedOutcome::Rejected => vec![field("rejected", true)],
        PlannedOutcome::Dropped => vec![field("dropped", true)],
        PlannedOutcome::Fails => vec![field("fails", true)],
    };
    let probe: Fields = probe.into_iter().flatten().collect();
    Item::Map(vec![field("name", test.name.as_str()), field("probe", probe), field("expect", expect)])
}
