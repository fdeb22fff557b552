//! Replacement of addresses.
//!
//! Two addresses have as many leading bits in common as before (Crypto-PAn's property), so subnets stay subnets. Whether a bit of an
//! address is flipped depends on the bits before it, except for prefixes of special ranges: addresses stay within private ranges, and
//! loopback and multicast addresses do not change. Link-local addresses change, except those that are the same everywhere. An IPv4 address
//! within an IPv6 address is replaced like the IPv4 address. The first and last address of a subnet stay first and last, and a span
//! (`10.0.0.5-10.0.0.9`) stays a span of the same addresses: bits of its ends are not flipped where the ends differ from each other.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::key::Key;

/// Ranges whose addresses do not change.
const KEPT: [&str; 6] = ["0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4", "fe80::/120", "ff00::/8"];

/// Ranges within which addresses are replaced.
const HELD: [&str; 12] = [
    "10.0.0.0/8",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "2000::/3",
    "2001:db8::/32",
    "fd00::/8",
    "fe80::/64",
    WITH_IPV4[0].0,
    WITH_IPV4[1].0,
    WITH_IPV4[2].0,
];

/// Link-local addresses that are the same in every cluster: gateways of Calico, DNS on nodes (Kubernetes, Kubespray), and services of cloud
/// providers.
const USUAL: [Ipv4Addr; 8] = [
    Ipv4Addr::new(169, 254, 1, 1),
    Ipv4Addr::new(169, 254, 20, 10),
    Ipv4Addr::new(169, 254, 25, 10),
    Ipv4Addr::new(169, 254, 169, 123),
    Ipv4Addr::new(169, 254, 169, 252),
    Ipv4Addr::new(169, 254, 169, 253),
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
];

/// Prefixes of IPv6 addresses whose last 32 bits are an IPv4 address: mapped, compatible and of NAT64.
const WITH_IPV4: [(&str, u128); 3] =
    [("::ffff:0:0/96", 0xffff << 32), ("::/96", 0), ("64:ff9b::/96", 0x0064_ff9b << 96)];

/// Addresses and their replacements.
pub(super) struct Addresses {
    key: Key,
    ranges: Vec<Range>,
    /// The leading bits after which the bit is not flipped, since one end of a span has them.
    ends: HashSet<(bool, u8, u128)>,
    new: HashMap<IpAddr, IpAddr>,
}

/// The addresses and networks of an input.
#[derive(Default)]
pub(super) struct Known {
    pub(super) addresses: HashSet<IpAddr>,
    pub(super) networks: HashSet<IpNet>,
    /// The first and last addresses of spans.
    pub(super) spans: HashSet<(IpAddr, IpAddr)>,
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
    pub(super) fn new(mut key: Key, known: &Known) -> Self {
        /// Maximum number of keys that are tried: in a small range, all addresses may be taken.
        const KEYS: usize = 200;
        let of_networks = known.networks.iter().map(IpNet::addr);
        let taken: HashSet<IpAddr> = known.addresses.iter().copied().chain(of_networks).collect();
        for _ in 0..KEYS {
            let mut addresses = Self::with_key(key.clone(), &known.spans);
            let is_new = |new: IpAddr, addresses: &Self| !taken.contains(&new) || addresses.is_well_known(new);
            let of_addresses = known.addresses.iter().all(|ip| {
                let new = addresses.replace(*ip);
                is_new(new, &addresses)
            });
            let of_networks = known.networks.iter().all(|network| {
                let new = addresses.replace_network(*network);
                is_new(new.addr(), &addresses) || addresses.is_well_known_network(*network)
            });
            if of_addresses && of_networks {
                return addresses;
            }
            key = key.next();
        }
        Self::with_key(key, &known.spans)
    }

    fn with_key(key: Key, spans: &HashSet<(IpAddr, IpAddr)>) -> Self {
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
        Self { key, ranges, ends: spans.iter().flat_map(|span| ends(*span)).collect(), new: HashMap::new() }
    }

    /// Returns whether an address does not change.
    pub(super) fn is_well_known(&self, ip: IpAddr) -> bool {
        let (is_ipv4, own) = (ip.is_ipv4(), bits(ip));
        let mut kept = self.ranges.iter().filter(|range| range.is_kept && range.is_ipv4 == is_ipv4);
        let inner = || with_ipv4(ip).is_some_and(|(_, inner)| self.is_well_known(inner.into()));
        kept.any(|range| leading(own, range.length) == range.bits) || USUAL.iter().any(|usual| *usual == ip) || inner()
    }

    /// Returns whether a network does not change: it contains a range within which addresses are replaced.
    pub(super) fn is_well_known_network(&self, network: IpNet) -> bool {
        let is_ipv4 = network.addr().is_ipv4();
        let own = bits(network.addr());
        let may_flip = |at: u8| self.may_flip(is_ipv4, leading(own, at), at);
        self.is_well_known(network.addr()) || !(0..network.prefix_len()).any(may_flip)
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
        self.changed(ip, false)
    }

    /// Returns the replacement of a network; for an address with a prefix length, of the address.
    pub(super) fn replace_network(&mut self, network: IpNet) -> IpNet {
        let new = IpNet::new_assert(self.replace(network.addr()), network.prefix_len());
        if network == network.trunc() { new.trunc() } else { new }
    }

    /// Returns the original of a replacement.
    fn restored(&self, ip: IpAddr) -> IpAddr {
        self.changed(ip, true)
    }

