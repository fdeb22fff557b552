//! Addresses of load balancers whose rules are lost: their chains are left, which have no address.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;
use svclab_rules::cluster::{Family, ObjectName};
use svclab_rules::infer::{Inferred, InferredPort};

use super::surroundings::families;
use crate::infer::Assumption;
use crate::infer::merge::Objects;

/// Addresses of documentation (RFC 5737, RFC 3849), of which the last are used: outside hosts have the first ones.
const RANGES: [&str; 2] = ["198.51.100.0/24", "2001:db8:100::/120"];

/// Gives service ports whose chain of a load balancer no rule leads to an address: those of other ports of their Service, otherwise a made-up one.
/// Objects say it themselves. Returns what was made up.
pub(super) fn give(inferred: &mut Inferred, objects: &Objects) -> Vec<Assumption> {
    let known: HashSet<ObjectName> = objects.services().into_iter().map(|(name, _)| name).collect();
    let is_lost = |port: &InferredPort| port.load_balancer.is_empty() && !known.contains(&port.service);
    let mut of_services: BTreeMap<ObjectName, Vec<IpAddr>> = BTreeMap::new();
    for port in &inferred.ports {
        of_services.entry(port.service.clone()).or_default().extend(&port.load_balancer);
    }
    let mut made_up = Vec::new();
    for place in 0..inferred.ports.len() {
        let port = &inferred.ports[place];
        let Some(chain) = port.unreached_chain.clone().filter(|_| is_lost(port)) else { continue };
        let service = port.service.clone();
        let addresses = of_services.entry(service.clone()).or_default();
        if addresses.is_empty() {
            *addresses = free(inferred, &families(port));
            made_up.extend(addresses.iter().map(|&address| {
                let words = format!(
                    "load-balancer address {address} of {service} is made up: no rule leads to its chain {chain}"
                );
                Assumption::StandIn { address, words }
            }));
        }
        inferred.ports[place].load_balancer.extend(&*addresses);
    }
    made_up
}

/// Returns an address of each of these families that no Service has.
fn free(inferred: &Inferred, families: &BTreeSet<Family>) -> Vec<IpAddr> {
    let used: HashSet<IpAddr> =
        inferred.ports.iter().flat_map(|port| port.external_ips.iter().chain(&port.load_balancer)).copied().collect();
    let ranges = RANGES.iter().filter_map(|range| range.parse::<IpNet>().ok());
    let ranges = ranges.filter(|range| families.contains(&Family::of(range.addr())));
    ranges.filter_map(|range| range.hosts().rfind(|ip| !used.contains(ip))).collect()
}
