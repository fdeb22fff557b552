//! A scenario → the text of one that needs no other file.
//!
//! Everything is written out: addresses and ranges that the scenario's own text left to svclab too. Selectors are replaced by the
//! endpoints that they select.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;
use svclab_rules::cluster::{
    Cluster, ConntrackCleanup, DetectLocal, Endpoint, EndpointSlice, ExternalTrafficPolicy, Family,
    InternalTrafficPolicy, IpMode, Node, ObjectName, Pod, Protocol, ProxyConfig, ProxyMode, Service, ServicePort,
    ServiceType,
};

use super::model::{Cni, CniKind, Install, OtherRules, Overlay, Place, Scenario, Setting, short_name};
use crate::text::one_line;
use crate::yaml::{Fields, Item, document, texts};

/// A test of one probe that expects what is promised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedTest {
    /// Its name.
    pub name: String,
    /// The sender, as scenarios write it.
    pub from: String,
    /// The destination, as scenarios write it.
    pub to: String,
    /// The protocol, where the destination does not determine it.
    pub protocol: Option<Protocol>,
    /// The family, where both ends have both.
    pub family: Option<Family>,
    /// How many flows are sent.
    pub flows: u64,
    /// What is expected.
    pub outcome: PlannedOutcome,
}

/// What is promised of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlannedOutcome {
    /// It is delivered.
    Delivered {
        /// To one of these, as scenarios write it; anywhere where there are none.
        targets: Vec<String>,
        /// The source that the receiver sees, in a word.
        source: Option<&'static str>,
        /// Whether the reply comes from the address asked.
        is_from_vip: bool,
        /// Whether every target gets some of the flows.
        is_spread: bool,
    },
    /// The packet is rejected: the sender gets a TCP reset or an ICMP error.
    Rejected,
    /// The packet is dropped: the sender gets no reply.
    Dropped,
    /// Rejected or dropped.
    Fails,
}

/// Writes a scenario without its tests and with others; `comments` are lines at its top.
pub fn print(scenario: &Scenario, comments: &[String], tests: &[PlannedTest]) -> String {
    let cluster = &scenario.cluster;
    let mut fields = vec![field("name", scenario.name.as_str()), field("cluster", network(scenario))];
    let mut list = |name: &str, items: Vec<Item>| {
        if !items.is_empty() {
            fields.push(field(name, items));
        }
    };
    list("nodes", cluster.nodes.iter().map(|one| node(one, scenario.sysctls.get(&one.name))).collect());
    list("pods", cluster.pods.iter().map(pod).collect());
    list("services", cluster.services.iter().map(service).collect());
    let known = Known::of(cluster);
    list("endpoints", cluster.slices.iter().filter_map(|slice| known.slice(slice)).collect());
    list("hosts", scenario.hosts.iter().map(|host| named(&host.name, [addresses("ips", &host.ips)])).collect());
    if !scenario.rules.is_empty() {
        fields.push(field("rules", rules(&scenario.rules)));
    }
    if !tests.is_empty() {
        fields.push(field("tests", tests.iter().map(test).collect::<Vec<_>>()));
    }
    let comments: String = comments.iter().map(|line| format!("# {}\n", one_line(line))).collect();
    comments + &document(&fields)
}

fn field(name: &str, item: impl Into<Item>) -> (String, Item) {
    (name.to_owned(), item.into())
}

/// An entry with a name and those of some fields that there are.
fn named<const N: usize>(name: &str, others: [Option<(String, Item)>; N]) -> Item {
    std::iter::once(field("name", name)).chain(others.into_iter().flatten()).collect::<Fields>().into()
}

fn addresses(name: &str, ips: &[IpAddr]) -> Option<(String, Item)> {
    (!ips.is_empty()).then(|| field(name, words(ips)))
}

fn words<T: ToString>(all: impl IntoIterator<Item = T>) -> Vec<String> {
    all.into_iter().map(|one| one.to_string()).collect()
}

