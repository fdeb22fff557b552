//! The preparation of a scenario's first state for the sources.

use std::collections::BTreeSet;

use svclab_rules::cluster::Cluster;
use svclab_rules::promise::Question;

use crate::documents::Document;
use crate::lab::{Backend, generate_for_lab};
use crate::predict::Network;
use crate::run::RunError;
use crate::scenario::{Destination, Flows, Host, Probe, Scenario, Shape, Span, Vantage};
use crate::sources::{Context, rule_differences};
use crate::topology::{self, Topology};

/// A scenario's first state: its plan, its rules, and the release's own rules.
pub(crate) struct Prepared<'a> {
    hosts: &'a [Host],
    pub(crate) cluster: &'a Cluster,
    pub(crate) documents: Vec<Document>,
    /// The rules of the cluster's release, without other rules.
    released: Vec<Document>,
    pub(crate) topology: Topology,
}

impl<'a> Prepared<'a> {
    pub(crate) fn of(scenario: &'a Scenario, backend: Backend) -> Result<Self, RunError> {
        let documents = generate_for_lab(scenario, &scenario.cluster, backend)?;
        let released = if scenario.rules.is_empty() { documents.clone() } else { released(scenario, backend)? };
        Ok(Self::with(scenario, documents, released))
    }

    /// The same state with documents that another program has written.
    pub(crate) fn with_documents(
        scenario: &'a Scenario,
        documents: Vec<Document>,
        backend: Backend,
    ) -> Result<Self, RunError> {
        Ok(Self::with(scenario, documents, released(scenario, backend)?))
    }

    fn with(scenario: &'a Scenario, documents: Vec<Document>, released: Vec<Document>) -> Self {
        let topology = topology::plan(scenario);
        Self { hosts: &scenario.hosts, cluster: &scenario.cluster, documents, released, topology }
    }

    /// The context of the sources with `documents` installed.
    pub(crate) fn context(&self, documents: &[Document]) -> Result<Context<'_>, RunError> {
        Context::of(self.hosts, &self.topology, documents, self.cluster)
    }

    /// The network with the release's own rules.
    pub(crate) fn released(&self) -> Result<Network<'_>, RunError> {
        Ok(Network::of(&self.topology, &self.released, self.cluster)?)
    }

    /// The rules that differ from those of the release, of services and of none: see [`rule_differences`].
    pub(super) fn differences(&self, services: &BTreeSet<String>) -> Vec<String> {
        rule_differences([&self.documents, &self.released], self.cluster, services)
    }

    /// Whether these are exactly the rules of the cluster's release.
    pub(super) fn are_released(&self, documents: &[Document]) -> bool {
        documents == self.released
    }
}

/// The rules of a scenario's release, without other rules.
fn released(scenario: &Scenario, backend: Backend) -> Result<Vec<Document>, RunError> {
    let scenario = Scenario { rules: Vec::new(), ..scenario.clone() };
    Ok(generate_for_lab(&scenario, &scenario.cluster, backend)?)
}

/// All vantage points: pods, nodes, their loopback addresses, outside hosts.
pub(crate) fn vantages(scenario: &Scenario) -> Vec<Vantage> {
    let cluster = &scenario.cluster;
    let pods = cluster.pods.iter().map(|pod| Vantage::Pod(pod.name.clone()));
    let processes = cluster.nodes.iter().map(|node| Vantage::Node(node.name.clone()));
    let loopbacks = cluster.nodes.iter().map(|node| Vantage::Localhost(node.name.clone()));
    let hosts = scenario.hosts.iter().map(|host| Vantage::Host(host.name.clone()));
    pods.chain(processes).chain(loopbacks).chain(hosts).collect()
}

/// The probe that asks a question.
pub(crate) fn probe(scenario: &Scenario, question: &Question, from: &Vantage) -> Probe {
    let to = Destination {
        label: question.to.to_string(),
        address: question.to.ip(),
        port: question.to.port(),
        via: question.via.clone(),
    };
    let (span, protocol) = (Span::start_of(&scenario.file), question.protocol);
    Probe {
        span,
        from: from.clone(),
        to,
        protocol,
        source_port: None,
        flows: Flows::Exactly(1),
        tcp_flags: None,
        shape: Shape::default(),
    }
}
