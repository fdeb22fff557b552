//! Listeners on nodes.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use svclab_rules::cluster::{Cluster, Node, ObjectName, Pod, Protocol};

use crate::scenario::model::pod_label;

/// Returns the ports with a listener on a node's address, and their owners: the pod with the port, otherwise any pod with `hostNetwork`
/// there; `None` for the node itself, if an endpoint has its address.
pub(crate) fn served_at(cluster: &Cluster, ip: IpAddr) -> BTreeMap<(Protocol, u16), Option<ObjectName>> {
    let pods: Vec<&Pod> = cluster.pods.iter().filter(|pod| pod.host_network && pod.ips.contains(&ip)).collect();
    let anybody = pods.first().map(|pod| pod.name.clone());
    let mut served = BTreeMap::new();
    for slice in &cluster.slices {
        for endpoint in slice.endpoints.iter().filter(|endpoint| endpoint.addresses.contains(&ip)) {
            let owner = endpoint.pod.clone().or_else(|| anybody.clone());
            let ports = slice.ports.iter().filter_map(|port| Some((port.protocol, port.port?)));
            served.extend(ports.map(|port| (port, owner.clone())));
        }
    }
    for pod in pods {
        served.extend(pod.ports.iter().map(|port| ((port.protocol, port.port), Some(pod.name.clone()))));
    }
    served
}

/// Returns all listeners on a node's addresses with their owners, as a scenario names them.
pub(crate) fn served_on(cluster: &Cluster, node: &Node) -> Vec<(Protocol, SocketAddr, String)> {
    let at = |ip| {
        served_at(cluster, ip).into_iter().map(move |((protocol, port), pod)| {
            let owner = pod.map_or_else(|| format!("node/{}", node.name), |pod| pod_label(&pod));
            (protocol, SocketAddr::new(ip, port), owner)
        })
    };
    node.addresses().flat_map(at).collect()
}
