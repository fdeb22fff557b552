//! Endpoints: from short entries, or from the pods matched by a Service's selector.

use std::net::IpAddr;

use svclab_rules::cluster::{
    ContainerPort, Endpoint, EndpointPort, EndpointSlice, Family, Node, ObjectName, Pod, Protocol, Service, ServicePort,
};

use super::findings::Findings;
use super::located::Located;
use super::objects::Objects;
use super::pods::{PodState, named};
use crate::input::did_you_mean;
use crate::scenario::schema::{RawConditions, RawEndpoint, RawEndpointPort, RawEndpoints, RawHints, RawNamed};
use crate::yaml::At;

/// An endpoint and its ports.
struct Member {
    endpoint: Endpoint,
    ports: Vec<EndpointPort>,
}

/// Returns namespace and name of the Service of an entry.
pub(crate) fn service_of(raw: &RawEndpoints) -> ObjectName {
    object_name(&raw.service)
}

/// `NAME` or `NAMESPACE/NAME`.
pub(crate) fn object_name(text: &str) -> ObjectName {
    match text.split_once('/') {
        Some((namespace, name)) => ObjectName::new(namespace, name),
        None => ObjectName::new("default", text),
    }
}

/// Returns the slices of a Service that has no slices in manifests.
pub(crate) fn slices(
    objects: &Objects<'_>,
    service: &Located<'_, Service>,
    entries: &[&Located<'_, &RawEndpoints>],
    findings: &mut Findings,
) -> Vec<EndpointSlice> {
    let lookup = Lookup { objects, service };
    let mut members = Vec::new();
    if entries.is_empty() {
        members.extend(lookup.selected(findings));
    }
    for entry in entries {
        members.extend(lookup.entry(entry.value, entry.at, findings));
    }
    into_slices(&service.value.name, members)
}

struct Lookup<'s, 'a> {
    objects: &'s Objects<'a>,
    service: &'s Located<'s, Service>,
}

impl Lookup<'_, '_> {
    /// Returns the pods that the selector matches, as in the EndpointSlice controller.
    fn selected(&self, findings: &mut Findings) -> Vec<Member> {
        let service = &self.service.value;
        if service.selector.is_empty() {
            return Vec::new();
        }
        let pods: Vec<_> = self.objects.pods.iter().filter(|pod| service.selects(&pod.value.pod)).collect();
        if pods.is_empty() {
            let message = format!("no pod matches the selector of {}, so it has no endpoints", service.name);
            findings.doubt(self.service.field("spec.selector"), message);
        } else {
            self.doubt_names(&pods, findings);
        }
        pods.into_iter()
            .flat_map(|pod| self.pod_members(&pod.value, &RawEndpoint::default(), self.service.at, findings))
            .collect()
    }

    /// Adds a note on port names that no pod of a Service has: they are omitted, as in the EndpointSlice controller.
    fn doubt_names(&self, pods: &[&Located<'_, PodState>], findings: &mut Findings) {
        let service = &self.service.value;
        let all: Vec<&ContainerPort> = pods.iter().flat_map(|pod| &pod.value.pod.ports).collect();
        let mut names: Vec<&str> = all.iter().filter_map(|port| port.name.as_deref()).collect();
        // All replicas have the same ports.
        names.sort_unstable();
        names.dedup();
        for (index, port) in service.ports.iter().enumerate() {
            let Some(name) = port.target_port.as_deref().filter(|name| name.parse::<u16>().is_err()) else { continue };
            if !all.iter().any(|own| own.name.as_deref() == Some(name) && own.protocol == port.protocol) {
                let at = self.service.field(&format!("spec.ports[{index}].targetPort"));
                let question =
                    did_you_mean(name, &names).map(|question| format!("; {}", question.replacen('D', "d", 1)));
                let question = question.unwrap_or_default();
                let protocol = port.protocol;
                let what = format!("no pod that {} selects has a {protocol} port `{name}`", service.name);
                findings.doubt(at, format!("{what}, so its port {} has no endpoints{question}", port.port));
            }
        }
    }

    fn entry(&self, raw: &RawEndpoints, at: At<'_>, findings: &mut Findings) -> Vec<Member> {
        let mut members = Vec::new();
        let shared = RawEndpoint {
            addresses: None,
            pod: None,
            conditions: raw.conditions,
            node_name: raw.node_name.clone(),
            zone: raw.zone.clone(),
            hints: raw.hints.clone(),
        };
        for (index, name) in raw.pods.iter().flatten().enumerate() {
            members.extend(self.pod(name, &shared, at.field("pods").item(index), findings));
        }
        for (index, address) in raw.addresses.iter().flatten().enumerate() {
            let at = at.field("addresses").item(index);
            members.extend(self.addresses(std::slice::from_ref(address), &shared, at, findings));
        }
        for (index, own) in raw.endpoints.iter().flatten().enumerate() {
            let at = at.field("endpoints").item(index);
            match (&own.pod, &own.addresses) {
                (Some(pod), None) => members.extend(self.pod(pod, own, at.field("pod"), findings)),
                (None, Some(list)) => members.extend(self.addresses(list, own, at.field("addresses"), findings)),
                _ => findings.wrong(at, "an endpoint needs either `addresses` or `pod`", "Set exactly one of them."),
            }
        }
        if let Some(family) = raw.address_type.map(Family::from) {
            check_families(family, raw, at, findings);
            members.retain(|member| member.endpoint.addresses.first().copied().map(Family::of) == Some(family));
        }
        if let Some(ports) = &raw.ports {
            let ports = explicit_ports(ports, at.field("ports"), findings);
            members.iter_mut().for_each(|member| member.ports.clone_from(&ports));
        } else {
            let unnamed = members.iter().position(|member| member.ports.len() < self.service.value.ports.len());
            if let Some(port) = unnamed.and_then(|index| self.unresolved(&members[index])) {
                let message = format!("not every endpoint has a port named `{port}`, the targetPort");
                findings.wrong(
                    at,
                    message,
                    "Add a port with this name to the pods, or list the `ports` of the endpoints.",
                );
            }
        }
        members
    }

    /// Returns the targetPort of the first port that a member does not serve.
    fn unresolved(&self, member: &Member) -> Option<String> {
        let served = |name: &str| member.ports.iter().any(|port| port.name == name);
        let port = self.service.value.ports.iter().find(|port| !served(&port.name))?;
        port.target_port.clone()
    }

    /// Returns the endpoints of the pods with a name.
    fn pod(&self, name: &str, own: &RawEndpoint, at: At<'_>, findings: &mut Findings) -> Vec<Member> {
        let wanted = match name.split_once('/') {
            Some((namespace, name)) => ObjectName::new(namespace, name),
            None => ObjectName::new(&self.service.value.name.namespace, name),
        };
        let pods = named(&self.objects.pods, &wanted);
        if pods.is_empty() {
            self.objects.missing_pod(&wanted, at, findings);
        }
        pods.into_iter().flat_map(|pod| self.pod_members(&pod.value, own, at, findings)).collect()
    }

    /// Returns the endpoints of a pod, one for each family of the Service.
    fn pod_members(&self, state: &PodState, own: &RawEndpoint, at: At<'_>, findings: &mut Findings) -> Vec<Member> {
        let families = self.families();
        let ports = target_ports(&self.service.value, Some(&state.pod));
        let implied = RawConditions {
            ready: Some(state.ready && !state.terminating || self.service.value.publish_not_ready_addresses),
            serving: Some(state.ready),
            terminating: Some(state.terminating),
        };
        let conditions = own.conditions.unwrap_or(implied);
        let of_family = state.pod.ips.iter().filter(|ip| families.contains(&Family::of(**ip)));
        of_family
            .map(|ip| {
                let own = RawEndpoint { conditions: Some(conditions), ..own.clone() };
                let endpoint = self.endpoint(vec![*ip], Some(&state.pod), &own, at, findings);
                Member { endpoint, ports: ports.clone() }
            })
            .collect()
    }

    /// Returns one endpoint with these addresses; it belongs to a pod if the first address does.
    fn addresses(&self, texts: &[String], own: &RawEndpoint, at: At<'_>, findings: &mut Findings) -> Option<Member> {
        let parse = |(index, text): (usize, &String)| {
            findings.parsed::<IpAddr>(
                at.item(index),
                text,
                "IP address",
                "an address, for example 10.244.1.5 or fd00:244::5",
            )
        };
        let addresses: Vec<IpAddr> = texts.iter().enumerate().filter_map(parse).collect();
        let first = *addresses.first()?;
        let owner =
            self.objects.pods.iter().find(|pod| !pod.value.pod.host_network && pod.value.pod.ips.contains(&first));
        let pod = owner.map(|pod| &pod.value.pod);
        let endpoint = self.endpoint(addresses, pod, own, at, findings);
        Some(Member { endpoint, ports: target_ports(&self.service.value, pod) })
    }

    fn endpoint(
        &self,
        addresses: Vec<IpAddr>,
        pod: Option<&Pod>,
        own: &RawEndpoint,
        at: At<'_>,
        findings: &mut Findings,
    ) -> Endpoint {
        let conditions = own.conditions.unwrap_or_default();
        let terminating = conditions.terminating.unwrap_or(false);
        let ready = conditions.ready.unwrap_or(!terminating);
        let named = own.node_name.clone().or_else(|| pod.map(|pod| pod.node.clone()));
        let node = named.filter(|name| !name.is_empty());
        let known: Option<&Node> = node.as_ref().and_then(|name| self.objects.node(name));
        if let (Some(name), None, Some(_)) = (&node, known, &own.node_name) {
            self.objects.missing_node(name, at, findings);
        }
        let names = |list: &Option<Vec<RawNamed>>| {
            list.as_ref().map(|list| list.iter().map(|entry| entry.name.clone()).collect())
        };
        let hints: Option<&RawHints> = own.hints.as_ref();
        let zone = own.zone.clone().or_else(|| known.and_then(|node| node.zone()).map(str::to_owned));
        Endpoint {
            addresses,
            ready,
            serving: conditions.serving,
            terminating,
            zone: zone.filter(|zone| !zone.is_empty()),
            node,
            zone_hints: hints.and_then(|hints| names(&hints.for_zones)),
            node_hints: hints.and_then(|hints| names(&hints.for_nodes)),
            pod: pod.map(|pod| pod.name.clone()),
        }
    }

    /// Returns the families of the Service.
    fn families(&self) -> Vec<Family> {
        let service = &self.service.value;
        let of_ips: Vec<Family> = service.cluster_ips.iter().copied().map(Family::of).collect();
        let given = if of_ips.is_empty() { service.families.clone() } else { of_ips };
        if given.is_empty() { Family::ALL.to_vec() } else { given }
    }
}

/// Checks that the addresses of an entry are of its `addressType`. Of a pod, only the address of this family becomes an endpoint.
fn check_families(family: Family, raw: &RawEndpoints, at: At<'_>, findings: &mut Findings) {
    let written = |list: &[String], at: At<'_>, findings: &mut Findings| {
        for (index, text) in list.iter().enumerate() {
            if text.trim().parse::<IpAddr>().is_ok_and(|ip| Family::of(ip) != family) {
                let message = format!("`{text}` is not an {family} address, as `addressType` requires");
                findings.wrong(at.item(index), message, "Move it to a separate entry, or change `addressType`.");
            }
        }
    };
    written(raw.addresses.as_deref().unwrap_or_default(), at.field("addresses"), findings);
    for (index, own) in raw.endpoints.iter().flatten().enumerate() {
        let at = at.field("endpoints").item(index).field("addresses");
        written(own.addresses.as_deref().unwrap_or_default(), at, findings);
    }
}

fn explicit_ports(raw: &[RawEndpointPort], at: At<'_>, findings: &mut Findings) -> Vec<EndpointPort> {
    let mut ports = Vec::new();
    for (index, given) in raw.iter().enumerate() {
        let at = at.item(index);
        let port = u16::try_from(given.port).ok().filter(|port| *port != 0);
        if port.is_none() {
            let message = format!("port {} is out of range", given.port);
            findings.wrong(at.field("port"), message, "Ports are numbers from 1 to 65535.");
        }
        let protocol = match given.protocol.as_deref() {
            None => Protocol::Tcp,
            Some(text) => {
                findings.parsed(at.field("protocol"), text, "protocol", "TCP, UDP or SCTP").unwrap_or_default()
            }
        };
        ports.push(EndpointPort { name: given.name.clone().unwrap_or_default(), protocol, port });
    }
    ports
}

/// Returns the ports of an endpoint by the Service's targetPorts. A name that is not a port of the pod is omitted, as by the
/// EndpointSlice controller.
fn target_ports(service: &Service, pod: Option<&Pod>) -> Vec<EndpointPort> {
    let resolve = |port: &ServicePort| {
        let number = match port.target_port.as_deref() {
            None => Some(port.port),
            Some(text) => text.parse().ok().or_else(|| {
                let of_name = |own: &&ContainerPort| own.name.as_deref() == Some(text) && own.protocol == port.protocol;
                pod?.ports.iter().find(of_name).map(|own| own.port)
            }),
        };
        number.map(|number| EndpointPort { name: port.name.clone(), protocol: port.protocol, port: Some(number) })
    };
    service.ports.iter().filter_map(resolve).collect()
}

/// Groups endpoints by family and ports, as slices require.
fn into_slices(service: &ObjectName, members: Vec<Member>) -> Vec<EndpointSlice> {
    let mut slices: Vec<EndpointSlice> = Vec::new();
    for Member { endpoint, ports } in members {
        let Some(family) = endpoint.addresses.first().copied().map(Family::of) else { continue };
        let fits = |slice: &&mut EndpointSlice| slice.family == family && slice.ports == ports;
        match slices.iter_mut().find(fits) {
            Some(slice) => slice.endpoints.push(endpoint),
            None => {
                let suffix = if family == Family::Ipv4 { "ipv4" } else { "ipv6" };
                let name = format!("{}-{suffix}-{}", service.name, slices.len());
                slices.push(EndpointSlice {
                    name: ObjectName::new(&service.namespace, name),
                    service: service.clone(),
                    family,
                    ports,
                    endpoints: vec![endpoint],
                });
            }
        }
    }
    slices
}
