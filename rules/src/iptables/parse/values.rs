//! Values of options.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::iptables::{Masked, Network, PortRange, RouteType, States, TCP_FLAGS};

/// `10.0.0.1`, `10.0.0.0/8`, `10.0.0.0/255.0.0.0`.
pub(super) fn network(text: &str) -> Option<Network> {
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

/// Decimal, or hexadecimal behind `0x`.
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

/// `RELATED,ESTABLISHED`.
pub(in crate::iptables) fn states(text: &str) -> Option<States> {
    text.split(',').try_fold(States::default(), |all, word| {
        let (_, state) = States::NAMES.into_iter().find(|(name, _)| *name == word)?;
        Some(all.and(state))
    })
}

/// `FIN,SYN`, `ALL`, `NONE`.
pub(super) fn tcp_flags(text: &str) -> Option<u8> {
    text.split(',').try_fold(0, |all, word| {
        let bits = match word {
            "ALL" => 0x3f,
            "NONE" => 0,
            _ => TCP_FLAGS.into_iter().find(|(name, _)| *name == word)?.1,
        };
        Some(all | bits)
    })
}

/// `LOCAL`.
pub(in crate::iptables) fn route_type(text: &str) -> Option<RouteType> {
    RouteType::NAMES.into_iter().find(|(name, _)| *name == text).map(|(_, kind)| kind)
}
