//! What is installed where: generated rules, other rules, and both in one document a namespace and family.

use std::net::IpAddr;
use std::sync::Arc;

use svclab_rules::cluster::{Cluster, Family, Node, ProxyMode};
use svclab_rules::iptables::{self, Order, RuleSet};
use svclab_rules::nftables::{self, Ruleset, Unsupported};
use svclab_rules::profile::UnknownVersion;
use svclab_rules::ruleset::{OtherTables, Rules};

use crate::scenario::{Install, OtherRules, Place, Scenario, Span, pod_label};

/// The rules that are installed together in one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The namespace's name: `node/worker`.
    pub netns: String,
    /// The family; of other tables of nftables the node's first, whatever theirs.
    pub family: Family,
    /// The rules.
    pub rules: Arc<Rules>,
}

impl Document {
    /// Whether packets of a family may meet these rules: other tables of nftables may be of both families.
    pub(crate) fn is_met_by(&self, family: Family) -> bool {
        self.is_other_tables() || self.family == family
    }

    /// Whether these are tables of nftables alongside kube-proxy's rules.
    pub(crate) fn is_other_tables(&self) -> bool {
        matches!(*self.rules, Rules::OtherTables(_))
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
    /// Other rules that are to be merged, or tables of nftables, cannot be read.
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

    /// That other rules cannot be read.
    pub(crate) fn foreign(origin: Span, errors: &[impl ToString]) -> Self {
        Self::Foreign { origin, errors: errors.iter().map(ToString::to_string).collect() }
    }
}

/// Writes the documents of all namespaces for a state of a scenario's cluster.
///
/// A node has a document for each family of its addresses; where other rules of iptables stand beside generated ones of
/// nftables, two, and one more for each text of other tables of nftables. They come in the order in which they are to be
/// installed: of chains at the same priority the kernel asks those first that came last.
///
/// # Errors
///
/// The first that is found: an unknown release, other rules that cannot be read, or objects for which a kube-proxy of
/// this release in nftables mode cannot write its table.
pub fn generate(scenario: &Scenario, cluster: &Cluster) -> Result<Vec<Document>, DocumentError> {
    let mut documents = Vec::new();
    for node in &cluster.nodes {
        let families = Family::ALL.into_iter().filter(|family| node.internal_ip(*family).is_some());
        let mut of_node = Vec::new();
        for family in families {
            of_node.extend(node_documents(scenario, cluster, node, family)?);
        }
        documents.extend(with_tables_beside(scenario, node, of_node)?);
    }
    for rules in &scenario.rules {
        if let Place::Pod(pod) = &rules.place {
            documents.push(Document { netns: pod_label(pod), family: rules.family, rules: Arc::new(alone(rules)?) });
        }
    }
    Ok(documents)
}

/// Whether all rules of these documents that translate to an address have counters: those of iptables do, kube-proxy's of
/// nftables do not.
pub fn keep_counters(documents: &[Document], address: IpAddr) -> bool {
    let of_family = |document: &&Document| document.is_met_by(Family::of(address));
    let mut modes = documents.iter().filter(of_family).map(|document| document.rules.mode()).peekable();
    modes.peek().is_some() && modes.all(|mode| mode == ProxyMode::Iptables)
}

/// The other rules of a node.
fn of_node<'s>(scenario: &'s Scenario, node: &Node) -> impl Iterator<Item = &'s OtherRules> {
    let place = Place::Node(node.name.clone());
    scenario.rules.iter().filter(move |rules| rules.place == place)
}

/// The documents of a node together with its other tables of nftables: those that are to be asked before others are installed last.
fn with_tables_beside(
    scenario: &Scenario,
    node: &Node,
    mut documents: Vec<Document>,
) -> Result<Vec<Document>, DocumentError> {
    let Some(family) = documents.first().map(|document| document.family) else { return Ok(documents) };
    for rules in of_node(scenario, node).filter(|rules| rules.is_beside()) {
        let tables = OtherTables::parse(&rules.text);
        let tables = tables.map_err(|errors| DocumentError::foreign(rules.origin.clone(), &errors))?;
        let at = if rules.install == Install::After { 0 } else { documents.len() };
        documents.insert(at, document(node, family, Rules::OtherTables(tables)));
    }
    Ok(documents)
}

fn document(node: &Node, family: Family, rules: impl Into<Rules>) -> Document {
    Document { netns: format!("node/{}", node.name), family, rules: Arc::new(rules.into()) }
}

fn node_documents(
    scenario: &Scenario,
    cluster: &Cluster,
    node: &Node,
    family: Family,
) -> Result<Vec<Document>, DocumentError> {
    let is_met = |rules: &&OtherRules| rules.family == family && !rules.is_beside();
    let foreign: Vec<&OtherRules> = of_node(scenario, node).filter(is_met).collect();
    if let Some(instead) = foreign.iter().find(|rules| rules.install == Install::Instead) {
        return Ok(vec![document(node, family, alone(instead)?)]);
    }
    let order = foreign.first().map(|first| first.install);
    let merged = |rules| foreign.iter().try_fold(rules, |rules, more| merge(rules, more, family));
    Ok(match (Rules::generate(cluster, node, family)?, order) {
        (Rules::Iptables(generated), _) => vec![document(node, family, merged(generated.rules)?)],
        (generated, None) => vec![document(node, family, generated)],
        (generated, Some(order)) => {
            let alongside = document(node, family, merged(RuleSet::new(family))?);
            let generated = document(node, family, generated);
            if order == Install::Before { vec![generated, alongside] } else { vec![alongside, generated] }
        }
    })
}

/// Rules that stand alone. Of nftables it is kube-proxy's table of the family.
fn alone(rules: &OtherRules) -> Result<Rules, DocumentError> {
    let parsed = Rules::parse(rules.mode, rules.family, &rules.text);
    let parsed = parsed.map_err(|errors| DocumentError::foreign(rules.origin.clone(), &errors))?;
    Ok(match parsed {
        Rules::Nftables(nftables::Parsed { rules: Ruleset { mut tables }, .. }) => {
            tables.retain(|table| table.family == rules.family);
            Ruleset { tables }.into()
        }
        other => other,
    })
}

fn merge(generated: RuleSet, foreign: &OtherRules, family: Family) -> Result<RuleSet, DocumentError> {
    let order = match foreign.install {
        Install::Before => Order::Before,
        Install::After | Install::Instead => Order::After,
    };
    match iptables::parse(&foreign.text, family) {
        Ok(parsed) => Ok(iptables::merge(generated, &parsed.rules, order)),
        Err(errors) => Err(DocumentError::foreign(foreign.origin.clone(), &errors)),
    }
}
