//! One test case for everything that kube-proxy ignores.

use rstest::rstest;
use serde::Deserialize;

use super::*;
use crate::cluster::ProxyConfig;
use crate::cluster::objects::{Object, assemble};

const SERVICE: &str = "{kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.1, type: LoadBalancer, \
    ports: [{name: http, port: 80}]}}";

/// Returns the notes on objects in a release.
fn noted(text: &str, version: &str) -> Vec<String> {
    let documents = serde_yaml::Deserializer::from_str(text);
    let objects: Vec<Object> = documents.map(|document| Object::deserialize(document).unwrap()).collect();
    let assembly = assemble(&objects, ProxyConfig::default()).unwrap();
    let ignored = notes(&assembly.cluster, version.parse().unwrap());
    assembly.notes.iter().chain(&ignored).map(ToString::to_string).collect()
}

/// Returns a slice of a service, with further fields.
fn slice(service: &str, rest: &str) -> String {
    format!("{{kind: EndpointSlice, metadata: {{name: s, labels: {{kubernetes.io/service-name: {service}}}}}, {rest}}}")
}

#[rstest]
#[case::proxy_name(
    "labels: {service.kubernetes.io/service-proxy-name: x}",
    "clusterIP: 10.0.0.1",
    "its label service.kubernetes.io/service-proxy-name gives it to another proxy"
)]
#[case::headless("labels: {}", "clusterIP: None", "it is headless: clients get the endpoints' addresses from DNS")]
#[case::headless_label(
    "labels: {service.kubernetes.io/headless: ''}",
    "clusterIP: 10.0.0.1",
    "it is headless: clients get the endpoints' addresses from DNS"
)]
#[case::alias("labels: {}", "type: ExternalName, externalName: a.b", "it is an ExternalName service, a DNS alias")]
#[case::no_address("labels: {}", "type: ClusterIP", "it has no clusterIP")]
fn a_service_without_rules_has_one_note(#[case] labels: &str, #[case] spec: &str, #[case] reason: &str) {
    let service =
        format!("{{kind: Service, metadata: {{name: web, {labels}}}, spec: {{{spec}, ports: [{{port: 80}}]}}}}");
    let slice = slice("web", "addressType: IPv4, endpoints: [{addresses: [10.0.0.9], conditions: {ready: false}}]");
    assert_eq!(
        noted(&format!("{service}\n---\n{slice}"), "1.30"),
        [format!("Service default/web has no rules: {reason}")]
    );
}

#[rstest]
#[case::external_ip(
    "externalIPs: [192.0.2.1, 'fd00::1']",
    "",
    "is not reached at its external IP fd00::1: it has no IPv6 cluster IP"
)]
#[case::source_range(
    "loadBalancerSourceRanges: [192.0.2.0/24, 'fd00::/64']",
    "",
    "ignores its source range fd00::/64: it has no IPv6 cluster IP"
)]
#[case::load_balancer(
    "",
    "{ip: 'fd00::2'}",
    "is not reached at its load balancer's IP fd00::2: it has no IPv6 cluster IP"
)]
#[case::ip_mode(
    "",
    "{ip: 192.0.2.2, ipMode: Proxy}",
    "is not reached at its load balancer's IP 192.0.2.2: its ipMode is Proxy: the load balancer sends to node ports or \
     endpoints"
)]
fn an_address_that_a_service_is_not_reached_at(#[case] spec: &str, #[case] ingress: &str, #[case] expected: &str) {
    let service = format!(
        "{{kind: Service, metadata: {{name: web}}, spec: {{type: LoadBalancer, clusterIP: 10.96.0.1, {spec}\
         {comma} ports: [{{name: http, port: 80}}]}}, status: {{loadBalancer: {{ingress: [{ingress}]}}}}}}",
        comma = if spec.is_empty() { "" } else { "," },
    );
    let slice =
        slice("web", "addressType: IPv4, ports: [{name: http, port: 80}], endpoints: [{addresses: [10.0.0.9]}]");
    let text = format!("{service}\n---\n{slice}");
    assert_eq!(noted(&text, "1.30"), [format!("Service default/web {expected}")]);
}

