//! Tests of single rules and small tables.

mod chains;
mod conditions;
mod errors;
mod nat;

use super::Program;
use crate::cluster::Family;
use crate::nftables::{Ruleset, parse};
use crate::walk::samples::{address, machine, tcp, word};
use crate::walk::{Arrival, Branch, Environment, Hook, HookVerdict, Interface, Packet, Path, Share, Transport};

/// Builds a table of these sets and chains.
fn table(inside: &str) -> Ruleset {
    parse(&format!("table ip kube-proxy {{\n{inside}\n}}\n")).unwrap_or_else(|errors| panic!("{}", errors[0])).rules
}

fn program(inside: &str) -> Program {
    Program::compile(&table(inside), Family::Ipv4).unwrap_or_else(|errors| panic!("{}", errors[0]))
}

/// Compiles a chain at FORWARD with these rules, before other sets and chains.
fn forward(rules: &str, others: &str) -> Program {
    program(&format!("chain f {{\ntype filter hook forward priority 0; policy accept;\n{rules}\n}}\n{others}"))
}

/// Returns all branches of the first packet of a connection.
fn ways(program: &Program, environment: &Environment, hook: Hook, packet: &Packet) -> Vec<Branch<Path>> {
    let arrival = Arrival::first(environment, hook, packet);
    let branches = program.walk_with(arrival, Path::default());
    let sum = branches.iter().fold(Share::ZERO, |sum, branch| sum.plus(branch.share));
    assert_eq!(sum, Share::ONE);
    branches
}

/// Returns the only branch of the first packet of a connection.
fn only_branch(program: &Program, hook: Hook, packet: &Packet) -> Branch<Path> {
    let mut branches = ways(program, &machine(), hook, packet);
    assert_eq!(branches.len(), 1, "{branches:#?}");
    branches.remove(0)
}

/// Returns the matched rules as `chain:number`.
fn path(program: &Program, branch: &Branch<Path>) -> String {
    let places = branch.trace.steps().into_iter().map(|step| program.place(step.rule));
    places.map(|place| format!("{}:{}", place.chain, place.rule)).collect::<Vec<_>>().join(" ")
}
