//! Single rules, in either language.

use super::Rules;
use crate::cluster::Family;
use crate::iptables::{self, Match, Target};
use crate::nftables::{self, Statement, Verdict};

/// A rule in its language, with the rules of its chain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule<'r> {
    /// One of iptables.
    Iptables {
        /// The rule.
        rule: &'r iptables::Rule,
        /// All rules of its chain.
        chain: &'r [iptables::Rule],
    },
    /// One of nftables.
    Nftables {
        /// The rule.
        rule: &'r nftables::Rule,
        /// All rules of its chain.
        chain: &'r [nftables::Rule],
        /// Its table.
        table: &'r nftables::Table,
    },
}

impl Rules {
    /// Returns the rule of a family at a position of its chain, from 0.
    pub fn rule(&self, family: Family, table: &str, chain: &str, at: usize) -> Option<Rule<'_>> {
        if let Some(rules) = self.iptables() {
            let table = rules.tables.iter().find(|one| one.name.as_str() == table)?;
            let chain = table.chain(chain)?.rules.as_slice();
            return Some(Rule::Iptables { rule: chain.get(at)?, chain });
        }
        let tables = &self.nftables()?.rules.tables;
        let table = tables.iter().find(|one| one.family == family && &*one.name == table)?;
        let chain = table.chain(chain)?.rules.as_slice();
        Some(Rule::Nftables { rule: chain.get(at)?, chain, table })
    }
}

impl Rule<'_> {
    /// Returns the number of rules in its chain.
    pub fn chain_len(self) -> usize {
        match self {
            Self::Iptables { chain, .. } => chain.len(),
            Self::Nftables { chain, .. } => chain.len(),
        }
    }

    /// The rule as its language writes it: one of nftables behind the name of its chain, as iptables has it by itself.
    pub fn print(self, family: Family, chain: &str) -> String {
        let text = match self {
            Self::Iptables { rule, .. } => iptables::print_rule(family, chain, rule),
            Self::Nftables { rule, .. } => format!("{chain} {}", nftables::print_rule(rule, family)),
        };
        text.trim_end().to_owned()
    }

    /// Whether it sends every packet to one other chain and does nothing else.
    pub fn only_jumps(self) -> bool {
        match self {
            Self::Iptables { rule, .. } => rule.next_chain().is_some() && rule.is_unconditional(),
            Self::Nftables { rule, .. } => {
                let jumps =
                    matches!(rule.statements.as_slice(), [Statement::Verdict(Verdict::Jump(_) | Verdict::Goto(_))]);
                rule.conditions.is_empty() && jumps
            }
        }
    }

    /// Whether it does more to packets than to send them to other rules.
    pub fn has_effect(self) -> bool {
        match self {
            Self::Iptables { rule, .. } => {
                !matches!(rule.target, None | Some(Target::Jump(_) | Target::Goto(_) | Target::Return))
            }
            Self::Nftables { rule, .. } => {
                let selects = |one: &Statement| {
                    matches!(one, Statement::Verdict(_) | Statement::Lookup(..) | Statement::Balance(_))
                };
                !rule.statements.iter().all(selects)
            }
        }
    }
}

impl iptables::Rule {
    /// Whether it matches every packet.
    fn is_unconditional(&self) -> bool {
        let Self { source, destination, in_interface, out_interface, protocol, fragment, matches, .. } = self;
        let ends = [source.is_some(), destination.is_some(), in_interface.is_some(), out_interface.is_some()];
        ends == [false; 4] && protocol.is_none() && fragment.is_none() && matches.iter().all(Match::always_holds)
    }
}
