//! Walks of sets of packets: classes are disjoint, cover everything, and every packet of a class takes the path of its witness.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use rstest::rstest;
use svclab_rules::cluster::{Family, Protocol, ProxyMode};
use svclab_rules::iptables;
use svclab_rules::nftables;
use svclab_rules::ruleset::{Program, Rules, compile};
use svclab_rules::walk::{
    Arrival, Branch, Class, Classes, Environment, Field, Hook, HookVerdict, Interface, Intervals, Narrowed, Narrowing,
    Packet, Region, Tracking, Transport,
};

use crate::each_file::each_file;

#[path = "../../benches/clusters/mod.rs"]
#[allow(dead_code, reason = "the benchmarks need more of it")]
mod clusters;

/// More classes than any rules here produce.
const MAX: usize = 20_000;

/// A machine with rules.
struct Machine {
    program: Program,
    environment: Environment,
    family: Family,
}

/// The fate of a packet in one branch, without what differs between packets of a class.
#[derive(Debug, PartialEq)]
struct Fate {
    what: String,
    /// A digest of the matched rules.
    steps: u64,
}

impl Machine {
    fn of(rules: &Rules, family: Family) -> Self {
        let mut environment = Environment::default();
        let own =
            ["172.18.0.2/16", "10.244.1.1/24", "fd00:18::2/64", "fd00:10:244:1::1/64", "fc00:f853:ccd:e793::2/64"];
        for network in own {
            environment.addresses.assign_in(network.parse().unwrap(), Interface::new("eth0").unwrap());
        }
        Self { program: compile(&[rules], family).unwrap(), environment, family }
    }

    /// Returns the classes of all packets on an input interface.
    fn classes(&self) -> Vec<Class<Vec<Fate>>> {
        let mut classes = Classes::of([Region::all(self.family)], self.like());
        let mut all = Vec::new();
        while let Some(class) = classes.next_by(|witness, narrowing| self.fates(witness, narrowing)) {
            all.push(class);
            assert!(all.len() < MAX, "{}", all.last().unwrap().region);
        }
        all
    }

    fn like(&self) -> Packet {
        let (from, to): (IpAddr, IpAddr) = match self.family {
            Family::Ipv4 => ([10, 244, 1, 9].into(), [10, 96, 0, 10].into()),
            Family::Ipv6 => ("fd00:10:244:1::9".parse().unwrap(), "fd00:10:96::a".parse().unwrap()),
        };
        Packet::new(from, to, Transport::opening(Protocol::Tcp, 40_000, 80))
    }

    /// Returns all fates of a packet: PREROUTING, then INPUT, or FORWARD and POSTROUTING.
    fn fates(&self, packet: &Packet, narrowing: &Narrowing) -> Vec<Fate> {
        let sent = Packet { input: Interface::new("veth1"), ..*packet };
        let tracking = Tracking::unknown(&sent, Some(narrowing));
        let mut fates = Vec::new();
        let arrival = Arrival { tracking, ..Arrival::first(&self.environment, Hook::Prerouting, &sent) };
        for branch in self.program.walk_with(arrival, Narrowed::by(Some(narrowing))) {
            fates.extend(self.after(&sent, branch, narrowing));
        }
        fates
    }

    fn after(&self, sent: &Packet, branch: Branch<Narrowed>, narrowing: &Narrowing) -> Vec<Fate> {
        let first = self.fate(sent, &branch);
        if branch.outcome != HookVerdict::Accept {
            return vec![first];
        }
        let to = branch.packet.destination;
        let own: Intervals = ["172.18.0.2", "10.244.1.1", "127.0.0.1"]
            .iter()
            .map(|address| bits(address.parse().unwrap()))
            .map(|address| (address, address))
            .collect();
        let is_local = narrowing.ask(Field::Destination, bits(to), &own);
        let output = Interface::new("eth0").filter(|_| !is_local);
        let walk = |hook: Hook, packet: Packet, tracking: Tracking| {
            let arrival = Arrival { tracking, ..Arrival::first(&self.environment, hook, &packet) };
            self.program.walk_with(arrival, Narrowed::by(Some(narrowing)))
        };
        let mut fates = Vec::new();
        let hook = if is_local { Hook::Input } else { Hook::Forward };
        for second in walk(hook, Packet { output, ..branch.packet }, branch.tracking) {
            let goes_on = second.outcome == HookVerdict::Accept && !is_local;
            fates.push(self.fate(sent, &second));
            if goes_on {
                let last = walk(Hook::Postrouting, second.packet, second.tracking);
                fates.extend(last.iter().map(|last| self.fate(sent, last)));
            }
        }
        fates.push(first);
        fates
    }

