//! The state of a machine that rules depend on.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use rustc_hash::FxHashMap;

use super::address::{address_from_bits, bits, masked};
use super::interface::Interface;
use super::intervals::Intervals;
use crate::cluster::{Family, Kernel};

/// The state of a machine that rules match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// Its addresses.
    pub addresses: AddressTable,
    /// The lists of `recent` rules and the content of dynamic sets.
    pub recent: RecentLists,
    /// Its ipsets, by name. A missing set is unknown.
    pub sets: HashMap<Box<str>, IpSet>,
    /// Its kernel.
    pub kernel: Kernel,
}

/// The local addresses of a machine: the content of the kernel's routing table `local`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressTable {
    hosts: FxHashMap<IpAddr, Interface>,
    ranges: Vec<(IpNet, Interface)>,
    broadcasts: Vec<(Ipv4Addr, Interface)>,
    /// In the order in which they were added.
    assigned: Vec<(IpNet, Interface)>,
}

impl Default for AddressTable {
    /// The addresses of `lo`: `127.0.0.0/8` and `::1`.
    fn default() -> Self {
        let mut table =
            Self { hosts: FxHashMap::default(), ranges: Vec::new(), broadcasts: Vec::new(), assigned: Vec::new() };
        let loopback = IpNet::new_assert(Ipv4Addr::new(127, 0, 0, 0).into(), 8);
        table.ranges.push((loopback, Interface::LOOPBACK));
        table.broadcasts.push((Ipv4Addr::new(127, 255, 255, 255), Interface::LOOPBACK));
        table.assigned.push((IpNet::new_assert(Ipv4Addr::LOCALHOST.into(), 8), Interface::LOOPBACK));
        table.assign(Ipv6Addr::LOCALHOST.into(), Interface::LOOPBACK);
        table
    }
}

impl AddressTable {
    /// Adds an address of an interface, without a network.
    pub fn assign(&mut self, address: IpAddr, interface: Interface) {
        self.assign_in(address.into(), interface);
    }

    /// Adds an address of an interface and, for IPv4, the broadcast address of its network. Networks of 31 and 32 bits have none.
    pub fn assign_in(&mut self, address: IpNet, interface: Interface) {
        self.hosts.insert(address.addr(), interface);
        self.assigned.push((address, interface));
        if let IpNet::V4(address) = address
            && address.prefix_len() < 31
        {
            self.broadcasts.push((address.broadcast(), interface));
        }
    }

    /// Returns the interface of an address; nothing if the address is not local.
    pub fn interface_of(&self, address: IpAddr) -> Option<Interface> {
        let in_range =
            || self.ranges.iter().find(|(range, _)| range.contains(&address)).map(|(_, interface)| *interface);
        self.hosts.get(&address).copied().or_else(in_range)
    }

    /// Returns the interface with this broadcast address.
    pub fn broadcast_of(&self, address: IpAddr) -> Option<Interface> {
        self.broadcasts.iter().find(|(broadcast, _)| IpAddr::V4(*broadcast) == address).map(|(_, interface)| *interface)
    }

    /// Returns whether an address is local and not a broadcast address.
    pub fn is_local(&self, address: IpAddr) -> bool {
        self.broadcast_of(address).is_none() && self.interface_of(address).is_some()
    }

    /// Returns the lowest address of each range in which all addresses are of the same type: local, broadcast or other.
    pub(crate) fn edges(&self) -> Vec<u128> {
        // Edges of both families: an extra edge is harmless.
        let one = |address: u128| [Some(address), address.checked_add(1)];
        let hosts = self.hosts.keys().flat_map(|address| one(bits(*address)));
        let broadcasts = self.broadcasts.iter().flat_map(|(address, _)| one(bits((*address).into())));
        let ranges = self
            .ranges
            .iter()
            .flat_map(|(range, _)| [Some(bits(range.network())), bits(range.broadcast()).checked_add(1)]);
        hosts.chain(broadcasts).chain(ranges).flatten().collect()
    }

    /// Returns the addresses of a family for which `answer` holds; `answer` may depend on the table only.
    pub fn alike(&self, family: Family, answer: impl Fn(IpAddr, &Self) -> bool) -> Intervals {
        let edges = self.edges();
        let holds = |number: u128| answer(address_from_bits(number, family), self);
        let own = Intervals::alike(&edges, family, 0, holds);
        let all = Intervals::between(0, u128::MAX >> (128 - u32::from(family.bits())));
        if holds(0) { own } else { all.without(&own) }
    }

