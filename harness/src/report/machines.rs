//! The machines and services of a scenario, for diagrams.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svclab_rules::cluster::{Cluster, Pod, Service};

use crate::scenario::{Scenario, pod_label, short_name};

/// The maximum length of each list: a larger diagram would not be readable.
const MAX: usize = 12;

/// The machines and services at the start of a scenario, at most twelve of each kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Machines {
    /// Machines outside of the cluster.
    pub(crate) hosts: Vec<Machine>,
    /// The nodes.
    pub(crate) nodes: Vec<NodeMachine>,
    /// The number of all nodes.
    pub(crate) all_nodes: usize,
    /// The services.
    pub(crate) services: Vec<ServiceAddresses>,
    /// The number of all services.
    pub(crate) all_services: usize,
}

/// A machine with its own network stack.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Machine {
    /// The name: `pod/nginx`, `host/laptop`.
    pub(crate) name: String,
    /// The addresses.
    pub(crate) addresses: Vec<IpAddr>,
}

/// A node and its pods.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeMachine {
    /// The name: `node/worker`.
    pub(crate) name: String,
    /// The addresses.
    pub(crate) addresses: Vec<IpAddr>,
    /// The pods.
    pub(crate) pods: Vec<Machine>,
    /// The number of all pods.
    pub(crate) all_pods: usize,
}

/// A service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ServiceAddresses {
    /// The name: `service/nginx`.
    pub(crate) name: String,
    /// The addresses: cluster IPs, external IPs, load balancers.
    pub(crate) addresses: Vec<IpAddr>,
    /// The ports: `80/tcp`, `80/tcp node port 30080`.
    pub(crate) ports: Vec<String>,
    /// The endpoints' addresses.
    pub(crate) endpoints: Vec<IpAddr>,
}

impl Machines {
    /// The machines at the start of a scenario.
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let cluster = &scenario.cluster;
        let host =
            |host: &crate::scenario::Host| Machine { name: format!("host/{}", host.name), addresses: host.ips.clone() };
        Self {
            hosts: scenario.hosts.iter().take(MAX).map(host).collect(),
            nodes: cluster.nodes.iter().take(MAX).map(|node| NodeMachine::of(cluster, node)).collect(),
            all_nodes: cluster.nodes.len(),
            services: cluster.services.iter().take(MAX).map(|service| ServiceAddresses::of(cluster, service)).collect(),
            all_services: cluster.services.len(),
        }
    }
}

impl NodeMachine {
    fn of(cluster: &Cluster, node: &svclab_rules::cluster::Node) -> Self {
        let pods = || cluster.pods.iter().filter(|pod| pod.node == node.name);
        let machine = |pod: &Pod| Machine { name: pod_label(&pod.name), addresses: pod.ips.clone() };
        Self {
            name: format!("node/{}", node.name),
            addresses: node.addresses().collect(),
            pods: pods().take(MAX).map(machine).collect(),
            all_pods: pods().count(),
        }
    }
}

impl ServiceAddresses {
    fn of(cluster: &Cluster, service: &Service) -> Self {
        let load_balancers = service.load_balancer.iter().map(|ingress| ingress.ip);
        let endpoints = cluster.slices_of(&service.name).flat_map(|slice| &slice.endpoints);
        let ports = service.ports.iter().map(|port| {
            let node_port = port.node_port.map(|port| format!(" node port {port}")).unwrap_or_default();
            format!("{}/{}{node_port}", port.port, port.protocol)
        });
        Self {
            name: format!("service/{}", short_name(&service.name)),
            addresses: service.cluster_ips.iter().chain(&service.external_ips).copied().chain(load_balancers).collect(),
            ports: ports.take(MAX).collect(),
            endpoints: endpoints.filter_map(|endpoint| endpoint.addresses.first()).copied().take(MAX).collect(),
        }
    }
}
