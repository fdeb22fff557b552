//! Addresses of pods: those that two pods have, and those outside of the range that kube-proxy takes for pods.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde_json::Value;
use svclab_rules::cluster::{Family, ObjectName};
use svclab_rules::infer::{InferredPort, InferredProxy};
use svclab_rules::iptables::{Network, TableName};
use svclab_rules::ruleset::Rules;

use super::finding::{Finding, Place};
use super::severity::Severity;
use super::view::{Placed, Tables, View};
use crate::evidence::NodeRules;
use crate::infer::{accessors, is_api_server};
use crate::text::list;

/// The most pods and endpoints that are named.
const MAX_NAMED: usize = 5;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let pods = Pods::of(view);
    let of_nodes = view.nodes.iter().zip(&view.ports).zip(&view.proxies);
    let outside = of_nodes.flat_map(|((node, ports), proxy)| pods.outside(node, ports, proxy));
    pods.shared().into_iter().chain(outside).collect()
}

/// The running pods and the nodes of evidence.
struct Pods<'v> {
    pods: Vec<(&'v Place, &'v Value)>,
    /// The addresses of nodes, by name.
    nodes: HashMap<&'v str, Vec<IpAddr>>,
}

impl<'v> Pods<'v> {
    fn of(view: &'v View<'_>) -> Self {
        let pods = view.objects_of_kind("Pod").filter(|(_, pod)| pod["status"]["phase"] == "Running").collect();
        let mut nodes: HashMap<&str, Vec<IpAddr>> = HashMap::new();
        for (_, node) in view.objects_of_kind("Node") {
            let name = node["metadata"]["name"].as_str().unwrap_or_default();
            nodes.entry(name).or_default().extend(accessors::node_ips(node));
        }
        Self { pods, nodes }
    }

    /// Returns whether an address is a pod's own, and not its node's: only where the node's address in that family is known.
    fn is_own(&self, pod: &Value, ip: IpAddr) -> bool {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let host = pod["status"]["hostIP"].as_str().and_then(|ip| ip.parse().ok());
        let of_node = self.nodes.get(node).into_iter().flatten().copied().chain(host);
        let mut same = of_node.filter(|other| Family::of(*other) == Family::of(ip)).peekable();
        same.peek().is_some() && same.all(|other| other != ip) && pod["spec"]["hostNetwork"] != true
    }

    /// Returns the addresses that pods of one list share.
    fn shared(&self) -> Vec<Finding> {
        let mut users: BTreeMap<(&Place, IpAddr), Vec<&Value>> = BTreeMap::new();
        for (place, pod) in &self.pods {
            accessors::ips(pod).into_iter().for_each(|ip| users.entry((place, ip)).or_default().push(pod));
        }
        let shared = users.into_iter().filter_map(|((place, ip), pods)| {
            let names: BTreeSet<String> = pods.iter().map(|pod| accessors::name(pod)).collect();
            let nodes: BTreeSet<&str> = pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
            let is_conflict = nodes.len() > 1 || pods.iter().all(|pod| self.is_own(pod, ip));
            if names.len() < 2 || !is_conflict {
                return None;
            }
            let on = match nodes.len() {
                0 | 1 => String::new(),
                _ => format!(", on nodes {}", list(&nodes, MAX_NAMED)),
            };
            let message = format!("pods {} have the same address {ip}{on}", list(&names, MAX_NAMED));
            let effect =
                "connections to this address reach only one of them: endpoints with it may be those of another Service";
            Some(Finding::new("pod-address", place.clone(), message, effect))
        });
        shared.collect()
    }

    /// Returns the endpoints of a rule set that are outside of the range of pods in each family.
    fn outside(&self, node: &NodeRules, ports: &[InferredPort], proxy: &InferredProxy) -> Vec<Finding> {
        let of_family = |family| self.outside_of_family(node, ports, proxy, family);
        Family::ALL.into_iter().filter_map(of_family).collect()
    }

