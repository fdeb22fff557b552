//! Routing decisions between hooks.

use std::cmp::Reverse;
use std::net::IpAddr;

use svclab_rules::cluster::Family;
use svclab_rules::walk::Field;

use super::machine::Machine;
use super::prediction::Cause;
use super::route_table::{Out, out};
use super::set_queries::{Set, is_among, loopback};
use crate::topology::LOOPBACK;

/// The routing decision for a packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoutingDecision {
    /// Local delivery.
    Local,
    /// Forwarding.
    Forward(Out),
}

impl Machine {
    pub(super) fn is_own(&self, field: Field, address: IpAddr, set: Set<'_>) -> bool {
        is_among(set, field, address, &self.own[Family::of(address) as usize])
    }

    /// Whether a destination is the broadcast address of one of the machine's networks.
    pub(super) fn is_broadcast(&self, to: IpAddr, set: Set<'_>) -> bool {
        to.is_ipv4() && is_among(set, Field::Destination, to, &self.broadcasts)
    }

    /// The route to an address, by the longest prefix.
    fn route(&self, field: Field, to: IpAddr, set: Set<'_>) -> Result<Out, Cause> {
        let route = self.ways(Family::of(to)).find(field, to, set).ok_or(Cause::NoRoute)?;
        out(route, to).ok_or(Cause::Blackhole)
    }

    /// The route to an address through this interface.
    pub(super) fn route_by(&self, interface: u32, to: IpAddr) -> Option<Out> {
        let to_it = self.routes().filter(|route| route.destination.contains(&to));
        let ways = to_it.filter_map(|route| Some((route.destination.prefix_len(), out(&route, to)?)));
        let ways = ways.filter(|(_, out)| out.interface == interface);
        ways.min_by_key(|(length, _)| Reverse(*length)).map(|(_, out)| out)
    }

    /// Routes a locally generated packet whose source is already chosen.
    pub(super) fn route_output(&self, from: IpAddr, to: IpAddr, set: Set<'_>) -> Result<Out, Cause> {
        if self.is_own(Field::Destination, to, set) {
            return Ok(Out { interface: LOOPBACK, next_hop: to });
        }
        let out = self.route(Field::Destination, to, set)?;
        // `__mkroute_output`.
        if from.is_ipv4()
            && !self.settings(out.interface).routes_loopback
            && is_among(set, Field::Source, from, &loopback(Family::Ipv4))
        {
            return Err(Cause::Martian);
        }
        Ok(out)
    }

    /// Routes a packet that arrived, and checks whether it may be forwarded.
    pub(super) fn route_input(
        &self,
        by: u32,
        from: IpAddr,
        to: IpAddr,
        set: Set<'_>,
    ) -> Result<RoutingDecision, Cause> {
        let way = self.way_in(by, from, to, set)?;
        // `ip6_forward`; IPv4 checks this before the route lookup.
        if to.is_ipv6() && matches!(way, RoutingDecision::Forward(_)) && !self.settings(by).forwards_ipv6 {
            return Err(Cause::NotForwarding);
        }
        Ok(way)
    }

    /// The route of a packet that arrived (`ip_route_input_slow`, `ip6_route_input`).
    pub(super) fn way_in(&self, by: u32, from: IpAddr, to: IpAddr, set: Set<'_>) -> Result<RoutingDecision, Cause> {
        let ipv4 = to.is_ipv4();
        let is_loopback = |field, address| is_among(set, field, address, &loopback(Family::of(address)));
        if ipv4
            && !self.settings(by).routes_loopback
            && (is_loopback(Field::Source, from) || is_loopback(Field::Destination, to))
        {
            return Err(Cause::Martian);
        }
        if !ipv4 && is_loopback(Field::Destination, to) {
            // Only a route through the interface by which it arrived counts (`rt6_need_strict`), and the route of `::1`
            // is not such a route.
            let out = self.route_by(by, to).ok_or(Cause::NoRoute)?;
            return Ok(RoutingDecision::Forward(out));
        }
        if self.is_own(Field::Destination, to, set) {
            return self.validate_source(by, from, set).map(|()| RoutingDecision::Local);
        }
        if self.is_broadcast(to, set) {
            return Err(Cause::NoListener);
        }
        if ipv4 && !self.settings(by).forwards_ipv4 {
            return Err(Cause::NotForwarding);
        }
        let out = self.route(Field::Destination, to, set)?;
        self.validate_source(by, from, set)?;
        Ok(RoutingDecision::Forward(out))
    }

    /// `fib_validate_source`; IPv6 has no such check.
    fn validate_source(&self, by: u32, from: IpAddr, set: Set<'_>) -> Result<(), Cause> {
        if !from.is_ipv4() {
            return Ok(());
        }
        let settings = self.settings(by);
        if !settings.accepts_own && self.is_own(Field::Source, from, set) {
            return Err(Cause::Martian);
        }
        if settings.reverse_path == 0 {
            return Ok(());
        }
        match (settings.reverse_path, self.route(Field::Source, from, set)) {
            (1, Ok(out)) if out.interface == by => Ok(()),
            (2, Ok(_)) => Ok(()),
            _ => Err(Cause::ReversePath),
        }
    }

    /// The source address that the kernel selects for a process's packet; `None` if it would not send it.
    pub(super) fn source_toward(&self, to: IpAddr, set: Set<'_>) -> Option<IpAddr> {
        if self.is_own(Field::Destination, to, set) {
            let is_loopback = is_among(set, Field::Destination, to, &loopback(Family::of(to)));
            return Some(if is_loopback { super::machine::loopback(to.is_ipv4()) } else { to });
        }
        self.preferred(self.route(Field::Destination, to, set).ok()?, to, set)
    }
}
