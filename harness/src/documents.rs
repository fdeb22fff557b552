//! The documents to install: generated and other rules, combined in one document per namespace and family.

use std::net::IpAddr;
use std::sync::Arc;

use svclab_rules::cluster::{Cluster, Family, Node};
use svclab_rules::iptables::{self, Order, RuleSet};
use svclab_rules::ruleset::{Rules, Unsupported};

use crate::scenario::{Install, OtherRules, Place, Scenario, pod_label};

/// The rules that are installed together in one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The namespace's name: `node/worker`.
    pub netns: String,
    /// The family. Other nftables tables have the node's first family, whatever their own is.
    pub family: Family,
    /// The rules.
    pub rules: Arc<Rules>,
}

impl Document {
    /// Whether installing these rules replaces those of another document: they are in the same tables.
    pub(crate) fn replaces(&self, other: &Self) -> bool {
        let tables = |one: &Self| (one.family, one.rules.mode(), one.is_other_tables());
        self.netns == other.netns && tables(self) == tables(other)
    }

    /// Whether these rules apply to packets of a family: other nftables tables may apply to both.
    pub(crate) fn applies_to(&self, family: Family) -> bool {
        self.is_other_tables() || self.family == family
    }

    /// Whether these are nftables tables alongside kube-proxy's rules.
    pub fn is_other_tables(&self) -> bool {
        matches!(*self.rules, Rules::OtherTables(_))
    }
}

/// Generates the documents of all namespaces for a state of a scenario's cluster.
///
/// A node has one document for each family of its addresses, or two if there are other iptables rules alongside generated nftables rules,
/// and one more for each text of other nftables tables. They are in the order of installation: of chains at the same priority, the kernel
/// evaluates the one created last first.
///
/// # Errors
///
/// The first error found: see [`Rules::generate`].
pub fn generate(scenario: &Scenario, cluster: &Cluster) -> Result<Vec<Document>, Unsupported> {
    assemble(scenario, cluster, |node, family| Rules::generate(cluster, node, family))
}

/// Generates documents, with the rules that a node's kube-proxy has written in place of generated ones.
///
/// # Errors
///
/// The first error of `written`.
pub(crate) fn assemble(
    scenario: &Scenario,
    cluster: &Cluster,
    written: impl Fn(&Node, Family) -> Result<Rules, Unsupported>,
) -> Result<Vec<Document>, Unsupported> {
    let mut documents = Vec::new();
    for node in &cluster.nodes {
        let families = Family::ALL.into_iter().filter(|family| node.internal_ip(*family).is_some());
        let of_family = families.map(|family| node_documents(scenario, node, family, &written));
        let of_node = of_family.collect::<Result<Vec<_>, _>>()?.concat();
        documents.extend(with_other_tables(scenario, node, of_node));
    }
    for OtherRules { place, family, rules, .. } in &scenario.rules {
        if let Place::Pod(pod) = place {
            documents.push(Document { netns: pod_label(pod), family: *family, rules: Arc::clone(rules) });
        }
    }
    Ok(documents)
}

/// Whether all rules of these documents that translate to an address have counters: iptables rules have, kube-proxy's nftables rules do
/// not.
pub(crate) fn keep_counters(documents: &[Document], address: IpAddr) -> bool {
    let mut applied = documents.iter().filter(|document| document.applies_to(Family::of(address))).peekable();
    applied.peek().is_some() && applied.all(|document| document.rules.iptables().is_some())
}

/// The other rules of a node.
fn other_rules<'s>(scenario: &'s Scenario, node: &Node) -> impl Iterator<Item = &'s OtherRules> {
    let place = Place::Node(node.name.clone());
    scenario.rules.iter().filter(move |rules| rules.place == place)
}

/// Adds a node's other nftables tables to its documents: of chains at the same priority, those that must run first are installed last.
fn with_other_tables(scenario: &Scenario, node: &Node, mut documents: Vec<Document>) -> Vec<Document> {
    let Some(family) = documents.first().map(|document| document.family) else { return documents };
    for OtherRules { rules, install, .. } in other_rules(scenario, node).filter(|rules| rules.is_other_tables()) {
        let at = if *install == Install::After { 0 } else { documents.len() };
        documents.insert(at, document(node, family, Arc::clone(rules)));
    }
    documents
}

fn document(node: &Node, family: Family, rules: Arc<Rules>) -> Document {
    Document { netns: format!("node/{}", node.name), family, rules }
}

/// A node's documents of a family, without other nftables tables.
fn node_documents(
    scenario: &Scenario,
    node: &Node,
    family: Family,
    written: impl Fn(&Node, Family) -> Result<Rules, Unsupported>,
) -> Result<Vec<Document>, Unsupported> {
    let is_merged = |rules: &&OtherRules| rules.family == family && !rules.is_other_tables();
    let other: Vec<&OtherRules> = other_rules(scenario, node).filter(is_merged).collect();
    let (instead, other): (Vec<&OtherRules>, Vec<&OtherRules>) =
        other.into_iter().partition(|rules| rules.install == Install::Instead);
    let written = match instead.first() {
        Some(instead) if other.is_empty() => return Ok(vec![document(node, family, Arc::clone(&instead.rules))]),
        Some(instead) => Rules::clone(&instead.rules),
        None => written(node, family)?,
    };
    let document = |rules: Rules| document(node, family, Arc::new(rules));
    Ok(match (written, other.first()) {
        (Rules::Iptables(generated), _) => vec![document(merged(generated.rules, &other).into())],
        (generated, None) => vec![document(generated)],
        (generated, Some(first)) => {
            let mut documents = vec![document(generated)];
            let at = usize::from(first.install == Install::Before);
            documents.insert(at, document(merged(RuleSet::new(family), &other).into()));
            documents
        }
    })
}

/// Generated iptables rules with other rules before and after them.
fn merged(generated: RuleSet, others: &[&OtherRules]) -> RuleSet {
    others.iter().fold(generated, |rules, other| {
        let order = if other.install == Install::Before { Order::Before } else { Order::After };
        match other.rules.iptables() {
            Some(more) => iptables::merge(rules, more, order),
            None => rules,
        }
    })
}
