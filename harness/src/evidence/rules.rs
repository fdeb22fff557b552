//! Pieces with rules → the rules of a node.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use svclab_rules::cluster::Family;
use svclab_rules::coverage::Coverage;
use svclab_rules::infer::Infer;
use svclab_rules::iptables::{self, ExcerptMerger, RuleSet, TableName};
use svclab_rules::nftables;
use svclab_rules::ruleset::Rules;

use super::added_files::{MachineRules, join_files};
use super::alternatives;
use super::listings::{contradicts, has_other_chain, is_another_listing};
use super::machine_files::folder;
use super::model::{Contents, Evidence, Format, Piece};
use super::node_rules::{FileLine, NodeRules, backend};
use super::repeated_commands::{another_time, printed};

impl Evidence {
    /// The piece in another file of the same folder that has the rules of this one as iptables prints them, alone or with other files, if this is
    /// what nft prints of tables of iptables-nft, which lacks comments and more: `svclab dump collect` keeps both.
    pub(crate) fn original(&self, piece: &Piece) -> Option<&Piece> {
        let own = tables(Some(piece).filter(|piece| piece.format == Format::IptablesNft)?)?;
        let own_folder = piece.file.as_deref().map(folder)?;
        let is_of_machine = |other: &&Piece| {
            other.file != piece.file
                && other.file.as_deref().map(folder) == Some(own_folder)
                && backend(other) != Some("iptables-legacy")
                && other.format != Format::IptablesNft
                && tables(other).is_some_and(|rules| rules.family == own.family)
        };
        let of_machine: Vec<&Piece> = self.pieces.iter().filter(is_of_machine).collect();
        let has = |other: &Piece, table: TableName| tables(other).is_some_and(|rules| rules.table(table).is_some());
        let used = own.tables.iter().filter(|table| table.chains.iter().any(|chain| !chain.rules.is_empty()));
        let used: Vec<TableName> = used.map(|table| table.name).collect();
        // Collectors write each table to a file of its own.
        let are_there = used.iter().all(|table| of_machine.iter().any(|other| has(other, *table)));
        let most = |other: &&&Piece| used.iter().filter(|table| has(other, **table)).count();
        of_machine.iter().rev().max_by_key(most).copied().filter(|_| are_there)
    }
}

/// The iptables tables of a piece.
fn tables(piece: &Piece) -> Option<&RuleSet> {
    match &piece.contents {
        Contents::Iptables { rules, .. } => Some(&rules.rules),
        _ => None,
    }
}

/// The rules that evidence has. Whole dumps stand for themselves, each of another node or time; excerpts of a file are parts of one rule
/// set, and so are the files of a machine in a folder.
pub fn node_rules(evidence: &Evidence) -> Vec<NodeRules> {
    let MachineRules { mut sets, of_other_times } = machine_rules(evidence, |_| None);
    sets.extend(of_other_times.into_iter().map(|(set, _)| set));
    sets
}

/// The rules that evidence has, by machine. `node` returns the node that a file is of, if that is given.
pub(crate) fn machine_rules<'n>(evidence: &Evidence, node: impl Fn(&str) -> Option<&'n str>) -> MachineRules {
    let all = joined(evidence, &BTreeSet::new());
    let shortened = shortened(evidence, &all);
    // Chains were taken for whole by what these filters select.
    join_files(if shortened.is_empty() { all } else { joined(evidence, &shortened) }, node)
}

/// An output, by its first line.
type Output = FileLine;

/// The rules that evidence has, if some outputs of filters are shortened.
fn joined(evidence: &Evidence, shortened: &BTreeSet<Output>) -> Vec<NodeRules> {
    let mut all: Vec<NodeRules> = Vec::new();
    let mut joiners: Vec<ExcerptMerger> = Vec::new();
    let has_others = evidence.rules_not_loaded().is_none();
    let is_node_s =
        |piece: &&Piece| evidence.original(piece).is_none() && !(piece.failed_to_load.is_some() && has_others);
    for piece in evidence.pieces.iter().filter(is_node_s) {
        match &piece.contents {
            Contents::Iptables { rules, coverage, rounded_digits, cut, .. } if !rules.rules.tables.is_empty() => {
                let mut coverage = coverage.clone();
                coverage.set_origin(piece.first);
                let is_shortened = shortened.contains(&(piece.file.clone(), piece.first));
                if is_shortened {
                    coverage.remove_filters();
                }
                let is_saved = matches!(piece.format, Format::IptablesSave | Format::IptablesRules);
                let shown = Rules::Iptables(rules.clone());
                let new = NodeRules {
                    rounded_digits: *rounded_digits,
                    saved: Vec::from_iter(is_saved.then_some(piece.first)),
                    shortened: Vec::from_iter(is_shortened.then(|| (piece.file.clone(), piece.first))),
                    backend: backend(piece),
                    ..NodeRules::of_piece(piece, shown, coverage, *cut)
                };
                joiners.resize_with(all.len(), ExcerptMerger::default);
                add(&mut all, &mut joiners, new, rules.rules.family, (piece, evidence));
            }
            Contents::Nftables { rules, coverage, cut, .. } if !rules.rules.tables.is_empty() => {
                add_tables(&mut all, rules, (coverage, *cut), piece);
            }
            _ => {}
        }
    }
    for set in all.iter_mut().filter(|set| !set.is_whole()) {
        if let Rules::Iptables(parsed) = &mut set.rules {
            set.alternatives = alternatives::leave_out(parsed);
        }
    }
    all
}

