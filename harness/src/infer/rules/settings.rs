//! kube-proxy's configuration and release, as rules show them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use ipnet::IpNet;
use svclab_rules::cluster::{Cluster, DetectLocal, Family, InternalTrafficPolicy, ProxyConfig, ProxyMode};
use svclab_rules::compare::{Difference, Fact, Finding, MadeUp, Subject};
use svclab_rules::infer::{Inferred, InferredProxy};
use svclab_rules::profile::{Profile, releases};
use svclab_rules::ruleset::Rules;

use super::configuration::Configuration;
use super::dump::Dump;
use super::surroundings::Surroundings;
use crate::evidence::{NodeRules, Release};
use crate::infer::Assumption;
use crate::infer::merge::Objects;
use crate::infer::objects::cluster_cidrs;
use crate::infer::usual_ranges::wide;
use crate::text::{counted, one_line};

/// Sets the configuration whose rules are the closest to those of dumps, and of these the release that the text names; returns the
/// assumptions.
pub(super) fn assume(
    inferred: &Inferred,
    around: &Surroundings,
    (dumps, made_up): (&[Dump], &mut MadeUp),
    objects: &Objects,
    cluster: &mut Cluster,
) -> Vec<Assumption> {
    let nodes: Vec<&str> = dumps.iter().map(|dump| dump.node.as_str()).collect();
    let named = named(&objects.releases, &nodes);
    // An excerpt says less than whole rules.
    let whole: Vec<&Dump> = dumps.iter().filter(|dump| dump.is_whole()).collect();
    let mode = dumps.first().map(Dump::mode).unwrap_or_default();
    let configuration = Configuration::of(&objects.configurations, mode);
    let configure = |proxy: &mut ProxyConfig| configuration.iter().for_each(|configuration| configuration.apply(proxy));
    cluster.proxy = read(&inferred.proxy, around, mode);
    configure(&mut cluster.proxy);
    let is_assumed = lacks_local_sources(&cluster.proxy) && !dumps.iter().any(Dump::shows_local_sources);
    if is_assumed {
        cluster.proxy.cluster_cidrs = pod_ranges(cluster);
        made_up.local_sources = cluster.proxy.cluster_cidrs.iter().copied().collect();
    }
    made_up.local_sources.extend(of_other_nodes(&cluster.proxy, dumps));
    let is_whole = !whole.is_empty();
    let dumps: Vec<&Dump> = if whole.is_empty() { dumps.iter().collect() } else { whole };
    cluster.service_cidrs = inferred.proxy.service_cidrs.iter().copied().collect();
    let dumps = dumps.into_iter().map(|dump| (dump, dump.families().collect())).collect();
    let mut trials = Trials { dumps, made_up, most: usize::MAX, last: None, known: Vec::new() };
    let mut closest = choose_release(&mut trials, cluster, &configure);
    if closest.as_deref().is_some_and(|closest| !closest.is_none()) {
        closest = choose_despite_policy(&mut trials, cluster, closest, &configure);
    }
    choose(&mut trials, cluster, &mut closest, &|proxy| {
        proxy.localhost_node_ports = !proxy.localhost_node_ports;
        configure(proxy);
    });
    choose(&mut trials, cluster, &mut closest, &|proxy| {
        proxy.tcp_be_liberal = !proxy.tcp_be_liberal;
        configure(proxy);
    });
    // Where a Service of an excerpt has a node port, the rule that leads to node ports may be absent for this reason.
    if mode == ProxyMode::Iptables && (is_whole || inferred.ports.iter().any(|port| port.node_port.is_some())) {
        choose(&mut trials, cluster, &mut closest, &|proxy| {
            serve_no_node_ports(proxy);
            configure(proxy);
        });
    }
    if closest.as_deref().is_some_and(Distance::is_none) {
        // Only whether other releases write the same rules matters then.
        trials.most = 1;
    }
    let versions = as_close(&mut trials, cluster, closest.as_deref());
    let contradiction = named.and_then(|named| adopt(&mut trials, cluster, closest.as_deref(), named, &versions));
    let versions = match &contradiction {
        None if named.is_some() => format!("{}, which the text names", cluster.proxy.version),
        _ => versions,
    };
    let differs = words_of_differences(closest.as_deref());
    let why = if is_assumed { ", from the pod ranges: no rule shown contains it" } else { "" };
    let release = Assumption::Assumed(format!("kube-proxy {versions}, {differs}"));
    let sources = format!("{}{why}", local_sources(&cluster.proxy));
    let sources = match lacks_local_sources(&cluster.proxy) && configuration.is_none() {
        true => Assumption::Setting { name: "clusterCIDR", words: sources },
        false => Assumption::Assumed(sources),
    };
    let settings = if configuration.is_none() { without_rules(&cluster.proxy, &inferred.proxy) } else { Vec::new() };
    [release, sources].into_iter().chain(settings).chain(contradiction).collect()
}

