//! Allocated addresses and ports that a Service keeps when it is updated, as in the API server's `patchAllocatedValues`
//! (pkg/registry/core/service/storage/alloc.go).

use std::collections::HashSet;

use k8s_openapi::api::core::v1 as core;

/// Copies allocated values that the new object of a Service does not set.
pub(super) fn keep(new: &mut core::Service, old: &core::Service) {
    let (Some(new), Some(old)) = (new.spec.as_mut(), old.spec.as_ref()) else { return };
    if has_cluster_ip(new) && has_cluster_ip(old) {
        keep_cluster_ips(new, old);
    }
    if has_node_ports(new) && has_node_ports(old) {
        keep_node_ports(new, old);
    }
    if has_health_port(new) && has_health_port(old) && new.health_check_node_port.unwrap_or_default() == 0 {
        new.health_check_node_port = old.health_check_node_port;
    }
}

fn keep_cluster_ips(new: &mut core::ServiceSpec, old: &core::ServiceSpec) {
    if new.cluster_ip.is_none() && new.cluster_ips.is_none() {
        new.cluster_ip.clone_from(&old.cluster_ip);
    }
    if new.cluster_ips.is_none() && new.cluster_ip == old.cluster_ip {
        new.cluster_ips.clone_from(&old.cluster_ips);
    }
}

/// Copies node ports of ports with the same protocol and number.
fn keep_node_ports(new: &mut core::ServiceSpec, old: &core::ServiceSpec) {
    fn key(port: &core::ServicePort) -> (&str, i32) {
        (port.protocol.as_deref().unwrap_or("TCP"), port.port)
    }
    let ports = new.ports.get_or_insert_default();
    let used: HashSet<i32> = ports.iter().filter_map(|port| port.node_port).collect();
    for port in ports.iter_mut().filter(|port| port.node_port.is_none()) {
        let former = old.ports.iter().flatten().find(|former| key(former) == key(port));
        port.node_port = former.and_then(|former| former.node_port).filter(|number| !used.contains(number));
    }
}

/// Returns whether a Service has cluster IPs, or is headless.
fn has_cluster_ip(spec: &core::ServiceSpec) -> bool {
    spec.type_.as_deref() != Some("ExternalName")
}

/// Returns whether the API server allocates node ports to it.
pub(super) fn has_node_ports(spec: &core::ServiceSpec) -> bool {
    match spec.type_.as_deref() {
        Some("NodePort") => true,
        Some("LoadBalancer") => spec.allocate_load_balancer_node_ports.unwrap_or(true),
        _ => false,
    }
}

/// Returns whether it is a LoadBalancer Service that needs a `healthCheckNodePort`.
pub(super) fn has_health_port(spec: &core::ServiceSpec) -> bool {
    spec.type_.as_deref() == Some("LoadBalancer") && spec.external_traffic_policy.as_deref() == Some("Local")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use rstest::rstest;

    fn service(spec: &str) -> Service {
        serde_yaml::from_str(&format!("{{metadata: {{name: web}}, spec: {{{spec}}}}}")).expect("a Service")
    }

    const OLD: &str = "type: NodePort, clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10], \
        ports: [{name: http, port: 80, nodePort: 30080}, {name: dns, port: 53, protocol: UDP, nodePort: 30053}]";

    #[rstest]
    #[case::all("type: NodePort, ports: [{name: web, port: 80}]", Some("10.96.0.10"), Some(30080))]
    #[case::other_protocol("type: NodePort, ports: [{port: 53}]", Some("10.96.0.10"), None)]
    #[case::other_number("type: NodePort, ports: [{port: 80, nodePort: 30081}]", Some("10.96.0.10"), Some(30081))]
    #[case::used("type: NodePort, ports: [{port: 80}, {port: 81, nodePort: 30080}]", Some("10.96.0.10"), None)]
    #[case::no_node_ports("ports: [{port: 80}]", Some("10.96.0.10"), None)]
    #[case::other_address("clusterIP: 10.96.0.20, ports: [{port: 80}]", Some("10.96.0.20"), None)]
    #[case::no_address("type: ExternalName, ports: [{port: 80}]", None, None)]
    fn a_service_keeps_what_it_was_given(#[case] new: &str, #[case] address: Option<&str>, #[case] port: Option<i32>) {
        let mut new = service(new);
        super::keep(&mut new, &service(OLD));
        let spec = new.spec.expect("it has one");
        assert_eq!(spec.cluster_ip.as_deref(), address);
        assert_eq!(spec.cluster_ips.is_some(), address == Some("10.96.0.10"));
        assert_eq!(spec.ports.expect("ports")[0].node_port, port);
    }
}
