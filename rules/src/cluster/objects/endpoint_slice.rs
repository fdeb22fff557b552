//! EndpointSlices.

use std::collections::HashSet;
use std::net::IpAddr;

use k8s_openapi::api::discovery::v1 as discovery;

use super::super::service::NOT_FOR_KUBE_PROXY;
use super::super::{Endpoint, EndpointPort, EndpointSlice, Family, ObjectName};
use super::checker::{Checker, FieldError, name_of, pod_of};
use super::notes::{Note, Reading};
use super::syntax::Syntax;

/// The label with the name of the service that a slice belongs to.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Reads a slice from its object; ignored if its addresses are host names or it belongs to no service.
///
/// # Errors
///
/// Every field that the API server would reject.
pub fn endpoint_slice(object: &discovery::EndpointSlice) -> Result<Reading<EndpointSlice>, Vec<FieldError>> {
    let name = name_of(&object.metadata);
    let mut checker = Checker::new("EndpointSlice", &name);
    checker.object_name(&name, Syntax::Dns1123Subdomain);
    let service = object.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_NAME)).filter(|s| !s.is_empty());
    let types = [("IPv4", Some(Family::Ipv4)), ("IPv6", Some(Family::Ipv6)), ("FQDN", None)];
    let family = checker.choice("addressType", Some(object.address_type.as_str()), &types);
    let ports = ports(&mut checker, object.ports.as_deref().unwrap_or_default());
    let labels = object.metadata.labels.as_ref();
    let other_proxy =
        labels.and_then(|labels| NOT_FOR_KUBE_PROXY.into_iter().find(|label| labels.contains_key(*label)));
    let (Some(family), Some(service), None) = (family, service, other_proxy) else {
        let reason = match (family, other_proxy) {
            (None, _) => "its addresses are host names (addressType FQDN)".to_owned(),
            (_, Some(label)) => format!("because of its label {label} kube-proxy ignores it"),
            (Some(_), None) => format!("it has no label {SERVICE_NAME}"),
        };
        return checker.finish(Reading::Ignored(Note::new(format!("EndpointSlice {name}"), "has no rules", reason)));
    };
    let service = ObjectName::new(&name.namespace, service);
    let listed = object.endpoints.as_deref().unwrap_or_default();
    let endpoints =
        listed.iter().enumerate().map(|(index, given)| endpoint(&mut checker, family, index, given)).collect();
    let slice = EndpointSlice { service, family, ports, endpoints, name };
    checker.finish(Reading::Kept(slice))
}

fn ports(checker: &mut Checker, listed: &[discovery::EndpointPort]) -> Vec<EndpointPort> {
    let mut ports: Vec<EndpointPort> = Vec::with_capacity(listed.len());
    let mut taken: HashSet<&str> = HashSet::new();
    for (index, given) in listed.iter().enumerate() {
        let path = format!("ports[{index}]");
        let name = given.name.clone().unwrap_or_default();
        if !name.is_empty() {
            checker.name(format!("{path}.name"), &name, Syntax::Dns1123Label);
        }
        if !taken.insert(given.name.as_deref().unwrap_or_default()) {
            let message = format!("the name `{name}` is already used by another port of the slice");
            checker.reject(format!("{path}.name"), message, "Give every port of a slice a name of its own.");
        }
        let protocol = checker.protocol(format!("{path}.protocol"), given.protocol.as_deref());
        let port = given.port.and_then(|number| checker.port(format!("{path}.port"), number));
        ports.push(EndpointPort { name, protocol, port });
    }
    ports
}

fn endpoint(checker: &mut Checker, family: Family, index: usize, given: &discovery::Endpoint) -> Endpoint {
    let conditions = given.conditions.clone().unwrap_or_default();
    let hints = given.hints.as_ref();
    let ready = conditions.ready.unwrap_or(true);
    Endpoint {
        addresses: addresses(checker, family, index, &given.addresses),
        ready,
        serving: conditions.serving,
        terminating: conditions.terminating.unwrap_or(false),
        node: given.node_name.clone(),
        zone: given.zone.clone(),
        zone_hints: hints
            .and_then(|hints| hints.for_zones.as_ref())
            .map(|zones| zones.iter().map(|zone| zone.name.clone()).collect()),
        node_hints: hints
            .and_then(|hints| hints.for_nodes.as_ref())
            .map(|nodes| nodes.iter().map(|node| node.name.clone()).collect()),
        pod: pod_of(given.target_ref.as_ref()),
    }
}

fn addresses(checker: &mut Checker, family: Family, index: usize, listed: &[String]) -> Vec<IpAddr> {
    if listed.is_empty() {
        let path = format!("endpoints[{index}].addresses");
        checker.reject(path, "an endpoint without an address", "Give every endpoint at least one address.");
    }
    let mut addresses = Vec::new();
    for (position, text) in listed.iter().enumerate() {
        let path = format!("endpoints[{index}].addresses[{position}]");
        let Some(address) = checker.reachable_address(path.as_str(), text) else { continue };
        if Family::of(address) != family {
            let message = format!("`{address}` is not an {family} address, but addressType is {family}");
            checker.reject(path, message, "Put IPv4 and IPv6 endpoints into slices of their own.");
        }
        addresses.push(address);
    }
    addresses
}
