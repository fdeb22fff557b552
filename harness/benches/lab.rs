//! Measures how fast labs are built, used and torn down, compared with the same namespaces created by iproute2.
//!
//! `ci/bench` prints the figures as a table with the targets.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use divan::Bencher;
use divan::counter::ItemsCount;
use svclab::observation::{Observation, ObservedOutcome};
use svclab::scenario::{self, Flows, Probe, Scenario, Step};
use svclab::testing::{self, Lab, become_privileged};
use svclab::{Backend, documents};

/// Flows of one count.
const FLOWS: u64 = 1_000_000;

fn main() {
    // Must come first: only a single-threaded process can create a user namespace.
    if let Err(error) = become_privileged() {
        panic!("{error}");
    }
    divan::main();
    print_memory();
}

/// Prints the peak memory use of the process: `VmHWM: 123456 kB`.
#[expect(clippy::print_stdout, reason = "it is a figure beside those that divan prints")]
fn print_memory() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().filter(|line| line.starts_with("VmHWM")).for_each(|line| println!("{line}"));
}

/// Three nodes and twelve pods with rules in both families: from the plan to the end, with one probe.
#[divan::bench(sample_count = 30, sample_size = 1)]
fn life_of_12_pods(bencher: Bencher<'_, '_>) {
    let scenario = scenario(3, 12, 4);
    bencher.bench_local(|| live(&scenario));
}

/// The same with 20 services of five endpoints.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn life_of_100_pods(bencher: Bencher<'_, '_>) {
    let scenario = scenario(3, 100, 20);
    bencher.bench_local(|| live(&scenario));
}

/// Ten nodes, 200 services of five endpoints.
#[divan::bench(sample_count = 3, sample_size = 1)]
fn life_of_1000_pods(bencher: Bencher<'_, '_>) {
    let scenario = scenario(10, 1_000, 200);
    bencher.bench_local(|| live(&scenario));
}

/// One flow through a service, followed packet by packet, and its answer.
#[divan::bench(sample_count = 200, sample_size = 1)]
fn followed_flow(bencher: Bencher<'_, '_>) {
    in_a_lab(bencher, &scenario(3, 12, 4), 1, follow);
}

/// Many flows through a service with three endpoints on three nodes, counted.
#[divan::bench(sample_count = 3, sample_size = 1)]
fn counted_flows(bencher: Bencher<'_, '_>) {
    in_a_lab(bencher, &scenario(3, 12, 4), FLOWS, count);
}

/// The same flows through the same rules, sent by as many threads but not counted: the time of the kernel alone.
#[divan::bench(sample_count = 3, sample_size = 1)]
fn uncounted_flows(bencher: Bencher<'_, '_>) {
    in_a_lab(bencher, &scenario(3, 12, 4), FLOWS, send);
}

/// The implementations of rules.
const RULES: [&str; 3] = ["iptables-nft", "iptables-legacy", "nftables"];

/// Many flows through a service with 1,000 endpoints on ten nodes, counted. In iptables mode a flow evaluates 500 random rules.
#[divan::bench(sample_count = 1, sample_size = 1, args = RULES)]
fn counted_flows_1000_endpoints(bencher: Bencher<'_, '_>, rules: &str) {
    in_a_lab_with(rules, bencher, &scenario_in(rules, 10, 1_000, 1), FLOWS, count);
}

/// The same flows, not counted.
#[divan::bench(sample_count = 1, sample_size = 1, args = RULES)]
fn uncounted_flows_1000_endpoints(bencher: Bencher<'_, '_>, rules: &str) {
    in_a_lab_with(rules, bencher, &scenario_in(rules, 10, 1_000, 1), FLOWS, send);
}

/// The time of `ip` for the namespaces, links, addresses and routes of twelve pods on three nodes, without rules and probes.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn iproute2_12_pods(bencher: Bencher<'_, '_>) {
    let script = iproute2(3, 12);
    bencher.bench_local(|| {
        let status = Command::new("unshare").args(["--mount", "--net", "sh", "-ec", &script]).status();
        assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success), "{status:?}");
    });
}

/// Builds a scenario's lab, sends its probe, and tears it down.
fn live(scenario: &Scenario) {
    let documents = documents::generate(scenario, &scenario.cluster).unwrap_or_else(|error| panic!("{error}"));
    let lived = testing::in_lab(scenario, &documents, Backend::System, |lab| follow(lab, probe(scenario)));
    lived.unwrap_or_else(|error| panic!("{error}"));
}

fn follow(lab: &mut Lab<'_>, probe: &Probe) {
    match lab.send(probe, 1) {
        Ok(Observation::Flow(flow)) => assert!(matches!(flow.outcome, ObservedOutcome::Delivered(_)), "{flow:?}"),
        other => panic!("{other:?}"),
    }
}

fn count(lab: &mut Lab<'_>, probe: &Probe) {
    let counted = Probe { flows: Flows::Exactly(FLOWS), ..probe.clone() };
    match lab.send(&counted, FLOWS) {
        Ok(Observation::Tally(tally)) => assert_eq!(tally.delivered.values().sum::<u64>(), FLOWS, "{tally:?}"),
        other => panic!("{other:?}"),
    }
}

fn send(lab: &mut Lab<'_>, probe: &Probe) {
    lab.send_uncounted(probe, FLOWS).unwrap_or_else(|error| panic!("{error}"));
}

