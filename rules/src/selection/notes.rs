//! Notes on what kube-proxy ignores, and why.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use super::endpoints::serves_while_terminating;
use crate::cluster::objects::Note;
use crate::cluster::{Cluster, Endpoint, EndpointSlice, Family, IpMode, ObjectName, Protocol, Service};
use crate::profile::Profile;

#[cfg(test)]
mod tests;

/// Returns notes on the Services and EndpointSlices of a cluster, or parts of them, for which kube-proxy of a release writes no rules.
///
/// A Service without any rules has one note, and its slices have none.
pub fn notes(cluster: &Cluster, profile: Profile) -> Vec<Note> {
    let mut slices: HashMap<&ObjectName, Vec<&EndpointSlice>> = HashMap::new();
    cluster.slices.iter().for_each(|slice| slices.entry(&slice.service).or_default().push(slice));
    let mut notes = Vec::new();
    for service in &cluster.services {
        let slices = slices.remove(&service.name).unwrap_or_default();
        match service.skipped() {
            Some(reason) => notes.push(Note::new(format!("Service {}", service.name), "has no rules", reason)),
            None => {
                let ip_mode = profile.ip_mode(&cluster.proxy);
                OfService { service, notes: &mut notes }.all(&slices, ip_mode);
                slices.iter().for_each(|slice| OfSlice { slice, notes: &mut notes }.all(service));
            }
        }
    }
    for slice in cluster.slices.iter().filter(|slice| slices.contains_key(&slice.service)) {
        OfSlice { slice, notes: &mut notes }.note("has no rules", format!("there is no service {}", slice.service));
    }
    notes
}

/// Notes on a Service with rules. Its ports are matched with ports of the same name and protocol in a slice (`endpointslicecache.go` in
/// kube-proxy).
struct OfService<'n> {
    service: &'n Service,
    notes: &'n mut Vec<Note>,
}

impl OfService<'_> {
    fn note(&mut self, effect: impl Into<String>, reason: impl Into<String>) {
        self.notes.push(Note::new(format!("Service {}", self.service.name), effect, reason));
    }

    fn all(&mut self, slices: &[&EndpointSlice], ip_mode: bool) {
        let service = self.service;
        for ip in &service.external_ips {
            self.family_of(*ip, format!("is not reached at its external IP {ip}"));
        }
        for entry in &service.load_balancer {
            let effect = format!("is not reached at its load balancer's IP {}", entry.ip);
            if ip_mode && entry.mode == IpMode::Proxy {
                self.note(effect, "its ipMode is Proxy: the load balancer sends to node ports or endpoints");
            } else {
                self.family_of(entry.ip, effect);
            }
        }
        for range in &service.source_ranges {
            self.family_of(range.addr(), format!("ignores its source range {range}"));
        }
        for family in service.cluster_ips.iter().copied().map(Family::of) {
            let of_family: Vec<_> =
                slices.iter().filter(|slice| slice.family == family && !slice.endpoints.is_empty()).collect();
            if of_family.is_empty() {
                self.note(format!("has no {family} endpoints"), format!("no {family} EndpointSlice lists any"));
                continue;
            }
            let numbered = of_family.iter().flat_map(|slice| &slice.ports).filter(|port| port.port.is_some());
            let served: HashSet<(&str, Protocol)> = numbered.map(|port| (port.name.as_str(), port.protocol)).collect();
            for port in &service.ports {
                if !served.contains(&(&port.name, port.protocol)) {
                    let reason = format!("no EndpointSlice of it has {}", called(&port.name, port.protocol));
                    self.note(format!("has no {family} endpoints on port {}", port.port), reason);
                }
            }
        }
    }

    /// Adds a note on an address of a family in which the service has no cluster IP.
    fn family_of(&mut self, ip: IpAddr, effect: String) {
        let family = Family::of(ip);
        if self.service.cluster_ip(family).is_none() {
            self.note(effect, format!("it has no {family} cluster IP"));
        }
    }
}

/// Notes on an EndpointSlice.
struct OfSlice<'n> {
    slice: &'n EndpointSlice,
    notes: &'n mut Vec<Note>,
}

impl OfSlice<'_> {
    fn note(&mut self, effect: impl Into<String>, reason: impl Into<String>) {
        self.notes.push(Note::new(format!("EndpointSlice {}", self.slice.name), effect, reason));
    }

    fn all(&mut self, service: &Service) {
        let slice = self.slice;
        if service.cluster_ip(slice.family).is_none() {
            self.note("has no rules", format!("service {} has no {} cluster IP", service.name, slice.family));
            return;
        }
        let known: HashSet<(&str, Protocol)> =
            service.ports.iter().map(|port| (port.name.as_str(), port.protocol)).collect();
        for port in &slice.ports {
            let called = called(&port.name, port.protocol);
            if port.port.is_none() {
                self.note(format!("does not serve {called}"), "the port number is unset (all ports)");
            } else if !known.contains(&(&port.name, port.protocol)) {
                self.note(format!("does not serve {called}"), format!("service {} has no such port", service.name));
            }
        }
        for endpoint in &slice.endpoints {
            let Some((first, others)) = endpoint.addresses.split_first() else { continue };
            if let Some(reason) = unused(endpoint) {
                self.note(format!("does not use {first}"), reason);
            }
            for other in others {
                self.note(format!("does not use {other}"), "only the first address of an endpoint counts");
            }
        }
    }
}

fn called(name: &str, protocol: impl std::fmt::Display) -> String {
    if name.is_empty() { format!("a {protocol} port without a name") } else { format!("a {protocol} port `{name}`") }
}

/// Returns why an endpoint gets no traffic, if it does not.
fn unused(endpoint: &Endpoint) -> Option<&'static str> {
    match (endpoint.ready, endpoint.terminating) {
        (true, _) => None,
        (false, true) if serves_while_terminating(endpoint) => {
            Some("it is terminating, and is used at most if no endpoint is ready")
        }
        (false, true) => Some("it is terminating"),
        (false, false) => Some("it is not ready"),
    }
}
