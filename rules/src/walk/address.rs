//! Addresses as numbers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::cluster::Family;

/// Returns an address as a number; IPv4 addresses are below 2^32.
pub fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Returns the address of a number; for IPv4, the upper bits are dropped.
pub fn address_from_bits(bits: u128, family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => Ipv4Addr::from_bits(bits as u32).into(),
        Family::Ipv6 => Ipv6Addr::from_bits(bits).into(),
    }
}

/// Applies a mask of the same family to an address.
pub(super) fn masked(address: IpAddr, mask: IpAddr) -> IpAddr {
    address_from_bits(bits(address) & bits(mask), Family::of(address))
}
