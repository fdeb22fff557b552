//! The lines of chains and endpoints.

use std::collections::HashMap;
use std::net::IpAddr;

use svclab_rules::cluster::Family;
use svclab_rules::coverage::nft_table;
use svclab_rules::infer::InferredPort;
use svclab_rules::iptables::{self, ChainKind, Nat, Rule, Target};
use svclab_rules::nftables::Statement;
use svclab_rules::ruleset::Rules;

use crate::evidence::NodeRules;

/// The lines of each chain's rules by table and chain: tables of nftables of both families have chains of the same names.
pub(super) struct ChainLines<'n>(HashMap<(&'static str, &'n str), Vec<usize>>);

impl<'n> ChainLines<'n> {
    /// The lines of a node. A chain of nftables without rules has the line of its heading.
    pub(super) fn of(node: &'n NodeRules) -> Self {
        let mut lines: HashMap<(&'static str, &str), Vec<usize>> = HashMap::new();
        match &node.rules {
            Rules::Iptables(parsed) => {
                for (table, at, chain) in numbered(parsed.rules.tables.iter().map(|table| &table.chains)) {
                    let name = parsed.rules.tables[table].name.as_str();
                    let own = (0..chain.rules.len()).map(|rule| parsed.lines.line(table, at, rule).unwrap_or_default());
                    lines.entry((name, &chain.name)).or_default().extend(own);
                }
            }
            Rules::Nftables(parsed) => {
                for (table, at, chain) in numbered(parsed.rules.tables.iter().map(|table| &table.chains)) {
                    let name = nft_table(parsed.rules.tables[table].family);
                    let own = 0..chain.rules.len();
                    let own: Vec<usize> = own.filter_map(|rule| parsed.lines.rule(table, at, rule)).collect();
                    let heading = || parsed.lines.chain(table, at).into_iter().collect();
                    lines.entry((name, &chain.name)).or_insert(if own.is_empty() { heading() } else { own });
                }
            }
            Rules::OtherTables(_) => {}
        }
        Self(lines)
    }

    /// The line of a chain's rule, from 1; that of the chain's first rule if it does not have that many.
    pub(super) fn line(&self, table: &'static str, chain: &str, rule: usize) -> Option<usize> {
        let lines = self.0.get(&(table, chain))?;
        lines.get(rule.max(1) - 1).or(lines.first()).copied().filter(|line| *line > 0)
    }

    /// The chains with their tables, each with its first line.
    pub(super) fn firsts(&self) -> impl Iterator<Item = ((&'static str, &'n str), usize)> {
        self.0.iter().filter_map(|(chain, lines)| Some((*chain, *lines.first()?)))
    }
}

/// The chains of tables of either language, with the numbers of table and chain.
fn numbered<'n, C: 'n>(tables: impl Iterator<Item = &'n Vec<C>>) -> impl Iterator<Item = (usize, usize, &'n C)> {
    tables.enumerate().flat_map(|(table, chains)| chains.iter().enumerate().map(move |(at, chain)| (table, at, chain)))
}

/// The lines of the chains that balance the connections of service ports.
pub(super) struct PortLines<'n>(HashMap<PortKey<'n>, usize>);

