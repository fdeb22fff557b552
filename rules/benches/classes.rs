//! Benchmark of the classes of first packets at a node with the rules of 10,000 services with five endpoints each, in both languages: one
//! iteration is a partition of all packets.
//!
//! `cargo bench -p svclab-rules --bench classes`
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark is not a library")]

mod clusters;

use divan::{Bencher, black_box};
use svclab_rules::cluster::{Family, ProxyMode};
use svclab_rules::ruleset::{Program, Rules, compile};
use svclab_rules::walk::{
    Arrival, Branch, Classes, Environment, Hook, HookVerdict, Interface, Narrowed, Narrowing, Packet, Region, Tracking,
    Transport,
};

const SERVICES: u32 = 10_000;

fn main() {
    divan::main();
}

#[divan::bench(args = ["iptables", "nftables"], sample_count = 3, sample_size = 1)]
fn classes_of_a_node(bencher: Bencher<'_, '_>, mode: &str) {
    let mut cluster = clusters::cluster(SERVICES);
    cluster.proxy.mode = if mode == "iptables" { ProxyMode::Iptables } else { ProxyMode::Nftables };
    let rules = Rules::generate(&cluster, &cluster.nodes[0], Family::Ipv4).unwrap();
    let program = compile(&[&rules], Family::Ipv4).unwrap();
    let mut environment = Environment::default();
    environment.addresses.assign([172, 18, 0, 2].into(), Interface::new("eth0").unwrap());
    bencher.bench_local(|| {
        let like = Packet::new(
            [10, 127, 0, 1].into(),
            clusters::cluster_ip(7),
            Transport::Udp { source: 40_000, destination: 80 },
        );
        let mut classes = Classes::of([Region::all(Family::Ipv4)], like);
        let mut count = 0_usize;
        while let Some(class) = classes.next_by(|witness, narrowing| walk(&program, &environment, witness, narrowing)) {
            black_box(&class);
            count += 1;
        }
        assert!(count > SERVICES as usize * clusters::ENDPOINTS as usize, "{count}");
        count
    });
}

/// PREROUTING, then FORWARD and POSTROUTING: the path of a packet for another machine.
fn walk(program: &Program, environment: &Environment, packet: &Packet, narrowing: &Narrowing) -> Vec<Branch<Narrowed>> {
    let packet = Packet { input: Interface::new("eth0"), ..*packet };
    let tracking = Tracking::unknown(&packet, Some(narrowing));
    let output = Interface::new("veth1");
    let next = |hook: Hook, branches: Vec<Branch<Narrowed>>| -> Vec<Branch<Narrowed>> {
        let (on, ended): (Vec<_>, Vec<_>) =
            branches.into_iter().partition(|branch| branch.outcome == HookVerdict::Accept);
        let walked = on.into_iter().flat_map(|branch| {
            let packet = Packet { output, ..branch.packet };
            let arrival = Arrival { tracking: branch.tracking, ..Arrival::first(environment, hook, &packet) };
            program.walk_with(arrival, Narrowed::by(Some(narrowing)))
        });
        ended.into_iter().chain(walked).collect()
    };
    let arrival = Arrival { tracking, ..Arrival::first(environment, Hook::Prerouting, &packet) };
    let branches = program.walk_with(arrival, Narrowed::by(Some(narrowing)));
    next(Hook::Postrouting, next(Hook::Forward, branches))
}
