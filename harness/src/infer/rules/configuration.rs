//! The settings of a KubeProxyConfiguration that a text shows alongside rules: alone or in a ConfigMap.

use std::path::Path;

use serde_json::Value;
use svclab_rules::cluster::objects::{KubeProxyConfiguration, proxy_config};
use svclab_rules::cluster::{ProxyConfig, ProxyMode};
use svclab_rules::profile::Profile;
use svclab_rules::profile::gates::gate_problem;

use crate::evidence::{Contents, Evidence};
use crate::yaml;

/// A configuration, as written and as read.
pub(super) struct Configuration {
    written: KubeProxyConfiguration,
    read: ProxyConfig,
}

impl Configuration {
    /// The first configuration that kube-proxy would accept.
    pub(super) fn of(all: &[Value], mode: ProxyMode) -> Option<Self> {
        let newest = Profile::all().next_back()?.to_string();
        all.iter().find_map(|object| {
            let written: KubeProxyConfiguration = serde_json::from_value(object.clone()).ok()?;
            let written = KubeProxyConfiguration { mode: Some(mode.to_string()), ..written };
            let read = proxy_config(&written, &newest).ok()?;
            Some(Self { written, read })
        })
    }

    /// Sets what it says. Fields that are missing or empty may be set by a flag, or by what rules show.
    pub(super) fn apply(&self, proxy: &mut ProxyConfig) {
        let Self { written, read } = self;
        let says = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
        if says(&written.cluster_cidr) {
            proxy.cluster_cidrs.clone_from(&read.cluster_cidrs);
        }
        if says(&written.detect_local_mode) {
            proxy.detect_local.clone_from(&read.detect_local);
        }
        let masquerade = match read.mode {
            ProxyMode::Iptables => &written.iptables,
            ProxyMode::Nftables => &written.nftables,
        };
        if masquerade.masquerade_all.is_some() {
            proxy.masquerade_all = read.masquerade_all;
        }
        if masquerade.masquerade_bit.is_some() {
            proxy.masquerade_bit = read.masquerade_bit;
        }
        if written.iptables.localhost_node_ports.is_some() {
            proxy.localhost_node_ports = read.localhost_node_ports;
        }
        if written.node_port_addresses.as_ref().is_some_and(|all| !all.is_empty()) {
            proxy.node_port_addresses.clone_from(&read.node_port_addresses);
            proxy.primary_node_ports = read.primary_node_ports;
        }
        if written.conntrack.tcp_be_liberal.is_some() {
            proxy.tcp_be_liberal = read.tcp_be_liberal;
        }
        let Ok(profile) = proxy.version.parse::<Profile>() else { return };
        let has_effect = |(name, on): &(&String, &bool)| gate_problem(name, **on, profile).is_none();
        let gates = read.feature_gates.iter().filter(has_effect);
        proxy.feature_gates.extend(gates.map(|(name, on)| (name.clone(), *on)));
    }
}

/// The configurations in evidence.
pub(in crate::infer) fn configurations(evidence: &Evidence) -> Vec<Value> {
    let objects = evidence.pieces.iter().flat_map(|piece| match &piece.contents {
        Contents::Objects(objects) => objects.as_slice(),
        _ => &[],
    });
    objects.filter_map(configuration).collect()
}

/// The configuration that an object is or contains.
fn configuration(object: &Value) -> Option<Value> {
    match object["kind"].as_str()? {
        "KubeProxyConfiguration" => Some(object.clone()),
        "ConfigMap" => {
            let text = object["data"]["config.conf"].as_str()?;
            let path = Path::new("config.conf");
            let (trees, _) = yaml::parse(text, path);
            trees.iter().find_map(|tree| {
                yaml::decode::<Value>(path, tree).value.filter(|value| value["kind"] == "KubeProxyConfiguration")
            })
        }
        _ => None,
    }
}