    fn outside_of_family(
        &self,
        node: &NodeRules,
        ports: &[InferredPort],
        proxy: &InferredProxy,
        family: Family,
    ) -> Option<Finding> {
        let mut ranges = proxy.local_sources.iter().filter(|range| Family::of(range.addr()) == family);
        let (Some(range), None) = (ranges.next().copied(), ranges.next()) else { return None };
        if is_of_one_node(range) {
            return None;
        }
        let endpoints = self.endpoints_of_pods(ports, family);
        let (inside, outside): (Vec<_>, Vec<_>) = endpoints.into_iter().partition(|(ip, _)| range.contains(ip));
        let known = self.known(&outside);
        let services: BTreeSet<&ObjectName> = outside.iter().map(|(_, service)| *service).collect();
        let place = place(node, range);
        let found = |message: String, severity| {
            let effect = "all connections of these pods to cluster IPs are masqueraded: network policies and servers see a node's address";
            Finding::new("cidr-mismatch", place.clone(), message, effect).with_mode(node.rules.mode()).graded(severity)
        };
        if !known.is_empty() {
            let message = format!(
                "pods {} are outside of {range}, which kube-proxy takes for the range of pods",
                list(&known, MAX_NAMED)
            );
            return Some(found(message, Severity::Warning));
        }
        if outside.is_empty() || !inside.is_empty() {
            return None;
        }
        // Endpoints on the hosts' network are outside; of a whole cluster, most are not.
        let ips: BTreeSet<IpAddr> = outside.iter().map(|(ip, _)| *ip).collect();
        if node.is_whole() && ips.len() >= 3 {
            let message = format!("no endpoint is in {range}, which kube-proxy takes for the range of pods");
            return Some(found(message, Severity::Warning));
        }
        let message = format!(
            "endpoints {} of {} are outside of {range}, which kube-proxy takes for the range of pods: they are on the hosts' network, or the \
             range is wrong",
            list(&ips, MAX_NAMED),
            list(&services, MAX_NAMED)
        );
        Some(found(message, Severity::Info))
    }

    /// Returns the endpoints that may be pods, with their Services. Those of the API server are on its host.
    fn endpoints_of_pods<'p>(&self, ports: &'p [InferredPort], family: Family) -> Vec<(IpAddr, &'p ObjectName)> {
        let of_nodes: HashSet<IpAddr> = self.nodes.values().flatten().copied().collect();
        let is_of_pods = |port: &&InferredPort| !is_api_server(&port.full_name());
        let all = ports.iter().filter(is_of_pods).flat_map(|port| {
            let endpoints = port.endpoints.iter().chain(&port.local).map(SocketAddr::ip);
            endpoints.map(|ip| (ip, &port.service))
        });
        all.filter(|(ip, _)| Family::of(*ip) == family && !of_nodes.contains(ip)).collect()
    }

    /// Returns the names of pods that are known to have one of these addresses as their own.
    fn known(&self, endpoints: &[(IpAddr, &ObjectName)]) -> BTreeSet<String> {
        let ips: HashSet<IpAddr> = endpoints.iter().map(|(ip, _)| *ip).collect();
        let own = self.pods.iter().flat_map(|(_, pod)| accessors::ips(pod).into_iter().map(move |ip| (*pod, ip)));
        let outside = own.filter(|(pod, ip)| ips.contains(ip) && self.is_own(pod, *ip));
        outside.map(|(pod, ip)| format!("{} ({ip})", accessors::name(pod))).collect()
    }
}

/// Whether a range may be that of the pods of one node, which kube-proxy may be configured with: endpoints on other nodes are outside.
fn is_of_one_node(range: IpNet) -> bool {
    let longest_of_cluster = if range.addr().is_ipv4() { 22 } else { 60 };
    range.prefix_len() > longest_of_cluster
}

