//! Rules of one network namespace, of iptables or nftables.
//!
//! Generators and parsers create [`Rules`] once. From then on rules stay typed values: they become text again only when they are installed
//! ([`Rules::print_sync`]) or displayed ([`Rules::print`]).

mod other_tables;
mod parse;
mod program;
mod rule;

use crate::cluster::{Cluster, Family, Node, ProxyMode};
use crate::iptables::{self, Chain, Counters, Match, Policy, RuleSet};
use crate::nftables::{self, Condition, Ruleset, Statement};

pub use crate::nftables::Unsupported;
pub use other_tables::OtherTables;
pub use parse::ParseError;
pub use program::{CompileError, Program, compile};
pub use rule::{ChainIndex, Rule};

/// Rules of iptables or nftables, with their lines if they were parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rules {
    /// iptables tables of one family.
    Iptables(iptables::Parsed),
    /// kube-proxy's nftables tables.
    Nftables(nftables::Parsed),
    /// Other nftables tables, alongside kube-proxy's rules.
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
    /// Generates the rules that a node's kube-proxy writes for a family, in its configured mode and release; if it is stopped, those that
    /// it wrote last.
    ///
    /// # Errors
    ///
    /// An unknown release, or objects for which kube-proxy of this release cannot write its nftables table.
    pub fn generate(cluster: &Cluster, node: &Node, family: Family) -> Result<Self, Unsupported> {
        let synced = cluster.synced_on(&node.name);
        let node = synced.node(&node.name).unwrap_or(node);
        Ok(match synced.proxy.mode {
            ProxyMode::Iptables => iptables::generate(&synced, node, family)?.into(),
            ProxyMode::Nftables => nftables::generate(&synced, node, family)?.into(),
        })
    }

    /// Returns the mode of kube-proxy that writes such rules.
    pub fn mode(&self) -> ProxyMode {
        match self {
            Self::Iptables(_) => ProxyMode::Iptables,
            Self::Nftables(_) | Self::OtherTables(_) => ProxyMode::Nftables,
        }
    }

    /// Returns the iptables tables, if these are iptables rules.
    pub fn iptables(&self) -> Option<&RuleSet> {
        match self {
            Self::Iptables(parsed) => Some(&parsed.rules),
            Self::Nftables(_) | Self::OtherTables(_) => None,
        }
    }

    /// Returns the nftables tables, if these are nftables rules: kube-proxy's or others.
    pub fn nftables(&self) -> Option<&nftables::Parsed> {
        match self {
            Self::Iptables(_) => None,
            Self::Nftables(parsed) => Some(parsed),
            Self::OtherTables(tables) => Some(tables.parsed()),
        }
    }

    /// Removes the rules of the other family: of kube-proxy's nftables tables, only the one of this family is kept.
    #[must_use]
    pub fn for_family(self, family: Family) -> Self {
        match self {
            Self::Nftables(parsed) => Self::Nftables(parsed.for_family(family)),
            other => other,
        }
    }

    /// Returns the rules as they were written: without counters, and without elements that packets have added to sets. Of sets without
    /// a timeout, it is not known who added an element, so they are kept.
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
                sets.filter(|set| set.dynamic.is_some_and(|dynamic| dynamic.timeout.is_some()))
                    .for_each(|set| set.elements.clear());
            }
            Self::OtherTables(_) => {}
        }
        self
    }

    /// Adds kube-proxy's tables of another family, which in nftables are part of the same value.
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

    /// Prints the rules as `iptables-save` or `nft list ruleset` does.
    pub fn print(&self) -> String {
        match self {
            Self::Iptables(parsed) => iptables::print(&parsed.rules),
            Self::Nftables(parsed) => nftables::print(&parsed.rules),
            Self::OtherTables(tables) => tables.text().to_owned(),
        }
    }

    /// Prints the input for `iptables-restore` or `nft -f` that replaces the content of the rules' tables with these rules.
    pub fn print_sync(&self) -> String {
        match self {
            Self::Iptables(parsed) => iptables::print(&parsed.rules),
            Self::Nftables(parsed) => nftables::print_sync(&parsed.rules),
            Self::OtherTables(tables) => tables.print_sync(),
        }
    }

    /// The same if the tables have the rules of an earlier sync. Recorded clients are kept, except in sets that are no longer used.
    pub fn print_sync_after(&self, before: &Self) -> String {
        let deleted = match (before, self) {
            (Self::Nftables(before), Self::Nftables(after)) => {
                nftables::print_deleted_sets(&before.rules, &after.rules)
            }
            _ => String::new(),
        };
        self.print_sync() + &deleted
    }

    /// Returns whether there is any rule, or a policy other than ACCEPT.
    pub fn has_effect(&self) -> bool {
        let of_nftables = |parsed: &nftables::Parsed| {
            let tables = &parsed.rules.tables;
            tables.iter().any(|table| {
                !table.sets.is_empty()
                    || table
                        .chains
                        .iter()
                        .any(|chain| !chain.rules.is_empty() || chain.base.is_some_and(|base| base.drops))
            })
        };
        let acts =
            |chain: &Chain| !chain.rules.is_empty() || chain.policy.is_some_and(|policy| policy != Policy::Accept);
        let of_iptables = |rules: &RuleSet| rules.tables.iter().flat_map(|table| &table.chains).any(acts);
        self.iptables().is_some_and(of_iptables) || self.nftables().is_some_and(of_nftables)
    }

    /// Returns whether a kernel accepts the rules of a family.
    pub fn is_sound(&self, family: Family) -> bool {
        compile(&[self], family).is_ok()
    }

    /// Returns whether rules keep state between packets of a client: `recent` lists, or dynamic sets.
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

    /// Returns the largest number of a client's packets that a rule counts: `recent --hitcount`.
    pub fn counted_packets(&self) -> u32 {
        let count = |one: &Match| match one {
            Match::Recent(recent) => recent.hit_count,
            _ => None,
        };
        self.iptables().and_then(|rules| rules.matches().filter_map(count).max()).unwrap_or(0)
    }

    /// Returns whether iptables rules match TCP flags. nftables rules that do are not modelled.
    pub fn matches_tcp_flags(&self) -> bool {
        let asks = |one: &Match| matches!(one, Match::Ports(ports) if ports.flags.is_some());
        self.iptables().is_some_and(|rules| rules.matches().any(asks))
    }

    /// Returns whether rules name interfaces that must exist when they are installed: nftables resolves `iif` and `oif` to an index.
    pub fn needs_interfaces(&self) -> bool {
        let tables = self.nftables().into_iter().flat_map(|parsed| &parsed.rules.tables);
        let mut rules = tables.flat_map(|table| &table.chains).flat_map(|chain| &chain.rules);
        rules.any(|rule| {
            rule.conditions.iter().any(Condition::needs_interface)
                || rule.statements.iter().any(Statement::needs_interface)
        })
    }
}

#[cfg(test)]
mod tests;
