//! Walks of packets through recorded rules of real kube-proxy: their destinations and shares.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use ipnet::IpNet;
use svclab_rules::cluster::{Cluster, DetectLocal, Family, Node, ObjectName, Pod};
use svclab_rules::iptables::evaluate::Program;
use svclab_rules::iptables::parse;
use svclab_rules::promise::{self, KnownBug, Promise, Promises, Question, Rejection, Source, VantagePoint, questions};
use svclab_rules::walk::{
    Assumptions, Branch, Effect, Environment, Hook, HookVerdict, Interface, Packet, Share, Tracking, Transport,
};

use crate::each_file::each_file;
use crate::golden_support::recordings;

/// Tolerance for even shares. kube-proxy writes each probability with ten digits, and the kernel rounds that to 31 bits, so the error is at
/// most 2^-32 + 10^-10 / 2. In a cascade of n rules, the errors of an endpoint sum up to (n + 1 + 1/2 + ... + 1/n) / n of that: less than
/// twice.
const UNEVEN: f64 = 2.0 * (1.0 / 4_294_967_296.0 + 0.5e-10);

/// A recording: its compiled rules and its cluster, with an additional client pod on the node.
struct Recording {
    program: Program,
    cluster: Cluster,
    environment: Environment,
}

/// The fate of a packet on a node.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    /// An endpoint gets it, with the node as its source or not.
    Endpoint(SocketAddr, bool),
    /// It continues to its original destination.
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
        let version = recordings::version(release.trim_start_matches('v').trim_end_matches("-iptables"));
        let mut cluster = crate::golden_support::load(&folder.with_file_name("cluster.yaml"), version);
        cluster.pods.push(client_pod(&cluster.nodes[0].name));
        let mut environment = Environment::default();
        let node = &cluster.nodes[0];
        for (addresses, name) in [(&node.internal_ips, "eth0"), (&node.external_ips, "eth1")] {
            let interface = Interface::new(name).unwrap();
            addresses.iter().for_each(|address| environment.addresses.assign(*address, interface));
        }
        Self { program: Program::compile(&rules).unwrap(), cluster, environment }
    }

    fn node(&self) -> &Node {
        &self.cluster.nodes[0]
    }

    fn family(&self) -> Family {
        self.program.family()
    }

    /// Returns every question of some vantage points whose packets reach the node.
    fn questions(&self, from: &[VantagePoint]) -> Vec<Question> {
        let mut all = questions(&self.cluster, from).unwrap();
        let others = &self.cluster.nodes[1..];
        all.retain(|question| {
            let passes_by = matches!(question.from, VantagePoint::Outside(_))
                && match &question.via {
                    Some(node) => *node != self.node().name,
                    None => others.iter().any(|node| node.addresses().any(|address| address == question.to.ip())),
                };
            Family::of(question.to.ip()) == self.family() && !passes_by
        });
        all
    }

    /// Returns the first packet of a connection, as it reaches the node.
    fn packet(&self, question: &Question) -> Packet {
        let of_pods = match &self.cluster.proxy.detect_local {
            DetectLocal::BridgeInterface(name) => name.clone(),
            DetectLocal::InterfaceNamePrefix(start) => format!("{start}1"),
            DetectLocal::ClusterCidr | DetectLocal::NodeCidr => "veth1".to_owned(),
        };
        let (from, by) = match &question.from {
            VantagePoint::Outside(address) => (*address, "eth0".to_owned()),
            _ => (pod(self.family()), of_pods),
        };
        let transport = Transport::opening(question.protocol, 40_000, question.to.port());
        Packet { input: Interface::new(&by), ..Packet::new(from, question.to.ip(), transport) }
    }

    /// Returns all fates of the first packet of a connection.
    fn fates(&self, question: &Question) -> Vec<(Share, Fate)> {
        let packet = self.packet(question);
        let branches = self.program.walk(&self.environment, Hook::Prerouting, &packet, Tracking::first(&packet));
        branches.iter().flat_map(|branch| self.behind_prerouting(&packet, branch)).collect()
    }

    /// Compares the fates of a connection with the promise. Returns false if there is no definite promise, or the release has a known bug.
    fn keeps(&self, promise: &Promise, question: &Question) -> bool {
        let what = format!("{question:?}: {promise:?}");
        let fates = self.fates(question);
        let whole = |fate: Fate| assert_eq!(fates, [(Share::ONE, fate)], "{what}");
        let treated = promise.node.as_ref().is_some_and(|node| *node == self.node().name);
        match (&promise.outcome, promise.known_bug) {
            // It continues to another node.
            _ if promise.node.is_some() && !treated => whole(Fate::Untouched),
            (promise::PromisedOutcome::Dropped, Some(KnownBug::DropIsForwarded)) => whole(Fate::Untouched),
            (promise::PromisedOutcome::NotPromised, _) | (_, Some(_)) => return false,
            (promise::PromisedOutcome::Delivered { endpoints, .. }, None) => {
                let addresses: Vec<SocketAddr> = endpoints.iter().map(|endpoint| endpoint.address).collect();
                assert_even(&fates, &addresses, &what);
                for endpoint in endpoints {
                    let masqueraded = is_masqueraded(&fates, endpoint.address);
                    match endpoint.source {
                        Source::Preserved => assert!(!masqueraded, "{what}: {}", endpoint.address),
                        Source::Node(_) => assert!(masqueraded, "{what}: {}", endpoint.address),
                        Source::PreservedOrNode(_) => {}
                    }
                }
            }
            (promise::PromisedOutcome::Rejected(Rejection::PortUnreachable), None) => whole(Fate::Rejected),
            (promise::PromisedOutcome::Dropped, None) => whole(Fate::Dropped),
            (promise::PromisedOutcome::Fails, None) => {
                assert!(matches!(fates[..], [(Share::ONE, Fate::Rejected | Fate::Dropped)]), "{what}: {fates:?}");
            }
            (
                promise::PromisedOutcome::Rejected(Rejection::NoListener) | promise::PromisedOutcome::NotAService(_),
                None,
            ) => {
                whole(Fate::Untouched);
            }
            (other, None) => panic!("{other:?} is not known here"),
        }
        true
    }

    fn behind_prerouting(&self, sent: &Packet, branch: &Branch) -> Vec<(Share, Fate)> {
        assert_eq!(branch.assumptions, Assumptions::NONE);
        if branch.outcome != HookVerdict::Accept {
            return vec![(branch.share, fate(sent, branch))];
        }
        let local = self.environment.addresses.interface_of(branch.packet.destination).is_some();
        let hook = if local { Hook::Input } else { Hook::Forward };
        let output = Interface::new("veth9").filter(|_| !local);
        let packet = Packet { output, ..branch.packet };
        let mut ends = self.program.walk(&self.environment, hook, &packet, branch.tracking);
        assert_eq!(ends.len(), 1, "{ends:#?}");
        let end = ends.remove(0);
        if end.outcome != HookVerdict::Accept || local {
            return vec![(branch.share, fate(sent, &end))];
        }
        let last = self.program.walk(&self.environment, Hook::Postrouting, &end.packet, end.tracking);
        last.iter().map(|last| (branch.share, fate(sent, last))).collect()
    }
}

