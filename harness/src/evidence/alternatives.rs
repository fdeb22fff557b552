//! Chains of a text that show what a node would have with another policy: an article shows both.

use svclab_rules::iptables::{ChainKind, Parsed, TableName};

/// A chain that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Alternative {
    /// Its name.
    pub(crate) chain: String,
    /// Its first line.
    pub(crate) line: usize,
}

impl Alternative {
    /// What is said of it.
    pub(crate) fn words(&self) -> String {
        format!(
            "chain {} from line {} on: no rule leads to it, and the Service's rules for policy Cluster are shown, so it is of another node or time",
            self.chain, self.line
        )
    }
}

/// Leaves out the chains for external policy Local that no rule leads to where rules of the same node lead to the Service's endpoints with policy
/// Cluster: kube-proxy up to 1.23 writes one of both.
pub(super) fn leave_out(parsed: &mut Parsed) -> Vec<Alternative> {
    let Some(at) = parsed.rules.tables.iter().position(|table| table.name == TableName::Nat) else { return Vec::new() };
    let table = &parsed.rules.tables[at];
    let leads = |from: &dyn Fn(&str) -> bool, to: &str| {
        let chains = table.chains.iter().filter(|chain| from(&chain.name));
        chains.flat_map(|chain| &chain.rules).any(|rule| rule.next_chain().is_some_and(|next| **next == *to))
    };
    let is_alternative = |name: &str| {
        let Some(hash) = ChainKind::ExternalLocal.hash(name) else { return false };
        let [service, firewall] =
            [ChainKind::Service, ChainKind::Firewall].map(|kind| format!("{}{hash}", kind.prefix()));
        let is_external = |chain: &str| chain == "KUBE-NODEPORTS" || chain == firewall;
        !leads(&|_| true, name) && leads(&is_external, &service)
    };
    let positions: Vec<usize> = (0..table.chains.len())
        .filter(|at| !table.chains[*at].rules.is_empty() && is_alternative(&table.chains[*at].name))
        .collect();
    let left_out = positions.iter().map(|chain| Alternative {
        chain: table.chains[*chain].name.to_string(),
        line: parsed.lines.line(at, *chain, 0).unwrap_or_default(),
    });
    let left_out = left_out.collect();
    positions.into_iter().rev().for_each(|chain| parsed.remove_chain(at, chain));
    left_out
}
