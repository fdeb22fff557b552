//! The rules of one network namespace, in either language.
//!
//! The generators and parsers make [`Rules`] once. From there on rules stay typed values: they become text again only where they
//! are installed ([`Rules::print_sync`]) or shown ([`Rules::print`]).

mod other_tables;
mod parse;
mod program;
mod rule;

use crate::cluster::{Cluster, Family, Node, ProxyMode};
use crate::iptables::{self, Counters, Match, RuleSet};
use crate::nftables::{self, Condition, Ruleset};

pub use crate::nftables::Unsupported;
pub use other_tables::OtherTables;
pub use parse::ParseError;
pub use program::{CompileError, Program, compile};
pub use rule::{ChainIndex, Rule};

/// Rules of iptables or nftables, with the line of each where they were parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rules {
    /// Tables of iptables, of one family.
    Iptables(iptables::Parsed),
    /// kube-proxy's tables of nftables.
    Nftables(nftables::Parsed),
    /// Other tables of nftables, alongside kube-proxy's rules.
    OtherTables(OtherTables),
}

impl From<RuleSet> for Rules {
    fn from(rules: RuleSet) -> Self {
        Self::Iptables(rules.into())
    }
}

impl From<Ruleset> for Rules {
    fn from(rules: Ruleset) -> Self {
        Self::Nftables(rules.into())
    }
}

impl Rules {
    /// Generates the rules that a node's kube-proxy writes for a family, in the mode and release that its configuration has; where it
    /// does not run, those that it wrote last.
    ///
    /// # Errors
    ///
    /// An unknown release, or objects for which a kube-proxy of this release in nftables mode cannot write its table.
    pub fn generate(cluster: &Cluster, node: &Node, family: Family) -> Result<Self, Unsupported> {
        let synced = cluster.synced_on(&node.name);
        let node = synced.node(&node.name).unwrap_or(node);
        Ok(match synced.proxy.mode {
            ProxyMode::Iptables => iptables::generate(&synced, node, family)?.into(),
            ProxyMode::Nftables => nftables::generate(&synced, node, family)?.into(),
        })
    }

    /// The mode of kube-proxy that writes rules in this language.
    pub fn mode(&self) -> ProxyMode {
        match self {
            Self::Iptables(_) => ProxyMode::Iptables,
            Self::Nftables(_) | Self::OtherTables(_) => ProxyMode::Nftables,
        }
    }

    /// The tables of iptables, if it is this language.
    pub fn iptables(&self) -> Option<&RuleSet> {
        match self {
            Self::Iptables(parsed) => Some(&parsed.rules),
            Self::Nftables(_) | Self::OtherTables(_) => None,
        }
    }

    /// The tables of nftables, if it is this language: kube-proxy's or others.
    pub fn nftables(&self) -> Option<&nftables::Parsed> {
        match self {
            Self::Iptables(_) => None,
            Self::Nftables(parsed) => Some(parsed),
            Self::OtherTables(tables) => Some(tables.parsed()),
        }
    }

    /// These rules without those of the other family: of kube-proxy's nftables tables, only the one of this family is kept.
    #[must_use]
    pub fn for_family(self, family: Family) -> Self {
        match self {
            Self::Nftables(parsed) => {
                let tables = parsed.rules.tables.into_iter().filter(|table| table.family == family);
                Ruleset { tables: tables.collect() }.into()
            }
            other => other,
        }
    }

    /// These rules as they were written: without counters, and without what packets have added to sets.
    #[must_use]
    pub fn without_runtime_state(mut self) -> Self {
        match &mut self {
            Self::Iptables(parsed) => {
                for chain in parsed.rules.tables.iter_mut().flat_map(|table| &mut table.chains) {
                    chain.counters = Counters::default();
                    chain.rules.iter_mut().for_each(|rule| rule.counters = None);
                }
            }
            Self::Nftables(parsed) => {
                let sets = parsed.rules.tables.iter_mut().flat_map(|table| &mut table.sets);
                sets.filter(|set| set.dynamic.is_some()).for_each(|set| set.elements.clear());
            }
            Self::OtherTables(_) => {}
        }
        self
    }

