//! A collector of the errors of one object.

use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::{Family, ObjectName, Protocol};
use super::syntax::{NODE_PORTS, Syntax};

/// A field with a value that the API server would reject.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {path}: {message}")]
pub struct FieldError {
    /// The object, as `Service default/web`.
    pub object: String,
    /// The path of the field, as `spec.ports[0].nodePort`.
    pub path: String,
    /// What is wrong, as a lower-case fragment.
    pub message: String,
    /// How to fix it, as a sentence.
    pub help: String,
}

/// The errors found so far in one object.
pub(super) struct Checker {
    object: String,
    errors: Vec<FieldError>,
    node_ports: RangeInclusive<u16>,
}

impl Checker {
    /// Creates a checker for an object, with its kind and name for messages.
    pub(super) fn new(kind: &str, name: impl Display) -> Self {
        Self { object: format!("{kind} {name}"), errors: Vec::new(), node_ports: NODE_PORTS }
    }

    /// Sets another range of node ports.
    pub(super) fn with_node_ports(self, node_ports: RangeInclusive<u16>) -> Self {
        Self { node_ports, ..self }
    }

    /// Records an error.
    pub(super) fn reject(&mut self, path: impl Into<String>, message: impl Into<String>, help: impl Into<String>) {
        let error =
            FieldError { object: self.object.clone(), path: path.into(), message: message.into(), help: help.into() };
        self.errors.push(error);
    }

    /// Returns the value if there are no errors.
    pub(super) fn finish<T>(self, value: T) -> Result<T, Vec<FieldError>> {
        if self.errors.is_empty() { Ok(value) } else { Err(self.errors) }
    }

    /// The errors.
    pub(super) fn into_errors(self) -> Vec<FieldError> {
        self.errors
    }

    /// Checks the syntax of a name.
    pub(super) fn name(&mut self, path: impl Into<String>, text: &str, syntax: Syntax) {
        if let Some(fault) = syntax.fault(text) {
            self.reject(path, format!("`{text}` {fault}"), syntax.help());
        }
    }

    /// Checks the namespace of an object and its name.
    pub(super) fn object_name(&mut self, name: &ObjectName, syntax: Syntax) {
        self.name("metadata.name", &name.name, syntax);
        self.name("metadata.namespace", &name.namespace, Syntax::Dns1123Label);
    }

    /// Parses an address.
    pub(super) fn address(&mut self, path: impl Into<String>, text: &str) -> Option<IpAddr> {
        let address = text.parse().ok();
        if address.is_none() {
            let help = "Write an IPv4 address as 10.96.0.10, without leading zeros, or an IPv6 address as fd00::10.";
            self.reject(path, format!("`{text}` is not an IP address"), help);
        }
        address
    }

    /// Parses an address that other machines can send packets to (`ValidateNonSpecialIP` of the API server).
    pub(super) fn reachable_address(&mut self, path: impl Into<String>, text: &str) -> Option<IpAddr> {
        let path = path.into();
        let address = self.address(path.as_str(), text)?;
        if let Some(what) = Special::of(address) {
            let help = "Use an address that a packet can be sent to from other nodes.";
            self.reject(path, format!("`{address}` is {what}"), help);
        }
        Some(address)
    }

    /// Parses a unicast address: for any other, a kernel rejects the send or delivers the packet to itself.
    pub(super) fn unicast_address(&mut self, path: impl Into<String>, text: &str) -> Option<IpAddr> {
        let path = path.into();
        let address = self.address(path.as_str(), text)?;
        if let Some(what) = Special::of(address).filter(|what| !what.is_unicast()) {
            self.reject(path, format!("`{address}` is {what}"), "Use an address that one machine can have.");
        }
        Some(address)
    }

    /// Parses a CIDR.
    pub(super) fn range(&mut self, path: impl Into<String>, text: &str) -> Option<IpNet> {
        let range = text.parse().ok();
        if range.is_none() {
            let help = "Write an address and the length of its prefix, as 10.244.0.0/16 or fd00:244::/48.";
            self.reject(path, format!("`{text}` is not a CIDR"), help);
        }
        range
    }

    /// Checks a port, from 1 to 65535.
    pub(super) fn port(&mut self, path: impl Into<String>, number: i32) -> Option<u16> {
        let port = u16::try_from(number).ok().filter(|port| *port != 0);
        if port.is_none() {
            self.reject(path, format!("port {number} is out of range"), "Ports are numbers from 1 to 65535.");
        }
        port
    }