/// Sets the release whose rules are the closest; of releases that write the same, the newest.
fn choose_release(
    trials: &mut Trials<'_>,
    cluster: &mut Cluster,
    configure: &dyn Fn(&mut ProxyConfig),
) -> Option<Rc<Distance>> {
    let mut closest = trials.differences(cluster, &cluster.proxy);
    for version in Profile::kinds().rev() {
        choose(trials, cluster, &mut closest, &|proxy| {
            proxy.version = version.to_string();
            configure(proxy);
        });
    }
    closest
}

/// Sets the release whose rules are the closest if no Service had the internal policy Local, where they are closer then: releases before the policy
/// ignore it, and rules that wrongly do would be taken for theirs.
fn choose_despite_policy(
    trials: &mut Trials<'_>,
    cluster: &mut Cluster,
    closest: Option<Rc<Distance>>,
    configure: &dyn Fn(&mut ProxyConfig),
) -> Option<Rc<Distance>> {
    let mut without = cluster.clone();
    let services = without.services.iter_mut();
    let local = services.filter(|service| service.internal_traffic_policy == InternalTrafficPolicy::Local);
    let changed = local.map(|service| service.internal_traffic_policy = InternalTrafficPolicy::Cluster).count();
    if changed == 0 {
        return closest;
    }
    let mut others = Trials { dumps: trials.dumps.clone(), known: Vec::new(), last: None, ..*trials };
    let found = choose_release(&mut others, &mut without, configure);
    if found.is_none() || found.as_deref().map(Distance::weight) >= closest.as_deref().map(Distance::weight) {
        return closest;
    }
    cluster.proxy = without.proxy;
    trials.differences(cluster, &cluster.proxy)
}

/// How the rules of a configuration differ from those of a dump, in words.
fn words_of_differences(closest: Option<&Distance>) -> String {
    match closest {
        None => "whose rules cannot be generated for this cluster".to_owned(),
        Some(Distance { found, comments: 0 }) if found.is_empty() => "which generates the same rules".to_owned(),
        Some(Distance { found, .. }) if found.is_empty() => {
            "which generates the same rules, with other comments".to_owned()
        }
        Some(Distance { found: findings, .. }) => {
            let first: Vec<String> = findings.iter().take(SHOWN).map(ToString::to_string).collect();
            let more = if findings.len() > first.len() { "; ..." } else { "" };
            let count = counted(findings.len(), "difference");
            format!("closest match, with {count}: {}{more}", first.join("; "))
        }
    }
}

/// The unusual settings that would explain why rules are not there.
fn without_rules(proxy: &ProxyConfig, inferred: &InferredProxy) -> Vec<Assumption> {
    let liberal = "no rule drops packets that conntrack classifies as INVALID";
    let nowhere = "no rule serves node ports on an address of the node";
    let is_nowhere = !inferred.families_without_node_ports.is_empty() || serves_no_node_ports(proxy);
    let all = [("conntrack.tcpBeLiberal", proxy.tcp_be_liberal, liberal), ("nodePortAddresses", is_nowhere, nowhere)];
    let unusual = all.into_iter().filter(|(_, is_unusual, _)| *is_unusual);
    unusual.map(|(name, _, why)| Assumption::Setting { name, words: format!("{name}: {why}") }).collect()
}

