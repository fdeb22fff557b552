//! How much of a node's rules a text shows, chain by chain.

use std::collections::BTreeSet;

use crate::cluster::Family;

/// Which tables and chains a text shows with all their rules.
///
/// A rule that is missing from a chain that is shown whole is missing on the node. What else is missing may be in the rest, which the
/// text does not show.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    /// Whether this is a node with all its rules, and not a text.
    is_all: bool,
    tables: BTreeSet<String>,
    chains: BTreeSet<(String, String)>,
    /// The chains that are cut: some of their rules are not shown.
    cut: BTreeSet<(String, String)>,
}

/// The name under which kube-proxy's table of a family of nftables is covered.
pub fn nft_table(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ip kube-proxy",
        Family::Ipv6 => "ip6 kube-proxy",
    }
}

impl Coverage {
    /// All rules of a node.
    pub fn all() -> Self {
        Self { is_all: true, ..Self::default() }
    }

    /// Adds a table that is shown with all its chains.
    pub fn add_table(&mut self, table: &str) {
        self.tables.insert(table.to_owned());
    }

    /// Takes back that a table is shown with all its chains.
    pub fn remove_table(&mut self, table: &str) {
        self.tables.remove(table);
    }

    /// Adds a chain, or a set or map, that is shown with all its rules.
    pub fn add_chain(&mut self, table: &str, chain: &str) {
        self.chains.insert((table.to_owned(), chain.to_owned()));
    }

    /// Adds a chain of which some rules are known to be left out.
    pub fn add_cut(&mut self, table: &str, chain: &str) {
        self.cut.insert((table.to_owned(), chain.to_owned()));
    }

    /// Whether a table is shown with all its chains: one that it does not have is not on the node.
    pub fn has_table(&self, table: &str) -> bool {
        self.is_all || self.tables.contains(table)
    }

    /// Whether a chain, a set or a map is shown with all its rules.
    pub fn has_chain(&self, table: &str, chain: &str) -> bool {
        self.has_table(table) || self.chains.contains(&(table.to_owned(), chain.to_owned()))
    }

    /// Whether some rules of a chain are known to be left out.
    pub fn is_cut(&self, table: &str, chain: &str) -> bool {
        !self.has_chain(table, chain) && self.cut.contains(&(table.to_owned(), chain.to_owned()))
    }

    /// Takes back what is said of tables and chains, but for the chains that a filter leaves whole.
    pub fn retain_chains(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.tables.clear();
        self.chains.retain(|(_, chain)| is_kept(chain));
    }

    /// Adds what another text shows of the same node.
    pub fn join(&mut self, other: Self) {
        self.is_all |= other.is_all;
        self.tables.extend(other.tables);
        self.chains.extend(other.chains);
        self.cut.extend(other.cut);
    }
}