/// Returns whether an endpoint gets packets whose source is the node.
fn is_masqueraded(fates: &[(Share, Fate)], endpoint: SocketAddr) -> bool {
    fates.iter().any(|(_, fate)| *fate == Fate::Endpoint(endpoint, true))
}

fn fate(sent: &Packet, branch: &Branch) -> Fate {
    match &branch.outcome {
        HookVerdict::Accept => {
            let destination = branch.packet.tuple();
            let address = SocketAddr::new(destination.destination, destination.destination_port);
            let before = sent.tuple();
            let changed = address != SocketAddr::new(before.destination, before.destination_port);
            if changed { Fate::Endpoint(address, branch.source_nat.is_some()) } else { Fate::Untouched }
        }
        HookVerdict::Reject(..) => Fate::Rejected,
        HookVerdict::Drop(_) => Fate::Dropped,
        HookVerdict::Unknown(unknown) => panic!("{}", unknown.why),
    }
}

/// Asserts that the packets go to exactly these endpoints, each with an even share.
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

/// Returns the address of a machine outside the cluster.
fn outside(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => [198, 51, 100, 7].into(),
        Family::Ipv6 => [0x2001, 0xdb8, 0, 0, 0, 0, 0, 7].into(),
    }
}

/// Returns the client pod, which is not an endpoint of any service.
fn client_pod(node: &str) -> Pod {
    let ips = Family::ALL.map(pod).to_vec();
    Pod { name: client_name(), node: node.to_owned(), ips, host_network: false, labels: [].into(), ports: Vec::new() }
}

fn client_name() -> ObjectName {
    ObjectName { namespace: "svclab".to_owned(), name: "client".to_owned() }
}

