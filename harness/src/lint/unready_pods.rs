//! Endpoints in rules whose pods are not ready. They may have become so since, or the Service has `publishNotReadyAddresses`.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;
use svclab_rules::cluster::ObjectName;

use super::finding::{Finding, Place};
use super::lines::PortLines;
use super::severity::Severity;
use super::view::View;
use crate::infer::accessors;
use crate::text::list;

/// The most endpoints and pods that are named.
const MAX_NAMED: usize = 5;

/// One finding for each Service on a node.
pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let pods = unready_pods(view);
    if pods.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (node, ports) in view.nodes.iter().zip(&view.ports) {
        let lines = PortLines::of(node);
        let mut services: BTreeMap<&ObjectName, (usize, BTreeMap<IpAddr, &str>)> = BTreeMap::new();
        for port in ports {
            let ips = port.endpoints.iter().chain(&port.local).map(SocketAddr::ip);
            let own: Vec<(IpAddr, &str)> = ips.filter_map(|ip| Some((ip, *pods.get(&ip)?))).collect();
            if !own.is_empty() {
                let line = || lines.line_of_port(port).unwrap_or(node.first);
                services.entry(&port.service).or_insert_with(|| (line(), BTreeMap::new())).1.extend(own);
            }
        }
        found.extend(services.into_iter().map(|(service, (line, own))| {
            let place = Place { file: node.file.clone(), line };
            let message = match own.len() {
                1 => format!("endpoint {} of {service} is pod {}, which is not ready", own_ips(&own), names(&own)),
                _ => format!("endpoints {} of {service} are pods that are not ready: {}", own_ips(&own), names(&own)),
            };
            let effect = "a share of connections fails, unless the pod became unready after the rules were saved";
            Finding::new("endpoints-differ", place, message, effect).graded(Severity::Info)
        }));
    }
    found
}

fn own_ips(own: &BTreeMap<IpAddr, &str>) -> String {
    list(own.keys(), MAX_NAMED)
}

fn names(own: &BTreeMap<IpAddr, &str>) -> String {
    list(own.values(), MAX_NAMED)
}

/// The names of pods that are not ready, by address. Several pods with one address are in the node's network.
fn unready_pods<'v>(view: &'v View<'_>) -> HashMap<IpAddr, &'v str> {
    let mut pods: HashMap<IpAddr, Vec<&Value>> = HashMap::new();
    for (_, pod) in view.objects_of_kind("Pod") {
        accessors::ips(pod).into_iter().for_each(|ip| pods.entry(ip).or_default().push(pod));
    }
    let of_one = pods.into_iter().filter_map(|(ip, pods)| match pods.as_slice() {
        [pod] if is_unready(pod) => Some((ip, pod["metadata"]["name"].as_str().unwrap_or_default())),
        _ => None,
    });
    of_one.collect()
}

fn is_unready(pod: &Value) -> bool {
    // Others have left their address to another pod, or still serve.
    const OTHERS: [&str; 6] = ["Completed", "Error", "Evicted", "Failed", "Succeeded", "Terminating"];
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let is_other = pod["status"]["phase"].as_str().is_none_or(|phase| OTHERS.contains(&phase));
    !is_other && conditions.any(|one| one["type"] == "Ready" && one["status"] == "False")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use crate::evidence::read;
    use crate::lint::tests::BASE;
    use crate::lint::{Severity, lint};

    /// A pod that is not ready gets connections only by rules that are older than the list of pods.
    #[rstest]
    #[case::unready("0/1", "CrashLoopBackOff", &["endpoints-differ"])]
    #[case::ready("1/1", "Running", &[])]
    #[case::terminating("1/1", "Terminating", &[])]
    fn pods_of_endpoints_are_ready(#[case] ready: &str, #[case] status: &str, #[case] expected: &[&str]) {
        let pods = format!(
            "NAME    READY   STATUS             RESTARTS   AGE   IP           NODE     NOMINATED NODE   READINESS GATES\n\
             nginx   {ready}     {status:<16}   7          5d    10.244.2.2   node-2   <none>           <none>\n"
        );
        let found = lint(&read(&format!("{BASE}\n$ kubectl get pods -o wide\n{pods}")));
        assert_eq!(found.iter().map(|one| one.id).collect::<Vec<_>>(), expected, "{found:?}");
        assert!(found.iter().all(|one| one.severity == Severity::Info), "{found:?}");
    }

    /// The pods of a Deployment are one finding.
    #[test]
    fn unready_pods_of_a_service_are_one_finding() {
        let saved =
            std::fs::read_to_string("../rules/tests/golden/clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
        let row =
            |at: usize| format!("web-{at}   0/1     Pending   0          5d    10.244.{at}.10   node-{at}   <none>\n");
        let rows: String = (1..=3).map(row).collect();
        let table = format!("NAME    READY   STATUS    RESTARTS   AGE   IP            NODE     NOMINATED NODE\n{rows}");
        let found = lint(&read(&format!("{}\n$ kubectl get pods -o wide\n{table}", saved.expect("a recording"))));
        let own: Vec<&str> = found.iter().filter(|one| one.id == "endpoints-differ").map(|one| &*one.message).collect();
        let expected = "endpoints 10.244.1.10, 10.244.2.10, 10.244.3.10 of default/web are pods that are not ready: web-1, web-2, web-3";
        assert_eq!(own, [expected], "{found:?}");
    }

    /// All addresses of a pod count.
    #[test]
    fn the_second_address_of_a_pod_is_compared() {
        let saved = std::fs::read_to_string("../rules/tests/golden/dual-stack/v1.30-iptables/ip6tables-save.txt");
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: six-1}\nspec: {nodeName: node-2}\nstatus:\n  phase: Running\n  \
            podIP: 10.244.2.11\n  podIPs: [{ip: 10.244.2.11}, {ip: 'fd00:244:0:2::b'}]\n  \
            conditions: [{type: Ready, status: 'False'}]\n";
        let found = lint(&read(&format!("{}\n```yaml\n{pod}```\n", saved.expect("a recording"))));
        let is_own =
            |message: &str| message == "endpoint fd00:244:0:2::b of default/six is pod six-1, which is not ready";
        assert!(found.iter().any(|one| is_own(&one.message)), "{found:?}");
    }
}