/// The section `cluster:`.
fn network(scenario: &Scenario) -> Fields {
    let cluster = &scenario.cluster;
    let pods = pod_ranges(cluster);
    let overlaps = |range: &IpNet| pods.iter().any(|pods| pods.contains(range) || range.contains(pods));
    let mut services: BTreeMap<Family, IpNet> = BTreeMap::new();
    for range in cluster.service_cidrs.iter().filter(|range| !overlaps(range)) {
        services.entry(Family::of(range.addr())).or_insert(range.trunc());
    }
    // Without a range nothing drops unallocated addresses, but a scenario has a default range. One allocated address has no others to drop.
    if cluster.proxy.mode == ProxyMode::Nftables {
        for ip in cluster.services.iter().flat_map(|service| &service.cluster_ips) {
            services.entry(Family::of(*ip)).or_insert(IpNet::from(*ip));
        }
    }
    let ports = cluster.services.iter().flat_map(|service| {
        service.ports.iter().filter_map(|port| port.node_port).chain(service.health_check_node_port)
    });
    let (least, most) = ports.fold((30000, 32767), |(least, most), port| (least.min(port), most.max(port)));
    let mut fields = vec![field("podCIDR", words(pods))];
    if !services.is_empty() {
        fields.push(field("serviceCIDR", words(services.into_values())));
    }
    if (least, most) != (30000, 32767) {
        fields.push(field("serviceNodePortRange", format!("{least}-{most}")));
    }
    fields.extend(links(scenario.cni));
    fields.push(field("proxy", proxy(&cluster.proxy)));
    fields
}

/// The smallest range of each family that has the addresses of all pods.
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

