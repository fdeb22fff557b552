//! Nodes, pods and hosts in short form.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

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
    /// Labels; `topology.kubernetes.io/zone` is used by topology hints.
    pub(crate) labels: Option<BTreeMap<String, String>>,
    /// The node name that this node's kube-proxy uses (`hostnameOverride` of a KubeProxyConfiguration). Default: the
    /// node's name.
    pub(crate) hostname_override: Option<String>,
    /// Kernel settings by dotted name, in addition to kube-proxy's.
    pub(crate) sysctls: Option<BTreeMap<String, Scalar>>,
    /// The program that writes this node's rules.
    #[serde(default)]
    pub(crate) proxy: RawNodeProxy,
}

/// The program that writes a node's rules.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawNodeProxy {
    /// The name of a program that the command line gives: `--kube-proxy NAME=PATH`. Without that option, svclab writes the rules.
    pub(crate) program: Option<String>,
}

/// A pod, or several of one kind.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawPod {
    /// The pod's name; with several, they are NAME-1 to NAME-N.
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
    /// The number of pods of this kind. Default: 1.
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) replicas: Option<u32>,
    /// Whether the pod is in its node's network namespace, with the node's addresses.
    pub(crate) host_network: Option<bool>,
    /// Labels, for selectors of Services.
    pub(crate) labels: Option<BTreeMap<String, String>>,
    /// Ports of its containers, for targetPort by name and for hostPort.
    pub(crate) ports: Option<Vec<RawPodPort>>,
    /// Whether it is ready, for the endpoints of Services. Default: true.
    pub(crate) ready: Option<bool>,
    /// Whether it is terminating, for the endpoints of Services. Default: false.
    pub(crate) terminating: Option<bool>,
    /// In a step: true deletes the pod.
    pub(crate) delete: Option<bool>,
}

/// A port of a container.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawPodPort {
    /// The name that a targetPort can refer to.
    pub(crate) name: Option<String>,
    /// The port inside the pod.
    #[schemars(range(min = 1, max = 65535))]
    pub(crate) container_port: i32,
    /// TCP, UDP or SCTP. Default: TCP.
    #[schemars(extend("enum" = ["TCP", "UDP", "SCTP", null]))]
    pub(crate) protocol: Option<String>,
    /// The port on the node that is forwarded to it.
    #[schemars(range(min = 1, max = 65535))]
    pub(crate) host_port: Option<i32>,
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
#[derive(Debug, Clone, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum Scalar {
    /// A number.
    Number(i64),
    /// A truth value.
    Bool(bool),
    /// Text.
    Text(String),
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyScalar;

        impl Visitor<'_> for AnyScalar {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer, a boolean or a quoted string")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar, E> {
                i64::try_from(number)
                    .map(Scalar::Number)
                    .map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar::Bool(value))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.to_owned()))
            }
        }

        deserializer.deserialize_any(AnyScalar)
    }
}
