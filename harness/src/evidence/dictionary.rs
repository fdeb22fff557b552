//! Names of services behind the hashes of their chains.

use std::collections::HashMap;
use std::sync::LazyLock;

use svclab_rules::cluster::Protocol;
use svclab_rules::iptables::ChainHash;

const NAMESPACES: [&str; 22] = [
    "default",
    "kube-system",
    "monitoring",
    "ingress-nginx",
    "istio-system",
    "kubernetes-dashboard",
    "cert-manager",
    "argocd",
    "metallb-system",
    "cattle-system",
    "logging",
    "openshift-ingress",
    "openshift-dns",
    "calico-system",
    "traefik",
    "test",
    "dev",
    "staging",
    "production",
    "prod",
    "web",
    "app",
];

const SERVICES: [&str; 48] = [
    "kubernetes",
    "kube-dns",
    "coredns",
    "metrics-server",
    "kubernetes-dashboard",
    "dashboard-metrics-scraper",
    "heapster",
    "tiller-deploy",
    "nginx",
    "nginx-service",
    "my-nginx",
    "my-service",
    "web",
    "webapp",
    "app",
    "frontend",
    "backend",
    "api",
    "server",
    "client",
    "echo",
    "echoserver",
    "hello",
    "hello-world",
    "helloworld",
    "hostnames",
    "guestbook",
    "httpbin",
    "sleep",
    "productpage",
    "redis",
    "redis-master",
    "mysql",
    "postgres",
    "postgresql",
    "mongodb",
    "rabbitmq",
    "prometheus",
    "grafana",
    "alertmanager",
    "ingress-nginx-controller",
    "ingress-nginx-controller-admission",
    "traefik",
    "istiod",
    "istio-ingressgateway",
    "cert-manager",
    "cert-manager-webhook",
    "whoami",
];

const PORTS: [&str; 18] = [
    "",
    "http",
    "https",
    "dns",
    "dns-tcp",
    "metrics",
    "tcp",
    "udp",
    "web",
    "websecure",
    "api",
    "grpc",
    "http2",
    "https-webhook",
    "redis",
    "mysql",
    "port",
    "admin",
];

/// The usual service ports by the hash in the names of their chains: full name and protocol.
static NAMES: LazyLock<HashMap<ChainHash, (String, Protocol)>> = LazyLock::new(|| {
    let mut names = HashMap::new();
    for (namespace, service) in NAMESPACES.iter().flat_map(|namespace| SERVICES.map(|service| (namespace, service))) {
        for port in PORTS {
            let name = if port.is_empty() {
                format!("{namespace}/{service}")
            } else {
                format!("{namespace}/{service}:{port}")
            };
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                // Up to 1.18 an unnamed port's name ended in a colon.
                let older = port.is_empty().then(|| format!("{name}:"));
                for hashed in older.iter().chain([&name]) {
                    names.insert(ChainHash::for_service_port(hashed, protocol), (name.clone(), protocol));
                }
            }
        }
    }
    names
});

/// The usual service port that has this hash in the names of its chains: what kube-proxy calls it, and its protocol.
pub(crate) fn service_of_hash(hash: ChainHash) -> Option<(&'static str, Protocol)> {
    NAMES.get(&hash).map(|(name, protocol)| (name.as_str(), *protocol))
}