fn links(cni: Cni) -> Fields {
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

/// kube-proxy's configuration, without defaults but for what an author looks for.
fn proxy(proxy: &ProxyConfig) -> Fields {
    let defaults = ProxyConfig::default();
    let mode = proxy.mode.as_str();
    let mut fields = vec![field("mode", mode), field("version", proxy.version.as_str())];
    match &proxy.detect_local {
        DetectLocal::ClusterCidr => {}
        DetectLocal::NodeCidr => fields.push(field("detectLocalMode", "NodeCIDR")),
        DetectLocal::BridgeInterface(name) => {
            fields.push(field("detectLocalMode", "BridgeInterface"));
            fields.push(field("detectLocal", vec![field("bridgeInterface", name.as_str())]));
        }
        DetectLocal::InterfaceNamePrefix(prefix) => {
            fields.push(field("detectLocalMode", "InterfaceNamePrefix"));
            fields.push(field("detectLocal", vec![field("interfaceNamePrefix", prefix.as_str())]));
        }
    }
    fields.push(field("clusterCIDR", words(&proxy.cluster_cidrs).join(",")));
    let mut masquerade = Fields::new();
    if proxy.masquerade_all {
        masquerade.push(field("masqueradeAll", true));
    }
    if proxy.masquerade_bit != defaults.masquerade_bit {
        masquerade.push(field("masqueradeBit", u16::from(proxy.masquerade_bit)));
    }
    if !masquerade.is_empty() {
        fields.push(field(mode, masquerade));
    }
    if !proxy.localhost_node_ports {
        fields.push(field("localhostNodePorts", false));
    }
    if proxy.primary_node_ports {
        fields.push(field("nodePortAddresses", vec!["primary"]));
    } else if !proxy.node_port_addresses.is_empty() {
        fields.push(field("nodePortAddresses", words(&proxy.node_port_addresses)));
    }
    let mut conntrack = Fields::new();
    if proxy.tcp_be_liberal {
        conntrack.push(field("tcpBeLiberal", true));
    }
    match &proxy.conntrack_cleanup {
        ConntrackCleanup::OfVersion => {}
        ConntrackCleanup::Off => conntrack.push(field("cleanup", false)),
        ConntrackCleanup::Of(release) => conntrack.push(field("cleanup", release.as_str())),
    }
    if !conntrack.is_empty() {
        fields.push(field("conntrack", conntrack));
    }
    if !proxy.feature_gates.is_empty() {
        let gates: Fields = proxy.feature_gates.iter().map(|(name, on)| field(name, *on)).collect();
        fields.push(field("featureGates", gates));
    }
    fields
}

fn node(node: &Node, sysctls: Option<&BTreeMap<String, Setting>>) -> Item {
    let ranges = (!node.pod_cidrs.is_empty()).then(|| field("podCIDRs", words(&node.pod_cidrs)));
    let labels = (!node.labels.is_empty()).then(|| field("labels", texts(&node.labels)));
    let other_name = node.hostname_override.as_deref().map(|name| field("hostnameOverride", name));
    let settings = sysctls.filter(|settings| !settings.is_empty()).map(|settings| {
        let settings: Fields = settings.iter().map(|(name, setting)| field(name, setting.value.as_str())).collect();
        field("sysctls", settings)
    });
    let [own, external] = [addresses("ips", &node.internal_ips), addresses("externalIPs", &node.external_ips)];
    named(&node.name, [own, external, ranges, labels, other_name, settings])
}

fn namespace(name: &ObjectName) -> Option<(String, Item)> {
    (name.namespace != "default").then(|| field("namespace", name.namespace.as_str()))
}

fn protocol(protocol: Protocol) -> Option<(String, Item)> {
    (protocol != Protocol::Tcp).then(|| field("protocol", protocol.to_string().to_uppercase()))
}

fn pod(pod: &Pod) -> Item {
    let port = |port: &svclab_rules::cluster::ContainerPort| {
        let fields = [
            port.name.as_deref().map(|name| field("name", name)),
            Some(field("containerPort", port.port)),
            protocol(port.protocol),
            port.host_port.map(|number| field("hostPort", number)),
        ];
        Item::Map(fields.into_iter().flatten().collect())
    };
    let ports: Vec<Item> = pod.ports.iter().map(port).collect();
    let own = [
        namespace(&pod.name),
        Some(field("node", pod.node.as_str())),
        addresses("ips", &pod.ips),
        pod.host_network.then(|| field("hostNetwork", true)),
        (!ports.is_empty()).then(|| field("ports", ports)),
    ];
    named(&pod.name.name, own)
}

fn service(service: &Service) -> Item {
    let is_balanced = service.kind == ServiceType::LoadBalancer;
    let has_node_ports = service.ports.iter().any(|port| port.node_port.is_some());
    let kind = match service.kind {
        ServiceType::ClusterIp => None,
        ServiceType::NodePort => Some("NodePort"),
        ServiceType::LoadBalancer => Some("LoadBalancer"),
        ServiceType::ExternalName => Some("ExternalName"),
    };
    let ingress = (!service.load_balancer.is_empty()).then(|| {
        let one = |ingress: &svclab_rules::cluster::LoadBalancerIngress| {
            let mode = (ingress.mode == IpMode::Proxy).then(|| field("ipMode", "Proxy"));
            Item::Map([Some(field("ip", ingress.ip.to_string())), mode].into_iter().flatten().collect())
        };
        let list: Vec<Item> = service.load_balancer.iter().map(one).collect();
        field("status", vec![field("loadBalancer", vec![field("ingress", list)])])
    });
    let affinity = service.affinity_seconds.map(|seconds| {
        let timeout = vec![field("timeoutSeconds", seconds)];
        field("sessionAffinityConfig", vec![field("clientIP", timeout)])
    });
    let is_local = |local: bool, name: &str| local.then(|| field(name, "Local"));
    let fields = [
        namespace(&service.name),
        kind.map(|kind| field("type", kind)),
        (service.kind == ServiceType::ExternalName).then(|| field("externalName", "name.invalid")),
        service.headless.then(|| field("clusterIP", "None")),
        addresses("clusterIPs", &service.cluster_ips),
        (!service.families.is_empty()).then(|| field("ipFamilies", words(&service.families))),
        (service.families.len() > 1).then(|| field("ipFamilyPolicy", "RequireDualStack")),
        (!service.ports.is_empty()).then(|| field("ports", service.ports.iter().map(port).collect::<Vec<_>>())),
        addresses("externalIPs", &service.external_ips),
        ingress,
        (is_balanced && !has_node_ports).then(|| field("allocateLoadBalancerNodePorts", false)),
        (!service.source_ranges.is_empty()).then(|| field("loadBalancerSourceRanges", words(&service.source_ranges))),
        is_local(service.external_traffic_policy == ExternalTrafficPolicy::Local, "externalTrafficPolicy"),
        service.health_check_node_port.map(|number| field("healthCheckNodePort", number)),
        is_local(service.internal_traffic_policy == InternalTrafficPolicy::Local, "internalTrafficPolicy"),
        service.affinity_seconds.map(|_| field("sessionAffinity", "ClientIP")),
        affinity,
        service.publish_not_ready_addresses.then(|| field("publishNotReadyAddresses", true)),
        service.traffic_distribution.as_deref().map(|word| field("trafficDistribution", word)),
        (!service.labels.is_empty()).then(|| field("labels", texts(&service.labels))),
        (!service.annotations.is_empty()).then(|| field("annotations", texts(&service.annotations))),
    ];
    named(&service.name.name, fields)
}

fn port(port: &ServicePort) -> Item {
    let target = port.target_port.as_deref().map(|target| match target.parse::<u16>() {
        Ok(number) => field("targetPort", number),
        Err(_) => field("targetPort", target),
    });
    let fields = [
        (!port.name.is_empty()).then(|| field("name", port.name.as_str())),
        protocol(port.protocol),
        Some(field("port", port.port)),
        target,
        port.node_port.map(|number| field("nodePort", number)),
    ];
    Item::Map(fields.into_iter().flatten().collect())
}

/// What endpoints refer to.
struct Known<'a> {
    services: HashSet<&'a ObjectName>,
    /// The pods that have addresses of their own.
    owners: HashMap<IpAddr, &'a Pod>,
    pods: HashSet<&'a ObjectName>,
    zones: HashMap<&'a str, Option<&'a str>>,
}

