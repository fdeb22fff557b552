//! Printing of nodes, pods and Services.

use std::collections::BTreeMap;

use svclab_rules::cluster::{
    ExternalTrafficPolicy, InternalTrafficPolicy, IpMode, Node, ObjectName, Pod, Service, ServicePort, ServiceType,
};

use super::{addresses, field, named, protocol, words};
use crate::scenario::model::Setting;
use crate::yaml::{Fields, Item, texts};

pub(super) fn node(node: &Node, sysctls: Option<&BTreeMap<String, Setting>>, program: Option<&String>) -> Item {
    let ranges = (!node.pod_cidrs.is_empty()).then(|| field("podCIDRs", words(&node.pod_cidrs)));
    let labels = (!node.labels.is_empty()).then(|| field("labels", texts(&node.labels)));
    let other_name = node.hostname_override.as_deref().map(|name| field("hostnameOverride", name));
    let settings = sysctls.filter(|settings| !settings.is_empty()).map(|settings| {
        let settings: Fields = settings.iter().map(|(name, setting)| field(name, setting.value.as_str())).collect();
        field("sysctls", settings)
    });
    let [own, external] = [addresses("ips", &node.internal_ips), addresses("externalIPs", &node.external_ips)];
    let program = program.map(|name| field("proxy", vec![field("program", name.as_str())]));
    named(&node.name, [own, external, ranges, labels, other_name, settings, program])
}

fn namespace(name: &ObjectName) -> Option<(String, Item)> {
    (name.namespace != "default").then(|| field("namespace", name.namespace.as_str()))
}

pub(super) fn pod(pod: &Pod) -> Item {
    let port = |port: &svclab_rules::cluster::ContainerPort| {
        let fields = [
            port.name.as_deref().map(|name| field("name", name)),
            Some(field("containerPort", port.port)),
            protocol(port.protocol),
            port.host_port.map(|number| field("hostPort", number)),
        ];
        Item::Map(fields.into_iter().flatten().collect())
    };
    let ports: Vec<Item> = pod.ports.iter().map(port).collect();
    let own = [
        namespace(&pod.name),
        Some(field("node", pod.node.as_str())),
        addresses("ips", &pod.ips),
        pod.host_network.then(|| field("hostNetwork", true)),
        (!ports.is_empty()).then(|| field("ports", ports)),
    ];
    named(&pod.name.name, own)
}

pub(super) fn service(service: &Service) -> Item {
    let is_balanced = service.kind == ServiceType::LoadBalancer;
    let has_node_ports = service.ports.iter().any(|port| port.node_port.is_some());
    let kind = match service.kind {
        ServiceType::ClusterIp => None,
        ServiceType::NodePort => Some("NodePort"),
        ServiceType::LoadBalancer => Some("LoadBalancer"),
        ServiceType::ExternalName => Some("ExternalName"),
    };
    let ingress = (!service.load_balancer.is_empty()).then(|| {
        let one = |ingress: &svclab_rules::cluster::LoadBalancerIngress| {
            let mode = (ingress.mode == IpMode::Proxy).then(|| field("ipMode", "Proxy"));
            Item::Map([Some(field("ip", ingress.ip.to_string())), mode].into_iter().flatten().collect())
        };
        let list: Vec<Item> = service.load_balancer.iter().map(one).collect();
        field("status", vec![field("loadBalancer", vec![field("ingress", list)])])
    });
    let affinity = service.affinity_seconds.map(|seconds| {
        let timeout = vec![field("timeoutSeconds", seconds)];
        field("sessionAffinityConfig", vec![field("clientIP", timeout)])
    });
    let is_local = |local: bool, name: &str| local.then(|| field(name, "Local"));
    let fields = [
        namespace(&service.name),
        kind.map(|kind| field("type", kind)),
        (service.kind == ServiceType::ExternalName).then(|| field("externalName", "name.invalid")),
        service.headless.then(|| field("clusterIP", "None")),
        addresses("clusterIPs", &service.cluster_ips),
        (!service.families.is_empty()).then(|| field("ipFamilies", words(&service.families))),
        (service.families.len() > 1).then(|| field("ipFamilyPolicy", "RequireDualStack")),
        (!service.ports.is_empty()).then(|| field("ports", service.ports.iter().map(port).collect::<Vec<_>>())),
        addresses("externalIPs", &service.external_ips),
        ingress,
        (is_balanced && !has_node_ports).then(|| field("allocateLoadBalancerNodePorts", false)),
        (!service.source_ranges.is_empty()).then(|| field("loadBalancerSourceRanges", words(&service.source_ranges))),
        is_local(service.external_traffic_policy == ExternalTrafficPolicy::Local, "externalTrafficPolicy"),
        service.health_check_node_port.map(|number| field("healthCheckNodePort", number)),
        is_local(service.internal_traffic_policy == InternalTrafficPolicy::Local, "internalTrafficPolicy"),
        service.affinity_seconds.map(|_| field("sessionAffinity", "ClientIP")),
        affinity,
        service.publish_not_ready_addresses.then(|| field("publishNotReadyAddresses", true)),
        service.traffic_distribution.as_deref().map(|word| field("trafficDistribution", word)),
        (!service.labels.is_empty()).then(|| field("labels", texts(&service.labels))),
        (!service.annotations.is_empty()).then(|| field("annotations", texts(&service.annotations))),
    ];
    named(&service.name.name, fields)
}

fn port(port: &ServicePort) -> Item {
    let target = port.target_port.as_deref().map(|target| match target.parse::<u16>() {
        Ok(number) => field("targetPort", number),
        Err(_) => field("targetPort", target),
    });
    let fields = [
        (!port.name.is_empty()).then(|| field("name", port.name.as_str())),
        protocol(port.protocol),
        Some(field("port", port.port)),
        target,
        port.node_port.map(|number| field("nodePort", number)),
    ];
    Item::Map(fields.into_iter().flatten().collect())
}