    fn fate(&self, sent: &Packet, branch: &Branch<Narrowed>) -> Fate {
        let kept = |is: bool, other: String| if is { "kept".to_owned() } else { other };
        let (before, after) = (sent.tuple(), branch.packet.tuple());
        let destination = kept(before.destination == after.destination, after.destination.to_string());
        let port = kept(before.destination_port == after.destination_port, after.destination_port.to_string());
        let source = kept(before.source == after.source, after.source.to_string());
        let nat = branch.source_nat.map(|nat| {
            let is_kept = nat.first_port == before.source_port && nat.last_port == nat.first_port;
            // The kernel replaces a port with one of the same class, so a set of packets is not split for that.
            let own = match before.source_port {
                0..=511 => (1, 511),
                512..=1023 => (600, 1023),
                _ => (1024, u16::MAX),
            };
            let is_own = (nat.first_port, nat.last_port) == own;
            let ports = if is_own { "a port of its class".to_owned() } else { kept(is_kept, format!("{nat:?}")) };
            (nat.address.filter(|address| *address != before.source), ports)
        });
        let Branch { share, outcome, effects, assumptions, .. } = branch;
        let mut digest = DefaultHasher::new();
        branch.trace.path.steps().iter().for_each(|step| format!("{:?} {:?}", step.rule, step.then).hash(&mut digest));
        let steps = digest.finish();
        let lists = effects.len();
        let mark = branch.packet.mark;
        let what =
            format!("{share} {outcome:?} {source} > {destination} {port} {nat:?} {mark} {lists} lists {assumptions:?}");
        Fate { what, steps }
    }

    /// Checks that random packets are each in one class, and are handled like its witness.
    fn check(&self, classes: &[Class<Vec<Fate>>], dice: &mut Dice) {
        assert!(classes.iter().all(|class| class.region.contains(&class.witness)));
        for class in classes {
            for _ in 0..3 {
                let packet = dice.packet_of(&class.region);
                assert!(class.region.contains(&packet), "{packet:?} is not in {}", class.region);
                self.agrees(class, &packet);
            }
        }
        for _ in 0..200 {
            // Packets at the edges of classes.
            let packet = self.packet_of_edges(classes, dice);
            let own: Vec<&Class<Vec<Fate>>> = classes.iter().filter(|class| class.region.contains(&packet)).collect();
            let words = || own.iter().map(|class| class.region.to_string()).collect::<Vec<_>>();
            assert_eq!(own.len(), 1, "{packet:?} is in {:#?}", words());
            self.agrees(own[0], &packet);
        }
    }

    fn agrees(&self, class: &Class<Vec<Fate>>, packet: &Packet) {
        // Among the packets of its class: among all packets, a mask of very many ranges is unknown which is one answer for the class.
        let mut alone = Classes::of([class.region.clone()], *packet);
        let fates = alone.next_by(|_, narrowing| self.fates(packet, narrowing)).unwrap().found;
        if class.found.iter().all(|fate| !fate.what.contains("Unknown")) {
            assert_eq!(fates, class.found, "{packet:?} of {}", class.region);
        }
    }

