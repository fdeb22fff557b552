//! The rules of several files of a machine as one rule set.

use svclab_rules::iptables::{ExcerptMerger, TableName};
use svclab_rules::ruleset::Rules;

use super::machine_files::Listing;
use super::node_rules::NodeRules;

/// What a file adds to the rules of a machine.
pub(crate) enum Added {
    /// Tables alone.
    Tables,
    /// The same rules once more.
    Again,
    /// Other rules of the same tables, which do not count.
    Others,
}

impl NodeRules {
    /// Whether others, of another file, are of the same machine: of the folder, or, if that is given, as their tables show.
    pub(crate) fn is_of_machine_of(&self, other: &Self, is_given: bool) -> bool {
        let is_of_machine = |own: &Listing<'_>, other: &Listing<'_>| match is_given {
            true => own.completes(other),
            false => own.is_of_machine_of(other),
        };
        self.listing().zip(other.listing()).is_some_and(|(own, other)| is_of_machine(&own, &other))
    }

    /// Adds the tables of another file of the same machine that these do not have.
    pub(crate) fn add_tables(&mut self, other: Self) -> Option<Added> {
        let (own, others) = (self.listing()?, other.listing()?);
        let added = match () {
            () if own.shared(&others).next().is_none() => Added::Tables,
            () if own.has_as_many_rules(&others) => Added::Again,
            () => Added::Others,
        };
        let (Rules::Iptables(own), Rules::Iptables(mut others)) = (&mut self.rules, other.rules) else { return None };
        others.rules.tables.retain(|table| own.rules.table(table.name).is_none());
        let file = other.file?;
        let new = others.rules.tables.iter().map(|table| (table.name, file.clone(), other.first));
        self.elsewhere.extend(new.filter(|(table, ..)| !other.elsewhere.iter().any(|(known, ..)| known == table)));
        let is_new = |table: &TableName| others.rules.table(*table).is_some();
        self.elsewhere.extend(other.elsewhere.into_iter().filter(|(table, ..)| is_new(table)));
        if !others.rules.tables.is_empty() {
            ExcerptMerger::default().join(own, others);
            self.coverage.join(other.coverage);
            self.cut = self.cut.or(other.cut);
        }
        Some(added)
    }
}
