//! Addresses beside others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::cluster::Family;

/// A single address becomes a range of two, a range half of itself.
pub(super) fn another_length(range: IpNet, family: Family) -> Option<IpNet> {
    let length = range.prefix_len();
    let other = if length == family.bits() { length - 1 } else { length + 1 };
    IpNet::new(range.addr(), other).ok().map(|other| other.trunc())
}

/// The address with its last bit flipped.
pub(super) fn neighbour(address: IpAddr) -> IpAddr {
    flipped(address, 1)
}

/// An address of the same range that seldom anybody has.
pub(super) fn stranger(address: IpAddr) -> IpAddr {
    flipped(address, 0xc0)
}

fn flipped(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() ^ u32::from(bits)).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() ^ u128::from(bits)).into(),
    }
}
