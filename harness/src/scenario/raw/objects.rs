//! Nodes, pods, Services, endpoints and hosts in short form.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::OneOrMany;

/// A machine of the cluster.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawNode {
    /// The node's name.
    pub(crate) name: String,
    /// Its InternalIP. Default: the next free one from 172.18.0.2 on (fd00:172:18::2 for IPv6).
    pub(crate) ip: Option<OneOrMany<String>>,
    /// Its InternalIPs, the primary one first.
    pub(crate) ips: Option<OneOrMany<String>>,
    /// Its ExternalIP.
    #[serde(rename = "externalIP")]
    pub(crate) external_ip: Option<OneOrMany<String>>,
    /// Its ExternalIPs.
    #[serde(rename = "externalIPs")]
    pub(crate) external_ips: Option<OneOrMany<String>>,
    /// The range of its pods' addresses. Default: the next free /24 (IPv6: /64) of the cluster's podCIDR.
    #[serde(rename = "podCIDR")]
    pub(crate) pod_cidr: Option<OneOrMany<String>>,
    /// The same, for dual-stack.
    #[serde(rename = "podCIDRs")]
    pub(crate) pod_cidrs: Option<OneOrMany<String>>,
    /// Labels; `topology.kubernetes.io/zone` decides on topology hints.
    pub(crate) labels: Option<BTreeMap<String, String>>,
    /// Kernel settings by dotted name, on top of those that kube-proxy makes.
    pub(crate) sysctls: Option<BTreeMap<String, Scalar>>,
}

/// A pod, or several of one kind.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawPod {
    /// The pod's name; of several, NAME-1 to NAME-N.
    pub(crate) name: String,
    /// Its namespace. Default: default.
    pub(crate) namespace: Option<String>,
    /// The node that it runs on.
    pub(crate) node: Option<String>,
    /// The nodes that replicas are spread over, in turn. Default: all nodes.
    pub(crate) nodes: Option<Vec<String>>,
    /// Its address. Default: the next free one of the node's podCIDR, from .2 on.
    pub(crate) ip: Option<OneOrMany<String>>,
    /// Its addresses, at most one of each family.
    pub(crate) ips: Option<OneOrMany<String>>,
    /// How many pods of this kind there are. Default: 1.
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) replicas: Option<u32>,
    /// True for a pod without a network of its own: it has its node's addresses.
    pub(crate) host_network: Option<bool>,
    /// Labels, for selectors of Services.
    pub(crate) labels: Option<BTreeMap<String, String>>,
    /// Ports of its containers, for targetPort by name and for hostPort.
    pub(crate) ports: Option<Vec<RawPodPort>>,
    /// Whether it is ready, for the endpoints of Services. Default: true.
    pub(crate) ready: Option<bool>,
    /// Whether it is being taken down, for the endpoints of Services. Default: false.
    pub(crate) terminating: Option<bool>,
    /// In a step: true takes the pod away.
    pub(crate) delete: Option<bool>,
}

/// A port of a container.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawPodPort {
    /// The name that a targetPort can refer to.
    pub(crate) name: Option<String>,
    /// The port inside of the pod.
    #[schemars(range(min = 1, max = 65535))]
    pub(crate) container_port: i32,
    /// TCP, UDP or SCTP. Default: TCP.
    #[schemars(extend("enum" = ["TCP", "UDP", "SCTP", null]))]
    pub(crate) protocol: Option<String>,
    /// The port on the node that leads here.
    #[schemars(range(min = 1, max = 65535))]
    pub(crate) host_port: Option<i32>,
}

