//! Pieces with rules → the rules of a node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use svclab_rules::cluster::Family;
use svclab_rules::coverage::{Coverage, nft_table};
use svclab_rules::infer::Infer;
use svclab_rules::iptables::{self, ChainKind, ExcerptMerger, Match, Rule, RuleSet, TableName, print_rule};
use svclab_rules::nftables;
use svclab_rules::ruleset::Rules;

use super::model::{Contents, Evidence, Format, Piece};
use crate::text::one_line;

/// Rules that belong together: those of one node in one language, of a family where it is iptables.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeRules {
    /// The rules.
    pub rules: Rules,
    /// The tables and chains that are shown whole.
    pub coverage: Coverage,
    /// The format of the first piece.
    pub format: Format,
    /// The file among several.
    pub(crate) file: Option<Arc<str>>,
    /// The first line.
    pub(crate) first: usize,
    /// The fewest digits of a probability whose threshold does not follow from them.
    pub(crate) rounded_digits: Option<usize>,
    /// The first line that is cut off.
    pub(crate) cut: Option<usize>,
    /// The lines at which the outputs start that are saved rules.
    saved: Vec<usize>,
    /// The lines at which outputs of filters start that lack lines which other pieces show: someone shortened them.
    pub(crate) shortened: Vec<usize>,
    /// The machine that the prompt before the command names.
    pub(crate) host: Option<String>,
    /// The machine that the heading before them names.
    pub(crate) heading: Option<String>,
    /// Which implementation of iptables has them, by the command or file that they come from.
    pub(crate) backend: Option<&'static str>,
}

/// The implementation of iptables that a piece is of.
pub(super) fn backend(piece: &Piece) -> Option<&'static str> {
    let file = piece.file.as_deref().unwrap_or_default();
    let text =
        format!("{} {}", file.rsplit('/').next().unwrap_or_default(), piece.command.as_deref().unwrap_or_default());
    match () {
        () if piece.format == Format::IptablesNft => Some("iptables-nft"),
        () if text.contains("legacy") => Some("iptables-legacy"),
        () if text.contains("nft") => Some("iptables-nft"),
        () => None,
    }
}

impl NodeRules {
    /// Whether others are of the same language, and family where it is iptables.
    pub(crate) fn is_of_kind(&self, other: &Self) -> bool {
        let family = |set: &Self| set.rules.iptables().map(|rules| rules.family);
        self.rules.mode() == other.rules.mode() && family(self) == family(other)
    }

    /// Their place, in words.
    pub(crate) fn place(&self) -> String {
        let file = self.file.as_ref().map(|file| format!("{} ", one_line(file))).unwrap_or_default();
        format!("{file}line {}, {}", self.first, self.backend.unwrap_or(self.format.words()))
    }

    /// The file among several.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Whether they are those of a node, by the machine that the prompt names, or the file's name; `None` if neither names any of the nodes.
    pub fn is_of_node(&self, node: &str, nodes: &[&str]) -> Option<bool> {
        let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        let by_host = |host: &String| {
            let is_short = |name: &&str| short(name) == short(host);
            nodes.iter().copied().find(|name| *name == host).or_else(|| nodes.iter().copied().find(is_short))
        };
        let is_in_file = |name: &&str| self.file().is_some_and(|file| has_word(file, name));
        let by_file = || nodes.iter().copied().filter(is_in_file).max_by_key(|name| name.len());
        self.host.as_ref().and_then(by_host).or_else(by_file).map(|own| own == node)
    }

    /// The folder of the file among several; empty for a file that is in none.
    pub(crate) fn folder(&self) -> Option<&str> {
        self.file().map(folder)
    }

    /// Whether they may be those of a machine that a prompt names: unless prompts name two.
    pub(crate) fn may_be_of_host(&self, host: Option<&String>) -> bool {
        self.host.as_ref().zip(host).is_none_or(|(own, other)| own == other)
    }

