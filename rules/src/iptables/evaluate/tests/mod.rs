//! Tests of single rules and small rule sets.

mod chance;
mod conditions;
mod errors;
mod index;
mod nat;
mod tables;

use std::net::IpAddr;

use super::Program;
use crate::cluster::{Family, Protocol};
use crate::iptables::parse;
use crate::walk::samples::{address, machine, tcp, word};
use crate::walk::{Arrival, Branch, Environment, Hook, HookVerdict, Interface, Packet, Path, Tracking, Transport};

/// Compiles tables in the format of `iptables-save`; built-in chains need no declaration.
fn program(family: Family, text: &str) -> Program {
    let parsed = parse(text, family).unwrap_or_else(|errors| panic!("{}", errors[0]));
    Program::compile(&parsed.rules).unwrap_or_else(|errors| panic!("{}", errors[0]))
}

fn v4(text: &str) -> Program {
    program(Family::Ipv4, text)
}

fn walk_traced(program: &Program, hook: Hook, packet: &Packet, tracking: Tracking) -> Vec<Branch<Path>> {
    program.walk_with(Arrival { tracking, ..Arrival::first(&machine(), hook, packet) }, Path::default())
}

/// Returns the only branch of the first packet of a connection.
fn only_branch(program: &Program, hook: Hook, packet: &Packet) -> Branch<Path> {
    let mut branches = walk_traced(program, hook, packet, Tracking::first(packet));
    assert_eq!(branches.len(), 1, "{branches:#?}");
    branches.remove(0)
}
