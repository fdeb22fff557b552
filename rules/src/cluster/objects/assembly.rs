//! Assembly of a cluster from all of its objects.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::hash::Hash;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::networking::v1 as networking;
use serde::Deserialize;

use super::super::{Cluster, ObjectName, Protocol, ProxyConfig};
use super::checker::{Checker, FieldError, name_of};
use super::notes::{Note, Reading};

/// An object of a kind that affects Service traffic, or a list of objects.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind")]
#[expect(missing_docs, reason = "the kinds are the API's own")]
pub enum Object {
    Node(Box<core::Node>),
    Pod(Box<core::Pod>),
    Service(Box<core::Service>),
    Endpoints(Box<core::Endpoints>),
    EndpointSlice(Box<discovery::EndpointSlice>),
    ServiceCIDR(Box<networking::ServiceCIDR>),
    List {
        items: Vec<Object>,
    },
    /// An object of another kind.
    #[serde(other)]
    Other,
}

/// A cluster, and the objects that have no effect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Assembly {
    /// The cluster.
    pub cluster: Cluster,
    /// Notes on objects that have no effect.
    pub notes: Vec<Note>,
}

/// Assembles the cluster from objects and a configuration of kube-proxy.
///
/// An Endpoints object counts only if its service has no EndpointSlices and, as for the mirroring controller, if the label
/// `endpointslice.kubernetes.io/skip-mirror` does not forbid it.
///
/// # Errors
///
/// The errors of every object, then those that [`check`] finds.
pub fn assemble(objects: &[Object], proxy: ProxyConfig) -> Result<Assembly, Vec<FieldError>> {
    let mut builder = Builder::default();
    builder.assembly.cluster.proxy = proxy;
    objects.iter().for_each(|object| builder.add(object));
    builder.finish()
}

#[derive(Default)]
struct Builder<'a> {
    assembly: Assembly,
    endpoints: Vec<&'a core::Endpoints>,
    errors: Vec<FieldError>,
}

impl<'a> Builder<'a> {
    fn add(&mut self, object: &'a Object) {
        match object {
            Object::Node(object) => {
                if let Some(node) = self.sound(super::node(object)) {
                    self.assembly.cluster.nodes.push(node);
                }
            }
            Object::Service(object) => {
                // The API server has admitted it, whatever its `--service-node-port-range` is.
                if let Some(service) = self.sound(super::service_within(object, 1..=u16::MAX)) {
                    self.assembly.cluster.services.push(service);
                }
            }
            Object::Pod(object) => {
                if let Some(pod) = self.kept(super::pod(object)) {
                    self.assembly.cluster.pods.push(pod);
                }
            }
            Object::EndpointSlice(object) => {
                if let Some(slice) = self.kept(super::endpoint_slice(object)) {
                    self.assembly.cluster.slices.push(slice);
                }
            }
            Object::ServiceCIDR(object) => {
                if let Some(ranges) = self.sound(super::service_cidr(object)) {
                    self.assembly.cluster.service_cidrs.extend(ranges);
                }
            }
            Object::Endpoints(object) => self.endpoints.push(object),
            Object::List { items } => items.iter().for_each(|item| self.add(item)),
            Object::Other => {}
        }
    }

    fn finish(mut self) -> Result<Assembly, Vec<FieldError>> {
        self.mirror();
        self.errors.extend(check(&self.assembly.cluster));
        if self.errors.is_empty() { Ok(self.assembly) } else { Err(self.errors) }
    }

    /// Mirrors Endpoints into slices for services that have none.
    fn mirror(&mut self) {
        let sliced: HashSet<ObjectName> =
            self.assembly.cluster.slices.iter().map(|slice| slice.service.clone()).collect();
        for object in std::mem::take(&mut self.endpoints) {
            let Some(slices) = self.sound(super::endpoints(object)) else { continue };
            let name = name_of(&object.metadata);
            let skip = object.metadata.labels.iter().flatten().any(|(label, value)| label == SKIP && value == "true");
            let reason = if sliced.contains(&name) {
                Some("its service has EndpointSlices".to_owned())
            } else {
                skip.then(|| format!("its label {SKIP} forbids mirroring"))
            };
            match reason {
                Some(reason) => {
                    self.assembly.notes.push(Note::new(format!("Endpoints {name}"), "has no rules", reason))
                }
                None => self.assembly.cluster.slices.extend(slices),
            }
        }
    }

    fn sound<T>(&mut self, result: Result<T, Vec<FieldError>>) -> Option<T> {
        result.map_err(|errors| self.errors.extend(errors)).ok()
    }

    fn kept<T>(&mut self, result: Result<Reading<T>, Vec<FieldError>>) -> Option<T> {
        match self.sound(result)? {
            Reading::Kept(value) => Some(value),
            Reading::Ignored(note) => {
                self.assembly.notes.push(note);
                None
            }
        }
    }
}

const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";

/// Finds conflicts between objects that are individually valid, as the API server does: duplicate names, cluster IPs and node ports.
pub fn check(cluster: &Cluster) -> Vec<FieldError> {
    let mut errors = Vec::new();
    unique_names(&mut errors, "Node", cluster.nodes.iter().map(|node| &node.name));
    unique_names(&mut errors, "Pod", cluster.pods.iter().map(|pod| &pod.name));
    unique_names(&mut errors, "Service", cluster.services.iter().map(|service| &service.name));
    unique_names(&mut errors, "EndpointSlice", cluster.slices.iter().map(|slice| &slice.name));
    cluster_ips(&mut errors, cluster);
    node_ports(&mut errors, cluster);
    errors
}

fn unique_names<'a, T: Hash + Eq + Display + 'a>(
    errors: &mut Vec<FieldError>,
    kind: &str,
    names: impl Iterator<Item = &'a T>,
) {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            let mut checker = Checker::new(kind, name);
            let help = format!("Give every {kind} a name of its own in its namespace.");
            checker.reject("metadata.name", "duplicate object name", help);
            errors.extend(checker.into_errors());
        }
    }
}

fn cluster_ips(errors: &mut Vec<FieldError>, cluster: &Cluster) {
    let mut taken = HashMap::new();
    for service in &cluster.services {
        let mut checker = Checker::new("Service", &service.name);
        for (index, ip) in service.cluster_ips.iter().enumerate() {
            if let Some(other) = taken.insert(ip, &service.name) {
                let message = format!("{ip} is already used by service {other}");
                checker.reject(format!("spec.clusterIPs[{index}]"), message, "Give every service its own clusterIP.");
            }
        }
        errors.extend(checker.into_errors());
    }
}

/// Health check ports are allocated from the node port range too, as TCP ports.
fn node_ports(errors: &mut Vec<FieldError>, cluster: &Cluster) {
    let mut taken = HashMap::new();
    for service in &cluster.services {
        let mut checker = Checker::new("Service", &service.name);
        let ports = service.ports.iter().enumerate().filter_map(|(index, port)| {
            let path = format!("spec.ports[{index}].nodePort");
            Some((path, port.protocol, port.node_port?))
        });
        let health = service.health_check_node_port.map(|port| {
            let path = "spec.healthCheckNodePort".to_owned();
            (path, Protocol::Tcp, port)
        });
        for (path, protocol, port) in ports.chain(health) {
            match taken.get(&(protocol, port)) {
                Some(other) => {
                    let message = format!("node port {port}/{protocol} is already used by service {other}");
                    checker.reject(path, message, "Give every port of every service its own node port.");
                }
                None => {
                    taken.insert((protocol, port), &service.name);
                }
            }
        }
        errors.extend(checker.into_errors());
    }
}
