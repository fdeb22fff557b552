//! Packets through recorded rules of real kube-proxy: where they go, and with which share.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use rstest::rstest;
use svclab_rules::cluster::{Cluster, Family, Node, ServiceType};
use svclab_rules::iptables::evaluate::Program;
use svclab_rules::iptables::parse;
use svclab_rules::profile::Profile;
use svclab_rules::selection::{ServicePortView, service_ports};
use svclab_rules::walk::{
    Assumptions, Branch, Effect, Environment, Hook, Interface, Outcome, Packet, Share, Tracking, Transport,
};

#[expect(dead_code, reason = "shared with the tests that compare text")]
mod golden_support;

/// By how much a share may differ from an even one. kube-proxy writes each probability with ten digits, and the kernel
/// rounds that to 31 bits, so that one is wrong by 2^-32 + 10^-10 / 2 at most. The errors of a cascade of n rules sum up
/// to (n + 1 + 1/2 + ... + 1/n) / n of that for an endpoint: less than twice.
const UNEVEN: f64 = 2.0 * (1.0 / 4_294_967_296.0 + 0.5e-10);

/// A recording: its rules ready for walking, and what they were made of.
struct Recording {
    program: Program,
    cluster: Cluster,
    profile: Profile,
    environment: Environment,
}

/// What becomes of a packet on a node that it comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    /// An endpoint gets it, with the node as its source or not.
    Endpoint(SocketAddr, bool),
    /// It goes where it was sent to.
    Untouched,
    Rejected,
    Dropped,
}

impl Recording {
    fn read(file: &Path) -> Self {
        let ipv6 = file.file_name().is_some_and(|name| name == "ip6tables-save.txt");
        let family = if ipv6 { Family::Ipv6 } else { Family::Ipv4 };
        let rules = parse(&std::fs::read_to_string(file).unwrap(), family).unwrap().rules;
        let folder = file.parent().unwrap();
        let release = folder.file_name().unwrap().to_str().unwrap();
        let version = release.trim_start_matches('v').trim_end_matches("-iptables");
        let cluster = golden_support::load(&folder.with_file_name("cluster.yaml"), version);
        let mut environment = Environment::default();
        let node = &cluster.nodes[0];
        for (addresses, name) in [(&node.internal_ips, "eth0"), (&node.external_ips, "eth1")] {
            let interface = Interface::new(name).unwrap();
            addresses.iter().for_each(|address| environment.addresses.assign(*address, interface));
        }
        let profile = version.parse().unwrap();
        Self { program: Program::compile(&rules).unwrap(), cluster, profile, environment }
    }

    fn node(&self) -> &Node {
        &self.cluster.nodes[0]
    }

    fn family(&self) -> Family {
        self.program.family()
    }

    fn service_ports(&self) -> Vec<ServicePortView<'_>> {
        service_ports(&self.cluster, self.node(), self.family(), self.profile)
    }

    /// All that can become of the first packet of a connection that comes in by an interface.
    fn fates(&self, from: IpAddr, by: &str, to: IpAddr, view: &ServicePortView<'_>, port: u16) -> Vec<(Share, Fate)> {
        let transport = Transport::opening(view.port.protocol, 40_000, port);
        let packet = Packet { input: Interface::new(by), ..Packet::new(from, to, transport) };
        let branches = self.program.walk(&self.environment, Hook::Prerouting, &packet, Tracking::first(&packet));
        branches.iter().flat_map(|branch| self.behind_prerouting(&packet, branch)).collect()
    }

    fn behind_prerouting(&self, sent: &Packet, branch: &Branch) -> Vec<(Share, Fate)> {
        assert_eq!(branch.assumptions, Assumptions::NONE);
        if branch.outcome != Outcome::Accept {
            return vec![(branch.share, fate(sent, branch))];
        }
        let local = self.environment.addresses.interface_of(branch.packet.destination).is_some();
        let hook = if local { Hook::Input } else { Hook::Forward };
        let output = Interface::new("veth9").filter(|_| !local);
        let packet = Packet { output, ..branch.packet };
        let mut ends = self.program.walk(&self.environment, hook, &packet, branch.tracking);
        assert_eq!(ends.len(), 1, "{ends:#?}");
        let end = ends.remove(0);
        if end.outcome != Outcome::Accept || local {
            return vec![(branch.share, fate(sent, &end))];
        }
        let last = self.program.walk(&self.environment, Hook::Postrouting, &end.packet, end.tracking);
        last.iter().map(|last| (branch.share, fate(sent, last))).collect()
    }

    /// Endpoints as addresses.
    fn endpoints(&self, view: &ServicePortView<'_>, local: bool) -> Vec<SocketAddr> {
        let selected = view.select(&self.cluster, self.node(), self.profile);
        let positions = if local { selected.local } else { selected.cluster };
        positions.into_iter().map(|position| view.endpoints[position].address).collect()
    }
}

