//! Changes of nodes and pods by a step. Both must exist from the start: a step changes their Kubernetes objects, not the network.

use svclab_rules::cluster::ObjectName;

use super::endpoints::object_name;
use super::findings::Findings;
use super::located::Located;
use super::nodes;
use super::objects::Objects;
use super::pods::{self, Draft};
use crate::scenario::model::short_name;
use crate::scenario::schema::{RawNode, RawPod};
use crate::yaml::At;

/// Changes a node's labels, and its kube-proxy's `hostnameOverride`.
pub(crate) fn node(objects: &mut Objects<'_>, raw: &RawNode, at: At<'_>, findings: &mut Findings) {
    let fixed = ["ip", "ips", "externalIP", "externalIPs", "podCIDR", "podCIDRs", "sysctls", "proxy"];
    fixed_fields(at, &fixed, "node", findings);
    if objects.node(&raw.name).is_none() {
        objects.missing_node(&raw.name, at.field("name"), findings);
    }
    for node in objects.nodes.iter_mut().filter(|node| node.value.name == raw.name) {
        if let Some(labels) = &raw.labels {
            node.value.labels.clone_from(labels);
        }
        if raw.hostname_override.is_some() {
            node.value.hostname_override = nodes::hostname_override(raw, at, findings);
        }
    }
}

/// Changes a pod, or all replicas declared under its name.
pub(crate) fn pod(objects: &mut Objects<'_>, raw: &RawPod, at: At<'_>, findings: &mut Findings) {
    let name = object_name(&match &raw.namespace {
        Some(namespace) => format!("{namespace}/{}", raw.name),
        None => raw.name.clone(),
    });
    let names: Vec<_> = pods::named(&objects.pods, &name).iter().map(|pod| pod.value.pod.name.clone()).collect();
    match (names.is_empty(), at.has("node") || at.has("nodes")) {
        (true, true) => new_pod(&name, at.field("name"), findings),
        (true, false) => objects.missing_pod(&name, at.field("name"), findings),
        (false, _) => {
            let fixed = ["node", "nodes", "ip", "ips", "replicas", "hostNetwork", "ports"];
            fixed_fields(at, &fixed, "pod", findings);
        }
    }
    if raw.delete == Some(true) {
        objects.pods.retain(|pod| !names.contains(&pod.value.pod.name));
    }
    for pod in objects.pods.iter_mut().filter(|pod| names.contains(&pod.value.pod.name)) {
        let state = &mut pod.value;
        if let Some(labels) = &raw.labels {
            state.pod.labels.clone_from(labels);
        }
        state.terminating = raw.terminating.unwrap_or(state.terminating);
        state.ready = raw.ready.unwrap_or(state.ready);
    }
}

/// Changes a pod to its new Kubernetes object.
pub(crate) fn pod_object(objects: &mut Objects<'_>, draft: &Located<'_, Draft>, findings: &mut Findings) {
    let (name, labels, ready, terminating) = pods::changed(&draft.value);
    match objects.pods.iter_mut().find(|pod| pod.value.pod.name == name) {
        Some(pod) => {
            pod.value.pod.labels = labels;
            pod.value.ready = ready;
            pod.value.terminating = terminating;
        }
        None => new_pod(&name, draft.field("metadata.name"), findings),
    }
}

/// Reports a pod that a change would add.
fn new_pod(name: &ObjectName, at: At<'_>, findings: &mut Findings) {
    let help = "List it in the scenario from the start; until it is to serve, leave it out of `endpoints`, or make it `ready: false`.";
    findings.wrong(at, format!("pod `{}` is not there, and pods cannot be added", short_name(name)), help);
}

fn fixed_fields(at: At<'_>, fields: &[&str], what: &str, findings: &mut Findings) {
    for field in fields.iter().filter(|field| at.has(field)) {
        let message = format!("a step cannot change `{field}` of a {what}");
        findings.wrong(at.field(field).key(), message, format!("Set it in the scenario's list of {what}s."));
    }
}
