//! Inference from an nftables table.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};

use super::endpoints::endpoints;
use super::model::{self, Inferred, InferredPort, InferredProxy, Marked};
use super::named_endpoints::{NamedEndpoint, named_endpoints};
use crate::chains::nftables::{
    Known, Names, address, frontend, frontend_of_key, is_base, kind_of, marks, name_of, protocol_of, source_ranges,
};
use crate::chains::{self, Frontend, Kind, Policy};
use crate::cluster::{Family, ObjectName, Protocol};
use crate::nftables::{
    Addresses, Chain, Condition, Element, Interfaces, Key, MarkChange, Rule, Set, Side, Statement, Table, Verdict,
};

/// Reads the table of a family.
pub(super) fn read(table: &Table) -> Inferred {
    let names = Names::of(table);
    let keys = |name: &str| {
        let elements = table.set(name).map(|set| set.elements.as_slice()).unwrap_or_default();
        elements.iter().map(|element| element.key.clone()).collect::<BTreeSet<_>>()
    };
    let cluster_ips = table.set("cluster-ips").map(|_| keys("cluster-ips"));
    let checked = keys("firewall-ips");
    let known = Known([&names, &names]);
    let mut reader = Reader {
        known,
        cluster_ips,
        checked,
        family: table.family,
        ports: BTreeMap::new(),
        marked: Vec::new(),
        proxy: InferredProxy::default(),
        served: BTreeSet::new(),
        firewalls: BTreeSet::new(),
    };
    let asks = |rule: &Rule| rule.conditions.iter().filter_map(Condition::set).any(|(set, _)| **set == *"nodeport-ips");
    match table.set("nodeport-ips") {
        None if table.chains.iter().flat_map(|chain| &chain.rules).any(asks) => {
            reader.proxy.families_on_unshown_addresses.insert(table.family);
        }
        None => drop(reader.proxy.families_on_all_addresses.insert(table.family)),
        // Without node ports, an empty set means nothing: 1.30 writes one for a family in which the node has no address.
        Some(set) if set.elements.is_empty() && has_node_ports(table) => {
            reader.proxy.families_without_node_ports.insert(table.family);
        }
        Some(_) => {}
    }
    table.sets.iter().for_each(|set| reader.set(set));
    table.chains.iter().for_each(|chain| reader.chain(chain));
    for of_group in endpoints(&chains::nftables::Table::new(table, table.chains.len())) {
        if is_base(of_group.base) {
            let port = reader.port(of_group.base);
            of_group.add_to(port);
        }
    }
    for NamedEndpoint { service, endpoint, affinity } in named_endpoints(table) {
        // Other endpoints may be those of a Service that was deleted.
        if let Some(port) = reader.ports.get_mut(&service).filter(|_| reader.served.contains(&service)) {
            port.endpoints.insert(endpoint);
            port.affinity = port.affinity.or(affinity);
        }
    }
    let mut shown = reader.finish();
    // nft prints sets first: if nothing follows this one, the text may end within its elements.
    let is_followed =
        |set: &&Set| !table.chains.is_empty() || table.sets.last().is_some_and(|last| last.name != set.name);
    if let Some(hairpins) = table.set("hairpin-connections").filter(is_followed) {
        place_endpoints(&mut shown, hairpins);
    }
    shown
}

fn has_node_ports(table: &Table) -> bool {
    let has_elements = |name| table.set(name).is_some_and(|map| !map.elements.is_empty());
    has_elements("service-nodeports") || has_elements("no-endpoint-nodeports")
}

struct Reader<'a> {
    known: Known<'a>,
    /// The elements of `cluster-ips`, if it is in the text.
    cluster_ips: Option<BTreeSet<Vec<Key>>>,
    /// The keys of addresses with a source-range check.
    checked: BTreeSet<Vec<Key>>,
    family: Family,
    /// Service ports by the part of their chains' names after the prefix.
    ports: BTreeMap<String, InferredPort>,
    /// Which packets to an address are marked for masquerading.
    marked: Vec<(IpAddr, Marked<'a>)>,
    proxy: InferredProxy,
    /// The service ports with a chain that map elements jump to: those that have endpoints.
    served: BTreeSet<String>,
    /// The service ports with chains of source ranges.
    firewalls: BTreeSet<String>,
}

