//! The result of inference, as values.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::cluster::{Family, ObjectName, Protocol};
use crate::iptables::ChainHash;

/// Service ports and settings inferred from rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inferred {
    /// The service ports, by name.
    pub ports: Vec<InferredPort>,
    /// The configuration of kube-proxy.
    pub proxy: InferredProxy,
}

/// What rules reveal about a service port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InferredPort {
    /// The service; if no rule names it, the hash in its chains' names.
    pub service: ObjectName,
    /// The port's name; empty if it has none.
    pub name: String,
    /// Its protocol.
    pub protocol: Protocol,
    /// The port on its addresses.
    pub port: Option<u16>,
    /// Cluster IPs, one of each family.
    pub cluster_ips: BTreeSet<IpAddr>,
    /// Addresses in other rules for a cluster IP: they contradict those above.
    pub other_cluster_ips: BTreeSet<IpAddr>,
    /// External IPs; in nftables mode also load balancer addresses without a source-range check.
    pub external_ips: Vec<IpAddr>,
    /// Load balancer addresses.
    pub load_balancer: Vec<IpAddr>,
    /// The port on nodes.
    pub node_port: Option<u16>,
    /// The port on nodes in rules without effect: those of another service port with the same number come first.
    pub shadowed_node_port: Option<u16>,
    /// The health check node port.
    pub health_check: Option<u16>,
    /// The source ranges of the load balancer; empty if all sources are allowed.
    pub source_ranges: Vec<IpNet>,
    /// Whether traffic to the load balancer is dropped unless it is from source ranges, and nothing shows those.
    pub has_unshown_source_ranges: bool,
    /// The endpoints of traffic with policy Cluster.
    pub endpoints: BTreeSet<SocketAddr>,
    /// Endpoints for traffic with policy Local: they are on the rules' own node.
    pub local: BTreeSet<SocketAddr>,
    /// Whether cluster IPs have policy Local.
    pub is_internal_local: bool,
    /// Whether other addresses have policy Local.
    pub is_external_local: bool,
    /// Whether traffic is dropped because all endpoints are on other nodes (policy Local).
    pub has_endpoints_elsewhere: bool,
    /// The number of endpoints that the probabilities of its rules are for, besides those that the text shows.
    pub hidden_endpoints: usize,
    /// The families in which rules translate its connections, but the destinations are not in the text.
    pub unshown_endpoints: BTreeSet<Family>,
    /// Whether rules for policy Local lead to endpoints, which are on the rules' node.
    pub has_local_endpoints: bool,
    /// The port of its endpoints where nothing shows one of them; rules do not name it.
    pub target: Option<u16>,
    /// The families of its rules.
    pub families: BTreeSet<Family>,
    /// The affinity timeout in seconds.
    pub affinity: Option<u32>,
    /// The hash in the names of its chains, in iptables mode.
    pub hash: Option<ChainHash>,
    /// The chain of its load balancer, if it has rules but none leads to it: those with the addresses are lost.
    pub unreached_chain: Option<String>,
    /// Endpoints whose comment or masquerade rule names another address, each with that address.
    pub also: Vec<(SocketAddr, SocketAddr)>,
}

/// The timeout of session affinity in seconds, where a Service gives none: the API's default.
pub(super) const DEFAULT_AFFINITY_TIMEOUT: u32 = 10_800;

/// The start of the names that are made up for services that no rule names.
pub(super) const UNNAMED: &str = "unnamed-";

impl InferredPort {
    /// Creates a port of which nothing else is known. `name` is kube-proxy's: `namespace/name:port`.
    pub(super) fn named(name: &str, protocol: Protocol) -> Self {
        let (namespace, rest) = name.split_once('/').unwrap_or(("default", name));
        let (service, port) = rest.split_once(':').unwrap_or((rest, ""));
        Self {
            service: ObjectName::new(namespace, service),
            name: port.to_owned(),
            protocol,
            port: None,
            cluster_ips: BTreeSet::new(),
            other_cluster_ips: BTreeSet::new(),
            external_ips: Vec::new(),
            load_balancer: Vec::new(),
            node_port: None,
            shadowed_node_port: None,
            health_check: None,
            source_ranges: Vec::new(),
            has_unshown_source_ranges: false,
            endpoints: BTreeSet::new(),
            local: BTreeSet::new(),
            is_internal_local: false,
            is_external_local: false,
            has_endpoints_elsewhere: false,
            hidden_endpoints: 0,
            unshown_endpoints: BTreeSet::new(),
            has_local_endpoints: false,
            target: None,
            families: BTreeSet::new(),
            affinity: None,
            hash: None,
            unreached_chain: None,
            also: Vec::new(),
        }
    }

