//! Properties that hold for every cluster and release.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use svclab_rules::cluster::{
    Cluster, Endpoint, EndpointPort, EndpointSlice, ExternalTrafficPolicy, Family, InternalTrafficPolicy, IpMode,
    LoadBalancerIngress, Node, ObjectName, Protocol, Service, ServicePort, ServiceType,
};
use svclab_rules::iptables::{Match, RuleSet, Statistic, generate, parse, print};
use svclab_rules::nftables::{self, Name, Ruleset, Statement, Verdict};
use svclab_rules::profile::Profile;

/// The properties of a service that vary.
#[derive(Debug, Clone)]
struct Draft {
    kind: ServiceType,
    ports: usize,
    named: bool,
    external_ip: bool,
    balancers: u8,
    ranges: bool,
    external_local: bool,
    internal_local: bool,
    affinity: Option<u32>,
    endpoints: Vec<(u8, bool, bool)>,
}

fn draft() -> impl Strategy<Value = Draft> {
    let kind = prop_oneof![
        Just(ServiceType::ClusterIp),
        Just(ServiceType::NodePort),
        Just(ServiceType::LoadBalancer),
        Just(ServiceType::ExternalName),
    ];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let affinity = prop::option::of(1_u32..86_400);
    (kind, 1_usize..3, flags, 0_u8..3, affinity, vec((any::<u8>(), any::<bool>(), any::<bool>()), 0..9)).prop_map(
        |(
            kind,
            ports,
            (named, external_ip, ranges, external_local, internal_local),
            balancers,
            affinity,
            endpoints,
        )| {
            let named = named || ports > 1;
            Draft {
                kind,
                ports,
                named,
                external_ip,
                balancers,
                ranges,
                external_local,
                internal_local,
                affinity,
                endpoints,
            }
        },
    )
}

fn address(family: Family, high: u8, low: usize) -> IpAddr {
    let [a, b] = [(low >> 8) as u8, low as u8];
    match family {
        Family::Ipv4 => Ipv4Addr::new(10, high, a, b).into(),
        Family::Ipv6 => Ipv6Addr::new(0xfd00, u16::from(high), 0, 0, 0, 0, u16::from(a), u16::from(b)).into(),
    }
}

fn service(family: Family, number: usize, draft: &Draft) -> Service {
    let published = matches!(draft.kind, ServiceType::NodePort | ServiceType::LoadBalancer);
    let ports = (0..draft.ports).map(|index| ServicePort {
        name: if draft.named { format!("p{index}") } else { String::new() },
        protocol: [Protocol::Tcp, Protocol::Udp, Protocol::Sctp][(number + index) % 3],
        port: 80 + index as u16,
        node_port: published.then_some(30_000 + (number * 2 + index) as u16),
        target_port: None,
    });
    let ingress = |index: u8| {
        let mode = if index == 1 { IpMode::Proxy } else { IpMode::Vip };
        LoadBalancerIngress { ip: address(family, 3 + index, number), mode }
    };
    Service {
        name: ObjectName::new("default", format!("s{number}")),
        labels: Default::default(),
        annotations: Default::default(),
        kind: draft.kind,
        cluster_ips: vec![address(family, 1, number)],
        headless: false,
        families: vec![family],
        ports: ports.collect(),
        selector: Default::default(),
        external_ips: draft.external_ip.then(|| address(family, 2, number)).into_iter().collect(),
        load_balancer: (0..draft.balancers).map(ingress).collect(),
        source_ranges: draft.ranges.then(|| "10.0.0.0/8".parse().unwrap()).into_iter().collect(),
        external_traffic_policy: if draft.external_local {
            ExternalTrafficPolicy::Local
        } else {
            ExternalTrafficPolicy::Cluster
        },
        internal_traffic_policy: if draft.internal_local {
            InternalTrafficPolicy::Local
        } else {
            InternalTrafficPolicy::Cluster
        },
        affinity_seconds: draft.affinity,
        health_check_node_port: (draft.external_local && draft.kind == ServiceType::LoadBalancer)
            .then_some(32_000 + number as u16),
        publish_not_ready_addresses: false,
        traffic_distribution: None,
    }
}

