//! The two ends of a probe, and the places where it can come out: words → addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use svclab_rules::cluster::{Cluster, Family, Node, ObjectName, Pod, Protocol, Service, ServicePort};

use super::super::decode::nearest;
use super::super::model::{Host, Target, Vantage};
use super::super::tree::{At, Place};
use super::endpoints::object_name;
use super::findings::Findings;
use super::located::Located;
use super::objects::{Objects, short_name};
use super::pods;

/// What names are looked up in: the objects as they are now, then as they were at the start, so that a probe can be
/// sent to where a Service was.
pub(crate) struct Scene<'s, 'a> {
    /// The objects now, and the facts made of them.
    pub(crate) now: (&'s Objects<'a>, &'s Cluster),
    /// The objects and facts at the start.
    pub(crate) start: (&'s Objects<'a>, &'s Cluster),
    /// Machines outside of the cluster.
    pub(crate) hosts: &'s [Located<'a, Host>],
}

/// A destination before a family is chosen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ends {
    /// The addresses, at most one of each family, with the port.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The protocols that something is known to be offered for there.
    pub(crate) protocols: Vec<Protocol>,
    /// The node that the packet is handed to.
    pub(crate) via: Option<String>,
    /// The Service and its port.
    pub(crate) service: Option<(ObjectName, ServicePort)>,
    /// True for a loopback address, which only processes on a node can send to.
    pub(crate) loopback: bool,
}

const FROM: &str = "Write `pod/NAME`, `node/NAME`, `localhost@NODE` or `host/NAME`.";
const TO: &str = "Write `service/NAME:PORT`, `nodeport/NAME:PORT@NODE`, `loadbalancer/NAME:PORT`, \
    `externalip/NAME:PORT`, `pod/NAME:PORT`, `node/NAME:PORT`, `host/NAME:PORT`, `ADDRESS:PORT` or `[IPV6]:PORT`.";

