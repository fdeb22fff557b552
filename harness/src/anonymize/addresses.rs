//! Replacement of addresses.
//!
//! Two addresses have as many leading bits in common as before (Crypto-PAn's property), so subnets stay subnets. Whether a bit of an
//! address is flipped depends on the bits before it, except for prefixes of special ranges: addresses stay within private ranges, and
//! loopback, link-local and multicast addresses do not change. The first and last address of a subnet stay first and last.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::key::Key;

/// Ranges whose addresses do not change.
const KEPT: [&str; 9] = [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/96",
    "fe80::/10",
    "ff00::/8",
    "64:ff9b::/96",
];

/// Ranges within which addresses are replaced.
const HELD: [&str; 7] =
    ["10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "2000::/3", "2001:db8::/32", "fd00::/8"];

/// Addresses and their replacements.
pub(super) struct Addresses {
    key: Key,
    ranges: Vec<Range>,
    new: HashMap<IpAddr, IpAddr>,
}

/// A range of addresses as bits.
struct Range {
    is_ipv4: bool,
    bits: u128,
    length: u8,
    is_kept: bool,
}

impl Addresses {
    /// Chooses a key with which no address or network of the input occurs in the result.
    pub(super) fn new(mut key: Key, known: &HashSet<IpAddr>, networks: &HashSet<IpNet>) -> Self {
        /// Maximum number of keys that are tried: in a small range, all addresses may be taken.
        const KEYS: usize = 200;
        for _ in 0..KEYS {
            let mut addresses = Self::with_key(key.clone());
            let of_addresses = known.iter().all(|ip| {
                let new = addresses.replace(*ip);
                !known.contains(&new) || addresses.is_well_known(new)
            });
            let of_networks = networks.iter().all(|network| {
                let new = addresses.replace_network(*network);
                new.addr() != network.addr() || addresses.is_well_known(new.addr())
            });
            if of_addresses && of_networks {
                return addresses;
            }
            key = key.next();
        }
        Self::with_key(key)
    }

    fn with_key(key: Key) -> Self {
        let of = |texts: &[&str], is_kept: bool| -> Vec<Range> {
            let parsed = texts.iter().filter_map(|text| text.parse::<IpNet>().ok());
            parsed
                .map(|range| Range {
                    is_ipv4: range.addr().is_ipv4(),
                    bits: bits(range.addr()),
                    length: range.prefix_len(),
                    is_kept,
                })
                .collect()
        };
        let ranges = of(&KEPT, true).into_iter().chain(of(&HELD, false)).collect();
        Self { key, ranges, new: HashMap::new() }
    }

    /// Returns whether an address does not change.
    fn stays(&self, ip: IpAddr) -> bool {
        let (is_ipv4, own) = (ip.is_ipv4(), bits(ip));
        let mut kept = self.ranges.iter().filter(|range| range.is_kept && range.is_ipv4 == is_ipv4);
        kept.any(|range| leading(own, range.length) == range.bits) && link_identifier(ip).is_none()
    }

    /// Returns whether an address is well known: it does not change, or is the first of a well-known range.
    pub(super) fn is_well_known(&self, ip: IpAddr) -> bool {
        let is_first = |range: &Range| range.is_ipv4 == ip.is_ipv4() && range.bits == bits(ip);
        self.stays(ip) || self.ranges.iter().any(is_first)
    }

    /// Returns the replacement of an address.
    pub(super) fn replace(&mut self, ip: IpAddr) -> IpAddr {
        if let Some(known) = self.new.get(&ip) {
            return *known;
        }
        let new = self.image(ip);
        self.new.insert(ip, new);
        new
    }

    fn image(&self, ip: IpAddr) -> IpAddr {
        if let IpAddr::V6(v6) = ip
            && let Some(v4) = v6.to_ipv4_mapped()
            && let IpAddr::V4(v4) = self.image(v4.into())
        {
            return v4.to_ipv6_mapped().into();
        }
        if self.stays(ip) { ip } else { self.flipped(ip, false) }
    }

    /// Returns the replacement of a network; for an address with a prefix length, of the address.
    pub(super) fn replace_network(&mut self, network: IpNet) -> IpNet {
        let new = IpNet::new_assert(self.replace(network.addr()), network.prefix_len());
        if network == network.trunc() { new.trunc() } else { new }
    }

    /// Returns the original of a replacement.
    fn restored(&self, ip: IpAddr) -> IpAddr {
        if let IpAddr::V6(v6) = ip
            && let Some(v4) = v6.to_ipv4_mapped()
            && let IpAddr::V4(v4) = self.restored(v4.into())
        {
            return v4.to_ipv6_mapped().into();
        }
        // Unchanged ranges are the same on both sides.
        if self.stays(ip) { ip } else { self.flipped(ip, true) }
    }

    /// Returns functions for the replacement of an address and its inverse. Each result is computed once, because predictions need those of
    /// all endpoints repeatedly.
    pub(super) fn both_ways(&self) -> (impl Fn(IpAddr) -> IpAddr, impl Fn(IpAddr) -> IpAddr) {
        let (there, back) = (RefCell::<HashMap<_, _>>::default(), RefCell::<HashMap<_, _>>::default());
        let image = move |ip| *there.borrow_mut().entry(ip).or_insert_with(|| self.image(ip));
        let restored = move |ip| *back.borrow_mut().entry(ip).or_insert_with(|| self.restored(ip));
        (image, restored)
    }

    pub(super) fn count(&self) -> usize {
        self.new.iter().filter(|(old, new)| old != new).count()
    }

    /// Returns the replaced addresses.
    pub(super) fn replaced(&self) -> impl Iterator<Item = (&IpAddr, &IpAddr)> {
        self.new.iter().filter(|(old, new)| old != new)
    }

    /// Flips bits of an address, each depending on the bits before it: of the address itself or, for the inverse, of the result.
    fn flipped(&self, ip: IpAddr, is_back: bool) -> IpAddr {
        let (is_ipv4, own) = (ip.is_ipv4(), bits(ip));
        let width = if is_ipv4 { 32 } else { 128 };
        // A link-local address may contain a hardware address: then that part changes.
        let first = if link_identifier(ip).is_some() { 64 } else { 0 };
        let mut new = own;
        for at in first..width {
            let before = leading(if is_back { new } else { own }, at);
            if self.may_flip(is_ipv4, before, at) {
                let mut input = vec![u8::from(is_ipv4), at];
                input.extend(before.to_be_bytes());
                if self.key.bytes("address", &input)[0] & 1 == 1 {
                    new ^= 1 << (127 - at);
                }
            }
        }
        address(is_ipv4, new)
    }

    /// Returns whether the bit after some leading bits may be flipped.
    fn may_flip(&self, is_ipv4: bool, before: u128, at: u8) -> bool {
        let leads_to_range = self
            .ranges
            .iter()
            .any(|range| range.is_ipv4 == is_ipv4 && range.length > at && leading(range.bits, at) == before);
        // The host part: of subnets of 256 addresses, and of the last 16 bits; the first and last address do not change.
        let start = if is_ipv4 { 24 } else { 112 };
        let is_end = at >= start && {
            let hosts = (before << start) >> start;
            let all = ((u128::MAX << start) >> start) & !(u128::MAX >> at);
            hosts == 0 || hosts == all
        };
        !leads_to_range && !is_end
    }
}

/// Returns the last 64 bits of a link-local address that is derived from a hardware address.
fn link_identifier(ip: IpAddr) -> Option<[u8; 8]> {
    let IpAddr::V6(ip) = ip else { return None };
    let octets = ip.octets();
    let is_made = octets[0] == 0xfe && octets[1] & 0xc0 == 0x80 && octets[11..13] == [0xff, 0xfe];
    is_made.then(|| octets[8..].try_into().ok())?
}

/// Returns an address's bits, left-aligned for IPv4.
fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()) << 96,
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

