//! NAT: new bindings of a connection by rules, and existing ones.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::address::bits;
use super::connection::{Connection, SourceNat, State, Tracked, Tracking};
use super::environment::Environment;
use super::field::Field;
use super::hook::Hook;
use super::intervals::Intervals;
use super::packet::{SOURCE_PORT_CLASSES, Transport};
use super::trace::Trace;
use super::walker::Walker;
use crate::cluster::Family;

/// A new destination.
#[derive(Debug, Clone)]
pub(crate) struct Destination {
    /// The address; unchanged if `None`.
    pub(crate) address: Option<IpAddr>,
    /// The ports; unchanged if `None`, or if the current port is among them and no random choice is requested.
    pub(crate) ports: Option<RangeInclusive<u16>>,
    pub(crate) random: bool,
}

/// A new source.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) address: SourceAddress,
    pub(crate) ports: Option<RangeInclusive<u16>>,
    pub(crate) random: bool,
}

/// The address of a new source.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SourceAddress {
    /// The current address.
    Same,
    Fixed(IpAddr),
    /// An address of the output interface.
    Masquerade,
}

impl<T: Trace> Walker<T> {
    /// Returns whether nat rules are evaluated at a hook: nothing is bound yet (`nf_nat_inet_fn`).
    pub(super) fn asks_nat(&self, hook: Hook) -> bool {
        match self.tracking() {
            Tracking::Tracked(Tracked { state: State::Established, .. }) | Tracking::Invalid | Tracking::Untracked => {
                false
            }
            Tracking::Tracked(Tracked { connection, .. }) if hook.translates_destination() => {
                !connection.destination_settled
            }
            Tracking::Tracked(Tracked { connection, .. }) => !connection.source_settled && self.source_nat.is_none(),
        }
    }

    /// Settles that addresses which no rule translated stay unchanged (`nf_nat_alloc_null_binding`), and rewrites the packet.
    pub(super) fn translate(&mut self, hook: Hook) {
        let Tracking::Tracked(tracked) = &mut self.found else { return };
        if hook.translates_destination() {
            tracked.connection.destination_settled = true;
        } else if self.source_nat.is_some() {
            // The caller chooses the new source.
            return;
        } else {
            tracked.connection.source_settled = true;
        }
        let before = self.packet.destination;
        tracked.connection.translate(tracked.direction, hook, &mut self.packet);
        // `nf_nat_ipv4_local_fn`.
        self.reroute |= hook == Hook::Output && self.packet.destination != before;
    }

    fn connection_mut(&mut self) -> Option<&mut Connection> {
        self.tracked_mut().map(|tracked| &mut tracked.connection)
    }

    /// Binds a destination; fails if the kernel chooses the port.
    pub(crate) fn dnat(&mut self, to: &Destination) -> Result<(), Arc<str>> {
        let Some(Connection { reply, .. }) = self.tracking().connection().copied() else { return Ok(()) };
        let present = reply.source_port;
        let is_present = |ports: &RangeInclusive<u16>| self.has_port(Field::DestinationPort, present, ports);
        let port = match to.ports.as_ref().filter(|_| self.ports().is_some()) {
            None => present,
            Some(ports) if ports.start() == ports.end() => {
                is_present(ports);
                *ports.start()
            }
            Some(ports) if !to.random && is_present(ports) => present,
            Some(ports) => {
                return Err(format!("the kernel chooses a port from {} to {}", ports.start(), ports.end()).into());
            }
        };
        // It matters whether it equals the current one: then nothing is translated.
        let asked =
            |address| self.trace.asked(Field::Destination, bits(reply.source), || Intervals::one(bits(address)));
        to.address.inspect(|address| asked(*address));
        let address = to.address.unwrap_or(reply.source);
        if let Some(connection) = self.connection_mut() {
            connection.bind_destination(address, port);
        }
        Ok(())
    }

    /// Returns the destination of `REDIRECT`: loopback for locally generated packets, otherwise an address of the input interface; nothing
    /// if it has none (`nf_nat_redirect.c`). A kernel that looks for an address of the same scope finds none if the destination is `::1` or
    /// IPv4-compatible: no interface in a lab has an address with the scope of these (RFC 4291, section 2.5).
    pub(crate) fn own_address(&self, hook: Hook, environment: &Environment) -> Option<IpAddr> {
        match (hook, self.packet.family()) {
            (Hook::Output, Family::Ipv4) => Some(Ipv4Addr::LOCALHOST.into()),
            (Hook::Output, Family::Ipv6) => Some(Ipv6Addr::LOCALHOST.into()),
            (_, Family::Ipv6)
                if environment.kernel.redirects_within_scope() && self.has_loopback_or_compatible_destination() =>
            {
                None
            }
            (_, family) => environment.addresses.first_of(self.packet.input?, family),
        }
    }

    /// Returns whether the destination is an IPv6 loopback or IPv4-compatible address: in `::/96`, except `::`.
    fn has_loopback_or_compatible_destination(&self) -> bool {
        let destination = bits(self.packet.destination);
        self.trace.asked(Field::Destination, destination, || Intervals::between(1, u32::MAX.into()));
        (1..=u32::MAX.into()).contains(&destination)
    }

    /// Records the source NAT that a rule requests.
    pub(crate) fn snat(&mut self, to: &Source) {
        let Some(Connection { reply, .. }) = self.tracking().connection().copied() else { return };
        let address = match to.address {
            SourceAddress::Same => Some(reply.destination),
            SourceAddress::Fixed(address) => {
                self.trace.asked(Field::Source, bits(reply.destination), || Intervals::one(bits(address)));
                Some(address)
            }
            SourceAddress::Masquerade => None,
        };
        let (first_port, last_port) = self.source_ports(to, reply.destination_port);
        self.source_nat = Some(SourceNat { address, first_port, last_port });
    }

    /// Returns whether the current port of a connection is in a range.
    fn has_port(&self, field: Field, present: u16, ports: &RangeInclusive<u16>) -> bool {
        let all = || Intervals::between((*ports.start()).into(), (*ports.end()).into());
        self.trace.asked(field, present.into(), all);
        ports.contains(&present)
    }

    /// Returns the ports that the kernel chooses from (`get_unique_tuple` and `nf_nat_l4proto_unique_tuple`): the current one if allowed,
    /// else those given; for a random choice, those in the class of the current one.
    fn source_ports(&self, to: &Source, present: u16) -> (u16, u16) {
        let has_ports = self.ports().is_some();
        let is_echo = matches!(self.packet.transport, Transport::Icmp { .. });
        let asks_echo = || self.is_protocol(&[self.packet.transport.protocol()]);
        if !(has_ports || is_echo && asks_echo()) {
            return (present, present);
        }
        let among = |ports: RangeInclusive<u16>| self.has_port(Field::SourcePort, present, &ports);
        match to.ports.as_ref().filter(|_| !is_echo) {
            Some(ports) if !to.random && among(ports.clone()) => (present, present),
            Some(ports) => (*ports.start(), *ports.end()),
            None if !to.random => (present, present),
            None if is_echo => (0, u16::MAX),
            // This splits a set of packets only if rules match the chosen port: see `Narrowing`.
            None => match SOURCE_PORT_CLASSES.iter().position(|class| class.contains(&present)) {
                Some(0) => (1, 511),
                Some(1) => (600, 1023),
                _ => (1024, u16::MAX),
            },
        }
    }
}
