//! Measures how fast probes are encoded and parsed: a balance probe has millions of them.

use std::net::SocketAddr;

use divan::Bencher;
use divan::counter::ItemsCount;
use wire::{Flow, Frame, Mac, Tag, Template, peek, probe};

#[path = "../src/wire/mod.rs"]
#[expect(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "the library's private frames, compiled once more to be measured alone"
)]
mod wire;

const SOURCE: Mac = Mac([2, 0, 0, 0, 0, 1]);
const DESTINATION: Mac = Mac([2, 0, 0, 0, 0, 2]);
/// The number of frames encoded or parsed in one iteration.
const BATCH: u64 = 1_000;
const CASES: [&str; 6] = ["tcp/ipv4", "udp/ipv4", "sctp/ipv4", "tcp/ipv6", "udp/ipv6", "sctp/ipv6"];

fn main() {
    divan::main();
}

fn flow(case: &str) -> Flow {
    let (source, destination) = match case.ends_with("ipv4") {
        true => ("10.244.1.3:0", "10.96.34.82:80"),
        false => ("[fd00:10:244::3]:0", "[fd00:10:96::1]:80"),
    };
    let parse = |text: &str| text.parse::<SocketAddr>().unwrap_or_else(|err| panic!("{text}: {err}"));
    let (source, destination) = (parse(source), parse(destination));
    match case.split('/').next() {
        Some("tcp") => Flow::tcp(source, destination),
        Some("udp") => Flow::udp(source, destination),
        _ => Flow::sctp(source, destination),
    }
}

fn tag(number: u64) -> Tag {
    Tag::new(number)
}

#[divan::bench(args = CASES)]
fn fill(bencher: Bencher<'_, '_>, case: &str) {
    let flow = flow(case);
    let template =
        Template::frame(SOURCE, DESTINATION, flow.destination, flow.protocol).unwrap_or_else(|err| panic!("{err}"));
    let mut buffer = [0; Template::MAX_LEN];
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        for number in 0..BATCH {
            let source = SocketAddr::new(flow.source.ip(), number as u16);
            divan::black_box(template.fill(source, tag(number), divan::black_box(&mut buffer)));
        }
    });
}

#[divan::bench(args = CASES)]
fn peek_frame(bencher: Bencher<'_, '_>, case: &str) {
    let bytes = encoded(case);
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        for _ in 0..BATCH {
            divan::black_box(peek(divan::black_box(&bytes)));
        }
    });
}

#[divan::bench(args = CASES)]
fn decode(bencher: Bencher<'_, '_>, case: &str) {
    let bytes = encoded(case);
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        for _ in 0..BATCH {
            let _ = divan::black_box(Frame::decode(divan::black_box(&bytes)));
        }
    });
}

fn encoded(case: &str) -> Vec<u8> {
    let frame = Frame { source: SOURCE, destination: DESTINATION, packet: probe(&flow(case), tag(7)) };
    frame.encode().unwrap_or_else(|err| panic!("{err}"))
}
