//! The ports of a service.

use std::collections::HashSet;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::*;
use crate::cluster::Protocol;

/// Names, ports and node ports already used by a service, to find duplicates.
#[derive(Default)]
struct Taken {
    names: HashSet<String>,
    ports: HashSet<(Protocol, u16)>,
    node_ports: HashSet<(Protocol, u16)>,
}

/// `spec.ports`.
pub(super) fn ports(
    checker: &mut Checker,
    spec: &core::ServiceSpec,
    kind: ServiceType,
    headless: bool,
) -> Vec<ServicePort> {
    let listed = spec.ports.as_deref().unwrap_or_default();
    if listed.is_empty() && !headless && kind != ServiceType::ExternalName {
        checker.reject("spec.ports", "are missing", "Give the service at least one port.");
    }
    let mut ports: Vec<ServicePort> = Vec::new();
    let mut taken = Taken::default();
    for (index, given) in listed.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let name = given.name.clone().unwrap_or_default();
        port_name(checker, &path, &name, listed.len() > 1, &taken);
        let protocol = checker.protocol(format!("{path}.protocol"), given.protocol.as_deref());
        let target_port = target_port(checker, &path, given);
        let node_port = node_port(checker, &path, given, kind);
        let Some(number) = checker.port(format!("{path}.port"), given.port) else { continue };
        let port = ServicePort { name, protocol, port: number, node_port, target_port };
        collisions(checker, &path, &port, &mut taken);
        ports.push(port);
    }
    ports
}

fn port_name(checker: &mut Checker, path: &str, name: &str, several: bool, taken: &Taken) {
    let path = format!("{path}.name");
    if name.is_empty() {
        if several {
            checker.reject(path, "is missing", "Name every port if a service has more than one.");
        }
        return;
    }
    checker.name(path.as_str(), name, Syntax::Dns1123Label);
    if taken.names.contains(name) {
        let message = format!("the name `{name}` is already used by another port of this service");
        checker.reject(path, message, "Give every port a name of its own.");
    }
}

fn collisions(checker: &mut Checker, path: &str, port: &ServicePort, taken: &mut Taken) {
    let ServicePort { name, protocol, port: number, node_port, .. } = port;
    taken.names.insert(name.clone());
    if !taken.ports.insert((*protocol, *number)) {
        let message = format!("port {number}/{protocol} is listed twice");
        checker.reject(format!("{path}.port"), message, "Remove one of the two, or change its port or protocol.");
    }
    if let Some(number) = node_port.filter(|number| !taken.node_ports.insert((*protocol, *number))) {
        let message = format!("node port {number}/{protocol} is listed twice");
        checker.reject(format!("{path}.nodePort"), message, "Give every port a node port of its own.");
    }
}

fn target_port(checker: &mut Checker, path: &str, given: &core::ServicePort) -> Option<String> {
    let path = format!("{path}.targetPort");
    match given.target_port.as_ref()? {
        IntOrString::Int(0) => None,
        IntOrString::Int(number) => checker.port(path, *number).map(|port| port.to_string()),
        IntOrString::String(name) => {
            checker.name(path, name, Syntax::PortName);
            Some(name.clone())
        }
    }
}

fn node_port(checker: &mut Checker, path: &str, given: &core::ServicePort, kind: ServiceType) -> Option<u16> {
    let number = given.node_port.filter(|number| *number != 0)?;
    let path = format!("{path}.nodePort");
    if !matches!(kind, ServiceType::NodePort | ServiceType::LoadBalancer) {
        let help = "Omit it, or set `type` to NodePort or LoadBalancer.";
        checker.reject(path.as_str(), "is set for a Service that has no node ports", help);
    }
    checker.node_port(path, number)
}
