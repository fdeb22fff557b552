//! Coverage: which of a node's rules a text contains, chain by chain.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::cluster::Family;

/// The tables and chains that a text contains with all their rules.
///
/// A rule that is missing from a complete chain is missing on the node. Other missing rules may exist outside the text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    /// Whether all rules of the node are covered.
    is_all: bool,
    tables: BTreeSet<String>,
    chains: BTreeSet<(String, String)>,
    /// The truncated chains: some of their rules are not in the text.
    cut: BTreeSet<(String, String)>,
    /// The known filters of the lines: a line that one of them selects and that is not in the text is missing on the node.
    picked: Vec<Picked>,
    /// Possible filters, guessed from what the lines have in common.
    guessed: Vec<Picked>,
}

/// A filter of lines of saved rules, such as `grep`.
pub trait Lines: Any + fmt::Debug + Send + Sync {
    /// Returns whether the filter selects a line.
    fn shows(&self, line: &str) -> bool;

    /// Returns whether the filter selects all lines with this prefix.
    fn shows_all(&self, start: &str) -> bool;

    /// Returns whether another filter is equal.
    fn equals(&self, other: &dyn Lines) -> bool;
}

/// A filter and the table it applies to; all tables if none is named.
#[derive(Debug, Clone)]
struct Picked {
    table: Option<String>,
    lines: Arc<dyn Lines>,
}

impl Picked {
    fn is_of(&self, table: &str) -> bool {
        self.table.as_ref().is_none_or(|own| own == table)
    }
}

impl PartialEq for Picked {
    fn eq(&self, other: &Self) -> bool {
        self.table == other.table && self.lines.equals(&*other.lines)
    }
}

impl Eq for Picked {}

/// Returns the name of kube-proxy's nftables table of a family.
pub fn nft_table(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ip kube-proxy",
        Family::Ipv6 => "ip6 kube-proxy",
    }
}

impl Coverage {
    /// Coverage of all rules of a node.
    pub fn all() -> Self {
        Self { is_all: true, ..Self::default() }
    }

    /// Adds a table with all its chains.
    pub fn add_table(&mut self, table: &str) {
        self.tables.insert(table.to_owned());
    }

    /// Removes a table from the complete ones.
    pub fn remove_table(&mut self, table: &str) {
        self.tables.remove(table);
    }

    /// Adds a complete chain, set or map.
    pub fn add_chain(&mut self, table: &str, chain: &str) {
        self.chains.insert((table.to_owned(), chain.to_owned()));
    }

    /// Adds a chain that is known to be truncated.
    pub fn add_truncated(&mut self, table: &str, chain: &str) {
        let names = (table.to_owned(), chain.to_owned());
        self.chains.remove(&names);
        self.cut.insert(names);
    }

    /// Returns whether a table is covered with all its chains: a chain that is not in the text does not exist on the node.
    pub fn has_table(&self, table: &str) -> bool {
        self.is_all || self.tables.contains(table)
    }

    /// Returns whether a chain, set or map is covered completely.
    pub fn has_chain(&self, table: &str, chain: &str) -> bool {
        let names = || (table.to_owned(), chain.to_owned());
        let is_filtered = || {
            let start = format!("-A {chain} ");
            self.picked.iter().any(|one| one.is_of(table) && one.lines.shows_all(&start))
        };
        self.has_table(table) || self.chains.contains(&names()) || is_filtered() && !self.cut.contains(&names())
    }

    /// Removes tables and chains from the complete ones, of one table or of all: the text contains only the lines that a filter selected.
    pub fn pick(&mut self, table: Option<&str>, lines: impl Lines + 'static) {
        self.tables.clear();
        self.chains.clear();
        self.picked.push(Picked { table: table.map(str::to_owned), lines: Arc::new(lines) });
    }

    /// Removes the known filters for which `is_wrong` returns true, given the table to which they apply. Returns for each filter, in the
    /// order in which they were added, whether it was removed.
    pub fn distrust(&mut self, is_wrong: impl Fn(Option<&str>, &dyn Lines) -> bool) -> Vec<bool> {
        let are_wrong: Vec<bool> = self.picked.iter().map(|one| is_wrong(one.table.as_deref(), &*one.lines)).collect();
        let mut wrong = are_wrong.iter();
        self.picked.retain(|_| wrong.next() != Some(&true));
        are_wrong
    }

    /// Returns the number of known filters.
    pub fn filters(&self) -> usize {
        self.picked.len()
    }

    /// Adds a possible filter.
    pub fn guess(&mut self, lines: impl Lines + 'static) {
        self.guessed.push(Picked { table: None, lines: Arc::new(lines) });
    }

    /// Returns whether the lines of a table were selected by a known filter.
    pub fn is_filtered(&self, table: &str) -> bool {
        self.picked.iter().any(|one| one.is_of(table))
    }

    /// Returns whether a known filter selects a line of saved rules.
    pub fn shows(&self, table: &str, line: &str) -> bool {
        self.picked.iter().any(|one| one.is_of(table) && one.lines.shows(line))
    }

    /// Returns whether a known filter selects all lines of saved rules with this prefix.
    pub fn shows_all(&self, table: &str, start: &str) -> bool {
        if self.is_filtered(table) {
            return self.picked.iter().any(|one| one.is_of(table) && one.lines.shows_all(start));
        }
        !self.guessed.is_empty() && self.guessed.iter().all(|one| one.lines.shows_all(start))
    }

    /// Returns whether a chain is known to be truncated.
    pub fn is_cut(&self, table: &str, chain: &str) -> bool {
        !self.has_chain(table, chain) && self.cut.contains(&(table.to_owned(), chain.to_owned()))
    }

    /// Removes all tables and chains from the complete ones.
    pub fn clear(&mut self) {
        self.tables.clear();
        self.chains.clear();
        self.picked.clear();
        self.guessed.clear();
    }

    /// Returns whether all possible filters select a line of saved rules.
    pub fn may_show(&self, line: &str) -> bool {
        self.guessed.iter().all(|one| one.lines.shows(line))
    }

    /// Adds the coverage of another text from the same node.
    pub fn join(&mut self, other: Self) {
        self.is_all |= other.is_all;
        self.tables.extend(other.tables);
        self.chains.extend(other.chains);
        self.cut.extend(other.cut);
        self.picked.extend(other.picked);
        self.guessed.extend(other.guessed);
    }
}
