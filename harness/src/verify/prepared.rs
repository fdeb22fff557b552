//! The preparation of a scenario's first state for the sources.

use std::collections::BTreeSet;

use svclab_rules::cluster::Cluster;
use svclab_rules::compare::{Finding, Subject, compare_own};
use svclab_rules::promise::Question;

use crate::documents::Document;
use crate::lab::{Backend, generate_for_lab};
use crate::predict::Network;
use crate::run::RunError;
use crate::scenario::{Destination, Flows, Host, Probe, Scenario, Shape, Span, Vantage};
use crate::sources::Context;
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

/// The maximum number of rule differences that are listed.
const MAX_DIFFERENCES: usize = 10;

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

    /// The rules of services on nodes that differ from those of the release: `node/worker, IPv4: ...`.
    pub(super) fn differences(&self, services: &BTreeSet<String>) -> Vec<String> {
        let release = self.cluster.releases().join(" or ");
        let of = |document: &Document| {
            let is_same = |other: &&Document| {
                other.netns == document.netns
                    && other.family == document.family
                    && other.rules.mode() == document.rules.mode()
                    && !other.is_other_tables()
            };
            let written = self.released.iter().find(is_same)?;
            let found = compare_own(&*written.rules, &*document.rules, usize::MAX);
            let is_asked = |finding: &Finding| match &finding.subject {
                Subject::Service(port) => services.iter().any(|service| port.starts_with(service.as_str())),
                _ => false,
            };
            let words = found.into_iter().filter(is_asked);
            let words = words.map(|finding| format!("{}, {}: {finding}", document.netns, document.family));
            Some(words.collect::<Vec<_>>())
        };
        let own = self.documents.iter().filter(|document| !document.is_other_tables());
        let mut all: Vec<String> = own.filter_map(of).flatten().collect();
        let more = all.len().saturating_sub(MAX_DIFFERENCES);
        all.truncate(MAX_DIFFERENCES);
        if more > 0 {
            all.push(format!(
                "{more} more differences from the rules of kube-proxy {release}: `svclab rules --diff` lists them"
            ));
        }
        all
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
