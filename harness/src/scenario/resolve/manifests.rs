//! Plain Kubernetes objects: single objects, several documents, lists.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::networking::v1 as networking;
use serde::de::DeserializeOwned;

use super::findings::Findings;
use super::located::Located;
use crate::input::Diagnostic;
use crate::yaml;
use crate::yaml::{At, Kind, Node, Place, decode};

/// An object of a kind that affects Service traffic.
#[derive(Debug, Clone)]
pub(crate) enum Object {
    /// A node.
    Node(Box<core::Node>),
    /// A pod.
    Pod(Box<core::Pod>),
    /// A Service.
    Service(Box<core::Service>),
    /// Endpoints in the older form.
    Endpoints(Box<core::Endpoints>),
    /// Endpoints.
    EndpointSlice(Box<discovery::EndpointSlice>),
    /// Ranges that cluster IPs are allocated from.
    ServiceCidr(Box<networking::ServiceCIDR>),
}

/// The parsed files that a scenario names, by path.
#[derive(Debug, Default)]
pub(crate) struct Manifests(BTreeMap<PathBuf, Vec<Arc<Node>>>);

impl Manifests {
    /// Parses a file.
    pub(crate) fn add(&mut self, file: &Path, text: &str) -> Vec<Diagnostic> {
        let (documents, errors) = yaml::parse(text, file);
        self.0.insert(file.to_owned(), documents);
        errors
    }

    /// Returns the objects of a file, and false if an object could not be read. Kinds without effect are ignored with a note.
    pub(crate) fn objects<'a>(&'a self, file: &Path, findings: &mut Findings) -> (Vec<Located<'a, Object>>, bool) {
        let mut reader = Reader { objects: Vec::new(), sound: true, findings };
        if let Some((file, documents)) = self.0.get_key_value(file) {
            for document in documents {
                reader.object(At::root(file, document), document, 0);
            }
        }
        (reader.objects, reader.sound)
    }
}

/// The text between the object and the reason in the note on an ignored object.
pub(crate) const LEFT_OUT: &str = " is ignored: ";
/// The reason for all kinds that do not affect Service traffic in a real cluster either.
pub(crate) const NO_EFFECT: &str = "it does not affect rules";

/// Returns why objects of a kind are ignored.
fn why_left_out(kind: &str) -> &'static str {
    match kind {
        "CronJob" | "DaemonSet" | "Deployment" | "Job" | "ReplicaSet" | "ReplicationController" | "StatefulSet" => {
            "no controller runs here, so it creates no pods; list its pods instead"
        }
        "Gateway" | "GRPCRoute" | "HTTPRoute" | "Ingress" | "TCPRoute" | "TLSRoute" | "UDPRoute" => {
            "no controller runs here that reads it, and kube-proxy does not"
        }
        "NetworkPolicy" => "no network plugin runs here that enforces it",
        _ => NO_EFFECT,
    }
}

struct Reader<'f, 'a> {
    objects: Vec<Located<'a, Object>>,
    sound: bool,
    findings: &'f mut Findings,
}

impl<'a> Reader<'_, 'a> {
    fn object(&mut self, at: At<'a>, tree: &Arc<Node>, depth: usize) {
        if tree.text().is_some_and(str::is_empty) {
            return;
        }
        let Kind::Map(_) = tree.kind else {
            self.wrong(at, "this is not a Kubernetes object", "Use a map with `apiVersion`, `kind` and `metadata`.");
            return;
        };
        let Some(kind) = tree.get("kind").and_then(|entry| entry.value.text()) else {
            self.wrong(at, "missing field `kind`", "Add the kind of the object, for example `kind: Service`.");
            return;
        };
        match kind {
            "Node" => self.take(at, tree, Object::Node),
            "Pod" => self.take(at, tree, Object::Pod),
            "Service" => self.take(at, tree, Object::Service),
            "Endpoints" => self.take(at, tree, Object::Endpoints),
            "EndpointSlice" => self.take(at, tree, Object::EndpointSlice),
            "ServiceCIDR" => self.take(at, tree, Object::ServiceCidr),
            list if list.ends_with("List") && depth == 0 => {
                let items = tree.get("items").map(|entry| entry.value.items()).unwrap_or_default();
                for (index, item) in items.iter().enumerate() {
                    self.object(at.field("items").item(index), item, depth + 1);
                }
            }
            other => {
                let name = at.field("metadata").field("name").node().text().unwrap_or_default();
                self.findings.note(at.field("kind"), format!("{other} {name}{LEFT_OUT}{}", why_left_out(other)));
            }
        }
    }

    fn take<T: DeserializeOwned>(&mut self, at: At<'a>, tree: &Arc<Node>, wrap: fn(Box<T>) -> Object) {
        let decoded = decode::<T>(at.file(), tree);
        let sound = decoded.errors.is_empty();
        decoded.errors.into_iter().for_each(|error| self.findings.add(error));
        match decoded.value {
            Some(value) if sound => self.objects.push(Located::manifest(wrap(Box::new(value)), at)),
            _ => self.sound = false,
        }
    }

    fn wrong(&mut self, at: At<'_>, message: &str, help: &str) {
        self.sound = false;
        self.findings.add(at.error(message).help(help));
    }
}