/// A Service: its name, and the fields of a ServiceSpec.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawService {
    /// The Service's name, a DNS label.
    pub(crate) name: String,
    /// Its namespace. Default: default.
    pub(crate) namespace: Option<String>,
    /// Labels.
    pub(crate) labels: Option<BTreeMap<String, String>>,
    /// Annotations.
    pub(crate) annotations: Option<BTreeMap<String, String>>,
    /// ClusterIP, NodePort, LoadBalancer or ExternalName. Default: ClusterIP.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName", null]))]
    pub(crate) kind: Option<String>,
    /// The cluster IP, or None for a headless Service. Default: the next free one from 10.96.0.10 on.
    #[serde(rename = "clusterIP")]
    pub(crate) cluster_ip: Option<String>,
    /// The cluster IPs, for dual-stack.
    #[serde(rename = "clusterIPs")]
    pub(crate) cluster_ips: Option<Vec<String>>,
    /// IPv4, IPv6 or both, the primary one first. Default: the cluster's first family.
    pub(crate) ip_families: Option<Vec<String>>,
    /// SingleStack, PreferDualStack or RequireDualStack. Default: SingleStack.
    #[schemars(extend("enum" = ["SingleStack", "PreferDualStack", "RequireDualStack", null]))]
    pub(crate) ip_family_policy: Option<String>,
    /// The ports.
    pub(crate) ports: Option<Vec<RawServicePort>>,
    /// The labels of the pods that serve it.
    pub(crate) selector: Option<BTreeMap<String, String>>,
    /// Further addresses that nodes take packets for.
    #[serde(rename = "externalIPs")]
    pub(crate) external_ips: Option<Vec<String>>,
    /// Of an ExternalName Service: the DNS name.
    pub(crate) external_name: Option<String>,
    /// Cluster, or Local for endpoints on the node that the packet came to.
    #[schemars(extend("enum" = ["Cluster", "Local", null]))]
    pub(crate) external_traffic_policy: Option<String>,
    /// Cluster, or Local for endpoints on the client's node.
    #[schemars(extend("enum" = ["Cluster", "Local", null]))]
    pub(crate) internal_traffic_policy: Option<String>,
    /// None, or ClientIP to keep a client with its endpoint.
    #[schemars(extend("enum" = ["None", "ClientIP", null]))]
    pub(crate) session_affinity: Option<String>,
    /// Settings of the affinity.
    pub(crate) session_affinity_config: Option<RawAffinityConfig>,
    /// The sources that load-balancer addresses may be reached from.
    pub(crate) load_balancer_source_ranges: Option<Vec<String>>,
    /// Short for status.loadBalancer.ingress: the load balancer's addresses.
    #[serde(rename = "loadBalancerIPs")]
    pub(crate) load_balancer_ips: Option<Vec<String>>,
    /// The field of the API that asks for an address; it changes no rule.
    #[serde(rename = "loadBalancerIP")]
    pub(crate) load_balancer_ip: Option<String>,
    /// The field of the API that picks an implementation; it changes no rule.
    pub(crate) load_balancer_class: Option<String>,
    /// False for a load balancer that needs no node ports. Default: true.
    pub(crate) allocate_load_balancer_node_ports: Option<bool>,
    /// The port on every node that answers a load balancer's health checks.
    pub(crate) health_check_node_port: Option<i32>,
    /// Whether pods that are not ready get traffic.
    pub(crate) publish_not_ready_addresses: Option<bool>,
    /// PreferClose, PreferSameZone or PreferSameNode.
    pub(crate) traffic_distribution: Option<String>,
    /// What the load balancer reported.
    pub(crate) status: Option<RawServiceStatus>,
    /// In a step: true takes the Service away.
    pub(crate) delete: Option<bool>,
}

/// A port of a Service.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawServicePort {
    /// The port's name; needed where there are several ports.
    pub(crate) name: Option<String>,
    /// TCP, UDP or SCTP. Default: TCP.
    #[schemars(extend("enum" = ["TCP", "UDP", "SCTP", null]))]
    pub(crate) protocol: Option<String>,
    /// A hint that kube-proxy ignores.
    pub(crate) app_protocol: Option<String>,
    /// The port on the Service's addresses.
    #[schemars(range(min = 1, max = 65535))]
    pub(crate) port: i32,
    /// The port of the pods, by number or by name. Default: the port.
    #[serde(default)]
    #[schemars(schema_with = "int_or_string")]
    pub(crate) target_port: Option<IntOrString>,
    /// The port on every node. Default, where the type has node ports: the next free one from 30000 on.
    pub(crate) node_port: Option<i32>,
}

/// Settings of the affinity.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawAffinityConfig {
    /// Settings of ClientIP.
    #[serde(rename = "clientIP")]
    pub(crate) client_ip: Option<RawClientIp>,
}

/// Settings of ClientIP affinity.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawClientIp {
    /// How long a client stays with its endpoint, in seconds: 1 to 86400. Default: 10800.
    #[schemars(range(min = 1, max = 86400))]
    pub(crate) timeout_seconds: Option<i32>,
}

/// What the load balancer reported.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawServiceStatus {
    /// The load balancer.
    pub(crate) load_balancer: Option<RawLoadBalancerStatus>,
}

