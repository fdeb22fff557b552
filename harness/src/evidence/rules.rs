//! Pieces with rules → the rules of a node.

use svclab_rules::cascade::Extent;
use svclab_rules::cluster::Family;
use svclab_rules::iptables::{self, Joiner};
use svclab_rules::nftables;
use svclab_rules::ruleset::Rules;

use super::model::{Contents, Evidence, Format, Piece};

/// Rules that belong together: those of one node in one language, of a family where it is iptables.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeRules {
    /// The rules.
    pub rules: Rules,
    /// Whether they are all of their chains.
    pub extent: Extent,
    /// The format of the first piece.
    pub format: Format,
    /// The file among several.
    pub(crate) file: Option<std::sync::Arc<str>>,
    /// The first line.
    pub(crate) first: usize,
    /// The fewest digits of a probability whose threshold does not follow from them.
    pub(crate) short_digits: Option<usize>,
    /// The first line that is cut off.
    pub(crate) cut: Option<usize>,
}

impl NodeRules {
    /// The file among several.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// The line at which they start.
    pub fn line(&self) -> usize {
        self.first
    }
}

/// The rules that evidence has. Whole dumps stand for themselves, each of another node or time; excerpts of a file are parts of one rule set.
pub fn node_rules(evidence: &Evidence) -> Vec<NodeRules> {
    let mut all: Vec<NodeRules> = Vec::new();
    let mut joiners: Vec<Joiner> = Vec::new();
    for piece in &evidence.pieces {
        match &piece.contents {
            Contents::Iptables { rules, extent, short_digits, cut, .. } => {
                let new = NodeRules {
                    rules: Rules::Iptables(rules.clone()),
                    extent: *extent,
                    format: piece.format,
                    file: piece.file.clone(),
                    first: piece.first,
                    short_digits: *short_digits,
                    cut: *cut,
                };
                joiners.resize_with(all.len(), Joiner::default);
                add(&mut all, &mut joiners, new, rules.rules.family, piece);
            }
            Contents::Nftables { rules, extent, .. } if !rules.rules.tables.is_empty() => {
                add_tables(&mut all, rules, *extent, piece);
            }
            _ => {}
        }
    }
    all
}

/// Adds rules of iptables to those that they belong to.
fn add(all: &mut Vec<NodeRules>, joiners: &mut [Joiner], new: NodeRules, family: Family, piece: &Piece) {
    let belongs = |known: &NodeRules| match &known.rules {
        Rules::Iptables(own) => {
            // Excerpts complete each other. Whole tables do where they are others; the same table once more is another dump.
            let is_part =
                new.extent == Extent::Part || known.extent == Extent::Part || new.format == Format::IptablesList;
            let is_other = new
                .rules
                .iptables()
                .is_some_and(|rules| rules.tables.iter().all(|table| own.rules.table(table.name).is_none()));
            known.file == piece.file && own.rules.family == family && (is_part || is_other)
        }
        _ => false,
    };
    let (Some(place), Rules::Iptables(parsed)) = (all.iter().position(belongs), &new.rules) else {
        all.push(new);
        return;
    };
    let known = &mut all[place];
    let Rules::Iptables(own) = &mut known.rules else { return };
    let both_whole = known.extent == Extent::Whole && new.extent == Extent::Whole;
    let mixes = known.format != new.format;
    join(&mut joiners[place], own, parsed.clone(), mixes || new.format == Format::IptablesList);
    known.extent = if both_whole { Extent::Whole } else { Extent::Part };
    known.short_digits = known.short_digits.into_iter().chain(new.short_digits).min();
    known.cut = known.cut.or(new.cut);
}

/// Joins rule sets. A listing, or another format of the same chain, counts where it has more rules.
fn join(joiner: &mut Joiner, own: &mut iptables::Parsed, mut other: iptables::Parsed, replaces: bool) {
    if !replaces {
        joiner.join(own, other);
        return;
    }
    for table in &mut other.rules.tables {
        let Some(known) = own.rules.tables.iter_mut().find(|known| known.name == table.name) else { continue };
        for chain in &mut table.chains {
            let Some(before) = known.chains.iter_mut().find(|before| before.name == chain.name) else { continue };
            if before.rules.len() >= chain.rules.len() {
                chain.rules.clear();
            } else {
                before.rules.clear();
            }
        }
    }
    joiner.join(own, other);
}

fn add_tables(all: &mut Vec<NodeRules>, rules: &nftables::Parsed, extent: Extent, piece: &Piece) {
    let belongs = |known: &&mut NodeRules| known.file == piece.file && matches!(known.rules, Rules::Nftables(_));
    let known = all.iter_mut().find(belongs);
    if let Some(known) = known
        && let Rules::Nftables(own) = &mut known.rules
    {
        let is_part = extent == Extent::Part || known.extent == Extent::Part;
        let is_other = rules.rules.tables.iter().all(|table| own.rules.table(table.family).is_none());
        if is_part || is_other {
            join_tables(own, rules);
            known.extent = if is_part { Extent::Part } else { Extent::Whole };
            return;
        }
    }
    all.push(NodeRules {
        rules: Rules::Nftables(rules.clone()),
        extent,
        format: piece.format,
        file: piece.file.clone(),
        first: piece.first,
        short_digits: None,
        cut: None,
    });
}

/// Adds the chains and sets of tables that others do not have. Lines are kept only where nothing is added.
fn join_tables(own: &mut nftables::Parsed, other: &nftables::Parsed) {
    let mut tables = std::mem::take(&mut own.rules.tables);
    for table in &other.rules.tables {
        match tables.iter_mut().find(|known| known.family == table.family) {
            None => tables.push(table.clone()),
            Some(known) => {
                for chain in &table.chains {
                    if !known.chains.iter().any(|own| own.name == chain.name) {
                        known.chains.push(chain.clone());
                    }
                }
                for set in &table.sets {
                    if !known.sets.iter().any(|own| own.name == set.name) {
                        known.sets.push(set.clone());
                    }
                }
            }
        }
    }
    *own = nftables::Ruleset { tables }.into();
}
