//! Pods: short forms and manifests, with replicas expanded and addresses filled in.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1 as core;
use svclab_rules::cluster::objects::{self, Reading};
use svclab_rules::cluster::{Family, Node, ObjectName, Pod};

use super::addresses::Pool;
use super::findings::Findings;
use super::located::{Located, sound};
use super::nodes::{one_of, only_one};
use crate::input::limits;
use crate::scenario::schema::RawPod;
use crate::yaml::At;

/// A pod with additional state.
#[derive(Debug, Clone)]
pub(crate) struct PodState {
    /// The pod.
    pub(crate) pod: Pod,
    /// The name in the scenario, if it covers several pods.
    pub(crate) group: Option<String>,
    /// Whether it is ready or serving; a terminating pod may still serve.
    pub(crate) ready: bool,
    /// Whether it is terminating.
    pub(crate) terminating: bool,
}

/// A pod whose addresses may still be missing.
pub(crate) struct Draft {
    object: core::Pod,
    group: Option<String>,
    terminating: bool,
}

/// Returns the pods of an item in the scenario's list.
pub(crate) fn short<'a>(
    raw: &RawPod,
    at: At<'a>,
    nodes: &[Located<'_, Node>],
    findings: &mut Findings,
) -> Vec<Located<'a, Draft>> {
    only_one(at, ["ip", "ips"], findings);
    only_one(at, ["node", "nodes"], findings);
    let replicas = raw.replicas.unwrap_or(1);
    if !(1..=limits::REPLICAS).contains(&replicas) {
        let message = format!("`replicas`: {replicas} is out of range");
        findings.wrong(at.field("replicas"), message, format!("Use a number from 1 to {}.", limits::REPLICAS));
        return Vec::new();
    }
    let addresses = one_of([&raw.ips, &raw.ip]);
    if replicas > 1 && !addresses.is_empty() {
        let message = "several pods cannot have the same address";
        findings.wrong(at.first_of(&["ip", "ips"]), message, "Omit `ip`: each pod gets the next free address.");
    }
    let hosts = hosts(raw, at, nodes, findings);
    let group = (replicas > 1).then(|| raw.name.clone());
    let name = |number: u32| if group.is_some() { format!("{}-{number}", raw.name) } else { raw.name.clone() };
    let terminating = raw.terminating.unwrap_or(false);
    let draft = |(number, node): (u32, &String)| {
        let object = object(raw, name(number), node, &addresses);
        Located::short(Draft { object, group: group.clone(), terminating }, at)
    };
    (1..=replicas).zip(hosts.iter().cycle()).map(draft).collect()
}

/// Returns the nodes that the pods of an item are spread over.
fn hosts(raw: &RawPod, at: At<'_>, nodes: &[Located<'_, Node>], findings: &mut Findings) -> Vec<String> {
    if let Some(node) = &raw.node {
        return vec![node.clone()];
    }
    let several = raw.nodes.as_ref().is_some_and(|nodes| !nodes.is_empty());
    if let Some(nodes) = raw.nodes.as_ref().filter(|_| several) {
        return nodes.clone();
    }
    if raw.replicas.is_none() && nodes.len() > 1 {
        findings.missing(at, format!("pod `{}` has no node", raw.name), "Add `node: NAME`.");
        return Vec::new();
    }
    nodes.iter().map(|node| node.value.name.clone()).collect()
}

/// Returns the Kubernetes object of a short form.
fn object(raw: &RawPod, name: String, node: &str, addresses: &[String]) -> core::Pod {
    let port = |port: &crate::scenario::schema::RawPodPort| core::ContainerPort {
        name: port.name.clone(),
        container_port: port.container_port,
        protocol: port.protocol.clone(),
        host_port: port.host_port,
        ..Default::default()
    };
    let ports = raw.ports.as_ref().map(|ports| ports.iter().map(port).collect());
    let ready = if raw.ready.unwrap_or(true) { "True" } else { "False" };
    let mut pod = core::Pod::default();
    pod.metadata.name = Some(name);
    pod.metadata.namespace.clone_from(&raw.namespace);
    pod.metadata.labels.clone_from(&raw.labels);
    pod.spec = Some(core::PodSpec {
        node_name: Some(node.to_owned()),
        host_network: raw.host_network,
        containers: vec![core::Container { ports, ..Default::default() }],
        ..Default::default()
    });
    pod.status = Some(core::PodStatus {
        pod_ips: Some(addresses.iter().map(|ip| core::PodIP { ip: ip.clone() }).collect()),
        conditions: Some(vec![core::PodCondition {
            type_: "Ready".to_owned(),
            status: ready.to_owned(),
            ..Default::default()
        }]),
        ..Default::default()
    });
    pod
}

