//! Steps that restart, stop and start kube-proxies.

use svclab_rules::cluster::{Cluster, Family, Node};

use super::findings::Findings;
use super::lookup::Scene;
use crate::scenario::model::{Install, OtherRules, Place};
use crate::yaml::At;

/// An action of a step on kube-proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProxyAction {
    /// Running ones are stopped and started again.
    Restart,
    /// Running ones are stopped.
    Stop,
    /// Stopped ones are started.
    Start,
}

impl ProxyAction {
    /// Returns the name of the step.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Stop => "stop",
            Self::Start => "start",
        }
    }

    /// Returns whether it applies to stopped kube-proxies.
    fn is_of_stopped(self) -> bool {
        self == Self::Start
    }
}

/// The keyword for a kube-proxy in these steps.
const PROXY: &str = "proxy";

/// Returns the nodes whose kube-proxies a step acts on, without duplicates: the named ones, or all to which the action applies.
pub(crate) fn nodes(
    action: ProxyAction,
    listed: &[String],
    at: At<'_>,
    scene: &Scene<'_, '_>,
    findings: &mut Findings,
) -> Vec<String> {
    let mut chosen: Vec<String> = Vec::new();
    if listed.is_empty() && !at.is_pruned() {
        findings.wrong(at, format!("`{}` lists no kube-proxy", action.as_str()), FORMS);
    }
    for (index, text) in listed.iter().enumerate() {
        let at = at.item(index);
        let named = match text.split_once('@') {
            None if text == PROXY => all(action, at, scene, findings),
            Some((PROXY, node)) => one(action, node, at, scene, findings).into_iter().collect(),
            _ => {
                findings.wrong(at, format!("`{text}` is not a kube-proxy"), FORMS);
                continue;
            }
        };
        for node in named {
            if chosen.contains(&node) {
                findings.wrong(at, format!("the kube-proxy of node {node} is listed twice"), "Remove one of them.");
            } else {
                chosen.push(node);
            }
        }
    }
    chosen
}

const FORMS: &str = "Use `proxy` for the kube-proxies of all nodes, or `proxy@NODE`, or a list of these.";

/// Returns all nodes with a kube-proxy to which the action applies; reports an error if there are none.
fn all(action: ProxyAction, at: At<'_>, scene: &Scene<'_, '_>, findings: &mut Findings) -> Vec<String> {
    let cluster = scene.now.1;
    let fits = |node: &&Node| {
        let is_fit = is_stopped(cluster, &node.name) == action.is_of_stopped() && !cluster.is_off(&node.name);
        is_fit && has_proxy(node, scene)
    };
    let found: Vec<String> = cluster.nodes.iter().filter(fits).map(|node| node.name.clone()).collect();
    if found.is_empty() && findings.errors.is_empty() {
        let state = if action.is_of_stopped() { "stopped" } else { "running" };
        findings.wrong(at, format!("no kube-proxy is {state}"), format!("Remove this `{}`.", action.as_str()));
    }
    found
}

/// Returns the node of this name, if it has a kube-proxy to which the action applies.
fn one(action: ProxyAction, name: &str, at: At<'_>, scene: &Scene<'_, '_>, findings: &mut Findings) -> Option<String> {
    let node = scene.node(name, at, findings)?;
    if !has_proxy(node, scene) {
        let message = format!("node {name} has no kube-proxy: its rules are the scenario's own (`install: instead`)");
        findings.wrong(at, message, "Name another node, or use `before` or `after` for its rules.");
        return None;
    }
    if scene.now.1.is_off(name) {
        let message = format!("node {name} is off, and so is its kube-proxy");
        findings.wrong(at, message, format!("Turn it on first: `up: node/{name}`."));
        return None;
    }
    match (action, is_stopped(scene.now.1, name)) {
        (ProxyAction::Start, false) => {
            let message = format!("the kube-proxy of node {name} is already running");
            findings.wrong(at, message, "Remove this `start`, or stop it in an earlier step.");
        }
        (ProxyAction::Stop, true) => {
            let message = format!("the kube-proxy of node {name} is already stopped");
            findings.wrong(at, message, "Remove this `stop`, or start it in an earlier step.");
        }
        (ProxyAction::Restart, true) => {
            let message = format!("the kube-proxy of node {name} is stopped");
            findings.wrong(at, message, "Use `start`.");
        }
        _ => return Some(name.to_owned()),
    }
    None
}

fn is_stopped(cluster: &Cluster, node: &str) -> bool {
    cluster.stopped.contains_key(node)
}

/// Returns whether a node's rules of some family are a kube-proxy's.
pub(super) fn has_proxy(node: &Node, scene: &Scene<'_, '_>) -> bool {
    let place = Place::Node(node.name.clone());
    let mut families = Family::ALL.into_iter().filter(|family| node.internal_ip(*family).is_some());
    families.any(|family| {
        let is_instead =
            |one: &OtherRules| one.install == Install::Instead && one.place == place && one.family == family;
        !scene.rules.iter().any(is_instead)
    })
}
