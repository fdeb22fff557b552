//! What is installed where: generated rules, foreign rules, and both in one document a namespace and family.

use std::net::IpAddr;

use svclab_rules::cluster::{Cluster, Family, Node, ProxyMode};
use svclab_rules::iptables::{self, Order, ParseError, RuleSet};
use svclab_rules::nftables::{self, Unsupported};
use svclab_rules::profile::UnknownVersion;

use crate::scenario::{ForeignRules, Install, Place, Scenario, Span, pod_label};

/// One document of rules for one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The namespace's name: `node/worker`.
    pub space: String,
    /// The family.
    pub family: Family,
    /// The language that the text is in.
    pub mode: ProxyMode,
    /// The whole text, as `iptables-restore` or `nft -f` reads it.
    pub text: String,
}

/// Why a scenario's rules cannot be written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DocumentError {
    /// kube-proxy's release is not known.
    #[error(transparent)]
    Version(#[from] UnknownVersion),
    /// There are no nftables rules for the cluster.
    #[error(transparent)]
    Nftables(#[from] Unsupported),
    /// Foreign rules that are to be merged cannot be read.
    #[error("{}", list(.errors))]
    Foreign {
        /// Where they begin.
        origin: Span,
        /// What is wrong with them, by their own lines.
        errors: Vec<ParseError>,
    },
    /// Foreign rules can be merged with generated iptables rules only.
    #[error("rules can only stand before or after generated rules in iptables mode")]
    Mode(Span),
}

impl DocumentError {
    /// Where in the input the mistake is.
    pub fn origin(&self) -> Option<&Span> {
        match self {
            Self::Version(_) | Self::Nftables(_) => None,
            Self::Foreign { origin, .. } | Self::Mode(origin) => Some(origin),
        }
    }
}

fn list(errors: &[ParseError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Writes the documents of all namespaces for a state of a scenario's cluster.
///
/// A node has a document for each family of its addresses.
///
/// # Errors
///
/// The first that is found: an unknown release, foreign rules that cannot be read, or objects for which a kube-proxy of
/// this release in nftables mode cannot write its table.
pub fn generate(scenario: &Scenario, cluster: &Cluster) -> Result<Vec<Document>, DocumentError> {
    let mut documents = Vec::new();
    for node in &cluster.nodes {
        for family in Family::ALL.into_iter().filter(|family| node.internal_ip(*family).is_some()) {
            documents.push(node_document(scenario, cluster, node, family)?);
        }
    }
    let in_pods = scenario.rules.iter().filter_map(|rules| match &rules.place {
        Place::Pod(pod) => Some(Document {
            space: pod_label(pod),
            family: rules.family,
            mode: ProxyMode::Iptables,
            text: rules.text.clone(),
        }),
        Place::Node(_) => None,
    });
    documents.extend(in_pods);
    Ok(documents)
}

/// Whether rules of these documents that translate to an address have counters: those of iptables do.
pub fn keep_counters(documents: &[Document], address: IpAddr) -> bool {
    let of_family = |document: &&Document| document.family == Family::of(address);
    documents.iter().filter(of_family).any(|document| document.mode == ProxyMode::Iptables)
}

fn node_document(
    scenario: &Scenario,
    cluster: &Cluster,
    node: &Node,
    family: Family,
) -> Result<Document, DocumentError> {
    let space = format!("node/{}", node.name);
    let here = |rules: &&ForeignRules| rules.place == Place::Node(node.name.clone()) && rules.family == family;
    let foreign: Vec<&ForeignRules> = scenario.rules.iter().filter(here).collect();
    let mode = cluster.proxy.mode;
    if let Some(instead) = foreign.iter().find(|rules| rules.install == Install::Instead) {
        return Ok(Document { space, family, mode: ProxyMode::Iptables, text: instead.text.clone() });
    }
    if mode == ProxyMode::Nftables {
        return match foreign.first() {
            Some(rules) => Err(DocumentError::Mode(rules.origin.clone())),
            None => {
                let rules = nftables::generate(cluster, node, family)?;
                Ok(Document { space, family, mode, text: nftables::print_sync(&rules) })
            }
        };
    }
    let mut rules = iptables::generate(cluster, node, family)?;
    for addition in foreign {
        rules = merge(rules, addition, family)?;
    }
    Ok(Document { space, family, mode, text: iptables::print(&rules) })
}

fn merge(generated: RuleSet, foreign: &ForeignRules, family: Family) -> Result<RuleSet, DocumentError> {
    let order = match foreign.install {
        Install::Before => Order::Before,
        Install::After | Install::Instead => Order::After,
    };
    match iptables::parse(&foreign.text, family) {
        Ok(parsed) => Ok(iptables::merge(generated, &parsed.rules, order)),
        Err(errors) => Err(DocumentError::Foreign { origin: foreign.origin.clone(), errors }),
    }
}
