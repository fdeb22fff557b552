//! What several rule sets reveal together. Rules of several times, or edited ones, show addresses and node ports that service ports cannot
//! have at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::model::{Inferred, InferredPort};
use crate::cluster::{Family, ObjectName, Protocol};

impl Inferred {
    /// Joins what several rule sets of one cluster reveal.
    pub fn joined(all: impl IntoIterator<Item = Self>) -> Self {
        let mut joined = Self::default();
        let mut places: BTreeMap<(ObjectName, String, Protocol), usize> = BTreeMap::new();
        for one in all {
            joined.proxy.join(one.proxy);
            for port in one.ports {
                let key = (port.service.clone(), port.name.clone(), port.protocol);
                let place = *places.entry(key).or_insert(joined.ports.len());
                match joined.ports.get_mut(place) {
                    Some(known) => known.join(port),
                    None => joined.ports.push(port),
                }
            }
        }
        joined.ports.iter_mut().for_each(InferredPort::tidy);
        joined.ports.sort();
        resolve(&mut joined.ports);
        joined
    }
}

/// Leaves each Service one cluster IP of each family, the most frequent one of its ports, and each node port to the first service port that
/// has it. What is taken away is kept as contradicting.
fn resolve(ports: &mut [InferredPort]) {
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
