//! Rules against Kubernetes objects.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;
use svclab_rules::cluster::ObjectName;
use svclab_rules::compare::{Difference, Fact, Policy, Subject};
use svclab_rules::infer::InferredPort;
use svclab_rules::iptables::{ChainHash, ChainKind, TableName};

use super::deviation_places::is_in;
use super::deviations::subject;
use super::finding::{Finding, Place};
use super::lines::{EndpointLines, PortLines};
use super::listed::{Listed, endpoint_objects, ready, services};
use super::port_names::port_name;
use super::rejections::rejected;
use super::view::View;
use crate::evidence::{NodeRules, endpoints, is_cut};
use crate::text::list;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let mut found = external_ips(view);
    let (ready, listed) = (ready(view), ListedPorts::of(view));
    let services = services(view);
    let differing = differing(view);
    for (node, ports) in view.nodes.iter().zip(&view.ports) {
        let lines = PortLines::of(node);
        // Their rules say so themselves, which is a finding of its own.
        let rejected = rejected(node);
        let missing = missing_endpoints(view, node);
        let mut counts: HashMap<&ObjectName, usize> = HashMap::new();
        ports.iter().for_each(|port| *counts.entry(&port.service).or_default() += 1);
        for port in ports {
            let line = lines.line_of_port(port).unwrap_or(node.first);
            let place = Place { file: node.file.clone(), line };
            let of_endpoint = |ip: IpAddr| EndpointLines::of(node, port, ip);
            let is_differing = |all: &HashSet<_>| all.contains(&(node.file.as_deref(), &*port.service.to_string()));
            if differing.as_ref().is_none_or(is_differing) {
                let lacking =
                    Lacking { shows_all: shows_endpoints(node, port), known: missing.get(&*port.full_name()) };
                let at_endpoint = |ip| Place { line: of_endpoint(ip).leading.unwrap_or(line), ..place.clone() };
                let compared = compared(port, &ready, (&place, &at_endpoint), &lacking).into_iter();
                let is_again = |one: &Finding| one.id == "no-endpoints" && rejected.contains(&port.full_name());
                found.extend(compared.filter(|one| !is_again(one)));
                let at_endpoint = |ip| Place { line: of_endpoint(ip).translating.unwrap_or(line), ..place.clone() };
                found.extend(listed.compared(port, counts[&port.service] == 1, &at_endpoint));
            }
            found.extend(ranges(port, &services, &place, node.has_translations()));
        }
    }
    found
}

/// Whether all endpoints of a service port are shown, as far as the rules have them.
fn shows_endpoints(node: &NodeRules, port: &InferredPort) -> bool {
    let of_hash = |hash: ChainHash| format!("{}{hash}", ChainKind::Service.prefix());
    node.is_whole() || port.hash.is_some_and(|hash| node.coverage.has_chain(TableName::Nat.as_str(), &of_hash(hash)))
}

/// Which endpoints are surely not in the rules of a service port.
struct Lacking<'m> {
    /// Whether all that the rules do not show.
    shows_all: bool,
    /// Those whose rules the text would show.
    known: Option<&'m BTreeSet<IpAddr>>,
}

impl Lacking<'_> {
    fn has(&self, ip: IpAddr) -> bool {
        self.shows_all || self.known.is_some_and(|known| known.contains(&ip))
    }
}

/// The endpoints whose rules the text of a node would show and does not, by service port.
fn missing_endpoints<'v>(view: &View<'v>, node: &NodeRules) -> HashMap<&'v str, BTreeSet<IpAddr>> {
    let mut all: HashMap<&str, BTreeSet<IpAddr>> = HashMap::new();
    for deviation in view.deviations.unwrap_or_default().iter().filter(|deviation| is_in(node, deviation)) {
        if let Subject::Service(name) = &deviation.finding.subject
            && let Difference::Missing(Fact::Endpoint(Policy::Cluster, endpoint)) = &deviation.finding.difference
            && let Ok(endpoint) = endpoint.parse::<SocketAddr>()
        {
            all.entry(port_name(name)).or_default().insert(endpoint.ip());
        }
    }
    all
}

