//! The balance that the Service API promises.

use std::net::SocketAddr;

use svclab_rules::cluster::{Cluster, Family};
use svclab_rules::promise::{Promise, PromisedOutcome, Promises, Question, VantagePoint};

use super::findings::Findings;
use super::lookup::Scene;
use crate::observation::Promised;
use crate::scenario::model::{Balance, Probe, Target, Vantage, short_name};
use crate::yaml::At;

/// Returns the promised shares of a probe's flows, with the policies and hints of the Service in this state of the cluster. Reports an
/// error if no shares are promised.
pub(crate) fn promised(probe: &Probe, at: At<'_>, scene: &Scene<'_, '_>, findings: &mut Findings) -> Option<Balance> {
    let cluster = scene.now.1;
    let to = SocketAddr::new(probe.to.address, probe.to.port);
    let is_of_node = cluster.nodes.iter().any(|node| node.addresses().any(|own| own == probe.to.address));
    if matches!(probe.from, Vantage::Host(_)) && probe.to.via.is_none() && !is_of_node {
        let message = "the promise depends on the node that receives the packets";
        findings.wrong(at, message, "Append `@NODE` to the destination.");
        return None;
    }
    let from = vantage_point(probe, scene)?;
    let question = Question { from, to, protocol: probe.protocol, via: probe.to.via.clone() };
    let promise = match Promises::of(cluster) {
        Ok(promises) => promises.about(&question),
        Err(unknown) => {
            findings.wrong(at, unknown.to_string(), "Set `cluster.proxy.version` to a known release.");
            return None;
        }
    };
    shares(&promise).map_err(|(message, help)| findings.wrong(at, message, help)).ok().map(|shares| {
        let target = |(address, share): (SocketAddr, f64)| (target(address, scene), share);
        Balance::Shares(shares.into_iter().map(target).collect())
    })
}

/// Reports flows that cannot follow a change, because their promise is the same in both states of the cluster. Flows of an outside host may
/// enter at every node.
pub(crate) fn check_follows(
    probe: &Probe,
    before: &Cluster,
    at: At<'_>,
    scene: &Scene<'_, '_>,
    findings: &mut Findings,
) {
    let after = scene.now.1;
    let Some(from) = vantage_point(probe, scene) else { return };
    let sender = match &probe.from {
        Vantage::Pod(name) => scene.now.1.pod(name).or_else(|| before.pod(name)).map(|pod| pod.node.as_str()),
        Vantage::Node(name) | Vantage::Localhost(name) => Some(name.as_str()),
        Vantage::Host(_) => None,
    };
    let entries = match (&probe.from, &probe.to.via) {
        (Vantage::Host(_), None) => after.nodes.iter().map(|node| Some(node.name.as_str())).collect(),
        (_, via) => vec![via.as_deref()],
    };
    let promised = |cluster: &Cluster, via: Option<&str>| {
        let to = SocketAddr::new(probe.to.address, probe.to.port);
        let question = Question { from: from.clone(), to, protocol: probe.protocol, via: via.map(str::to_owned) };
        // A stopped kube-proxy keeps the rules of its last sync.
        let synced = cluster.synced_on(sender.or(via).unwrap_or_default());
        Some(Promised::of(&Promises::of(&synced).ok()?.about(&question).outcome))
    };
    let mut unchanged = Vec::new();
    for via in entries {
        match (promised(before, via), promised(after, via)) {
            (Some(before), Some(after)) if before == after => unchanged.push(after),
            _ => return,
        }
    }
    let stopped = sender
        .or(probe.to.via.as_deref())
        .filter(|node| before.stopped.contains_key(*node) && after.stopped.contains_key(*node));
    let (why, help) = match stopped {
        Some(node) => (
            format!("the kube-proxy of node {node} is stopped before and after the change"),
            "Start it in an earlier step, send from another node, or omit `followedWithin`.",
        ),
        None if unchanged.iter().all(|promised| *promised == Promised::Nothing) => (
            "no promise applies to them".to_owned(),
            "Send to an address of a Service that the change affects, or omit `followedWithin`.",
        ),
        None => (
            "the promise is the same before and after the change".to_owned(),
            "Change the endpoints or the policy that these flows depend on, or omit `followedWithin`.",
        ),
    };
    findings.wrong(
        at,
        format!("`followedWithin` has no effect on flows from {} to {}: {why}", probe.from, probe.to.label),
        help,
    );
}

/// Returns endpoints with their shares, or a message and help if there are no shares.
fn shares(promise: &Promise) -> Result<Vec<(SocketAddr, f64)>, (String, &'static str)> {
    match &promise.outcome {
        PromisedOutcome::Delivered { affinity_seconds: Some(seconds), .. } => {
            let message =
                format!("no shares are promised: with `sessionAffinity` a client keeps its endpoint for {seconds} s");
            Err((message, "Expect `affinity: true`, or omit `sessionAffinity`."))
        }
        PromisedOutcome::Delivered { endpoints, .. } => {
            Ok(endpoints.iter().map(|own| (own.address, 1.0 / own.share.one_in as f64)).collect())
        }
        other => Err((
            format!("the Service API promises no shares here, but this outcome: {other}"),
            "Expect that outcome instead of `balance`.",
        )),
    }
}

fn vantage_point(probe: &Probe, scene: &Scene<'_, '_>) -> Option<VantagePoint> {
    Some(match &probe.from {
        Vantage::Pod(name) => VantagePoint::Pod(name.clone()),
        Vantage::Node(name) => VantagePoint::Node(name.clone()),
        Vantage::Localhost(name) => VantagePoint::Localhost(name.clone()),
        Vantage::Host(name) => {
            let host = scene.hosts.iter().find(|host| host.value.name == *name)?;
            let family = Family::of(probe.to.address);
            VantagePoint::Outside(*host.value.ips.iter().find(|ip| Family::of(**ip) == family)?)
        }
    })
}

/// Returns an endpoint as a target, named after its pod if it has one.
fn target(at: SocketAddr, scene: &Scene<'_, '_>) -> Target {
    let mut endpoints = scene.now.1.slices.iter().flat_map(|slice| &slice.endpoints);
    let pod = endpoints.find(|own| own.addresses.contains(&at.ip())).and_then(|own| own.pod.as_ref());
    let label = match pod {
        Some(pod) => format!("pod/{}:{}", short_name(pod), at.port()),
        None => at.to_string(),
    };
    Target { label, address: at.ip(), port: Some(at.port()) }
}