    /// These rules with kube-proxy's tables of another family added, which are the same value in nftables.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nftables(parsed), Self::Nftables(other)) => {
                let tables = [parsed.rules.tables, other.rules.tables].concat();
                Ruleset { tables }.into()
            }
            (rules, _) => rules,
        }
    }

    /// The text that `iptables-save` or `nft list ruleset` shows for these rules.
    pub fn print(&self) -> String {
        match self {
            Self::Iptables(parsed) => iptables::print(&parsed.rules),
            Self::Nftables(parsed) => nftables::print(&parsed.rules),
            Self::OtherTables(tables) => tables.text().to_owned(),
        }
    }

    /// The text with which `iptables-restore` or `nft -f` installs these rules in place of those that their tables have.
    pub fn print_sync(&self) -> String {
        match self {
            Self::Iptables(parsed) => iptables::print(&parsed.rules),
            Self::Nftables(parsed) => nftables::print_sync(&parsed.rules),
            Self::OtherTables(tables) => tables.print_sync(),
        }
    }

    /// The same where the tables have the rules of a sync before. What that one remembered of clients stays, but for sets that are not
    /// used any more.
    pub fn print_sync_after(&self, before: &Self) -> String {
        let deleted = match (before, self) {
            (Self::Nftables(before), Self::Nftables(after)) => {
                nftables::print_deleted_sets(&before.rules, &after.rules)
            }
            _ => String::new(),
        };
        self.print_sync() + &deleted
    }

    /// Whether there is any rule.
    pub fn has_rules(&self) -> bool {
        let of_nftables = |parsed: &nftables::Parsed| {
            let tables = &parsed.rules.tables;
            tables
                .iter()
                .any(|table| !table.sets.is_empty() || table.chains.iter().any(|chain| !chain.rules.is_empty()))
        };
        let of_iptables =
            |rules: &RuleSet| rules.tables.iter().flat_map(|table| &table.chains).any(|chain| !chain.rules.is_empty());
        self.iptables().is_some_and(of_iptables) || self.nftables().is_some_and(of_nftables)
    }

    /// Whether a kernel accepts the rules of a family.
    pub fn is_sound(&self, family: Family) -> bool {
        compile(&[self], family).is_ok()
    }

    /// Whether rules keep state between packets of a client: lists of `recent`, or sets that rules add to.
    pub fn remembers(&self) -> bool {
        let is_recent = |one: &Match| match one {
            Match::Recent(_) => true,
            Match::Other(other) => &*other.name == "recent",
            _ => false,
        };
        let is_dynamic = |table: &nftables::Table| table.sets.iter().any(|set| set.dynamic.is_some());
        self.iptables().is_some_and(|rules| rules.matches().any(is_recent))
            || self.nftables().is_some_and(|parsed| parsed.rules.tables.iter().any(is_dynamic))
    }

    /// Whether rules of iptables compare the flags of TCP. Those of nftables that do are not modelled.
    pub fn matches_tcp_flags(&self) -> bool {
        let asks = |one: &Match| matches!(one, Match::Ports(ports) if ports.flags.is_some());
        self.iptables().is_some_and(|rules| rules.matches().any(asks))
    }

    /// Whether rules name interfaces that must exist when they are installed: `iif` and `oif` of nftables stand for an index.
    pub fn needs_interfaces(&self) -> bool {
        let tables = self.nftables().into_iter().flat_map(|parsed| &parsed.rules.tables);
        let rules = tables.flat_map(|table| &table.chains).flat_map(|chain| &chain.rules);
        rules.flat_map(|rule| &rule.conditions).any(Condition::needs_interface)
    }
}

#[cfg(test)]
mod tests;
