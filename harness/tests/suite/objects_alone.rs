//! Texts with Kubernetes objects and without rules: what they leave out is assumed, never what the text does not say.

use std::path::Path;

use rstest::rstest;
use svclab::evidence;
use svclab::infer::{self, Assumed, Connections};
use svclab_rules::cluster::{ProxyMode, ServiceType};

use crate::assumptions;

fn imported(text: &str, connections: Connections) -> Assumed {
    infer::from_evidence(&evidence::read(text), Path::new("dump"), &[], connections)
        .unwrap_or_else(|errors| panic!("{errors}"))
}

/// The endpoints of a Service: `address:port/protocol`.
fn endpoints(assumed: &Assumed, name: &str) -> Vec<String> {
    let slices = assumed.scenario.cluster.slices.iter().filter(|slice| slice.service.to_string() == name);
    let mut all: Vec<String> = slices
        .flat_map(|slice| {
            let addresses = slice.endpoints.iter().flat_map(|endpoint| &endpoint.addresses);
            addresses.flat_map(|ip| {
                let port =
                    |port: &svclab_rules::cluster::EndpointPort| Some(format!("{ip}:{}/{}", port.port?, port.protocol));
                slice.ports.iter().filter_map(port).collect::<Vec<_>>()
            })
        })
        .collect();
    all.sort();
    all
}

const CONFIGURATION: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: kube-proxy
  namespace: kube-system
data:
  config.conf: |-
    apiVersion: kubeproxy.config.k8s.io/v1alpha1
    kind: KubeProxyConfiguration
    clusterCIDR: 10.150.0.0/16
    iptables:
      masqueradeAll: true
    mode: MODE
    nodePortAddresses:
    - 172.18.0.0/16
";

const SERVICE: &str = "
$ kubectl get svc
NAME   TYPE       CLUSTER-IP   EXTERNAL-IP   PORT(S)        AGE
web    NodePort   10.96.3.20   <none>        80:30080/TCP   97d
";

/// kube-proxy's configuration in the text decides its mode and settings; pods that are made up are in its clusterCIDR.
#[rstest]
#[case::iptables(
    "iptables",
    "1.31.2",
    ProxyMode::Iptables,
    true,
    "mode iptables, masqueradeAll, clusterCIDR 10.150.0.0/16, nodePortAddresses 172.18.0.0/16"
)]
#[case::unset("\"\"", "1.31.2", ProxyMode::Iptables, true, "mode iptables, masqueradeAll, ")]
#[case::nftables("nftables", "1.31.2", ProxyMode::Nftables, false, "mode nftables, clusterCIDR 10.150.0.0/16, ")]
#[case::older(
    "nftables",
    "1.28.2",
    ProxyMode::Iptables,
    true,
    "mode nftables (not emulated in 1.28.2: iptables is assumed), "
)]
#[case::ipvs("ipvs", "1.31.2", ProxyMode::Iptables, true, "mode ipvs (not emulated in 1.31.2: iptables is assumed), ")]
fn the_configuration_in_the_text_decides(
    #[case] written: &str,
    #[case] release: &str,
    #[case] mode: ProxyMode,
    #[case] masquerades_all: bool,
    #[case] expected: &str,
) {
    let configuration = CONFIGURATION.replace("MODE", written);
    let assumed = imported(&format!("{configuration}{SERVICE}\nServer Version: v{release}\n"), Connections::LeftOut);
    let said = assumptions(&assumed).join("\n");
    let proxy = &assumed.scenario.cluster.proxy;
    assert!(said.contains(&format!("kube-proxy's configuration is the one in the text: {expected}")), "{said}");
    assert_eq!((proxy.mode, proxy.masquerade_all), (mode, masquerades_all), "{said}");
    assert_eq!(proxy.node_port_addresses.len(), 1, "{said}");
    let pods = assumed.scenario.cluster.pods.iter().flat_map(|pod| &pod.ips);
    assert!(pods.clone().count() > 0 && pods.into_iter().all(|ip| proxy.cluster_cidrs[0].contains(ip)), "{said}");
}

/// Prose that is indented like the object before it is no part of that.
#[test]
fn a_configuration_before_indented_prose_is_read() {
    let configuration = CONFIGURATION.replace("MODE", "nftables");
    let text = format!(
        "$ kubectl get cm kube-proxy -o yaml\n{configuration}\n\n  https://example.com/p/1.html\n{SERVICE}\nServer Version: v1.31.2\n"
    );
    let assumed = imported(&text, Connections::LeftOut);
    assert_eq!(assumed.scenario.cluster.proxy.mode, ProxyMode::Nftables, "{:#?}", assumptions(&assumed));
}

