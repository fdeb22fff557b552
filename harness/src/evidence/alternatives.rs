//! Chains of a text that show what a node would have with another policy: an article shows both.

use std::collections::HashSet;

use svclab_rules::iptables::{ChainKind, Parsed, Rule, TableName};

/// A chain that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Alternative {
    /// Its name.
    pub(crate) chain: String,
    /// Its first line, if it is known.
    pub(crate) line: Option<usize>,
}

impl Alternative {
    /// What is said of it.
    pub(crate) fn words(&self) -> String {
        let place = self.line.map(|line| format!(" from line {line} on")).unwrap_or_default();
        format!(
            "chain {}{place} is left out: no rule leads to it, and the Service's rules for policy Cluster are shown, so it is of another node or time",
            self.chain
        )
    }
}

/// Leaves out the chains for external policy Local that no rule leads to where rules of the same node lead to the Service's endpoints with policy
/// Cluster: kube-proxy up to 1.23 writes one of both.
pub(super) fn leave_out(parsed: &mut Parsed) -> Vec<Alternative> {
    let Some(at) = parsed.rules.tables.iter().position(|table| table.name == TableName::Nat) else { return Vec::new() };
    let table = &parsed.rules.tables[at];
    let jumps = || {
        let all = table.chains.iter().flat_map(|chain| chain.rules.iter().map(move |rule| (&*chain.name, rule)));
        all.filter_map(|(from, rule): (&str, &Rule)| Some((from, &**rule.next_chain()?)))
    };
    let led_to: HashSet<&str> = jumps().map(|(_, to)| to).collect();
    let is_external = |from: &str| from == "KUBE-NODEPORTS" || ChainKind::Firewall.is_of(from);
    let external: HashSet<&str> = jumps().filter(|(from, _)| is_external(from)).map(|(_, to)| to).collect();
    let is_alternative = |name: &str| {
        let service = ChainKind::ExternalLocal.hash(name).map(|hash| format!("{}{hash}", ChainKind::Service.prefix()));
        !led_to.contains(name) && service.is_some_and(|service| external.contains(&*service))
    };
    let positions: Vec<usize> = (0..table.chains.len())
        .filter(|at| !table.chains[*at].rules.is_empty() && is_alternative(&table.chains[*at].name))
        .collect();
    let alternative = |chain: &usize| Alternative {
        chain: table.chains[*chain].name.to_string(),
        line: parsed.lines.line(at, *chain, 0),
    };
    let left_out = positions.iter().map(alternative).collect();
    positions.into_iter().rev().for_each(|chain| parsed.remove_chain(at, chain));
    left_out
}