/// The release that a text names for nodes, or else for the cluster.
fn named<'r>(releases: &'r [Release], nodes: &[&str]) -> Option<&'r Release> {
    let is_of_node = |one: &&Release| one.node.as_deref().is_some_and(|node| nodes.contains(&node));
    releases.iter().find(is_of_node).or_else(|| releases.iter().find(|one| one.node.is_none())).or(releases.first())
}

/// Takes the release that the text names where its rules are as close as the closest. Returns the contradiction where they are not.
fn adopt(
    trials: &mut Trials<'_>,
    cluster: &mut Cluster,
    closest: Option<&Distance>,
    named: &Release,
    versions: &str,
) -> Option<Assumption> {
    let proxy = ProxyConfig { version: named.version.to_string(), ..cluster.proxy.clone() };
    if trials.differences(cluster, &proxy).as_deref().map(Distance::weight) == closest.map(Distance::weight) {
        cluster.proxy = proxy;
        return None;
    }
    let file = named.file.as_ref().map(|file| format!("{} ", one_line(file))).unwrap_or_default();
    Some(Assumption::Contradiction(format!(
        "Kubernetes {} in {file}line {}, kube-proxy {versions} in the rules; using the rules",
        named.version, named.line
    )))
}

/// The range of the pods of each family: that around those of all nodes, or around those of most where they are far apart.
fn pod_ranges(cluster: &Cluster) -> Vec<IpNet> {
    let around_all = cluster_cidrs(cluster);
    let of_family = |family: Family| {
        let is_of = |range: &&IpNet| Family::of(range.addr()) == family;
        let mut counts: BTreeMap<IpNet, usize> = BTreeMap::new();
        for range in cluster.nodes.iter().flat_map(|node| &node.pod_cidrs).filter(is_of) {
            *counts.entry(wide(*range, family)).or_default() += 1;
        }
        let most = || counts.iter().max_by_key(|(_, count)| **count).map(|(range, _)| *range);
        around_all.iter().find(is_of).copied().or_else(most)
    };
    Family::ALL.into_iter().filter_map(of_family).collect()
}

/// Whether nothing distinguishes pods of the cluster from other sources.
fn lacks_local_sources(proxy: &ProxyConfig) -> bool {
    proxy.detect_local == DetectLocal::ClusterCidr && proxy.cluster_cidrs.is_empty() && !proxy.masquerade_all
}

/// The releases whose rules are as close to the dump as those of the cluster's release.
fn as_close(trials: &mut Trials<'_>, cluster: &Cluster, closest: Option<&Distance>) -> String {
    let is_as_close = |version: &Profile| {
        let proxy = ProxyConfig { version: version.to_string(), ..cluster.proxy.clone() };
        trials.differences(cluster, &proxy).as_deref().map(Distance::weight) == closest.map(Distance::weight)
    };
    let kinds: Vec<Profile> = Profile::kinds().filter(is_as_close).collect();
    releases::named(&kinds)
}

/// The largest number of differences from the release's rules that are listed.
const SHOWN: usize = 3;

/// Changes the configuration where rules are closer then. Nothing is closer than rules that do not differ.
fn choose(
    trials: &mut Trials<'_>,
    cluster: &mut Cluster,
    closest: &mut Option<Rc<Distance>>,
    change: &dyn Fn(&mut ProxyConfig),
) {
    if closest.as_deref().is_some_and(Distance::is_none) {
        return;
    }
    let mut proxy = cluster.proxy.clone();
    change(&mut proxy);
    let found = trials.differences(cluster, &proxy);
    let is_closer = match (&found, &*closest) {
        (Some(found), Some(closest)) => found.weight() < closest.weight(),
        (found, closest) => found.is_some() && closest.is_none(),
    };
    if is_closer {
        cluster.proxy = proxy;
        *closest = found;
    }
}

/// How far rules are from others.
#[derive(Default)]
struct Distance {
    /// The differences.
    found: Vec<Finding>,
    /// The number of rules that differ in their comments alone.
    comments: usize,
}

