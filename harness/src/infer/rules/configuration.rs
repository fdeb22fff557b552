//! The settings of a KubeProxyConfiguration that a text shows alongside rules or objects: alone or in a ConfigMap.

use std::path::Path;

use ipnet::IpNet;
use serde_json::Value;
use svclab_rules::cluster::objects::{KubeProxyConfiguration, proxy_config};
use svclab_rules::cluster::{Cluster, ProxyConfig, ProxyMode};
use svclab_rules::profile::Profile;
use svclab_rules::profile::gates::gate_problem;

use crate::evidence::{Contents, Evidence};
use crate::text::{list, one_line};
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

/// Sets what the configuration in a text says of a cluster whose rules are not shown, with its mode. Returns it in words.
pub(in crate::infer) fn configure(cluster: &mut Cluster, configurations: &[Value]) -> Option<String> {
    let named = configurations.iter().find_map(|object| object["mode"].as_str().filter(|mode| !mode.is_empty()));
    let mode = ProxyMode::ALL.into_iter().find(|mode| named.is_some_and(|named| named == mode.as_str()));
    let has_nftables = cluster.proxy.version.parse::<Profile>().is_ok_and(Profile::nftables);
    let usable = mode.filter(|mode| *mode != ProxyMode::Nftables || has_nftables);
    let configuration = Configuration::of(configurations, usable.unwrap_or_default())?;
    cluster.proxy.mode = usable.unwrap_or_default();
    configuration.apply(&mut cluster.proxy);
    let proxy = &cluster.proxy;
    let of_mode = match (named, usable) {
        (Some(named), None) => {
            format!("mode {} (not emulated in {}: {} is assumed)", one_line(named), proxy.version, proxy.mode)
        }
        _ => format!("mode {}", proxy.mode),
    };
    let all = proxy.masquerade_all.then(|| "masqueradeAll".to_owned());
    let ranges = [("clusterCIDR", &proxy.cluster_cidrs), ("nodePortAddresses", &proxy.node_port_addresses)];
    let ranges = ranges.into_iter().filter(|(_, ranges)| !ranges.is_empty());
    let ranges = ranges.map(|(name, ranges)| format!("{name} {}", list(ranges, usize::MAX)));
    let words: Vec<String> = [of_mode].into_iter().chain(all).chain(ranges).collect();
    Some(format!("kube-proxy's configuration is the one in the text: {}", words.join(", ")))
}

/// The pod ranges of the cluster that the configuration in a text names.
pub(in crate::infer) fn configured_ranges(configurations: &[Value]) -> Vec<IpNet> {
    let configuration = Configuration::of(configurations, ProxyMode::default());
    configuration.map(|configuration| configuration.read.cluster_cidrs).unwrap_or_default()
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
