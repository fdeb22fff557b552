//! Endpoints, the older form of EndpointSlices.

use std::net::IpAddr;

use k8s_openapi::api::core::v1 as core;

use super::super::{Endpoint, EndpointPort, EndpointSlice, Family, ObjectName};
use super::checker::{Checker, FieldError, name_of, pod_of};
use super::syntax::Syntax;

/// Returns the slices that the EndpointSliceMirroring controller creates from an Endpoints object: one for each subset and family. They are
/// named `NAME-ipv4-0`, after the subset's position.
///
/// # Errors
///
/// Every field that the API server would reject.
pub fn endpoints(object: &core::Endpoints) -> Result<Vec<EndpointSlice>, Vec<FieldError>> {
    let name = name_of(&object.metadata);
    let mut checker = Checker::new("Endpoints", &name);
    checker.object_name(&name, Syntax::Dns1123Subdomain);
    let mut slices = Vec::new();
    for (index, subset) in object.subsets.iter().flatten().enumerate() {
        let ports = ports(&mut checker, index, subset.ports.as_deref().unwrap_or_default());
        let endpoints = members(&mut checker, index, subset);
        for family in Family::ALL {
            let of_family: Vec<_> =
                endpoints.iter().filter(|(ip, _)| Family::of(*ip) == family).map(|(_, e)| e.clone()).collect();
            if of_family.is_empty() {
                continue;
            }
            let suffix = match family {
                Family::Ipv4 => "ipv4",
                Family::Ipv6 => "ipv6",
            };
            slices.push(EndpointSlice {
                name: ObjectName::new(&name.namespace, format!("{}-{suffix}-{index}", name.name)),
                service: name.clone(),
                family,
                ports: ports.clone(),
                endpoints: of_family,
            });
        }
    }
    checker.finish(slices)
}

fn ports(checker: &mut Checker, subset: usize, listed: &[core::EndpointPort]) -> Vec<EndpointPort> {
    let several = listed.len() > 1;
    let mut ports = Vec::new();
    for (index, given) in listed.iter().enumerate() {
        let path = format!("subsets[{subset}].ports[{index}]");
        let name = given.name.clone().unwrap_or_default();
        if several || !name.is_empty() {
            checker.name(format!("{path}.name"), &name, Syntax::Dns1123Label);
        }
        let protocol = checker.protocol(format!("{path}.protocol"), given.protocol.as_deref());
        let Some(port) = checker.port(format!("{path}.port"), given.port) else { continue };
        ports.push(EndpointPort { name, protocol, port: Some(port) });
    }
    ports
}

fn members(checker: &mut Checker, subset: usize, given: &core::EndpointSubset) -> Vec<(IpAddr, Endpoint)> {
    let lists = [("addresses", true, &given.addresses), ("notReadyAddresses", false, &given.not_ready_addresses)];
    let mut members = Vec::new();
    for (field, ready, list) in lists {
        for (index, entry) in list.iter().flatten().enumerate() {
            let path = format!("subsets[{subset}].{field}[{index}].ip");
            let Some(ip) = checker.reachable_address(path, &entry.ip) else { continue };
            let endpoint = Endpoint {
                addresses: vec![ip],
                ready,
                serving: Some(ready),
                terminating: false,
                node: entry.node_name.clone(),
                zone: None,
                zone_hints: None,
                node_hints: None,
                pod: pod_of(entry.target_ref.as_ref()),
            };
            members.push((ip, endpoint));
        }
    }
    members
}