/// A pod of a manifest.
pub(crate) fn manifest(object: core::Pod, at: At<'_>) -> Located<'_, Draft> {
    let terminating = object.metadata.deletion_timestamp.is_some();
    Located::manifest(Draft { object, group: None, terminating }, at)
}

/// Returns the addresses given by the author.
pub(crate) fn given(draft: &Draft) -> impl Iterator<Item = IpAddr> {
    texts(&draft.object).into_iter().filter_map(|text| text.parse().ok())
}

fn texts(object: &core::Pod) -> Vec<&str> {
    let Some(status) = &object.status else { return Vec::new() };
    let listed = status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str());
    listed.chain(status.pod_ip.as_deref()).filter(|text| !text.is_empty()).collect()
}

/// Completes drafts: looks up their nodes and assigns missing addresses. A missing node
/// is passed to `missing_node`.
pub(crate) fn complete<'a>(
    drafts: Vec<Located<'a, Draft>>,
    nodes: &[Located<'_, Node>],
    missing_node: &dyn Fn(&str, At<'_>, &mut Findings),
    pool: &mut Pool,
    findings: &mut Findings,
) -> Vec<Located<'a, PodState>> {
    let mut pods = Vec::new();
    for mut draft in drafts {
        let wanted = draft.value.object.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        let node = nodes.iter().find(|node| node.value.name == wanted);
        if let Some(node) = node {
            fill(&mut draft, &node.value, pool, findings);
        } else if !wanted.is_empty() {
            missing_node(&wanted, place_of_node(&draft, &wanted), findings);
        }
        let Some(reading) = sound(&draft, objects::pod(&draft.value.object), findings) else { continue };
        match (reading, node) {
            (Reading::Kept(pod), Some(_)) => pods.push(draft.with(state(pod, &draft.value))),
            (Reading::Ignored(note), _) => findings.note(draft.at, note.to_string()),
            (Reading::Kept(_), None) => {}
        }
    }
    pods
}

fn place_of_node<'a>(draft: &Located<'a, Draft>, wanted: &str) -> At<'a> {
    let at = draft.field("spec.nodeName");
    let index = at.node().items().iter().position(|item| item.text() == Some(wanted));
    index.map_or(at, |index| at.item(index))
}

fn state(pod: Pod, draft: &Draft) -> PodState {
    let (ready, terminating) = conditions(draft);
    PodState { pod, group: draft.group.clone(), ready, terminating }
}

/// Returns whether a pod is ready, and whether it is terminating.
fn conditions(draft: &Draft) -> (bool, bool) {
    let listed = draft.object.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let unready = listed.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "False");
    (!unready, draft.terminating)
}

/// Returns what a step can change with a pod's Kubernetes object: name, labels, ready, terminating.
pub(crate) fn changed(draft: &Draft) -> (ObjectName, BTreeMap<String, String>, bool, bool) {
    let metadata = &draft.object.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or("default");
    let name = ObjectName::new(namespace, metadata.name.as_deref().unwrap_or_default());
    let (ready, terminating) = conditions(draft);
    (name, metadata.labels.clone().unwrap_or_default(), ready, terminating)
}

/// Fills in the addresses: the node's own, or the next free ones of its ranges.
fn fill(draft: &mut Located<'_, Draft>, node: &Node, pool: &mut Pool, findings: &mut Findings) {
    let object = &draft.value.object;
    let ended = object.status.as_ref().and_then(|status| status.phase.as_deref());
    if !texts(object).is_empty() || matches!(ended, Some("Succeeded" | "Failed")) {
        return;
    }
    let on_host = object.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or_default();
    let addresses: Vec<IpAddr> = if on_host {
        Family::ALL.into_iter().filter_map(|family| node.internal_ip(family)).collect()
    } else {
        node.pod_cidrs.iter().filter_map(|range| pool.address(*range, 2)).collect()
    };
    if addresses.len() < node.pod_cidrs.len() && !on_host {
        let message = format!("the pod range of node {} has no free address for this pod", node.name);
        findings.wrong(draft.at, message, "Set a larger `podCIDR` on the node, or use more nodes.");
    }
    let status = draft.value.object.status.get_or_insert_default();
    status.pod_ips = Some(addresses.iter().map(|ip| core::PodIP { ip: ip.to_string() }).collect());
}

/// Returns the pods for a name: the pod of that name, or the replicas declared under it.
pub(crate) fn named<'s, 'a>(pods: &'s [Located<'a, PodState>], name: &ObjectName) -> Vec<&'s Located<'a, PodState>> {
    let exact: Vec<_> = pods.iter().filter(|pod| &pod.value.pod.name == name).collect();
    if !exact.is_empty() {
        return exact;
    }
    let in_group = |pod: &&Located<'_, PodState>| {
        pod.value.group.as_deref() == Some(&name.name) && pod.value.pod.name.namespace == name.namespace
    };
    pods.iter().filter(in_group).collect()
}
