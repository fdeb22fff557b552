//! Translations: what rules of `nat` bind to a connection, and what is bound already.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::action::{Destination, Source, SourceAddress};
use super::walker::Walker;
use crate::cluster::Family;
use crate::iptables::PortRange;
use crate::walk::{Connection, Environment, Hook, SourceNat, State, Tracked, Tracking, Transport, bits};

impl<T> Walker<T> {
    /// Whether the rules of `nat` are asked at a hook (`nf_nat_inet_fn`).
    pub(super) fn asks_nat(&self, hook: Hook) -> bool {
        match &self.tracking {
            Tracking::Tracked(Tracked { state: State::Established, .. }) | Tracking::Invalid | Tracking::Untracked => {
                false
            }
            Tracking::Tracked(Tracked { connection, .. }) if hook.translates_destination() => {
                !connection.destination_settled
            }
            Tracking::Tracked(Tracked { connection, .. }) => !connection.source_settled,
        }
    }

    /// Settles that what no rule translated stays (`nf_nat_alloc_null_binding`), and rewrites the packet.
    pub(super) fn translate(&mut self, hook: Hook) {
        let Tracking::Tracked(tracked) = &mut self.tracking else { return };
        if hook.translates_destination() {
            tracked.connection.destination_settled = true;
        } else if self.source_nat.is_some() {
            // What the source becomes is the caller's to say.
            return;
        } else {
            tracked.connection.source_settled = true;
        }
        let before = self.packet.destination;
        tracked.connection.translate(tracked.direction, hook, &mut self.packet);
        self.source = bits(self.packet.source);
        self.destination = bits(self.packet.destination);
        // `nf_nat_ipv4_local_fn`.
        self.reroute |= hook == Hook::Output && self.packet.destination != before;
    }

    fn connection_mut(&mut self) -> Option<&mut Connection> {
        match &mut self.tracking {
            Tracking::Tracked(tracked) => Some(&mut tracked.connection),
            Tracking::Invalid | Tracking::Untracked => None,
        }
    }

    /// Binds a destination; fails where the kernel chooses a port on its own.
    pub(super) fn dnat(&mut self, to: Destination) -> Result<(), Arc<str>> {
        let has_ports = self.packet.transport.ports().is_some();
        let Some(connection) = self.connection_mut() else { return Ok(()) };
        let present = connection.reply.source_port;
        let port = match to.ports.filter(|_| has_ports) {
            None => present,
            Some(PortRange { first, last }) if first == last => first,
            Some(PortRange { first, last }) if !to.random && (first..=last).contains(&present) => present,
            Some(PortRange { first, last }) => {
                return Err(format!("the kernel chooses a port from {first} to {last}").into());
            }
        };
        let address = to.address.unwrap_or(connection.reply.source);
        connection.bind_destination(address, port);
        Ok(())
    }

    /// Where `REDIRECT` sends: a process's packets to loopback, others to an address of the interface that they came in
    /// by; nothing where it has none (`nf_nat_redirect.c`).
    pub(super) fn own_address(&self, hook: Hook, environment: &Environment) -> Option<IpAddr> {
        match (hook, self.packet.family()) {
            (Hook::Output, Family::Ipv4) => Some(Ipv4Addr::LOCALHOST.into()),
            (Hook::Output, Family::Ipv6) => Some(Ipv6Addr::LOCALHOST.into()),
            (_, family) => environment.addresses.first_of(self.packet.input?, family),
        }
    }

    /// Notes which sources the connection may get.
    pub(super) fn snat(&mut self, to: Source) {
        let transport = self.packet.transport;
        let Some(connection) = self.connection_mut() else { return };
        let present = connection.reply.destination_port;
        let address = match to.address {
            SourceAddress::Same => Some(connection.reply.destination),
            SourceAddress::Fixed(address) => Some(address),
            SourceAddress::Masquerade => None,
        };
        let (first_port, last_port) = source_ports(to, transport, present);
        self.source_nat = Some(SourceNat { address, first_port, last_port });
    }
}

/// The ports that the kernel chooses from (`get_unique_tuple` and `nf_nat_l4proto_unique_tuple`): the present one where it
/// may, else of those given; by chance, one of the same class as the present one.
fn source_ports(to: Source, transport: Transport, present: u16) -> (u16, u16) {
    let is_echo = matches!(transport, Transport::Icmp { .. });
    if transport.ports().is_none() && !is_echo {
        return (present, present);
    }
    match to.ports.filter(|_| !is_echo) {
        Some(PortRange { first, last }) if !to.random && (first..=last).contains(&present) => (present, present),
        Some(PortRange { first, last }) => (first, last),
        None if !to.random => (present, present),
        None if is_echo => (0, u16::MAX),
        None => match present {
            0..512 => (1, 511),
            512..1024 => (600, 1023),
            1024.. => (1024, u16::MAX),
        },
    }
}