/// The load balancer.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawLoadBalancerStatus {
    /// Its addresses.
    pub(crate) ingress: Option<Vec<RawIngress>>,
}

/// An address of a load balancer.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawIngress {
    /// The address.
    pub(crate) ip: Option<String>,
    /// A DNS name instead of an address; kube-proxy ignores it.
    pub(crate) hostname: Option<String>,
    /// VIP, or Proxy where packets come with a node's address. Default: VIP.
    #[schemars(extend("enum" = ["VIP", "Proxy", null]))]
    pub(crate) ip_mode: Option<String>,
}

/// Endpoints of one Service. Several entries for one Service add up.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawEndpoints {
    /// The Service's name; NAMESPACE/NAME outside of the default namespace.
    pub(crate) service: String,
    /// Pods that serve it, each an endpoint with the pod's addresses and node.
    pub(crate) pods: Option<Vec<String>>,
    /// Addresses that serve it, each an endpoint of its own.
    pub(crate) addresses: Option<Vec<String>>,
    /// Endpoints with fields of their own, as in an EndpointSlice.
    pub(crate) endpoints: Option<Vec<RawEndpoint>>,
    /// The ports of the endpoints. Default: the Service's targetPorts.
    pub(crate) ports: Option<Vec<RawEndpointPort>>,
    /// Conditions of the pods and addresses of this entry.
    pub(crate) conditions: Option<RawConditions>,
    /// The node of the pods and addresses of this entry. Default: the pod's.
    pub(crate) node_name: Option<String>,
    /// The zone of the pods and addresses of this entry. Default: the zone label of the node.
    pub(crate) zone: Option<String>,
    /// Topology hints for the pods and addresses of this entry.
    pub(crate) hints: Option<RawHints>,
    /// In a step: true takes all endpoints of the Service away.
    pub(crate) delete: Option<bool>,
}

/// One endpoint, as in an EndpointSlice.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawEndpoint {
    /// Its addresses; kube-proxy uses the first. Not needed with `pod`.
    pub(crate) addresses: Option<Vec<String>>,
    /// The pod that it is.
    pub(crate) pod: Option<String>,
    /// Its conditions.
    pub(crate) conditions: Option<RawConditions>,
    /// The node that it is on. Default: the pod's.
    pub(crate) node_name: Option<String>,
    /// The zone that it is in. Default: the zone label of the node.
    pub(crate) zone: Option<String>,
    /// Topology hints.
    pub(crate) hints: Option<RawHints>,
}

/// The port of endpoints that belongs to a port of the Service.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawEndpointPort {
    /// The name of the Service's port; none where that has none.
    pub(crate) name: Option<String>,
    /// TCP, UDP or SCTP. Default: TCP.
    #[schemars(extend("enum" = ["TCP", "UDP", "SCTP", null]))]
    pub(crate) protocol: Option<String>,
    /// The port on the endpoints.
    #[schemars(range(min = 1, max = 65535))]
    pub(crate) port: i32,
}

/// What state an endpoint is in.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawConditions {
    /// Whether it gets traffic. Default: true, or false where it is terminating.
    pub(crate) ready: Option<bool>,
    /// Whether it can answer, even while it is terminating. Default: as ready.
    pub(crate) serving: Option<bool>,
    /// Whether it is being taken down. Default: false.
    pub(crate) terminating: Option<bool>,
}

/// Who should use an endpoint.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawHints {
    /// Zones whose clients should.
    pub(crate) for_zones: Option<Vec<RawNamed>>,
    /// Nodes whose clients should.
    pub(crate) for_nodes: Option<Vec<RawNamed>>,
}

/// A name.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawNamed {
    /// The name.
    pub(crate) name: String,
}

/// A machine that does not belong to the cluster.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawHost {
    /// Its name.
    pub(crate) name: String,
    /// Its address. Default: the next free one from 203.0.113.10 on (2001:db8:113::10 for IPv6).
    pub(crate) ip: Option<OneOrMany<String>>,
    /// Its addresses, at most one of each family.
    pub(crate) ips: Option<OneOrMany<String>>,
}

/// A number, truth value or text.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Scalar {
    /// A number.
    Number(i64),
    /// A truth value.
    Bool(bool),
    /// Text.
    Text(String),
}

fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["integer", "string", "null"] })
}
