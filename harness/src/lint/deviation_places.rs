//! The line that a deviation is about: that of the rule, chain or set in the text that it is in, or that leads to it.

use std::net::SocketAddr;

use svclab_rules::cluster::Family;
use svclab_rules::compare::{self, Fact, Subject};
use svclab_rules::coverage::nft_table;
use svclab_rules::iptables::{ChainKind, TableName};
use svclab_rules::nftables;

use super::finding::Place;
use super::lines::{ChainLines, service_port_in};
use super::port_names::port_name;
use super::view::{Placed, Tables, View};
use crate::evidence::NodeRules;
use crate::infer::Deviation;

/// The place of a deviation; the first line of the rules if they show nothing of its chain, set or Service.
pub(super) fn place(view: &View<'_>, deviation: &Deviation) -> Place {
    let node = rules_of(view, deviation);
    let start = || (deviation.file.clone(), deviation.line);
    let (file, first) = node.map_or_else(start, |node| node.line_of_table(table(&deviation.finding)));
    if let Some(line) = deviation.finding.line {
        return Place { file, line };
    }
    let shown = node.and_then(|node| match view.tables().find(|tables| std::ptr::eq(tables.node, node)) {
        Some(tables) => in_iptables(tables, deviation),
        None => in_nftables(node, view.chain_lines_of(node)?, deviation).map(|line| Place { file: file.clone(), line }),
    });
    shown.unwrap_or(Place { file, line: first })
}

/// The table that a finding is about. Of a Service, rejected frontends and health checks are in `filter`; the ends of its chains, which drop, are in
/// `nat`.
fn table(finding: &compare::Finding) -> &str {
    match (&finding.subject, finding.difference.fact()) {
        (Subject::Table(table) | Subject::Chain { table, .. } | Subject::Set { table, .. }, _) => table,
        (_, Some(Fact::RejectResponse(Some(_)) | Fact::HealthCheck(_))) => TableName::Filter.as_str(),
        _ => TableName::Nat.as_str(),
    }
}

/// The rules that a deviation is in.
pub(super) fn rules_of<'v>(view: &'v View<'_>, deviation: &Deviation) -> Option<&'v NodeRules> {
    view.nodes.iter().find(|node| is_in(node, deviation))
}

/// Whether a deviation is in the rules of a node.
pub(super) fn is_in(node: &NodeRules, deviation: &Deviation) -> bool {
    node.file == deviation.file && node.line() == deviation.line
}

fn in_iptables(tables: Tables<'_>, deviation: &Deviation) -> Option<Place> {
    let first = |is_wanted: &dyn Fn(&Placed<'_>) -> bool| {
        let found = tables.rules().find(|placed| placed.line.number > 0 && is_wanted(placed));
        found.map(|placed| tables.place(placed.line))
    };
    match &deviation.finding.subject {
        Subject::Chain { table, name } => {
            let table = TableName::ALL.into_iter().find(|own| own.as_str() == *table)?;
            let is_in = |placed: &Placed<'_>| placed.table == table && *placed.chain.name == **name;
            let leads = |placed: &Placed<'_>| {
                placed.table == table && placed.rule.next_chain().is_some_and(|next| **next == **name)
            };
            first(&is_in).or_else(|| first(&leads))
        }
        Subject::Table(name) => first(&|placed| placed.table.as_str() == *name),
        Subject::Service(name) => {
            let is_own = |placed: &Placed<'_>| {
                let mut words = placed.rule.comment().unwrap_or_default().split(' ');
                words.next().is_some_and(|word| port_name(word) == port_name(name))
                    || ChainKind::of(&placed.chain.name).is_some() && placed.chain.name.ends_with(&**name)
            };
            let fact = fact(deviation);
            let of_endpoint = fact.and_then(endpoint).and_then(|endpoint| {
                let named = |placed: &Placed<'_>| {
                    is_own(placed) && placed.rule.named_endpoint().is_some_and(|one| one.to_string() == *endpoint)
                };
                first(&named)
            });
            let is_external = matches!(fact, Some(Fact::Masquerade(None)));
            let of_external = || {
                let in_external = |placed: &Placed<'_>| {
                    let name = &placed.chain.name;
                    is_own(placed) && ["KUBE-EXT-", "KUBE-FW-", "KUBE-XLB-"].iter().any(|start| name.starts_with(start))
                };
                first(&in_external).filter(|_| is_external)
            };
            let balances = |placed: &Placed<'_>| is_own(placed) && ChainKind::Service.is_of(&placed.chain.name);
            of_endpoint.or_else(of_external).or_else(|| first(&balances)).or_else(|| first(&is_own))
        }
        Subject::Set { .. } => None,
    }
}