    /// Returns the first address that the kernel lists for an interface, for IPv6 the first that is not link-local: the destination of
    /// `REDIRECT` for packets on that interface (`nf_nat_redirect.c`).
    pub(crate) fn first_of(&self, interface: Interface, family: Family) -> Option<IpAddr> {
        let fits = |address: &IpAddr| !matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        self.listed(interface, family).into_iter().map(|network| network.addr()).find(fits)
    }

    /// Returns the addresses of an interface with their networks, in the kernel's order: IPv4 addresses as they were added; IPv6 addresses
    /// by widest scope first, and within a scope the address added last first (`ipv6_link_dev_addr`).
    pub fn listed(&self, interface: Interface, family: Family) -> Vec<IpNet> {
        let is_listed = |network: &IpNet, on: Interface| on == interface && Family::of(network.addr()) == family;
        let own = self.assigned.iter().filter(|(network, on)| is_listed(network, *on)).map(|(network, _)| *network);
        if family == Family::Ipv4 {
            return own.collect();
        }
        let mut listed: Vec<IpNet> = own.rev().collect();
        listed.sort_by_key(|network| std::cmp::Reverse(address_scope(network.addr())));
        listed
    }
}

/// Returns the scope of an address as a source: 2 for link-local, 5 for site-local, 14 for global (`ipv6_addr_src_scope`; RFC 4291, section
/// 2.7). All IPv4 addresses have the same scope.
pub fn address_scope(address: IpAddr) -> u8 {
    const SITE_LOCAL: (u16, u16) = (0xfec0, 0xffc0);
    match address {
        IpAddr::V6(address) if address.is_loopback() || address.is_unicast_link_local() => 2,
        IpAddr::V6(address) if address.segments()[0] & SITE_LOCAL.1 == SITE_LOCAL.0 => 5,
        IpAddr::V4(_) | IpAddr::V6(_) => 14,
    }
}

/// The lists of `recent`, by name. A missing list is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecentLists(HashMap<Box<str>, FxHashMap<u128, RecentEntry>>);

/// The times at which packets of an address were recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecentEntry {
    /// The age in seconds of each of the last packets (the kernel keeps 20).
    pub ages: Vec<u32>,
}

impl RecentLists {
    /// Records a packet of an address, this many seconds ago.
    pub fn add(&mut self, list: &str, address: IpAddr, age: u32) {
        self.0.entry(list.into()).or_default().entry(bits(address)).or_default().ages.push(age);
    }

    /// Removes an address.
    pub fn remove(&mut self, list: &str, address: IpAddr) {
        if let Some(entries) = self.0.get_mut(list) {
            entries.remove(&bits(address));
        }
    }

    /// Ages all entries.
    pub fn pass(&mut self, seconds: u32) {
        let entries = self.0.values_mut().flat_map(FxHashMap::values_mut);
        entries.flat_map(|entry| &mut entry.ages).for_each(|age| *age = age.saturating_add(seconds));
    }

    /// Returns the entry of an address.
    pub(crate) fn entry(&self, list: &str, address: IpAddr) -> Option<&RecentEntry> {
        self.0.get(list)?.get(&bits(address))
    }

    /// Returns the addresses in a list, in order.
    pub(crate) fn addresses(&self, list: &str) -> Vec<u128> {
        let mut addresses: Vec<u128> = self.0.get(list).into_iter().flat_map(FxHashMap::keys).copied().collect();
        addresses.sort_unstable();
        addresses
    }

    /// Returns the key of an address in a list.
    pub(crate) fn key(address: IpAddr, mask: IpAddr) -> IpAddr {
        masked(address, mask)
    }
}

/// An ipset: entries, each with one part for every dimension of the set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IpSet {
    /// The entries. Those of `hash:ip,port` have an address and a port, those of `hash:net` one range.
    pub entries: Vec<Vec<Part>>,
}

/// One part of an entry of an ipset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// An address or a range of them.
    Address(IpNet),
    /// A port range of a protocol.
    Port {
        /// The protocol.
        protocol: u8,
        /// The lowest port.
        first: u16,
        /// The highest.
        last: u16,
    },
}
