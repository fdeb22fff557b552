//! Errors in objects, one per case, and objects that are ignored.

use rstest::rstest;
use serde::Deserialize;

use super::*;
use crate::cluster::{DetectLocal, Family, ProxyConfig, ProxyMode};

fn objects(text: &str) -> Vec<Object> {
    serde_yaml::Deserializer::from_str(text).map(|document| Object::deserialize(document).unwrap()).collect()
}

/// Returns `path: message` of every error.
fn mistakes(text: &str) -> Vec<String> {
    let errors = assemble(&objects(text), ProxyConfig::default()).unwrap_err();
    errors.iter().map(|error| format!("{}: {}", error.path, error.message)).collect()
}

fn service_yaml(name: &str, spec: &str) -> String {
    format!("{{kind: Service, apiVersion: v1, metadata: {{name: {name}}}, spec: {{{spec}}}}}")
}

#[rstest]
#[case::port_zero("ports: [{port: 0}]", "spec.ports[0].port: port 0 is out of range")]
#[case::port_70000("ports: [{port: 70000}]", "spec.ports[0].port: port 70000 is out of range")]
#[case::target_port("ports: [{port: 80, targetPort: -1}]", "spec.ports[0].targetPort: port -1 is out of range")]
#[case::target_name("ports: [{port: 80, targetPort: Http}]", "spec.ports[0].targetPort: `Http` is not a port name")]
#[case::protocol("ports: [{port: 80, protocol: tcp}]", "spec.ports[0].protocol: unknown protocol `tcp`")]
#[case::node_port_range(
    "type: NodePort, ports: [{port: 80, nodePort: 70000}]",
    "spec.ports[0].nodePort: node port 70000 is not in the range 1-65535"
)]
#[case::node_port_type(
    "ports: [{port: 80, nodePort: 30080}]",
    "spec.ports[0].nodePort: is set for a Service that has no node ports"
)]
#[case::no_ports("ports: []", "spec.ports: are missing")]
#[case::nameless("ports: [{port: 80}, {name: b, port: 81}]", "spec.ports[0].name: is missing")]
#[case::same_name(
    "ports: [{name: a, port: 80}, {name: a, port: 81}]",
    "spec.ports[1].name: the name `a` is already used by another port of this service"
)]
#[case::same_port(
    "ports: [{name: a, port: 80}, {name: b, port: 80}]",
    "spec.ports[1].port: port 80/tcp is listed twice"
)]
#[case::same_node_port(
    "type: NodePort, ports: [{name: a, port: 80, nodePort: 30000}, {name: b, port: 81, nodePort: 30000}]",
    "spec.ports[1].nodePort: node port 30000/tcp is listed twice"
)]
#[case::bad_ip("clusterIP: 10.96.0.256, ports: [{port: 80}]", "spec.clusterIP: `10.96.0.256` is not an IP address")]
#[case::wrong_family(
    "clusterIPs: ['fd00::1'], ipFamilies: [IPv4], ports: [{port: 80}]",
    "spec.clusterIPs[0]: `fd00::1` is not an IPv4 address, but spec.ipFamilies[0] is IPv4"
)]
#[case::two_of_a_family(
    "clusterIPs: [10.96.0.1, 10.96.0.2], ports: [{port: 80}]",
    "spec.clusterIPs: two entries of the same family"
)]
#[case::two_first_addresses(
    "clusterIP: 10.96.0.1, clusterIPs: [10.96.0.2], ports: [{port: 80}]",
    "spec.clusterIP: `10.96.0.1` is not the first of spec.clusterIPs, `10.96.0.2`"
)]
#[case::of_all_sources(
    "clusterIP: 255.255.255.255, ports: [{port: 80}]",
    "spec.clusterIP: `255.255.255.255` is the limited broadcast address"
)]
#[case::without_owner(
    "externalIPs: [0.0.0.0], ports: [{port: 80}]",
    "spec.externalIPs[0]: `0.0.0.0` is the unspecified address"
)]
#[case::headless_node_port(
    "type: NodePort, clusterIP: None, ports: [{port: 80}]",
    "spec.clusterIP: `None` is only for services of type ClusterIP"
)]
#[case::kind("type: Cluster, ports: [{port: 80}]", "spec.type: unknown value `Cluster`")]
#[case::external_name("type: ExternalName", "spec.externalName: is missing")]
#[case::external_ip(
    "externalIPs: [127.0.0.1], ports: [{port: 80}]",
    "spec.externalIPs[0]: `127.0.0.1` is a loopback address"
)]
#[case::source_range(
    "type: LoadBalancer, loadBalancerSourceRanges: [10.0.0.0/33], ports: [{port: 80}]",
    "spec.loadBalancerSourceRanges[0]: `10.0.0.0/33` is not a CIDR"
)]
#[case::source_range_type(
    "loadBalancerSourceRanges: [10.0.0.0/8], ports: [{port: 80}]",
    "spec.loadBalancerSourceRanges: are only for services of type LoadBalancer"
)]
#[case::external_policy(
    "externalTrafficPolicy: Local, ports: [{port: 80}]",
    "spec.externalTrafficPolicy: has no effect on a service that cannot be reached from outside"
)]
#[case::internal_policy(
    "internalTrafficPolicy: Nearby, ports: [{port: 80}]",
    "spec.internalTrafficPolicy: unknown value `Nearby`"
)]
#[case::affinity(
    "sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}, ports: [{port: 80}]",
    "spec.sessionAffinityConfig.clientIP.timeoutSeconds: 86401 s is out of range"
)]
#[case::health_check(
    "type: LoadBalancer, healthCheckNodePort: 30000, ports: [{port: 80}]",
    "spec.healthCheckNodePort: is only for load balancers with externalTrafficPolicy Local"
)]
#[case::distribution(
    "trafficDistribution: Even, ports: [{port: 80}]",
    "spec.trafficDistribution: unknown value `Even`"
)]
fn a_service_is_rejected(#[case] spec: &str, #[case] mistake: &str) {
    assert_eq!(mistakes(&service_yaml("web", spec)), [mistake]);
}