    fn packet_of_edges(&self, classes: &[Class<Vec<Fate>>], dice: &mut Dice) -> Packet {
        let region = Field::ALL.into_iter().fold(Region::all(self.family), |region, field| {
            let numbers = &classes[dice.below(classes.len())].region[field];
            let (first, last) = numbers.ranges()[dice.below(numbers.ranges().len())];
            let edges = [first.saturating_sub(1), first, last, last.saturating_add(1)];
            let edge = edges[dice.below(4)];
            let number = if region[field].contains(edge) { edge } else { first };
            region.with(field, Intervals::one(number))
        });
        region.witness(&self.like()).unwrap()
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Reproducible pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn packet_of(&mut self, region: &Region) -> Packet {
        let one = Field::ALL.into_iter().fold(region.clone(), |region, field| {
            let ranges = region[field].ranges();
            let (first, last) = ranges[self.below(ranges.len())];
            let wide = u128::from(self.next()) << 64 | u128::from(self.next());
            let number = (last - first).checked_add(1).map_or(wide, |size| first + wide % size);
            region.with(field, Intervals::one(number))
        });
        let like = Packet::new(IpAddr::from([0; 4]), IpAddr::from([0; 4]), Transport::Other(0));
        one.witness(&like).unwrap()
    }
}

#[test]
fn packets_of_recorded_rules() {
    let patterns = ["tests/golden/*/v1.3[02]-*/*-save.txt", "tests/golden/*/v1.3[02]-*/nft-ruleset.txt"];
    each_file(&patterns, |file| {
        // Those with a hundred endpoints and more take long.
        if !file.to_string_lossy().contains("endpoints-100") {
            assert_classes_behave_as_their_packets(file);
        }
    });
}

fn assert_classes_behave_as_their_packets(file: &Path) {
    let name = file.file_name().unwrap().to_str().unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let family = if name.starts_with("ip6") { Family::Ipv6 } else { Family::Ipv4 };
    let rules: Rules = if name.starts_with("ip") {
        iptables::parse(&text, family).unwrap().rules.into()
    } else {
        nftables::parse(&text).unwrap().rules.into()
    };
    for family in Family::ALL.into_iter().filter(|one| rules.iptables().is_none() || *one == family) {
        let machine = Machine::of(&rules, family);
        machine.check(&machine.classes(), &mut Dice(0x5eed_1234));
    }
}

/// Conditions of every kind, and targets.
const CONDITIONS: [&str; 34] = [
    "-s 10.244.0.0/16",
    "! -s 10.244.1.0/24",
    "-d 10.96.0.10/32",
    "-d 10.96.0.0/255.255.0.255",
    "! -d 0.0.0.5/0.0.0.255",
    "-p tcp -m tcp --dport 80",
    "-p tcp -m tcp --sport 1024:65535",
    "-p tcp -m tcp ! --dport 80:443",
    "-p udp -m udp --dport 53",
    "-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN",
    "-p tcp -m tcp --tcp-flags PSH PSH",
    "-p icmp -m icmp --icmp-type 8",
    "-p icmp -m icmp --icmp-type 3/4",
    "! -p tcp",
    "-p 47",
    "-p tcp -m multiport --dports 80,8000:8080",
    "-p udp -m multiport ! --ports 53,500",
    "-p tcp -m multiport --sports 1:1023",
    "-m addrtype --dst-type LOCAL",
    "-m addrtype ! --src-type LOCAL",
    "-m addrtype --dst-type BROADCAST",
    "-m addrtype --dst-type MULTICAST",
    "-m iprange --src-range 10.0.0.5-10.250.0.0",
    "-m iprange ! --dst-range 10.96.0.3-10.96.0.200",
    "-m conntrack --ctstate NEW",
    "-m conntrack --ctstate INVALID",
    "-m conntrack --ctstate DNAT",
    "-m conntrack --ctorigdst 10.96.0.0/24",
    "-p tcp -m conntrack --ctorigdstport 80",
    "-m mark --mark 0x1/0x1",
    "-m statistic --mode random --probability 0.25",
    "-m recent --name A --set --rsource",
    "-m recent --name A --rcheck --rsource",
    "-i veth+",
];

fn rule(targets: &'static [&'static str]) -> impl Strategy<Value = String> {
    (vec(0..CONDITIONS.len(), 0..3), 0..targets.len()).prop_map(move |(chosen, target)| {
        let mut chosen: Vec<&str> = chosen.into_iter().map(|at| CONDITIONS[at]).collect();
        // A rule names its protocol, source and destination once.
        for name in ["-p ", "-s ", "-d ", "-m recent", "-m conntrack", "-m iprange", "-m addrtype"] {
            let mut seen = false;
            chosen.retain(|words| !words.contains(name) || !std::mem::replace(&mut seen, true));
        }
        format!("{} {}", chosen.join(" "), targets[target])
    })
}