fn fate(sent: &Packet, branch: &Branch) -> Fate {
    match &branch.outcome {
        Outcome::Accept => {
            let destination = branch.packet.tuple();
            let address = SocketAddr::new(destination.destination, destination.destination_port);
            let before = sent.tuple();
            let changed = address != SocketAddr::new(before.destination, before.destination_port);
            if changed { Fate::Endpoint(address, branch.source_nat.is_some()) } else { Fate::Untouched }
        }
        Outcome::Reject(..) => Fate::Rejected,
        Outcome::Drop(_) => Fate::Dropped,
        Outcome::Unknown(unknown) => panic!("{}", unknown.why),
    }
}

/// The packets go to these endpoints, each with an even share, and to nothing else.
fn assert_even(fates: &[(Share, Fate)], endpoints: &[SocketAddr], what: &str) {
    let share_of = |endpoint: &SocketAddr| {
        let own = fates.iter().filter(|(_, fate)| matches!(fate, Fate::Endpoint(to, _) if to == endpoint));
        own.fold(Share::ZERO, |sum, (share, _)| sum.plus(*share))
    };
    for endpoint in endpoints {
        let share = share_of(endpoint);
        let off = (share.to_f64() - 1.0 / endpoints.len() as f64).abs();
        assert!(off <= UNEVEN, "{what}: {endpoint} gets {share}, which is off by {off:e}");
    }
    let elsewhere = fates.iter().find(|(_, fate)| !matches!(fate, Fate::Endpoint(to, _) if endpoints.contains(to)));
    assert_eq!(elsewhere, None, "{what}");
    let sum = fates.iter().fold(Share::ZERO, |sum, (share, _)| sum.plus(*share));
    assert!((sum.to_f64() - 1.0).abs() <= sum.error().max(f64::EPSILON), "{what}: {sum}");
    assert!(!sum.is_exact() || sum == Share::ONE, "{what}: {sum}");
}

fn pod(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => [10, 244, 1, 77].into(),
        Family::Ipv6 => [0xfd00, 0x10, 0x244, 1, 0, 0, 0, 0x77].into(),
    }
}

/// A machine that is not in the cluster.
fn outside(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => [198, 51, 100, 7].into(),
        Family::Ipv6 => [0x2001, 0xdb8, 0, 0, 0, 0, 0, 7].into(),
    }
}

#[rstest]
fn a_cluster_ip_leads_to_every_endpoint_alike(#[files("tests/golden/*/v*-iptables/*save.txt")] recording: PathBuf) {
    let recording = Recording::read(&recording);
    for view in recording.service_ports() {
        let endpoints = recording.endpoints(&view, view.internal_local);
        let what = view.name(recording.profile);
        let fates = recording.fates(pod(recording.family()), "veth1", view.cluster_ip, &view, view.port.port);
        if !endpoints.is_empty() {
            assert_even(&fates, &endpoints, &what);
            continue;
        }
        let any = view.select(&recording.cluster, recording.node(), recording.profile).any;
        let expected = if any { Fate::Dropped } else { Fate::Rejected };
        // Before 1.25 such packets got a mark that only INPUT and OUTPUT drop: they are forwarded.
        let expected = if any && !recording.profile.drops_local_in_filter() { Fate::Untouched } else { expected };
        assert_eq!(fates, [(Share::ONE, expected)], "{what}");
    }
}

#[rstest]
fn an_unused_port_of_a_cluster_ip_is_nobodys(#[files("tests/golden/*/v*-iptables/*save.txt")] recording: PathBuf) {
    let recording = Recording::read(&recording);
    for view in recording.service_ports() {
        let fates = recording.fates(pod(recording.family()), "veth1", view.cluster_ip, &view, 9);
        assert_eq!(fates, [(Share::ONE, Fate::Untouched)], "{}", view.name(recording.profile));
    }
}

