//! How much of a node's rules a text shows, chain by chain.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

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
    /// What chose the lines that are shown: a line that one of these shows and that is not there is missing.
    picked: Vec<Picked>,
    /// What may have chosen them, by what they have in common.
    guessed: Vec<Picked>,
}

/// What chooses among lines of saved rules, such as `grep`.
pub trait Lines: Any + fmt::Debug + Send + Sync {
    /// Whether a line is shown.
    fn shows(&self, line: &str) -> bool;

    /// Whether all lines that start like this are shown, whatever follows.
    fn shows_all(&self, start: &str) -> bool;

    /// Whether another chooser chooses in the same way.
    fn equals(&self, other: &dyn Lines) -> bool;
}

/// Lines that were chosen of a table; of all where none is named.
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
    pub fn add_truncated(&mut self, table: &str, chain: &str) {
        let names = (table.to_owned(), chain.to_owned());
        self.chains.remove(&names);
        self.cut.insert(names);
    }

    /// Whether a table is shown with all its chains: one that it does not have is not on the node.
    pub fn has_table(&self, table: &str) -> bool {
        self.is_all || self.tables.contains(table)
    }

    /// Whether a chain, a set or a map is shown with all its rules.
    pub fn has_chain(&self, table: &str, chain: &str) -> bool {
        let names = || (table.to_owned(), chain.to_owned());
        let is_filtered = || {
            let start = format!("-A {chain} ");
            self.picked.iter().any(|one| one.is_of(table) && one.lines.shows_all(&start))
        };
        self.has_table(table) || self.chains.contains(&names()) || is_filtered() && !self.cut.contains(&names())
    }

    /// Takes back what is said of tables and chains: of those of one table, or of all, only the lines that something chose are shown.
    pub fn pick(&mut self, table: Option<&str>, lines: impl Lines + 'static) {
        self.tables.clear();
        self.chains.clear();
        self.picked.push(Picked { table: table.map(str::to_owned), lines: Arc::new(lines) });
    }

    /// Adds what may have chosen the lines.
    pub fn guess(&mut self, lines: impl Lines + 'static) {
        self.guessed.push(Picked { table: None, lines: Arc::new(lines) });
    }

    /// Whether what is known of a table is which of its lines were chosen.
    pub fn is_filtered(&self, table: &str) -> bool {
        self.picked.iter().any(|one| one.is_of(table))
    }

    /// Whether a line of saved rules would be shown, because what chose the lines shows it.
    pub fn shows(&self, table: &str, line: &str) -> bool {
        self.picked.iter().any(|one| one.is_of(table) && one.lines.shows(line))
    }

    /// Whether all lines of saved rules that start like this would be shown, whatever follows.
    pub fn shows_all(&self, table: &str, start: &str) -> bool {
        if self.is_filtered(table) {
            return self.picked.iter().any(|one| one.is_of(table) && one.lines.shows_all(start));
        }
        !self.guessed.is_empty() && self.guessed.iter().all(|one| one.lines.shows_all(start))
    }

    /// Whether some rules of a chain are known to be left out.
    pub fn is_cut(&self, table: &str, chain: &str) -> bool {
        !self.has_chain(table, chain) && self.cut.contains(&(table.to_owned(), chain.to_owned()))
    }

    /// Takes back what is said of tables and chains.
    pub fn clear(&mut self) {
        self.tables.clear();
        self.chains.clear();
        self.picked.clear();
        self.guessed.clear();
    }

    /// Whether a line of saved rules would be shown by all that may have chosen the lines.
    pub fn may_show(&self, line: &str) -> bool {
        self.guessed.iter().all(|one| one.lines.shows(line))
    }

    /// Adds what another text shows of the same node.
    pub fn join(&mut self, other: Self) {
        self.is_all |= other.is_all;
        self.tables.extend(other.tables);
        self.chains.extend(other.chains);
        self.cut.extend(other.cut);
        self.picked.extend(other.picked);
        self.guessed.extend(other.guessed);
    }
}
