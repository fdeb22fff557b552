//! Endpoints in short form.

use schemars::JsonSchema;
use serde::Deserialize;
use svclab_rules::cluster::Family;

/// Endpoints of one Service. Several entries for one Service are combined.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawEndpoints {
    /// The Service's name; NAMESPACE/NAME outside the default namespace.
    pub(crate) service: String,
    /// The family of the addresses. Default: the families of the Service.
    pub(crate) address_type: Option<RawAddressType>,
    /// Pods that serve it, each an endpoint with the pod's addresses and node.
    pub(crate) pods: Option<Vec<String>>,
    /// Addresses that serve it, each a separate endpoint.
    pub(crate) addresses: Option<Vec<String>>,
    /// Endpoints with individual fields, as in an EndpointSlice.
    pub(crate) endpoints: Option<Vec<RawEndpoint>>,
    /// The ports of the endpoints. Default: the Service's targetPorts.
    pub(crate) ports: Option<Vec<RawEndpointPort>>,
    /// Conditions of the pods and addresses of this entry.
    pub(crate) conditions: Option<RawConditions>,
    /// The node of the pods and addresses of this entry; `""` for none. Default: the pod's.
    pub(crate) node_name: Option<String>,
    /// The zone of the pods and addresses of this entry; `""` for none. Default: the zone label of the node.
    pub(crate) zone: Option<String>,
    /// Topology hints for the pods and addresses of this entry.
    pub(crate) hints: Option<RawHints>,
    /// In a step: true deletes all endpoints of the Service.
    pub(crate) delete: Option<bool>,
}

/// The `addressType` of an EndpointSlice.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
pub(crate) enum RawAddressType {
    /// IPv4 addresses.
    IPv4,
    /// IPv6 addresses.
    IPv6,
}

impl From<RawAddressType> for Family {
    fn from(written: RawAddressType) -> Self {
        match written {
            RawAddressType::IPv4 => Self::Ipv4,
            RawAddressType::IPv6 => Self::Ipv6,
        }
    }
}

/// One endpoint, as in an EndpointSlice.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawEndpoint {
    /// Its addresses; kube-proxy uses the first. Not needed with `pod`.
    pub(crate) addresses: Option<Vec<String>>,
    /// The pod behind the endpoint.
    pub(crate) pod: Option<String>,
    /// Its conditions.
    pub(crate) conditions: Option<RawConditions>,
    /// Its node; `""` for none, so that it is local to no node. Default: the pod's.
    pub(crate) node_name: Option<String>,
    /// Its zone; `""` for none. Default: the zone label of the node.
    pub(crate) zone: Option<String>,
    /// Topology hints.
    pub(crate) hints: Option<RawHints>,
}

/// A port of endpoints, for a port of the Service.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawEndpointPort {
    /// The name of the Service's port; omitted if that has none.
    pub(crate) name: Option<String>,
    /// TCP, UDP or SCTP. Default: TCP.
    #[schemars(extend("enum" = ["TCP", "UDP", "SCTP", null]))]
    pub(crate) protocol: Option<String>,
    /// The port on the endpoints.
    #[schemars(range(min = 1, max = 65535))]
    pub(crate) port: i32,
}

/// The conditions of an endpoint.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawConditions {
    /// Whether it gets traffic. Default: true, or false if it is terminating.
    pub(crate) ready: Option<bool>,
    /// Whether it can serve, even while it is terminating. Default: as ready.
    pub(crate) serving: Option<bool>,
    /// Whether it is shutting down. Default: false.
    pub(crate) terminating: Option<bool>,
}

/// The topology hints of an endpoint.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawHints {
    /// Zones whose clients should use it.
    pub(crate) for_zones: Option<Vec<RawNamed>>,
    /// Nodes whose clients should use it.
    pub(crate) for_nodes: Option<Vec<RawNamed>>,
}

/// A name.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawNamed {
    /// The name.
    pub(crate) name: String,
}