impl<'a> Known<'a> {
    fn of(cluster: &'a Cluster) -> Self {
        let own = cluster.pods.iter().filter(|pod| !pod.host_network);
        Self {
            services: cluster.services.iter().map(|service| &service.name).collect(),
            owners: own.flat_map(|pod| pod.ips.iter().map(move |ip| (*ip, pod))).collect(),
            pods: cluster.pods.iter().map(|pod| &pod.name).collect(),
            zones: cluster.nodes.iter().map(|node| (node.name.as_str(), node.zone())).collect(),
        }
    }

    /// The endpoints of a slice; `None` where its Service is unknown: kube-proxy ignores those.
    fn slice(&self, slice: &EndpointSlice) -> Option<Item> {
        self.services.get(&slice.service)?;
        let port = |port: &svclab_rules::cluster::EndpointPort| {
            let fields = [
                (!port.name.is_empty()).then(|| field("name", port.name.as_str())),
                protocol(port.protocol),
                Some(field("port", port.port?)),
            ];
            Some(Item::Map(fields.into_iter().flatten().collect()))
        };
        let ports: Vec<Item> = slice.ports.iter().filter_map(port).collect();
        let fields = vec![
            field("service", short_name(&slice.service)),
            field("addressType", slice.family.to_string()),
            field("ports", ports),
            field("endpoints", slice.endpoints.iter().map(|one| self.endpoint(one)).collect::<Vec<_>>()),
        ];
        Some(fields.into())
    }

    fn endpoint(&self, endpoint: &Endpoint) -> Item {
        let owner = endpoint.addresses.first().and_then(|ip| self.owners.get(ip));
        // A pod in its node's network is found by its name alone.
        let named = endpoint.pod.as_ref().filter(|name| owner.is_none() && self.pods.contains(name));
        let node = endpoint.node.as_deref().filter(|node| owner.is_none_or(|pod| pod.node != *node));
        let node = node.filter(|node| self.zones.contains_key(node));
        let known = endpoint.node.as_deref().and_then(|name| *self.zones.get(name)?);
        let zone = endpoint.zone.as_deref().filter(|zone| known != Some(*zone));
        let Endpoint { ready, serving, terminating, .. } = *endpoint;
        let conditions = [
            Some(field("ready", ready)),
            serving.map(|serving| field("serving", serving)),
            terminating.then(|| field("terminating", true)),
        ];
        let is_usual = ready && serving.is_none() && !terminating && named.is_none();
        let names = |list: &[String]| {
            Item::List(list.iter().map(|name| Item::Map(vec![field("name", name.as_str())])).collect())
        };
        let hints: Fields = [
            endpoint.zone_hints.as_deref().map(|zones| field("forZones", names(zones))),
            endpoint.node_hints.as_deref().map(|nodes| field("forNodes", names(nodes))),
        ]
        .into_iter()
        .flatten()
        .collect();
        let fields = [
            Some(match named {
                Some(name) => field("pod", name.to_string()),
                None => field("addresses", words(&endpoint.addresses)),
            }),
            node.map(|node| field("nodeName", node)),
            zone.map(|zone| field("zone", zone)),
            (!is_usual).then(|| field("conditions", conditions.into_iter().flatten().collect::<Fields>())),
            (!hints.is_empty()).then(|| field("hints", hints)),
        ];
        Item::Map(fields.into_iter().flatten().collect())
    }
}

/// The section `rules:`.
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

fn test(test: &PlannedTest) -> Item {
    let probe = [
        Some(field("from", test.from.as_str())),
        Some(field("to", test.to.as_str())),
        test.protocol.map(|protocol| field("protocol", protocol.to_string().to_lowercase())),
        test.family.map(|family| field("family", family.to_string().to_lowercase())),
        (test.flows > 1).then(|| field("flows", Item::Bare(test.flows.to_string()))),
    ];
    let expect: Fields = match &test.outcome {
        PlannedOutcome::Delivered { targets, source, is_from_vip, is_spread } => {
            let listed = match targets.as_slice() {
                [] => None,
                [one] => Some(field("delivered", one.as_str())),
                all => Some(field("delivered", words(all))),
            };
            let fields = [
                listed,
                source.map(|word| field("source", word)),
                is_from_vip.then(|| field("reply", "from-vip")),
                is_spread.then(|| field("balance", "all")),
            ];
            fields.into_iter().flatten().collect()
        }
        PlannedOutcome::Rejected => vec![field("rejected", true)],
        PlannedOutcome::Dropped => vec![field("dropped", true)],
        PlannedOutcome::Fails => vec![field("fails", true)],
    };
    let probe: Fields = probe.into_iter().flatten().collect();
    Item::Map(vec![field("name", test.name.as_str()), field("probe", probe), field("expect", expect)])
}