    /// The mode of kube-proxy that writes them, if it is neither iptables nor nftables.
    pub(crate) fn other_mode(&self) -> Option<&'static str> {
        let tables = self.rules.iptables()?.tables.iter();
        let mut chains = tables.flat_map(|table| &table.chains);
        chains.find_map(|chain| chain.rules.iter().find_map(|rule| other_mode(rule, &chain.name)))
    }

    /// The line at which they start.
    pub fn line(&self) -> usize {
        self.first
    }

    /// Whether all of their tables are shown whole.
    pub fn is_whole(&self) -> bool {
        match &self.rules {
            Rules::Iptables(parsed) => {
                let tables = &parsed.rules.tables;
                !tables.is_empty() && tables.iter().all(|table| self.coverage.has_table(table.name.as_str()))
            }
            Rules::Nftables(parsed) => {
                let tables = &parsed.rules.tables;
                !tables.is_empty() && tables.iter().all(|table| self.coverage.has_table(nft_table(table.family)))
            }
            Rules::OtherTables(_) => false,
        }
    }

    /// Whether the table in which kube-proxy translates is shown whole.
    pub fn has_translations(&self) -> bool {
        match &self.rules {
            Rules::Iptables(_) => self.coverage.has_table(TableName::Nat.as_str()),
            _ => self.is_whole(),
        }
    }
}

/// The mode of kube-proxy, other than iptables and nftables, that writes a rule of a chain.
pub(crate) fn other_mode(rule: &Rule, chain: &str) -> Option<&'static str> {
    let of_set = |one: &Match| matches!(one, Match::Set(set) if set.value.name.starts_with("KUBE-"));
    match () {
        () if rule.matches.iter().any(of_set) => Some("IPVS"),
        () if chain.starts_with("KUBE-PORTALS-") => Some("userspace"),
        () => None,
    }
}

/// Whether a text has a name that stands apart.
pub(crate) fn has_word(text: &str, name: &str) -> bool {
    let is_apart = |letter: Option<char>| letter.is_none_or(|letter| !letter.is_ascii_alphanumeric());
    let mut places = text.match_indices(name);
    places.any(|(at, _)| is_apart(text[..at].chars().next_back()) && is_apart(text[at + name.len()..].chars().next()))
}

impl Evidence {
    /// The piece in another file of the same folder that has all rules of this one as iptables prints them, if this is what nft prints of
    /// tables of iptables-nft, which lacks comments and more: `svclab dump collect` keeps both.
    pub(crate) fn original(&self, piece: &Piece) -> Option<&Piece> {
        let own = tables(Some(piece).filter(|piece| piece.format == Format::IptablesNft)?)?;
        let own_folder = piece.file.as_deref().map(folder)?;
        self.pieces.iter().find(|other| {
            let is_of_machine = other.file != piece.file
                && other.file.as_deref().map(folder) == Some(own_folder)
                && backend(other) != Some("iptables-legacy");
            let has_all = |all: &RuleSet| {
                let mut used =
                    own.tables.iter().filter(|table| table.chains.iter().any(|chain| !chain.rules.is_empty()));
                all.family == own.family && used.all(|table| all.table(table.name).is_some())
            };
            is_of_machine && other.format != Format::IptablesNft && tables(other).is_some_and(has_all)
        })
    }
}

/// The iptables tables of a piece.
fn tables(piece: &Piece) -> Option<&RuleSet> {
    match &piece.contents {
        Contents::Iptables { rules, .. } => Some(&rules.rules),
        _ => None,
    }
}

