//! The outcome of a verification.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Options;
use super::finding::Finding;
use crate::scenario::Vantage;
use crate::text::counted;

/// The outcome of a verification.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Verification {
    /// How many nodes the cluster has.
    pub nodes: usize,
    /// How many services.
    pub services: usize,
    /// The flows by vantage point and kind of address, in the order of the questions.
    pub coverage: Vec<CoverageRow>,
    /// How many classes of packets there are.
    pub classes: usize,
    /// How many sets of packets were left out, because there are too many classes.
    pub left_out: usize,
    /// Flows of which nothing is promised.
    pub not_promised: usize,
    /// What is wrong with the rules of nodes as a whole, where sources disagree: missing jumps from the chains of hooks, and rules that
    /// chains have several times. Mostly the cause of all findings.
    pub frame_defects: Vec<String>,
    /// What rules of services whose connections fail lack, or have besides, compared with those that kube-proxy's release writes.
    pub differences: Vec<String>,
    /// The disagreements.
    pub findings: Vec<Finding>,
    /// How long it took.
    pub duration: Duration,
}

/// Flows of one vantage point to one kind of address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverageRow {
    /// The vantage point, as a scenario names it.
    pub from: String,
    /// The kind of vantage point.
    pub sender: SenderKind,
    /// The kind of address.
    pub kind: AddressKind,
    /// How many flows.
    pub flows: usize,
    /// Those on which the sources disagree, including those that do not fail.
    pub disagreeing: usize,
}

/// The kind of a vantage point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SenderKind {
    /// A pod.
    Pod,
    /// A process on a node.
    Node,
    /// A process on a node that sends from the loopback address.
    Localhost,
    /// A machine outside of the cluster.
    Host,
}

impl SenderKind {
    /// The kind of a vantage point.
    pub(super) fn of(vantage: &Vantage) -> Self {
        match vantage {
            Vantage::Pod(_) => Self::Pod,
            Vantage::Node(_) => Self::Node,
            Vantage::Localhost(_) => Self::Localhost,
            Vantage::Host(_) => Self::Host,
        }
    }

    /// This many of them, in words: `12 pods`.
    pub(super) fn counted(self, number: usize) -> String {
        match self {
            Self::Pod => counted(number, "pod"),
            Self::Node => counted(number, "node"),
            Self::Localhost => format!("localhost of {}", counted(number, "node")),
            Self::Host => counted(number, "host"),
        }
    }
}

/// What an address is to the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
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
    /// That of a pod, of an outside host, or of no machine.
    Other,
}

impl AddressKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::ClusterIp, Self::ExternalIp, Self::LoadBalancer, Self::NodePort, Self::Loopback, Self::Other];

    /// The heading of its column.
    pub fn heading(self) -> &'static str {
        match self {
            Self::ClusterIp => "cluster IP",
            Self::ExternalIp => "external IP",
            Self::LoadBalancer => "load balancer",
            Self::NodePort => "node port",
            Self::Loopback => "loopback",
            Self::Other => "other",
        }
    }
}

impl Verification {
    /// How many flows there were.
    pub fn flows(&self) -> usize {
        self.coverage.iter().map(|row| row.flows).sum()
    }

    /// The findings by which it fails.
    pub fn failures(&self, options: &Options) -> impl Iterator<Item = &Finding> {
        let allow_unknown = options.allow_unknown;
        self.findings.iter().filter(move |finding| finding.disagreement.fails(allow_unknown))
    }
}