/// The rule sets without a Service that a text has in addition to one of the same kind with Services. What they do to these is not known.
pub(crate) fn others(sets: &[NodeRules]) -> Vec<&NodeRules> {
    let has_ports: Vec<bool> = sets.iter().map(|set| !set.rules.infer().ports.is_empty()).collect();
    let is_other = |at: usize| {
        let is_beside = |other: &NodeRules| other.file == sets[at].file && other.is_of_kind(&sets[at]);
        let with_ports = sets.iter().zip(&has_ports).filter(|(_, has_ports)| **has_ports);
        !has_ports[at] && sets[at].rules.has_effect() && with_ports.into_iter().any(|(other, _)| is_beside(other))
    };
    (0..sets.len()).filter(|at| is_other(*at)).map(|at| &sets[at]).collect()
}

/// The rules of a text that nothing is known of, in words, if there are any: lines that could not be read, other rule sets.
pub fn not_judged(evidence: &Evidence, sets: &[NodeRules]) -> Option<String> {
    evidence.rules_not_read().or_else(|| others(sets).first().map(|other| words_of_other(other)))
}

/// What is said of another rule set.
pub(crate) fn words_of_other(other: &NodeRules) -> String {
    format!("the rules from {} are another rule set of the same text or folder: their effect is unknown", other.place())
}

/// Adds rules of iptables to those that they belong to.
fn add(
    all: &mut Vec<NodeRules>,
    joiners: &mut [ExcerptMerger],
    mut new: NodeRules,
    family: Family,
    (piece, evidence): (&Piece, &Evidence),
) {
    let of_another_time = |known: &NodeRules| another_time(evidence, known, piece);
    let belongs = |known: &NodeRules| match &known.rules {
        Rules::Iptables(own) => {
            if known.is_over || of_another_time(known).is_some() {
                return false;
            }
            // Excerpts complete each other. Whole tables do where they are others; the same table once more is another dump.
            let is_part = !new.is_whole() || !known.is_whole() || new.format == Format::IptablesList;
            let is_other = new
                .rules
                .iptables()
                .is_some_and(|rules| rules.tables.iter().all(|table| own.rules.table(table.name).is_none()));
            let is_of_host = known.may_be_of_host(piece.host.as_ref());
            known.file == piece.file
                && is_of_host
                && own.rules.family == family
                && (is_part && !contradicts(known, &new) && !is_another_listing(known, &new) || is_other)
        }
        _ => false,
    };
    let Some(place) = place_in(all, &new, belongs) else {
        for known in all.iter_mut() {
            if let Some(why) = of_another_time(known) {
                (new.again, known.is_over) = (Some(why), true);
            }
        }
        all.push(new);
        return;
    };
    let known = &mut all[place];
    let (Rules::Iptables(own), Rules::Iptables(parsed)) = (&mut known.rules, &new.rules) else { return };
    let replaces = match (known.format != new.format, new.format) {
        (true, _) => Replacing::Always,
        (false, Format::IptablesList) => Replacing::OtherColumns,
        (false, _) => Replacing::Never,
    };
    join(&mut joiners[place], (own, &known.coverage), (parsed.clone(), &new.coverage), replaces);
    known.absorb(&mut new);
    known.coverage.join(new.coverage);
}

/// The position of the rules that others belong to: first those below the same heading.
fn place_in(all: &[NodeRules], new: &NodeRules, belongs: impl Fn(&NodeRules) -> bool) -> Option<usize> {
    let has_heading = |known: &NodeRules| known.heading == new.heading;
    all.iter().position(|known| has_heading(known) && belongs(known)).or_else(|| all.iter().position(belongs))
}

/// The outputs of filters that someone shortened: they lack a line that the filter passes and that another output shows. Their other missing
/// lines are then not taken for missing on the node.
fn shortened(evidence: &Evidence, sets: &[NodeRules]) -> BTreeSet<Output> {
    let pieces: BTreeMap<Output, &RuleSet> =
        evidence.pieces.iter().filter_map(|piece| Some(((piece.file.clone(), piece.first), tables(piece)?))).collect();
    let of_set = |set: &NodeRules| {
        let mut outputs_by_line: BTreeMap<(TableName, String), BTreeSet<usize>> = BTreeMap::new();
        let has_filters = set.saved.len() > 1 && set.coverage.has_filters();
        for first in set.saved.iter().filter(|_| has_filters) {
            let own = pieces.get(&(set.file.clone(), *first)).map(|rules| printed(rules)).unwrap_or_default();
            own.into_iter().for_each(|line| {
                outputs_by_line.entry(line).or_default().insert(*first);
            });
        }
        let saved: BTreeSet<usize> = set.saved.iter().copied().collect();
        let lacking = outputs_by_line.iter().flat_map(|((table, line), outputs)| {
            let passing = set.coverage.origins(table.as_str(), line);
            passing.into_iter().filter(|first| saved.contains(first) && !outputs.contains(first))
        });
        lacking.map(|first| (set.file.clone(), first)).collect::<Vec<_>>()
    };
    sets.iter().flat_map(of_set).collect()
}

