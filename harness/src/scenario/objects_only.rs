//! Plain Kubernetes objects → a cluster, as kube-proxy gets it from the API: nothing is filled in, and a dangling reference is not an
//! error.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use svclab_rules::cluster::objects::{self, KubeProxyConfiguration, MasqueradeConfiguration, assemble};
use svclab_rules::cluster::{Cluster, ProxyConfig, ProxyMode};
use svclab_rules::selection::notes;

use crate::input::Diagnostics;
use crate::scenario::model::Note;
use crate::scenario::resolve::{Findings, Located, Manifests, Object, gates, report};
use crate::yaml;
use crate::yaml::{At, Node, Place, decode};

/// A cluster made of plain objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectCluster {
    /// The cluster.
    pub cluster: Cluster,
    /// Notes on objects that were ignored or do not affect rules.
    pub notes: Vec<Note>,
}

/// Reads a cluster from the objects in a text: one object, several documents, or lists. `path` is its file's name.
///
/// # Errors
///
/// Invalid objects, and everything that the API server would reject.
pub fn cluster(text: &str, path: &Path, proxy: ProxyConfig) -> Result<ObjectCluster, Diagnostics> {
    let mut findings = Findings::default();
    let mut manifests = Manifests::default();
    manifests.add(path, text).into_iter().for_each(|error| findings.add(error));
    let (objects, _) = manifests.objects(path, &mut findings);
    let places: HashMap<String, Located<'_, ()>> =
        objects.iter().map(|object| (full_name(object.at), object.with(()))).collect();
    let start = Node::empty();
    let start = Located::manifest((), At::root(path, &start));
    let place = |object: &str| places.get(object).unwrap_or(&start);
    let objects: Vec<objects::Object> = objects.into_iter().map(|object| object.value.into()).collect();
    let assembly = assemble(&objects, proxy).unwrap_or_else(|errors| {
        errors.into_iter().for_each(|error| report(place(&error.object), vec![error], &mut findings));
        objects::Assembly::default()
    });
    let ignored = assembly.cluster.proxy.version.parse().map(|release| notes(&assembly.cluster, release));
    for note in assembly.notes.iter().chain(ignored.iter().flatten()) {
        findings.note(place(&note.object).at, note.to_string());
    }
    if findings.errors.is_empty() {
        return Ok(ObjectCluster { cluster: assembly.cluster, notes: findings.notes });
    }
    Err(findings.into_diagnostics([(path.to_owned(), text.into())].into()))
}

/// Returns kind, namespace and name as in errors of objects: `Service default/web`, `Node worker`.
fn full_name(at: At<'_>) -> String {
    let text = |at: At<'_>, field: &str| at.node().get(field)?.value.text().map(str::to_owned);
    let metadata = at.field("metadata");
    let kind = text(at, "kind").unwrap_or_default();
    let name = text(metadata, "name").unwrap_or_default();
    if matches!(kind.as_str(), "Node" | "ServiceCIDR") {
        return format!("{kind} {name}");
    }
    format!("{kind} {}/{name}", text(metadata, "namespace").as_deref().unwrap_or("default"))
}

impl From<Object> for objects::Object {
    fn from(object: Object) -> Self {
        match object {
            Object::Node(node) => Self::Node(node),
            Object::Pod(pod) => Self::Pod(pod),
            Object::Service(service) => Self::Service(service),
            Object::Endpoints(endpoints) => Self::Endpoints(endpoints),
            Object::EndpointSlice(slice) => Self::EndpointSlice(slice),
            Object::ServiceCidr(ranges) => Self::ServiceCIDR(ranges),
        }
    }
}

/// Reads the settings of a KubeProxyConfiguration for a release, with notes on doubtful ones. With `mode` they are adapted to a mode that
/// may differ from the file's: then the masquerade settings of `iptables` apply to `nftables` too, unless it has its own.
///
/// # Errors
///
/// A text that is not such a configuration, and every field that kube-proxy would reject.
pub fn proxy_config(
    text: &str,
    path: &Path,
    version: &str,
    mode: Option<ProxyMode>,
) -> Result<(ProxyConfig, Vec<Note>), Diagnostics> {
    let mut findings = Findings::default();
    match read_config(text, path, version, mode, &mut findings) {
        Some(config) if findings.errors.is_empty() => Ok((config, findings.notes)),
        _ => Err(findings.into_diagnostics([(path.to_owned(), text.into())].into())),
    }
}

fn read_config(
    text: &str,
    path: &Path,
    version: &str,
    mode: Option<ProxyMode>,
    findings: &mut Findings,
) -> Option<ProxyConfig> {
    let (documents, errors) = yaml::parse(text, path);
    errors.into_iter().for_each(|error| findings.add(error));
    let tree = configuration(&documents, path, findings)?;
    let decoded = decode::<KubeProxyConfiguration>(path, tree);
    decoded.errors.into_iter().for_each(|error| findings.add(error));
    let mut given = decoded.value?;
    if let Some(mode) = mode {
        choose_mode(&mut given, mode);
    }
    let at = At::root(path, tree);
    gates(given.feature_gates.iter().flatten(), version, at.field("featureGates"), findings);
    let place = Located::manifest((), at);
    objects::proxy_config(&given, version).map_err(|errors| report(&place, errors, findings)).ok()
}

/// Returns the document that is a KubeProxyConfiguration.
fn configuration<'d>(documents: &'d [Arc<Node>], path: &Path, findings: &mut Findings) -> Option<&'d Arc<Node>> {
    const KIND: &str = "KubeProxyConfiguration";
    let kind = |tree: &Node| tree.get("kind").and_then(|entry| entry.value.text()).map(str::to_owned);
    if let Some(tree) = documents.iter().find(|tree| kind(tree).as_deref() == Some(KIND)) {
        return Some(tree);
    }
    let Some(first) = documents.first() else {
        if findings.errors.is_empty() {
            let empty = Node::empty();
            let error = At::root(path, &empty).error("the file is empty");
            findings.add(error.help("Write a KubeProxyConfiguration, or omit the option."));
        }
        return None;
    };
    let help = match kind(first).as_deref() {
        Some("ConfigMap") => "Save the value of its key `config.conf` to a file and pass that.",
        _ => "Start it with `apiVersion: kubeproxy.config.k8s.io/v1alpha1` and `kind: KubeProxyConfiguration`.",
    };
    findings.wrong(At::root(path, first).field("kind"), format!("this is not a {KIND}"), help);
    None
}

fn choose_mode(given: &mut KubeProxyConfiguration, mode: ProxyMode) {
    given.mode = Some(mode.to_string());
    given.nftables = MasqueradeConfiguration {
        masquerade_all: given.nftables.masquerade_all.or(given.iptables.masquerade_all),
        masquerade_bit: given.nftables.masquerade_bit.or(given.iptables.masquerade_bit),
        localhost_node_ports: given.nftables.localhost_node_ports,
    };
}
