//! A cluster with its rules.

use svclab_rules::ruleset::Unsupported;

use crate::documents::{self, Document};
use crate::predict::{Network, PredictError};
use crate::scenario::{Install, Scenario};
use crate::text::{list, one_line, path_text};
use crate::topology::{self, Topology};

/// The maximum number of nodes named for a cluster that has no node in common with the other.
const MAX_NODES: usize = 3;

/// One side of a comparison.
pub(super) struct Side<'s> {
    pub(super) scenario: &'s Scenario,
    pub(super) documents: Vec<Document>,
    pub(super) topology: Topology,
}

impl<'s> Side<'s> {
    /// Returns the first state of a scenario.
    pub(super) fn of(scenario: &'s Scenario) -> Result<Self, Unsupported> {
        let documents = documents::generate(scenario, &scenario.cluster)?;
        Ok(Self { scenario, documents, topology: topology::plan(scenario) })
    }

    pub(super) fn network(&self) -> Result<Network<'_>, PredictError> {
        Network::of(&self.topology, &self.documents, &self.scenario.cluster)
    }

    /// Returns the file, and its nodes with their addresses.
    pub(super) fn nodes(&self) -> String {
        let nodes = self.scenario.cluster.nodes.iter().map(|node| {
            let addresses: Vec<String> = node.addresses().map(|address| address.to_string()).collect();
            format!("{} ({})", one_line(&node.name), addresses.join(", "))
        });
        format!("{} has {}", path_text(&self.scenario.file), list(nodes, MAX_NODES))
    }

    /// Returns the mark of packets that are to be masqueraded.
    pub(super) fn mark(&self) -> u32 {
        1 << self.scenario.cluster.proxy.masquerade_bit
    }

    /// Describes the kube-proxy.
    pub(super) fn words(&self) -> String {
        let proxy = &self.scenario.cluster.proxy;
        let mode = proxy.mode;
        let is_given = self.scenario.rules.iter().any(|rules| rules.install == Install::Instead);
        if is_given { format!("the rules given, {mode} mode") } else { format!("{}, {mode} mode", proxy.version) }
    }
}
