//! What is asked of a scenario, and how all three voices are.

use std::cell::LazyCell;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use svclab_rules::cluster::Cluster;
use svclab_rules::promise::{Outcome, Promise, Question, VantagePoint};

use super::Options;
use super::finding::{Example, Finding, Findings};
use super::inquiry::{Inquiry, unless_of_release};
use crate::lab::with_lab;
use crate::observation::FlowObservation;
use crate::predict::{Decisive, Network, PredictedBranch, Prediction};
use crate::probe::Prober;
use crate::run::RunError;
use crate::scenario::{Destination, Flows, Probe, Scenario, Span, Vantage};
use crate::voices::{Flow, Seen, Voices, in_order, sent};

/// What came of a verification.
#[derive(Debug, Clone, Default)]
pub struct Verification {
    /// How many nodes the cluster has.
    pub nodes: usize,
    /// How many services.
    pub services: usize,
    /// What was asked, in order: vantage points with the kinds of addresses.
    pub asked: Vec<Asked>,
    /// Flows of which nothing is promised.
    pub not_promised: usize,
    /// What the voices part about.
    pub findings: Vec<Finding>,
    /// How long it took.
    pub duration: Duration,
}

/// Flows of one vantage point to one kind of address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The vantage point, as a scenario names it.
    pub from: String,
    /// The kind of address.
    pub kind: AddressKind,
    /// How many flows.
    pub flows: usize,
    /// Those that the voices part about; of these also what is no failure.
    pub parted: usize,
}

/// What an address is to the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AddressKind {
    /// A cluster IP.
    ClusterIp,
    /// An external IP.
    ExternalIp,
    /// That of a load balancer.
    LoadBalancer,
    /// That of a node, on the node's interface.
    NodePort,
    /// A loopback address.
    Loopback,
}

impl AddressKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::ClusterIp, Self::ExternalIp, Self::LoadBalancer, Self::NodePort, Self::Loopback];

    /// The heading of its column.
    pub fn heading(self) -> &'static str {
        match self {
            Self::ClusterIp => "cluster IP",
            Self::ExternalIp => "external IP",
            Self::LoadBalancer => "load balancer",
            Self::NodePort => "node port",
            Self::Loopback => "loopback",
        }
    }

    fn of(cluster: &Cluster, address: IpAddr) -> Self {
        let any = |has: &dyn Fn(&svclab_rules::cluster::Service) -> bool| cluster.services.iter().any(has);
        if address.is_loopback() {
            Self::Loopback
        } else if any(&|service| service.cluster_ips.contains(&address)) {
            Self::ClusterIp
        } else if any(&|service| service.external_ips.contains(&address)) {
            Self::ExternalIp
        } else if any(&|service| service.load_balancer.iter().any(|ingress| ingress.ip == address)) {
            Self::LoadBalancer
        } else {
            Self::NodePort
        }
    }
}

impl Verification {
    /// How many flows there were.
    pub fn flows(&self) -> usize {
        self.asked.iter().map(|asked| asked.flows).sum()
    }

    /// The findings by which it fails.
    pub fn failures(&self, options: &Options) -> impl Iterator<Item = &Finding> {
        let allow_unknown = options.allow_unknown;
        self.findings.iter().filter(move |finding| finding.disagreement.fails(allow_unknown))
    }
}

