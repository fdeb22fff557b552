//! Packets and a machine for tests of rules.

use std::net::IpAddr;

use super::{Environment, HookVerdict, Interface, Packet, Transport};
use crate::cluster::Protocol;

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Returns a first packet from port 40000.
pub(crate) fn tcp(source: &str, destination: &str, port: u16) -> Packet {
    let transport = Transport::opening(Protocol::Tcp, 40_000, port);
    Packet::new(address(source), address(destination), transport)
}

/// Returns a machine with `eth0` 192.0.2.1/24 and fd00:2::1, `eth1` 198.51.100.1/24 and fd00:3::1.
pub(crate) fn machine() -> Environment {
    let mut environment = Environment::default();
    for (network, name) in [
        ("192.0.2.1/24", "eth0"),
        ("fe80::1/64", "eth0"),
        ("fd00:2::1/64", "eth0"),
        ("198.51.100.1/24", "eth1"),
        ("fd00:3::1/64", "eth1"),
    ] {
        environment.addresses.assign_in(network.parse().unwrap(), Interface::new(name).unwrap());
    }
    environment
}

/// `accept`, `drop`, `reject` or `unknown`.
pub(crate) fn word(outcome: &HookVerdict) -> &'static str {
    match outcome {
        HookVerdict::Accept => "accept",
        HookVerdict::Drop(_) => "drop",
        HookVerdict::Reject(..) => "reject",
        HookVerdict::Unknown(_) => "unknown",
    }
}