impl<'a> Reader<'a> {
    fn port(&mut self, service: &str) -> &mut InferredPort {
        let port = self.ports.entry(service.to_owned()).or_insert_with(|| {
            let protocol = protocol_of(service).parse().unwrap_or(Protocol::Tcp);
            InferredPort::named(&name_of(service), protocol)
        });
        port.families.insert(self.family);
        port
    }

    fn set(&mut self, set: &Set) {
        match &*set.name {
            "nodeport-ips" => self.proxy.node_port_addresses.extend(set.elements.iter().filter_map(only_address)),
            "service-ips" | "service-nodeports" | "no-endpoint-services" | "no-endpoint-nodeports" => {
                set.elements.iter().for_each(|element| self.element(element));
            }
            _ => {}
        }
    }

    /// Reads an element of a map of services.
    fn element(&mut self, element: &Element) {
        let (Some(service), Some(frontend)) = (self.known.service_of(element), frontend_of_key(&element.key)) else {
            return;
        };
        let kind = match &element.verdict {
            Some(Verdict::Goto(chain) | Verdict::Jump(chain)) => kind_of(chain).map(|(kind, _)| kind),
            _ => None,
        };
        let is_dropped = element.verdict == Some(Verdict::Drop);
        let is_cluster_ip = frontend.address.is_some_and(|ip| match (&kind, &self.cluster_ips) {
            // External addresses lead to chains of their own.
            (Some(Kind::Group(_)), _) => true,
            (_, Some(all)) => all.contains([Key::Address(ip)].as_slice()),
            // Where nothing shows the cluster IPs, a drop is that of an external address: few Services have the internal policy Local.
            (kind, None) => !is_dropped && !matches!(kind, Some(Kind::External | Kind::Firewall)),
        });
        let is_checked = self.checked.contains(&element.key);
        let is_local = is_dropped || kind == Some(Kind::Group(Policy::Local));
        if kind.is_some() {
            self.served.insert(service.clone());
        }
        let port = self.port(&service);
        match frontend.address {
            Some(ip) => {
                port.port = Some(frontend.port);
                match (is_cluster_ip, is_checked) {
                    (true, _) => drop(port.cluster_ips.insert(ip)),
                    (false, true) => {
                        port.load_balancer.push(ip);
                        port.has_unshown_source_ranges = true;
                    }
                    (false, false) => port.external_ips.push(ip),
                }
            }
            None => port.node_port = Some(frontend.port),
        }
        port.has_endpoints_elsewhere |= is_dropped;
        port.has_local_endpoints |= kind == Some(Kind::Group(Policy::Local));
        port.is_internal_local |= is_local && is_cluster_ip;
        port.is_external_local |= is_local && !is_cluster_ip;
    }

    fn chain(&mut self, chain: &'a Chain) {
        match kind_of(&chain.name) {
            Some((Kind::Group(policy), service)) => {
                chain.rules.iter().for_each(|rule| self.marks(rule));
                // The element that leads here may be lost, or not shown (`nft list chain`): kube-proxy marks traffic to cluster IPs here,
                // in the chain of their policy.
                let marking = chain.rules.iter().filter(|rule| rule.statements.iter().any(marks));
                let all = self.cluster_ips.as_ref();
                let is_known = |ip: &IpAddr| all.is_none_or(|all| all.contains([Key::Address(*ip)].as_slice()));
                let own = marking.filter_map(|rule| Some((address(rule, Side::Destination)?, frontend(rule))));
                let own: Vec<(IpAddr, Option<Frontend>)> = own.filter(|(ip, _)| is_known(ip)).collect();
                let port = self.port(service);
                port.is_internal_local |= policy == Policy::Local && !own.is_empty();
                port.cluster_ips.extend(own.iter().map(|(ip, _)| *ip));
                port.port = port.port.or_else(|| own.iter().find_map(|(_, frontend)| Some(frontend.as_ref()?.port)));
            }
            Some((Kind::External, service)) => {
                let asks_for_the_node = |rule: &Rule| rule.conditions.contains(&Condition::Local(Side::Source));
                let leads_to_local = |rule: &Rule| rule.statements.iter().any(leads_to_local);
                let port = self.port(service);
                port.has_local_endpoints |= chain.rules.iter().any(leads_to_local);
                port.is_external_local |=
                    chain.rules.iter().any(|rule| asks_for_the_node(rule) || leads_to_local(rule));
                self.proxy.local_sources.extend(chain.rules.iter().filter_map(|rule| source(rule, false)));
            }
            Some((Kind::Firewall, service)) => {
                let texts = chain.rules.iter().flat_map(source_ranges);
                let ranges: Vec<IpNet> = texts.flat_map(|range| prefixes(&range)).collect();
                // kube-proxy writes such a chain for source ranges only: one without any has lost its rule.
                if !ranges.is_empty() {
                    self.firewalls.insert(service.to_owned());
                }
                self.port(service).source_ranges.extend(ranges);
            }
            Some((Kind::Endpoint, _)) => {}
            None if *chain.name == *"cluster-ips-check" => {
                let dropped = chain.rules.iter().filter(|rule| rule.statements == [Statement::Verdict(Verdict::Drop)]);
                self.proxy.service_cidrs.extend(dropped.flat_map(destinations));
            }
            None => chain.rules.iter().for_each(|rule| self.in_frame(rule)),
        }
    }

