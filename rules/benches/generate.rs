//! Benchmark of generating rules from a cluster, printing and parsing them. Cost should grow with the number of services.
//!
//! `cargo bench -p svclab-rules`
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark is not a library")]

mod clusters;

use divan::{Bencher, black_box};
use svclab_rules::cluster::{Family, Protocol};
use svclab_rules::conntrack::cleanup;
use svclab_rules::iptables::{generate, parse, print};

use clusters::cluster;

const SIZES: [u32; 3] = [1_000, 10_000, 50_000];

fn main() {
    divan::main();
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn generate_rules(bencher: Bencher<'_, '_>, services: u32) {
    let cluster = cluster(services);
    bencher.bench(|| generate(black_box(&cluster), &cluster.nodes[0], Family::Ipv4).unwrap());
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn print_rules(bencher: Bencher<'_, '_>, services: u32) {
    let cluster = cluster(services);
    let rules = generate(&cluster, &cluster.nodes[0], Family::Ipv4).unwrap();
    bencher.bench(|| print(black_box(&rules)));
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn generate_and_print(bencher: Bencher<'_, '_>, services: u32) {
    let cluster = cluster(services);
    bencher.bench(|| print(&generate(black_box(&cluster), &cluster.nodes[0], Family::Ipv4).unwrap()));
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn parse_rules(bencher: Bencher<'_, '_>, services: u32) {
    let cluster = cluster(services);
    let text = print(&generate(&cluster, &cluster.nodes[0], Family::Ipv4).unwrap());
    bencher.bench(|| parse(black_box(&text), Family::Ipv4).unwrap());
}

/// The conntrack cleanup when every service of a cluster has lost an endpoint.
#[divan::bench(args = SIZES, sample_count = 10)]
fn clean_up_connections(bencher: Bencher<'_, '_>, services: u32) {
    let mut before = cluster(services);
    before.services.iter_mut().flat_map(|service| &mut service.ports).for_each(|port| port.protocol = Protocol::Udp);
    before.slices.iter_mut().flat_map(|slice| &mut slice.ports).for_each(|port| port.protocol = Protocol::Udp);
    let mut after = before.clone();
    after.slices.iter_mut().for_each(|slice| drop(slice.endpoints.pop()));
    bencher.bench(|| cleanup(black_box(&before), &after, &after.nodes[0]).unwrap());
}