/// Which of two parts of a chain that neither text shows whole replaces the other, instead of completing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replacing {
    Never,
    /// A listing with other columns, in which the same rules differ.
    OtherColumns,
    Always,
}

impl Replacing {
    fn is_replacing(self, has_same_columns: bool) -> bool {
        self == Self::Always || self == Self::OtherColumns && !has_same_columns
    }
}

/// Joins rule sets. Of a chain that one of them shows whole, that one counts; else another format, or a listing with other columns, where it has
/// more rules.
fn join(
    joiner: &mut ExcerptMerger,
    (own, own_coverage): (&mut iptables::Parsed, &Coverage),
    (mut other, coverage): (iptables::Parsed, &Coverage),
    replaces: Replacing,
) {
    for table in &mut other.rules.tables {
        let Some(known) = own.rules.tables.iter_mut().find(|known| known.name == table.name) else { continue };
        for chain in &mut table.chains {
            let Some(before) = known.chains.iter_mut().find(|before| before.name == chain.name) else { continue };
            let is_whole = |coverage: &Coverage| coverage.has_chain(table.name.as_str(), &chain.name);
            let hides = |coverage: &Coverage| coverage.hides_interfaces(table.name.as_str(), &chain.name);
            // Where columns are the same, so are the rows that both show.
            let replaces = replaces.is_replacing(hides(own_coverage) == hides(coverage));
            match (is_whole(own_coverage), is_whole(coverage)) {
                (true, false) => chain.rules.clear(),
                (false, true) => before.rules.clear(),
                _ if replaces && before.rules.len() >= chain.rules.len() => chain.rules.clear(),
                _ if replaces => before.rules.clear(),
                _ => {}
            }
        }
    }
    joiner.join(own, other);
}

fn add_tables(
    all: &mut Vec<NodeRules>,
    rules: &nftables::Parsed,
    (coverage, cut): (&Coverage, Option<usize>),
    piece: &Piece,
) {
    let is_of_host = |known: &NodeRules| known.may_be_of_host(piece.host.as_ref());
    let new = NodeRules::of_piece(piece, Rules::Nftables(rules.clone()), coverage.clone(), cut);
    let belongs = |known: &NodeRules| {
        let Rules::Nftables(own) = &known.rules else { return false };
        known.file == piece.file && is_of_host(known) && !has_other_chain((known, own), (&new, rules))
    };
    if let Some(place) = place_in(all, &new, belongs) {
        let known = &mut all[place];
        let is_part = !new.is_whole() || !known.is_whole();
        let Rules::Nftables(own) = &mut known.rules else { return };
        let is_other = rules.rules.tables.iter().all(|table| own.rules.table(table.family).is_none());
        if is_part || is_other {
            join_tables(own, rules);
            known.coverage.join(new.coverage);
            known.cut = known.cut.take().or(new.cut);
            return;
        }
    }
    all.push(new);
}

/// Adds the chains, sets and elements of tables that others do not have. Lines are kept only where nothing is added.
fn join_tables(own: &mut nftables::Parsed, other: &nftables::Parsed) {
    let mut tables = std::mem::take(&mut own.rules.tables);
    for table in &other.rules.tables {
        match tables.iter_mut().find(|known| known.family == table.family) {
            None => tables.push(table.clone()),
            Some(known) => join_table(known, table),
        }
    }
    *own = nftables::Ruleset { tables }.into();
}

fn join_table(own: &mut nftables::Table, other: &nftables::Table) {
    let known: HashSet<nftables::Name> = own.chains.iter().map(|chain| chain.name.clone()).collect();
    own.chains.extend(other.chains.iter().filter(|chain| !known.contains(&chain.name)).cloned());
    let positions: HashMap<nftables::Name, usize> =
        own.sets.iter().zip(0..).map(|(set, at)| (set.name.clone(), at)).collect();
    for set in &other.sets {
        match positions.get(&set.name) {
            None => own.sets.push(set.clone()),
            // `grep` picks elements of maps.
            Some(at) => join_elements(&mut own.sets[*at].elements, &set.elements),
        }
    }
}

/// Adds the elements that are not there, also those of a key that is there with another verdict.
fn join_elements(own: &mut Vec<nftables::Element>, others: &[nftables::Element]) {
    let mut by_key: HashMap<&[nftables::Key], Vec<&nftables::Element>> = HashMap::new();
    own.iter().for_each(|element| by_key.entry(&element.key).or_default().push(element));
    let is_known =
        |element: &nftables::Element| by_key.get(element.key.as_slice()).is_some_and(|known| known.contains(&element));
    let new: Vec<nftables::Element> = others.iter().filter(|element| !is_known(element)).cloned().collect();
    own.extend(new);
}
