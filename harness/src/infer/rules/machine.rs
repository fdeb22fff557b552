//! A machine around rules.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};
use svclab_rules::cluster::Family;

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
    /// The machine that has an address, else the one that has it in its pod range.
    pub(super) fn of(machines: &[Self], ip: IpAddr) -> Option<&Self> {
        let by_range = || machines.iter().find(|machine| machine.ranges.iter().any(|range| range.contains(&ip)));
        machines.iter().find(|machine| machine.addresses.contains(&ip)).or_else(by_range)
    }

    /// What is known of it, in words.
    pub(super) fn words(&self) -> String {
        let addresses = self.addresses.iter().map(ToString::to_string);
        let known: Vec<String> = addresses.chain(self.ranges.iter().map(|range| format!("pods in {range}"))).collect();
        known.join(", ")
    }

    /// Its object.
    pub(super) fn object(&self) -> Value {
        let mut is_first = BTreeSet::new();
        let addresses = self.addresses.iter().map(|ip| {
            let kind = if is_first.insert(Family::of(*ip)) { "InternalIP" } else { "ExternalIP" };
            json!({"type": kind, "address": ip})
        });
        let addresses: Vec<Value> = addresses.collect();
        let ranges: Vec<String> = self.ranges.iter().map(ToString::to_string).collect();
        let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name}});
        if !ranges.is_empty() {
            node["spec"] = json!({"podCIDR": ranges[0], "podCIDRs": ranges});
        }
        if !addresses.is_empty() {
            node["status"] = json!({"addresses": addresses});
        }
        node
    }
}