/// Asks all voices about a scenario's first state.
pub(super) fn survey(scenario: &Scenario, options: &Options) -> Result<Verification, RunError> {
    let cluster = &scenario.cluster;
    let Inquiry { documents, released, topology, asked, probes, promises, comparison, .. } = Inquiry::of(scenario)?;
    let flows = with_lab(&topology, &documents, options.backend, |lab| {
        Prober::new(lab, cluster).and_then(|mut prober| prober.send_together(&probes))
    })?;
    let flows = flows.map_err(|source| RunError::Probe { span: start_of(scenario), source: Box::new(source) })?;
    let network = Network::of(&topology, &documents, cluster)?;
    let released = Network::of(&topology, &released, cluster)?;
    let in_order = in_order(&topology);
    let in_order = LazyCell::new(|| Network::of(&in_order, &documents, cluster).ok());
    let mut verification =
        Verification { nodes: cluster.nodes.len(), services: cluster.services.len(), ..Verification::default() };
    let mut findings = Findings::default();
    for ((question, probe), observed) in asked.iter().zip(&probes).zip(&flows) {
        let promise = promises.about(question);
        let sent = sent(probe, observed.source.port());
        let prediction = network.predict(&sent);
        let flow = Flow { question, source: observed.source.ip() };
        let seen = Seen::observed(observed);
        let voices = Voices {
            comparison: &comparison,
            flow,
            promise: &promise,
            prediction: prediction.as_ref(),
            in_order: &|| in_order.as_ref().and_then(|network| network.predict(&sent)),
            seen: &seen,
        };
        verification.not_promised += usize::from(promise.outcome == Outcome::NotPromised);
        let parted = voices.part().map(|(disagreement, what)| {
            (unless_of_release(disagreement, prediction.as_ref(), || released.predict(&sent)), what)
        });
        verification.count(probe.from.to_string(), AddressKind::of(cluster, question.to.ip()), parted.is_some());
        if let Some((disagreement, what)) = parted {
            findings.count(disagreement, what, || example(&voices, probe, &network, observed));
        }
    }
    verification.findings = findings.finish();
    Ok(verification)
}

impl Verification {
    fn count(&mut self, from: String, kind: AddressKind, parted: bool) {
        let parted = usize::from(parted);
        match self.asked.iter_mut().rev().find(|asked| asked.from == from && asked.kind == kind) {
            Some(asked) => {
                asked.flows += 1;
                asked.parted += parted;
            }
            None => self.asked.push(Asked { from, kind, flows: 1, parted }),
        }
    }
}

/// Everybody who can send: pods, nodes, their loopback addresses, outside hosts.
pub(super) fn vantages(scenario: &Scenario) -> Vec<(VantagePoint, Vantage)> {
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
    let (span, protocol) = (start_of(scenario), question.protocol);
    Probe { span, from: from.clone(), to, protocol, source_port: None, flows: Flows::Exactly(1) }
}

/// The rules that a branch met, in order, with the hook before each.
pub(super) fn words_of(network: &Network<'_>, branch: &PredictedBranch) -> Vec<String> {
    let met = network.rules_met(&branch.stages).into_iter();
    met.map(|Decisive { hook, place, .. }| format!("{}  {hook} {}  {}", place.space, place.table, place.text)).collect()
}

pub(super) fn start_of(scenario: &Scenario) -> Span {
    Span { file: scenario.file.clone(), line: 1, column: 1 }
}

/// A probe's flow in words: `host/outside > 192.0.2.1:80 tcp by way of node/worker`.
pub(crate) fn flow_words(probe: &Probe) -> String {
    let via = probe.to.via.as_ref().map(|node| format!(" by way of node/{node}")).unwrap_or_default();
    let to = SocketAddr::new(probe.to.address, probe.to.port);
    format!("{} > {to} {}{via}", probe.from, probe.protocol)
}

fn example(voices: &Voices<'_>, probe: &Probe, network: &Network<'_>, observed: &FlowObservation) -> Example {
    let promise: &Promise = voices.promise;
    let branches = voices.prediction.map(|prediction: &Prediction| prediction.branches.as_slice()).unwrap_or_default();
    let rules = voices.branch_that_matters().map(|branch| words_of(network, branch));
    Example {
        flow: flow_words(probe),
        service: promise.service.clone(),
        promise: promise.outcome.to_string(),
        prediction: branches.iter().map(|branch| format!("{}: {}", branch.share, branch.outcome)).collect(),
        observation: Seen::observed(observed).to_string(),
        rules: rules.unwrap_or_default(),
    }
}