/// A text that lists no endpoints does not say that there are none: they are pods by name, or made up, outside of the range of cluster IPs.
#[rstest]
#[case::pod(
    "NAME        READY   STATUS    RESTARTS   AGE   IP          NODE\nweb-7c9f-x   1/1     Running   0          9d    10.42.1.3   n1\n",
    &["10.42.1.3:80/tcp"],
    "endpoints of default/web, which no list shows, are pods and nodes, by their names"
)]
#[case::no_ready_pod(
    "NAME        READY   STATUS    RESTARTS   AGE   IP          NODE\nweb-7c9f-x   0/1     Running   0          9d    10.42.1.3   n1\n",
    &["10.42.1.3:80/tcp"],
    "endpoints of default/web, which no list shows, are pods and nodes, by their names"
)]
#[case::nothing("", &["10.244.0.10:80/tcp"], "endpoints of default/web, which no list shows, are made up")]
#[case::none("NAME   ENDPOINTS   AGE\nweb    <none>      97d\n", &[], "default/web has no endpoints: ")]
#[case::no_subsets("apiVersion: v1\nkind: Endpoints\nmetadata:\n  name: web\n", &[], "default/web has no endpoints: ")]
#[case::placeholder(
    "addressType: IPv4\napiVersion: discovery.k8s.io/v1\nendpoints: null\nkind: EndpointSlice\nmetadata:\n  name: web-5xk\n  labels:\n    \
     kubernetes.io/service-name: web\nports: null\n",
    &[],
    "default/web has no endpoints: "
)]
#[case::cluster_ip_in_the_usual_range(
    "NAME   TYPE        CLUSTER-IP    EXTERNAL-IP   PORT(S)   AGE\napp    ClusterIP   10.244.1.75   <none>        80/TCP    4d\n",
    &["10.42.0.11:80/tcp"],
    "endpoints of default/app, default/web, which no list shows, are made up"
)]
#[case::name_that_starts_with_anothers(
    "NAME      TYPE        CLUSTER-IP    EXTERNAL-IP   PORT(S)   AGE\nweb-api   ClusterIP   10.96.3.21    <none>        80/TCP    4d\n\n\
     NAME            READY   STATUS    RESTARTS   AGE   IP          NODE\nweb-6d4-x       1/1     Running   0          9d    10.42.1.3   n1\n\
     web-api-7c9-y   1/1     Running   0          9d    10.42.1.4   n1\n",
    &["10.42.1.3:80/tcp"],
    "endpoints of default/web, default/web-api, which no list shows, are pods and nodes, by their names"
)]
fn endpoints_that_no_list_shows(#[case] more: &str, #[case] expected: &[&str], #[case] words: &str) {
    let yaml = more.replace("addressType", "---\naddressType").replace("apiVersion: v1\n", "---\napiVersion: v1\n");
    let assumed = imported(&format!("{SERVICE}\n{yaml}"), Connections::LeftOut);
    let said = assumptions(&assumed).join("\n");
    assert_eq!(endpoints(&assumed, "default/web"), expected, "{said}");
    assert!(said.contains(words), "{said}");
}

/// There may be more Services than addresses in the range of a node.
#[test]
fn every_service_without_a_list_has_an_endpoint() {
    let row = |number: u32| {
        format!("s{number}   ClusterIP   10.96.{}.{}   <none>   80/TCP   4d\n", number / 200, number % 200 + 1)
    };
    let rows: String = (0..300).map(row).collect();
    let assumed =
        imported(&format!("NAME   TYPE   CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\n{rows}"), Connections::LeftOut);
    let said = assumptions(&assumed).join("\n");
    for number in 0..300 {
        assert_eq!(endpoints(&assumed, &format!("default/s{number}")).len(), 1, "s{number}: {said}");
    }
    assert!(said.contains("default/s101 and 295 more, which no list shows, are made up"), "{said}");
    assert!(!said.contains("no endpoints"), "{said}");
}

