//! Nodes: short forms and manifests, with addresses and ranges filled in.

use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::core::v1 as core;
use svclab_rules::cluster::{Family, Node, objects};

use super::addresses::{Pool, Ranges, family, overlaps};
use super::findings::Findings;
use super::located::{Located, sound};
use super::network::Network;
use crate::input::limits;
use crate::scenario::schema::{OneOrMany, RawNode};
use crate::yaml::{At, Place};

/// Default ranges of node addresses, kind's first: the first range of a family that does not overlap with pods is used.
pub(crate) const NODE_RANGES: [&str; 4] =
    ["172.18.0.0/16", "192.168.18.0/24", "fd00:172:18::/64", "fd00:192:168:18::/64"];

/// Returns the Kubernetes object of a short form.
fn object(raw: &RawNode) -> core::Node {
    let listed = |kind: &str, lists: [&Option<OneOrMany<String>>; 2]| {
        let address = |address: String| core::NodeAddress { address, type_: kind.to_owned() };
        one_of(lists).into_iter().map(address).collect::<Vec<_>>()
    };
    let mut addresses = listed("InternalIP", [&raw.ips, &raw.ip]);
    addresses.extend(listed("ExternalIP", [&raw.external_ips, &raw.external_ip]));
    let mut node = core::Node::default();
    node.metadata.name = Some(raw.name.clone());
    node.metadata.labels.clone_from(&raw.labels);
    let ranges = one_of([&raw.pod_cidrs, &raw.pod_cidr]);
    node.spec = Some(core::NodeSpec { pod_cidrs: Some(ranges), ..Default::default() });
    node.status = Some(core::NodeStatus { addresses: Some(addresses), ..Default::default() });
    node
}

/// Returns the values of the first list that is given.
pub(crate) fn one_of(lists: [&Option<OneOrMany<String>>; 2]) -> Vec<String> {
    lists.into_iter().flatten().next().map(|list| list.0.clone()).unwrap_or_default()
}

/// Reports a value that is given in two ways.
pub(crate) fn only_one(at: At<'_>, fields: [&str; 2], findings: &mut Findings) {
    if fields.iter().all(|field| at.has(field)) {
        let message = format!("`{}` and `{}` are mutually exclusive", fields[0], fields[1]);
        findings.wrong(at.field(fields[1]).key(), message, "Remove one of them.");
    }
}

/// Resolves a node in the scenario's list.
pub(crate) fn short<'a>(raw: &RawNode, at: At<'a>, findings: &mut Findings) -> Option<Located<'a, Node>> {
    for fields in [["ip", "ips"], ["externalIP", "externalIPs"], ["podCIDR", "podCIDRs"]] {
        only_one(at, fields, findings);
    }
    let source = Located::short((), at);
    let node = sound(&source, objects::node(&object(raw)), findings)?;
    Some(source.with(Node { hostname_override: hostname_override(raw, at, findings), ..node }))
}

/// Returns the node name that kube-proxy uses, if it differs. kube-proxy trims it and converts it to lower case
/// (`GetHostname` in `pkg/util/node`), and rejects an empty one.
pub(crate) fn hostname_override(raw: &RawNode, at: At<'_>, findings: &mut Findings) -> Option<String> {
    let given = raw.hostname_override.as_ref()?.trim().to_lowercase();
    if given.is_empty() {
        let at = at.field("hostnameOverride");
        findings.wrong(at, "empty `hostnameOverride`", "Use the name that kube-proxy was started with, or omit it.");
    }
    (given != raw.name).then_some(given)
}

/// Assigns default addresses and pod ranges, and checks the ranges.
pub(crate) fn complete(nodes: &mut [Located<'_, Node>], network: &Network, pool: &mut Pool, findings: &mut Findings) {
    pool.take(nodes.iter().flat_map(|node| node.value.addresses()));
    for node in nodes.iter_mut().filter(|node| node.value.internal_ips.is_empty()) {
        node.value.internal_ips = defaults(&network.free(&NODE_RANGES), &network.families(), 2, pool);
    }
    let mut taken = Ranges::default();
    taken.take(nodes.iter().flat_map(|node| node.value.pod_cidrs.clone()));
    for node in nodes.iter_mut().filter(|node| node.value.pod_cidrs.is_empty()) {
        for range in &network.pod_cidrs {
            let Some(part) = taken.next(*range) else {
                let message = format!("the cluster's podCIDR {range} has no room for another node");
                findings.wrong(node.at, message, "Set a larger `cluster.podCIDR`, or set `podCIDR` on the node.");
                continue;
            };
            node.value.pod_cidrs.push(part);
        }
    }
    ranges(nodes, network, findings);
}

/// Returns the next free address of a default range, for each family.
pub(crate) fn defaults(ranges: &[IpNet], families: &[Family], first: u128, pool: &mut Pool) -> Vec<IpAddr> {
    let of = |wanted: Family| ranges.iter().copied().find(|range| family(*range) == wanted);
    families.iter().filter_map(|family| pool.address(of(*family)?, first)).collect()
}

/// Returns the place of a node's range; of a default range, that of the node.
fn written<'a>(node: &Located<'a, Node>, range: &IpNet) -> At<'a> {
    node.at.reading(range).unwrap_or_else(|| node.field("spec.podCIDR"))
}

fn ranges(nodes: &[Located<'_, Node>], network: &Network, findings: &mut Findings) {
    let all: Vec<_> =
        nodes.iter().flat_map(|node| node.value.pod_cidrs.iter().map(move |range| (node, range))).collect();
    for (node, range) in &all {
        let same_family = network.pod_cidrs.iter().find(|cluster| family(**cluster) == family(**range));
        if same_family.is_none_or(|cluster| !cluster.contains(*range)) {
            let cluster = network.pod_cidrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let default = if network.has_pod_cidr { "" } else { ", the default" };
            let message = format!("the node's range {range} is outside the cluster's podCIDR {cluster}{default}");
            let help = "Set `cluster.podCIDR` to a range that contains those of all nodes.";
            findings.wrong(written(node, range), message, help);
        }
    }
    let ranges: Vec<IpNet> = all.iter().map(|(_, range)| **range).collect();
    let (pairs, more) = overlaps(&ranges, limits::ERRORS);
    let count = pairs.len();
    for (number, (one, other)) in pairs.into_iter().enumerate() {
        let ((first, common), (node, range)) = (all[one.min(other)], all[one.max(other)]);
        let more = match more {
            more if more > 0 && number + 1 == count => format!(" (and {more} more pairs of ranges overlap)"),
            _ => String::new(),
        };
        let message = format!("the range {range} overlaps with {common} of node {}{more}", first.value.name);
        let error = written(node, range).error(message).help("Give each node its own range.");
        findings.add(error.also(written(first, common).label("the other range")));
    }
}