/// For all connections from a pod on the node or an outside host, the rules keep the promise.
#[test]
fn promises_are_kept() {
    each_file(&["tests/golden/*/v*-iptables/*save.txt"], assert_promises_are_kept);
}

fn assert_promises_are_kept(recording: &Path) {
    let recording = Recording::read(recording);
    let promises = Promises::of(&recording.cluster).unwrap();
    let vantage_points = [VantagePoint::Pod(client_name()), VantagePoint::Outside(outside(recording.family()))];
    let questions = recording.questions(&vantage_points);
    let mut kept = 0;
    for question in &questions {
        let promise = promises.about(question);
        kept += usize::from(recording.keeps(&promise, question) && promise.service.is_some());
    }
    let served = recording.cluster.services.iter().any(|service| {
        service.skipped().is_none() && service.cluster_ip(recording.family()).is_some() && !service.ports.is_empty()
    });
    assert_eq!(kept > 0, served, "{} questions", questions.len());
    // Packets to an address of no service pass, whatever services exist.
    let to = SocketAddr::new(outside(recording.family()), 9);
    for from in vantage_points {
        let via = Some(recording.node().name.clone());
        let question = Question { from, to, protocol: svclab_rules::cluster::Protocol::Tcp, via };
        assert_eq!(recording.fates(&question), [(Share::ONE, Fate::Untouched)]);
    }
}

#[test]
fn source_ranges_admit_their_own() {
    each_file(
        &["tests/golden/loadbalancer-source-ranges*/v*-iptables/iptables-save.txt"],
        assert_ranges_admit_their_own,
    );
}

fn assert_ranges_admit_their_own(recording: &Path) {
    let recording = Recording::read(recording);
    let promises = Promises::of(&recording.cluster).unwrap();
    let services = recording.cluster.services.iter();
    // Packets from the node's own address are not external traffic.
    let is_outside = |range: &&IpNet| recording.node().addresses().all(|address| address != range.addr());
    let ranges = services.clone().flat_map(|service| &service.source_ranges).filter(|range| range.addr().is_ipv4());
    let ranges = ranges.filter(is_outside);
    let inside: Vec<VantagePoint> = ranges.map(|range| VantagePoint::Outside(range.addr())).collect();
    let balancers: Vec<IpAddr> = services.flat_map(|service| &service.load_balancer).map(|entry| entry.ip).collect();
    let mut admitted = 0;
    for question in recording.questions(&inside).iter().filter(|question| balancers.contains(&question.to.ip())) {
        let promise = promises.about(question);
        let is_delivered = matches!(promise.outcome, promise::PromisedOutcome::Delivered { .. });
        admitted += usize::from(recording.keeps(&promise, question) && is_delivered);
    }
    assert!(admitted > 0, "no service with a load balancer");
}

#[test]
fn a_client_stays_with_its_endpoint() {
    each_file(&["tests/golden/affinity-*/v*-iptables/iptables-save.txt"], assert_client_stays);
}

fn assert_client_stays(recording: &Path) {
    let mut recording = Recording::read(recording);
    let cluster = recording.cluster.clone();
    let promises = Promises::of(&cluster).unwrap();
    let cluster_ips: Vec<IpAddr> = cluster.services.iter().flat_map(|service| service.cluster_ips.clone()).collect();
    let client = VantagePoint::Pod(client_name());
    let mut stayed = 0;
    for question in recording.questions(&[client]).iter().filter(|question| cluster_ips.contains(&question.to.ip())) {
        let promise = promises.about(question);
        let promise::PromisedOutcome::Delivered { affinity_seconds: Some(seconds), endpoints } = &promise.outcome
        else {
            continue;
        };
        let packet = recording.packet(question);
        let first = recording.program.walk(&recording.environment, Hook::Prerouting, &packet, Tracking::first(&packet));
        let chosen = first.last().unwrap();
        let [Effect::Add { list, address }] = &chosen.effects[..] else { panic!("{:?}", chosen.effects) };
        assert_eq!(*address, packet.source);
        recording.environment.recent.add(list, *address, *seconds);
        let to = SocketAddr::new(chosen.packet.destination, chosen.packet.tuple().destination_port);
        assert_even(&recording.fates(question), &[to], "still known");
        recording.environment.recent.pass(1);
        let all: Vec<SocketAddr> = endpoints.iter().map(|endpoint| endpoint.address).collect();
        assert_even(&recording.fates(question), &all, "forgotten");
        recording.environment.recent.remove(list, *address);
        stayed += 1;
    }
    assert!(stayed > 0, "no service with affinity");
}
