//! What is installed where: generated rules, foreign rules, and both in one document a namespace and family.

use std::net::IpAddr;

use svclab_rules::cluster::{Cluster, Family, Node, ProxyMode};
use svclab_rules::iptables::{self, Order, RuleSet};
use svclab_rules::nftables::{self, Ruleset, Unsupported};
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

impl Document {
    /// Whether rules remember clients: by `recent`, or by sets that rules add to.
    pub(crate) fn remembers(&self) -> bool {
        let words = match self.mode {
            ProxyMode::Iptables => "-m recent",
            ProxyMode::Nftables => "dynamic",
        };
        self.text.contains(words)
    }
}

impl Document {
    /// Whether it can be installed only where interfaces are: nftables' `iif` stands for an interface's index.
    pub(crate) fn needs_interfaces(&self) -> bool {
        self.mode == ProxyMode::Nftables && self.text.split_whitespace().any(|word| word == "iif")
    }
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
    /// Foreign rules that are to be merged, or tables of nftables, cannot be read.
    #[error("{}", .errors.join("; "))]
    Foreign {
        /// Where they begin.
        origin: Span,
        /// What is wrong with them, by their own lines.
        errors: Vec<String>,
    },
}

impl DocumentError {
    /// Where in the input the mistake is.
    pub fn origin(&self) -> Option<&Span> {
        match self {
            Self::Version(_) | Self::Nftables(_) => None,
            Self::Foreign { origin, .. } => Some(origin),
        }
    }

    /// That foreign rules cannot be read.
    pub(crate) fn foreign(origin: Span, errors: &[impl ToString]) -> Self {
        Self::Foreign { origin, errors: errors.iter().map(ToString::to_string).collect() }
    }
}

/// Writes the documents of all namespaces for a state of a scenario's cluster.
///
/// A node has a document for each family of its addresses; where foreign rules of iptables stand beside generated ones of
/// nftables, two, one behind the other, in the order in which they are to be installed: of chains at the same priority the kernel
/// asks those first that came last.
///
/// # Errors
///
/// The first that is found: an unknown release, foreign rules that cannot be read, or objects for which a kube-proxy of
/// this release in nftables mode cannot write its table.
pub fn generate(scenario: &Scenario, cluster: &Cluster) -> Result<Vec<Document>, DocumentError> {
    let mut documents = Vec::new();
    for node in &cluster.nodes {
        for family in Family::ALL.into_iter().filter(|family| node.internal_ip(*family).is_some()) {
            documents.extend(node_documents(scenario, cluster, node, family)?);
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

/// Whether all rules of these documents that translate to an address have counters: those of iptables do, kube-proxy's of
/// nftables do not.
pub fn keep_counters(documents: &[Document], address: IpAddr) -> bool {
    let of_family = |document: &&Document| document.family == Family::of(address);
    let mut modes = documents.iter().filter(of_family).map(|document| document.mode).peekable();
    modes.peek().is_some() && modes.all(|mode| mode == ProxyMode::Iptables)
}

fn node_documents(
    scenario: &Scenario,
    cluster: &Cluster,
    node: &Node,
    family: Family,
) -> Result<Vec<Document>, DocumentError> {
    let here = |rules: &&ForeignRules| rules.place == Place::Node(node.name.clone()) && rules.family == family;
    let foreign: Vec<&ForeignRules> = scenario.rules.iter().filter(here).collect();
    let document = |mode, text| Document { space: format!("node/{}", node.name), family, mode, text };
    if let Some(instead) = foreign.iter().find(|rules| rules.install == Install::Instead) {
        return Ok(vec![document(instead.mode, installed(instead)?)]);
    }
    if cluster.proxy.mode == ProxyMode::Nftables {
        let rules = nftables::generate(cluster, node, family)?;
        let mut documents = vec![document(ProxyMode::Nftables, nftables::print_sync(&rules))];
        if let Some(first) = foreign.first() {
            let beside = foreign.iter().try_fold(RuleSet::new(family), |rules, more| merge(rules, more, family))?;
            let at = usize::from(first.install == Install::Before);
            documents.insert(at, document(ProxyMode::Iptables, iptables::print(&beside)));
        }
        return Ok(documents);
    }
    let mut rules = iptables::generate(cluster, node, family)?;
    for addition in foreign {
        rules = merge(rules, addition, family)?;
    }
    Ok(vec![document(ProxyMode::Iptables, iptables::print(&rules))])
}

/// The text that installs rules which stand alone: that of iptables as it is; of nftables, kube-proxy's table of the family, in place of
/// one that is there.
fn installed(rules: &ForeignRules) -> Result<String, DocumentError> {
    if rules.mode == ProxyMode::Iptables {
        return Ok(rules.text.clone());
    }
    let parsed =
        nftables::parse(&rules.text).map_err(|errors| DocumentError::foreign(rules.origin.clone(), &errors))?;
    let tables = parsed.rules.tables.into_iter().filter(|table| table.family == rules.family);
    Ok(nftables::print_sync(&Ruleset { tables: tables.collect() }))
}

fn merge(generated: RuleSet, foreign: &ForeignRules, family: Family) -> Result<RuleSet, DocumentError> {
    let order = match foreign.install {
        Install::Before => Order::Before,
        Install::After | Install::Instead => Order::After,
    };
    match iptables::parse(&foreign.text, family) {
        Ok(parsed) => Ok(iptables::merge(generated, &parsed.rules, order)),
        Err(errors) => Err(DocumentError::foreign(foreign.origin.clone(), &errors)),
    }
}
