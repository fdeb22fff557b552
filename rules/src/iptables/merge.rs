//! Merging of other rules with the generated ones.

use std::collections::HashMap;

use super::ast::{Chain, RuleSet, Table};
use super::values::ChainName;

/// The position of the other rules in chains that both have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Before the generated ones.
    Before,
    /// After the generated ones.
    After,
}

/// Merges two documents: chains in both get the rules of both, other chains are added.
///
/// The policy of a built-in chain is that of the other rules; the counters are those of the generated chain.
pub fn merge(mut generated: RuleSet, other: &RuleSet, order: Order) -> RuleSet {
    for table in &other.tables {
        merge_table(generated.table_mut(table.name), table, order);
    }
    generated.tables.sort_by_key(|table| table.name);
    generated
}

fn merge_table(generated: &mut Table, other: &Table, order: Order) {
    let positions: HashMap<ChainName, usize> =
        generated.chains.iter().enumerate().map(|(index, chain)| (chain.name.clone(), index)).collect();
    for chain in &other.chains {
        match positions.get(&chain.name) {
            Some(index) => merge_chain(&mut generated.chains[*index], chain, order),
            None => generated.chains.push(chain.clone()),
        }
    }
}

fn merge_chain(generated: &mut Chain, other: &Chain, order: Order) {
    let at = match order {
        Order::Before => 0,
        Order::After => generated.rules.len(),
    };
    generated.rules.splice(at..at, other.rules.iter().cloned());
    generated.policy = other.policy.or(generated.policy);
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::cluster::Family;
    use crate::iptables::{parse, print};

    const GENERATED: &str = "*filter\n:FORWARD ACCEPT [0:0]\n:KUBE-FORWARD - [0:0]\n\
                             -A FORWARD -j KUBE-FORWARD\n-A KUBE-FORWARD -j ACCEPT\nCOMMIT\n";
    const OTHER: &str = "*mangle\n:FORWARD ACCEPT [0:0]\nCOMMIT\n*filter\n:FORWARD DROP [3:180]\n:DOCKER - [0:0]\n\
                           -A FORWARD -j DOCKER\n-A DOCKER -j RETURN\nCOMMIT\n";

    #[rstest]
    #[case::before(Order::Before, "-A FORWARD -j DOCKER\n-A FORWARD -j KUBE-FORWARD\n")]
    #[case::after(Order::After, "-A FORWARD -j KUBE-FORWARD\n-A FORWARD -j DOCKER\n")]
    fn one_document_holds_both(#[case] order: Order, #[case] forward: &str) {
        let [generated, other] = [GENERATED, OTHER].map(|text| parse(text, Family::Ipv4).unwrap().rules);
        let expected = format!(
            "*mangle\n:FORWARD ACCEPT [0:0]\nCOMMIT\n*filter\n:FORWARD DROP [0:0]\n:KUBE-FORWARD - [0:0]\n:DOCKER - [0:0]\n\
             {forward}-A KUBE-FORWARD -j ACCEPT\n-A DOCKER -j RETURN\nCOMMIT\n"
        );
        assert_eq!(print(&merge(generated, &other, order)), expected);
    }
}
