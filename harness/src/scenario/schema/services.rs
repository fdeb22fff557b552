//! Services in short form.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

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
    /// Further addresses for which nodes accept traffic.
    #[serde(rename = "externalIPs")]
    pub(crate) external_ips: Option<Vec<String>>,
    /// For an ExternalName Service: the DNS name.
    pub(crate) external_name: Option<String>,
    /// Cluster, or Local for endpoints on the node that received the packet.
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
    /// The sources that may reach load-balancer addresses.
    pub(crate) load_balancer_source_ranges: Option<Vec<String>>,
    /// Short for status.loadBalancer.ingress: the load balancer's addresses.
    #[serde(rename = "loadBalancerIPs")]
    pub(crate) load_balancer_ips: Option<Vec<String>>,
    /// The field of the API that requests an address; it does not affect rules.
    #[serde(rename = "loadBalancerIP")]
    pub(crate) load_balancer_ip: Option<String>,
    /// The field of the API that selects an implementation; it does not affect rules.
    pub(crate) load_balancer_class: Option<String>,
    /// False for a load balancer that needs no node ports. Default: true.
    pub(crate) allocate_load_balancer_node_ports: Option<bool>,
    /// The port on every node for a load balancer's health checks. Default, with policy Local: the last free one of the range.
    pub(crate) health_check_node_port: Option<i32>,
    /// Whether pods that are not ready get traffic.
    pub(crate) publish_not_ready_addresses: Option<bool>,
    /// PreferClose, PreferSameZone or PreferSameNode.
    pub(crate) traffic_distribution: Option<String>,
    /// What the load balancer reported.
    pub(crate) status: Option<RawServiceStatus>,
    /// In a step: true deletes the Service.
    pub(crate) delete: Option<bool>,
}

/// A port of a Service.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawServicePort {
    /// The port's name; required if there are several ports.
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
    /// The port on every node. Default, if the type has node ports: the next free one of the range (from 30000 on).
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
    /// VIP, or Proxy if packets arrive with a node's address. Default: VIP.
    #[schemars(extend("enum" = ["VIP", "Proxy", null]))]
    pub(crate) ip_mode: Option<String>,
}

fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["integer", "string", "null"] })
}
