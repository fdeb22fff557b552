//! Benchmark of walking packets through the rules of 10,000 services with five endpoints each, in both modes of kube-proxy: one iteration
//! is one flow.
//!
//! `cargo bench -p svclab-rules --bench walk`
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark is not a library")]

mod clusters;

use std::net::IpAddr;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use svclab_rules::cluster::{Family, Protocol};
use svclab_rules::iptables::evaluate::Program;
use svclab_rules::iptables::{RuleSet, generate};
use svclab_rules::nftables;
use svclab_rules::walk::{
    Arrival, Branch, Environment, Hook, HookVerdict, Interface, NoTrace, Packet, Path, Trace, Transport,
};

const SERVICES: u32 = 10_000;

/// The number of flows. They are spread over all services, so that no cache holds what the next flow needs.
const FLOWS: usize = 10_000;

fn main() {
    divan::main();
}

#[divan::bench(sample_count = 10)]
fn compile(bencher: Bencher<'_, '_>) {
    let rules = rules();
    bencher.bench(|| Program::compile(black_box(&rules)).unwrap());
}

/// PREROUTING only, where the endpoint is chosen.
#[divan::bench(sample_count = 50)]
fn choose_endpoint(bencher: Bencher<'_, '_>) {
    let program = Program::compile(&rules()).unwrap();
    prerouting::<NoTrace>(bencher, |environment, packet, branches| {
        program.walk_into(first(environment, packet), NoTrace, branches);
    });
}

/// The same with the rules matched on the path.
#[divan::bench(sample_count = 50)]
fn choose_endpoint_traced(bencher: Bencher<'_, '_>) {
    let program = Program::compile(&rules()).unwrap();
    prerouting::<Path>(bencher, |environment, packet, branches| {
        program.walk_into(first(environment, packet), Path::default(), branches);
    });
}

/// PREROUTING, then FORWARD and POSTROUTING for each of the five endpoints: the whole path of a first packet through a node.
#[divan::bench(sample_count = 50)]
fn cross_node(bencher: Bencher<'_, '_>) {
    let program = Program::compile(&rules()).unwrap();
    let (environment, packets) = flows();
    bencher.counter(ItemsCount::new(FLOWS)).bench_local(|| {
        let mut branches: Vec<Branch> = Vec::new();
        let mut delivered = 0;
        for packet in &packets {
            branches.clear();
            program.walk_into(first(&environment, packet), NoTrace, &mut branches);
            let mut next = 0;
            for hook in [Hook::Forward, Hook::Postrouting] {
                let end = branches.len();
                for position in next..end {
                    let branch = &branches[position];
                    let packet = Packet { output: Interface::new("veth0"), ..branch.packet };
                    let arrival = Arrival { tracking: branch.tracking, ..Arrival::first(&environment, hook, &packet) };
                    program.walk_into(arrival, NoTrace, &mut branches);
                }
                next = end;
            }
            delivered += branches[next..].iter().filter(|branch| branch.outcome == HookVerdict::Accept).count();
        }
        assert_eq!(delivered, FLOWS * clusters::ENDPOINTS as usize);
    });
}

/// The tables of nftables mode: of 1.30, with chains for endpoints, or of 1.37, with destinations in a map.
#[divan::bench(sample_count = 50, args = ["1.30", "1.37"])]
fn choose_endpoint_of_nftables(bencher: Bencher<'_, '_>, version: &str) {
    let mut cluster = clusters::cluster(SERVICES);
    cluster.proxy.version = version.to_owned();
    let rules = nftables::generate(&cluster, &cluster.nodes[0], Family::Ipv4).unwrap();
    let program = nftables::evaluate::Program::compile(&rules, Family::Ipv4).unwrap();
    prerouting::<NoTrace>(bencher, |environment, packet, branches| {
        program.walk_into(first(environment, packet), NoTrace, branches);
    });
}

/// The first packet of a connection, at PREROUTING.
fn first<'a>(environment: &'a Environment, packet: &'a Packet) -> Arrival<'a> {
    Arrival::first(environment, Hook::Prerouting, packet)
}

/// Walks every flow through PREROUTING, with a function for a program of either language.
fn prerouting<T: Trace>(bencher: Bencher<'_, '_>, walk: impl Fn(&Environment, &Packet, &mut Vec<Branch<T>>)) {
    let (environment, packets) = flows();
    bencher.counter(ItemsCount::new(FLOWS)).bench_local(|| {
        let mut branches: Vec<Branch<T>> = Vec::new();
        let mut endpoints = 0;
        for packet in &packets {
            branches.clear();
            walk(&environment, packet, &mut branches);
            endpoints += black_box(&branches).iter().filter(|branch| is_translated(branch)).count();
        }
        assert_eq!(endpoints, FLOWS * clusters::ENDPOINTS as usize);
    });
}

/// Returns whether a packet is translated to the port of the endpoints.
fn is_translated<T>(branch: &Branch<T>) -> bool {
    branch.outcome == HookVerdict::Accept && branch.packet.transport.ports().is_some_and(|(_, port)| port == 8080)
}

fn rules() -> RuleSet {
    let cluster = clusters::cluster(SERVICES);
    generate(&cluster, &cluster.nodes[0], Family::Ipv4).unwrap()
}

fn flows() -> (Environment, Vec<Packet>) {
    let mut environment = Environment::default();
    environment.addresses.assign_in("172.18.0.2/16".parse().unwrap(), Interface::new("eth0").unwrap());
    let client: IpAddr = "10.0.0.3".parse().unwrap();
    let flow = |number: usize| {
        // A step coprime to the number of services visits them all, far from each other.
        let service = (number * 7_919 % SERVICES as usize) as u32;
        let transport = Transport::opening(Protocol::Tcp, 40_000, 80);
        let packet = Packet::new(client, clusters::cluster_ip(service), transport);
        Packet { input: Interface::new("veth1"), ..packet }
    };
    (environment, (0..FLOWS).map(flow).collect())
}
