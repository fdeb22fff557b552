//! Values of options.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::cluster::Family;
use crate::iptables::{Masked, Network, PortRange};
use crate::walk::bits;

/// `10.0.0.1`, `10.0.0.0/8`, `10.0.0.0/255.0.0.0`.
pub(in crate::iptables) fn network(text: &str) -> Option<Network> {
    let Some((address, mask)) = text.split_once('/') else {
        return text.parse().ok().map(Network::host);
    };
    let address: IpAddr = address.parse().ok()?;
    if let Ok(length) = mask.parse::<u8>() {
        return IpNet::new(address, length).ok().map(Network::range);
    }
    let mask: IpAddr = mask.parse().ok()?;
    match ipnet::ip_mask_to_prefix(mask) {
        Ok(length) => IpNet::new(address, length).ok().map(Network::range),
        Err(_) if address.is_ipv4() == mask.is_ipv4() => Some(Network::Masked(Box::new((address, mask)))),
        Err(_) => None,
    }
}

/// `80`, `8000:9000`, `:1023`, `1024:`; with `-` between them in targets.
pub(in crate::iptables) fn ports(text: &str, separator: char) -> Option<PortRange> {
    let Some((first, last)) = text.split_once(separator) else {
        return text.parse().ok().map(PortRange::one);
    };
    let end = |text: &str, open: u16| if text.is_empty() { Some(open) } else { text.parse().ok() };
    let range = PortRange { first: end(first, 0)?, last: end(last, u16::MAX)? };
    (range.first <= range.last).then_some(range)
}

/// Decimal, or hexadecimal after `0x`.
pub(in crate::iptables) fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `0x4000/0x4000`; without a mask, all bits count.
pub(in crate::iptables) fn masked(text: &str) -> Option<Masked> {
    let (value, mask) = match text.split_once('/') {
        Some((value, mask)) => (number(value)?, number(mask)?),
        None => (number(text)?, u32::MAX),
    };
    Some(Masked { value, mask })
}

/// Returns an address of the given family as a number.
pub(in crate::iptables) fn address_bits(text: &str, family: Family) -> Option<u128> {
    let address: IpAddr = text.parse().ok()?;
    (Family::of(address) == family).then(|| bits(address))
}
