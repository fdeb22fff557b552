//! Whether rules of two pieces, or of two files, are of one listing, or of another machine or time.

use std::collections::BTreeMap;

use svclab_rules::coverage::nft_table;
use svclab_rules::iptables::{self, ChainKind, Match, Rule, RuleSet, Table};
use svclab_rules::nftables;

use super::machine_files::{folder, machine_name};
use super::model::Format;
use super::node_rules::NodeRules;

/// Whether rules are those of another machine or time: below the heading of another machine, or in a format that prints each
/// chain once, a chain has other rules; a chain that is shown whole lacks a jump or a Service that the other one has; or an endpoint
/// has another share.
pub(super) fn is_another_listing(known: &NodeRules, new: &NodeRules) -> bool {
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

/// Whether rules lead to a chain that none of all rules of their chain leads to, or name a Service that none of these names.
fn leads_elsewhere(rules: &[Rule], all: &[Rule]) -> bool {
    let mut next = rules.iter().filter_map(Rule::next_chain);
    let mut services = rules.iter().filter_map(service_in);
    next.any(|next| !all.iter().any(|rule| rule.next_chain() == Some(next)))
        || services.any(|service| !all.iter().any(|rule| service_in(rule) == Some(service)))
}

/// The Service port that the comment of a rule names.
fn service_in(rule: &Rule) -> Option<&str> {
    rule.comment()?.split(' ').find(|word| word.contains('/'))
}

/// Whether headings name two machines.
fn has_other_heading(known: &NodeRules, new: &NodeRules) -> bool {
    known.heading.as_ref().zip(new.heading.as_ref()).is_some_and(|(known, new)| known != new)
}

/// Whether rules of the same chain jump to the same endpoint with different shares, so that they are not of one listing.
fn has_other_shares(known: &[Rule], new: &[Rule]) -> bool {
    let to_endpoint = |rule: &&Rule| rule.next_chain().is_some_and(|next| ChainKind::Endpoint.hash(next).is_some());
    let is_same = |one: &Rule, other: &Rule| one.is_same_without(other, |_| false);
    new.iter().filter(to_endpoint).any(|to| {
        let is_to = |rule: &&Rule| rule.next_chain() == to.next_chain();
        let new = || new.iter().filter(is_to);
        let is_other =
            |one: &Rule| !new().any(|other| is_same(one, other)) && new().any(|other| has_other_share(one, other));
        let mut known = known.iter().filter(is_to).peekable();
        known.peek().is_some() && known.all(is_other)
    })
}

/// Whether two rules differ in their share alone.
fn has_other_share(one: &Rule, other: &Rule) -> bool {
    one.is_same_without(other, |one| matches!(one, Match::Statistic(_)))
}

fn plain(rules: &[Rule]) -> Vec<Rule> {
    rules.iter().map(Rule::without_counters).collect()
}

/// Whether saved rules show a complete chain that differs from the same chain in complete tables: they are of another time, such as the
/// input of iptables-restore in a log.
pub(super) fn contradicts(known: &NodeRules, new: &NodeRules) -> bool {
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

/// Whether two outputs show a chain with different rules, whole in both: nft prints each once.
pub(super) fn has_other_chain(
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

/// Rules of iptables in a file.
#[derive(Clone, Copy)]
pub(super) struct Listing<'r> {
    pub(super) file: &'r str,
    pub(super) format: Format,
    pub(super) rules: &'r RuleSet,
}

impl Listing<'_> {
    /// Whether two files of a folder are of one machine: neither names another, and they complete each other.
    pub(super) fn is_of_machine_of(&self, other: &Self) -> bool {
        folder(self.file) == folder(other.file)
            && machine_name(self.file) == machine_name(other.file)
            && self.completes(other)
    }

    /// Whether two files may be of one machine and time: they show other tables, show them in another format, or have the same rules.
    pub(super) fn completes(&self, other: &Self) -> bool {
        self.format != other.format || self.has_same_tables(other)
    }

    /// Whether tables that both show have the same rules, apart from counters.
    fn has_same_tables(&self, other: &Self) -> bool {
        self.shared(other)
            .all(|(own, other)| rules(own, Rule::without_counters) == rules(other, Rule::without_counters))
    }

    /// Whether it has as many rules in each chain that another one shows of the same tables, which may be a single chain.
    pub(super) fn has_as_many_rules(&self, other: &Self) -> bool {
        self.shared(other).all(|(own, other)| {
            let own = rules(own, |_| ());
            rules(other, |_| ()).iter().all(|(chain, rules)| own.get(chain) == Some(rules))
        })
    }

    /// The tables that both show.
    pub(super) fn shared(&self, other: &Self) -> impl Iterator<Item = (&Table, &Table)> {
        self.rules.tables.iter().filter_map(|table| Some((table, other.rules.table(table.name)?)))
    }
}

/// The rules of a table's chains that have some.
pub(crate) fn rules<T>(table: &Table, of: impl Fn(&Rule) -> T) -> BTreeMap<String, Vec<T>> {
    let chains = table.chains.iter().filter(|chain| !chain.rules.is_empty());
    chains.map(|chain| (chain.name.to_string(), chain.rules.iter().map(&of).collect())).collect()
}