fn in_nftables(node: &NodeRules, lines: &ChainLines<'_>, deviation: &Deviation) -> Option<usize> {
    let parsed = node.rules.nftables()?;
    // Of a Service, the fact shows the family.
    let family = fact(deviation).and_then(family);
    let is_of_table = |table: &str| match &deviation.finding.subject {
        Subject::Table(own) | Subject::Chain { table: own, .. } | Subject::Set { table: own, .. } => table == *own,
        Subject::Service(_) => family.is_none_or(|family| table == nft_table(family)),
    };
    let tables = || parsed.rules.tables.iter().enumerate().filter(|(_, table)| is_of_table(nft_table(table.family)));
    let set = |name: &str| {
        let position = |table: &nftables::Table| table.sets.iter().position(|set| *set.name == *name);
        tables().find_map(|(at, table)| parsed.lines.set(at, position(table)?))
    };
    match &deviation.finding.subject {
        Subject::Chain { table, name } => lines.line(table, name, 1),
        Subject::Set { name, .. } => set(name),
        Subject::Table(_) => tables().find_map(|(at, _)| parsed.lines.chain(at, 0)),
        Subject::Service(name) => {
            let of_set = match fact(deviation) {
                Some(Fact::Hairpin(_)) => set("hairpin-connections"),
                Some(Fact::ClusterIp(_)) => set("cluster-ips"),
                Some(Fact::RejectResponse(_)) => set("no-endpoint-services"),
                Some(Fact::Firewall(_)) => set("firewall-ips"),
                _ => None,
            };
            let of_chain = || {
                let (service, port) = name.split_once(':').unwrap_or((name, ""));
                let is_own = |chain: &str| {
                    let mut parts = service_port_in(chain).unwrap_or_default().splitn(5, '/');
                    let named = [parts.next(), parts.next()].map(Option::unwrap_or_default).join("/");
                    named == service && parts.nth(1).unwrap_or_default() == port
                };
                let own = lines.firsts().filter(|((table, chain), _)| is_of_table(table) && is_own(chain));
                own.map(|(_, line)| line).min()
            };
            of_set.or_else(of_chain)
        }
    }
}

/// What it differs in.
pub(super) fn fact(deviation: &Deviation) -> Option<&Fact> {
    deviation.finding.difference.fact()
}

/// The family of the rules that state a fact, where the fact has an address.
fn family(fact: &Fact) -> Option<Family> {
    let ip = match fact {
        Fact::Entry(frontend) | Fact::Firewall(frontend) => frontend.address,
        Fact::RejectResponse(frontend) | Fact::Masquerade(frontend) => frontend.and_then(|frontend| frontend.address),
        Fact::ClusterIp(ip) => Some(*ip),
        Fact::SourceRange(range) => range.split('/').next().and_then(|ip| ip.parse().ok()),
        _ => endpoint(fact).and_then(|endpoint| endpoint.parse().ok()).map(|endpoint: SocketAddr| endpoint.ip()),
    };
    ip.map(Family::of)
}

/// The endpoint that a fact is about.
fn endpoint(fact: &Fact) -> Option<&String> {
    match fact {
        Fact::Endpoint(_, endpoint) | Fact::Share(_, endpoint) | Fact::Affinity(_, endpoint) => Some(endpoint),
        Fact::Hairpin(endpoint) | Fact::Translation(endpoint) => Some(endpoint),
        Fact::Memory(endpoint) | Fact::Clients(endpoint) => Some(endpoint),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use svclab_rules::compare::{Difference, Finding};

    use super::*;

    /// Health checks are accepted in `filter`; what no source range or endpoint takes is dropped at the end of a chain of `nat`.
    #[rstest]
    #[case(Fact::HealthCheck(30_000), "filter")]
    #[case(Fact::RejectResponse(None), "nat")]
    #[case(Fact::Hairpin("10.244.1.10:80".to_owned()), "nat")]
    fn facts_of_services_are_in_their_table(#[case] fact: Fact, #[case] expected: &str) {
        let subject = Subject::Service("default/web:http".to_owned());
        assert_eq!(table(&Finding { subject, difference: Difference::Missing(fact), line: None }), expected);
    }
}