pub(super) fn folder(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The rules that evidence has. Whole dumps stand for themselves, each of another node or time; excerpts of a file are parts of one rule
/// set.
pub fn node_rules(evidence: &Evidence) -> Vec<NodeRules> {
    let all = joined(evidence, &BTreeSet::new());
    let shortened = shortened(evidence, &all);
    // Chains were taken for whole by what these filters select.
    if shortened.is_empty() { all } else { joined(evidence, &shortened) }
}

/// An output, by its file among several and its first line.
type Output = (Option<Arc<str>>, usize);

/// The rules that evidence has, if some outputs of filters are shortened.
fn joined(evidence: &Evidence, shortened: &BTreeSet<Output>) -> Vec<NodeRules> {
    let mut all: Vec<NodeRules> = Vec::new();
    let mut joiners: Vec<ExcerptMerger> = Vec::new();
    for piece in evidence.pieces.iter().filter(|piece| evidence.original(piece).is_none()) {
        match &piece.contents {
            Contents::Iptables { rules, coverage, rounded_digits, cut, .. } if !rules.rules.tables.is_empty() => {
                let mut coverage = coverage.clone();
                coverage.set_origin(piece.first);
                let is_shortened = shortened.contains(&(piece.file.clone(), piece.first));
                if is_shortened {
                    coverage.remove_filters();
                }
                let is_saved = matches!(piece.format, Format::IptablesSave | Format::IptablesRules);
                let new = NodeRules {
                    rules: Rules::Iptables(rules.clone()),
                    coverage,
                    format: piece.format,
                    file: piece.file.clone(),
                    first: piece.first,
                    rounded_digits: *rounded_digits,
                    cut: *cut,
                    saved: Vec::from_iter(is_saved.then_some(piece.first)),
                    shortened: Vec::from_iter(is_shortened.then_some(piece.first)),
                    host: piece.host.clone(),
                    heading: piece.heading.clone(),
                    backend: backend(piece),
                };
                joiners.resize_with(all.len(), ExcerptMerger::default);
                add(&mut all, &mut joiners, new, rules.rules.family, piece);
            }
            Contents::Nftables { rules, coverage, cut, .. } if !rules.rules.tables.is_empty() => {
                add_tables(&mut all, rules, (coverage, *cut), piece);
            }
            _ => {}
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
    format!("the rules from {} are another rule set of the same text: their effect is unknown", other.place())
}

/// Adds rules of iptables to those that they belong to.
fn add(all: &mut Vec<NodeRules>, joiners: &mut [ExcerptMerger], mut new: NodeRules, family: Family, piece: &Piece) {
    let belongs = |known: &NodeRules| match &known.rules {
        Rules::Iptables(own) => {
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
        all.push(new);
        return;
    };
    let known = &mut all[place];
    let (Rules::Iptables(own), Rules::Iptables(parsed)) = (&mut known.rules, &new.rules) else { return };
    let mixes = known.format != new.format;
    let replaces = mixes || new.format == Format::IptablesList;
    join(&mut joiners[place], (own, &known.coverage), (parsed.clone(), &new.coverage), replaces);
    known.coverage.join(new.coverage);
    known.rounded_digits = known.rounded_digits.into_iter().chain(new.rounded_digits).min();
    known.cut = known.cut.or(new.cut);
    known.saved.append(&mut new.saved);
    known.shortened.append(&mut new.shortened);
    known.host = known.host.take().or(new.host);
}

/// The position of the rules that others belong to: first those below the same heading.
fn place_in(all: &[NodeRules], new: &NodeRules, belongs: impl Fn(&NodeRules) -> bool) -> Option<usize> {
    let has_heading = |known: &NodeRules| known.heading == new.heading;
    all.iter().position(|known| has_heading(known) && belongs(known)).or_else(|| all.iter().position(belongs))
}

/// Whether rules are those of another machine or time: below the heading of another machine, or in a format that prints each chain once, a chain has
/// other rules; a chain that is shown whole lacks a jump that the other one has; or an endpoint has another share.
fn is_another_listing(known: &NodeRules, new: &NodeRules) -> bool {
    let (Some(all), Some(own)) = (known.rules.iptables(), new.rules.iptables()) else { return false };
    if known.format != new.format {
        return false;
    }
    let has_other_heading = has_other_heading(known, new);
    own.tables.iter().any(|table| {
        table.chains.iter().any(|chain| {
            let known_rules = all.rules(table.name, &chain.name);
            let is_whole = |set: &NodeRules| set.coverage.has_chain(table.name.as_str(), &chain.name);
            let is_block = new.format == Format::IptablesNft && is_whole(known) && is_whole(new);
            !known_rules.is_empty()
                && !chain.rules.is_empty()
                && ((has_other_heading || is_block) && plain(known_rules) != plain(&chain.rules)
                    || is_whole(known) && leads_elsewhere(&chain.rules, known_rules)
                    || is_whole(new) && leads_elsewhere(known_rules, &chain.rules)
                    || has_other_shares(known_rules, &chain.rules))
        })
    })
}

/// Whether rules lead to a chain that none of all rules of their chain leads to.
fn leads_elsewhere(rules: &[Rule], all: &[Rule]) -> bool {
    let mut next = rules.iter().filter_map(Rule::next_chain);
    next.any(|next| !all.iter().any(|rule| rule.next_chain() == Some(next)))
}

/// Whether headings name two machines.
fn has_other_heading(known: &NodeRules, new: &NodeRules) -> bool {
    known.heading.as_ref().zip(new.heading.as_ref()).is_some_and(|(known, new)| known != new)
}

/// Whether rules of the same chain jump to the same endpoint with different shares, so that they are not of one listing.
fn has_other_shares(known: &[Rule], new: &[Rule]) -> bool {
    let to_endpoint = |rule: &&Rule| rule.next_chain().is_some_and(|next| ChainKind::Endpoint.hash(next).is_some());
    let shares = |rules: &[Rule], to: &Rule| -> Vec<Rule> {
        rules.iter().filter(|rule| rule.next_chain() == to.next_chain()).map(Rule::without_counters).collect()
    };
    new.iter().filter(to_endpoint).any(|rule| {
        let [known, new] = [known, new].map(|rules| shares(rules, rule));
        !known.is_empty()
            && known.iter().all(|one| !new.contains(one) && new.iter().any(|other| has_other_share(one, other)))
    })
}

/// Whether two rules differ in their share alone.
fn has_other_share(one: &Rule, other: &Rule) -> bool {
    let without_share = |rule: &Rule| {
        let mut rule = rule.without_counters();
        rule.matches.retain(|one| !matches!(one, Match::Statistic(_)));
        rule
    };
    without_share(one) == without_share(other)
}

fn plain(rules: &[Rule]) -> Vec<Rule> {
    rules.iter().map(Rule::without_counters).collect()
}

/// Whether saved rules show a complete chain that differs from the same chain in complete tables: they are of another time, such as the
/// input of iptables-restore in a log.
fn contradicts(known: &NodeRules, new: &NodeRules) -> bool {
    let (Some(all), Some(own)) = (known.rules.iptables(), new.rules.iptables()) else { return false };
    let is_saved = known.format == Format::IptablesSave && new.format == Format::IptablesSave;
    if !is_saved || !known.is_whole() || new.coverage.has_filters() {
        return false;
    }
    own.tables.iter().any(|table| {
        let is_whole = |chain: &&iptables::Chain| new.coverage.has_chain(table.name.as_str(), &chain.name);
        let mut chains = table.chains.iter().filter(is_whole);
        all.table(table.name).is_some()
            && chains.any(|chain| plain(all.rules(table.name, &chain.name)) != plain(&chain.rules))
    })
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

/// The lines of rules as iptables-save prints them.
fn printed(rules: &RuleSet) -> Vec<(TableName, String)> {
    let chains = rules.tables.iter().flat_map(|table| table.chains.iter().map(move |chain| (table.name, chain)));
    let lines = chains.flat_map(|(table, chain)| {
        let line = |rule: &Rule| print_rule(rules.family, &chain.name, &rule.without_counters());
        chain.rules.iter().map(move |rule| (table, line(rule)))
    });
    lines.collect()
}

/// Joins rule sets. Of a chain that one of them shows whole, that one counts; else a listing, or another format, where it has more rules.
fn join(
    joiner: &mut ExcerptMerger,
    (own, own_coverage): (&mut iptables::Parsed, &Coverage),
    (mut other, coverage): (iptables::Parsed, &Coverage),
    replaces: bool,
) {
    for table in &mut other.rules.tables {
        let Some(known) = own.rules.tables.iter_mut().find(|known| known.name == table.name) else { continue };
        for chain in &mut table.chains {
            let Some(before) = known.chains.iter_mut().find(|before| before.name == chain.name) else { continue };
            let is_whole = |coverage: &Coverage| coverage.has_chain(table.name.as_str(), &chain.name);
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
    let new = NodeRules {
        rules: Rules::Nftables(rules.clone()),
        coverage: coverage.clone(),
        format: piece.format,
        file: piece.file.clone(),
        first: piece.first,
        rounded_digits: None,
        cut,
        saved: Vec::new(),
        shortened: Vec::new(),
        host: piece.host.clone(),
        heading: piece.heading.clone(),
        backend: None,
    };
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
            known.cut = known.cut.or(new.cut);
            return;
        }
    }
    all.push(new);
}

/// Whether two outputs show a chain with different rules, whole in both: nft prints each once.
fn has_other_chain(
    (known, known_rules): (&NodeRules, &nftables::Parsed),
    (new, rules): (&NodeRules, &nftables::Parsed),
) -> bool {
    rules.rules.tables.iter().any(|table| {
        let Some(own) = known_rules.rules.table(table.family) else { return false };
        table.chains.iter().any(|chain| {
            let is_whole = |set: &NodeRules| set.coverage.has_chain(nft_table(table.family), &chain.name);
            let is_other = |other: &nftables::Chain| other.name == chain.name && other != chain;
            is_whole(known) && is_whole(new) && own.chains.iter().any(is_other)
        })
    })
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
