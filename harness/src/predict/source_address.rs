//! Source address selection, for packets of processes and for MASQUERADE.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use svclab_rules::cluster::Family;
use svclab_rules::walk::{Field, Intervals, address_bits, address_from_bits, address_scope};

use super::machine::Machine;
use super::route_table::Out;
use super::set_queries::Set;

impl Machine {
    /// The address that a kernel prefers on the route to a destination.
    pub(super) fn preferred(&self, out: Out, to: IpAddr, set: Set<'_>) -> Option<IpAddr> {
        let family = Family::of(to);
        // If the destination is the next hop, another destination means another next hop.
        let is_direct = out.next_hop == to;
        let choose = |to: IpAddr| match to {
            IpAddr::V4(_) => self.preferred_of_ipv4(Out { next_hop: if is_direct { to } else { out.next_hop }, ..out }),
            IpAddr::V6(to) if to.is_loopback() => Some(to.into()),
            IpAddr::V6(to) => self.preferred_of_ipv6(out, to),
        };
        if let Some(set) = set.filter(|_| self.listed[family as usize].len() > 1) {
            let own = self.listed[family as usize].iter().map(|(_, network)| *network);
            let edges: Vec<u128> = match family {
                Family::Ipv4 if is_direct => own.flat_map(bounds).collect(),
                Family::Ipv4 => Vec::new(),
                Family::Ipv6 => own.flat_map(bounds_of_prefixes).chain(edges_of_labels()).collect(),
            };
            let value = address_bits(to);
            let alike = Intervals::alike(&edges, family, value, |number| choose(address_from_bits(number, family)));
            set.ask(Field::Destination, value, &alike);
        }
        choose(to)
    }

    /// The interface's first address whose network contains the next hop, otherwise the interface's first, otherwise the first of any
    /// interface (`inet_select_addr`).
    fn preferred_of_ipv4(&self, out: Out) -> Option<IpAddr> {
        let listed = &self.listed[Family::Ipv4 as usize];
        let here = || listed.iter().filter(|(index, _)| *index == out.interface);
        let near = here().find(|(_, network)| network.contains(&out.next_hop));
        near.or_else(|| here().next()).or(listed.first()).map(|(_, network)| network.addr())
    }

    /// The first of the best addresses by RFC 6724, section 5 (`ipv6_dev_get_saddr`, which `MASQUERADE` uses too). A lab has no deprecated,
    /// temporary or home addresses, so the rules about these are left out.
    fn preferred_of_ipv6(&self, out: Out, to: Ipv6Addr) -> Option<IpAddr> {
        let rank = |(index, network): &(u32, IpNet)| {
            let from = match network.addr() {
                IpAddr::V6(address) => address,
                IpAddr::V4(address) => address.to_ipv6_mapped(),
            };
            let alike = (from.to_bits() ^ to.to_bits()).leading_zeros().min(network.prefix_len().into());
            (from == to, reach(from, to), *index == out.interface, label(from) == label(to), alike)
        };
        // `min_by_key` keeps the first of equals, as the kernel does.
        let listed = self.listed[Family::Ipv6 as usize].iter();
        listed.min_by_key(|candidate| Reverse(rank(candidate))).map(|(_, network)| network.addr())
    }
}

/// The bounds of a network: IPv4 asks only whether a next hop lies in it.
fn bounds(network: IpNet) -> impl Iterator<Item = u128> {
    ends(address_bits(network.network()), address_bits(network.broadcast()))
}

/// The bounds of all prefixes that contain an address: IPv6 counts the bits that it has in common with the destination.
fn bounds_of_prefixes(network: IpNet) -> impl Iterator<Item = u128> {
    let whole = IpNet::from(network.addr());
    std::iter::successors(Some(whole), IpNet::supernet).flat_map(bounds)
}

/// The first address of a range, and the one after it.
fn ends(first: u128, last: u128) -> impl Iterator<Item = u128> {
    std::iter::once(first).chain(last.checked_add(1))
}

/// The addresses at which labels and scopes change.
fn edges_of_labels() -> impl Iterator<Item = u128> {
    const SCOPES: [(u16, u32); 3] = [(0xfe80, 10), (0xfec0, 10), (0xff00, 8)];
    let scopes = SCOPES.map(|(start, length)| (Ipv6Addr::new(start, 0, 0, 0, 0, 0, 0, 0), length));
    let labels = LABELS.map(|(network, length, _)| (network, length));
    scopes.into_iter().chain(labels).flat_map(|(network, length)| {
        let first = network.to_bits();
        ends(first, first | u128::MAX.checked_shr(length).unwrap_or(0))
    })
}

