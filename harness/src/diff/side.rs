//! A cluster with its rules.

use svclab_rules::cluster::ProxyMode;
use svclab_rules::ruleset::Unsupported;

use crate::documents::{self, Document};
use crate::predict::{Network, PredictError};
use crate::scenario::{Install, Scenario};
use crate::topology::{self, Topology};

/// One side of a comparison.
pub(super) struct Side<'s> {
    pub(super) scenario: &'s Scenario,
    pub(super) documents: Vec<Document>,
    topology: Topology,
}

impl<'s> Side<'s> {
    /// The first state of a scenario.
    pub(super) fn of(scenario: &'s Scenario) -> Result<Self, Unsupported> {
        let documents = documents::generate(scenario, &scenario.cluster)?;
        Ok(Self { scenario, documents, topology: topology::plan(scenario) })
    }

    pub(super) fn network(&self) -> Result<Network<'_>, PredictError> {
        Network::of(&self.topology, &self.documents, &self.scenario.cluster)
    }

    /// The mark of packets that are to be masqueraded.
    pub(super) fn mark(&self) -> u32 {
        1 << self.scenario.cluster.proxy.masquerade_bit
    }

    /// The kube-proxy in words.
    pub(super) fn words(&self) -> String {
        let proxy = &self.scenario.cluster.proxy;
        let mode = if proxy.mode == ProxyMode::Iptables { "iptables" } else { "nftables" };
        let is_given = self.scenario.rules.iter().any(|rules| rules.install == Install::Instead);
        if is_given { format!("the rules given, {mode} mode") } else { format!("{}, {mode} mode", proxy.version) }
    }
}
