//! Neighbouring addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::cluster::Family;

/// Returns a range of two for a single address, and half of the range otherwise.
pub(super) fn another_length(range: IpNet, family: Family) -> Option<IpNet> {
    let length = range.prefix_len();
    let other = if length == family.bits() { length - 1 } else { length + 1 };
    IpNet::new(range.addr(), other).ok().map(|other| other.trunc())
}

/// Returns the address with its last bit flipped.
pub(super) fn neighbour(address: IpAddr) -> IpAddr {
    flipped(address, 1)
}

/// Returns an address of the same range that is unlikely to be in use.
pub(super) fn unused(address: IpAddr) -> IpAddr {
    flipped(address, 0xc0)
}

fn flipped(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() ^ u32::from(bits)).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() ^ u128::from(bits)).into(),
    }
}
