//! A scenario → the text of a self-contained scenario.
//!
//! Everything is written out, including addresses and ranges that the original scenario left to svclab. Selectors are replaced by the
//! endpoints that they select.

mod connections;
mod endpoints;
mod links;
mod objects;
mod planned;
mod proxy;

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use svclab_rules::cluster::objects::NODE_PORTS;
use svclab_rules::cluster::{Cluster, Family, Protocol, ProxyMode};

use self::connections::connection;
use self::endpoints::Known;
use self::links::link;
pub(crate) use self::links::link_words;
use self::objects::{node, pod, service};
pub(crate) use self::planned::PlannedOutcome;
pub use self::planned::PlannedTest;
use self::proxy::proxy;
use super::model::{Cni, CniKind, Install, OtherRules, Overlay, Place, Scenario, short_name};
use crate::text::one_line;
use crate::yaml::{Fields, Item, document};

/// Writes a scenario with other tests; `comments` are lines at its top.
pub fn print(scenario: &Scenario, comments: &[String], tests: &[PlannedTest]) -> String {
    let cluster = &scenario.cluster;
    let mut fields = vec![field("name", scenario.name.as_str()), field("cluster", network(scenario))];
    let mut list = |name: &str, items: Vec<Item>| {
        if !items.is_empty() {
            fields.push(field(name, items));
        }
    };
    list(
        "nodes",
        cluster
            .nodes
            .iter()
            .map(|one| node(one, scenario.sysctls.get(&one.name), scenario.programs.get(&one.name)))
            .collect(),
    );
    list("pods", cluster.pods.iter().map(pod).collect());
    list("services", cluster.services.iter().map(service).collect());
    let known = Known::of(cluster);
    list("endpoints", cluster.slices.iter().filter_map(|slice| known.slice(slice)).collect());
    list("hosts", scenario.hosts.iter().map(|host| named(&host.name, [addresses("ips", &host.ips)])).collect());
    list("links", cluster.links.iter().filter_map(|(owner, one)| link(owner, *one)).collect());
    list("connections", scenario.connections.iter().map(connection).collect());
    if !scenario.rules.is_empty() {
        fields.push(field("rules", rules(&scenario.rules)));
    }
    if !tests.is_empty() {
        fields.push(field("tests", tests.iter().map(planned::test).collect::<Vec<_>>()));
    }
    let comments: String = comments.iter().map(|line| format!("# {}\n", one_line(line))).collect();
    comments + &document(&fields)
}

fn field(name: &str, item: impl Into<Item>) -> (String, Item) {
    (name.to_owned(), item.into())
}

/// Returns an entry with a name and those fields that are present.
fn named<const N: usize>(name: &str, others: [Option<(String, Item)>; N]) -> Item {
    std::iter::once(field("name", name)).chain(others.into_iter().flatten()).collect::<Fields>().into()
}

fn addresses(name: &str, ips: &[IpAddr]) -> Option<(String, Item)> {
    (!ips.is_empty()).then(|| field(name, words(ips)))
}

fn words<T: ToString>(all: impl IntoIterator<Item = T>) -> Vec<String> {
    all.into_iter().map(|one| one.to_string()).collect()
}

fn protocol(protocol: Protocol) -> Option<(String, Item)> {
    (protocol != Protocol::Tcp).then(|| field("protocol", protocol.to_string().to_uppercase()))
}

/// The range of a cluster's node ports, if one is not in the default range.
pub(crate) fn node_port_range(cluster: &Cluster) -> Option<String> {
    let ports = cluster.services.iter().flat_map(|service| {
        service.ports.iter().filter_map(|port| port.node_port).chain(service.health_check_node_port)
    });
    let (first, last) = (*NODE_PORTS.start(), *NODE_PORTS.end());
    let (least, most) = ports.fold((first, last), |(least, most), port| (least.min(port), most.max(port)));
    ((least, most) != (first, last)).then(|| format!("{least}-{most}"))
}

/// Writes the section `cluster:`.
fn network(scenario: &Scenario) -> Fields {
    let cluster = &scenario.cluster;
    let pods = pod_ranges(cluster);
    let overlaps = |range: &IpNet| pods.iter().any(|pods| pods.contains(range) || range.contains(pods));
    let mut services: BTreeMap<Family, IpNet> = BTreeMap::new();
    for range in cluster.service_cidrs.iter().filter(|range| !overlaps(range)) {
        services.entry(Family::of(range.addr())).or_insert(range.trunc());
    }
    // A scenario has a default range of each family. A range of one allocated address has no other address to drop.
    if cluster.proxy.mode == ProxyMode::Nftables && !services.is_empty() {
        for ip in cluster.services.iter().flat_map(|service| &service.cluster_ips) {
            services.entry(Family::of(*ip)).or_insert(IpNet::from(*ip));
        }
    }
    let mut fields = vec![field("podCIDR", words(pods))];
    if !services.is_empty() || cluster.proxy.mode == ProxyMode::Nftables {
        fields.push(field("serviceCIDR", words(services.into_values())));
    }
    fields.extend(node_port_range(cluster).map(|range| field("serviceNodePortRange", range)));
    fields.extend(cni(scenario.cni));
    fields.push(field("proxy", proxy(&cluster.proxy, scenario.releases)));
    fields
}

/// Returns the smallest range of each family that contains the addresses of all pods.
fn pod_ranges(cluster: &Cluster) -> Vec<IpNet> {
    let own = cluster.pods.iter().filter(|pod| !pod.host_network).flat_map(|pod| pod.ips.iter().copied());
    let ranges = cluster.nodes.iter().flat_map(|node| node.pod_cidrs.iter().copied());
    let mut found: Vec<IpNet> = Vec::new();
    for range in ranges.chain(own.map(IpNet::from)) {
        let family = Family::of(range.addr());
        match found.iter_mut().find(|known| Family::of(known.addr()) == family) {
            None => found.push(range.trunc()),
            Some(known) => {
                while !known.contains(&range) {
                    let Some(wider) = known.supernet() else { break };
                    *known = wider;
                }
            }
        }
    }
    found
}

fn cni(cni: Cni) -> Fields {
    let mut fields = Fields::new();
    if let CniKind::Bridge { hairpin, nf_call_iptables } = cni.kind {
        let settings = vec![
            field("kind", "bridge"),
            field("hairpinMode", hairpin),
            field("bridgeNfCallIptables", nf_call_iptables),
        ];
        fields.push(field("cni", settings));
    }
    if cni.overlay == Overlay::Vxlan {
        fields.push(field("overlay", "vxlan"));
    }
    fields
}

/// Writes the section `rules:`.
fn rules(all: &[OtherRules]) -> Fields {
    let mut by_place: BTreeMap<String, Vec<Item>> = BTreeMap::new();
    for one in all {
        let place = match &one.place {
            Place::Node(name) => name.clone(),
            Place::Pod(name) => format!("pod/{}", short_name(name)),
        };
        let install = match one.install {
            Install::Instead => "instead",
            Install::Before => "before",
            Install::After => "after",
        };
        let fields = vec![
            field("install", install),
            field("family", one.family.to_string().to_lowercase()),
            field("text", Item::Lines(one.rules.print())),
        ];
        by_place.entry(place).or_default().push(fields.into());
    }
    by_place.into_iter().map(|(place, entries)| field(&place, entries)).collect()
}