/// [`in_a_lab_with`] the system's implementation of iptables.
fn in_a_lab(
    bencher: Bencher<'_, '_>,
    scenario: &Scenario,
    items: u64,
    work: impl Fn(&mut Lab<'_>, &Probe) + Send + Sync,
) {
    in_a_lab_with("", bencher, scenario, items, work);
}

/// Measures work in a scenario's lab, which runs in its own thread and works on request.
fn in_a_lab_with(
    rules: &str,
    bencher: Bencher<'_, '_>,
    scenario: &Scenario,
    items: u64,
    work: impl Fn(&mut Lab<'_>, &Probe) + Send + Sync,
) {
    let backend = match rules {
        "iptables-nft" => Backend::Nft,
        "iptables-legacy" => Backend::Legacy,
        _ => Backend::System,
    };
    let documents = documents::generate(scenario, &scenario.cluster).unwrap_or_else(|error| panic!("{error}"));
    thread::scope(|scope| {
        let (ask, asked) = mpsc::channel::<()>();
        let (stop, stopped) = mpsc::channel::<()>();
        scope.spawn(move || {
            let used = testing::in_lab(scenario, &documents, backend, |lab| {
                for () in asked {
                    work(lab, probe(scenario));
                    stop.send(()).unwrap_or_else(|error| panic!("{error}"));
                }
            });
            used.unwrap_or_else(|error| panic!("{error}"));
        });
        bencher.counter(ItemsCount::new(items)).bench_local(|| {
            ask.send(()).unwrap_or_else(|error| panic!("{error}"));
            stopped.recv().unwrap_or_else(|error| panic!("the lab ended: {error}"));
        });
        drop(ask);
    });
}

fn probe(scenario: &Scenario) -> &Probe {
    match scenario.tests.first().and_then(|test| test.steps.first()) {
        Some(Step::Probe(probe, _)) => probe,
        other => panic!("the scenario begins with a probe, not with {other:?}"),
    }
}

/// A dual-stack cluster whose pods serve services in equal parts; its probe goes from the first pod to the first service.
fn scenario(nodes: usize, pods: usize, services: usize) -> Scenario {
    scenario_in("iptables", nodes, pods, services)
}

/// The same, with nftables or iptables rules.
fn scenario_in(rules: &str, nodes: usize, pods: usize, services: usize) -> Scenario {
    let replicas = pods / services;
    let mode = if rules == "nftables" { "nftables" } else { "iptables" };
    let mut text = format!(
        "name: a benchmark\ncluster: {{podCIDR: [10.244.0.0/16, 'fd00:10:244::/56'], proxy: {{mode: {mode}}}}}\nnodes:\n"
    );
    // Writing into a string cannot fail.
    for node in 1..=nodes {
        let _ = writeln!(
            text,
            "- {{name: node{node}, ip: [172.18.0.{node}, 'fd00:18::{node}'], \
             podCIDR: [10.244.{node}.0/24, 'fd00:10:244:{node}::/64']}}"
        );
    }
    text.push_str("pods:\n");
    for service in 1..=services {
        let _ = writeln!(text, "- {{name: app{service}, replicas: {replicas}}}");
    }
    text.push_str("services:\n");
    for service in 1..=services {
        let _ = writeln!(
            text,
            "- {{name: app{service}, ipFamilyPolicy: RequireDualStack, ports: [{{port: 80, protocol: UDP}}]}}"
        );
    }
    text.push_str("endpoints:\n");
    for service in 1..=services {
        let names: Vec<String> = (1..=replicas).map(|replica| format!("app{service}-{replica}")).collect();
        let _ = writeln!(text, "- {{service: app{service}, pods: [{}]}}", names.join(", "));
    }
    text.push_str("tests:\n- {name: one, probe: {from: pod/app1-1, to: 'service/app1:80', protocol: UDP}, expect: {reply: from-vip}}\n");
    scenario::parse(&text, Path::new("bench.yaml"), &|_| Err(io::ErrorKind::NotFound.into()))
        .unwrap_or_else(|errors| panic!("{errors}"))
}

/// A shell script for the namespaces of such a cluster, in mount and network namespaces that end with the shell.
fn iproute2(nodes: usize, pods: usize) -> String {
    let mut script = String::from("mount -t tmpfs none /run\nip link add br0 type bridge\nip link set br0 up\n");
    for node in 1..=nodes {
        let _ = write!(
            script,
            "ip netns add node{node}
             ip link add port{node} type veth peer name eth0 netns node{node}
             ip link set port{node} master br0 up
             ip -n node{node} link set eth0 up
             ip -n node{node} address add 172.18.0.{node}/24 dev eth0\n"
        );
    }
    for pod in 1..=pods {
        let node = (pod - 1) % nodes + 1;
        let address = format!("10.244.{node}.{}", pod + 1);
        let _ = write!(
            script,
            "ip netns add pod{pod}
             ip -n node{node} link add veth{pod} type veth peer name eth0 netns pod{pod}
             ip -n node{node} link set veth{pod} up
             ip -n pod{pod} link set eth0 up
             ip -n pod{pod} address add {address}/32 dev eth0
             ip -n node{node} route add {address} dev veth{pod}\n"
        );
    }
    script
}
