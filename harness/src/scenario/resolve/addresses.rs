//! Addresses and ranges that are filled in where the author gave none: always the next free one, so that the same
//! scenario gets the same addresses.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use svclab_rules::cluster::Family;

/// What is taken already.
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

    /// The next free address of a range, counted from `first` after its start; the last one of an IPv4 range, its
    /// broadcast address, is left out. `None` where the range is used up.
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

/// The n-th address of a range, from 0.
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

/// The first part of a range, of the size that a node gets (/24, /64), that overlaps with none of the taken ones.
pub(crate) fn node_range(cluster: IpNet, taken: &[IpNet]) -> Option<IpNet> {
    let free = |part: IpNet| !taken.iter().any(|other| overlap(part, *other));
    match cluster {
        IpNet::V4(range) => parts_v4(range)?.map(IpNet::V4).find(|part| free(*part)),
        IpNet::V6(range) => parts_v6(range)?.map(IpNet::V6).find(|part| free(*part)),
    }
}

fn parts_v4(range: Ipv4Net) -> Option<impl Iterator<Item = Ipv4Net>> {
    range.subnets(range.prefix_len().max(24)).ok()
}

fn parts_v6(range: Ipv6Net) -> Option<impl Iterator<Item = Ipv6Net>> {
    range.subnets(range.prefix_len().max(64)).ok()
}

/// True where two ranges have an address in common.
pub(crate) fn overlap(one: IpNet, other: IpNet) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// The family of a range.
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
        let taken = [range("10.244.0.0/23"), range("fd00:244::/64")];
        assert_eq!(node_range(range("10.244.0.0/16"), &taken), Some(range("10.244.2.0/24")));
        assert_eq!(node_range(range("fd00:244::/56"), &taken), Some(range("fd00:244:0:1::/64")));
        assert_eq!(node_range(range("10.244.0.0/24"), &taken), None);
    }
}
