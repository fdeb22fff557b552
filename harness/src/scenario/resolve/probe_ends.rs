//! Resolution of the two ends of a probe to addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use svclab_rules::cluster::{Cluster, Family, ObjectName, Protocol, Service, ServicePort};

use super::addresses::unreachable;
use super::findings::Findings;
use super::lookup::Scene;
use super::ports::{container_port, port_number, service_ports};
use crate::input::did_you_mean;
use crate::scenario::model::Vantage;
use crate::yaml::At;

/// A destination before a family is chosen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ends {
    /// The addresses, at most one of each family, with the port.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The protocols known to be served there.
    pub(crate) protocols: Vec<Protocol>,
    /// The node that the packet is sent through.
    pub(crate) via: Option<String>,
    /// The Service and its port.
    pub(crate) service: Option<(ObjectName, ServicePort)>,
    /// True for a loopback address, which only processes on a node can send to.
    pub(crate) loopback: bool,
}

const FROM: &str = "Use `pod/NAME`, `node/NAME`, `localhost@NODE` or `host/NAME`.";
const TO: &str = "Write `service/NAME:PORT`, `nodeport/NAME:PORT@NODE`, `loadbalancer/NAME:PORT`, \
    `externalip/NAME:PORT`, `pod/NAME:PORT`, `node/NAME:PORT`, `host/NAME:PORT`, `ADDRESS:PORT` or `[IPV6]:PORT`.";

impl Scene<'_, '_> {
    /// Resolves the sender and its addresses.
    pub(crate) fn vantage(&self, text: &str, at: At<'_>, findings: &mut Findings) -> Option<(Vantage, Vec<IpAddr>)> {
        if let Some(name) = text.strip_prefix("localhost@") {
            let node = self.node(name, at, findings)?;
            let loopback = |ip: &IpAddr| loopback(Family::of(*ip));
            return Some((Vantage::Localhost(name.to_owned()), node.internal_ips.iter().map(loopback).collect()));
        }
        match text.split_once('/') {
            Some(("pod", name)) => {
                let pod = self.one_pod(name, at, findings)?;
                Some((Vantage::Pod(pod.name.clone()), pod.ips.clone()))
            }
            Some(("node", name)) => {
                let node = self.node(name, at, findings)?;
                Some((Vantage::Node(name.to_owned()), node.internal_ips.clone()))
            }
            Some(("host", name)) => {
                let host = self.host(name, at, findings)?;
                Some((Vantage::Host(name.to_owned()), host.ips.clone()))
            }
            _ => {
                findings.wrong(at, format!("invalid sender `{text}`"), FROM);
                None
            }
        }
    }

    /// Resolves the destination.
    pub(crate) fn destination(&self, text: &str, at: At<'_>, findings: &mut Findings) -> Option<Ends> {
        let (text, via) = match text.split_once('@') {
            Some((text, node)) => (text, Some(node)),
            None => (text, None),
        };
        let Some((rest, port)) = text.rsplit_once(':').filter(|(rest, port)| !rest.is_empty() && !port.is_empty())
        else {
            findings.wrong(at, format!("`{text}` has no port"), "Append the port, for example `service/web:80`.");
            return None;
        };
        let localhost = via == Some("localhost");
        if let Some(node) = via.filter(|_| !localhost) {
            self.node(node, at, findings)?;
        }
        let kind = rest.split_once('/').map(|(kind, _)| kind);
        if localhost && kind != Some("nodeport") {
            findings.wrong(at, "`@localhost` is only valid for node ports", "Use `nodeport/NAME:PORT@localhost`.");
            return None;
        }
        let ends = match rest.split_once('/') {
            Some(("service", name)) => self.service_ends(name, port, at, findings, cluster_ips)?,
            Some(("loadbalancer", name)) => self.service_ends(name, port, at, findings, balancer_ips)?,
            Some(("externalip", name)) => self.service_ends(name, port, at, findings, external_ips)?,
            Some(("nodeport", name)) => return self.node_port(name, port, via, at, findings),
            Some(("pod", name)) => self.pod_ends(name, port, at, findings)?,
            Some(("node", name)) => plain(&self.node(name, at, findings)?.internal_ips, port, at, findings)?,
            Some(("host", name)) => plain(&self.host(name, at, findings)?.ips, port, at, findings)?,
            None => self.literal(text, at, findings)?,
            Some((kind, _)) => {
                let kinds = ["service", "nodeport", "loadbalancer", "externalip", "pod", "node", "host"];
                let help = did_you_mean(kind, &kinds).unwrap_or_else(|| TO.to_owned());
                findings.wrong(at, format!("invalid destination `{kind}/...`"), help);
                return None;
            }
        };
        Some(Ends { via: via.map(str::to_owned), ..ends })
    }