    /// Reads a rule that belongs to no service: the masquerade bit and, if one rule covers all cluster IPs, which packets to them are
    /// marked.
    fn in_frame(&mut self, rule: &'a Rule) {
        let compared = rule.conditions.iter().filter_map(|condition| match condition {
            Condition::Mark(mark) => Some(mark.mask),
            _ => None,
        });
        let changed = rule.statements.iter().filter_map(|statement| match statement {
            Statement::Mark(MarkChange::Set(bits) | MarkChange::Flip(bits)) => Some(*bits),
            _ => None,
        });
        compared.chain(changed).for_each(|bits| self.proxy.uses_mark(bits));
        let is_to_cluster_ips = rule.conditions.iter().any(|condition| match condition {
            Condition::Address { side: Side::Destination, negated: false, value: Addresses::Set(name) } => {
                **name == *"cluster-ips"
            }
            _ => false,
        });
        if is_to_cluster_ips && rule.statements.iter().any(marks) {
            self.proxy.marks(&marked(rule));
        }
    }

    /// Records which packets a rule marks for masquerading.
    fn marks(&mut self, rule: &'a Rule) {
        let Some(ip) = address(rule, Side::Destination) else { return };
        if !rule.statements.iter().any(marks) {
            return;
        }
        self.marked.push((ip, marked(rule)));
    }

    fn finish(self) -> Inferred {
        let Self { family, cluster_ips: listed, mut proxy, marked, mut ports, served, firewalls, .. } = self;
        give_lone_cluster_ip(&listed.unwrap_or_default(), &mut ports);
        ports.iter_mut().for_each(|(service, port)| port.has_unshown_source_ranges &= !firewalls.contains(service));
        let cluster_ips: BTreeSet<IpAddr> = ports.values().flat_map(|port| port.cluster_ips.iter().copied()).collect();
        for (_, port) in ports.iter_mut().filter(|(service, _)| served.contains(*service)) {
            if port.endpoints.is_empty() && port.local.is_empty() {
                port.unshown_endpoints.insert(family);
            }
        }
        let to_cluster_ips = marked.iter().filter(|(ip, _)| cluster_ips.contains(ip));
        to_cluster_ips.for_each(|(_, marked)| proxy.marks(marked));
        let mut ports: Vec<InferredPort> = ports.into_values().collect();
        model::complete_ports(&mut ports);
        Inferred { ports, proxy }
    }
}

/// Gives a Service without a cluster IP the only one in the set that no element shows with its Service, as where the text ends before the map
/// of Services.
fn give_lone_cluster_ip(listed: &BTreeSet<Vec<Key>>, ports: &mut BTreeMap<String, InferredPort>) {
    let used: BTreeSet<IpAddr> = ports.values().flat_map(|port| port.cluster_ips.iter().copied()).collect();
    let lone = listed.iter().filter_map(|key| match key.as_slice() {
        [Key::Address(ip)] => Some(*ip).filter(|ip| !used.contains(ip)),
        _ => None,
    });
    let served: BTreeSet<&ObjectName> =
        ports.values().filter(|port| !port.cluster_ips.is_empty()).map(|port| &port.service).collect();
    let all: BTreeSet<&ObjectName> = ports.values().map(|port| &port.service).collect();
    let lacking: Vec<ObjectName> = all.difference(&served).map(|name| (*name).clone()).collect();
    if let ([ip], [service]) = (lone.collect::<Vec<_>>().as_slice(), lacking.as_slice()) {
        let own = ports.values_mut().filter(|port| port.service == *service);
        own.for_each(|port| _ = port.cluster_ips.insert(*ip));
    }
}