    /// Returns whether no rule names its service.
    pub fn is_unnamed(&self) -> bool {
        self.service.name.starts_with(UNNAMED)
    }

    /// Returns whether rules show no more of it than a chain without rules: of a text that is cut, what it serves is unknown.
    pub fn is_name_alone(&self) -> bool {
        let mut addresses = self.cluster_ips.iter().chain(&self.external_ips).chain(&self.load_balancer);
        let has_endpoints = !self.endpoints.is_empty()
            || !self.local.is_empty()
            || !self.unshown_endpoints.is_empty()
            || self.has_endpoints_elsewhere;
        addresses.next().is_none() && self.node_port.is_none() && !has_endpoints
    }

    /// Returns the names that may be hashed in the names of its chains: up to 1.18 the name of an unnamed port ended in a colon.
    pub fn hashed_names(&self) -> Vec<String> {
        let full = self.full_name();
        let older = self.name.is_empty().then(|| format!("{full}:"));
        std::iter::once(full).chain(older).collect()
    }

    /// Returns kube-proxy's name of the port: `namespace/name:port`, or `namespace/name` if the port has no name.
    pub fn full_name(&self) -> String {
        if self.name.is_empty() { self.service.to_string() } else { format!("{}:{}", self.service, self.name) }
    }

    /// Removes duplicates, and what kube-proxy adds only because of other settings.
    pub(super) fn tidy(&mut self) {
        let mut known = BTreeSet::new();
        self.load_balancer.retain(|ip| known.insert(*ip));
        self.external_ips.retain(|ip| known.insert(*ip));
        let mut known = BTreeSet::new();
        // kube-proxy also allows the load balancer's own address if the ranges contain the node's, for hairpin traffic.
        let is_own =
            |range: &IpNet| range.prefix_len() == range.max_prefix_len() && self.load_balancer.contains(&range.addr());
        self.source_ranges.retain(|range| !is_own(range) && known.insert(*range));
    }

    /// Adds what the rules of the other family reveal about the same port.
    pub(super) fn join(&mut self, other: Self) {
        self.port = self.port.or(other.port);
        self.cluster_ips.extend(other.cluster_ips);
        self.other_cluster_ips.extend(other.other_cluster_ips);
        self.external_ips.extend(other.external_ips);
        self.load_balancer.extend(other.load_balancer);
        self.node_port = self.node_port.or(other.node_port);
        self.shadowed_node_port = self.shadowed_node_port.or(other.shadowed_node_port);
        self.health_check = self.health_check.or(other.health_check);
        self.source_ranges.extend(other.source_ranges);
        self.has_unshown_source_ranges |= other.has_unshown_source_ranges;
        self.endpoints.extend(other.endpoints);
        self.local.extend(other.local);
        self.is_internal_local |= other.is_internal_local;
        self.is_external_local |= other.is_external_local;
        self.has_endpoints_elsewhere |= other.has_endpoints_elsewhere;
        self.hidden_endpoints += other.hidden_endpoints;
        self.unshown_endpoints.extend(other.unshown_endpoints);
        self.has_local_endpoints |= other.has_local_endpoints;
        self.target = self.target.or(other.target);
        self.families.extend(other.families);
        self.affinity = self.affinity.or(other.affinity);
        self.hash = self.hash.or(other.hash);
        self.unreached_chain = self.unreached_chain.take().or(other.unreached_chain);
        self.also.extend(other.also);
    }
}

/// Completes the ports that rules of one node show, once all of them are read.
///
/// All ports of a Service have its policies. With policy Local, connections are dropped unless an endpoint is on the node, so where they are
/// translated, and the text does not show to what, one is there.
pub(super) fn complete_ports(ports: &mut [InferredPort]) {
    let local: BTreeSet<ObjectName> =
        ports.iter().filter(|port| port.is_external_local).map(|port| port.service.clone()).collect();
    for port in ports {
        port.tidy();
        let is_translated = !port.unshown_endpoints.is_empty() && !port.has_endpoints_elsewhere;
        port.has_local_endpoints |= is_translated && local.contains(&port.service);
    }
}

