//! Pods.

use std::net::IpAddr;

use k8s_openapi::api::core::v1 as core;

use super::super::{ContainerPort, Family, Pod};
use super::checker::{Checker, FieldError, name_of};
use super::notes::{Note, Reading};
use super::syntax::Syntax;

/// Reads a pod from its object; ignored if it has no node or address, or has terminated.
///
/// # Errors
///
/// Every field that the API server would reject.
pub fn pod(object: &core::Pod) -> Result<Reading<Pod>, Vec<FieldError>> {
    let name = name_of(&object.metadata);
    let mut checker = Checker::new("Pod", &name);
    checker.object_name(&name, Syntax::Dns1123Subdomain);
    let spec = object.spec.as_ref();
    let pod = Pod {
        node: spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        ips: addresses(&mut checker, object),
        host_network: spec.and_then(|spec| spec.host_network).unwrap_or_default(),
        labels: object.metadata.labels.clone().unwrap_or_default(),
        ports: container_ports(&mut checker, object),
        name,
    };
    let phase = object.status.as_ref().and_then(|status| status.phase.as_deref());
    let ignored = match phase {
        Some("Succeeded" | "Failed") => Some("it has ended"),
        _ if pod.node.is_empty() => Some("it is on no node"),
        _ if pod.ips.is_empty() => Some("it has no address"),
        _ => None,
    };
    checker.finish(match ignored {
        Some(reason) => Reading::Ignored(Note::new(format!("Pod {}", pod.name), "is left out", reason)),
        None => Reading::Kept(pod),
    })
}

fn addresses(checker: &mut Checker, object: &core::Pod) -> Vec<IpAddr> {
    let Some(status) = &object.status else { return Vec::new() };
    let list = status.pod_ips.as_deref().unwrap_or_default();
    if list.is_empty() {
        let only = status.pod_ip.as_deref().filter(|text| !text.is_empty());
        return only.and_then(|text| checker.address("status.podIP", text)).into_iter().collect();
    }
    let parsed: Vec<IpAddr> = list
        .iter()
        .enumerate()
        .filter_map(|(index, pod_ip)| checker.address(format!("status.podIPs[{index}].ip"), &pod_ip.ip))
        .collect();
    let families: Vec<_> = parsed.iter().copied().map(Family::of).collect();
    checker.one_of_each_family("status.podIPs", &families);
    parsed
}

fn container_ports(checker: &mut Checker, object: &core::Pod) -> Vec<ContainerPort> {
    let containers = object.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let mut ports = Vec::new();
    for (container_index, container) in containers.iter().enumerate() {
        for (index, port) in container.ports.iter().flatten().enumerate() {
            let path = format!("spec.containers[{container_index}].ports[{index}]");
            if let Some(name) = &port.name {
                checker.name(format!("{path}.name"), name, Syntax::PortName);
            }
            let protocol = checker.protocol(format!("{path}.protocol"), port.protocol.as_deref());
            let given = port.host_port.filter(|number| *number != 0);
            let host_port = given.and_then(|number| checker.port(format!("{path}.hostPort"), number));
            let Some(number) = checker.port(format!("{path}.containerPort"), port.container_port) else { continue };
            ports.push(ContainerPort { name: port.name.clone(), protocol, port: number, host_port });
        }
    }
    ports
}