/// Finds local endpoints: connections of an endpoint to itself are masqueraded on its own node, so the set lists that node's endpoints
/// (from 1.36).
fn place_endpoints(shown: &mut Inferred, hairpins: &Set) {
    let addresses = hairpins.elements.iter().filter_map(|element| match element.key.first() {
        Some(Key::Address(ip)) => Some(*ip),
        _ => None,
    });
    shown.proxy.here.extend(addresses);
    let sockets = hairpins.elements.iter().filter_map(|element| match element.key.as_slice() {
        [Key::Address(ip), _, Key::Protocol(protocol), Key::Port(port)] => {
            Some((*protocol, SocketAddr::new(*ip, *port)))
        }
        _ => None,
    });
    shown.proxy.in_hairpin_set = sockets.collect();
    let listed: BTreeSet<SocketAddr> = shown.proxy.in_hairpin_set.iter().map(|(_, endpoint)| *endpoint).collect();
    let all = shown.ports.iter().flat_map(|port| port.endpoints.iter().chain(&port.local)).copied();
    shown.proxy.not_in_hairpin_set = all.filter(|endpoint| !listed.contains(endpoint)).collect();
    let all = shown.ports.iter().flat_map(|port| &port.endpoints).map(|endpoint| endpoint.ip());
    shown.proxy.elsewhere = all.filter(|ip| !shown.proxy.here.contains(ip)).collect();
}

/// Returns whether a statement jumps to the chain of local endpoints.
fn leads_to_local(statement: &Statement) -> bool {
    let next = match statement {
        Statement::Verdict(Verdict::Goto(next) | Verdict::Jump(next)) => kind_of(next),
        _ => None,
    };
    matches!(next, Some((Kind::Group(Policy::Local), _)))
}

/// Returns which packets a rule marks, by source.
fn marked(rule: &Rule) -> Marked<'_> {
    let interface = rule.conditions.iter().find_map(|condition| match condition {
        Condition::Interfaces(Interfaces { output: false, negated: true, names, .. }) => {
            names.first().map(|name| &**name)
        }
        _ => None,
    });
    match (source(rule, true), interface) {
        (Some(range), _) => Marked::Outside(range),
        (None, Some(name)) => Marked::NotBy(name),
        (None, None) => Marked::Always,
    }
}

/// Splits a range into prefixes: `10.0.0.0/8`, `10.0.0.1`, `10.0.0.1-10.0.0.6`.
fn prefixes(range: &str) -> Vec<IpNet> {
    let ends = range.split_once('-').map(|(first, last)| (first.parse(), last.parse()));
    match ends {
        Some((Ok(IpAddr::V4(first)), Ok(IpAddr::V4(last)))) => {
            Ipv4Subnets::new(first, last, 0).map(IpNet::V4).collect()
        }
        Some((Ok(IpAddr::V6(first)), Ok(IpAddr::V6(last)))) => {
            Ipv6Subnets::new(first, last, 0).map(IpNet::V6).collect()
        }
        Some(_) => Vec::new(),
        None => range.parse().ok().or_else(|| range.parse::<IpAddr>().ok().map(IpNet::from)).into_iter().collect(),
    }
}

/// Returns the destination ranges that a rule matches.
fn destinations(rule: &Rule) -> Vec<IpNet> {
    let of = |value: &Addresses| match value {
        Addresses::Prefix(range) => vec![*range],
        Addresses::Ranges(ranges) => ranges.iter().flat_map(|range| prefixes(&range.to_string())).collect(),
        Addresses::One(_) | Addresses::Set(_) => Vec::new(),
    };
    let destinations = rule.conditions.iter().map(|condition| match condition {
        Condition::Address { side: Side::Destination, negated: false, value } => of(value),
        _ => Vec::new(),
    });
    destinations.flatten().collect()
}

/// Returns the source range that a rule matches, or excludes if `negated`.
fn source(rule: &Rule, negated: bool) -> Option<IpNet> {
    rule.conditions.iter().find_map(|condition| match condition {
        Condition::Address { side: Side::Source, negated: not, value: Addresses::Prefix(range) } if *not == negated => {
            Some(*range)
        }
        _ => None,
    })
}

fn only_address(element: &Element) -> Option<IpAddr> {
    match element.key.as_slice() {
        [Key::Address(ip)] => Some(*ip),
        _ => None,
    }
}
