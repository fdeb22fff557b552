//! Walks of packets through the tables of kube-proxy's nftables mode, recorded and generated, compared with the promises of the Service
//! API.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use rstest::rstest;
use svclab_rules::cluster::{Cluster, DetectLocal, Family, Node, ObjectName, Pod, ProxyMode};
use svclab_rules::nftables::evaluate::Program;
use svclab_rules::nftables::{Ruleset, generate, parse};
use svclab_rules::promise::{
    PromisedOutcome as Promised, Promises, Question, Rejection, Source, VantagePoint, questions,
};
use svclab_rules::walk::{
    Assumptions, Branch, Effect, Environment, Hook, HookVerdict, Interface, Packet, RejectResponse, Share, Tracking,
    Transport,
};

use crate::each_file::each_file;

/// The first node of a recording: its tables and clients.
struct Walked {
    cluster: Cluster,
    programs: [Program; 2],
    environment: Environment,
}

/// The fate of a packet on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// An endpoint gets it, with the node as its source or not.
    Endpoint(SocketAddr, bool),
    /// It continues to its original destination.
    Untouched,
    Rejected,
    Dropped,
}

impl Walked {
    fn new(mut cluster: Cluster, rules: impl Fn(&Cluster) -> Ruleset) -> Self {
        cluster.proxy.mode = ProxyMode::Nftables;
        let rules = rules(&cluster);
        let programs = Family::ALL.map(|family| Program::compile(&rules, family).unwrap());
        let node = cluster.nodes[0].clone();
        let mut environment = Environment::default();
        for (addresses, name) in [(&node.internal_ips, "eth0"), (&node.external_ips, "eth1")] {
            let interface = Interface::new(name).unwrap();
            addresses.iter().for_each(|address| environment.addresses.assign(*address, interface));
        }
        let own = Family::ALL.into_iter().filter(|family| node.internal_ip(*family).is_some());
        cluster.pods.push(Pod {
            name: client(),
            node: node.name.clone(),
            ips: own.map(pod).collect(),
            host_network: false,
            labels: BTreeMap::new(),
            ports: Vec::new(),
        });
        Self { cluster, programs, environment }
    }

    fn recorded(file: &Path) -> Self {
        let rules = parse(&std::fs::read_to_string(file).unwrap()).unwrap().rules;
        let cluster = crate::golden_support::load(&file.parent().unwrap().with_file_name("cluster.yaml"), "1.30");
        Self::new(cluster, |_| rules.clone())
    }

    fn generated(file: &Path, version: &str) -> Self {
        let cluster = crate::golden_support::load(&file.parent().unwrap().with_file_name("cluster.yaml"), version);
        Self::new(cluster, |cluster| {
            let tables = Family::ALL.into_iter().filter_map(|family| generate(cluster, &cluster.nodes[0], family).ok());
            Ruleset { tables: tables.flat_map(|rules| rules.tables).collect() }
        })
    }

    fn node(&self) -> &Node {
        &self.cluster.nodes[0]
    }

    /// Returns the packet of a question, and the first hook that it traverses on the node.
    fn packet(&self, question: &Question) -> (Hook, Packet) {
        let family = Family::of(question.to.ip());
        let transport = Transport::opening(question.protocol, 40_000, question.to.port());
        let from = |source: IpAddr| Packet::new(source, question.to.ip(), transport);
        let eth0 = Interface::new("eth0");
        match &question.from {
            VantagePoint::Pod(_) => {
                let input = match &self.cluster.proxy.detect_local {
                    DetectLocal::BridgeInterface(name) => Interface::new(name),
                    DetectLocal::InterfaceNamePrefix(start) => Interface::new(&format!("{start}1")),
                    _ => Interface::new("veth1"),
                };
                (Hook::Prerouting, Packet { input, ..from(pod(family)) })
            }
            VantagePoint::Outside(address) => (Hook::Prerouting, Packet { input: eth0, ..from(*address) }),
            VantagePoint::Node(_) | VantagePoint::Localhost(_) => {
                (Hook::Output, Packet { output: eth0, ..from(self.node().internal_ip(family).unwrap()) })
            }
        }
    }

    /// Returns all fates of a packet.
    fn fates(&self, hook: Hook, packet: &Packet) -> Vec<(Share, Fate)> {
        let branches = self.walk(hook, packet, Tracking::first(packet));
        branches.iter().flat_map(|branch| self.after(hook, packet, branch)).collect()
    }

