//! Pods.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{ObjectName, Protocol};

/// A pod on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Namespace and name.
    pub name: ObjectName,
    /// The node that it runs on.
    pub node: String,
    /// Its addresses, at most one of each family; those of the node with `hostNetwork`.
    pub ips: Vec<IpAddr>,
    /// Whether the pod shares the node's network namespace.
    pub host_network: bool,
    /// Labels, for the selectors of services.
    pub labels: BTreeMap<String, String>,
    /// Ports of all its containers.
    pub ports: Vec<ContainerPort>,
}

/// A port of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerPort {
    /// The name that a service's `targetPort` can refer to.
    pub name: Option<String>,
    /// The protocol.
    pub protocol: Protocol,
    /// The port inside the pod.
    pub port: u16,
    /// The `hostPort` that is forwarded to it.
    pub host_port: Option<u16>,
}
