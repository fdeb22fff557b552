//! The rule sets of a machine's files as one: tables in files of their own complete each other, and of a table in two formats the saved one counts.

use svclab_rules::iptables::{ExcerptMerger, TableName};
use svclab_rules::ruleset::Rules;

use super::listings::Listing;
use super::model::Format;
use super::node_rules::NodeRules;

/// The rule sets of machines.
pub(crate) struct MachineRules {
    pub(crate) sets: Vec<NodeRules>,
    /// Other rules of tables that a file of the same machine has, too, each with this file: they were saved at another time.
    pub(crate) of_other_times: Vec<(NodeRules, String)>,
}

/// The rule sets of which those of one machine's files are one. `node` returns the node that a file is of, if that is given.
pub(super) fn join_files<'n>(sets: Vec<NodeRules>, node: impl Fn(&str) -> Option<&'n str>) -> MachineRules {
    let node = |set: &NodeRules| node(set.file().unwrap_or_default());
    let mut all = MachineRules { sets: Vec::new(), of_other_times: Vec::new() };
    for mut set in sets {
        let is_of_one = |known: &&mut NodeRules| {
            known.file != set.file
                && known.is_of_kind(&set)
                && known.backend.zip(set.backend).is_none_or(|(known, own)| known == own)
                && known.may_be_of_host(set.host.as_ref())
                && node(known) == node(&set)
                && known.is_of_machine_of(&set, node(known).is_some())
        };
        let Some(known) = all.sets.iter_mut().find(is_of_one) else {
            all.sets.push(set);
            continue;
        };
        if rank(&set) > rank(known) {
            std::mem::swap(known, &mut set);
        }
        let file = known.file().unwrap_or_default().to_owned();
        all.of_other_times.extend(known.add_file(set).map(|rest| (rest, file)));
    }
    all
}

/// How much rules say: most those that translate, and of these, those that iptables-save prints.
fn rank(set: &NodeRules) -> (bool, bool) {
    let has_nat = set.rules.iptables().is_some_and(|rules| rules.table(TableName::Nat).is_some());
    (has_nat, set.format == Format::IptablesSave)
}

impl NodeRules {
    /// Whether others, of another file, are of the same machine: of the folder, or, if that is given, as their tables show.
    fn is_of_machine_of(&self, other: &Self, is_given: bool) -> bool {
        let is_of_machine = |own: &Listing<'_>, other: &Listing<'_>| match is_given {
            true => own.completes(other),
            false => own.is_of_machine_of(other),
        };
        self.listing().zip(other.listing()).is_some_and(|(own, other)| is_of_machine(&own, &other))
    }

    /// The rules of iptables in a file among several.
    fn listing(&self) -> Option<Listing<'_>> {
        let rules = self.rules.iptables()?;
        Some(Listing { file: self.file()?, format: self.format, rules })
    }

    /// Adds the tables of another file of the same machine that these do not have. Returns the others, if they have other rules.
    fn add_file(&mut self, mut other: Self) -> Option<Self> {
        let (own, others) = self.listing().zip(other.listing())?;
        let shared: Vec<TableName> = own.shared(&others).map(|(table, _)| table.name).collect();
        let has_same = own.has_as_many_rules(&others);
        let rest = (!has_same).then(|| {
            let mut rest = other.clone();
            rest.retain_tables(|table| shared.contains(&table));
            rest
        });
        if has_same && !shared.is_empty() {
            self.repeats.extend(other.file.clone());
        }
        self.repeats.append(&mut other.repeats);
        other.retain_tables(|table| !shared.contains(&table));
        self.absorb(&mut other);
        self.heading = self.heading.take().or(other.heading);
        let (Rules::Iptables(own), Rules::Iptables(others)) = (&mut self.rules, other.rules) else { return rest };
        let tables = others.rules.tables.iter().map(|table| table.name);
        let is_elsewhere = |table: &TableName| other.elsewhere.iter().any(|(known, ..)| known == table);
        let of_file = tables.filter(|table| !is_elsewhere(table));
        self.elsewhere.extend(of_file.filter_map(|table| Some((table, other.file.clone()?, other.first))));
        self.elsewhere.extend(other.elsewhere);
        ExcerptMerger::default().join(own, others);
        self.coverage.join(other.coverage);
        rest
    }

    /// Keeps only some tables.
    fn retain_tables(&mut self, keep: impl Fn(TableName) -> bool) {
        if let Rules::Iptables(rules) = &mut self.rules {
            rules.retain_tables(&keep);
        }
        self.elsewhere.retain(|(table, ..)| keep(*table));
        self.coverage.retain_tables(|own| TableName::ALL.into_iter().any(|table| table.as_str() == own && keep(table)));
    }
}
