//! Printing of kube-proxy's configuration.

use svclab_rules::cluster::{ConntrackCleanup, DetectLocal, ProxyConfig};

use super::{field, words};
use crate::scenario::model::Releases;
use crate::yaml::Fields;

/// Writes kube-proxy's configuration, without defaults except those that an author looks for.
pub(super) fn proxy(proxy: &ProxyConfig, releases: Releases) -> Fields {
    let defaults = ProxyConfig::default();
    let mode = proxy.mode.as_str();
    let or_newer = if releases == Releases::From { ">=" } else { "" };
    let mut fields = vec![field("mode", mode), field("version", format!("{or_newer}{}", proxy.version))];
    match &proxy.detect_local {
        DetectLocal::ClusterCidr => {}
        DetectLocal::NodeCidr => fields.push(field("detectLocalMode", "NodeCIDR")),
        DetectLocal::BridgeInterface(name) => {
            fields.push(field("detectLocalMode", "BridgeInterface"));
            fields.push(field("detectLocal", vec![field("bridgeInterface", name.as_str())]));
        }
        DetectLocal::InterfaceNamePrefix(prefix) => {
            fields.push(field("detectLocalMode", "InterfaceNamePrefix"));
            fields.push(field("detectLocal", vec![field("interfaceNamePrefix", prefix.as_str())]));
        }
    }
    fields.push(field("clusterCIDR", words(&proxy.cluster_cidrs).join(",")));
    let mut masquerade = Fields::new();
    if proxy.masquerade_all {
        masquerade.push(field("masqueradeAll", true));
    }
    if proxy.masquerade_bit != defaults.masquerade_bit {
        masquerade.push(field("masqueradeBit", u16::from(proxy.masquerade_bit)));
    }
    if !masquerade.is_empty() {
        fields.push(field(mode, masquerade));
    }
    if !proxy.localhost_node_ports {
        fields.push(field("localhostNodePorts", false));
    }
    if proxy.primary_node_ports {
        fields.push(field("nodePortAddresses", vec!["primary"]));
    } else if !proxy.node_port_addresses.is_empty() {
        fields.push(field("nodePortAddresses", words(&proxy.node_port_addresses)));
    }
    let mut conntrack = Fields::new();
    if proxy.tcp_be_liberal {
        conntrack.push(field("tcpBeLiberal", true));
    }
    match &proxy.conntrack_cleanup {
        ConntrackCleanup::SameAsVersion => {}
        ConntrackCleanup::Off => conntrack.push(field("cleanup", false)),
        ConntrackCleanup::Of(release) => conntrack.push(field("cleanup", release.as_str())),
    }
    if !conntrack.is_empty() {
        fields.push(field("conntrack", conntrack));
    }
    if !proxy.feature_gates.is_empty() {
        let gates: Fields = proxy.feature_gates.iter().map(|(name, on)| field(name, *on)).collect();
        fields.push(field("featureGates", gates));
    }
    fields
}
