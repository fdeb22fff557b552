//! The configuration files of a node's proxy.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::{Value, json};
use svclab_rules::cluster::{DetectLocal, Node, ProxyConfig, ProxyMode};
use svclab_rules::profile::Profile;

/// The address that the API server listens on in the namespace of each node.
pub(super) const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6443);
/// The addresses that a kube-proxy serves `/healthz` and `/metrics` on: its default ports, on its node's loopback address.
pub(super) const HEALTH: &str = "127.0.0.1:10256";
pub(super) const METRICS: &str = "127.0.0.1:10249";

/// The minimum time between two syncs of a kube-proxy. The default of 1 s would only delay tests.
const MIN_SYNC_PERIOD: &str = "10ms";
/// The time after which a kube-proxy syncs without a change: its default.
pub(super) const SYNC_PERIOD: Duration = Duration::from_secs(30);

/// The KubeProxyConfiguration of a node: the scenario's settings that affect rules, and those that a network namespace requires.
///
/// Only what differs from kube-proxy's defaults is written, because a release rejects fields and gates that it does not know.
pub(super) fn configuration(proxy: &ProxyConfig, node: &Node, kubeconfig: &str) -> Value {
    let defaults = ProxyConfig::default();
    let mode = proxy.mode.as_str();
    let cidrs = proxy.cluster_cidrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let mut fields = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": mode,
        "clientConnection": {"kubeconfig": kubeconfig},
        "hostnameOverride": node.hostname_override.as_ref().unwrap_or(&node.name),
        "clusterCIDR": cidrs,
        "bindAddress": if node.internal_ips.first().is_some_and(IpAddr::is_ipv6) { "::" } else { "0.0.0.0" },
        "healthzBindAddress": HEALTH,
        "metricsBindAddress": METRICS,
        // These limits belong to the whole machine, and a network namespace cannot change them.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        // A process of the lab may not lower its OOM score.
        "oomScoreAdj": 0,
    });
    fields[mode] = json!({"minSyncPeriod": MIN_SYNC_PERIOD, "syncPeriod": format!("{}s", SYNC_PERIOD.as_secs())});
    if proxy.masquerade_all {
        fields[mode]["masqueradeAll"] = json!(true);
    }
    if proxy.masquerade_bit != defaults.masquerade_bit {
        fields[mode]["masqueradeBit"] = json!(proxy.masquerade_bit);
    }
    if !proxy.localhost_node_ports && proxy.mode == ProxyMode::Iptables {
        fields[mode]["localhostNodePorts"] = json!(false);
    }
    detect_local(&proxy.detect_local, &mut fields);
    if proxy.primary_node_ports {
        fields["nodePortAddresses"] = json!(["primary"]);
    } else if !proxy.node_port_addresses.is_empty() {
        fields["nodePortAddresses"] = proxy.node_port_addresses.iter().map(ToString::to_string).collect();
    }
    if proxy.tcp_be_liberal {
        fields["conntrack"]["tcpBeLiberal"] = json!(true);
    }
    let gates = gates(proxy);
    if !gates.is_empty() {
        fields["featureGates"] = Value::Object(gates);
    }
    fields
}

fn detect_local(mode: &DetectLocal, fields: &mut Value) {
    let (name, detail) = match mode {
        DetectLocal::ClusterCidr => return,
        DetectLocal::NodeCidr => ("NodeCIDR", None),
        DetectLocal::BridgeInterface(name) => ("BridgeInterface", Some(json!({"bridgeInterface": name}))),
        DetectLocal::InterfaceNamePrefix(prefix) => {
            ("InterfaceNamePrefix", Some(json!({"interfaceNamePrefix": prefix})))
        }
    };
    fields["detectLocalMode"] = json!(name);
    if let Some(detail) = detail {
        fields["detectLocal"] = detail;
    }
}

/// The scenario's gates, and the one that releases need for nftables mode before it is on by default.
fn gates(proxy: &ProxyConfig) -> serde_json::Map<String, Value> {
    let given = proxy.feature_gates.iter().map(|(name, on)| (name.clone(), json!(on)));
    let release: Result<Profile, _> = proxy.version.parse();
    let needs_gate = proxy.mode == ProxyMode::Nftables && release.is_ok_and(Profile::needs_nftables_gate);
    given.chain(needs_gate.then(|| ("NFTablesProxyMode".to_owned(), json!(true)))).collect()
}

/// The kubeconfig for an API server that requires no credentials.
pub(super) fn kubeconfig(server: SocketAddr) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {"server": format!("http://{server}")}}],
        "users": [{"name": "proxy", "user": {}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "proxy"}}],
        "current-context": "lab",
    })
}

#[cfg(test)]
mod tests {
    use svclab_rules::cluster::objects::{KubeProxyConfiguration, proxy_config};

    use super::*;

    /// The configuration file that a kube-proxy reads matches the scenario.
    #[rstest::rstest]
    #[case(ProxyConfig::default())]
    #[case(ProxyConfig { mode: ProxyMode::Nftables, masquerade_all: true, masquerade_bit: 7, ..ProxyConfig::default() })]
    #[case(ProxyConfig { localhost_node_ports: false, tcp_be_liberal: true, primary_node_ports: true, ..ProxyConfig::default() })]
    #[case(ProxyConfig { detect_local: DetectLocal::BridgeInterface("cni0".to_owned()), ..ProxyConfig::default() })]
    #[case(ProxyConfig { detect_local: DetectLocal::NodeCidr, node_port_addresses: vec!["10.0.0.0/8".parse().unwrap()], ..ProxyConfig::default() })]
    fn settings_are_read_back(#[case] given: ProxyConfig) {
        let given =
            ProxyConfig { version: "1.33".to_owned(), cluster_cidrs: vec!["10.244.0.0/16".parse().unwrap()], ..given };
        let node = Node { name: "worker".to_owned(), ..Node::default() };
        let written = configuration(&given, &node, "/run/kubeconfig");
        assert_eq!(written["hostnameOverride"], "worker");
        let raw: KubeProxyConfiguration = serde_json::from_value(written).expect("a configuration");
        assert_eq!(proxy_config(&raw, "1.33"), Ok(given));
    }
}