const OF_NAT: [&str; 8] = [
    "-j DNAT --to-destination 10.244.1.9:8080",
    "-j DNAT --to-destination 10.96.0.10",
    "-p tcp -j REDIRECT --to-ports 80",
    "-j MARK --set-xmark 0x1/0x1",
    "-j A",
    "-j RETURN",
    "-g A",
    "-j ACCEPT",
];
const OF_FILTER: [&str; 6] = ["-j DROP", "-j REJECT", "-j RETURN", "-j B", "-j MARK --set-xmark 0x1/0x1", "-j ACCEPT"];
const OF_A: [&str; 3] = ["-j DNAT --to-destination 10.244.1.7:80", "-j RETURN", "-j MARK --set-xmark 0x3/0x3"];
const OF_B: [&str; 3] = ["-j DROP", "-j RETURN", "-j ACCEPT"];
const OF_SOURCE: [&str; 4] = [
    "-j MASQUERADE --random-fully",
    "-j SNAT --to-source 172.18.0.2",
    "-p tcp -j SNAT --to-source 172.18.0.2:1000-2000",
    "-j RETURN",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn packets_of_any_rules(
        nat in vec(rule(&OF_NAT), 0..5),
        a in vec(rule(&OF_A), 0..3),
        source in vec(rule(&OF_SOURCE), 0..3),
        filter in vec(rule(&OF_FILTER), 0..5),
        b in vec(rule(&OF_B), 0..3),
        seed in 1_u64..,
    ) {
        let chain = |name: &str, rules: &[String]| -> String {
            // `-p` of a condition stands for that of the target.
            let once = |rule: &String| match rule.match_indices("-p ").count() {
                2.. => rule.replacen("-p tcp ", "", 1),
                _ => rule.clone(),
            };
            rules.iter().map(|rule| format!("-A {name} {}\n", once(rule))).collect()
        };
        let text = format!(
            "*nat\n:A - [0:0]\n{}{}{}COMMIT\n*filter\n:B - [0:0]\n{}{}{}COMMIT\n",
            chain("PREROUTING", &nat), chain("A", &a), chain("POSTROUTING", &source),
            chain("FORWARD", &filter), chain("INPUT", &filter), chain("B", &b),
        );
        let parsed = iptables::parse(&text, Family::Ipv4);
        prop_assume!(parsed.is_ok());
        let rules: Rules = parsed.unwrap().rules.into();
        prop_assume!(rules.is_sound(Family::Ipv4));
        let machine = Machine::of(&rules, Family::Ipv4);
        machine.check(&machine.classes(), &mut Dice(seed));
    }
}

/// Rules of nftables of every kind.
#[test]
fn packets_of_any_tables() {
    let text = "table ip kube-proxy {\n\
        set nodes { type ipv4_addr; flags interval; elements = { 172.18.0.0/16, 10.0.0.5-10.0.0.9 } }\n\
        map services { type ipv4_addr . inet_proto . inet_service : verdict\n\
            elements = { 10.96.0.10 . tcp . 80 : goto a, 10.96.0.10 . udp . 53 : goto b, 10.96.0.11 . tcp . 80 : drop } }\n\
        map ports { type inet_proto . inet_service : verdict; elements = { tcp . 30080 : goto a, udp . 30053 : goto b } }\n\
        chain a { numgen random mod 2 vmap { 0 : goto c, 1 : goto b } }\n\
        chain b { meta l4proto udp dnat to 10.244.1.7:53\n meta mark set mark or 0x1 }\n\
        chain c { ip saddr 10.244.1.7 meta mark set mark or 0x4000\n meta l4proto tcp dnat to 10.244.1.7:8080 }\n\
        chain pre { type nat hook prerouting priority dstnat; policy accept;\n\
            ip daddr . meta l4proto . th dport vmap @services\n\
            fib daddr type local ip daddr != 127.0.0.0/8 meta l4proto . th dport vmap @ports }\n\
        chain fwd { type filter hook forward priority filter; policy accept;\n\
            ct state invalid drop\n ip saddr @nodes tcp sport < 1024 drop\n ip daddr != { 10.0.0.0/8, 172.18.0.0/16 } th dport 99 reject\n\
            ct status dnat ip saddr != 10.244.0.0/16 mark and 0x1 == 0x1 accept }\n\
        chain post { type nat hook postrouting priority srcnat; policy accept;\n mark and 0x4000 != 0 masquerade fully-random }\n}\n";
    let rules = Rules::parse(ProxyMode::Nftables, Family::Ipv4, text).unwrap();
    let machine = Machine::of(&rules, Family::Ipv4);
    let classes = machine.classes();
    machine.check(&classes, &mut Dice(77));
    let all: Vec<String> = classes.iter().flat_map(|class| &class.found).map(|fate| fate.what.clone()).collect();
    assert!(all.iter().any(|what| what.contains("10.244.1.7 8080")), "{all:#?}");
}

#[rstest]
#[case("iptables")]
#[case("nftables")]
fn classes_grow_with_services(#[case] mode: &str) {
    let count = |services: u32| {
        let cluster = clusters::cluster(services);
        let rules: Rules = if mode == "iptables" {
            iptables::generate(&cluster, &cluster.nodes[0], Family::Ipv4).unwrap().into()
        } else {
            nftables::generate(&cluster, &cluster.nodes[0], Family::Ipv4).unwrap().into()
        };
        Machine::of(&rules, Family::Ipv4).classes().len()
    };
    let (few, some, many) = (count(20), count(40), count(80));
    assert_eq!(many - some, 2 * (some - few), "{few}, {some}, {many}");
}
