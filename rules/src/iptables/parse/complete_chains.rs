//! Detection of complete chains in single lines of `iptables-save` and `iptables -S`.
//!
//! Both print the declarations of a table's chains first, and then the rules, chain by chain in the same order. So a declared chain has all
//! its rules, unless lines were omitted between its neighbours. If the output of `iptables-save` has neither the first line of a table nor
//! the last one, a filter may have selected the lines, so no chain is known to be complete.

use std::collections::HashMap;

use super::super::table_name::TableName;
use crate::coverage::Coverage;

/// The lines seen so far.
#[derive(Debug, Default)]
pub(super) struct LineTracker {
    tables: Vec<SeenTable>,
    /// The table and the kind of the last line.
    last: Option<(usize, Event)>,
    /// Whether lines were omitted after the last one.
    is_gap: bool,
}

/// A table.
#[derive(Debug)]
struct SeenTable {
    name: TableName,
    chains: Vec<SeenChain>,
    positions: HashMap<String, usize>,
    /// Whether `*table` opened it.
    is_opened: bool,
    /// Whether `COMMIT` closed it.
    is_closed: bool,
    /// Whether `iptables -S` prints it, which writes neither.
    is_listed: bool,
    /// Whether lines were omitted or could not be read.
    is_broken: bool,
}

/// A chain.
#[derive(Debug)]
struct SeenChain {
    name: String,
    is_declared: bool,
    has_rules: bool,
    /// Whether any of its rules may be missing.
    is_cut: bool,
    /// Whether rules after its last one may be missing.
    is_cut_at_end: bool,
    /// Whether rules that were read jump to it.
    is_used: bool,
}

/// A line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Open,
    Heading(usize),
    Rule(usize),
    Commit,
}

impl LineTracker {
    /// `*table`
    pub(super) fn open(&mut self, name: TableName) {
        let table = self.table(name);
        self.tables[table].is_opened = true;
        self.tables[table].is_closed = false;
        self.step(table, Event::Open);
    }

    /// `COMMIT`
    pub(super) fn commit(&mut self, name: TableName) {
        let table = self.table(name);
        self.tables[table].is_closed = true;
        self.step(table, Event::Commit);
    }

    /// The declaration of a chain by `iptables -S`.
    pub(super) fn listed(&mut self, name: TableName, chain: &str) {
        let table = self.table(name);
        self.tables[table].is_listed = true;
        self.heading(name, chain);
    }

    /// The declaration of a chain.
    pub(super) fn heading(&mut self, name: TableName, chain: &str) {
        let table = self.table(name);
        let at = self.tables[table].chain(chain);
        self.tables[table].chains[at].is_declared = true;
        self.step(table, Event::Heading(at));
    }

    /// A rule, and the chain that it jumps to.
    pub(super) fn rule(&mut self, name: TableName, chain: &str, next: Option<&str>) {
        let table = self.table(name);
        let at = self.tables[table].chain(chain);
        if let Some(next) = next {
            let next = self.tables[table].chain(next);
            self.tables[table].chains[next].is_used = true;
        }
        self.step(table, Event::Rule(at));
        self.tables[table].chains[at].has_rules = true;
    }

    /// A rule that could not be read.
    pub(super) fn unread(&mut self, name: TableName, chain: &str) {
        let table = self.table(name);
        let at = self.tables[table].chain(chain);
        self.tables[table].chains[at].is_cut = true;
        self.tables[table].is_broken = true;
    }

    /// Lines are omitted here.
    pub(super) fn gap(&mut self) {
        self.is_gap = true;
    }

    /// Returns whether the last table was opened and not closed.
    pub(super) fn is_open(&self) -> bool {
        self.last.is_some_and(|(table, _)| self.tables[table].is_opened && !self.tables[table].is_closed)
    }

    /// Finishes after the last line. Returns the coverage, and whether the text ends within a table.
    pub(super) fn finish(mut self) -> (Coverage, bool) {
        let mut is_cut = false;
        if let Some((table, _)) = self.last {
            let own = &self.tables[table];
            let has_end = own.is_closed || !own.is_opened && !self.is_gap && !own.ends_early();
            if !has_end {
                is_cut = true;
                self.cut_after(table);
            }
        }
        self.tables.iter_mut().for_each(SeenTable::cut_before);
        let mut coverage = Coverage::default();
        for table in &self.tables {
            let name = table.name.as_str();
            // Every table has built-in chains, whose declarations are printed.
            let has_headings = table.chains.iter().any(|chain| chain.is_declared);
            if table.is_opened && table.is_closed && !table.is_broken && has_headings && !table.is_update() {
                coverage.add_table(name);
            }
            let has_bounds = table.is_opened || table.is_closed || table.is_listed;
            for chain in table.chains.iter().filter(|chain| chain.is_declared || chain.has_rules) {
                if chain.is_cut {
                    coverage.add_truncated(name, &chain.name);
                } else if chain.is_cut_at_end {
                    coverage.add_truncated_at_end(name, &chain.name);
                } else if chain.is_declared && has_bounds {
                    coverage.add_chain(name, &chain.name);
                }
            }
        }
        (coverage, is_cut)
    }

