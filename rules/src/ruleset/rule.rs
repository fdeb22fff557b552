//! Single rules, in either language.

use super::Rules;
use crate::cluster::Family;
use crate::iptables::{self, ChainKind, Match, Target};
use crate::nftables::{self, Condition, ConnectionState, Statement, Verdict};

/// A rule in either language, with the rules of its chain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule<'r> {
    /// An iptables rule.
    Iptables {
        /// The rule.
        rule: &'r iptables::Rule,
        /// All rules of its chain.
        chain: &'r [iptables::Rule],
    },
    /// An nftables rule.
    Nftables {
        /// The rule.
        rule: &'r nftables::Rule,
        /// All rules of its chain.
        chain: &'r [nftables::Rule],
        /// Its table.
        table: &'r nftables::Table,
    },
}

/// The chains of [`Rules`] by name: there may be tens of thousands.
#[derive(Debug, Clone)]
pub struct ChainIndex {
    /// The positions of each table's chains, in the order of their names.
    tables: Vec<Vec<u32>>,
}

impl ChainIndex {
    fn find<C>(&self, table: usize, chains: &[C], name: &str, name_of: impl Fn(&C) -> &str) -> Option<usize> {
        let order = self.tables.get(table)?;
        let at = order.binary_search_by(|at| name_of(&chains[*at as usize]).cmp(name)).ok()?;
        Some(order[at] as usize)
    }
}

/// The positions of chains in the order of their names.
fn sorted<C>(chains: &[C], name_of: impl Fn(&C) -> &str) -> Vec<u32> {
    let mut order: Vec<u32> = (0..chains.len() as u32).collect();
    order.sort_by_key(|at| name_of(&chains[*at as usize]));
    order
}

impl Rules {
    /// Orders the chains by name, for [`Self::rule`].
    pub fn index_chains(&self) -> ChainIndex {
        let tables = match (self.iptables(), self.nftables()) {
            (Some(rules), _) => rules.tables.iter().map(|table| sorted(&table.chains, |chain| &chain.name)).collect(),
            (None, Some(parsed)) => {
                parsed.rules.tables.iter().map(|table| sorted(&table.chains, |chain| &chain.name)).collect()
            }
            (None, None) => Vec::new(),
        };
        ChainIndex { tables }
    }

    /// Returns the rule of a family at a position of its chain, from 0. The index is of these rules.
    pub fn rule(&self, index: &ChainIndex, family: Family, table: &str, chain: &str, at: usize) -> Option<Rule<'_>> {
        if let Some(rules) = self.iptables() {
            let position = rules.tables.iter().position(|one| one.name.as_str() == table)?;
            let chains = &rules.tables[position].chains;
            let chain = chains[index.find(position, chains, chain, |chain| &chain.name)?].rules.as_slice();
            return Some(Rule::Iptables { rule: chain.get(at)?, chain });
        }
        let tables = &self.nftables()?.rules.tables;
        let position = tables.iter().position(|one| one.family == family && &*one.name == table)?;
        let table = &tables[position];
        let chain = index.find(position, &table.chains, chain, |chain| &chain.name)?;
        let chain = table.chains[chain].rules.as_slice();
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

    /// Prints the rule in its language; an nftables rule is prefixed with the name of its chain, as in iptables.
    pub fn print(self, family: Family, chain: &str) -> String {
        let text = match self {
            Self::Iptables { rule, .. } => iptables::print_rule(family, chain, rule),
            Self::Nftables { rule, .. } => format!("{chain} {}", nftables::print_rule(rule, family)),
        };
        text.trim_end().to_owned()
    }

    /// Returns whether it sends every packet to one other chain and does nothing else.
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

    /// Returns whether a chain in its language is that of an endpoint, which translates all its packets.
    pub fn is_endpoint_chain(self, chain: &str) -> bool {
        match self {
            Self::Iptables { .. } => ChainKind::Endpoint.is_of(chain),
            Self::Nftables { .. } => chain.starts_with("endpoint-"),
        }
    }

    /// Returns whether it may have interfaces that the text does not show.
    pub fn hides_interfaces(self) -> bool {
        match self {
            Self::Iptables { rule, .. } => rule.hides_interfaces(),
            Self::Nftables { .. } => false,
        }
    }

    /// Returns whether it matches packets in the connection state `INVALID`.
    pub fn is_for_invalid(self) -> bool {
        let names = |states: &iptables::States, negated: bool| states.intersects(iptables::States::INVALID) && !negated;
        match self {
            Self::Iptables { rule, .. } => rule
                .matches
                .iter()
                .any(|one| matches!(one, Match::State { states, .. } if names(&states.value, states.negated))),
            Self::Nftables { rule, .. } => rule.conditions.iter().any(|one| {
                matches!(one, Condition::State(states)
                    if !states.negated && states.states.contains(&ConnectionState::Invalid))
            }),
        }
    }

    /// Returns whether it does more to packets than jump to other rules.
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
    /// Returns whether it matches every packet.
    pub fn is_unconditional(&self) -> bool {
        let Self { source, destination, in_interface, out_interface, protocol, fragment, matches, .. } = self;
        let ends = [source.is_some(), destination.is_some(), in_interface.is_some(), out_interface.is_some()];
        ends == [false; 4] && protocol.is_none() && fragment.is_none() && matches.iter().all(Match::always_holds)
    }
}
