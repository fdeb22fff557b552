//! Rules that contradict each other about a Service: two cluster IPs of a port, two Services with a node port.

use svclab_rules::compare::Subject;
use svclab_rules::infer::InferredPort;
use svclab_rules::iptables::{ChainHash, ChainKind, TableName};

use super::finding::Finding;
use super::view::{Line, Placed, Tables, View};
use crate::text::list;

/// The most addresses that are named.
const MAX_NAMED: usize = 3;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let of_node = |(tables, ports): (Tables<'_>, &[InferredPort])| -> Vec<Finding> {
        let of_port = |port: &InferredPort| [cluster_ips(tables, port), node_port(tables, port, ports)];
        ports.iter().flat_map(of_port).flatten().collect()
    };
    view.tables_with_ports().flat_map(of_node).collect()
}

/// Rules for one service port with two cluster IPs of a family.
fn cluster_ips(tables: Tables<'_>, port: &InferredPort) -> Option<Finding> {
    let other = port.other_cluster_ips.first()?;
    let is_to =
        |placed: &Placed<'_>| placed.rule.destination.as_ref().is_some_and(|to| to.value.single() == Some(*other));
    let line = tables
        .rules()
        .filter(|placed| is_of(placed, port.hash))
        .find(is_to)
        .map_or(Line::unknown(TableName::Nat), |placed| placed.line);
    let [own, others] = [&port.cluster_ips, &port.other_cluster_ips].map(|all| list(all, MAX_NAMED));
    let message = format!("rules have {others} for the cluster IP of {}, others {own}", port.full_name());
    let effect =
        "each rule matches connections to its own address only: they are not load-balanced, or not masqueraded";
    let subject = Subject::Service(port.full_name());
    Some(Finding::new("conflicting-rules", tables.place(line), message, effect).about([subject]))
}

/// A node port whose rules come after those of another service port.
fn node_port(tables: Tables<'_>, port: &InferredPort, ports: &[InferredPort]) -> Option<Finding> {
    let number = port.shadowed_node_port?;
    let is_first = |other: &&InferredPort| other.node_port == Some(number) && other.protocol == port.protocol;
    let first = ports.iter().find(is_first).map(InferredPort::full_name).unwrap_or_default();
    let is_own = |placed: &Placed<'_>| {
        placed.table == TableName::Nat && &*placed.chain.name == "KUBE-NODEPORTS" && is_of(placed, port.hash)
    };
    let line = tables.rules().find(is_own).map_or(Line::unknown(TableName::Nat), |placed| placed.line);
    let (protocol, name) = (port.protocol, port.full_name());
    let message = format!("node port {number}/{protocol} of {name} is also that of {first}, whose rules come first");
    let effect = format!("connections to the node port of {name} go to {first}");
    Some(Finding::new("conflicting-rules", tables.place(line), message, effect).about([Subject::Service(name)]))
}

/// Whether a rule leads to a chain of a service port, or is in one.
fn is_of(placed: &Placed<'_>, hash: Option<ChainHash>) -> bool {
    let is_own = |chain: &str| hash.is_some() && ChainKind::of(chain).and_then(|(kind, _)| kind.hash(chain)) == hash;
    is_own(&placed.chain.name) || placed.rule.next_chain().is_some_and(|next| is_own(next))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

    use crate::lint::tests::ids;

    fn recording(name: &str) -> String {
        std::fs::read_to_string(format!("../rules/tests/golden/{name}/iptables-save.txt")).unwrap()
    }

    #[test]
    fn two_cluster_ips_of_a_port_are_found() {
        let saved = recording("clusterip-three-endpoints/v1.30-iptables");
        assert!(!ids(&saved).contains(&"conflicting-rules"));
        for chain in ["-A KUBE-SERVICES -d 10.96.0.10/32", "! -s 10.244.0.0/16 -d 10.96.0.10/32"] {
            assert!(saved.contains(chain), "{chain}");
            let other = saved.replacen(chain, &chain.replace("10.96.0.10", "10.96.0.87"), 1);
            assert!(ids(&other).contains(&"conflicting-rules"), "{chain}");
        }
    }

    /// The design of IPVS mode shows source ranges in `KUBE-SERVICES` of `filter`.
    #[test]
    fn the_address_of_a_load_balancer_is_no_cluster_ip() {
        let listed = "Chain KUBE-SERVICES (2 references)\ntarget     prot opt source       destination         \n\
            KUBE-MARK-MASQ  tcp  -- 0.0.0.0/0        10.244.5.1            /* default/foo:http cluster IP */ tcp dpt:8080\n\n\
            Chain KUBE-SERVICES (2 references)\ntarget     prot opt source       destination         \n\
            ACCEPT  tcp  -- 10.120.2.0/24    10.96.1.2       /* default/foo:http loadbalancer IP */ tcp dpt:8080\n\
            DROP    tcp  -- 0.0.0.0/0        10.96.1.2       /* default/foo:http loadbalancer IP */ tcp dpt:8080\n";
        assert!(!ids(listed).contains(&"conflicting-rules"));
    }

    #[test]
    fn a_node_port_of_two_services_is_found() {
        let saved = recording("small-cluster/v1.30-iptables");
        let ports: Vec<&str> = saved
            .lines()
            .filter(|line| line.starts_with("-A KUBE-NODEPORTS") && line.contains("-j KUBE-EXT-"))
            .map(|line| line.split("--dport ").nth(1).unwrap().split(' ').next().unwrap())
            .collect();
        assert!(ports.len() > 1 && !ids(&saved).contains(&"conflicting-rules"));
        let twice = saved.replace(&format!("--dport {} ", ports[1]), &format!("--dport {} ", ports[0]));
        assert!(ids(&twice).contains(&"conflicting-rules"));
    }
}