/// Rates the scope of a source for a destination (rule 2): the smallest scope that reaches it is best, then the widest of those that do
/// not.
fn reach(from: Ipv6Addr, to: Ipv6Addr) -> (bool, i16) {
    let (from, to) = (i16::from(address_scope(from.into())), i16::from(address_scope(to.into())));
    if from >= to { (true, -from) } else { (false, from) }
}

/// The kernel's policy table: prefixes with their lengths and labels.
const LABELS: [(Ipv6Addr, u32, u8); 7] = [
    (Ipv6Addr::LOCALHOST, 128, 0),
    (Ipv6Addr::UNSPECIFIED, 96, 3),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 4),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, 6),
    (Ipv6Addr::new(0x2001, 0x10, 0, 0, 0, 0, 0, 0), 28, 7),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 2),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, 5),
];

/// The label of an address in the kernel's policy table (rule 6; `net/ipv6/addrlabel.c`).
fn label(address: Ipv6Addr) -> u8 {
    let lies_in = |network: Ipv6Addr, length: u32| (address.to_bits() ^ network.to_bits()).leading_zeros() >= length;
    LABELS.into_iter().find(|(network, length, _)| lies_in(*network, *length)).map_or(1, |(_, _, label)| label)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use svclab_rules::cluster::Cluster;

    use super::*;
    use crate::topology::{Interface as Port, InterfaceKind, Netns, Role};

    /// A machine with `eth0` (2) and `br0` (3), whose addresses are added in this order.
    fn machine(addresses: &[(u32, &str)]) -> Machine {
        let mut netns = Netns::new("node/a".to_owned(), Role::Node);
        for (index, name) in [(2, "eth0"), (3, "br0")] {
            netns.interfaces.push(Port::new(1, index, name.to_owned(), InterfaceKind::Bridge));
        }
        netns.addresses = addresses.iter().map(|(index, network)| (*index, network.parse().unwrap())).collect();
        Machine::of(&netns, &crate::topology::Topology::default(), &[], &Cluster::default(), None).unwrap()
    }

    #[rstest]
    #[case::of_equals_the_last(&[(2, "fd00::2/128"), (2, "fd00::3/128")], "fd00:1::9", "fd00::3")]
    #[case::itself(&[(2, "fd00::2/128"), (2, "fd00::3/128")], "fd00::2", "fd00::2")]
    #[case::the_most_alike(&[(2, "fd00:1::2/128"), (2, "fd00:2::2/128")], "fd00:1::9", "fd00:1::2")]
    #[case::alike_beyond_the_prefix(&[(2, "fd00::8/64"), (2, "fd00::1/64")], "fd00::9", "fd00::1")]
    #[case::label_before_likeness(&[(2, "2001:db8::2/128"), (2, "fd00::3/128")], "2001:db9::9", "2001:db8::2")]
    #[case::label_of_unique_local(&[(2, "fd00::2/128"), (2, "2001:db8::3/128")], "fc00::9", "fd00::2")]
    #[case::out_before_label(&[(3, "fd00::2/128"), (2, "2001:db8::3/128")], "fc00::9", "2001:db8::3")]
    #[case::scope_that_reaches(&[(2, "2001:db8::2/128"), (2, "fe80::2/64")], "2001:db8::9", "2001:db8::2")]
    #[case::smallest_scope_that_reaches(&[(2, "2001:db8::2/128"), (2, "fe80::2/64")], "fe80::9", "fe80::2")]
    #[case::ipv4_takes_the_first(&[(2, "172.18.0.2/32"), (2, "172.18.0.3/32")], "10.0.0.9", "172.18.0.2")]
    #[case::ipv4_of_the_next_hops_network(&[(2, "172.18.0.2/32"), (2, "10.0.0.3/24")], "10.0.0.9", "10.0.0.3")]
    fn the_kernel_prefers(#[case] addresses: &[(u32, &str)], #[case] to: IpAddr, #[case] expected: IpAddr) {
        assert_eq!(machine(addresses).preferred(Out { interface: 2, next_hop: to }, to, None), Some(expected));
    }
}