fn address(is_ipv4: bool, bits: u128) -> IpAddr {
    if is_ipv4 { Ipv4Addr::from_bits((bits >> 96) as u32).into() } else { Ipv6Addr::from_bits(bits).into() }
}

/// Returns the first bits of an address, with the others cleared.
fn leading(bits: u128, length: u8) -> u128 {
    if length == 0 { 0 } else { bits & (u128::MAX << (128 - length)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(seed: &str) -> Addresses {
        Addresses::with_key(Key::from_seed(seed))
    }

    fn common(one: IpAddr, other: IpAddr) -> u32 {
        (bits(one) ^ bits(other)).leading_zeros()
    }

    #[test]
    fn prefixes_stay_in_common() {
        let mut addresses = made("a");
        let texts = [
            "10.244.1.2",
            "10.244.1.3",
            "10.244.2.2",
            "10.96.0.10",
            "172.18.0.2",
            "192.168.7.9",
            "203.0.113.9",
            "8.8.8.8",
            "fd00:10:244::2",
            "fd00:10:244:1::2",
            "2600:1f18::5",
        ];
        let all: Vec<IpAddr> = texts.iter().map(|text| text.parse().expect("an address")).collect();
        let new: Vec<IpAddr> = all.iter().map(|ip| addresses.replace(*ip)).collect();
        for (at, one) in all.iter().enumerate() {
            for (other_at, other) in all.iter().enumerate().filter(|(_, other)| other.is_ipv4() == one.is_ipv4()) {
                assert_eq!(common(*one, *other), common(new[at], new[other_at]), "{one} {other}");
            }
            assert_ne!(*one, new[at]);
        }
    }

    #[test]
    fn what_means_something_stays() {
        let mut addresses = made("b");
        let kept = [
            "0.0.0.0",
            "127.0.0.1",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "255.255.240.0",
            "::",
            "::1",
            "fe80::1",
            "ff02::1",
        ];
        for text in kept {
            let ip: IpAddr = text.parse().expect("an address");
            assert_eq!(addresses.replace(ip), ip);
        }
        for text in ["0.0.0.0/0", "10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12", "::/0"] {
            let network: IpNet = text.parse().expect("a network");
            assert_eq!(addresses.replace_network(network), network);
        }
        let private = |text: &str, range: &str, addresses: &mut Addresses| {
            let new = addresses.replace(text.parse().expect("an address"));
            assert!(range.parse::<IpNet>().expect("a range").contains(&new), "{text} {new}");
        };
        for text in ["10.1.2.3", "8.8.4.4", "fd00:1::2", "2600::9"] {
            let ip: IpAddr = text.parse().expect("an address");
            let new = addresses.replace(ip);
            assert_eq!(addresses.restored(new), ip);
        }
        private("10.1.2.3", "10.0.0.0/8", &mut addresses);
        private("172.20.1.2", "172.16.0.0/12", &mut addresses);
        private("fd12::9", "fd00::/8", &mut addresses);
        private("2001:db8::9", "2001:db8::/32", &mut addresses);
        for (text, last) in [("10.1.2.0", 0), ("10.1.2.255", 255)] {
            let IpAddr::V4(new) = addresses.replace(text.parse().expect("an address")) else { panic!("IPv4") };
            assert_eq!(new.octets()[3], last);
        }
        let made_of_hardware: IpAddr = "fe80::5054:ff:fe12:3456".parse().expect("an address");
        assert_ne!(addresses.replace(made_of_hardware), made_of_hardware);
    }
}
