//! Changes of links, and nodes that are turned off and on.

use svclab_rules::cluster::{Cluster, Family, Link, LinkOwner, LinkState, Percentage, Pod};

use super::findings::Findings;
use super::impairments;
use super::lookup::Scene;
use super::proxies::has_proxy;
use super::shapes::USUAL_MTU;
use crate::input::listed;
use crate::scenario::model::Place;
use crate::scenario::schema::{RawLink, RawLinkState};
use crate::yaml::At;

/// Changes links in a cluster.
///
/// Returns whether there was a valid change.
pub(crate) fn change(
    raw: &[RawLink],
    at: At<'_>,
    scene: &Scene<'_, '_>,
    cluster: &mut Cluster,
    findings: &mut Findings,
) -> bool {
    if raw.is_empty() && !at.is_pruned() {
        findings.wrong(at, "no link is listed", "Add one, for example `{node: NAME, state: down}`.");
    }
    let mut changed = false;
    for (index, raw) in raw.iter().enumerate() {
        let at = at.item(index);
        if !RawLink::PROPERTIES.iter().any(|field| at.has(field)) {
            let help = format!("Add at least one of {}.", listed(&RawLink::PROPERTIES));
            findings.missing(at, "the entry changes nothing about the link", help);
        }
        for owner in owners(raw, at, scene, findings) {
            if let LinkOwner::Node(node) = &owner
                && raw.state.is_some()
                && cluster.is_off(node)
            {
                let message = format!("node {node} is off, so its link is down");
                findings.wrong(at.field("state").key(), message, format!("Turn it on first: `up: node/{node}`."));
                continue;
            }
            let mtu = raw.mtu.filter(|mtu| is_mtu(*mtu, &owner, cluster, at.field("mtu"), findings));
            let link = cluster.links.entry(owner).or_default();
            link.mtu = mtu.map_or(link.mtu, |mtu| (mtu != USUAL_MTU).then_some(mtu));
            if impairments::is_given(raw) {
                link.impairment = impairments::change(link.impairment, raw, at, findings);
            }
            match raw.state {
                Some(RawLinkState::Up) => link.state = LinkState::Up,
                Some(RawLinkState::Down) => link.state = LinkState::Down,
                None => {}
            }
            changed = true;
        }
    }
    keep_unusual(cluster);
    changed
}

/// The smallest MTU of a link with IPv6 (RFC 8200, section 5): below it, the kernel disables IPv6.
pub(crate) const IPV6_MIN_MTU: u16 = 1280;

/// Checks the MTU of a link.
fn is_mtu(mtu: u16, owner: &LinkOwner, cluster: &Cluster, at: At<'_>, findings: &mut Findings) -> bool {
    let has_ipv6 = cluster.nodes.iter().any(|node| node.internal_ip(Family::Ipv6).is_some());
    let smallest = if has_ipv6 { IPV6_MIN_MTU } else { 576 };
    let is_fit = (smallest..=USUAL_MTU).contains(&mtu);
    if !is_fit {
        let message = format!("the MTU of {owner}'s link, {mtu}, is out of range");
        findings.wrong(at, message, format!("Use a number from {smallest} to {USUAL_MTU}."));
    }
    is_fit
}

/// Adds notes on links that make the outcome of a single packet random.
pub(crate) fn check_certain(cluster: &Cluster, at: At<'_>, findings: &mut Findings) {
    let is_chance = |part: Percentage| !part.is_zero() && part.millionths() < 1_000_000;
    for (owner, Link { impairment, .. }) in &cluster.links {
        let what = match (is_chance(impairment.loss), is_chance(impairment.duplicate)) {
            (true, _) => format!("loses {} of its packets", impairment.loss),
            (false, true) => format!("sends {} of its packets twice", impairment.duplicate),
            (false, false) => continue,
        };
        let help = "expect `lost: {atMost: N}` of many `flows`, or send before the link changes";
        findings.doubt(at, format!("the link of {owner} {what}, so this may fail by chance: {help}"));
    }
}

