//! Benchmark of exact shares for the rules of a service with 10,000 endpoints.
//!
//! `cargo bench -p svclab-rules --bench cascade`
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark is not a library")]

use std::net::Ipv4Addr;

use divan::{Bencher, black_box};
use svclab_rules::cascade::cascades;
use svclab_rules::cluster::Family;
use svclab_rules::iptables::parse;

const ENDPOINTS: u32 = 10_000;

fn main() {
    divan::main();
}

/// Shares and defects of parsed rules.
#[divan::bench(sample_count = 20)]
fn shares(bencher: Bencher<'_, '_>) {
    let rules = parse(&text(), Family::Ipv4).unwrap().rules;
    bencher.bench(|| cascades(black_box(&rules)));
}

/// The same from the output of iptables-save.
#[divan::bench(sample_count = 20)]
fn read_and_share(bencher: Bencher<'_, '_>) {
    let text = text();
    bencher.bench(|| cascades(&parse(black_box(&text), Family::Ipv4).unwrap().rules));
}

fn text() -> String {
    let mut text = String::from("*nat\n:KUBE-SVC-FOO - [0:0]\n");
    for number in 0..ENDPOINTS {
        text += &format!(":KUBE-SEP-{number} - [0:0]\n");
    }
    for number in 0..ENDPOINTS {
        let probability = match ENDPOINTS - number {
            1 => String::new(),
            left => format!("-m statistic --mode random --probability {:.10} ", 1.0 / f64::from(left)),
        };
        text += &format!("-A KUBE-SVC-FOO -m comment --comment \"default/foo\" {probability}-j KUBE-SEP-{number}\n");
    }
    for number in 0..ENDPOINTS {
        let address = Ipv4Addr::from_bits(0x0a00_0000 + number);
        text += &format!("-A KUBE-SEP-{number} -p tcp -m tcp -j DNAT --to-destination {address}:80\n");
    }
    text + "COMMIT\n"
}
