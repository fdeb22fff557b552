//! Checks across a whole scenario: duplicate and unusable addresses.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use svclab_rules::cluster::{Cluster, Family, Node, ProxyMode};
use svclab_rules::nftables;
use svclab_rules::profile::Profile;

use super::addresses::{family, unusable};
use super::findings::Findings;
use super::located::Located;
use super::network::Network;
use super::objects::Objects;
use crate::scenario::model::{Host, Scenario, pod_label};
use crate::yaml::{At, Place};

/// Maximum length of a file name (`NAME_MAX` of Linux).
const NAME_BYTES: usize = 255;

/// Checks the addresses of all machines.
pub(crate) fn addresses(
    objects: &Objects<'_>,
    hosts: &[Located<'_, Host>],
    (cluster, network): (&Cluster, &Network),
    findings: &mut Findings,
) {
    let mut used: HashMap<IpAddr, (String, At<'_>)> = HashMap::new();
    for node in &objects.nodes {
        for ip in node.value.addresses() {
            claim(&mut used, ip, format!("node {}", node.value.name), written(node.at, ip), findings);
        }
    }
    for pod in &objects.pods {
        let name = crate::scenario::model::short_name(&pod.value.pod.name);
        if !pod.value.pod.host_network {
            for ip in &pod.value.pod.ips {
                claim(&mut used, *ip, format!("pod {name}"), written(pod.at, *ip), findings);
            }
        }
        in_range(objects, pod, network, findings);
    }
    objects.nodes.iter().for_each(|node| full_ranges(node, &used, findings));
    for host in hosts {
        for ip in &host.value.ips {
            claim(&mut used, *ip, format!("host {}", host.value.name), written(host.at, *ip), findings);
        }
    }
    for service in &cluster.services {
        for ip in &service.cluster_ips {
            if let Some((owner, at)) = used.get(ip) {
                let message = format!("{ip} of {owner} is also the cluster IP of service {}", service.name);
                findings.wrong(*at, message, "Change one of the two addresses.");
            }
        }
    }
}

/// Checks that every machine's name is a valid file name, because its network namespace is bound to a file.
pub(crate) fn names(objects: &Objects<'_>, hosts: &[Located<'_, Host>], findings: &mut Findings) {
    let nodes = objects.nodes.iter().map(|node| (format!("node/{}", node.value.name), node.field("metadata.name")));
    let pods = objects.pods.iter().map(|pod| (pod_label(&pod.value.pod.name), pod.field("metadata.name")));
    let hosts = hosts.iter().map(|host| (format!("host/{}", host.value.name), host.field("metadata.name")));
    for (name, at) in nodes.chain(pods).chain(hosts) {
        // An underscore is escaped there.
        let bytes = name.len() + 2 * name.matches('_').count();
        if bytes > NAME_BYTES {
            let message = format!("`{name}` is too long for a network namespace: {bytes} bytes, at most {NAME_BYTES}");
            findings.wrong(at, message, "Use a shorter name.");
        }
    }
}

/// Checks that kube-proxy in nftables mode can write its table in every state. Unknown releases are reported elsewhere.
pub(crate) fn nftables(scenario: &Scenario, at: At<'_>, findings: &mut Findings) {
    let proxy = &scenario.cluster.proxy;
    if proxy.mode != ProxyMode::Nftables || proxy.version.parse::<Profile>().is_err() {
        return;
    }
    for state in scenario.states() {
        for node in &state.nodes {
            for family in Family::ALL.into_iter().filter(|family| node.internal_ip(*family).is_some()) {
                if let Err(error) = nftables::generate(state, node, family) {
                    let help = match error {
                        nftables::Unsupported::Release(_) => "Set `version: \"1.30\"` or later, or `mode: iptables`.",
                        _ => "Change the scenario, or set another `version` or `mode`.",
                    };
                    findings.wrong(at, error.to_string(), help);
                }
            }
        }
    }
}

/// Returns the place of a machine's address; of a default address, that of the machine.
fn written(machine: At<'_>, ip: IpAddr) -> At<'_> {
    machine.reading(&ip).unwrap_or_else(|| machine.first_of(&["ip", "ips"]))
}

fn claim<'a>(
    used: &mut HashMap<IpAddr, (String, At<'a>)>,
    ip: IpAddr,
    owner: String,
    at: At<'a>,
    findings: &mut Findings,
) {
    if let Some(kind) = unusable(ip) {
        let help = "Use a unicast address that other machines can reach, or omit it.";
        findings.wrong(at, format!("`{ip}` of {owner} is {kind}"), help);
    } else if let Some((other, first)) = used.get(&ip) {
        let error = at.error(format!("{ip} of {owner} is already the address of {other}"));
        findings.add(error.help("Give each machine its own address.").also(first.label("first used here")));
    } else {
        used.insert(ip, (owner, at));
    }
}

/// Checks that a node has a free address in each of its pod ranges, for its bridge.
fn full_ranges(node: &Located<'_, Node>, used: &HashMap<IpAddr, (String, At<'_>)>, findings: &mut Findings) {
    let is_full = |range: &&IpNet| range.hosts().all(|address| used.contains_key(&address));
    for range in node.value.pod_cidrs.iter().filter(is_full) {
        let message = format!("pods use every address of pod range {range}; the node's bridge needs one");
        findings.wrong(node.field("spec.podCIDR"), message, "Set a larger `podCIDR`.");
    }
}

/// Checks that a pod's address is in its node's range, or in the cluster's but no node's; with hostNetwork, that it is the node's own.
fn in_range(
    objects: &Objects<'_>,
    pod: &Located<'_, super::pods::PodState>,
    network: &Network,
    findings: &mut Findings,
) {
    let (pod, machine) = (&pod.value.pod, pod.at);
    let Some(node) = objects.node(&pod.node) else { return };
    for ip in &pod.ips {
        let at = written(machine, *ip);
        if pod.host_network {
            if !node.internal_ips.contains(ip) {
                let message = format!("{ip} is not an address of node {}, whose network the pod uses", node.name);
                findings.wrong(at, message, "Omit the address: with `hostNetwork` it is the node's.");
            }
            continue;
        }
        let is_of = |range: &IpNet| range.contains(ip);
        if node.pod_cidrs.iter().any(is_of) {
            continue;
        }
        let is_of_a_node = objects.nodes.iter().any(|node| node.value.pod_cidrs.iter().any(is_of));
        // As allocated from the address pools of calico and others.
        if !is_of_a_node && network.pod_cidrs.iter().any(is_of) {
            continue;
        }
        let ranges = node.pod_cidrs.iter().filter(|range| family(**range) == Family::of(*ip));
        let ranges = ranges.map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let (message, help) = if ranges.is_empty() {
            let family = Family::of(*ip);
            (
                format!("node {} has no {family} range for {ip}", node.name),
                "Add one to the node's `podCIDR`.".to_owned(),
            )
        } else {
            let message = format!("{ip} is outside the pod range of node {}, {ranges}", node.name);
            (message, format!("Use an address in {ranges}, omit it, or move the pod to another node."))
        };
        findings.wrong(at, message, help);
    }
}