/// Returns two slices, so that an endpoint can be in both.
fn slices(family: Family, number: usize, draft: &Draft, service: &Service) -> Vec<EndpointSlice> {
    let endpoint = |(low, ready, terminating): &(u8, bool, bool)| Endpoint {
        addresses: vec![address(family, 9, usize::from(*low))],
        ready: *ready,
        serving: Some(true),
        terminating: *terminating && !ready,
        node: Some(format!("n{}", low % 3)),
        zone: None,
        zone_hints: None,
        node_hints: None,
        pod: None,
    };
    let ports = service.ports.iter();
    let ports: Vec<EndpointPort> = ports
        .map(|port| EndpointPort { name: port.name.clone(), protocol: port.protocol, port: Some(8000 + port.port) })
        .collect();
    let chunks = draft.endpoints.chunks(5).enumerate();
    chunks
        .map(|(index, endpoints)| EndpointSlice {
            name: ObjectName::new("default", format!("s{number}-{index}")),
            service: service.name.clone(),
            family,
            ports: ports.clone(),
            endpoints: endpoints.iter().map(endpoint).collect(),
        })
        .collect()
}

fn cluster() -> impl Strategy<Value = (Cluster, Family)> {
    let family = prop_oneof![Just(Family::Ipv4), Just(Family::Ipv6)];
    (family, 10_u8..=37, vec(draft(), 0..6), any::<bool>()).prop_map(|(family, minor, drafts, known)| {
        let node = Node { name: "n0".to_owned(), internal_ips: vec![address(family, 0, 1)], ..Node::default() };
        let mut cluster = Cluster { nodes: vec![node], ..Cluster::default() };
        for (number, draft) in drafts.iter().enumerate() {
            let service = service(family, number, draft);
            cluster.slices.extend(slices(family, number, draft, &service));
            cluster.services.push(service);
        }
        cluster.proxy.version = format!("1.{minor}");
        if known {
            cluster.proxy.cluster_cidrs = vec!["10.9.0.0/16".parse().unwrap(), "fd00:9::/32".parse().unwrap()];
        }
        (cluster, family)
    })
}

fn rules(cluster: &Cluster, family: Family) -> RuleSet {
    generate(cluster, &cluster.nodes[0], family).unwrap()
}

/// Returns the tables of nftables mode, if the release has it.
fn tables(cluster: &Cluster, family: Family) -> Option<Ruleset> {
    let profile: Profile = cluster.proxy.version.parse().unwrap();
    profile.nftables().then(|| nftables::generate(cluster, &cluster.nodes[0], family).unwrap())
}

/// Returns the chains that a statement jumps to.
fn next_chains(statement: &Statement) -> Vec<&Name> {
    match statement {
        Statement::Verdict(verdict) => chain_of(verdict).into_iter().collect(),
        Statement::Balance(verdicts) => verdicts.iter().filter_map(chain_of).collect(),
        _ => Vec::new(),
    }
}

fn chain_of(verdict: &Verdict) -> Option<&Name> {
    match verdict {
        Verdict::Jump(chain) | Verdict::Goto(chain) => Some(chain),
        Verdict::Accept | Verdict::Drop | Verdict::Return => None,
    }
}

/// Returns the shares of the balancing rules of a chain, multiplied out.
fn shares(rules: &[svclab_rules::iptables::Rule]) -> Vec<f64> {
    let mut rest = 1.0;
    let leads_to_endpoint = |rule: &&svclab_rules::iptables::Rule| {
        let endpoint = rule.next_chain().is_some_and(|chain| chain.starts_with("KUBE-SEP-"));
        endpoint && !rule.matches.iter().any(|condition| matches!(condition, Match::Recent(_)))
    };
    let mut shares = Vec::new();
    for rule in rules.iter().filter(leads_to_endpoint) {
        let chance = rule.matches.iter().find_map(|condition| match condition {
            Match::Statistic(Statistic::Random(chance)) => Some(chance.value.share()),
            _ => None,
        });
        shares.push(rest * chance.unwrap_or(1.0));
        rest *= 1.0 - chance.unwrap_or(1.0);
    }
    shares
}

