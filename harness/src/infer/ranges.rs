//! The pod ranges of nodes, by the addresses of their pods.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use svclab_rules::cluster::Family;

use super::usual_ranges::wide;

/// The lengths of ranges that are tried, the usual one first.
const LENGTHS: [(Family, &[u8]); 2] =
    [(Family::Ipv4, &[24, 25, 26, 27, 28, 29]), (Family::Ipv6, &[64, 80, 96, 112, 120, 124])];

/// How many ranges are tried for a node without pods.
const TRIES: usize = 4096;

/// The ranges of all nodes: those that are given, else one of each family of pods around a pod of the node, in which no other node has a
/// pod and no other machine or service an address.
pub(super) fn assigned(
    given: &BTreeMap<String, Vec<IpNet>>,
    pods: &[(String, IpAddr)],
    taken: &[IpAddr],
) -> BTreeMap<String, Vec<IpNet>> {
    let mut ranges = given.clone();
    for (family, lengths) in LENGTHS {
        let is_of = |range: &&IpNet| Family::of(range.addr()) == family;
        let known = given.values().flatten().find(is_of).copied();
        let pods: Vec<&(String, IpAddr)> = pods.iter().filter(|(_, ip)| Family::of(*ip) == family).collect();
        let start = known.or_else(|| Some(IpNet::new_assert(pods.first()?.1, lengths[0]).trunc()));
        let Some(start) = start else { continue };
        let lacking: Vec<String> = ranges
            .iter()
            .filter(|(_, own)| !own.iter().any(|range| is_of(&range)))
            .map(|(node, _)| node.clone())
            .collect();
        for node in lacking {
            let is_free = |range: &IpNet| {
                !ranges.values().flatten().any(|other| other.contains(range) || range.contains(other))
                    && !taken.iter().any(|ip| range.contains(ip))
                    && !pods.iter().any(|(owner, ip)| *owner != node && range.contains(ip))
            };
            let own = pods.iter().filter(|(owner, _)| *owner == node).map(|(_, ip)| *ip);
            let around = lengths.iter().flat_map(|length| own.clone().map(|ip| IpNet::new_assert(ip, *length).trunc()));
            let spare = || {
                let length = lengths[0].max(start.prefix_len());
                wide(start, family).subnets(length).ok().and_then(|mut all| all.by_ref().take(TRIES).find(&is_free))
            };
            let found = around.into_iter().find(|range| is_free(range)).or_else(spare);
            if let Some(found) = found {
                ranges.entry(node).or_default().push(found);
            }
        }
    }
    ranges
}