/// The API server's Service has the address of its node, or one that is made up where `kubectl get nodes` lists no addresses.
#[rstest]
#[case::address("   INTERNAL-IP", "   172.18.0.4", Some("172.18.0.4:6443/tcp"))]
#[case::no_address("", "", None)]
fn the_endpoint_of_the_api_server(#[case] column: &str, #[case] address: &str, #[case] expected: Option<&str>) {
    let text = format!(
        "NAME   STATUS   ROLES           AGE   VERSION{column}\ncp     Ready    control-plane   1d    v1.31.2{address}\n\n\
         NAME         TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nkubernetes   ClusterIP   10.96.0.1    <none>        443/TCP   1d\n"
    );
    let assumed = imported(&text, Connections::LeftOut);
    let said = assumptions(&assumed).join("\n");
    let [own] = &*endpoints(&assumed, "default/kubernetes") else { panic!("{said}") };
    assert!(expected.map_or(own.ends_with(":6443/tcp"), |expected| own == expected), "{own}: {said}");
    let how = if expected.is_some() { "are pods and nodes, by their names" } else { "are made up" };
    assert!(said.contains(&format!("endpoints of default/kubernetes, which no list shows, {how}")), "{said}");
}

/// Tables of pods show the addresses of one family.
#[test]
fn a_dual_stack_service_has_endpoints_of_both_families() {
    let text = "apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  clusterIP: 10.96.3.20
  clusterIPs: [10.96.3.20, fd00:10:96::20]
  ipFamilies: [IPv4, IPv6]
  ipFamilyPolicy: RequireDualStack
  ports:
  - port: 80
---

NAME   STATUS   ROLES    AGE   VERSION   INTERNAL-IP
n1     Ready    <none>   1d    v1.31.2   172.18.0.4

NAME         READY   STATUS    RESTARTS   AGE   IP          NODE
web-7c9f-x   1/1     Running   0          9d    10.42.1.3   n1
";
    let assumed = imported(text, Connections::LeftOut);
    let said = assumptions(&assumed).join("\n");
    assert_eq!(endpoints(&assumed, "default/web"), ["10.42.1.3:80/tcp", "fd00:10:244::9:80/tcp"], "{said}");
    assert!(
        said.contains("endpoints of default/web, which no list shows, are pods and nodes, by their names"),
        "{said}"
    );
    assert!(said.contains("endpoints of default/web (IPv6), which no list shows, are made up"), "{said}");
}

/// Tables of EndpointSlices list no protocols: they are those of the Service, or else a number that is there twice is of TCP and of UDP.
#[rstest]
#[case::of_service("53,53,9153", "53/UDP,53/TCP,9153/TCP")]
#[case::another_order("9153,53,53", "53/UDP,53/TCP,9153/TCP")]
#[case::fewer("53,53", "53/UDP,53/TCP,9153/TCP")]
fn ports_of_endpoint_slices_have_the_protocols_of_the_service(#[case] listed: &str, #[case] of_service: &str) {
    let text = format!(
        "NAME             ADDRESSTYPE   PORTS        ENDPOINTS     AGE\nkube-dns-7xkqz   IPv4          {listed}   10.244.0.11   40d\n\n\
         NAME       TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nkube-dns   ClusterIP   10.96.0.10   <none>        {of_service}   40d\n"
    );
    let assumed = imported(&text, Connections::LeftOut);
    let mut expected = vec!["10.244.0.11:53/tcp", "10.244.0.11:53/udp", "10.244.0.11:9153/tcp"];
    expected.truncate(listed.split(',').count());
    assert_eq!(endpoints(&assumed, "default/kube-dns"), expected, "{:#?}", assumptions(&assumed));
}