proptest! {
    #[test]
    fn text_comes_back_as_the_same_rules((cluster, family) in cluster()) {
        let rules = rules(&cluster, family);
        prop_assert_eq!(parse(&print(&rules), family).unwrap().rules, rules);
    }

    #[test]
    fn the_order_of_objects_does_not_matter(
        ((cluster, family), shuffled) in cluster().prop_flat_map(|(cluster, family)| {
            let services = Just(cluster.services.clone()).prop_shuffle();
            let slices = Just(cluster.slices.clone()).prop_shuffle();
            (Just((cluster, family)), (services, slices))
        }),
    ) {
        let (services, slices) = shuffled;
        let other = Cluster { services, slices, ..cluster.clone() };
        prop_assert_eq!(print(&rules(&other, family)), print(&rules(&cluster, family)));
        prop_assert_eq!(tables(&other, family), tables(&cluster, family));
    }

    #[test]
    fn every_chain_that_is_jumped_to_exists((cluster, family) in cluster()) {
        for table in &rules(&cluster, family).tables {
            let declared: HashSet<&str> = table.chains.iter().map(|chain| &*chain.name).collect();
            prop_assert_eq!(declared.len(), table.chains.len(), "a chain is declared twice");
            for rule in table.chains.iter().flat_map(|chain| &chain.rules) {
                if let Some(chain) = rule.next_chain() {
                    prop_assert!(declared.contains(&**chain), "{} is missing in {}", chain, table.name);
                }
            }
        }
    }

    #[test]
    fn every_chain_and_set_that_nftables_uses_exists((cluster, family) in cluster()) {
        for table in tables(&cluster, family).iter().flat_map(|ruleset| &ruleset.tables) {
            let chains: HashSet<&Name> = table.chains.iter().map(|chain| &chain.name).collect();
            let sets: HashSet<&Name> = table.sets.iter().map(|set| &set.name).collect();
            prop_assert_eq!((chains.len(), sets.len()), (table.chains.len(), table.sets.len()), "made twice");
            for statement in table.chains.iter().flat_map(|chain| &chain.rules).flat_map(|rule| &rule.statements) {
                for chain in next_chains(statement) {
                    prop_assert!(chains.contains(chain), "{} is missing", chain);
                }
                if let Statement::Lookup(_, set) | Statement::Remember(_, set) = statement {
                    prop_assert!(sets.contains(set), "{} is missing", set);
                }
            }
            for element in table.sets.iter().flat_map(|set| &set.elements) {
                if let Some(Verdict::Jump(chain) | Verdict::Goto(chain)) = &element.verdict {
                    prop_assert!(chains.contains(chain), "{} is missing", chain);
                }
            }
        }
    }

    /// Balancing rules contain every endpoint once, and `numgen` draws all numbers equally often.
    #[test]
    fn nftables_names_an_endpoint_once((cluster, family) in cluster()) {
        let tables = tables(&cluster, family);
        let chains = tables.iter().flat_map(|ruleset| &ruleset.tables).flat_map(|table| &table.chains);
        for statement in chains.flat_map(|chain| &chain.rules).flat_map(|rule| &rule.statements) {
            let (names, distinct) = match statement {
                Statement::Balance(all) => (all.len(), all.iter().filter_map(chain_of).collect::<HashSet<_>>().len()),
                Statement::BalanceDnat(sockets) => (sockets.len(), sockets.iter().collect::<HashSet<_>>().len()),
                _ => continue,
            };
            prop_assert!(names > 0 && names == distinct, "{:?}", statement);
        }
    }

    /// The kernel draws 31 bits: each probability, and what it leaves to the rest, is off by up to half of the last bit, plus the rounding
    /// of its text. Up to 1.16 the text has five digits, then ten.
    #[test]
    fn an_endpoint_gets_its_share((cluster, family) in cluster()) {
        let profile: Profile = cluster.proxy.version.parse().unwrap();
        let lost = 0.5 / f64::from(1_u32 << 31) + 0.5 * 10_f64.powi(-(profile.probability_digits() as i32));
        for chain in rules(&cluster, family).tables.iter().flat_map(|table| &table.chains) {
            let shares = shares(&chain.rules);
            let n = shares.len() as f64;
            for share in &shares {
                prop_assert!((share - 1.0 / n).abs() <= n * lost, "{}: {:?}", chain.name, shares);
            }
        }
    }
}