    fn table(&mut self, name: TableName) -> usize {
        if let Some(at) = self.tables.iter().position(|table| table.name == name) {
            return at;
        }
        self.tables.push(SeenTable {
            name,
            chains: Vec::new(),
            positions: HashMap::new(),
            is_opened: false,
            is_closed: false,
            is_listed: false,
            is_broken: false,
        });
        self.tables.len() - 1
    }

    fn step(&mut self, table: usize, event: Event) {
        if let Some((before, _)) = self.last.filter(|(before, _)| *before != table)
            && self.tables[before].is_opened
            && !self.tables[before].is_closed
        {
            self.cut_after(before);
        }
        if std::mem::take(&mut self.is_gap) {
            self.skip(table, event);
        }
        self.last = Some((table, event));
    }

    /// Lines were omitted before a line.
    fn skip(&mut self, table: usize, event: Event) {
        let from = match self.last {
            Some((before, _)) if before != table => {
                self.cut_after(before);
                None
            }
            last => last.map(|(_, event)| event),
        };
        let own = &mut self.tables[table];
        own.is_broken = true;
        let last = own.chains.len().saturating_sub(1);
        let (first, last) = match (from, event) {
            (_, Event::Open) | (None | Some(Event::Open), Event::Heading(_)) => return,
            // After `-N A`, `-A A ...`, `-N B` only the first chain can have more rules.
            (Some(Event::Heading(at) | Event::Rule(at)), Event::Heading(_)) => (at, at),
            (Some(Event::Rule(first)), Event::Rule(last)) => (first.min(last), first.max(last)),
            (Some(Event::Rule(first)), Event::Commit) => (first, last),
            (_, Event::Rule(last)) => (0, last),
            (_, Event::Commit | Event::Heading(_)) => (0, last),
        };
        let is_after_headings = !matches!(from, Some(Event::Rule(_)));
        for (at, chain) in own.chains.iter_mut().enumerate().take(last + 1).skip(first) {
            chain.is_cut |= !(is_after_headings && chain.has_rules && at != last);
        }
    }

    /// What follows the last line of a table is omitted.
    fn cut_after(&mut self, table: usize) {
        let from = match self.last {
            Some((last, Event::Heading(at) | Event::Rule(at))) if last == table => at,
            _ => 0,
        };
        let is_of_headings = matches!(self.last, Some((last, Event::Heading(_))) if last == table);
        let is_of_rules = matches!(self.last, Some((last, Event::Rule(_))) if last == table);
        let own = &mut self.tables[table];
        own.is_broken = true;
        for (at, chain) in own.chains.iter_mut().enumerate() {
            if is_of_rules && at == from && chain.is_declared {
                chain.is_cut_at_end = true;
                continue;
            }
            chain.is_cut |= at >= from && !(chain.has_rules && at > from) || is_of_headings && !chain.has_rules;
        }
    }
}

impl SeenTable {
    /// Of a table whose end is shown, but not its start, the first chain may have lost its first rules, as after `tail`.
    fn cut_before(&mut self) {
        if self.is_closed && !self.is_opened {
            self.chains.iter_mut().take(1).filter(|first| !first.is_declared).for_each(|first| first.is_cut = true);
        }
    }

    fn chain(&mut self, name: &str) -> usize {
        if let Some(at) = self.positions.get(name) {
            return *at;
        }
        let at = self.chains.len();
        self.positions.insert(name.to_owned(), at);
        self.chains.push(SeenChain {
            name: name.to_owned(),
            is_declared: false,
            has_rules: false,
            is_cut: false,
            is_cut_at_end: false,
            is_used: false,
        });
        at
    }

    /// Returns whether it is the input of iptables-restore with `--noflush`, as kube-proxy logs it: only the chains that it replaces.
    fn is_update(&self) -> bool {
        let mut declared = self.chains.iter().filter(|chain| chain.is_declared).map(|chain| chain.name.as_str());
        let is_builtin = |name: &str| self.name.builtin_chains().contains(&name);
        !declared.clone().any(is_builtin) && declared.any(|name| name.starts_with("KUBE-"))
    }

    /// Returns whether chains after the last one with rules are referenced but empty, or no chain has rules though there are chains for
    /// services: `iptables -S` prints no line that ends a table.
    fn ends_early(&self) -> bool {
        if self.chains.iter().all(|chain| !chain.has_rules) {
            return self.chains.iter().any(|chain| chain.name.starts_with("KUBE-"));
        }
        // Chains whose declarations were cut off come last here.
        let declared = self.chains.iter().rev().filter(|chain| chain.is_declared);
        declared.take_while(|chain| !chain.has_rules).any(|chain| chain.is_used)
    }
}
