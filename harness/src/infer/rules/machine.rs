//! A machine around rules.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

/// A node as far as the rules determine it.
#[derive(Debug, Clone, Default)]
pub(super) struct Machine {
    pub(super) name: String,
    /// Its addresses; any where there are none.
    pub(super) addresses: BTreeSet<IpAddr>,
    /// Its pod ranges, at most one of each family; any where there is none.
    pub(super) ranges: Vec<IpNet>,
}

impl Machine {
    /// What is known of it, in words.
    pub(super) fn words(&self) -> String {
        let addresses = self.addresses.iter().map(ToString::to_string);
        let known: Vec<String> = addresses.chain(self.ranges.iter().map(|range| format!("pods in {range}"))).collect();
        known.join(", ")
    }
}