impl Distance {
    fn is_none(&self) -> bool {
        self.found.is_empty() && self.comments == 0
    }

    /// Differences count more than comments. A service port that is there under another name hides all its differences.
    fn weight(&self) -> (usize, usize) {
        let is_hidden = |finding: &&Finding| {
            matches!(finding.subject, Subject::Service(_))
                && matches!(finding.difference, Difference::Unexpected(Fact::Whole) | Difference::Missing(Fact::Whole))
        };
        (self.found.len() + HIDDEN * self.found.iter().filter(is_hidden).count(), self.comments)
    }
}

/// How many differences a whole service port counts for.
const HIDDEN: usize = 20;

/// Configurations that were tried. Comparing the rules of thousands of services takes long, and many releases write the same.
struct Trials<'d> {
    /// Each dump with its families.
    dumps: Vec<(&'d Dump, Vec<(Family, &'d NodeRules)>)>,
    /// What no text can show.
    made_up: &'d MadeUp,
    /// How many differences matter.
    most: usize,
    /// The rules that were compared last, and what was found.
    last: Option<(Vec<ExpectedRules>, Rc<Distance>)>,
    known: Vec<(ProxyConfig, Option<Rc<Distance>>)>,
}

/// The rules of each part of a dump.
type ExpectedRules = Vec<Option<Rules>>;

impl Trials<'_> {
    /// The differences of the dumps from the rules of a configuration; `None` where there are no such rules.
    fn differences(&mut self, cluster: &Cluster, proxy: &ProxyConfig) -> Option<Rc<Distance>> {
        if let Some((_, found)) = self.known.iter().find(|(known, _)| known == proxy) {
            return found.clone();
        }
        let cluster = Cluster { proxy: proxy.clone(), ..cluster.clone() };
        let expected: Option<Vec<ExpectedRules>> =
            self.dumps.iter().map(|(dump, families)| dump.expected(families, &cluster)).collect();
        let found = expected.map(|expected| self.compared(expected));
        self.known.push((cluster.proxy, found.clone()));
        found
    }

    fn compared(&mut self, expected: Vec<ExpectedRules>) -> Rc<Distance> {
        if let Some((last, found)) = &self.last
            && *last == expected
        {
            return found.clone();
        }
        let mut distance = Distance::default();
        for ((dump, _), expected) in self.dumps.iter().zip(&expected) {
            distance.found.extend(dump.differences(expected, self.made_up, self.most));
            distance.comments += dump.differing_comments(expected);
        }
        let found = Rc::new(distance);
        self.last = Some((expected, found.clone()));
        found
    }
}

/// The configuration that the rules show, of the newest release.
fn read(inferred: &InferredProxy, around: &Surroundings, mode: ProxyMode) -> ProxyConfig {
    let newest = Profile::all().next_back().map(|profile| profile.to_string());
    let detect_local = match (&inferred.local_interface, around.node_range) {
        (Some(name), _) => match name.strip_suffix(['+', '*']) {
            Some(prefix) => DetectLocal::InterfaceNamePrefix(prefix.to_owned()),
            None => DetectLocal::BridgeInterface(name.clone()),
        },
        (None, Some(_)) => DetectLocal::NodeCidr,
        (None, None) => DetectLocal::ClusterCidr,
    };
    // A range that holds no address that can serve, for a family that no address serves.
    let nowhere = inferred.families_without_node_ports.iter().map(|family| loopback(*family));
    let listed: Vec<IpNet> = inferred.node_port_addresses.iter().copied().map(IpNet::from).chain(nowhere).collect();
    let is_usual = match mode {
        ProxyMode::Iptables => listed.is_empty(),
        // kube-proxy's default in this mode is the primary address of each family.
        ProxyMode::Nftables => {
            let is_restricted =
                inferred.families_on_all_addresses.is_empty() || !inferred.families_on_unshown_addresses.is_empty();
            is_restricted && inferred.families_without_node_ports.is_empty() && listed.len() <= 1
        }
    };
    // A list of one family alone says nothing of the other, which has node ports on all addresses then.
    let is_everywhere = match mode {
        ProxyMode::Iptables => !inferred.families_on_all_addresses.is_empty(),
        ProxyMode::Nftables => {
            let is_listed = |family: &Family| listed.iter().any(|range| Family::of(range.addr()) == *family);
            !Family::ALL.iter().any(is_listed) || inferred.families_on_all_addresses.iter().any(is_listed)
        }
    };
    let everywhere = ["0.0.0.0/0", "::/0"].into_iter().filter_map(|range| range.parse().ok());
    let defaults = ProxyConfig::default();
    ProxyConfig {
        mode,
        version: newest.unwrap_or(defaults.version.clone()),
        cluster_cidrs: if detect_local == DetectLocal::ClusterCidr {
            one_of_each_family(&inferred.local_sources)
        } else {
            Vec::new()
        },
        detect_local,
        masquerade_all: inferred.masquerades_all,
        masquerade_bit: inferred.masquerade_bit().unwrap_or(defaults.masquerade_bit),
        node_port_addresses: match (is_usual, is_everywhere) {
            (true, _) => Vec::new(),
            (false, true) => everywhere.collect(),
            (false, false) => listed,
        },
        ..defaults
    }
}

