//! Ports by number and by name.

use svclab_rules::cluster::{Pod, Service, ServicePort};

use super::findings::Findings;
use crate::scenario::model::short_name;
use crate::yaml::{At, Place};

/// Parses a port number.
pub(super) fn port_number(text: &str, at: At<'_>, findings: &mut Findings) -> Option<u16> {
    if !is_number(text) {
        findings.wrong(at, format!("invalid port `{text}`"), "Use a number from 1 to 65535.");
        return None;
    }
    let number = text.parse().ok().filter(|number| *number != 0);
    if number.is_none() {
        findings.wrong(at, format!("port {text} is out of range"), "Ports are numbers from 1 to 65535.");
    }
    number
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the ports for a number or name; several if the same number is used with several protocols.
pub(super) fn service_ports<'s>(
    service: &'s Service,
    text: &str,
    at: At<'_>,
    findings: &mut Findings,
) -> Option<Vec<&'s ServicePort>> {
    let number: Option<u16> = text.parse().ok();
    let named: Vec<_> = service.ports.iter().filter(|port| port.name == text).collect();
    let numbered = || service.ports.iter().filter(|port| Some(port.port) == number).collect();
    let ports: Vec<_> = if named.is_empty() { numbered() } else { named };
    if ports.is_empty() {
        let known: Vec<String> =
            service
                .ports
                .iter()
                .map(|port| {
                    if port.name.is_empty() { port.port.to_string() } else { format!("{} ({})", port.port, port.name) }
                })
                .collect();
        let error = at.error(format!("service `{}` has no port `{text}`", short_name(&service.name)));
        findings.add(error.help(format!("Its ports are {}.", known.join(", "))));
        return None;
    }
    Some(ports)
}

/// Returns the port of a pod for a number or name.
pub(super) fn container_port(pod: &Pod, text: &str, at: At<'_>, findings: &mut Findings) -> Option<u16> {
    if is_number(text) {
        return port_number(text, at, findings);
    }
    let found = pod.ports.iter().find(|port| port.name.as_deref() == Some(text)).map(|port| port.port);
    if found.is_none() {
        let message = format!("pod `{}` has no port `{text}`", short_name(&pod.name));
        findings.wrong(at, message, "Use the port's number, or add a port with this name to the pod.");
    }
    found
}
