//! Chains: jumps to chains that are not there, and chains that nothing leads to.

use std::collections::HashSet;

use super::finding::Finding;
use super::view::{Tables, View};

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    view.tables().filter(Tables::is_whole).flat_map(of_tables).collect()
}

fn of_tables(tables: Tables<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for table in &tables.parsed.rules.tables {
        let chains: HashSet<&str> = table.chains.iter().map(|chain| &*chain.name).collect();
        let mut used: HashSet<&str> = HashSet::new();
        let mut told: HashSet<&str> = HashSet::new();
        for placed in tables.rules().filter(|placed| placed.table == table.name) {
            let Some(next) = placed.rule.next_chain() else { continue };
            used.insert(next);
            let is_listing = tables.node.format == crate::evidence::Format::IptablesList;
            if !chains.contains(&**next) && next.starts_with("KUBE-") && !is_listing && told.insert(next) {
                let message = format!(
                    "a rule of {} jumps to {next}, which table {} does not have",
                    placed.chain.name, table.name
                );
                let effect =
                    "iptables-restore rejects the whole table: kube-proxy cannot update any Service on this node";
                found.push(Finding::new("undefined-chain", tables.place(placed.line), message, effect));
            }
        }
        let unused: Vec<&str> = table
            .chains
            .iter()
            .filter(|chain| chain.policy.is_none() && is_service_chain(&chain.name) && !used.contains(&*chain.name))
            .map(|chain| &*chain.name)
            .collect();
        if let Some(first) = unused.first() {
            let message = format!(
                "{} of table {} are not used by any rule, first {first}",
                crate::text::counted(unused.len(), "chain"),
                table.name
            );
            let effect = "none: they are left over from Services or endpoints that are gone";
            found.push(Finding::new(
                "unreferenced-chain",
                tables.place(tables.line(table.name, first, 0)),
                message,
                effect,
            ));
        }
    }
    found
}

fn is_service_chain(name: &str) -> bool {
    ["KUBE-SVC-", "KUBE-SEP-", "KUBE-FW-", "KUBE-XLB-", "KUBE-EXT-", "KUBE-SVL-"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}
