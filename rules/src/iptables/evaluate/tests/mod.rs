//! What single rules and small rule sets do.

mod conditions;
mod index;
mod mistakes;
mod nat;
mod tables;

use std::net::IpAddr;

use super::Program;
use crate::cluster::{Family, Protocol};
use crate::iptables::parse;
use crate::walk::{Environment, Hook, Interface, Outcome, Packet, Path, Tracking, Transport};

/// A program of tables as `iptables-save` shows them; chains of the kernel need no declaration.
fn program(family: Family, text: &str) -> Program {
    let parsed = parse(text, family).unwrap_or_else(|errors| panic!("{}", errors[0]));
    Program::compile(&parsed.rules).unwrap_or_else(|errors| panic!("{}", errors[0]))
}

fn v4(text: &str) -> Program {
    program(Family::Ipv4, text)
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A first packet from port 40000.
fn tcp(source: &str, destination: &str, port: u16) -> Packet {
    let transport = Transport::opening(Protocol::Tcp, 40_000, port);
    Packet::new(address(source), address(destination), transport)
}

/// A machine with `eth0` 192.0.2.1/24 and fd00:2::1, `eth1` 198.51.100.1/24 and fd00:3::1.
fn machine() -> Environment {
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

/// The way of the first packet of a connection that has only one way to go.
fn only_way(program: &Program, hook: Hook, packet: &Packet) -> crate::walk::Branch<Path> {
    let mut branches = program.walk_traced(&machine(), hook, packet, Tracking::first(packet));
    assert_eq!(branches.len(), 1, "{branches:#?}");
    branches.remove(0)
}

/// `accept`, `drop`, `reject` or `unknown`.
fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Accept => "accept",
        Outcome::Drop(_) => "drop",
        Outcome::Reject(..) => "reject",
        Outcome::Unknown(_) => "unknown",
    }
}