/// The place of the first rule that matches other sources than a range.
fn place(node: &NodeRules, range: IpNet) -> Place {
    let start = Place { file: node.file.clone(), line: node.first };
    let Rules::Iptables(parsed) = &node.rules else { return start };
    let tables = Tables { node, parsed };
    let is_first = |placed: &Placed<'_>| {
        let source = placed.rule.source.as_ref().filter(|source| source.negated);
        placed.table == TableName::Nat && source.is_some_and(|source| source.value == Network::Prefix(range))
    };
    tables.rules().find(is_first).map_or(start, |placed| tables.place(placed.line))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use crate::evidence::read;
    use crate::lint::{Severity, lint};

    const NODES: &str = "$ kubectl get nodes -o wide\n\
        NAME     STATUS   ROLES    AGE   VERSION   INTERNAL-IP    EXTERNAL-IP   OS-IMAGE   KERNEL-VERSION   CONTAINER-RUNTIME\n\
        node-1   Ready    <none>   1d    v1.30.0   192.168.1.11   <none>        Debian     6.1.0            containerd://1.7\n\
        node-2   Ready    <none>   1d    v1.30.0   192.168.1.12   <none>        Debian     6.1.0            containerd://1.7\n\n";

    /// The table of pods with the status, address and node of each.
    fn pods(rows: &[[&str; 3]]) -> String {
        let row = |(number, [status, ip, node]): (usize, &[&str; 3])| {
            format!("web-{number}   1/1     {status:<11} 0          1d    {ip:<14} {node}   <none>           <none>\n")
        };
        let rows: String = rows.iter().enumerate().map(row).collect();
        format!(
            "$ kubectl get pods -o wide\n\
             NAME    READY   STATUS      RESTARTS   AGE   IP             NODE     NOMINATED NODE   READINESS GATES\n{rows}\n"
        )
    }

    fn of_pods(text: &str) -> Vec<(Severity, String)> {
        let found = lint(&read(text)).into_iter().filter(|one| matches!(one.id, "cidr-mismatch" | "pod-address"));
        found.map(|one| (one.severity, one.message)).collect()
    }

    /// Pods on one node may be in its network, unless its address is known.
    #[rstest]
    #[case::two_nodes(false, ["Running", "10.244.1.10", "node-2"], true)]
    #[case::one_node(false, ["Running", "10.244.1.10", "node-1"], false)]
    #[case::node_with_a_known_address(true, ["Running", "10.244.1.10", "node-1"], true)]
    #[case::completed(true, ["Completed", "10.244.1.10", "node-2"], false)]
    #[case::other_address(true, ["Running", "10.244.1.11", "node-2"], false)]
    fn pods_with_one_address_are_found(#[case] has_nodes: bool, #[case] other: [&str; 3], #[case] expected: bool) {
        let nodes = if has_nodes { NODES } else { "" };
        let found = of_pods(&format!("{nodes}{}", pods(&[["Running", "10.244.1.10", "node-1"], other])));
        assert_eq!(
            found.iter().any(|(_, words)| words.contains("have the same address 10.244.1.10")),
            expected,
            "{found:?}"
        );
    }

    /// Both are in the network of their node.
    #[test]
    fn pods_in_the_network_of_their_node_share_its_address() {
        let rows = pods(&[["Running", "192.168.1.11", "node-1"], ["Running", "192.168.1.11", "node-1"]]);
        assert_eq!(of_pods(&format!("{NODES}{rows}")), []);
        assert_eq!(of_pods(&rows), []);
    }

    /// Rules of one Service whose endpoints are at `1` and `2` of a network.
    fn rules(network: &str, range: &str, comment: &str) -> String {
        format!(
            "$ iptables-save | grep KUBE-\n\
             -A KUBE-SERVICES -d 10.96.0.10/32 -p tcp{comment} -m tcp --dport 80 -j KUBE-SVC-CDGGSHYLG3RE2FKL\n\
             -A KUBE-SVC-CDGGSHYLG3RE2FKL ! -s {range} -d 10.96.0.10/32 -p tcp{comment} -m tcp --dport 80 -j KUBE-MARK-MASQ\n\
             -A KUBE-SVC-CDGGSHYLG3RE2FKL -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-GWQABTP5GBYXHJY5\n\
             -A KUBE-SVC-CDGGSHYLG3RE2FKL -j KUBE-SEP-IQIBSY2R4USWK4F3\n\
             -A KUBE-SEP-GWQABTP5GBYXHJY5 -p tcp -m tcp -j DNAT --to-destination {network}.1:8080\n\
             -A KUBE-SEP-IQIBSY2R4USWK4F3 -p tcp -m tcp -j DNAT --to-destination {network}.2:8080\n"
        )
    }

    const NAMED: &str = " -m comment --comment \"default/web:http cluster IP\"";

    /// Endpoints outside of the range in an excerpt may be on the hosts' network, unless a list of pods shows that they are not.
    #[rstest]
    #[case::unknown("10.200.1", "10.244.0.0/16", NAMED, false, &[Severity::Info])]
    #[case::without_comments("10.200.1", "10.244.0.0/16", "", false, &[Severity::Info])]
    #[case::known("10.200.1", "10.244.0.0/16", NAMED, true, &[Severity::Warning])]
    #[case::hosts("192.168.1.1", "10.244.0.0/16", NAMED, true, &[])]
    #[case::within("10.244.1", "10.244.0.0/16", NAMED, false, &[])]
    #[case::of_the_node("10.244.1", "10.244.3.0/24", NAMED, false, &[])]
    fn endpoints_outside_of_the_range_of_pods_are_found(
        #[case] network: &str,
        #[case] range: &str,
        #[case] comment: &str,
        #[case] has_pods: bool,
        #[case] expected: &[Severity],
    ) {
        // `192.168.1.1` + `1` is the address of the node.
        let rules = rules(network, range, comment).replace("192.168.1.1.", "192.168.1.1");
        let rows = [["Running", "10.200.1.1", "node-1"], ["Running", "10.200.1.2", "node-2"]];
        let objects = if has_pods { format!("{NODES}{}", pods(&rows)) } else { String::new() };
        let found = of_pods(&format!("{objects}{rules}"));
        assert_eq!(found.iter().map(|(severity, _)| *severity).collect::<Vec<_>>(), expected, "{found:?}");
    }
}