/// Removes links in their default state, so that equivalent states compare equal.
fn keep_unusual(cluster: &mut Cluster) {
    cluster.links.retain(|_, link| *link != Default::default());
}

/// Returns the machines whose links an entry changes.
fn owners(raw: &RawLink, at: At<'_>, scene: &Scene<'_, '_>, findings: &mut Findings) -> Vec<LinkOwner> {
    match (&raw.node, &raw.pod, &raw.host) {
        (Some(name), None, None) => {
            let node = scene.node(name, at.field("node"), findings);
            node.map(|node| LinkOwner::Node(node.name.clone())).into_iter().collect()
        }
        (None, None, Some(name)) => {
            let host = scene.host(name, at.field("host"), findings);
            host.map(|host| LinkOwner::Host(host.name.clone())).into_iter().collect()
        }
        (None, Some(name), None) => {
            let at = at.field("pod");
            let pods = scene.pods(name, at, findings);
            let has_stack = |pod: &&Pod| scene.rules.iter().any(|rules| rules.place == Place::Pod(pod.name.clone()));
            if raw.state.is_some() && pods.iter().any(has_stack) {
                let message =
                    format!("the link of pod `{name}` cannot be taken down, since the pod has rules of its own");
                findings.wrong(at, message, "Change the link of its node, or of the pods that it sends to.");
                return Vec::new();
            }
            if let Some(pod) = pods.iter().find(|pod| pod.host_network) {
                let message = format!("pod `{name}` uses its node's network, so it has no link of its own");
                findings.wrong(at, message, format!("Change the link of its node: `node: {}`.", pod.node));
                return Vec::new();
            }
            pods.into_iter().map(|pod| LinkOwner::Pod(pod.name.clone())).collect()
        }
        _ => {
            let help = format!("Use exactly one of {}.", listed(&RawLink::OWNERS));
            findings.missing(at, "exactly one field must identify the link", help);
            Vec::new()
        }
    }
}

/// The power state change of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodePower {
    /// It is turned off.
    Down,
    /// It is turned on.
    Up,
}

impl NodePower {
    /// Returns the name of the step.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
        }
    }
}

/// Turns nodes of a cluster off or on. kube-proxy on a node that is off is stopped, and starts when the node is turned on.
///
/// Returns whether there was a valid change.
pub(crate) fn power(
    power: NodePower,
    names: &[String],
    at: At<'_>,
    scene: &Scene<'_, '_>,
    cluster: &mut Cluster,
    findings: &mut Findings,
) -> bool {
    const FORM: &str = "Use `node/NAME`, or a list of these.";
    if names.is_empty() && !at.is_pruned() {
        findings.wrong(at, format!("`{}` lists no node", power.as_str()), FORM);
    }
    let mut changed = false;
    for (index, text) in names.iter().enumerate() {
        let at = at.item(index);
        let Some(name) = text.strip_prefix("node/") else {
            findings.wrong(at, format!("`{text}` is not a node"), FORM);
            continue;
        };
        let Some(node) = scene.node(name, at, findings) else { continue };
        match (power, cluster.is_off(name)) {
            (NodePower::Down, true) => {
                findings.wrong(
                    at,
                    format!("node {name} is already off"),
                    "Remove it, or turn it on in an earlier step.",
                );
            }
            (NodePower::Up, false) => {
                findings.wrong(
                    at,
                    format!("node {name} is already on"),
                    "Remove it, or turn it off in an earlier step.",
                );
            }
            (NodePower::Down, false) => {
                if has_proxy(node, scene) {
                    cluster.stop_proxy(name);
                }
                cluster.links.entry(LinkOwner::Node(node.name.clone())).or_default().state = LinkState::MachineOff;
                changed = true;
            }
            (NodePower::Up, true) => {
                cluster.stopped.remove(name);
                cluster.links.entry(LinkOwner::Node(node.name.clone())).or_default().state = LinkState::Up;
                keep_unusual(cluster);
                changed = true;
            }
        }
    }
    changed
}