    fn walk(&self, hook: Hook, packet: &Packet, tracking: Tracking) -> Vec<Branch> {
        self.programs[packet.family() as usize].walk(&self.environment, hook, packet, tracking)
    }

    fn after(&self, hook: Hook, sent: &Packet, branch: &Branch) -> Vec<(Share, Fate)> {
        assert_eq!(branch.assumptions, Assumptions::NONE);
        if branch.outcome != HookVerdict::Accept {
            return vec![(branch.share, fate(sent, branch))];
        }
        let local = self.environment.addresses.is_local(branch.packet.destination);
        let next = match hook {
            Hook::Prerouting if local => Some(Hook::Input),
            Hook::Prerouting => Some(Hook::Forward),
            Hook::Forward | Hook::Output => Some(Hook::Postrouting),
            // Packets of a machine to itself re-enter through `lo`.
            Hook::Postrouting if local => Some(Hook::Prerouting),
            Hook::Input | Hook::Postrouting => None,
        };
        let Some(next) = next else { return vec![(branch.share, fate(sent, branch))] };
        let (input, output) = match next {
            Hook::Prerouting => (Some(Interface::LOOPBACK), None),
            Hook::Input => (branch.packet.input, None),
            _ => (branch.packet.input, Interface::new("veth9")),
        };
        let branches = self.walk(next, &Packet { input, output, ..branch.packet }, branch.tracking);
        let ends = branches.iter().flat_map(|end| self.after(next, sent, end));
        ends.map(|(share, fate)| (share.within(branch.share), fate)).collect()
    }
}

fn fate(sent: &Packet, branch: &Branch) -> Fate {
    match &branch.outcome {
        HookVerdict::Accept => {
            let (now, before) = (branch.packet.tuple(), sent.tuple());
            let address = SocketAddr::new(now.destination, now.destination_port);
            let changed = address != SocketAddr::new(before.destination, before.destination_port);
            if changed { Fate::Endpoint(address, branch.source_nat.is_some()) } else { Fate::Untouched }
        }
        HookVerdict::Reject(_, rejection) => {
            assert_eq!(*rejection, RejectResponse::PortUnreachable);
            Fate::Rejected
        }
        HookVerdict::Drop(_) => Fate::Dropped,
        HookVerdict::Unknown(unknown) => panic!("{}", unknown.why),
    }
}

fn client() -> ObjectName {
    ObjectName::new("default", "a-client-that-is-no-endpoint")
}

fn pod(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => [10, 244, 1, 77].into(),
        Family::Ipv6 => [0xfd00, 0x10, 0x244, 1, 0, 0, 0, 0x77].into(),
    }
}

/// Returns the addresses of machines outside the cluster.
fn outside() -> [IpAddr; 2] {
    [[198, 51, 100, 7].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, 7].into()]
}

/// Returns whether the fates match the promise. `None` if nothing is promised, or the release has a known bug.
fn is_kept(walked: &Walked, promises: &Promises<'_>, question: &Question, fates: &[(Share, Fate)]) -> Option<bool> {
    let promise = promises.about(question);
    let is_process = matches!(question.from, VantagePoint::Node(_));
    let sum = fates.iter().fold(Share::ZERO, |sum, (share, _)| sum.plus(*share));
    assert_eq!(sum, Share::ONE);
    if promise.known_bug.is_some() {
        return None;
    }
    let all = |wanted: &[Fate]| fates.iter().all(|(_, fate)| wanted.contains(fate));
    Some(match &promise.outcome {
        Promised::Delivered { endpoints, .. } => {
            let to = |address: SocketAddr| {
                fates.iter().filter(move |(_, fate)| matches!(fate, Fate::Endpoint(to, _) if *to == address))
            };
            let total: usize = endpoints.iter().map(|endpoint| to(endpoint.address).count()).sum();
            total == fates.len()
                && endpoints.iter().all(|endpoint| {
                    let share = to(endpoint.address).fold(Share::ZERO, |sum, (share, _)| sum.plus(*share));
                    let is_here = walked.environment.addresses.is_local(endpoint.address.ip());
                    let masquerades = matches!(endpoint.source, Source::Node(_));
                    let is_seen =
                        |fate: &Fate| matches!(fate, Fate::Endpoint(_, masqueraded) if *masqueraded == masquerades);
                    share == Share::of(1, endpoint.share.one_in as u32)
                        && (is_process || is_here || to(endpoint.address).all(|(_, fate)| is_seen(fate)))
                })
        }
        Promised::Rejected(Rejection::PortUnreachable) => all(&[Fate::Rejected]),
        Promised::Dropped => all(&[Fate::Dropped]),
        Promised::Fails => all(&[Fate::Rejected, Fate::Dropped]),
        Promised::Rejected(Rejection::NoListener) | Promised::NotAService(_) => all(&[Fate::Untouched]),
        Promised::NotPromised => return None,
        other => panic!("{other:?} is not known here"),
    })
}

