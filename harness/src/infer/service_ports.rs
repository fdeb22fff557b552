//! Service ports of objects, and which of them are those of rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use serde_json::Value;
use svclab_rules::cluster::{ObjectName, Protocol};
use svclab_rules::infer::{Inferred, InferredPort};
use svclab_rules::iptables::ChainHash;

use super::accessors::{has_endpoints, name, own_name, service_ips, service_of};

/// A port of a Service, as an object shows it.
pub(super) struct ServicePort {
    pub(super) service: ObjectName,
    /// The addresses of the Service.
    ips: Vec<IpAddr>,
    protocol: Protocol,
    name: String,
    number: Option<u16>,
    node_port: Option<u16>,
    /// The port of its endpoints, unless it has a name.
    target: Option<u16>,
}

impl fmt::Display for ServicePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(number) => write!(f, "{}:{number}/{}", self.service, self.protocol.as_str()),
            None => write!(f, "{}:{}", self.service, self.name),
        }
    }
}

impl ServicePort {
    /// The ports of Services, which are given as objects.
    pub(super) fn all(services: &[Value]) -> Vec<Self> {
        let of_service = |service: &Value| {
            let ports = service["spec"]["ports"].as_array().cloned().unwrap_or_default();
            let namespace = service["metadata"]["namespace"].as_str().unwrap_or("default");
            let (name, ips) = (ObjectName::new(namespace, own_name(service)), service_ips(service));
            ports.into_iter().map(move |port| Self::of(&name, &ips, &port)).collect::<Vec<_>>()
        };
        services.iter().flat_map(of_service).collect()
    }

    fn of(service: &ObjectName, ips: &[IpAddr], port: &Value) -> Self {
        let number = |field: &str| {
            let number = port[field].as_u64().or_else(|| port[field].as_str()?.parse().ok());
            number.and_then(|number| u16::try_from(number).ok())
        };
        let protocol = match port["protocol"].as_str() {
            Some("UDP") => Protocol::Udp,
            Some("SCTP") => Protocol::Sctp,
            _ => Protocol::Tcp,
        };
        // Without a `targetPort`, endpoints have the Service's port.
        let target = if port["targetPort"].is_null() { number("port") } else { number("targetPort") };
        Self {
            service: service.clone(),
            ips: ips.to_vec(),
            protocol,
            name: port["name"].as_str().unwrap_or_default().to_owned(),
            number: number("port"),
            node_port: number("nodePort"),
            target,
        }
    }

    /// Whether rules that do not name a Service are those of this port: they have the hash of its name, its node port, or its address and port.
    pub(super) fn is_of_rules(&self, port: &InferredPort) -> bool {
        let (service, name) = (&self.service, &self.name);
        let is_hashed = |hash: ChainHash| {
            let names = [format!("{service}:{name}"), service.to_string(), format!("{service}:")];
            names.iter().any(|name| ChainHash::for_service_port(name, self.protocol) == hash)
        };
        let mut own = port.cluster_ips.iter().chain(&port.external_ips).chain(&port.load_balancer);
        let mut has_address = || own.any(|ip| self.ips.contains(ip)) && self.number == port.port;
        port.hash.is_some_and(is_hashed)
            || port.protocol == self.protocol && (self.has_node_port_of(port) || has_address())
    }

    /// Whether rules that name the Service are those of this port, of which they may show the name, the number, or the node port.
    fn is_shown_by(&self, port: &InferredPort) -> bool {
        self.protocol == port.protocol && self.is_same(port) || self.is_of_rules(port)
    }

    fn is_same(&self, port: &InferredPort) -> bool {
        self.has_node_port_of(port)
            || port.port.is_some() && self.number == port.port
            || !port.name.is_empty() && self.name == port.name
    }

    fn has_node_port_of(&self, port: &InferredPort) -> bool {
        self.node_port.is_some() && self.node_port == port.node_port
    }
}

