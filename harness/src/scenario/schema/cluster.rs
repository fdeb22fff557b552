//! The section `cluster:`.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{OneOrMany, Version};

/// The network of pods and kube-proxy's configuration.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawCluster {
    /// The range of all pods' addresses; a list of two for dual-stack. Default: 10.244.0.0/16.
    #[serde(rename = "podCIDR")]
    pub(crate) pod_cidr: OneOrMany<String>,
    /// The range of cluster IPs that are not given. Default: 10.96.0.0/12, and fd00:10:96::/112 for IPv6, or, if pods have
    /// these, 172.20.0.0/16 and fd00:172:20::/112. An empty list: the cluster has no ServiceCIDR, so in nftables mode nothing drops packets to
    /// addresses of no Service.
    #[serde(rename = "serviceCIDR")]
    pub(crate) service_cidr: OneOrMany<String>,
    /// The range of node ports, as in the API server's `--service-node-port-range`. Default: 30000-32767.
    pub(crate) service_node_port_range: Option<String>,
    /// How pods are connected with their node: `ptp` (kindnet, calico) or `bridge` (flannel, cni0). Default: ptp.
    pub(crate) cni: RawCni,
    /// How packets travel between pods on different nodes. Default: none.
    pub(crate) overlay: RawOverlay,
    /// kube-proxy's configuration: the fields of a KubeProxyConfiguration that affect rules.
    pub(crate) proxy: RawProxy,
}

/// How pods are connected with their node.
#[derive(Debug, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RawCni {
    /// Only the kind.
    Name(RawCniName),
    /// The kind with settings.
    Map(RawCniMap),
}

impl Default for RawCni {
    fn default() -> Self {
        Self::Name(RawCniName::Ptp)
    }
}

impl<'de> Deserialize<'de> for RawCni {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrMap;

        impl<'de> Visitor<'de> for NameOrMap {
            type Value = RawCni;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`ptp`, `bridge` or a map with `kind`")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<RawCni, E> {
                RawCniName::deserialize(StrDeserializer::new(name)).map(RawCni::Name)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawCni, A::Error> {
                RawCniMap::deserialize(MapAccessDeserializer::new(map)).map(RawCni::Map)
            }
        }

        deserializer.deserialize_any(NameOrMap)
    }
}

/// The kind of link between a pod and its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawCniName {
    /// A veth pair and a host route for each pod.
    Ptp,
    /// Ports of a bridge `cni0`.
    Bridge,
}

/// The kind of link between a pod and its node, with settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawCniMap {
    /// `ptp` or `bridge`.
    pub(crate) kind: RawCniName,
    /// With `bridge`: whether ports are in hairpin mode. Default: true.
    pub(crate) hairpin_mode: Option<bool>,
    /// With `bridge`: `net.bridge.bridge-nf-call-iptables` and its IPv6 counterpart. Default: true.
    pub(crate) bridge_nf_call_iptables: Option<bool>,
}

/// How packets travel between pods on different nodes.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawOverlay {
    /// By routes over the nodes' network.
    #[default]
    None,
    /// Inside VXLAN, as with flannel.
    Vxlan,
}

