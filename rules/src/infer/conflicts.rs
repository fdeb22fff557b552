//! Addresses and node ports that service ports cannot have at the same time: rules of several times, or edited ones, show such.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::model::InferredPort;
use crate::cluster::{Family, ObjectName, Protocol};

/// Leaves each Service one cluster IP of each family, the most frequent one of its ports, and each node port to the first service port that
/// has it. What is taken away is kept as contradicting.
pub(super) fn resolve(ports: &mut [InferredPort]) {
    one_cluster_ip(ports);
    one_owner_of_node_port(ports);
}

fn one_cluster_ip(ports: &mut [InferredPort]) {
    let mut counts: BTreeMap<(ObjectName, Family), BTreeMap<IpAddr, usize>> = BTreeMap::new();
    for port in ports.iter() {
        for ip in &port.cluster_ips {
            *counts.entry((port.service.clone(), Family::of(*ip))).or_default().entry(*ip).or_default() += 1;
        }
    }
    counts.retain(|_, addresses| addresses.len() > 1);
    for ((service, family), addresses) in counts {
        let most = addresses.iter().rev().max_by_key(|(_, count)| **count).map(|(ip, _)| *ip);
        let Some(own) = most else { continue };
        for port in ports.iter_mut().filter(|port| port.service == service) {
            let others: Vec<IpAddr> =
                port.cluster_ips.iter().filter(|ip| Family::of(**ip) == family && **ip != own).copied().collect();
            for ip in others {
                port.cluster_ips.remove(&ip);
                port.cluster_ips.insert(own);
                port.other_cluster_ips.insert(ip);
            }
        }
    }
}

fn one_owner_of_node_port(ports: &mut [InferredPort]) {
    let mut taken: BTreeSet<(Protocol, u16)> = BTreeSet::new();
    for port in ports {
        if port.node_port.is_some_and(|number| !taken.insert((port.protocol, number))) {
            port.shadowed_node_port = port.node_port.take();
        }
    }
}