#[test]
fn a_service_name_is_a_label_that_starts_with_a_letter() {
    let text = service_yaml("2web", "ports: [{port: 80}]");
    assert_eq!(mistakes(&text), ["metadata.name: `2web` is not a DNS-1035 label"]);
}

#[test]
fn all_errors_of_all_objects_are_reported() {
    let slice = "{kind: EndpointSlice, metadata: {name: s, labels: {kubernetes.io/service-name: web}}, \
                 addressType: IPv4, ports: [{port: 0}], endpoints: [{addresses: ['fd00::1']}, {addresses: []}]}";
    let node = "{kind: Node, metadata: {name: Node_1}, spec: {podCIDR: 10.0.0.0}, \
                status: {addresses: [{type: InternalIP, address: somewhere}]}}";
    let text = format!("{}\n---\n{slice}\n---\n{node}", service_yaml("web", "clusterIP: x, ports: [{port: 0}]"));
    let expected = [
        "spec.clusterIP: `x` is not an IP address",
        "spec.ports[0].port: port 0 is out of range",
        "ports[0].port: port 0 is out of range",
        "endpoints[0].addresses[0]: `fd00::1` is not an IPv4 address, but addressType is IPv4",
        "endpoints[1].addresses: an endpoint without an address",
        "metadata.name: `Node_1` is not a DNS-1123 subdomain",
        "status.addresses[0].address: `somewhere` is not an IP address",
        "spec.podCIDR: `10.0.0.0` is not a CIDR",
    ];
    assert_eq!(mistakes(&text), expected);
}

