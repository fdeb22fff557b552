//! The API objects of a cluster that a proxy watches.

use std::net::IpAddr;

use serde_json::{Map, Value, json};
use svclab_rules::cluster::{
    Cluster, Endpoint, EndpointSlice, ExternalTrafficPolicy, InternalTrafficPolicy, IpMode, Node, ObjectName, Service,
    ServicePort, ServiceType,
};

/// The maximum number of ranges of a ServiceCIDR object: one per family.
const MAX_RANGES: usize = 2;

/// Writes a cluster's Nodes, Services, EndpointSlices and ServiceCIDRs. The API server adds defaults, namespaces and metadata.
pub(super) fn objects(cluster: &Cluster) -> Vec<Value> {
    let nodes = cluster.nodes.iter().map(node);
    let services = cluster.services.iter().map(service);
    let slices = cluster.slices.iter().map(slice);
    let ranges = cluster.service_cidrs.chunks(MAX_RANGES).enumerate().map(|(index, ranges)| {
        let name = if index == 0 { "kubernetes".to_owned() } else { format!("kubernetes-{index}") };
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "ServiceCIDR",
            "metadata": {"name": name},
            "spec": {"cidrs": words(ranges)},
        })
    });
    nodes.chain(services).chain(slices).chain(ranges).map(without_nulls).collect()
}

fn node(node: &Node) -> Value {
    let addresses = |kind: &'static str, ips: &[IpAddr]| {
        ips.iter().map(|ip| json!({"type": kind, "address": ip})).collect::<Vec<_>>()
    };
    let addresses = [addresses("InternalIP", &node.internal_ips), addresses("ExternalIP", &node.external_ips)].concat();
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": node.labels},
        "spec": {"podCIDR": node.pod_cidrs.first().map(ToString::to_string), "podCIDRs": words(&node.pod_cidrs)},
        "status": {"addresses": addresses},
    })
}

fn service(service: &Service) -> Value {
    let has_node_ports = service.ports.iter().any(|port| port.node_port.is_some());
    let is_balanced = service.kind == ServiceType::LoadBalancer;
    let is_external = matches!(service.kind, ServiceType::NodePort | ServiceType::LoadBalancer);
    let cluster_ips = if service.headless { vec!["None".to_owned()] } else { words(&service.cluster_ips) };
    let ingress = |ingress: &svclab_rules::cluster::LoadBalancerIngress| {
        let mode = if ingress.mode == IpMode::Proxy { "Proxy" } else { "VIP" };
        json!({"ip": ingress.ip, "ipMode": mode})
    };
    let ingress: Vec<Value> = service.load_balancer.iter().map(ingress).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(&service.name, json!(service.labels), json!(service.annotations)),
        "spec": {
            "type": kind(service.kind),
            "externalName": (service.kind == ServiceType::ExternalName).then_some("name.invalid"),
            "clusterIP": cluster_ips.first(),
            "clusterIPs": (!cluster_ips.is_empty()).then_some(&cluster_ips),
            "ipFamilies": (!service.families.is_empty()).then(|| words(&service.families)),
            "ipFamilyPolicy": (service.families.len() > 1).then_some("RequireDualStack"),
            "ports": service.ports.iter().map(service_port).collect::<Vec<_>>(),
            "selector": (!service.selector.is_empty()).then_some(&service.selector),
            "externalIPs": (!service.external_ips.is_empty()).then_some(&service.external_ips),
            "loadBalancerSourceRanges": (!service.source_ranges.is_empty()).then(|| words(&service.source_ranges)),
            "allocateLoadBalancerNodePorts": (is_balanced && !has_node_ports).then_some(false),
            "externalTrafficPolicy": (is_external || !service.external_ips.is_empty()).then(|| external_policy(service)),
            "internalTrafficPolicy": match service.internal_traffic_policy {
                InternalTrafficPolicy::Cluster => "Cluster",
                InternalTrafficPolicy::Local => "Local",
            },
            "sessionAffinity": service.affinity_seconds.map_or("None", |_| "ClientIP"),
            "sessionAffinityConfig": service.affinity_seconds.map(|seconds| json!({"clientIP": {"timeoutSeconds": seconds}})),
            "healthCheckNodePort": service.health_check_node_port,
            "publishNotReadyAddresses": service.publish_not_ready_addresses.then_some(true),
            "trafficDistribution": service.traffic_distribution,
        },
        "status": {"loadBalancer": {"ingress": (!ingress.is_empty()).then_some(ingress)}},
    })
}