/// Before 1.29 the field did not exist.
#[test]
fn an_ip_mode_means_nothing_to_old_releases() {
    let text = "{kind: Service, metadata: {name: web}, spec: {type: LoadBalancer, clusterIP: 10.96.0.1, ports: [{port: 80}]}, \
                status: {loadBalancer: {ingress: [{ip: 192.0.2.2, ipMode: Proxy}]}}}";
    let of = |version: &str| noted(text, version).iter().filter(|note| note.contains("ipMode")).count();
    assert_eq!((of("1.28"), of("1.30")), (0, 1));
}

#[rstest]
#[case::unknown_service("other", "IPv4", "", "", &[
    "Service default/web has no IPv4 endpoints: no IPv4 EndpointSlice lists any",
    "EndpointSlice default/s has no rules: there is no service default/other",
])]
#[case::host_names("web", "FQDN", "", "{addresses: [a.example]}", &[
    "EndpointSlice default/s has no rules: its addresses are host names (addressType FQDN)",
    "Service default/web has no IPv4 endpoints: no IPv4 EndpointSlice lists any",
])]
#[case::other_family("web", "IPv6", "{name: http, port: 80}", "{addresses: ['fd00::9']}", &[
    "Service default/web has no IPv4 endpoints: no IPv4 EndpointSlice lists any",
    "EndpointSlice default/s has no rules: service default/web has no IPv6 cluster IP",
])]
#[case::no_endpoints("web", "IPv4", "{name: http, port: 80}", "", &[
    "Service default/web has no IPv4 endpoints: no IPv4 EndpointSlice lists any",
])]
#[case::other_port("web", "IPv4", "{name: metrics, port: 80}", "{addresses: [10.0.0.9]}", &[
    "Service default/web has no IPv4 endpoints on port 80: no EndpointSlice of it has a tcp port `http`",
    "EndpointSlice default/s does not serve a tcp port `metrics`: service default/web has no such port",
])]
#[case::all_ports("web", "IPv4", "{name: http}", "{addresses: [10.0.0.9]}", &[
    "Service default/web has no IPv4 endpoints on port 80: no EndpointSlice of it has a tcp port `http`",
    "EndpointSlice default/s does not serve a tcp port `http`: the port number is unset (all ports)",
])]
#[case::not_ready("web", "IPv4", "{name: http, port: 80}", "{addresses: [10.0.0.9], conditions: {ready: false}}", &[
    "EndpointSlice default/s does not use 10.0.0.9: it is not ready",
])]
#[case::terminating(
    "web", "IPv4", "{name: http, port: 80}",
    "{addresses: [10.0.0.9], conditions: {ready: false, serving: false, terminating: true}}",
    &["EndpointSlice default/s does not use 10.0.0.9: it is terminating"]
)]
#[case::still_serving(
    "web", "IPv4", "{name: http, port: 80}",
    "{addresses: [10.0.0.9], conditions: {ready: false, serving: true, terminating: true}}",
    &["EndpointSlice default/s does not use 10.0.0.9: it is terminating, and is used at most if no endpoint is ready"]
)]
#[case::second_address("web", "IPv4", "{name: http, port: 80}", "{addresses: [10.0.0.9, 10.0.0.10]}", &[
    "EndpointSlice default/s does not use 10.0.0.10: only the first address of an endpoint counts",
])]
#[case::sound("web", "IPv4", "{name: http, port: 80}", "{addresses: [10.0.0.9]}", &[])]
fn what_a_slice_does_not_do(
    #[case] service: &str,
    #[case] family: &str,
    #[case] port: &str,
    #[case] endpoint: &str,
    #[case] expected: &[&str],
) {
    let rest = format!("addressType: {family}, ports: [{port}], endpoints: [{endpoint}]");
    assert_eq!(noted(&format!("{SERVICE}\n---\n{}", slice(service, &rest)), "1.30"), expected);
}