/// The ports of endpoints that objects list, by Service and address.
struct ListedPorts {
    all: BTreeMap<String, BTreeMap<IpAddr, BTreeSet<u64>>>,
    /// The Services of which some endpoints are left out.
    cut: BTreeSet<String>,
}

impl ListedPorts {
    fn of(view: &View<'_>) -> Self {
        let (mut all, mut cut) = (BTreeMap::<String, BTreeMap<IpAddr, BTreeSet<u64>>>::new(), BTreeSet::new());
        for (service, object) in endpoint_objects(view) {
            if is_cut(object) {
                cut.insert(service.clone());
            }
            let known = all.entry(service).or_default();
            for endpoint in endpoints(object) {
                for ip in &endpoint.addresses {
                    known.entry(*ip).or_default().extend(endpoint.ports());
                }
            }
        }
        Self { all, cut }
    }

    /// Other ports than the rules of a service port translate to. Where addresses are left out, so may be ports of a Service of which it is
    /// not the only one.
    fn compared(&self, port: &InferredPort, is_only: bool, at: &dyn Fn(IpAddr) -> Place) -> Option<Finding> {
        let service = port.service.to_string();
        let listed = self.all.get(&service).filter(|_| is_only || !self.cut.contains(&service))?;
        let others = |endpoint: &&SocketAddr| {
            let ports = listed.get(&endpoint.ip()).filter(|ports| !ports.is_empty());
            ports.is_some_and(|ports| !ports.contains(&u64::from(endpoint.port())))
        };
        let own: BTreeSet<&SocketAddr> = port.endpoints.iter().chain(&port.local).filter(others).collect();
        let ports: BTreeSet<u64> = own.iter().filter_map(|own| listed.get(&own.ip())).flatten().copied().collect();
        let first = own.first().map(|first| first.ip());
        first.map(|first| {
            let place = at(first);
            let [own, ports] = [list(own, MAX_LISTED), list(ports, MAX_LISTED)];
            let message =
                format!("the rules translate connections of {service} to {own}, but its endpoints have port {ports}");
            let effect = "connections go to a port that the Service's pods do not serve";
            Finding::new("endpoints-differ", place, message, effect).about([Subject::Service(service)])
        })
    }
}

/// The most endpoints that are listed.
const MAX_LISTED: usize = 5;

/// The Services whose rules differ from those that kube-proxy writes, each with its file; `None` if they are not compared. Others have the
/// endpoints that kube-proxy chose, which may leave out ready ones because of hints or policies, and have others that terminate.
fn differing<'v>(view: &View<'v>) -> Option<HashSet<(Option<&'v str>, &'v str)>> {
    let deviations = view.deviations?.iter();
    Some(deviations.map(|deviation| (deviation.file.as_deref(), subject(deviation))).collect())
}