/// kube-proxy's configuration.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawProxy {
    /// `kubeproxy.config.k8s.io/v1alpha1`, if a whole KubeProxyConfiguration is pasted.
    #[schemars(extend("enum" = ["kubeproxy.config.k8s.io/v1alpha1"]))]
    pub(crate) api_version: Option<String>,
    /// `KubeProxyConfiguration`.
    #[schemars(extend("enum" = ["KubeProxyConfiguration"]))]
    pub(crate) kind: Option<String>,
    /// `iptables` or `nftables`. Default: iptables.
    #[schemars(extend("enum" = ["iptables", "nftables"]))]
    pub(crate) mode: Option<String>,
    /// The release whose rules are generated. With the prefix `>=`, a kube-proxy under test may also be newer; without this field, it may
    /// have any release. Default: "1.30".
    #[schemars(extend("pattern" = r"^(>= ?)?v?1\.[0-9]+(\.[0-9]+)?([-+][0-9A-Za-z.+-]+)?$"))]
    pub(crate) version: Option<Version>,
    /// How packets of local pods are detected. Default: ClusterCIDR.
    #[schemars(extend("enum" = ["ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"]))]
    pub(crate) detect_local_mode: Option<String>,
    /// The arguments of detectLocalMode.
    pub(crate) detect_local: RawDetectLocal,
    /// The range of local pods for detectLocalMode ClusterCIDR. Default: the cluster's podCIDR; "" for none.
    #[serde(rename = "clusterCIDR")]
    pub(crate) cluster_cidr: Option<String>,
    /// Settings of the iptables mode.
    pub(crate) iptables: RawIptables,
    /// Settings of the nftables mode.
    pub(crate) nftables: RawNftables,
    /// Short for iptables.masqueradeAll.
    pub(crate) masquerade_all: Option<bool>,
    /// Short for iptables.masqueradeBit.
    #[schemars(range(min = 0, max = 31))]
    pub(crate) masquerade_bit: Option<u8>,
    /// Short for iptables.localhostNodePorts.
    pub(crate) localhost_node_ports: Option<bool>,
    /// Ranges of node addresses that serve node ports; `primary` for each node's first address. Default: all in iptables
    /// mode, `primary` in nftables mode.
    pub(crate) node_port_addresses: Option<Vec<String>>,
    /// Settings of conntrack.
    pub(crate) conntrack: RawConntrack,
    /// Feature gates.
    pub(crate) feature_gates: BTreeMap<String, bool>,
}

/// The arguments of detectLocalMode.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawDetectLocal {
    /// The bridge that is the input interface of local pods' packets.
    pub(crate) bridge_interface: Option<String>,
    /// The name prefix of local pods' interfaces.
    pub(crate) interface_name_prefix: Option<String>,
}

/// Settings of the iptables mode.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawIptables {
    /// Masquerade all traffic to cluster IPs. Default: false.
    pub(crate) masquerade_all: Option<bool>,
    /// The bit of the packet mark for masquerading, 0 to 31. Default: 14.
    #[schemars(range(min = 0, max = 31))]
    pub(crate) masquerade_bit: Option<u8>,
    /// Whether node ports are served on 127.0.0.1. Default: true.
    pub(crate) localhost_node_ports: Option<bool>,
}

/// Settings of the nftables mode.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawNftables {
    /// Masquerade all traffic to cluster IPs. Default: false.
    pub(crate) masquerade_all: Option<bool>,
    /// The bit of the packet mark for masquerading, 0 to 31. Default: 14.
    #[schemars(range(min = 0, max = 31))]
    pub(crate) masquerade_bit: Option<u8>,
}

/// Settings of conntrack.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawConntrack {
    /// Whether packets outside the TCP window are accepted; then no rule drops INVALID packets. Default: false.
    pub(crate) tcp_be_liberal: Option<bool>,
    /// The conntrack cleanup after a change of objects: true for that of `version`, another release in quotes, or false for none, as if
    /// kube-proxy up to 1.31 did not find the `conntrack` program. Not a field of KubeProxyConfiguration. Default: true.
    pub(crate) cleanup: Option<RawCleanup>,
}

/// The conntrack cleanup after a change of objects.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RawCleanup {
    /// Whether there is a cleanup.
    Any(bool),
    /// The cleanup of a release.
    Of(Version),
}

impl<'de> Deserialize<'de> for RawCleanup {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BoolOrRelease;

        impl Visitor<'_> for BoolOrRelease {
            type Value = RawCleanup;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true`, `false` or a release in quotes, for example \"1.31\"")
            }

            fn visit_bool<E: Error>(self, any: bool) -> Result<RawCleanup, E> {
                Ok(RawCleanup::Any(any))
            }

            fn visit_str<E: Error>(self, release: &str) -> Result<RawCleanup, E> {
                Ok(RawCleanup::Of(Version(release.to_owned())))
            }
        }

        deserializer.deserialize_any(BoolOrRelease)
    }
}
