//! What is installed where: generated rules, other rules, and both in one document a namespace and family.

use std::net::IpAddr;

use svclab_rules::cluster::{Cluster, Family, Node, ProxyMode};
use svclab_rules::iptables::{self, Order, RuleSet};
use svclab_rules::nftables::{self, Ruleset, Unsupported};
use svclab_rules::profile::UnknownVersion;

use crate::scenario::{Install, OtherRules, Place, Scenario, Span, pod_label};

/// One document of rules for one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The namespace's name: `node/worker`.
    pub netns: String,
    /// The family; of other tables of nftables the node's first, whatever theirs.
    pub family: Family,
    /// Whether these are other tables of nftables, which stand beside others and may be of both families.
    pub beside: bool,
    /// The language that the text is in.
    pub mode: ProxyMode,
    /// The whole text, as `iptables-restore` or `nft -f` reads it.
    pub text: String,
}

impl Document {
    /// Whether packets of a family may meet these rules.
    pub(crate) fn is_met_by(&self, family: Family) -> bool {
        self.beside || self.family == family
    }

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
    /// Whether it can be installed only where interfaces are: nftables' `iif` and `oif` stand for an interface's index.
    pub(crate) fn needs_interfaces(&self) -> bool {
        self.mode == ProxyMode::Nftables && self.text.split_whitespace().any(|word| matches!(word, "iif" | "oif"))
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
            documents.push(Document {
                netns: pod_label(pod),
                family: rules.family,
                beside: false,
                mode: ProxyMode::Iptables,
                text: installed(rules)?,
            });
        }
    }
    Ok(documents)
}

/// Whether all rules of these documents that translate to an address have counters: those of iptables do, kube-proxy's of
/// nftables do not.
pub fn keep_counters(documents: &[Document], address: IpAddr) -> bool {
    let of_family = |document: &&Document| document.is_met_by(Family::of(address));
    let mut modes = documents.iter().filter(of_family).map(|document| document.mode).peekable();
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
    let Some(first) = documents.first().cloned() else { return Ok(documents) };
    for rules in of_node(scenario, node).filter(|rules| rules.is_beside()) {
        let document =
            Document { beside: true, mode: ProxyMode::Nftables, text: emptied_first(rules)?, ..first.clone() };
        documents.insert(if rules.install == Install::After { 0 } else { documents.len() }, document);
    }
    Ok(documents)
}

/// Tables as they are written, behind what takes all rules out of those that are there already: `nft -f` adds to them.
fn emptied_first(rules: &OtherRules) -> Result<String, DocumentError> {
    let parsed =
        nftables::parse_all(&rules.text).map_err(|errors| DocumentError::foreign(rules.origin.clone(), &errors))?;
    let emptied = parsed.names.iter().map(|name| format!("table {name} {{\n}}\nflush table {name}\n"));
    Ok(emptied.collect::<String>() + &rules.text)
}

fn node_documents(
    scenario: &Scenario,
    cluster: &Cluster,
    node: &Node,
    family: Family,
) -> Result<Vec<Document>, DocumentError> {
    let is_met = |rules: &&OtherRules| rules.family == family && !rules.is_beside();
    let foreign: Vec<&OtherRules> = of_node(scenario, node).filter(is_met).collect();
    let document = |mode, text| Document { netns: format!("node/{}", node.name), family, beside: false, mode, text };
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

/// The text that installs rules which stand alone, written anew: what was read is what is installed, and nothing that a program may
/// read otherwise. Of nftables it is kube-proxy's table of the family, in place of one that is there.
fn installed(rules: &OtherRules) -> Result<String, DocumentError> {
    if rules.mode == ProxyMode::Iptables {
        let parsed = iptables::parse(&rules.text, rules.family)
            .map_err(|errors| DocumentError::foreign(rules.origin.clone(), &errors))?;
        return Ok(iptables::print(&parsed.rules));
    }
    let parsed =
        nftables::parse(&rules.text).map_err(|errors| DocumentError::foreign(rules.origin.clone(), &errors))?;
    let tables = parsed.rules.tables.into_iter().filter(|table| table.family == rules.family);
    Ok(nftables::print_sync(&Ruleset { tables: tables.collect() }))
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