fn kind(kind: ServiceType) -> &'static str {
    match kind {
        ServiceType::ClusterIp => "ClusterIP",
        ServiceType::NodePort => "NodePort",
        ServiceType::LoadBalancer => "LoadBalancer",
        ServiceType::ExternalName => "ExternalName",
    }
}

fn external_policy(service: &Service) -> &'static str {
    match service.external_traffic_policy {
        ExternalTrafficPolicy::Cluster => "Cluster",
        ExternalTrafficPolicy::Local => "Local",
    }
}

fn service_port(port: &ServicePort) -> Value {
    let target = port.target_port.as_deref().map(|target| match target.parse::<u16>() {
        Ok(number) => json!(number),
        Err(_) => json!(target),
    });
    json!({
        "name": (!port.name.is_empty()).then_some(&port.name),
        "protocol": port.protocol.to_string().to_uppercase(),
        "port": port.port,
        "targetPort": target,
        "nodePort": port.node_port,
    })
}

fn slice(slice: &EndpointSlice) -> Value {
    let ports = slice.ports.iter().map(
        |port| json!({"name": port.name, "protocol": port.protocol.to_string().to_uppercase(), "port": port.port}),
    );
    let labels = json!({"kubernetes.io/service-name": slice.service.name});
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata(&slice.name, labels, Value::Null),
        "addressType": slice.family.to_string(),
        "ports": ports.collect::<Vec<_>>(),
        "endpoints": slice.endpoints.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

fn endpoint(endpoint: &Endpoint) -> Value {
    let names = |list: &[String]| list.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
    let hints = json!({
        "forZones": endpoint.zone_hints.as_deref().map(names),
        "forNodes": endpoint.node_hints.as_deref().map(names),
    });
    json!({
        "addresses": endpoint.addresses,
        "conditions": {"ready": endpoint.ready, "serving": endpoint.serving, "terminating": endpoint.terminating},
        "nodeName": endpoint.node,
        "zone": endpoint.zone,
        "hints": (endpoint.zone_hints.is_some() || endpoint.node_hints.is_some()).then_some(hints),
        "targetRef": endpoint.pod.as_ref().map(|pod| json!({"kind": "Pod", "namespace": pod.namespace, "name": pod.name})),
    })
}

fn metadata(name: &ObjectName, labels: Value, annotations: Value) -> Value {
    json!({"namespace": name.namespace, "name": name.name, "labels": labels, "annotations": annotations})
}

fn words<T: ToString>(all: &[T]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

/// Removes the fields without a value.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name, without_nulls(value))).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use svclab_rules::cluster::objects::{self as facts, Reading};

    use super::*;
    use crate::each_file::each_file;
    use crate::scenario;

    /// The objects, read back from the API, give the cluster that rules are generated for.
    #[test]
    fn objects_are_read_as_the_cluster_that_they_were_written_from() {
        each_file(&["../scenarios/*/*.yaml"], |file| {
            if !file.iter().any(|folder| folder == "invalid" || folder == "manifests") {
                assert_read_as_written(file);
            }
        });
    }

    fn assert_read_as_written(file: &Path) {
        let scenario = scenario::load(file).unwrap_or_else(|errors| panic!("{errors}"));
        for state in scenario.states() {
            let (mut nodes, mut services, mut slices) = (Vec::new(), Vec::new(), Vec::new());
            for object in objects(state) {
                match object["kind"].as_str() {
                    Some("Node") => {
                        nodes.push(facts::node(&serde_json::from_value(object).expect("a Node")).expect("valid"))
                    }
                    Some("Service") => {
                        let object = serde_json::from_value(object).expect("a Service");
                        services.push(facts::service_within(&object, 1..=u16::MAX).expect("valid"));
                    }
                    Some("EndpointSlice") => {
                        let object = serde_json::from_value(object).expect("an EndpointSlice");
                        let read = facts::endpoint_slice(&object).expect("valid");
                        let Reading::Kept(slice) = read else { panic!("it is ignored") };
                        slices.push(slice);
                    }
                    kind => assert_eq!(kind, Some("ServiceCIDR")),
                }
            }
            let expected = state.nodes.iter().map(|node| Node { hostname_override: None, ..node.clone() });
            assert_eq!(nodes, expected.collect::<Vec<_>>());
            assert_eq!(services, state.services);
            assert_eq!(slices, state.slices);
        }
    }
}
