//! Rules of others beside the generated ones.

use std::collections::HashMap;

use super::ast::{Chain, ChainName, RuleSet, Table};

/// Where the foreign rules stand in chains that both have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Before the generated ones.
    Before,
    /// After the generated ones.
    After,
}

/// One document out of two: chains that both have get the rules of both, other chains are added.
///
/// A foreign chain of the kernel brings its policy along; counters of the generated chain stay.
pub fn merge(mut generated: RuleSet, foreign: &RuleSet, order: Order) -> RuleSet {
    for table in &foreign.tables {
        merge_table(generated.table_mut(table.name), table, order);
    }
    generated.tables.sort_by_key(|table| table.name);
    generated
}

fn merge_table(generated: &mut Table, foreign: &Table, order: Order) {
    let positions: HashMap<ChainName, usize> =
        generated.chains.iter().enumerate().map(|(index, chain)| (chain.name.clone(), index)).collect();
    for chain in &foreign.chains {
        match positions.get(&chain.name) {
            Some(index) => merge_chain(&mut generated.chains[*index], chain, order),
            None => generated.chains.push(chain.clone()),
        }
    }
}

fn merge_chain(generated: &mut Chain, foreign: &Chain, order: Order) {
    let at = match order {
        Order::Before => 0,
        Order::After => generated.rules.len(),
    };
    generated.rules.splice(at..at, foreign.rules.iter().cloned());
    generated.policy = foreign.policy.or(generated.policy);
}