/// What rules reveal about kube-proxy's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InferredProxy {
    /// The source ranges of local pods.
    pub local_sources: BTreeSet<IpNet>,
    /// The input interface of packets from local pods; a name prefix if it ends with `+` or `*`.
    pub local_interface: Option<String>,
    /// Whether all traffic to cluster IPs is masqueraded.
    pub masquerades_all: bool,
    /// The bits of the packet mark that rules use for masquerading, each with the number of these rules.
    pub masquerade_bits: BTreeMap<u8, usize>,
    /// The addresses on which node ports are served, if rules name them, including loopback addresses.
    pub node_port_addresses: BTreeSet<IpAddr>,
    /// The families in which node ports are served on every address.
    pub families_on_all_addresses: BTreeSet<Family>,
    /// The families in which node ports are served on no address of the node (nftables mode).
    pub families_without_node_ports: BTreeSet<Family>,
    /// The families in which node ports are served on addresses of a set that the text does not show (nftables mode).
    pub families_on_unshown_addresses: BTreeSet<Family>,
    /// The ranges of cluster IPs for which traffic to unallocated addresses is rejected.
    pub service_cidrs: BTreeSet<IpNet>,
    /// Endpoints that rules treat as those of their own node, in addition to the [`local`](InferredPort::local) ones of service ports.
    pub here: BTreeSet<IpAddr>,
    /// Endpoints that rules treat as those of other nodes.
    pub elsewhere: BTreeSet<IpAddr>,
    /// Endpoints with their ports that rules do not treat as those of their own node.
    pub not_in_hairpin_set: BTreeSet<SocketAddr>,
    /// The endpoints that `hairpin-connections` lists: those of their own node.
    pub in_hairpin_set: BTreeSet<(Protocol, SocketAddr)>,
}

impl InferredProxy {
    /// Returns the masquerade bit of the packet mark: that of most rules, as one of them may differ from the others.
    pub fn masquerade_bit(&self) -> Option<u8> {
        let most = self.masquerade_bits.iter().max_by_key(|(bit, rules)| (**rules, Reverse(**bit)));
        most.map(|(bit, _)| *bit)
    }

    /// Records a rule that sets, clears or compares these bits of the packet mark.
    pub(super) fn uses_mark(&mut self, bits: u32) {
        if bits.is_power_of_two()
            && let Ok(bit) = u8::try_from(bits.trailing_zeros())
        {
            *self.masquerade_bits.entry(bit).or_default() += 1;
        }
    }

    pub(super) fn join(&mut self, other: Self) {
        self.local_sources.extend(other.local_sources);
        self.local_interface = self.local_interface.take().or(other.local_interface);
        self.masquerades_all |= other.masquerades_all;
        for (bit, rules) in other.masquerade_bits {
            *self.masquerade_bits.entry(bit).or_default() += rules;
        }
        self.node_port_addresses.extend(other.node_port_addresses);
        self.families_on_all_addresses.extend(other.families_on_all_addresses);
        self.families_without_node_ports.extend(other.families_without_node_ports);
        self.families_on_unshown_addresses.extend(other.families_on_unshown_addresses);
        self.service_cidrs.extend(other.service_cidrs);
        self.here.extend(other.here);
        self.elsewhere.extend(other.elsewhere);
        self.not_in_hairpin_set.extend(other.not_in_hairpin_set);
        self.in_hairpin_set.extend(other.in_hairpin_set);
    }
}

/// Which packets to a cluster IP are marked for masquerading.
pub(super) enum Marked<'a> {
    /// All packets.
    Always,
    /// Packets from outside a range.
    Outside(IpNet),
    /// Packets that arrive on another interface.
    NotBy(&'a str),
}

impl InferredProxy {
    /// Records which packets to a cluster IP are marked for masquerading.
    pub(super) fn marks(&mut self, marked: &Marked<'_>) {
        match marked {
            Marked::Always => self.masquerades_all = true,
            Marked::Outside(range) => {
                self.local_sources.insert(*range);
            }
            Marked::NotBy(interface) => self.local_interface = Some((*interface).to_owned()),
        }
    }
}