/// Leaves out ports of Services that rules show, but not these ports, and which no list of endpoints has. Returns them, in words.
pub(super) fn leave_out_unshown(services: &mut [Value], endpoints: &[Value], inferred: &Inferred) -> Vec<String> {
    let listed: BTreeSet<String> = endpoints.iter().map(service_of).collect();
    let is_open = |service: &&mut Value| has_endpoints(service) && !listed.contains(&name(service));
    let mut of_rules: BTreeMap<&ObjectName, Vec<&InferredPort>> = BTreeMap::new();
    inferred.ports.iter().for_each(|port| of_rules.entry(&port.service).or_default().push(port));
    let mut left_out = Vec::new();
    for service in services.iter_mut().filter(is_open) {
        let all = ServicePort::all(std::slice::from_ref(service));
        let Some(shown) = all.first().and_then(|first| of_rules.get(&first.service)) else { continue };
        // Rules of a port that none of these is may be those of any.
        if !shown.iter().all(|port| all.iter().any(|own| own.is_shown_by(port))) {
            continue;
        }
        let is_unshown: Vec<bool> = all.iter().map(|own| !shown.iter().any(|port| own.is_shown_by(port))).collect();
        let Some(ports) = service["spec"]["ports"].as_array_mut() else { continue };
        let mut unshown = is_unshown.iter();
        ports.retain(|_| unshown.next() != Some(&true));
        let own = all.iter().zip(&is_unshown).filter(|(_, unshown)| **unshown);
        left_out.extend(own.map(|(own, _)| own.to_string()));
    }
    left_out
}

/// Takes addresses for cluster IPs that objects show to be some: an excerpt of nftables does not say which a dropped address is. The internal
/// policy is Local then.
pub(super) fn adopt_cluster_ips(inferred: &mut Inferred, services: &[(ObjectName, Vec<IpAddr>)]) {
    let known: BTreeSet<IpAddr> = services.iter().flat_map(|(_, ips)| ips).copied().collect();
    for port in &mut inferred.ports {
        let lacks = |ip: &IpAddr| !port.cluster_ips.iter().any(|own| own.is_ipv4() == ip.is_ipv4());
        let own: Vec<IpAddr> = port.external_ips.iter().filter(|ip| known.contains(ip) && lacks(ip)).copied().collect();
        if own.is_empty() {
            continue;
        }
        port.external_ips.retain(|ip| !own.contains(ip));
        port.cluster_ips.extend(own);
        port.is_internal_local |= port.has_endpoints_elsewhere;
        port.is_external_local &=
            !(port.external_ips.is_empty() && port.load_balancer.is_empty() && port.node_port.is_none());
    }
}

/// Completes service ports with what objects show of them: their number, and the port of their endpoints.
pub(super) fn complete(inferred: &mut Inferred, known: &[ServicePort]) {
    for port in &mut inferred.ports {
        let mut own = known.iter().filter(|own| own.service == port.service && own.protocol == port.protocol);
        let only = own.clone().next().filter(|_| own.clone().nth(1).is_none());
        let Some(found) = own.find(|own| own.is_same(port)).or(only) else { continue };
        port.port = port.port.or(found.number);
        port.target = port.target.or(found.target);
    }
}

/// The usual numbers of a service port whose name says what it serves: its own, and that of its endpoints.
pub(super) fn usual_numbers(name: &str) -> Option<(u16, u16)> {
    match name {
        "kube-system/kube-dns:metrics" => Some((9153, 9153)),
        // OpenShift 3 has ports for DNS in the API server's Service.
        _ if name.ends_with(":dns") || name.ends_with(":dns-tcp") => Some((53, 53)),
        _ if is_api_server(name) => Some((443, 6443)),
        _ => None,
    }
}

/// Whether a Service, or a port of one, is that of the API server: its endpoints are machines, and its EndpointSlice names no node.
pub(crate) fn is_api_server(name: &str) -> bool {
    name.split(':').next() == Some("default/kubernetes")
}