impl Scene<'_, '_> {
    /// The sender, and its addresses.
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
                findings.wrong(at, format!("`{text}` names no sender"), FROM);
                None
            }
        }
    }

    /// The destination.
    pub(crate) fn destination(&self, text: &str, at: At<'_>, findings: &mut Findings) -> Option<Ends> {
        let (text, via) = match text.split_once('@') {
            Some((text, node)) => (text, Some(node)),
            None => (text, None),
        };
        let Some((rest, port)) = text.rsplit_once(':').filter(|(rest, port)| !rest.is_empty() && !port.is_empty())
        else {
            findings.wrong(at, format!("`{text}` has no port"), "Write the port after a colon, as `service/web:80`.");
            return None;
        };
        let localhost = via == Some("localhost");
        if let Some(node) = via.filter(|_| !localhost) {
            self.node(node, at, findings)?;
        }
        let kind = rest.split_once('/').map(|(kind, _)| kind);
        if localhost && kind != Some("nodeport") {
            findings.wrong(at, "only node ports can be reached at localhost", "Write `nodeport/NAME:PORT@localhost`.");
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
                let help = nearest(kind, &kinds).map_or(TO.to_owned(), |near| format!("Did you mean `{near}`?"));
                findings.wrong(at, format!("`{kind}/...` is no destination"), help);
                return None;
            }
        };
        Some(Ends { via: via.map(str::to_owned), ..ends })
    }

    /// Where a probe can come out, of one family. A name that stands for several pods gives several targets.
    pub(crate) fn targets(&self, text: &str, family: Family, at: At<'_>, findings: &mut Findings) -> Vec<Target> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return target(text, &[address.ip()], Some(address.port()), family);
        }
        if let Ok(address) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            return target(text, &[address], None, family);
        }
        let (rest, port) = match text.rsplit_once(':') {
            Some((rest, port)) => (rest, Some(port)),
            None => (text, None),
        };
        let number = |findings: &mut Findings| match port {
            None => Some(None),
            Some(port) => port_number(port, at, findings).map(Some),
        };
        match rest.split_once('/') {
            Some(("pod", name)) => {
                let pods = self.pods(name, at, findings);
                let several = pods.len() > 1;
                let of_pod = |pod: &&Pod| {
                    let port = match port {
                        None => None,
                        Some(text) => Some(container_port(pod, text, at, findings)?),
                    };
                    let label = match port {
                        _ if !several => text.to_owned(),
                        Some(port) => format!("pod/{}:{port}", short_name(&pod.name)),
                        None => format!("pod/{}", short_name(&pod.name)),
                    };
                    Some(target(&label, &pod.ips, port, family))
                };
                pods.iter().filter_map(of_pod).flatten().collect()
            }
            Some(("node", name)) => {
                let (Some(node), Some(port)) = (self.node(name, at, findings), number(findings)) else {
                    return Vec::new();
                };
                target(text, &node.internal_ips, port, family)
            }
            Some(("host", name)) => {
                let (Some(host), Some(port)) = (self.host(name, at, findings), number(findings)) else {
                    return Vec::new();
                };
                target(text, &host.ips, port, family)
            }
            _ => {
                let help = "Write `pod/NAME:PORT`, `node/NAME:PORT`, `host/NAME:PORT` or `ADDRESS:PORT`; the port can be left out.";
                findings.wrong(at, format!("`{text}` is no place where a packet can come out"), help);
                Vec::new()
            }
        }
    }

    fn node(&self, name: &str, at: At<'_>, findings: &mut Findings) -> Option<&Node> {
        let node = self.now.0.node(name);
        if node.is_none() {
            self.now.0.missing_node(name, at, findings);
        }
        node
    }

    fn host(&self, name: &str, at: At<'_>, findings: &mut Findings) -> Option<&Host> {
        let host = self.hosts.iter().map(|host| &host.value).find(|host| host.name == name);
        if host.is_none() {
            let known: Vec<&str> = self.hosts.iter().map(|host| host.value.name.as_str()).collect();
            findings.dangling(at, "host", name, &known);
        }
        host
    }

    fn pods(&self, name: &str, at: At<'_>, findings: &mut Findings) -> Vec<&Pod> {
        let name = object_name(name);
        for objects in [self.now.0, self.start.0] {
            let found = pods::named(&objects.pods, &name);
            if !found.is_empty() {
                return found.into_iter().map(|pod| &pod.value.pod).collect();
            }
        }
        self.now.0.missing_pod(&name, at, findings);
        Vec::new()
    }

    fn one_pod(&self, name: &str, at: At<'_>, findings: &mut Findings) -> Option<&Pod> {
        let pods = self.pods(name, at, findings);
        if let [first, _, ..] = pods.as_slice() {
            let message = format!("`{name}` means {} pods", pods.len());
            findings.wrong(at, message, format!("Name one of them, as `pod/{}`.", short_name(&first.name)));
            return None;
        }
        pods.first().copied()
    }

    fn service(&self, name: &str, at: At<'_>, findings: &mut Findings) -> Option<&Service> {
        let name = object_name(name);
        let found = self.now.1.service(&name).or_else(|| self.start.1.service(&name));
        if found.is_none() {
            self.now.0.missing_service(&name, at, findings);
        }
        found
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
            findings.wrong(at, format!("service `{name}` {nothing}"), "Send the probe to an address that it has.");
            return None;
        }
        let ports = service_ports(service, port, at, findings)?;
        Some(Ends::of_service(service, &addresses, &ports, ports.first()?.port))
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
            let message = "a node port needs a node";
            findings.wrong(at, message, format!("Write `nodeport/{name}:{port}@NODE`, or `@localhost`."));
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
            let ends = Ends::of_service(service, &addresses, &ports, number);
            return Some(Ends { loopback: true, ..ends });
        }
        let node = self.node(via, at, findings)?;
        let addresses: Vec<IpAddr> = families().filter_map(|family| node.internal_ip(family)).collect();
        Some(Ends::of_service(service, &addresses, &ports, number))
    }

    fn pod_ends(&self, name: &str, port: &str, at: At<'_>, findings: &mut Findings) -> Option<Ends> {
        let pod = self.one_pod(name, at, findings)?;
        let number = container_port(pod, port, at, findings)?;
        Some(Ends::plain(&pod.ips, number))
    }

    /// An address with a port. Where it is one of a Service's, its protocol is known.
    fn literal(&self, text: &str, at: At<'_>, findings: &mut Findings) -> Option<Ends> {
        let Ok(address) = text.parse::<SocketAddr>() else {
            findings.wrong(at, format!("`{text}` is no destination"), TO);
            return None;
        };
        if address.port() == 0 {
            findings.wrong(at, "port 0 is out of range", "Ports are numbers from 1 to 65535.");
            return None;
        }
        let mut ends = Ends::plain(&[address.ip()], address.port());
        ends.loopback = address.ip().is_loopback();
        let cluster = self.now.1;
        for service in &cluster.services {
            let balancer = service.load_balancer.iter().map(|ingress| ingress.ip);
            let mut virtuals = service.cluster_ips.iter().chain(&service.external_ips).copied().chain(balancer);
            let is_virtual = virtuals.any(|ip| ip == address.ip());
            let is_node =
                ends.loopback || cluster.nodes.iter().any(|node| node.addresses().any(|ip| ip == address.ip()));
            for port in &service.ports {
                let matches =
                    is_virtual && port.port == address.port() || is_node && port.node_port == Some(address.port());
                if matches {
                    ends.protocols.push(port.protocol);
                    ends.service = Some((service.name.clone(), port.clone()));
                }
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

    fn of_service(service: &Service, addresses: &[IpAddr], ports: &[&ServicePort], number: u16) -> Self {
        Self {
            protocols: ports.iter().map(|port| port.protocol).collect(),
            service: ports.first().map(|port| (service.name.clone(), (*port).clone())),
            ..Self::plain(addresses, number)
        }
    }
}

/// The first address of each family.
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

/// A port by number.
fn port_number(text: &str, at: At<'_>, findings: &mut Findings) -> Option<u16> {
    if !is_number(text) {
        findings.wrong(at, format!("`{text}` is no port number"), "Write a number from 1 to 65535.");
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

/// The ports that a number or name means; several where the same number is offered for several protocols.
fn service_ports<'s>(
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
        let mistake = at.mistake(format!("service `{}` has no port `{text}`", short_name(&service.name)));
        findings.add(mistake.help(format!("Its ports are {}.", known.join(", "))));
        return None;
    }
    Some(ports)
}

/// The port of a pod that a number or name means.
fn container_port(pod: &Pod, text: &str, at: At<'_>, findings: &mut Findings) -> Option<u16> {
    if is_number(text) {
        return port_number(text, at, findings);
    }
    let found = pod.ports.iter().find(|port| port.name.as_deref() == Some(text)).map(|port| port.port);
    if found.is_none() {
        let message = format!("pod `{}` has no port `{text}`", short_name(&pod.name));
        findings.wrong(at, message, "Write the port's number, or give the pod a port of this name.");
    }
    found
}

fn target(label: &str, addresses: &[IpAddr], port: Option<u16>, family: Family) -> Vec<Target> {
    let address = addresses.iter().copied().find(|ip| Family::of(*ip) == family);
    address.map(|address| Target { label: label.to_owned(), address, port }).into_iter().collect()
}