/// Older releases of kubectl print other columns of Services, and no type.
#[rstest]
#[case::labels_and_selector(
    "NAME   LABELS    SELECTOR   IP(S)        PORT(S)\nweb    app=web   app=web    10.0.0.193   80/TCP\n",
    ServiceType::ClusterIp
)]
#[case::underscores(
    "NAME   CLUSTER_IP   EXTERNAL_IP   PORT(S)   SELECTOR   AGE\nweb    10.0.0.193   <none>        80/TCP    app=web    4d\n",
    ServiceType::ClusterIp
)]
#[case::no_type(
    "NAME   CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nweb    10.0.0.193   <none>        80/TCP    4d\n",
    ServiceType::ClusterIp
)]
#[case::nodes(
    "NAME   CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nweb    10.0.0.193   <nodes>       80/TCP    4d\n",
    ServiceType::NodePort
)]
#[case::node_port(
    "NAME   CLUSTER-IP   EXTERNAL-IP   PORT(S)        AGE\nweb    10.0.0.193   <none>        80:30007/TCP   4d\n",
    ServiceType::NodePort
)]
#[case::pending(
    "NAME   CLUSTER-IP   EXTERNAL-IP   PORT(S)        AGE\nweb    10.0.0.193   <pending>     80:30007/TCP   4d\n",
    ServiceType::LoadBalancer
)]
#[case::load_balancer(
    "NAME   CLUSTER-IP   EXTERNAL-IP   PORT(S)        AGE\nweb    10.0.0.193   192.0.2.7     80:30007/TCP   4d\n",
    ServiceType::LoadBalancer
)]
fn tables_of_older_releases_of_kubectl(#[case] table: &str, #[case] expected: ServiceType) {
    let endpoints_table = "NAME   ENDPOINTS\nweb    10.2.1.12:8080\n";
    let assumed = imported(&format!("{table}\n{endpoints_table}"), Connections::LeftOut);
    let [service] = &*assumed.scenario.cluster.services else { panic!("{:#?}", assumptions(&assumed)) };
    assert_eq!((service.kind, service.cluster_ips[0].to_string()), (expected, "10.0.0.193".to_owned()));
    assert_eq!(endpoints(&assumed, "default/web"), ["10.2.1.12:8080/tcp"]);
}

/// Of the events of one connection, the last counts: `conntrack -E` reports each of them.
#[rstest]
#[case::destroyed(&["NEW", "UPDATE", "DESTROY"], 0)]
#[case::again(&["NEW", "DESTROY", "NEW"], 1)]
#[case::updated(&["NEW", "UPDATE"], 1)]
#[case::destroyed_alone(&["DESTROY"], 0)]
fn the_last_event_of_a_connection_counts(#[case] events: &[&str], #[case] expected: usize) {
    let line = |event: &&str| {
        format!(
            "[{event}] udp      17 30 src=10.244.1.7 dst=10.96.3.20 sport=40321 dport=80 src=10.244.2.9 dst=10.244.1.7 sport=80 dport=40321\n"
        )
    };
    let text = format!("{}{SERVICE}", events.iter().map(line).collect::<String>()).replace("80:30080/TCP", "80/UDP");
    assert_eq!(imported(&text, Connections::Restored).scenario.connections.len(), expected);
    let said = assumptions(&imported(&text, Connections::LeftOut)).join("\n");
    assert_eq!(said.contains(": 1 entry of the dump"), expected == 1, "{said}");
}

/// kube-proxy's log names the Services and endpoints that it has seen, which counts if nothing else shows any.
#[test]
fn services_of_a_log() {
    let log = "I0619 13:31:24.985898       1 servicechangetracker.go:202] \"Adding new service port\" portName=\"a/hook\" servicePort=\"10.96.61.26:8443/TCP\"
I0619 13:31:25.985898       1 endpointschangetracker.go:202] \"Setting endpoints for service port name\" portName=\"a/hook\" endpoints=[\"10.244.1.5:8444\"]
";
    let alone = imported(log, Connections::LeftOut);
    let said = assumptions(&alone).join("\n");
    assert!(said.contains("the Services and their endpoints are those that kube-proxy's log shows"), "{said}");
    assert_eq!(endpoints(&alone, "a/hook"), ["10.244.1.5:8444/tcp"], "{said}");
    let both = format!(
        "{log}{}",
        log.replace("10.96.61.26:8443", "fd00:10:96::26:8443").replace("10.244.1.5:8444", "[fd00:10:244::5]:8444")
    );
    let both = imported(&both, Connections::LeftOut);
    let addresses: Vec<String> =
        both.scenario.cluster.services.iter().flat_map(|own| &own.cluster_ips).map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.96.61.26", "fd00:10:96::26"], "{:#?}", assumptions(&both));
    assert_eq!(endpoints(&both, "a/hook"), ["10.244.1.5:8444/tcp", "fd00:10:244::5:8444/tcp"]);
    let with_others = imported(&format!("{log}{SERVICE}"), Connections::LeftOut);
    let names: Vec<&str> = with_others.scenario.cluster.services.iter().map(|service| &*service.name.name).collect();
    assert_eq!(names, ["web"]);
}
