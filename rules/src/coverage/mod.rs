//! Coverage: which of a node's rules a text contains, chain by chain.

mod filters;

use std::collections::BTreeSet;

pub use self::filters::Lines;
use self::filters::{Filter, Filters};
use crate::cluster::Family;

/// The tables and chains that a text contains with all their rules.
///
/// A rule that is missing from a complete chain is missing on the node. Other missing rules may exist outside the text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    /// Whether all rules of the node are covered.
    is_all: bool,
    /// Whether the lines are in another order than the kernel's.
    is_unordered: bool,
    tables: BTreeSet<String>,
    chains: BTreeSet<(String, String)>,
    /// The truncated chains: some of their rules are not in the text.
    cut: BTreeSet<(String, String)>,
    /// The truncated chains whose rules are in the text up to the last one that it shows: it ends within them.
    cut_at_end: BTreeSet<(String, String)>,
    /// The chains whose rules are in the text without their interfaces, as in `iptables -L` without `-v`.
    without_interfaces: BTreeSet<(String, String)>,
    /// The known filters of the lines: a line that one of them selects and that is not in the text is missing on the node.
    known_filters: Filters,
    /// Possible filters, guessed from what the lines have in common.
    possible_filters: Vec<Filter>,
}

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

    /// Sets that the lines are in another order than the kernel's: that of the rules of a chain is unknown.
    pub fn set_unordered(&mut self) {
        self.is_unordered = true;
    }

    /// Returns whether the order of the rules of a chain is unknown.
    pub fn is_unordered(&self) -> bool {
        self.is_unordered
    }

    /// Adds a table with all its chains.
    pub fn add_table(&mut self, table: &str) {
        self.tables.insert(table.to_owned());
    }

    /// Removes a table from the complete ones.
    pub fn remove_table(&mut self, table: &str) {
        self.tables.remove(table);
    }

    /// Removes what is known of other tables and their chains. Filters stay: they select lines of all tables.
    pub fn retain_tables(&mut self, keep: impl Fn(&str) -> bool) {
        self.tables.retain(|table| keep(table));
        let of_chains = [&mut self.chains, &mut self.cut, &mut self.cut_at_end, &mut self.without_interfaces];
        of_chains.into_iter().for_each(|chains| chains.retain(|(table, _)| keep(table)));
    }

    /// Adds a complete chain, set or map.
    pub fn add_chain(&mut self, table: &str, chain: &str) {
        self.chains.insert((table.to_owned(), chain.to_owned()));
    }

    /// Adds a chain that is known to be truncated.
    pub fn add_truncated(&mut self, table: &str, chain: &str) {
        let names = (table.to_owned(), chain.to_owned());
        self.chains.remove(&names);
        self.cut_at_end.remove(&names);
        self.cut.insert(names);
    }

    /// Adds a chain that the text ends within: rules are missing only after the last one that it shows.
    pub fn add_truncated_at_end(&mut self, table: &str, chain: &str) {
        self.add_truncated(table, chain);
        self.cut_at_end.insert((table.to_owned(), chain.to_owned()));
    }

    /// Adds a chain whose rules are in the text without their interfaces.
    pub fn add_without_interfaces(&mut self, table: &str, chain: &str) {
        self.without_interfaces.insert((table.to_owned(), chain.to_owned()));
    }

    /// Returns whether the rules of a chain may have interfaces that the text does not show: then equal rules may be different ones.
    pub fn hides_interfaces(&self, table: &str, chain: &str) -> bool {
        self.without_interfaces.contains(&(table.to_owned(), chain.to_owned()))
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
            self.known_filters.candidates(table, &start).any(|one| one.lines.shows_all(&start))
        };
        self.has_table(table) || self.chains.contains(&names()) || is_filtered() && !self.cut.contains(&names())
    }

    /// Removes tables and chains from the complete ones, of one table or of all: the text contains only the lines that a filter selected.
    pub fn add_filter(&mut self, table: Option<&str>, lines: impl Lines + 'static) {
        self.tables.clear();
        self.chains.clear();
        self.cut_at_end.clear();
        self.known_filters.push(Filter::new(table, lines));
    }

    /// Sets the output that the known filters made, by its first line.
    pub fn set_origin(&mut self, origin: usize) {
        self.known_filters.iter_mut().for_each(|filter| filter.origin = origin);
    }

    /// Removes the known filters.
    pub fn remove_filters(&mut self) {
        self.known_filters = Filters::default();
    }

    /// Returns whether there are known filters.
    pub fn has_filters(&self) -> bool {
        !self.known_filters.is_empty()
    }

    /// Returns the outputs whose known filters select a line of saved rules.
    pub fn origins(&self, table: &str, line: &str) -> BTreeSet<usize> {
        let selecting = self.known_filters.candidates(table, line).filter(|one| one.lines.shows(line));
        selecting.map(|one| one.origin).collect()
    }

    /// Adds a possible filter.
    pub fn add_possible_filter(&mut self, lines: impl Lines + 'static) {
        self.possible_filters.push(Filter::new(None, lines));
    }

    /// Returns whether the lines of a table were selected by a known filter.
    pub fn is_filtered(&self, table: &str) -> bool {
        self.known_filters.iter().any(|one| one.is_of(table))
    }

    /// Returns whether a known filter selects a line of saved rules.
    pub fn shows(&self, table: &str, line: &str) -> bool {
        self.known_filters.candidates(table, line).any(|one| one.lines.shows(line))
    }

    /// Returns whether a known filter selects all lines of saved rules with this prefix.
    pub fn shows_all(&self, table: &str, start: &str) -> bool {
        if self.is_filtered(table) {
            return self.known_filters.candidates(table, start).any(|one| one.lines.shows_all(start));
        }
        !self.possible_filters.is_empty() && self.possible_filters.iter().all(|one| one.lines.shows_all(start))
    }

    /// Returns whether a chain is known to be truncated.
    pub fn is_cut(&self, table: &str, chain: &str) -> bool {
        !self.has_chain(table, chain) && self.cut.contains(&(table.to_owned(), chain.to_owned()))
    }

    /// Returns whether a truncated chain has all its rules up to the last one in the text.
    pub fn is_cut_at_end(&self, table: &str, chain: &str) -> bool {
        self.is_cut(table, chain) && self.cut_at_end.contains(&(table.to_owned(), chain.to_owned()))
    }

    /// Removes all tables and chains from the complete ones.
    pub fn clear(&mut self) {
        self.tables.clear();
        self.chains.clear();
        self.cut_at_end.clear();
        self.remove_filters();
        self.possible_filters.clear();
    }

    /// Returns the coverage of the same text if any of its rules may be missing: that of no table and no chain.
    #[must_use]
    pub fn uncovered(self) -> Self {
        let Self { without_interfaces, is_unordered, .. } = self;
        Self { without_interfaces, is_unordered, ..Self::default() }
    }

    /// Returns whether all possible filters select a line of saved rules.
    pub fn may_show(&self, line: &str) -> bool {
        self.possible_filters.iter().all(|one| one.lines.shows(line))
    }

    /// Adds the coverage of another text from the same node.
    pub fn join(&mut self, mut other: Self) {
        // Another text may have rules from anywhere in such a chain.
        self.cut_at_end.retain(|(table, _)| !other.may_show_rules_of(table));
        other.cut_at_end.retain(|(table, _)| !self.may_show_rules_of(table));
        self.cut_at_end.extend(other.cut_at_end);
        self.is_all |= other.is_all;
        self.is_unordered |= other.is_unordered;
        self.tables.extend(other.tables);
        self.chains.extend(other.chains);
        self.cut.extend(other.cut);
        self.without_interfaces.extend(other.without_interfaces);
        self.known_filters.extend(other.known_filters);
        self.possible_filters.extend(other.possible_filters);
    }

    /// Returns whether the text may have rules of a table.
    fn may_show_rules_of(&self, table: &str) -> bool {
        let is_of_table = |(own, _): &(String, String)| own == table;
        self.has_table(table)
            || self.chains.iter().chain(&self.cut).any(is_of_table)
            || self.is_filtered(table)
            || !self.possible_filters.is_empty()
    }
}
