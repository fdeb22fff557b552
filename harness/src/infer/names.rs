//! Names of Services: from comments, from the hashes of chains, and such as the API accepts.

use std::net::IpAddr;

use svclab_rules::cluster::{ObjectName, ProxyMode};
use svclab_rules::infer::{Inferred, InferredPort};
use svclab_rules::iptables::ChainHash;
use svclab_rules::ruleset::Rules;

use super::unshown::Unshown;
use crate::evidence::service_of_hash;

/// Whether the hash in the names of a port's chains is that of its name.
fn is_verified(port: &InferredPort) -> bool {
    let names = port.hashed_names();
    port.hash.is_none_or(|hash| names.iter().any(|name| ChainHash::for_service_port(name, port.protocol) == hash))
}

/// Names the Services of ports: as the object with their cluster IP, else by the hash of their chains where it is a usual one and not that of the
/// comment; and as the API accepts it. Returns what was changed.
pub(super) fn settle(inferred: &mut Inferred, objects: &[(ObjectName, Vec<IpAddr>)]) -> (Vec<String>, Vec<Renamed>) {
    let mut notes = Vec::new();
    let befores: Vec<String> = inferred.ports.iter().map(InferredPort::full_name).collect();
    for port in &mut inferred.ports {
        let is_unnamed = port.service.name.starts_with("unnamed-");
        let of_ip = objects.iter().find(|(_, ips)| ips.iter().any(|ip| port.cluster_ips.contains(ip)));
        if let Some((name, _)) = of_ip {
            if port.service != *name {
                notes.push(format!("service {} of the rules is {name}, which has its cluster IP", port.service));
                port.service = name.clone();
            }
            continue;
        }
        let is_known = objects.iter().any(|(name, _)| *name == port.service);
        let usual = port.hash.filter(|_| !is_verified(port) && !is_known).and_then(service_of_hash);
        if let Some((name, _)) = usual {
            let (service, own) =
                (name.split(':').next().unwrap_or(name), name.split_once(':').map_or("", |(_, own)| own));
            let (namespace, service) = service.split_once('/').unwrap_or(("default", service));
            let before = if is_unnamed { "without a name".to_owned() } else { format!("named {}", port.full_name()) };
            notes.push(format!("a service port {before} is {name} by the hash of its chains"));
            port.service = ObjectName::new(namespace, service);
            own.clone_into(&mut port.name);
            continue;
        }
        let valid = ObjectName::new(valid(&port.service.namespace), valid_service(&port.service.name));
        if valid != port.service {
            notes.push(format!("service {} is called {valid}: the API accepts no such name", port.service));
            port.service = valid;
        }
    }
    let renamed = inferred.ports.iter().zip(befores).filter_map(|(port, before)| Renamed::of(port, before)).collect();
    inferred.ports.sort();
    (notes, renamed)
}

/// A service port of which rules have another name or hash than kube-proxy writes for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Renamed {
    /// What kube-proxy calls it, and what it is called in the rules.
    names: Option<(String, String)>,
    /// The hashes that kube-proxy writes, by release, and that of the rules.
    hashes: Vec<(ChainHash, ChainHash)>,
}

impl Renamed {
    fn of(port: &InferredPort, before: String) -> Option<Self> {
        let now = port.full_name();
        let hash = port.hash.filter(|_| !is_verified(port));
        let written = port.hashed_names().into_iter().map(|name| ChainHash::for_service_port(&name, port.protocol));
        let hashes = hash.map(|own| written.map(|hash| (hash, own)).collect()).unwrap_or_default();
        let names = (now != before).then_some((now, before));
        (names.is_some() || hash.is_some()).then_some(Self { names, hashes })
    }

    /// The chain of an endpoint whose address is made up, so that its name is not the hash of it.
    pub(super) fn for_endpoint(inferred: &Inferred, endpoint: &Unshown) -> Option<Self> {
        let port = inferred.ports.iter().find(|port| port.hash == Some(endpoint.service))?;
        let to = endpoint.address.to_string();
        let written = port.hashed_names().into_iter().map(|name| ChainHash::for_endpoint(&name, port.protocol, &to));
        Some(Self { names: None, hashes: written.map(|hash| (hash, endpoint.own)).collect() })
    }
}

/// Rules that kube-proxy writes, with the names and hashes that the rules of a dump have.
pub(super) fn as_named(written: Rules, renamed: &[Renamed]) -> Rules {
    let Some(rules) = written.iptables().filter(|_| !renamed.is_empty()) else { return written };
    let (family, mut text) = (rules.family, written.print());
    for one in renamed {
        for (hash, own) in &one.hashes {
            text = text.replace(&hash.to_string(), &own.to_string());
        }
        if let Some((now, before)) = &one.names {
            text = text.replace(&format!("\"{now}"), &format!("\"{before}"));
        }
    }
    Rules::parse(ProxyMode::Iptables, family, &text).unwrap_or(written)
}

/// A name in lower case that the API accepts as a subdomain.
pub(super) fn valid(name: &str) -> String {
    let letters = name.chars().map(|letter| match letter {
        letter if letter.is_ascii_alphanumeric() => letter.to_ascii_lowercase(),
        '.' => '.',
        _ => '-',
    });
    let name: String = letters.take(MAX_LETTERS).collect();
    let parts: Vec<&str> = name.split('.').map(|part| part.trim_matches('-')).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "unnamed".to_owned() } else { parts.join(".") }
}

/// A name that the API accepts for a Service: one label that starts with a letter.
pub(super) fn valid_service(name: &str) -> String {
    let name = valid(name).replace('.', "-");
    let name = if name.starts_with(|first: char| first.is_ascii_digit()) { format!("s-{name}") } else { name };
    let name: String = name.chars().take(MAX_OF_LABEL).collect();
    name.trim_end_matches('-').to_owned()
}

/// The longest subdomain and the longest label, in characters.
const MAX_LETTERS: usize = 253;
const MAX_OF_LABEL: usize = 63;