#[rstest]
fn a_node_port_leads_to_endpoints(#[files("tests/golden/*/v*-iptables/*save.txt")] recording: PathBuf) {
    let recording = Recording::read(&recording);
    let family = recording.family();
    let Some(node) =
        recording.node().internal_ip(family).filter(|_| recording.cluster.proxy.node_port_addresses.is_empty())
    else {
        return;
    };
    for view in recording.service_ports() {
        let Some(port) = view.port.node_port else { continue };
        let what = view.name(recording.profile);
        let endpoints = recording.endpoints(&view, view.external_local);
        let fates = recording.fates(outside(family), "eth0", node, &view, port);
        if endpoints.is_empty() {
            let any = view.select(&recording.cluster, recording.node(), recording.profile).any;
            let expected = if any { Fate::Dropped } else { Fate::Rejected };
            assert_eq!(fates, [(Share::ONE, expected)], "{what}");
            continue;
        }
        assert_even(&fates, &endpoints, &what);
        let keeps_source = view.external_local;
        for (_, fate) in fates {
            assert!(matches!(fate, Fate::Endpoint(_, masqueraded) if masqueraded != keeps_source), "{what}: {fate:?}");
        }
    }
}

#[rstest]
fn source_ranges_admit_their_own(
    #[files("tests/golden/loadbalancer-source-ranges*/v*-iptables/iptables-save.txt")] recording: PathBuf,
) {
    let recording = Recording::read(&recording);
    let views = recording.service_ports();
    let balanced = views.iter().filter(|view| view.service.kind == ServiceType::LoadBalancer);
    let mut seen = 0;
    for (view, address) in balanced.flat_map(|view| view.load_balancer_ips.iter().map(move |ip| (view, *ip))) {
        let what = view.name(recording.profile);
        let endpoints = recording.endpoints(view, view.external_local);
        for range in &view.source_ranges {
            assert_even(&recording.fates(range.addr(), "eth0", address, view, view.port.port), &endpoints, &what);
        }
        let refused = recording.fates(outside(Family::Ipv4), "eth0", address, view, view.port.port);
        // Before 1.25 the mark for it was not asked for in FORWARD.
        let expected = if recording.profile.firewall_in_filter() { Fate::Dropped } else { Fate::Untouched };
        assert_eq!(refused, [(Share::ONE, expected)], "{what}");
        seen += 1;
    }
    assert!(seen > 0, "no service with a load balancer");
}

#[rstest]
fn a_client_stays_with_its_endpoint(
    #[files("tests/golden/affinity-*/v*-iptables/iptables-save.txt")] recording: PathBuf,
) {
    let mut recording = Recording::read(&recording);
    let client = pod(Family::Ipv4);
    let cluster = recording.cluster.clone();
    let views = service_ports(&cluster, &cluster.nodes[0], Family::Ipv4, recording.profile);
    let sticky: Vec<_> = views.iter().filter(|view| view.service.affinity_seconds.is_some()).collect();
    assert!(!sticky.is_empty());
    for view in sticky {
        let seconds = view.service.affinity_seconds.unwrap();
        let endpoints = recording.endpoints(view, view.internal_local);
        let transport = Transport::opening(view.port.protocol, 40_000, view.port.port);
        let packet = Packet { input: Interface::new("veth1"), ..Packet::new(client, view.cluster_ip, transport) };
        let first = recording.program.walk(&recording.environment, Hook::Prerouting, &packet, Tracking::first(&packet));
        let chosen = first.last().unwrap();
        let [Effect::Note { list, address }] = &chosen.effects[..] else { panic!("{:?}", chosen.effects) };
        assert_eq!(*address, client);
        recording.environment.recent.note(list, *address, seconds);
        let to = SocketAddr::new(chosen.packet.destination, chosen.packet.tuple().destination_port);
        assert_even(&recording.fates(client, "veth1", view.cluster_ip, view, view.port.port), &[to], "still known");
        recording.environment.recent.pass(1);
        assert_even(&recording.fates(client, "veth1", view.cluster_ip, view, view.port.port), &endpoints, "forgotten");
        recording.environment.recent.forget(list, *address);
    }
}
