//! What rules say of a Service that cannot all be true, in words.

use svclab_rules::infer::{Inferred, InferredPort};

use crate::infer::Assumption;
use crate::text::list;

/// The most addresses that are named.
const MAX_NAMED: usize = 3;

/// The contradictions in what the rules show together, and what counts.
pub(super) fn of(inferred: &Inferred) -> impl Iterator<Item = Assumption> {
    inferred.ports.iter().flat_map(of_port).map(Assumption::Contradiction)
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
