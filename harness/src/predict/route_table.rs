//! Routes, indexed by the addresses that they match.

use std::collections::HashMap;
use std::net::IpAddr;

use svclab_rules::cluster::Family;
use svclab_rules::walk::{Field, Intervals, address_bits};

use super::set_queries::{Set, is_among};
use crate::topology::{Hop, Route};

/// The result of a route lookup: where a packet leaves a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Out {
    /// The index of the interface.
    pub(super) interface: u32,
    /// The next hop: a router, or the destination itself.
    pub(super) next_hop: IpAddr,
}

/// The routes of a machine for one family.
pub(super) struct RouteTable {
    /// The first address of each range of addresses with the same route, and the position of that route.
    parts: Vec<(u128, Option<usize>)>,
    /// The addresses of each kind of route, followed by those without a route.
    addresses: Vec<Intervals>,
    routes: Vec<Route>,
    /// The kind of each route: routes to equivalent pods are of one kind, and so are routes with the same next hop.
    kinds: Vec<usize>,
}

impl RouteTable {
    /// Indexes routes; for the same prefix, the first is used. Routes with the same result of `alike` are of one kind.
    pub(super) fn of(routes: &[Route], family: Family, alike: impl Fn(&Route) -> Option<usize>) -> Self {
        let own = routes.iter().filter(|route| Family::of(route.destination.addr()) == family);
        let mut routes: Vec<Route> = own.cloned().collect();
        // If several start at the same address, the longest comes last and is used.
        let key = |route: &Route| (address_bits(route.destination.network()), route.destination.prefix_len());
        routes.sort_by_key(key);
        routes.dedup_by_key(|route| route.destination.trunc());
        let highest = u128::MAX >> (128 - u32::from(family.bits()));
        let mut sweep = Sweep { parts: vec![(0, None)], open: Vec::new() };
        for (number, route) in routes.iter().enumerate() {
            let start = address_bits(route.destination.network());
            sweep.close_before(start);
            sweep.open.push((address_bits(route.destination.broadcast()), number));
            sweep.start(start);
        }
        sweep.close_before(u128::MAX);
        let mut first_of: HashMap<Kind, usize> = HashMap::new();
        let kind = |(number, route): (usize, &Route)| {
            let kind = alike(route).map_or_else(|| Kind::of(&route.hop), Kind::ToPods);
            *first_of.entry(kind).or_insert(number)
        };
        let kinds: Vec<usize> = routes.iter().enumerate().map(kind).collect();
        let mut addresses: Vec<Vec<(u128, u128)>> = vec![Vec::new(); routes.len() + 1];
        for (at, (start, route)) in sweep.parts.iter().enumerate().filter(|(_, (start, _))| *start <= highest) {
            let end = sweep.parts.get(at + 1).map_or(highest, |(next, _)| next - 1);
            addresses[route.map_or(routes.len(), |route| kinds[route])].push((*start, end.min(highest)));
        }
        let addresses = addresses.into_iter().map(Intervals::from_iter).collect();
        Self { parts: sweep.parts, addresses, routes, kinds }
    }

    /// The route for an address, by the longest prefix.
    pub(super) fn find(&self, field: Field, to: IpAddr, set: Set<'_>) -> Option<&Route> {
        let at = self.parts.partition_point(|(start, _)| *start <= address_bits(to));
        let (_, route) = self.parts.get(at.checked_sub(1)?)?;
        is_among(set, field, to, &self.addresses[route.map_or(self.routes.len(), |route| self.kinds[route])]);
        route.map(|route| &self.routes[route])
    }
}

/// The common property of routes of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// They lead to equivalent pods with this number.
    ToPods(usize),
    Gateway(IpAddr, u32),
    Link(u32),
    Nowhere,
}

impl Kind {
    fn of(hop: &Hop) -> Self {
        match *hop {
            Hop::Gateway(next_hop, interface) => Self::Gateway(next_hop, interface),
            Hop::Link(interface) => Self::Link(interface),
            Hop::Nowhere => Self::Nowhere,
        }
    }
}

/// The interface and next hop of a route for an address; `None` if the route is a blackhole.
pub(super) fn out(route: &Route, to: IpAddr) -> Option<Out> {
    match route.hop {
        Hop::Gateway(next_hop, interface) => Some(Out { interface, next_hop }),
        Hop::Link(interface) => Some(Out { interface, next_hop: to }),
        Hop::Nowhere => None,
    }
}

struct Sweep {
    parts: Vec<(u128, Option<usize>)>,
    /// The prefixes that contain the current address, each inside the previous one: its last address and its route.
    open: Vec<(u128, usize)>,
}

impl Sweep {
    /// Ends the prefixes that end before an address.
    fn close_before(&mut self, address: u128) {
        while let Some((end, _)) = self.open.last().copied().filter(|(end, _)| *end < address) {
            self.open.pop();
            self.start(end + 1);
        }
    }

    /// Starts a range at an address, with the route of the innermost prefix.
    fn start(&mut self, address: u128) {
        let route = self.open.last().map(|(_, route)| *route);
        match self.parts.last_mut() {
            Some(last) if last.0 == address => last.1 = route,
            _ => self.parts.push((address, route)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Hop;

    #[test]
    fn the_longest_prefix_counts() {
        let prefixes = ["10.0.0.0/8", "0.0.0.0/0", "10.1.0.0/16", "10.1.2.3/32", "10.1.2.4/32", "10.1.255.0/24"];
        let route = |(link, prefix): (usize, &&str)| {
            let hop = Hop::Link(u32::try_from(link).unwrap());
            Route { destination: prefix.parse().unwrap(), hop }
        };
        let routes: Vec<Route> = prefixes.iter().enumerate().map(route).collect();
        let ways = RouteTable::of(&routes, Family::Ipv4, |_| None);
        for address in [
            "9.9.9.9",
            "10.0.0.0",
            "10.1.2.2",
            "10.1.2.3",
            "10.1.2.4",
            "10.1.2.5",
            "10.1.255.9",
            "10.2.0.0",
            "255.255.255.255",
        ] {
            let address: IpAddr = address.parse().unwrap();
            let longest = routes.iter().filter(|route| route.destination.contains(&address));
            let longest = longest.max_by_key(|route| route.destination.prefix_len());
            assert_eq!(ways.find(Field::Destination, address, None), longest, "{address}");
        }
        let some = RouteTable::of(&routes[2..], Family::Ipv4, |_| None);
        assert_eq!(some.find(Field::Destination, "11.0.0.1".parse().unwrap(), None), None);
        assert_eq!(some.addresses.iter().map(|part| part.ranges().len()).sum::<usize>(), some.parts.len());
    }

    #[test]
    fn routes_over_one_next_hop_are_of_one_kind() {
        let hop = || Hop::Gateway("172.18.0.3".parse().unwrap(), 1);
        let route = |prefix: &str, hop| Route { destination: prefix.parse().unwrap(), hop };
        let routes = [route("10.0.0.1/32", hop()), route("10.0.0.7/32", hop()), route("10.0.0.9/32", Hop::Nowhere)];
        let ways = RouteTable::of(&routes, Family::Ipv4, |_| None);
        assert_eq!((ways.kinds[0], ways.kinds[1], ways.kinds[2]), (0, 0, 2));
        assert_eq!(ways.addresses[0].ranges().len(), 2);
    }
}
