//! Single words of rules and elements.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::super::super::super::name::Name;
use super::super::super::super::ranges::AddressRange;
use super::super::super::super::statement::Verdict;
use crate::cluster::{Protocol, ProtocolNumber};

/// A verdict by its first word, and the chain that follows it.
pub(in super::super) fn verdict<'a>(word: &str, chain: impl FnOnce() -> &'a str) -> Option<Verdict> {
    let chain = || Some(Name::from(chain())).filter(|name| !name.is_empty());
    match word {
        "accept" => Some(Verdict::Accept),
        "drop" => Some(Verdict::Drop),
        "return" => Some(Verdict::Return),
        "jump" => chain().map(Verdict::Jump),
        "goto" => chain().map(Verdict::Goto),
        _ => None,
    }
}

/// `tcp`, or 6 as `nft -n` prints it.
pub(in super::super) fn protocol(word: &str) -> Option<Protocol> {
    ProtocolNumber::parse(word)?.transport()
}

/// `10.0.0.1`, `10.0.0.0/8` or `10.0.0.1-10.0.0.3`.
pub(in super::super) fn range(word: &str) -> Option<AddressRange> {
    if let Some((first, last)) = word.split_once('-') {
        let (first, last): (IpAddr, IpAddr) = (first.parse().ok()?, last.parse().ok()?);
        return (first.is_ipv4() == last.is_ipv4() && first <= last).then_some(AddressRange { first, last });
    }
    let address = word.parse::<IpAddr>().map(AddressRange::from);
    address.or_else(|_| word.parse::<ipnet::IpNet>().map(|range| range.trunc().into())).ok()
}

/// `80` or `80-90`.
pub(super) fn ports(word: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(first..=last)
}

/// `16384` or `0x00004000`.
pub(super) fn number(word: &str) -> Option<u32> {
    match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}
