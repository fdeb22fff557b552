//! Endpoints that only names of chains and sets show, because the text lacks the chains of their service ports, or ends within them.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::model::DEFAULT_AFFINITY_TIMEOUT;
use crate::chains::Kind;
use crate::chains::nftables::{NAMING, endpoint_of_base};
use crate::nftables::{Chain, Rule, Statement, Table, base_of_endpoint};

/// An endpoint, and what its affinity set shows.
pub(super) struct NamedEndpoint {
    /// The service port, by the part of its chains' names after the prefix.
    pub(super) service: String,
    pub(super) endpoint: SocketAddr,
    /// The affinity timeout in seconds, if the endpoint has such a set.
    pub(super) affinity: Option<u32>,
}

/// Finds the endpoints of service ports without a chain that leads to endpoints. Where there is one, it alone shows which endpoints are used, unless
/// it is the last chain, in which a text may end.
pub(super) fn named_endpoints(table: &Table) -> Vec<NamedEndpoint> {
    let before_last = table.chains.split_last().map(|(_, before)| before).unwrap_or_default();
    let groups = before_last.iter().filter_map(|chain| NAMING.of(&chain.name));
    let groups: BTreeSet<&str> =
        groups.filter(|(kind, _)| matches!(kind, Kind::Group(_))).map(|(_, base)| base).collect();
    // The set that has the timeout may not be in the text.
    let affinity = |chain: &Chain| {
        let remembers = |rule: &Rule| rule.statements.iter().any(|one| matches!(one, Statement::Remember(..)));
        chain.rules.iter().any(remembers).then_some(DEFAULT_AFFINITY_TIMEOUT)
    };
    let of_chains = table.chains.iter().filter_map(|chain| {
        let (kind, base) = NAMING.of(&chain.name)?;
        (kind == Kind::Endpoint).then(|| (base, affinity(chain)))
    });
    let of_sets = table.sets.iter().filter_map(|set| {
        let affinity = set.dynamic.as_ref().and_then(|dynamic| dynamic.timeout);
        Some((set.name.strip_prefix("affinity-")?, affinity))
    });
    let named = of_sets.chain(of_chains).filter_map(|(base, affinity)| {
        Some(NamedEndpoint { service: base_of_endpoint(base)?, endpoint: endpoint_of_base(base)?, affinity })
    });
    named.filter(|named| !groups.contains(&*named.service)).collect()
}
