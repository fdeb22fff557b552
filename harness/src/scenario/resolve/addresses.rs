//! Default addresses and ranges: always the next free one, so that the same scenario gets the same addresses.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use svclab_rules::cluster::Family;
use svclab_rules::cluster::objects::Special;

/// The addresses that are already taken.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool {
    taken: HashSet<IpAddr>,
    next: HashMap<IpNet, u128>,
}

impl Pool {
    /// Marks addresses as taken.
    pub(crate) fn take(&mut self, addresses: impl IntoIterator<Item = IpAddr>) {
        self.taken.extend(addresses);
    }

    /// Returns the next free address of a range, starting at offset `first`; the last one of an IPv4 range, its broadcast address, is
    /// skipped. `None` if the range is exhausted.
    pub(crate) fn address(&mut self, range: IpNet, first: u128) -> Option<IpAddr> {
        let next = self.next.entry(range).or_insert(first);
        loop {
            let address = nth(range, *next)?;
            *next += 1;
            if self.taken.insert(address) {
                return Some(address);
            }
        }
    }
}

/// Returns the n-th address of a range, from 0.
fn nth(range: IpNet, n: u128) -> Option<IpAddr> {
    match range {
        IpNet::V4(range) => {
            let address = u32::from(range.network()).checked_add(u32::try_from(n).ok()?)?;
            (address < u32::from(range.broadcast())).then(|| IpAddr::V4(address.into()))
        }
        IpNet::V6(range) => {
            let address = u128::from(range.network()).checked_add(n)?;
            (address <= u128::from(range.broadcast())).then(|| IpAddr::V6(address.into()))
        }
    }
}

/// The ranges that are already taken.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ranges {
    taken: Vec<IpNet>,
    /// The number of subnets of a range that have been examined: none of them is free, nor will be.
    seen: HashMap<IpNet, usize>,
}

impl Ranges {
    /// Marks ranges as taken.
    pub(crate) fn take(&mut self, ranges: impl IntoIterator<Item = IpNet>) {
        self.taken.extend(ranges);
    }

    /// Returns the first free subnet of a range, of the size of a node's pod range (/24, /64).
    pub(crate) fn next(&mut self, cluster: IpNet) -> Option<IpNet> {
        let seen = self.seen.entry(cluster).or_default();
        let looked_at = *seen;
        let mut free = |part: &IpNet| {
            *seen += 1;
            !self.taken.iter().any(|other| overlap(*part, *other))
        };
        let part = match cluster {
            IpNet::V4(range) => parts_v4(range)?.skip(looked_at).map(IpNet::V4).find(|part| free(part)),
            IpNet::V6(range) => parts_v6(range)?.skip(looked_at).map(IpNet::V6).find(|part| free(part)),
        };
        self.taken.extend(part);
        part
    }
}

fn parts_v4(range: Ipv4Net) -> Option<impl Iterator<Item = Ipv4Net>> {
    range.subnets(range.prefix_len().max(24)).ok()
}

fn parts_v6(range: Ipv6Net) -> Option<impl Iterator<Item = Ipv6Net>> {
    range.subnets(range.prefix_len().max(64)).ok()
}

/// Returns whether two ranges overlap.
pub(crate) fn overlap(one: IpNet, other: IpNet) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// Describes an address that no machine in a lab can have: `a multicast address`.
pub(crate) fn unusable(ip: IpAddr) -> Option<String> {
    let mapped = matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some());
    let special = Special::of(ip).map(|what| what.to_string());
    special.or_else(|| mapped.then(|| "an IPv4-mapped IPv6 address".to_owned()))
}

/// Describes an address that is not a valid destination of a probe, because it does not identify a single machine. A process may
/// send to its own loopback address, and to an IPv4 link-local address.
pub(crate) fn unreachable(ip: IpAddr) -> Option<String> {
    let link_local = matches!(ip, IpAddr::V4(ip) if ip.is_link_local());
    unusable(ip).filter(|_| !ip.is_loopback() && !link_local)
}

/// Returns the pairs of overlapping ranges, by position: at most `most`, and the number of further ones.
pub(crate) fn overlaps(ranges: &[IpNet], most: usize) -> (Vec<(usize, usize)>, usize) {
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_by_key(|at| (ranges[*at].network(), ranges[*at].prefix_len(), *at));
    // Of two overlapping ranges, one contains the other; those that contain the current one are nested.
    let mut around: Vec<usize> = Vec::new();
    let (mut pairs, mut more) = (Vec::new(), 0);
    for at in order {
        while around.last().is_some_and(|outer| !ranges[*outer].contains(&ranges[at])) {
            around.pop();
        }
        let room = most - pairs.len();
        pairs.extend(around.iter().take(room).map(|outer| (*outer, at)));
        more += around.len().saturating_sub(room);
        around.push(at);
    }
    (pairs, more)
}

/// Returns the family of a range.
pub(crate) fn family(range: IpNet) -> Family {
    Family::of(range.addr())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_skip_what_is_taken_and_end_before_broadcast() {
        let mut pool = Pool::default();
        pool.take(["10.0.0.2".parse().unwrap()]);
        let drawn: Vec<_> = std::iter::from_fn(|| pool.address(range("10.0.0.0/29"), 2)).collect();
        let expected: Vec<IpAddr> =
            ["10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"].map(|ip| ip.parse().unwrap()).to_vec();
        assert_eq!(drawn, expected);
    }

    #[test]
    fn node_ranges_skip_what_overlaps() {
        let mut ranges = Ranges::default();
        ranges.take([range("10.244.0.0/23"), range("fd00:244::/64")]);
        assert_eq!(ranges.next(range("10.244.0.0/22")), Some(range("10.244.2.0/24")));
        assert_eq!(ranges.next(range("10.244.0.0/22")), Some(range("10.244.3.0/24")));
        assert_eq!(ranges.next(range("10.244.0.0/22")), None);
        assert_eq!(ranges.next(range("fd00:244::/56")), Some(range("fd00:244:0:1::/64")));
    }

    /// Each pair of nested ranges is listed with the outer one first; equal ones in the order of the list.
    #[test]
    fn overlaps_are_pairs_up_to_a_bound() {
        let ranges = ["10.0.1.0/24", "10.0.0.0/16", "10.1.0.0/16", "10.0.1.0/24", "fd00::/64"].map(range);
        assert_eq!(overlaps(&ranges, 10), (vec![(1, 0), (1, 3), (0, 3)], 0));
        assert_eq!(overlaps(&ranges, 1), (vec![(1, 0)], 2));
        assert_eq!(overlaps(&vec![range("10.0.0.0/24"); 2_000], 0), (Vec::new(), 1_999_000));
    }
}
