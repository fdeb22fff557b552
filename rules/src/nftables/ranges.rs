//! Address ranges, as nft keeps them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::cluster::Family;

/// An inclusive range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressRange {
    /// The lowest.
    pub first: IpAddr,
    /// The highest, of the same family and not lower.
    pub last: IpAddr,
}

impl AddressRange {
    /// `10.0.0.1`, `10.0.0.0/8` or `10.0.0.1-10.0.0.3`.
    pub(super) fn parse(word: &str) -> Option<Self> {
        if let Some((first, last)) = word.split_once('-') {
            let (first, last): (IpAddr, IpAddr) = (first.parse().ok()?, last.parse().ok()?);
            return (first.is_ipv4() == last.is_ipv4() && first <= last).then_some(Self { first, last });
        }
        let address = word.parse::<IpAddr>().map(Self::from);
        address.or_else(|_| word.parse::<IpNet>().map(|range| range.trunc().into())).ok()
    }

    /// Returns the prefix that covers the same addresses, if there is one.
    pub(super) fn prefix(&self) -> Option<IpNet> {
        let (first, last) = (number(self.first), number(self.last));
        let bits = Family::of(self.first).bits();
        let size_minus_one = last.checked_sub(first)?;
        let host_bits = u8::try_from(128 - size_minus_one.leading_zeros()).ok()?;
        let prefix = IpNet::new(self.first, bits.checked_sub(host_bits)?).ok()?;
        (prefix.network() == self.first && prefix.broadcast() == self.last).then_some(prefix)
    }
}

impl From<IpNet> for AddressRange {
    fn from(prefix: IpNet) -> Self {
        Self { first: prefix.network(), last: prefix.broadcast() }
    }
}

impl From<IpAddr> for AddressRange {
    fn from(address: IpAddr) -> Self {
        Self { first: address, last: address }
    }
}

impl fmt::Display for AddressRange {
    /// `10.0.0.1`, `10.0.0.0/8`, or `10.0.0.1-10.0.0.3` if no prefix is equal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix() {
            _ if self.first == self.last => write!(f, "{}", self.first),
            Some(prefix) => write!(f, "{prefix}"),
            None => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

/// Sorts ranges and merges those that overlap or touch, as nft does with the ranges of a rule.
pub(super) fn join(mut ranges: Vec<AddressRange>) -> Vec<AddressRange> {
    ranges.sort_unstable();
    let mut joined: Vec<AddressRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(before) if range.first <= before.last || follows(before.last, range.first) => {
                before.last = before.last.max(range.last);
            }
            _ => joined.push(range),
        }
    }
    joined
}

fn follows(address: IpAddr, next: IpAddr) -> bool {
    let after = match address {
        IpAddr::V4(address) => address.to_bits().checked_add(1).map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
        IpAddr::V6(address) => address.to_bits().checked_add(1).map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))),
    };
    after == Some(next)
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Ranges as nft 1.0.6 lists them.
    #[rstest]
    #[case(&["10.0.0.0/9", "10.128.0.0/9"], "10.0.0.0/8")]
    #[case(&["10.0.0.0/8", "11.0.0.0/8", "12.0.0.0/8"], "10.0.0.0-12.255.255.255")]
    #[case(&["10.0.0.0/8", "10.1.0.0/16"], "10.0.0.0/8")]
    #[case(&["203.0.113.12/32", "10.0.0.0/8", "203.0.113.10/32"], "10.0.0.0/8 203.0.113.10 203.0.113.12")]
    #[case(&["0.0.0.0/1", "128.0.0.0/1"], "0.0.0.0/0")]
    #[case(&["fd00::/8", "::1/128"], "::1 fd00::/8")]
    #[case(&["::/0", "fd00::/8"], "::/0")]
    fn ranges_are_joined(#[case] ranges: &[&str], #[case] shown: &str) {
        let ranges = ranges.iter().map(|range| range.parse::<IpNet>().unwrap().into()).collect();
        let joined: Vec<String> = join(ranges).iter().map(ToString::to_string).collect();
        assert_eq!(joined.join(" "), shown);
    }
}
