//! Everything about a scenario's first state that is needed to ask the sources.

use std::collections::HashMap;

use svclab_rules::cluster::Cluster;
use svclab_rules::promise::{Question, VantagePoint, questions};
use svclab_rules::ruleset::Unsupported;

use crate::documents::Document;
use crate::lab::{Backend, generate_for_lab};
use crate::predict::Network;
use crate::run::RunError;
use crate::scenario::{Destination, Flows, Host, Probe, Scenario, Span, Vantage};
use crate::sources::Context;
use crate::topology::{self, Topology};

/// What is asked of a scenario, and what is known beforehand.
pub(crate) struct QuestionList<'a> {
    hosts: &'a [Host],
    pub(crate) cluster: &'a Cluster,
    pub(crate) documents: Vec<Document>,
    /// What the cluster's release writes, without other rules.
    released: Vec<Document>,
    pub(crate) topology: Topology,
    pub(crate) asked: Vec<Question>,
    /// The questions as packets to send, in the same order.
    pub(crate) probes: Vec<Probe>,
}

impl<'a> QuestionList<'a> {
    /// What is asked of a scenario's first state, in a lab.
    pub(crate) fn of(scenario: &'a Scenario, backend: Backend) -> Result<Self, RunError> {
        let prepared = Self::prepare(scenario, backend)?;
        let vantages = vantages(scenario);
        let points: Vec<VantagePoint> = vantages.iter().map(|(point, _)| point.clone()).collect();
        let asked = questions(prepared.cluster, &points).map_err(Unsupported::from)?;
        let by_point: HashMap<&VantagePoint, &Vantage> =
            vantages.iter().map(|(point, vantage)| (point, vantage)).collect();
        let probes = asked.iter().map(|question| probe(scenario, question, by_point[&question.from])).collect();
        Ok(Self { asked, probes, ..prepared })
    }

    /// What is known beforehand, without questions.
    pub(super) fn prepare(scenario: &'a Scenario, backend: Backend) -> Result<Self, RunError> {
        let cluster = &scenario.cluster;
        let documents = generate_for_lab(scenario, cluster, backend)?;
        let released = if scenario.rules.is_empty() {
            documents.clone()
        } else {
            generate_for_lab(&Scenario { rules: Vec::new(), ..scenario.clone() }, cluster, backend)?
        };
        let topology = topology::plan(scenario);
        let (asked, probes) = (Vec::new(), Vec::new());
        Ok(Self { hosts: &scenario.hosts, cluster, documents, released, topology, asked, probes })
    }

    /// The context of the questions where `documents` are installed.
    pub(crate) fn context(&self, documents: &[Document]) -> Result<Context<'_>, RunError> {
        Context::of(self.hosts, &self.topology, documents, self.cluster)
    }

    /// The network with the rules that the cluster's release writes.
    pub(crate) fn released(&self) -> Result<Network<'_>, RunError> {
        Ok(Network::of(&self.topology, &self.released, self.cluster)?)
    }
}

/// Everybody who can send: pods, nodes, their loopback addresses, outside hosts.
pub(crate) fn vantages(scenario: &Scenario) -> Vec<(VantagePoint, Vantage)> {
    let cluster = &scenario.cluster;
    let pods = cluster.pods.iter().map(|pod| (VantagePoint::Pod(pod.name.clone()), Vantage::Pod(pod.name.clone())));
    let nodes = || cluster.nodes.iter().map(|node| node.name.clone());
    let processes = nodes().map(|name| (VantagePoint::Node(name.clone()), Vantage::Node(name)));
    let loopbacks = nodes().map(|name| (VantagePoint::Localhost(name.clone()), Vantage::Localhost(name)));
    let hosts = scenario
        .hosts
        .iter()
        .flat_map(|host| host.ips.iter().map(|ip| (VantagePoint::Outside(*ip), Vantage::Host(host.name.clone()))));
    pods.chain(processes).chain(loopbacks).chain(hosts).collect()
}

/// A question as a packet to send.
pub(super) fn probe(scenario: &Scenario, question: &Question, from: &Vantage) -> Probe {
    let to = Destination {
        label: question.to.to_string(),
        address: question.to.ip(),
        port: question.to.port(),
        via: question.via.clone(),
    };
    let (span, protocol) = (Span::start_of(&scenario.file), question.protocol);
    Probe { span, from: from.clone(), to, protocol, source_port: None, flows: Flows::Exactly(1), tcp_flags: None }
}
