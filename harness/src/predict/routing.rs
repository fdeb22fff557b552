//! What a kernel decides between hooks.

use std::net::IpAddr;

use super::machine::{Machine, loopback};
use super::prediction::Cause;
use super::settings::Settings;
use crate::topology::{Hop, LOOPBACK, Route};

/// A way out of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Out {
    /// The index of the interface.
    pub(super) interface: u32,
    /// Whom the packet is handed to: a router, or the destination itself.
    pub(super) next_hop: IpAddr,
}

/// Where a packet goes that came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To a process of the machine.
    Local,
    /// Out again.
    Forward(Out),
}

impl Machine {
    fn is_own(&self, address: IpAddr) -> bool {
        self.environment.addresses.interface_of(address).is_some()
    }

    /// The way to an address, by the longest prefix.
    fn route(&self, to: IpAddr) -> Result<Out, Cause> {
        let route = self.routes.iter().find(|route| route.destination.contains(&to)).ok_or(Cause::NoRoute)?;
        out(route, to).ok_or(Cause::Blackhole)
    }

    /// The way to an address that leaves by this interface.
    pub(super) fn route_by(&self, interface: u32, to: IpAddr) -> Option<Out> {
        let mut ways =
            self.routes.iter().filter(|route| route.destination.contains(&to)).filter_map(|route| out(route, to));
        ways.find(|out| out.interface == interface)
    }

    /// Routes a packet of the machine itself, whose source is chosen already.
    pub(super) fn route_output(&self, from: IpAddr, to: IpAddr) -> Result<Out, Cause> {
        if self.is_own(to) {
            return Ok(Out { interface: LOOPBACK, next_hop: to });
        }
        let out = self.route(to)?;
        // `__mkroute_output`.
        if from.is_ipv4() && from.is_loopback() && !self.routes_loopback(out.interface) {
            return Err(Cause::Martian);
        }
        Ok(out)
    }

    /// Routes a packet that came in, and asks whether it may go on.
    pub(super) fn route_input(&self, by: u32, from: IpAddr, to: IpAddr) -> Result<Way, Cause> {
        let way = self.way_in(by, from, to)?;
        // `ip6_forward`; IPv4 has asked before it looked for a way.
        if to.is_ipv6() && matches!(way, Way::Forward(_)) && !self.settings().forwards(false, self.name(by)) {
            return Err(Cause::NotForwarding);
        }
        Ok(way)
    }

    /// The way of a packet that came in (`ip_route_input_slow`, `ip6_route_input`).
    pub(super) fn way_in(&self, by: u32, from: IpAddr, to: IpAddr) -> Result<Way, Cause> {
        let ipv4 = to.is_ipv4();
        if ipv4 && (from.is_loopback() || to.is_loopback()) && !self.routes_loopback(by) {
            return Err(Cause::Martian);
        }
        if !ipv4 && to.is_loopback() {
            // Only a route by the interface that it came in by counts (`rt6_need_strict`), and that of `::1` is not.
            let out = self.route_by(by, to).ok_or(Cause::NoRoute)?;
            return Ok(Way::Forward(out));
        }
        if self.is_own(to) {
            return self.validate_source(by, from).map(|()| Way::Local);
        }
        if self.environment.addresses.broadcast_of(to).is_some() {
            return Err(Cause::NoListener);
        }
        if ipv4 && !self.settings().forwards(true, self.name(by)) {
            return Err(Cause::NotForwarding);
        }
        let out = self.route(to)?;
        self.validate_source(by, from)?;
        Ok(Way::Forward(out))
    }

    /// `fib_validate_source`; IPv6 has no such check.
    fn validate_source(&self, by: u32, from: IpAddr) -> Result<(), Cause> {
        if !from.is_ipv4() {
            return Ok(());
        }
        let settings = self.settings();
        if self.is_own(from) && !settings.accepts_own(self.name(by)) {
            return Err(Cause::Martian);
        }
        let leads_back = |interface: u32| interface == by;
        match (settings.reverse_path(self.name(by)), self.route(from)) {
            (0, _) => Ok(()),
            (1, Ok(out)) if leads_back(out.interface) => Ok(()),
            (2, Ok(_)) => Ok(()),
            _ => Err(Cause::ReversePath),
        }
    }

    /// The source that the kernel gives to a process's packet. `None` where it would not send.
    pub(super) fn source_toward(&self, to: IpAddr) -> Option<IpAddr> {
        if self.is_own(to) {
            return Some(if to.is_loopback() { loopback(to.is_ipv4()) } else { to });
        }
        self.preferred(self.route(to).ok()?, to)
    }

    fn settings(&self) -> Settings<'_> {
        Settings(&self.netns)
    }

    /// Whether the bridge hands packets of a family to iptables.
    pub(super) fn bridges_call(&self, ipv4: bool) -> bool {
        self.settings().bridges_call(ipv4)
    }

    fn routes_loopback(&self, interface: u32) -> bool {
        interface == LOOPBACK || self.settings().routes_loopback(self.name(interface))
    }

    fn name(&self, index: u32) -> &str {
        self.netns.interface(index).map_or("lo", |interface| &interface.name)
    }
}

/// Where a route leads an address; nothing where it leads nowhere.
fn out(route: &Route, to: IpAddr) -> Option<Out> {
    match route.hop {
        Hop::Gateway(next_hop, interface) => Some(Out { interface, next_hop }),
        Hop::Link(interface) => Some(Out { interface, next_hop: to }),
        Hop::Nowhere => None,
    }
}
