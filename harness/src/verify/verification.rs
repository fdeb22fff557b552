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
    /// The number of nodes.
    pub nodes: usize,
    /// The number of services.
    pub services: usize,
    /// The flows by vantage point and kind of address, in the order of the questions.
    pub coverage: Vec<CoverageRow>,
    /// The number of packet classes.
    pub classes: usize,
    /// The number of sets of packets that were left out because there are too many classes.
    pub left_out: usize,
    /// The number of flows for which nothing is promised.
    pub not_promised: usize,
    /// Defects in the structure of nodes' rules, if sources disagree: missing jumps from base chains, and duplicated rules. They are
    /// usually the cause of all findings.
    pub structure_defects: Vec<String>,
    /// Missing and additional rules of services whose connections fail, compared with the rules of the kube-proxy release.
    pub differences: Vec<String>,
    /// Possible causes of contradictions between prediction and kernel other than the rules, as sentences.
    pub notes: Vec<String>,
    /// The disagreements.
    pub findings: Vec<Finding>,
    /// The duration.
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
    /// The number of flows.
    pub flows: usize,
    /// The number of flows on which the sources disagree, including those that do not fail.
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

    /// A number of them, in words: `12 pods`.
    pub(super) fn counted(self, number: usize) -> String {
        match self {
            Self::Pod => counted(number, "pod"),
            Self::Node => counted(number, "node"),
            Self::Localhost => format!("localhost of {}", counted(number, "node")),
            Self::Host => counted(number, "host"),
        }
    }
}

/// The kind of an address in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AddressKind {
    /// A cluster IP.
    ClusterIp,
    /// An external IP.
    ExternalIp,
    /// The address of a load balancer.
    LoadBalancer,
    /// The address of a node, on the node's interface.
    NodePort,
    /// A loopback address.
    Loopback,
    /// The address of a pod, of an outside host, or of no machine.
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
    /// The number of flows.
    pub fn flows(&self) -> usize {
        self.coverage.iter().map(|row| row.flows).sum()
    }

    /// The findings that make it fail.
    pub fn failures(&self, options: &Options) -> impl Iterator<Item = &Finding> {
        let allow_unknown = options.allow_unknown;
        self.findings.iter().filter(move |finding| finding.disagreement.fails(allow_unknown))
    }
}
