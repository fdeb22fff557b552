//! What rules say of a Service that cannot all be true, in words.

use ipnet::IpNet;
use svclab_rules::cluster::{Family, ProxyConfig};
use svclab_rules::infer::{Inferred, InferredPort};

use crate::infer::Assumption;
use crate::text::list;

/// The most addresses that are named.
const MAX_NAMED: usize = 3;

/// The contradictions in what the rules show together, and what counts.
pub(super) fn of(inferred: &Inferred) -> impl Iterator<Item = Assumption> {
    inferred.ports.iter().flat_map(of_port).map(Assumption::Contradiction)
}

/// The ranges of local sources in rules that are not those of kube-proxy's configuration, which has one of each family.
pub(super) fn of_local_sources(inferred: &Inferred, proxy: &ProxyConfig) -> Option<Assumption> {
    let chosen = &proxy.cluster_cidrs;
    let has_family = |range: &IpNet| chosen.iter().any(|own| Family::of(own.addr()) == Family::of(range.addr()));
    let shown = &inferred.proxy.local_sources;
    let others: Vec<&IpNet> = shown.iter().filter(|range| !chosen.contains(range) && has_family(range)).collect();
    let is_of_rules = chosen.iter().any(|own| shown.contains(own));
    let [own, others] = [list(chosen, MAX_NAMED), list(others, MAX_NAMED)];
    let words = || format!("rules have {others} for the clusterCIDR, others {own}; using the latter");
    (is_of_rules && !others.is_empty()).then(words).map(Assumption::Contradiction)
}

fn of_port(port: &InferredPort) -> impl Iterator<Item = String> {
    let name = port.full_name();
    let addresses = (!port.other_cluster_ips.is_empty()).then(|| {
        let [own, others] = [&port.cluster_ips, &port.other_cluster_ips].map(|all| list(all, MAX_NAMED));
        format!("rules have {others} for the cluster IP of {name}, others {own}; using the latter")
    });
    let node_port = port.shadowed_node_port.map(|number| {
        format!(
            "node port {number}/{} of {name} is in rules that come after those of another Service; left out",
            port.protocol
        )
    });
    addresses.into_iter().chain(node_port)
}
