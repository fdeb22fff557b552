//! Addresses as numbers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::cluster::Family;

/// An address as a number; those of IPv4 are below 2^32.
pub fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The address of a number; bits that IPv4 has no room for are dropped.
pub fn address_from_bits(bits: u128, family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => Ipv4Addr::from_bits(bits as u32).into(),
        Family::Ipv6 => Ipv6Addr::from_bits(bits).into(),
    }
}

/// An address under a mask of its family.
pub(super) fn masked(address: IpAddr, mask: IpAddr) -> IpAddr {
    address_from_bits(bits(address) & bits(mask), Family::of(address))
}