#[test]
fn collisions_between_services_name_the_other_service() {
    let spec = "type: NodePort, clusterIP: 10.96.0.1, ports: [{port: 80, nodePort: 30080}]";
    let text = format!("{}\n---\n{}", service_yaml("one", spec), service_yaml("two", spec));
    let errors = assemble(&objects(&text), ProxyConfig::default()).unwrap_err();
    let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let expected = [
        "Service default/two: spec.clusterIPs[0]: 10.96.0.1 is already used by service default/one",
        "Service default/two: spec.ports[0].nodePort: node port 30080/tcp is already used by service default/one",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn two_objects_of_one_name_are_rejected() {
    let service = service_yaml("web", "ports: [{port: 80}]");
    let text = format!("{{kind: List, items: [{service}, {service}]}}");
    assert_eq!(mistakes(&text), ["metadata.name: duplicate object name"]);
}

#[test]
fn endpoints_become_a_slice_a_subset_and_family() {
    let text = "{kind: Endpoints, apiVersion: v1, metadata: {name: web}, subsets: [{addresses: [{ip: 10.0.0.1, \
                nodeName: n, targetRef: {kind: Pod, name: a, namespace: default}}, {ip: 'fd00::1'}], \
                notReadyAddresses: [{ip: 10.0.0.2}], ports: [{port: 80}]}]}";
    let cluster = assemble(&objects(text), ProxyConfig::default()).unwrap().cluster;
    let shape: Vec<_> = cluster
        .slices
        .iter()
        .map(|slice| {
            let endpoints: Vec<_> =
                slice.endpoints.iter().map(|e| (e.addresses[0].to_string(), e.ready, e.pod.is_some())).collect();
            (slice.name.name.as_str(), slice.family, endpoints)
        })
        .collect();
    let v4 = vec![("10.0.0.1".to_owned(), true, true), ("10.0.0.2".to_owned(), false, false)];
    let expected =
        [("web-ipv4-0", Family::Ipv4, v4), ("web-ipv6-0", Family::Ipv6, vec![("fd00::1".to_owned(), true, false)])];
    assert_eq!(shape, expected);
}

#[test]
fn endpoints_beside_slices_do_not_count() {
    let text = "{kind: Endpoints, metadata: {name: web}, subsets: [{addresses: [{ip: 10.0.0.1}]}]}\n---\n\
                {kind: EndpointSlice, metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}, \
                addressType: IPv4, endpoints: []}";
    let assembly = assemble(&objects(text), ProxyConfig::default()).unwrap();
    assert_eq!(assembly.cluster.slices.len(), 1);
    let notes: Vec<String> = assembly.notes.iter().map(ToString::to_string).collect();
    assert_eq!(notes, ["Endpoints default/web has no rules: its service has EndpointSlices"]);
}

#[test]
fn a_configuration_is_read() {
    let text = "{mode: nftables, clusterCIDR: '10.244.0.0/16,fd00::/48', detectLocalMode: InterfaceNamePrefix, \
                detectLocal: {interfaceNamePrefix: cali}, nftables: {masqueradeBit: 7}, nodePortAddresses: [primary]}";
    let config = proxy_config(&serde_yaml::from_str(text).unwrap(), "1.33").unwrap();
    assert_eq!(config.mode, ProxyMode::Nftables);
    assert_eq!(config.cluster_cidrs.len(), 2);
    assert_eq!(config.detect_local, DetectLocal::InterfaceNamePrefix("cali".to_owned()));
    assert_eq!(config.masquerade_bit, 7);
    assert!(config.primary_node_ports);
}

#[rstest]
#[case::mode("mode: ipvs", "mode: unknown value `ipvs`")]
#[case::bit("iptables: {masqueradeBit: 32}", "iptables.masqueradeBit: bit 32 is out of range")]
#[case::bridge("detectLocalMode: BridgeInterface", "detectLocal.bridgeInterface: `` is not an interface name")]
#[case::cidr("clusterCIDR: 10.0.0.0", "clusterCIDR: `10.0.0.0` is not a CIDR")]
#[case::cidrs("clusterCIDR: '10.0.0.0/8,11.0.0.0/8'", "clusterCIDR: two entries of the same family")]
#[case::node_ports("nodePortAddresses: [primary, 10.0.0.0/8]", "nodePortAddresses[0]: `primary` is not a CIDR")]
fn a_configuration_is_rejected(#[case] text: &str, #[case] mistake: &str) {
    let errors = proxy_config(&serde_yaml::from_str(text).unwrap(), "1.30").unwrap_err();
    let messages: Vec<String> = errors.iter().map(|error| format!("{}: {}", error.path, error.message)).collect();
    assert_eq!(messages, [mistake]);
}
