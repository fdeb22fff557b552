//! Comparisons of packet fields between hooks, for one packet or a set of packets.

use std::net::IpAddr;

use svclab_rules::cluster::Family;
use svclab_rules::walk::{Field, Intervals, Narrowing, address_bits};

/// The set of packets that a prediction is made for, unless it is for a single packet.
pub(super) type Set<'n> = Option<&'n Narrowing>;

/// Whether an address of a packet is in these ranges.
pub(super) fn is_among(set: Set<'_>, field: Field, address: IpAddr, numbers: &Intervals) -> bool {
    let value = address_bits(address);
    set.map_or_else(|| numbers.contains(value), |set| set.ask(field, value, numbers))
}

/// The addresses of `127.0.0.0/8`, or `::1`.
pub(super) fn loopback(family: Family) -> Intervals {
    match family {
        Family::Ipv4 => Intervals::between(0x7f00_0000, 0x7fff_ffff),
        Family::Ipv6 => Intervals::one(1),
    }
}

/// Sorted ranges of some addresses, as lookup keys.
pub(super) fn keys(addresses: impl IntoIterator<Item = IpAddr>) -> Vec<(u128, u128)> {
    let mut keys: Vec<(u128, u128)> =
        addresses.into_iter().map(|address| (address_bits(address), address_bits(address))).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