/// Checks all questions of a pod, the node and an outside machine at the node.
fn assert_kept(walked: &Walked) {
    if generate(&walked.cluster, walked.node(), Family::Ipv4).is_err() {
        // A real kube-proxy fails to write this table too.
        assert!(walked.programs[Family::Ipv4 as usize].is_empty());
        return;
    }
    let node = walked.node().name.clone();
    let mut vantages = vec![VantagePoint::Pod(client()), VantagePoint::Node(node.clone())];
    vantages.extend(outside().map(VantagePoint::Outside));
    let promises = Promises::of(&walked.cluster).unwrap();
    let asked = questions(&walked.cluster, &vantages).unwrap();
    let mut kept = 0;
    for question in &asked {
        let is_own = walked.node().addresses().any(|address| address == question.to.ip());
        let treats = promises.about(question).node.map_or(is_own, |treating| treating == node);
        let arrives =
            !matches!(question.from, VantagePoint::Outside(_)) || is_own || question.via.as_ref() == Some(&node);
        let has_family = walked.node().internal_ip(Family::of(question.to.ip())).is_some();
        if !treats || !arrives || !has_family {
            continue;
        }
        let (hook, packet) = walked.packet(question);
        let fates = walked.fates(hook, &packet);
        match is_kept(walked, &promises, question, &fates) {
            Some(true) => kept += 1,
            Some(false) => panic!("{question:?}\npromised: {}\nfates: {fates:#?}", promises.about(question).outcome),
            None => {}
        }
    }
    assert!(kept > 0 || asked.is_empty(), "nothing was looked at, of {} questions", asked.len());
}

/// The recorded tables of all clusters.
const TABLES: [&str; 1] = ["tests/golden/*/v1.30-nftables/nft-ruleset.txt"];

#[test]
fn recorded_tables_keep_what_is_promised() {
    each_file(&TABLES, |recording| assert_kept(&Walked::recorded(recording)));
}

#[rstest]
fn generated_tables_keep_what_is_promised(#[values("1.33", "1.37")] version: &str) {
    each_file(&TABLES, |recording| assert_kept(&Walked::generated(recording, version)));
}

#[rstest]
fn a_client_stays_with_its_endpoint(#[values("1.30", "1.37")] version: &str) {
    each_file(&["tests/golden/affinity-*/v1.30-nftables/nft-ruleset.txt"], |recording| {
        assert_client_stays(&mut Walked::generated(recording, version));
    });
}

fn assert_client_stays(walked: &mut Walked) {
    let service = walked.cluster.services.iter().find(|service| service.affinity_seconds.is_some()).unwrap();
    let (seconds, to) = (service.affinity_seconds.unwrap(), service.cluster_ips[0]);
    let transport = Transport::opening(service.ports[0].protocol, 40_000, service.ports[0].port);
    let packet = Packet { input: Interface::new("veth1"), ..Packet::new(pod(Family::Ipv4), to, transport) };
    let first = walked.walk(Hook::Prerouting, &packet, Tracking::first(&packet));
    assert!(first.len() > 1, "a new client has a choice");
    let chosen = first.last().unwrap();
    let [Effect::Add { list, address }] = &chosen.effects[..] else { panic!("{:?}", chosen.effects) };
    walked.environment.recent.add(list, *address, seconds - 1);
    let known = walked.walk(Hook::Prerouting, &packet, Tracking::first(&packet));
    assert_eq!(known.iter().map(|branch| branch.packet).collect::<Vec<_>>(), [chosen.packet]);
    walked.environment.recent.pass(1);
    assert_eq!(walked.walk(Hook::Prerouting, &packet, Tracking::first(&packet)), first);
}