    /// Returns the replacement of an address or, if `is_back`, the original of a replacement.
    fn changed(&self, ip: IpAddr, is_back: bool) -> IpAddr {
        // Unchanged addresses are the same on both sides.
        if self.is_well_known(ip) {
            return ip;
        }
        if let Some((prefix, inner)) = with_ipv4(ip) {
            let inner = bits(self.changed(inner.into(), is_back)) >> 96;
            return Ipv6Addr::from_bits(prefix | inner).into();
        }
        // Usual addresses are skipped: an address that would become one becomes what the usual one would have become.
        let mut new = self.flipped(ip, is_back);
        while USUAL.iter().any(|usual| *usual == new) {
            new = self.flipped(new, is_back);
        }
        new
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
        let mut new = own;
        for at in 0..width {
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
        !leads_to_range && !is_end && !self.ends.contains(&(is_ipv4, at, before))
    }
}

/// Returns the leading bits of both ends of a span from the first bit on in which they differ. If no bit after these is flipped, addresses
/// before, within and after the span stay so.
fn ends((first, last): (IpAddr, IpAddr)) -> impl Iterator<Item = (bool, u8, u128)> {
    let (is_ipv4, width) = if first.is_ipv4() { (true, 32) } else { (false, 128) };
    let common = (bits(first) ^ bits(last)).leading_zeros() as u8;
    (common..width).flat_map(move |at| [first, last].map(|end| (is_ipv4, at, leading(bits(end), at))))
}

/// Returns the IPv4 address in an IPv6 address, and the bits before it.
fn with_ipv4(ip: IpAddr) -> Option<(u128, Ipv4Addr)> {
    let IpAddr::V6(ip) = ip else { return None };
    let (prefix, inner) = (ip.to_bits() >> 32 << 32, Ipv4Addr::from_bits(ip.to_bits() as u32));
    WITH_IPV4.iter().any(|(_, range)| *range == prefix).then_some((prefix, inner))
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
        Addresses::with_key(Key::from_seed(seed), &HashSet::new())
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
            "169.254.20.10",
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
        let networks = [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "192.168.0.0/16",
            "172.16.0.0/12",
            "172.0.0.0/4",
            "169.254.0.0/16",
            "::/0",
            "64:ff9b::/96",
            "fe80::/10",
            "fe80::/64",
            "2000::/3",
        ];
        for text in networks {
            let network: IpNet = text.parse().expect("a network");
            assert_eq!(addresses.replace_network(network.trunc()), network.trunc());
        }
        let private = |text: &str, range: &str, addresses: &mut Addresses| {
            let new = addresses.replace(text.parse().expect("an address"));
            assert!(range.parse::<IpNet>().expect("a range").contains(&new), "{text} {new}");
        };
        let changed = [
            "10.1.2.3",
            "8.8.4.4",
            "169.254.128.13",
            "fd00:1::2",
            "2600::9",
            "::ffff:10.1.2.3",
            "64:ff9b::10.1.2.3",
            "::10.1.2.3",
            "fe80::1c2d:3e4f:5a6b:7c8d",
            "fe80::5054:ff:fe12:3456",
        ];
        for text in changed {
            let ip: IpAddr = text.parse().expect("an address");
            let new = addresses.replace(ip);
            assert_ne!(new, ip);
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
    }

    /// In a private range, a key may leave a network as it is: another one is chosen.
    #[test]
    fn every_network_within_a_private_range_changes() {
        let networks: HashSet<IpNet> = ["172.16.0.0/13", "172.16.0.0/16", "192.168.0.0/24", "10.0.0.0/9"]
            .iter()
            .map(|text| text.parse().expect("a network"))
            .collect();
        for seed in 0..20 {
            let known = Known { networks: networks.clone(), ..Known::default() };
            let mut addresses = Addresses::new(Key::from_seed(&seed.to_string()), &known);
            for network in &networks {
                assert_ne!(addresses.replace_network(*network), *network);
            }
        }
    }

    #[test]
    fn spans_stay_spans() {
        let ip = |end: u8| IpAddr::from([203, 0, 113, end]);
        for (seed, (first, last)) in [(11, 12), (7, 8), (1, 254), (100, 131)].into_iter().enumerate() {
            let known = Known { spans: HashSet::from([(ip(first), ip(last))]), ..Known::default() };
            let mut addresses = Addresses::new(Key::from_seed(&seed.to_string()), &known);
            let (new_first, new_last) = (addresses.replace(ip(first)), addresses.replace(ip(last)));
            for end in 0..=u8::MAX {
                let new = addresses.replace(ip(end));
                assert_eq!(
                    (first..=last).contains(&end),
                    (new_first..=new_last).contains(&new),
                    "{first}-{last} {end}"
                );
                assert_eq!(addresses.restored(new), ip(end));
            }
        }
    }

    /// The link-local addresses that stay have no other original.
    #[test]
    fn usual_addresses_have_one_original() {
        let mut addresses = made("c");
        let all = (0..=u16::MAX).map(|end| Ipv4Addr::from_bits(0xa9fe_0000 | u32::from(end)));
        let new: HashSet<IpAddr> = all.map(|ip| addresses.replace(ip.into())).collect();
        assert_eq!(new.len(), 1 << 16);
        assert!(USUAL.iter().all(|usual| addresses.restored((*usual).into()) == *usual));
    }
}
