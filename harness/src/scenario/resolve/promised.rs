//! The balance that the Service API promises.

use std::net::SocketAddr;

use svclab_rules::cluster::Family;
use svclab_rules::promise::{Promise, PromisedOutcome, Promises, Question, VantagePoint};

use super::findings::Findings;
use super::scene::Scene;
use crate::scenario::model::{Balance, Probe, Target, Vantage, short_name};
use crate::yaml::At;

/// The shares that are promised to a probe's flows, with the policies and hints of the Service in this state of the cluster.
/// An error if no shares are promised.
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

/// Endpoints with their shares, or why there are none to be judged, and what to do.
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
        other => Err((format!("no shares are promised, but: {other}"), "Expect that instead of `balance`.")),
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

/// An endpoint, by the name of its pod where it has one.
fn target(at: SocketAddr, scene: &Scene<'_, '_>) -> Target {
    let mut endpoints = scene.now.1.slices.iter().flat_map(|slice| &slice.endpoints);
    let pod = endpoints.find(|own| own.addresses.contains(&at.ip())).and_then(|own| own.pod.as_ref());
    let label = match pod {
        Some(pod) => format!("pod/{}:{}", short_name(pod), at.port()),
        None => at.to_string(),
    };
    Target { label, address: at.ip(), port: Some(at.port()) }
}