/// What a service port's chain is found by.
#[derive(Debug, PartialEq, Eq, Hash)]
enum PortKey<'n> {
    /// The hash in the name of a chain of iptables.
    Hash(&'n str),
    /// The family of a table of nftables, and `namespace/name/protocol/port` in the name of a chain.
    Name(Family, &'n str),
}

impl<'n> PortLines<'n> {
    /// The lines of a node.
    pub(super) fn of(node: &'n NodeRules) -> Self {
        let lines = match &node.rules {
            Rules::Iptables(parsed) => {
                let chains = numbered(parsed.rules.tables.iter().map(|table| &table.chains));
                let placed = chains.filter_map(|(table, at, chain)| {
                    let hash = chain.name.strip_prefix(ChainKind::Service.prefix())?;
                    Some((PortKey::Hash(hash), parsed.lines.line(table, at, 0)?))
                });
                placed.collect()
            }
            Rules::Nftables(parsed) => {
                let chains = numbered(parsed.rules.tables.iter().map(|table| &table.chains));
                let placed = chains.filter_map(|(table, at, chain)| {
                    let name = service_port_in(&chain.name)?;
                    Some((PortKey::Name(parsed.rules.tables[table].family, name), parsed.lines.chain(table, at)?))
                });
                placed.collect()
            }
            _ => HashMap::new(),
        };
        Self(lines)
    }

    /// The line of a service port.
    pub(super) fn line_of_port(&self, port: &InferredPort) -> Option<usize> {
        let hash = port.hash.map(|hash| hash.to_string());
        let by_hash = hash.as_deref().and_then(|hash| self.0.get(&PortKey::Hash(hash)));
        let name = format!("{}/{}/{}", port.service, port.protocol.as_str(), port.name);
        let of_family = |family: &Family| self.0.get(&PortKey::Name(*family, &name));
        by_hash.or_else(|| port.families.iter().find_map(of_family)).copied()
    }
}

/// The lines at which the rules of a service port lead to an endpoint, and translate to it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EndpointLines {
    pub(super) leading: Option<usize>,
    pub(super) translating: Option<usize>,
}

impl EndpointLines {
    /// Those of an endpoint's address.
    pub(super) fn of(node: &NodeRules, port: &InferredPort, ip: IpAddr) -> Self {
        match &node.rules {
            Rules::Iptables(parsed) => Self::in_iptables(parsed, port, ip),
            Rules::Nftables(parsed) => {
                let service = format!("-{}/{}/", port.service, port.protocol.as_str());
                let own = format!("__{}/", ip.to_string().replace(':', "."));
                let mut chains = numbered(parsed.rules.tables.iter().map(|table| &table.chains));
                let is_own =
                    |name: &str| name.starts_with("endpoint-") && name.contains(&service) && name.contains(&own);
                let found = chains.find(|(.., chain)| is_own(&chain.name));
                let translates = |statement: &Statement| matches!(statement, Statement::Dnat(_));
                let translating = found.and_then(|(table, at, chain)| {
                    let rule = chain.rules.iter().position(|rule| rule.statements.iter().any(translates))?;
                    parsed.lines.rule(table, at, rule)
                });
                Self { leading: translating, translating }
            }
            Rules::OtherTables(_) => Self::default(),
        }
    }

    fn in_iptables(parsed: &iptables::Parsed, port: &InferredPort, ip: IpAddr) -> Self {
        let chains = || numbered(parsed.rules.tables.iter().map(|table| &table.chains));
        let is_translation = |rule: &Rule| matches!(&rule.target, Some(Target::Dnat(Nat { addresses: Some((first, _)), .. })) if *first == ip);
        let translating: HashMap<&str, usize> = chains()
            .filter_map(|(table, at, chain)| {
                let rule = chain.rules.iter().position(is_translation)?;
                Some((&*chain.name, parsed.lines.line(table, at, rule)?))
            })
            .collect();
        let is_own = |name: &str| {
            ChainKind::of(name).is_some_and(|(kind, _)| port.hash.is_some() && kind.hash(name) == port.hash)
        };
        for (table, at, chain) in chains().filter(|(.., chain)| is_own(&chain.name)) {
            for (number, rule) in chain.rules.iter().enumerate() {
                if let Some(line) = rule.next_chain().and_then(|next| translating.get(&**next)) {
                    return Self { leading: parsed.lines.line(table, at, number), translating: Some(*line) };
                }
            }
        }
        Self::default()
    }
}

/// `namespace/name/protocol/port` in the name of a chain that balances: `service-HASH-namespace/name/protocol/port`.
pub(super) fn service_port_in(chain: &str) -> Option<&str> {
    let (_, name) = chain.strip_prefix("service-")?.split_once('-')?;
    Some(name)
}