/// Compares the endpoints of a service port. Of those that the rules should not have, the first says where it is; of others, the chain does.
fn compared(
    port: &InferredPort,
    ready: &BTreeMap<String, Listed>,
    (place, at): (&Place, &dyn Fn(IpAddr) -> Place),
    lacks: &Lacking<'_>,
) -> Vec<Finding> {
    let service = port.service.to_string();
    let Some(listed) = ready.get(&service) else { return Vec::new() };
    let own: BTreeSet<IpAddr> = port.endpoints.iter().chain(&port.local).map(SocketAddr::ip).collect();
    let has_family = |ip: &IpAddr| port.cluster_ips.iter().any(|own| own.is_ipv4() == ip.is_ipv4());
    let is_served = |ip: &IpAddr| port.cluster_ips.is_empty() || has_family(ip);
    let known: BTreeSet<IpAddr> = listed.ready.iter().copied().filter(is_served).collect();
    let possible: BTreeSet<IpAddr> = listed.possible.iter().copied().filter(is_served).collect();
    let listed = |all: Vec<&IpAddr>| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let finding = |id: &'static str, place: Place, message: String, effect: &str| {
        Finding::new(id, place, message, effect).about([Subject::Service(service.clone())])
    };
    let mut found = Vec::new();
    let lacking: Vec<&IpAddr> = known.difference(&own).filter(|ip| lacks.has(**ip)).collect();
    if own.is_empty() && !lacking.is_empty() && !port.has_endpoints_elsewhere {
        let message = format!("the rules have no endpoint of {service}, but {} are ready", listed(lacking));
        found.push(finding(
            "no-endpoints",
            place.clone(),
            message,
            "connections to the Service are rejected or time out",
        ));
        return found;
    }
    // Endpoints have the addresses of one family alone.
    let is_listed = |ip: &IpAddr| known.is_empty() || known.iter().any(|other| other.is_ipv4() == ip.is_ipv4());
    let extra: Vec<&IpAddr> = own.difference(&known).filter(|ip| is_listed(ip) && !possible.contains(ip)).collect();
    if let Some(first) = extra.first().copied().copied()
        && !own.is_empty()
    {
        let missing = if lacking.is_empty() {
            String::new()
        } else {
            format!("; ready, but not in the rules: {}", listed(lacking))
        };
        let message = format!(
            "the rules have endpoints of {service} that are not among the ready ones: {}{missing}",
            listed(extra)
        );
        let effect = "a share of connections goes to addresses that are no ready endpoints";
        found.push(finding("endpoints-differ", at(first), message, effect));
    } else if !lacking.is_empty() && !own.is_empty() && !port.is_internal_local {
        let message = format!("ready endpoints of {service} are missing in the rules: {}", listed(lacking));
        found.push(finding(
            "endpoints-differ",
            place.clone(),
            message,
            "these endpoints get no connections from this node",
        ));
    }
    found
}

/// Source ranges of a Service that no rule checks.
fn ranges(
    port: &InferredPort,
    services: &HashMap<(&str, &str), &Value>,
    place: &Place,
    is_whole: bool,
) -> Option<Finding> {
    let object = services.get(&(port.service.namespace.as_str(), port.service.name.as_str()))?;
    let ranges = object["spec"]["loadBalancerSourceRanges"].as_array()?;
    let is_open = ranges.iter().any(|range| range.as_str().is_some_and(|range| range.ends_with("/0")));
    let is_unchecked =
        !ranges.is_empty() && !is_open && !port.load_balancer.is_empty() && port.source_ranges.is_empty();
    (is_unchecked && is_whole).then(|| {
        let message = format!("{} has loadBalancerSourceRanges, but no rule checks them", port.service);
        let effect = "every source reaches the load balancer's address";
        let subject = Subject::Service(port.service.to_string());
        Finding::new("source-ranges", place.clone(), message, effect).about([subject])
    })
}

