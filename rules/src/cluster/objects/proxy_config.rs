//! kube-proxy's configuration file.

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde::Deserialize;

use super::super::{ConntrackCleanup, DetectLocal, Family, ProxyConfig, ProxyMode};
use super::checker::{Checker, FieldError};

/// The fields of a `KubeProxyConfiguration` (`kubeproxy.config.k8s.io/v1alpha1`) that affect rules. Other fields are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are the API's own")]
pub struct KubeProxyConfiguration {
    pub mode: Option<String>,
    #[serde(rename = "clusterCIDR")]
    pub cluster_cidr: Option<String>,
    pub detect_local_mode: Option<String>,
    pub detect_local: DetectLocalConfiguration,
    pub iptables: MasqueradeConfiguration,
    pub nftables: MasqueradeConfiguration,
    pub node_port_addresses: Option<Vec<String>>,
    pub conntrack: ConntrackConfiguration,
    pub feature_gates: Option<BTreeMap<String, bool>>,
}

/// `detectLocal`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are the API's own")]
pub struct DetectLocalConfiguration {
    pub bridge_interface: Option<String>,
    pub interface_name_prefix: Option<String>,
}

/// `iptables` and `nftables`; `localhostNodePorts` exists only in `iptables`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are the API's own")]
pub struct MasqueradeConfiguration {
    pub masquerade_all: Option<bool>,
    pub masquerade_bit: Option<i32>,
    pub localhost_node_ports: Option<bool>,
}

/// `conntrack`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are the API's own")]
pub struct ConntrackConfiguration {
    pub tcp_be_liberal: Option<bool>,
}

/// Reads the settings of a configuration file, for a release such as `1.30`.
///
/// # Errors
///
/// Every field that kube-proxy would reject (`pkg/proxy/apis/config/validation`), and the modes that are not
/// modelled here.
pub fn proxy_config(raw: &KubeProxyConfiguration, version: &str) -> Result<ProxyConfig, Vec<FieldError>> {
    let mut checker = Checker::new("KubeProxyConfiguration", version);
    let modes = ProxyMode::ALL.map(|mode| (mode.as_str(), mode));
    let mode = checker.choice("mode", raw.mode.as_deref(), &modes);
    let masquerade = match mode {
        ProxyMode::Iptables => &raw.iptables,
        ProxyMode::Nftables => &raw.nftables,
    };
    let (node_port_addresses, primary_node_ports) = node_port_addresses(&mut checker, raw);
    let config = ProxyConfig {
        mode,
        version: version.to_owned(),
        cluster_cidrs: cluster_cidrs(&mut checker, raw),
        detect_local: detect_local(&mut checker, raw),
        masquerade_all: masquerade.masquerade_all.unwrap_or_default(),
        masquerade_bit: masquerade_bit(&mut checker, mode.as_str(), masquerade),
        localhost_node_ports: raw.iptables.localhost_node_ports.unwrap_or(true),
        node_port_addresses,
        primary_node_ports,
        tcp_be_liberal: raw.conntrack.tcp_be_liberal.unwrap_or_default(),
        conntrack_cleanup: ConntrackCleanup::SameAsVersion,
        feature_gates: raw.feature_gates.clone().unwrap_or_default(),
        nfacct: false,
    };
    checker.finish(config)
}

fn cluster_cidrs(checker: &mut Checker, raw: &KubeProxyConfiguration) -> Vec<IpNet> {
    let text = raw.cluster_cidr.as_deref().unwrap_or_default();
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let ranges: Vec<IpNet> = parts.filter_map(|part| checker.range("clusterCIDR", part)).collect();
    let families: Vec<_> = ranges.iter().map(|range| Family::of(range.addr())).collect();
    checker.one_of_each_family("clusterCIDR", &families);
    ranges
}

fn detect_local(checker: &mut Checker, raw: &KubeProxyConfiguration) -> DetectLocal {
    #[derive(Clone, Copy)]
    enum By {
        Cluster,
        Node,
        Bridge,
        Prefix,
    }
    let modes = [
        ("ClusterCIDR", By::Cluster),
        ("NodeCIDR", By::Node),
        ("BridgeInterface", By::Bridge),
        ("InterfaceNamePrefix", By::Prefix),
    ];
    let detect = &raw.detect_local;
    match checker.choice("detectLocalMode", raw.detect_local_mode.as_deref(), &modes) {
        By::Cluster => DetectLocal::ClusterCidr,
        By::Node => DetectLocal::NodeCidr,
        By::Bridge => {
            DetectLocal::BridgeInterface(interface(checker, "bridgeInterface", detect.bridge_interface.as_deref()))
        }
        By::Prefix => {
            let given = detect.interface_name_prefix.as_deref();
            DetectLocal::InterfaceNamePrefix(interface(checker, "interfaceNamePrefix", given))
        }
    }
}

/// Parses the name of an interface, at most 15 characters.
fn interface(checker: &mut Checker, field: &str, given: Option<&str>) -> String {
    let name = given.unwrap_or_default();
    if name.is_empty() || name.len() > 15 || name.contains(char::is_whitespace) {
        let help = "Give 1 to 15 characters without blanks.";
        checker.reject(format!("detectLocal.{field}"), format!("`{name}` is not an interface name"), help);
    }
    name.to_owned()
}

fn masquerade_bit(checker: &mut Checker, field: &str, given: &MasqueradeConfiguration) -> u8 {
    let bit = given.masquerade_bit.unwrap_or(14);
    let found = u8::try_from(bit).ok().filter(|bit| *bit <= 31);
    found.unwrap_or_else(|| {
        checker.reject(
            format!("{field}.masqueradeBit"),
            format!("bit {bit} is out of range"),
            "Give a bit from 0 to 31.",
        );
        14
    })
}

/// Returns the ranges, and whether they are given as `primary`.
fn node_port_addresses(checker: &mut Checker, raw: &KubeProxyConfiguration) -> (Vec<IpNet>, bool) {
    let listed = raw.node_port_addresses.as_deref().unwrap_or_default();
    if listed == ["primary"] {
        return (Vec::new(), true);
    }
    let path = |index| format!("nodePortAddresses[{index}]");
    let ranges = listed.iter().enumerate().filter_map(|(index, text)| checker.range(path(index), text)).collect();
    (ranges, false)
}
