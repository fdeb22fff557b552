//! The facts about a machine that its rules depend on.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use rustc_hash::FxHashMap;

use super::address::{address_from_bits, bits, masked};
use super::interface::Interface;
use super::intervals::Intervals;
use crate::cluster::{Family, Kernel};

/// The state of a machine that rules look at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// Its addresses.
    pub addresses: AddressTable,
    /// What `recent` rules remember.
    pub recent: RecentLists,
    /// Its ipsets, by name. A set that is not here is not known.
    pub sets: HashMap<Box<str>, IpSet>,
    /// Its kernel.
    pub kernel: Kernel,
}

/// The addresses that a machine takes for its own: what the kernel's table `local` holds.
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
    /// Adds an address of an interface, in a network of its own.
    pub fn assign(&mut self, address: IpAddr, interface: Interface) {
        self.assign_in(address.into(), interface);
    }

    /// Adds an address of an interface and, for IPv4, the broadcast address that its network brings along. Networks of
    /// 31 and 32 bits have none.
    pub fn assign_in(&mut self, address: IpNet, interface: Interface) {
        self.hosts.insert(address.addr(), interface);
        self.assigned.push((address, interface));
        if let IpNet::V4(address) = address
            && address.prefix_len() < 31
        {
            self.broadcasts.push((address.broadcast(), interface));
        }
    }

    /// The interface that has an address; nothing if the address is not the machine's own.
    pub fn interface_of(&self, address: IpAddr) -> Option<Interface> {
        let in_range =
            || self.ranges.iter().find(|(range, _)| range.contains(&address)).map(|(_, interface)| *interface);
        self.hosts.get(&address).copied().or_else(in_range)
    }

    /// The interface whose broadcast address this is.
    pub fn broadcast_of(&self, address: IpAddr) -> Option<Interface> {
        self.broadcasts.iter().find(|(broadcast, _)| IpAddr::V4(*broadcast) == address).map(|(_, interface)| *interface)
    }

    /// Whether an address is the machine's own, and no broadcast address.
    pub fn is_local(&self, address: IpAddr) -> bool {
        self.broadcast_of(address).is_none() && self.interface_of(address).is_some()
    }

    /// The lowest addresses of the parts of all addresses in which the machine takes every one for the same: its own, a broadcast
    /// address, or not its own.
    pub(crate) fn edges(&self) -> Vec<u128> {
        // Those of both families: an edge too many does no harm.
        let one = |address: u128| [Some(address), address.checked_add(1)];
        let hosts = self.hosts.keys().flat_map(|address| one(bits(*address)));
        let broadcasts = self.broadcasts.iter().flat_map(|(address, _)| one(bits((*address).into())));
        let ranges = self
            .ranges
            .iter()
            .flat_map(|(range, _)| [Some(bits(range.network())), bits(range.broadcast()).checked_add(1)]);
        hosts.chain(broadcasts).chain(ranges).flatten().collect()
    }

    /// The addresses of a family for which the table holds something: `answer` may look addresses up in the table alone.
    pub fn alike(&self, family: Family, answer: impl Fn(IpAddr, &Self) -> bool) -> Intervals {
        let edges = self.edges();
        let holds = |number: u128| answer(address_from_bits(number, family), self);
        let own = Intervals::alike(&edges, family, 0, holds);
        let all = Intervals::between(0, u128::MAX >> (128 - u32::from(family.bits())));
        if holds(0) { own } else { all.without(&own) }
    }

    /// The first address that the kernel lists for an interface, of IPv6 the first that is not link-local: where `REDIRECT` sends
    /// packets that came in by it (`nf_nat_redirect.c`).
    pub(crate) fn first_of(&self, interface: Interface, family: Family) -> Option<IpAddr> {
        let fits = |address: &IpAddr| !matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        self.listed(interface, family).into_iter().map(|network| network.addr()).find(fits)
    }

    /// The addresses of an interface with their networks, in the order in which the kernel lists them: those of IPv4 as they were
    /// added; of IPv6 the widest scope first, and of one scope the address that was added last (`ipv6_link_dev_addr`).
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

/// The scope of an address as a source: 2 of a link, 5 of a site, 14 of all (`ipv6_addr_src_scope`; RFC 4291, section 2.7). Those
/// of IPv4 are all of one.
pub fn address_scope(address: IpAddr) -> u8 {
    const SITE_LOCAL: (u16, u16) = (0xfec0, 0xffc0);
    match address {
        IpAddr::V6(address) if address.is_loopback() || address.is_unicast_link_local() => 2,
        IpAddr::V6(address) if address.segments()[0] & SITE_LOCAL.1 == SITE_LOCAL.0 => 5,
        IpAddr::V4(_) | IpAddr::V6(_) => 14,
    }
}

/// The lists of `recent`, by name. A list that is not here is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecentLists(HashMap<Box<str>, FxHashMap<u128, RecentEntry>>);

/// When packets of an address were noted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecentEntry {
    /// How many seconds ago, for each of the last packets (the kernel keeps 20).
    pub ages: Vec<u32>,
}

impl RecentLists {
    /// Notes a packet of an address, this many seconds ago.
    pub fn note(&mut self, list: &str, address: IpAddr, age: u32) {
        self.0.entry(list.into()).or_default().entry(bits(address)).or_default().ages.push(age);
    }

    /// Forgets an address.
    pub fn forget(&mut self, list: &str, address: IpAddr) {
        if let Some(entries) = self.0.get_mut(list) {
            entries.remove(&bits(address));
        }
    }

    /// Makes all entries older.
    pub fn pass(&mut self, seconds: u32) {
        let entries = self.0.values_mut().flat_map(FxHashMap::values_mut);
        entries.flat_map(|entry| &mut entry.ages).for_each(|age| *age = age.saturating_add(seconds));
    }

    /// The entry of an address.
    pub(crate) fn entry(&self, list: &str, address: IpAddr) -> Option<&RecentEntry> {
        self.0.get(list)?.get(&bits(address))
    }

    /// The addresses that a list has, in order.
    pub(crate) fn noted(&self, list: &str) -> Vec<u128> {
        let mut noted: Vec<u128> = self.0.get(list).into_iter().flat_map(FxHashMap::keys).copied().collect();
        noted.sort_unstable();
        noted
    }

    /// What a list has an address under.
    pub(crate) fn key(address: IpAddr, mask: IpAddr) -> IpAddr {
        masked(address, mask)
    }
}

/// An ipset: entries, each with one part for every dimension of the set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IpSet {
    /// The entries. `hash:ip,port` has an address and a port in each, `hash:net` one range.
    pub entries: Vec<Vec<Part>>,
}

/// One part of an entry of an ipset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// An address or a range of them.
    Address(IpNet),
    /// A port of a protocol, given by its number.
    Port {
        /// The protocol.
        protocol: u8,
        /// The lowest port.
        first: u16,
        /// The highest.
        last: u16,
    },
}