/// External IPs that are a node's.
fn external_ips(view: &View<'_>) -> Vec<Finding> {
    let of_nodes: BTreeSet<&str> = view
        .objects_of_kind("Node")
        .flat_map(|(_, node)| node["status"]["addresses"].as_array().into_iter().flatten())
        .filter_map(|address| address["address"].as_str())
        .collect();
    let mut found = Vec::new();
    for (place, service) in view.objects_of_kind("Service") {
        let external = service["spec"]["externalIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for ip in external.filter(|ip| of_nodes.contains(ip)) {
            let name = service["metadata"]["name"].as_str().unwrap_or_default();
            let message = format!("external IP {ip} of Service {name} is a node's own address");
            let effect = "every connection to this address and port of the node goes to the Service, from the node's own processes too";
            found.push(Finding::new("external-ip-of-node", place.clone(), message, effect));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use crate::evidence::read;
    use crate::lint::lint;
    use crate::lint::tests::{BASE, ids};

    const DESCRIBED: &str = "$ kubectl describe svc nginx\nName:              nginx\nNamespace:         default\n\
        Type:              ClusterIP\nIP:                10.96.34.82\nPort:              <unset>  80/TCP\n\
        TargetPort:        PORT/TCP\nEndpoints:         10.244.2.2:PORT,10.244.2.3:PORT,10.244.2.4:PORT + 2 more...\n";

    /// kube-proxy that does not know of another `targetPort` translates to the same addresses.
    #[rstest]
    #[case::other("NAME    ENDPOINTS         AGE\nnginx   10.244.2.2:8080   1d\n".to_owned(), &["endpoints-differ"])]
    #[case::same("NAME    ENDPOINTS       AGE\nnginx   10.244.2.2:80   1d\n".to_owned(), &[])]
    #[case::described(DESCRIBED.replace("PORT", "8080"), &["endpoints-differ"])]
    #[case::described_the_same(DESCRIBED.replace("PORT", "80"), &[])]
    fn ports_of_endpoints_are_compared(#[case] objects: String, #[case] expected: &[&str]) {
        assert_eq!(ids(&format!("{BASE}\n{objects}")), expected);
    }

    /// Of endpoints that differ, those of both sides are named.
    #[test]
    fn endpoints_of_both_sides_are_named() {
        let file = "../rules/tests/golden/clusterip-three-endpoints/v1.30-iptables/iptables-save.txt";
        let saved = std::fs::read_to_string(file).expect("a recording");
        let objects = "NAME   ENDPOINTS                                             AGE\n\
            web    10.244.1.10:8080,10.244.2.10:8080,10.244.3.99:8080   1d\n";
        let found = lint(&read(&format!("```\n{saved}```\n\n```\n{objects}```\n")));
        let messages: Vec<&str> =
            found.iter().filter(|one| one.id == "endpoints-differ").map(|one| &*one.message).collect();
        let [message] = messages[..] else { panic!("{found:#?}") };
        // The place is that of the rule which leads to the endpoint.
        let differing = found.iter().find(|one| one.id == "endpoints-differ").expect("found");
        let line = saved.lines().nth(differing.place.line - 2).expect("a rule");
        assert!(line.contains("-> 10.244.3.10:8080"), "{line}");
        assert!(
            message.ends_with("among the ready ones: 10.244.3.10; ready, but not in the rules: 10.244.3.99"),
            "{message}"
        );
    }

    /// A table of EndpointSlices lists those that are not ready, too; what it does not list is no endpoint.
    #[rstest]
    #[case::with_others("10.244.1.10,10.244.2.10,10.244.3.10", &[])]
    #[case::without_one("10.244.2.10,10.244.3.10", &["endpoints-differ"])]
    fn a_table_of_slices_does_not_show_readiness(#[case] listed: &str, #[case] expected: &[&str]) {
        let file = "../rules/tests/golden/terminating-some/v1.30-iptables/iptables-save.txt";
        let saved = std::fs::read_to_string(file).expect("a recording");
        let table = "$ kubectl get endpointslices\nNAME        ADDRESSTYPE   PORTS   ENDPOINTS   AGE\n";
        let text = format!("```\n{saved}```\n\n```\n{table}web-a1b2c   IPv4   8080   {listed}   5m\n```\n");
        let found: Vec<_> = ids(&text).into_iter().filter(|id| *id == "endpoints-differ").collect();
        assert_eq!(found, expected);
    }

    /// A filter that would select the rules of an endpoint proves that they are not there. Up to 1.18, the name of an unnamed port ends in a
    /// colon.
    #[rstest]
    #[case::of_the_service("v1.30", "default/web", &["endpoints-differ", "even-shares"])]
    #[case::of_the_service_in_older_rules("v1.18", "default/web", &["endpoints-differ", "even-shares"])]
    #[case::of_one_endpoint("v1.30", "10.244.2.10", &[])]
    fn endpoints_that_an_excerpt_lacks_are_found(#[case] release: &str, #[case] word: &str, #[case] expected: &[&str]) {
        let file = format!("../rules/tests/golden/clusterip-unnamed-port/{release}-iptables/iptables-save.txt");
        let saved = std::fs::read_to_string(file).expect("a recording");
        let lines = saved.lines().filter(|line| line.contains(word) && line.starts_with("-A"));
        let lines: String = lines.map(|line| format!("{line}\n")).collect();
        let objects = "$ kubectl get endpoints\nNAME   ENDPOINTS                                            AGE\nweb    10.244.1.10:8080,10.244.2.10:8080,10.244.3.7:8080   1d\n";
        assert_eq!(ids(&format!("$ iptables-save | grep {word}\n{lines}\n{objects}")), expected);
    }
}