/// The first range of each family: kube-proxy has one. Rules of several clusters, or of several times, may show more.
fn one_of_each_family(ranges: &BTreeSet<IpNet>) -> Vec<IpNet> {
    let first = |family: Family| ranges.iter().find(|range| Family::of(range.addr()) == family).copied();
    Family::ALL.into_iter().filter_map(first).collect()
}

/// The ranges of the configuration that the rules of a node contradict, and never show: rules for them are not missing there.
fn of_other_nodes(proxy: &ProxyConfig, dumps: &[Dump]) -> Vec<IpNet> {
    let contradict = |range: &IpNet, dump: &Dump| {
        let shown = &dump.inferred.proxy.local_sources;
        !shown.contains(range) && shown.iter().any(|other| Family::of(other.addr()) == Family::of(range.addr()))
    };
    let all = proxy.cluster_cidrs.iter().filter(|range| dumps.iter().any(|dump| contradict(range, dump)));
    all.filter(|range| dumps.iter().any(|dump| dump.inferred.proxy.local_sources.contains(range))).copied().collect()
}

/// Sets addresses of node ports that none of a node is among: then no rule leads to node ports in iptables mode.
fn serve_no_node_ports(proxy: &mut ProxyConfig) {
    if !proxy.node_port_addresses.is_empty() {
        return;
    }
    proxy.node_port_addresses = Family::ALL.map(loopback).to_vec();
    proxy.localhost_node_ports = false;
}

fn serves_no_node_ports(proxy: &ProxyConfig) -> bool {
    let listed = &proxy.node_port_addresses;
    !listed.is_empty() && listed.iter().all(|range| range.addr().is_loopback()) && !proxy.localhost_node_ports
}

fn loopback(family: Family) -> IpNet {
    match family {
        Family::Ipv4 => IpNet::new_assert(Ipv4Addr::LOCALHOST.into(), 8).trunc(),
        Family::Ipv6 => IpNet::from(IpAddr::from(Ipv6Addr::LOCALHOST)),
    }
}

fn local_sources(proxy: &ProxyConfig) -> String {
    let ranges: Vec<String> = proxy.cluster_cidrs.iter().map(ToString::to_string).collect();
    match &proxy.detect_local {
        DetectLocal::ClusterCidr if ranges.is_empty() => {
            "no clusterCIDR: no rule masquerades connections from outside the pod range to cluster IPs".to_owned()
        }
        DetectLocal::ClusterCidr => format!("clusterCIDR {}", ranges.join(",")),
        DetectLocal::NodeCidr => "detectLocalMode NodeCIDR".to_owned(),
        DetectLocal::BridgeInterface(name) => format!("detectLocalMode BridgeInterface, {name}"),
        DetectLocal::InterfaceNamePrefix(prefix) => format!("detectLocalMode InterfaceNamePrefix, {prefix}"),
    }
}