    fn service_ends(
        &self,
        name: &str,
        port: &str,
        at: At<'_>,
        findings: &mut Findings,
        addresses: fn(&Service) -> (Vec<IpAddr>, &'static str),
    ) -> Option<Ends> {
        let service = self.service(name, at, findings)?;
        let (addresses, nothing) = addresses(service);
        if addresses.is_empty() {
            findings.wrong(
                at,
                format!("service `{name}` {nothing}"),
                "Send the probe to another address of the service.",
            );
            return None;
        }
        let ports = service_ports(service, port, at, findings)?;
        Some(Ends::for_service(service, &addresses, &ports, ports.first()?.port))
    }

    fn node_port(
        &self,
        name: &str,
        port: &str,
        via: Option<&str>,
        at: At<'_>,
        findings: &mut Findings,
    ) -> Option<Ends> {
        let service = self.service(name, at, findings)?;
        let Some(via) = via else {
            let message = "a node port destination needs `@NODE`";
            findings.wrong(at, message, format!("Use `nodeport/{name}:{port}@NODE` or `@localhost`."));
            return None;
        };
        let ports = service_ports(service, port, at, findings)?;
        let Some(number) = ports.first()?.node_port else {
            let message = format!("port {port} of service `{name}` has no node port");
            findings.wrong(at, message, "Set its `type` to NodePort or LoadBalancer.");
            return None;
        };
        let families = || service.cluster_ips.iter().copied().map(Family::of);
        if via == "localhost" {
            let addresses: Vec<IpAddr> = families().map(loopback).collect();
            let ends = Ends::for_service(service, &addresses, &ports, number);
            return Some(Ends { loopback: true, ..ends });
        }
        let node = self.node(via, at, findings)?;
        let addresses: Vec<IpAddr> = families().filter_map(|family| node.internal_ip(family)).collect();
        Some(Ends::for_service(service, &addresses, &ports, number))
    }

    fn pod_ends(&self, name: &str, port: &str, at: At<'_>, findings: &mut Findings) -> Option<Ends> {
        let pod = self.one_pod(name, at, findings)?;
        let number = container_port(pod, port, at, findings)?;
        Some(Ends::plain(&pod.ips, number))
    }

    /// Resolves an address with a port. If it belongs to a Service, its protocol is known.
    fn literal(&self, text: &str, at: At<'_>, findings: &mut Findings) -> Option<Ends> {
        let Ok(address) = text.parse::<SocketAddr>() else {
            findings.wrong(at, format!("invalid destination `{text}`"), TO);
            return None;
        };
        if address.port() == 0 {
            findings.wrong(at, "port 0 is out of range", "Ports are numbers from 1 to 65535.");
            return None;
        }
        if let Some(kind) = unreachable(address.ip()) {
            let help = "Use a unicast address, or the address of a Service.";
            findings.wrong(at, format!("`{}` is {kind}", address.ip()), help);
            return None;
        }
        let mut ends = Ends::plain(&[address.ip()], address.port());
        ends.loopback = address.ip().is_loopback();
        // As for names: a deleted Service is looked up in earlier states.
        for (_, cluster) in self.states() {
            if ends.service.is_none() {
                ends.take_services_of(cluster);
            }
        }
        Some(ends)
    }
}

impl Ends {
    fn plain(addresses: &[IpAddr], port: u16) -> Self {
        let addresses = one_of_each(addresses).map(|ip| SocketAddr::new(ip, port)).collect();
        Self { addresses, protocols: Vec::new(), via: None, service: None, loopback: false }
    }

    /// Records which of a cluster's Services have a literal address with its port.
    fn take_services_of(&mut self, cluster: &Cluster) {
        let Some(to) = self.addresses.first().copied() else { return };
        let is_node = self.loopback || cluster.nodes.iter().any(|node| node.addresses().any(|ip| ip == to.ip()));
        for service in &cluster.services {
            let balancer = service.load_balancer.iter().map(|ingress| ingress.ip);
            let mut virtuals = service.cluster_ips.iter().chain(&service.external_ips).copied().chain(balancer);
            let is_virtual = virtuals.any(|ip| ip == to.ip());
            for port in &service.ports {
                if is_virtual && port.port == to.port() || is_node && port.node_port == Some(to.port()) {
                    self.protocols.push(port.protocol);
                    self.service = Some((service.name.clone(), port.clone()));
                }
            }
        }
    }

    fn for_service(service: &Service, addresses: &[IpAddr], ports: &[&ServicePort], number: u16) -> Self {
        Self {
            protocols: ports.iter().map(|port| port.protocol).collect(),
            service: ports.first().map(|port| (service.name.clone(), (*port).clone())),
            ..Self::plain(addresses, number)
        }
    }
}

/// Returns the first address of each family.
fn one_of_each(addresses: &[IpAddr]) -> impl Iterator<Item = IpAddr> {
    Family::ALL.into_iter().filter_map(|family| addresses.iter().copied().find(|ip| Family::of(*ip) == family))
}

fn loopback(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => Ipv4Addr::LOCALHOST.into(),
        Family::Ipv6 => Ipv6Addr::LOCALHOST.into(),
    }
}

fn cluster_ips(service: &Service) -> (Vec<IpAddr>, &'static str) {
    (service.cluster_ips.clone(), "has no cluster IP")
}

fn balancer_ips(service: &Service) -> (Vec<IpAddr>, &'static str) {
    (service.load_balancer.iter().map(|ingress| ingress.ip).collect(), "has no load-balancer address")
}

fn external_ips(service: &Service) -> (Vec<IpAddr>, &'static str) {
    (service.external_ips.clone(), "has no external IP")
}

fn plain(addresses: &[IpAddr], port: &str, at: At<'_>, findings: &mut Findings) -> Option<Ends> {
    Some(Ends::plain(addresses, port_number(port, at, findings)?))
}
