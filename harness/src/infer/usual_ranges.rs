//! Ranges of pods that are assumed: the usual ones, and ranges with room for more nodes.

use std::net::IpAddr;

use ipnet::IpNet;
use svclab_rules::cluster::Family;

/// The usual ranges of pods: flannel's and kind's, k3s's, Calico's, and those of IPv6. The first without an address of a node or Service is assumed.
const USUAL_POD_RANGES: [&str; 5] =
    ["10.244.0.0/16", "10.42.0.0/16", "192.168.0.0/16", "fd00:10:244::/48", "fd00:10:42::/48"];

/// The usual ranges of pods of a family.
pub(super) fn usual_pod_ranges(family: Family) -> impl Iterator<Item = IpNet> {
    let all = USUAL_POD_RANGES.iter().filter_map(|range| range.parse::<IpNet>().ok());
    all.filter(move |range| Family::of(range.addr()) == family)
}

/// The length of the widest range that is assumed for pods: that of the widest private one.
pub(super) const LEAST_LENGTH: u8 = 8;

/// The usual range of a node that an address is in.
pub(super) fn usual_range(address: IpAddr) -> IpNet {
    IpNet::new_assert(address, if address.is_ipv4() { 24 } else { 64 }).trunc()
}

/// A range with room for more nodes.
pub(super) fn wide(range: IpNet, family: Family) -> IpNet {
    let most = if family == Family::Ipv4 { 16 } else { 48 };
    IpNet::new_assert(range.addr(), range.prefix_len().min(most)).trunc()
}

/// The range with 16 times the addresses.
pub(super) fn wider(range: IpNet) -> IpNet {
    IpNet::new_assert(range.addr(), range.prefix_len().saturating_sub(4)).trunc()
}

/// The smallest range that holds two of the same family.
pub(super) fn around_both(one: IpNet, other: IpNet) -> IpNet {
    let mut range = one;
    while !range.contains(&other) {
        let Some(wider) = range.supernet() else { break };
        range = wider;
    }
    range
}