    /// Checks a port in the range of node ports.
    pub(super) fn node_port(&mut self, path: impl Into<String>, number: i32) -> Option<u16> {
        let port = u16::try_from(number).ok().filter(|port| self.node_ports.contains(port));
        if port.is_none() {
            let (first, last) = (*self.node_ports.start(), *self.node_ports.end());
            let message = format!("node port {number} is not in the range {first}-{last}");
            self.reject(path, message, format!("Use a port from {first} to {last}, or omit the field."));
        }
        port
    }

    /// Parses a protocol; TCP if none is given.
    pub(super) fn protocol(&mut self, path: impl Into<String>, text: Option<&str>) -> Protocol {
        let found = match text {
            None | Some("TCP") => Some(Protocol::Tcp),
            Some("UDP") => Some(Protocol::Udp),
            Some("SCTP") => Some(Protocol::Sctp),
            Some(_) => None,
        };
        found.unwrap_or_else(|| {
            let message = format!("unknown protocol `{}`", text.unwrap_or_default());
            self.reject(path, message, "Protocols are TCP, UDP and SCTP, in capitals.");
            Protocol::Tcp
        })
    }

    /// Parses one of several words; the first if none is given.
    pub(super) fn choice<T: Copy>(&mut self, path: impl Into<String>, text: Option<&str>, words: &[(&str, T)]) -> T {
        let found = match text {
            None | Some("") => words.first(),
            Some(text) => words.iter().find(|(word, _)| *word == text),
        };
        match (found, words.first()) {
            (Some((_, value)), _) => *value,
            (None, Some((_, default))) => {
                let text = text.unwrap_or_default();
                let known = words.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ");
                let help = match words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)) {
                    Some((word, _)) => format!("Did you mean `{word}`? Values are case-sensitive."),
                    None => format!("Known values: {known}."),
                };
                self.reject(path, format!("unknown value `{text}`"), help);
                *default
            }
            (None, None) => unreachable!("a choice has words"),
        }
    }

    /// Rejects a second address or range of a family in a list that accepts one per family.
    pub(super) fn one_of_each_family(&mut self, path: &str, families: &[Family]) {
        if families.len() > 2 || (families.len() == 2 && families[0] == families[1]) {
            let count = families.len();
            let message =
                if count > 2 { format!("{count} entries") } else { "two entries of the same family".to_owned() };
            self.reject(path, message, "Give at most one IPv4 and one IPv6 entry.");
        }
    }
}

/// Returns namespace and name of an object; the namespace is `default` if it has none.
pub(super) fn name_of(metadata: &ObjectMeta) -> ObjectName {
    let namespace = metadata.namespace.as_deref().unwrap_or("default");
    ObjectName::new(namespace, metadata.name.as_deref().unwrap_or_default())
}

/// Returns the pod that a reference names.
pub(super) fn pod_of(target: Option<&ObjectReference>) -> Option<ObjectName> {
    let target = target.filter(|target| target.kind.as_deref() == Some("Pod"))?;
    let namespace = target.namespace.as_deref().unwrap_or("default");
    Some(ObjectName::new(namespace, target.name.as_deref()?))
}

/// What is special about an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// `0.0.0.0` or `::`.
    Unspecified,
    /// An address of the machine itself.
    Loopback,
    /// An address that is valid on one link.
    LinkLocal,
    /// An address of a group.
    Multicast,
    /// `255.255.255.255`.
    LimitedBroadcast,
}

impl Special {
    /// Returns what is special about an address that other machines cannot send to (`ValidateNonSpecialIP` of the API server, which misses
    /// 255.255.255.255).
    pub fn of(ip: IpAddr) -> Option<Self> {
        let is_link_local = match ip {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        };
        match () {
            () if ip.is_unspecified() => Some(Self::Unspecified),
            () if ip.is_loopback() => Some(Self::Loopback),
            () if is_link_local => Some(Self::LinkLocal),
            () if ip.is_multicast() => Some(Self::Multicast),
            () if ip == IpAddr::V4(Ipv4Addr::BROADCAST) => Some(Self::LimitedBroadcast),
            () => None,
        }
    }

    /// Returns whether one machine can have such an address.
    pub fn is_unicast(self) -> bool {
        matches!(self, Self::Loopback | Self::LinkLocal)
    }
}

impl Display for Special {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "the unspecified address",
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Multicast => "a multicast address",
            Self::LimitedBroadcast => "the limited broadcast address",
        })
    }
}
