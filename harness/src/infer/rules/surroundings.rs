//! Nodes and pods for the endpoints that rules show.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use svclab_rules::cluster::{Cluster, EndpointSlice, Family, ObjectName};
use svclab_rules::infer::{Inferred, InferredPort};

use super::super::endpoint_pods::{EndpointPod, address_name};
use super::super::merge::Objects;
use super::super::node_port_addresses::own_addresses;
use super::super::objects::{usual_range, wide};
use super::dump::Dump;
use super::shown_nodes::ShownNodes;
use crate::scenario::NODE_RANGES;
use crate::text::{counted, list};

/// The node that rules come from, where nothing names it.
pub(in crate::infer) const HERE: &str = "node-1";

/// The most ranges of pods that become nodes of their own; where there are more, ranges are wider, unless they would not fit then.
const MAX_RANGES: usize = 6;

/// The most Services that are named.
const MAX_NAMED: usize = 5;

/// A node as far as the rules determine it.
#[derive(Debug, Clone, Default)]
pub(super) struct Machine {
    pub(super) name: String,
    /// Its addresses; any where there are none.
    pub(super) addresses: BTreeSet<IpAddr>,
    /// Its pod ranges, at most one of each family; any where there is none.
    pub(super) ranges: Vec<IpNet>,
}

impl Machine {
    /// What is known of it, in words.
    pub(super) fn words(&self) -> String {
        let addresses = self.addresses.iter().map(ToString::to_string);
        let known: Vec<String> = addresses.chain(self.ranges.iter().map(|range| format!("pods in {range}"))).collect();
        known.join(", ")
    }
}

/// The nodes around rules.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    /// The machines; those of the rules come first.
    pub(super) machines: Vec<Machine>,
    /// Made-up endpoints on other nodes, by family, of services of which no other is known.
    pub(super) elsewhere: BTreeMap<Family, IpAddr>,
    /// Made-up endpoints on the node of the rules, by family, of services of which nothing shows any.
    pub(super) here: BTreeMap<Family, IpAddr>,
    /// The range of local pods, where it is that of the node alone.
    pub(super) node_range: Option<IpNet>,
    /// Addresses of pods of the nodes of the rules that only other programs' rules show, such as those of pods with a host port.
    forwarded: BTreeSet<IpAddr>,
    /// How many endpoints are pods.
    pods: usize,
}

impl Surroundings {
    /// The surroundings of the rules of one or several nodes, and what they show together, among the nodes that objects show.
    pub(super) fn of(dumps: &[Dump], inferred: &Inferred, objects: &Objects) -> Self {
        let known = Known::of(inferred, dumps);
        let owners = ShownNodes::of(objects);
        let of_dump = |dump: &Dump| {
            let one = Known::of(&dump.inferred, std::slice::from_ref(dump));
            one.placed(&dump.node, &owners)
        };
        let each: Vec<Known> = dumps.iter().map(of_dump).collect();
        let node_ranges: Vec<Option<IpNet>> = each.iter().map(|one| one.node_range(&known.pods)).collect();
        let mut placing = Placing::of(dumps, &known.local_sources, &owners);
        placing.give_ranges(&known, &each, &node_ranges, &owners);
        placing.give_shown_addresses(&known, dumps);
        placing.give_addresses(&known, &each);
        placing.give_local_ranges(known.unshown_here(inferred), &owners);
        let elsewhere = placing.add_elsewhere(lacking(&placing.clone().named(), inferred), &owners);
        let mut machines = placing.named();
        let is_free = |ip: &IpAddr| !known.pods.contains(ip) && !owners.taken.contains(ip);
        let own_range = |family: Family| machines.first()?.ranges.iter().find(|own| Family::of(own.addr()) == family);
        let here = Family::ALL
            .into_iter()
            .filter_map(|family| Some((family, own_range(family)?.hosts().skip(9).find(is_free)?)));
        let here = here.collect();
        let node_range = node_ranges.into_iter().flatten().next();
        known.complete(&mut machines);
        let pods = known.pods.len() - known.forwarded.len();
        Self { machines, elsewhere, here, node_range, forwarded: known.forwarded, pods }
    }

    /// The node of an endpoint.
    pub(super) fn node_of(&self, endpoint: IpAddr) -> &str {
        node_of(&self.machines, endpoint)
    }

    /// Whether an endpoint is on another node than that of the rules; with those of several nodes, on any but the first.
    pub(super) fn is_elsewhere(&self, endpoint: IpAddr) -> bool {
        is_elsewhere(&self.machines, endpoint)
    }

    /// The made-up endpoints.
    pub(super) fn made_up(&self) -> BTreeSet<IpAddr> {
        self.elsewhere.values().chain(self.here.values()).copied().collect()
    }

    /// The made-up endpoints that Services of a cluster have, in words.
    pub(super) fn made_up_words(&self, cluster: &Cluster) -> Vec<String> {
        let of_endpoint = |ip: &IpAddr| {
            let has = |slice: &&EndpointSlice| slice.endpoints.iter().any(|endpoint| endpoint.addresses.contains(ip));
            let services: BTreeSet<String> =
                cluster.slices.iter().filter(has).map(|slice| slice.service.to_string()).collect();
            let pod = cluster.pods.iter().find(|pod| pod.ips.contains(ip));
            let node = pod.map_or_else(|| self.node_of(*ip), |pod| &*pod.node);
            (!services.is_empty()).then(|| {
                format!("endpoint {ip} on {node} of {}, whose endpoints there nothing shows", list(services, MAX_NAMED))
            })
        };
        self.made_up().iter().filter_map(of_endpoint).collect()
    }

    /// The pods that only other programs' rules show.
    pub(super) fn forwarded_pods(&self) -> Vec<EndpointPod> {
        let has =
            |ip: &&IpAddr| self.machines.iter().flat_map(|machine| &machine.ranges).any(|range| range.contains(*ip));
        let pod = |ip: &IpAddr| EndpointPod {
            name: ObjectName::new("default", address_name(*ip)),
            node: self.node_of(*ip).to_owned(),
            ips: vec![*ip],
        };
        self.forwarded.iter().filter(has).map(pod).collect()
    }

    /// The pods of a cluster that only other programs' rules show, in words.
    pub(super) fn forwarded_words(&self, cluster: &Cluster) -> Option<String> {
        let pods = self.forwarded_pods();
        let mut named = pods.iter().filter(|pod| cluster.pod(&pod.name).is_some()).map(|pod| pod.ips[0]).peekable();
        named.peek()?;
        let named = list(named, MAX_NAMED);
        Some(format!("a pod for each address that other programs' rules translate to, as for a host port: {named}"))
    }

    /// What was assumed, in words.
    pub(super) fn assumptions(&self) -> Vec<String> {
        let machine = |machine: &Machine| {
            let known = machine.words();
            if known.is_empty() { machine.name.clone() } else { format!("{} ({known})", machine.name) }
        };
        let nodes: Vec<String> = self.machines.iter().map(machine).collect();
        let mut assumptions = vec![format!("nodes: {}", nodes.join(", "))];
        if self.pods > 0 {
            assumptions.push(format!(
                "{}: ready pods, each on the node whose pod range contains it",
                counted(self.pods, "endpoint")
            ));
        }
        assumptions
    }
}

/// Machines as they are found: those whose rules are shown, and others.
#[derive(Clone)]
struct Placing {
    own: Vec<Machine>,
    others: Vec<Machine>,
    /// The ranges that rules take for those of pods.
    local_sources: BTreeSet<IpNet>,
    /// The pod ranges of nodes among the objects.
    known: Vec<IpNet>,
}

impl Placing {
    fn of(dumps: &[Dump], local_sources: &BTreeSet<IpNet>, owners: &ShownNodes) -> Self {
        let served = |dump: &Dump| dump.inferred.proxy.node_port_addresses.iter().copied().collect::<Vec<IpAddr>>();
        let here = |dump: &Dump| {
            // Addresses such as that of Docker's bridge are on several nodes.
            let is_on_others =
                |ip: &IpAddr| dumps.iter().any(|other| other.node != dump.node && served(other).contains(ip));
            let own = served(dump).into_iter().filter(|ip| !ip.is_loopback() && !is_on_others(ip));
            Machine { name: dump.node.clone(), addresses: own.collect(), ranges: Vec::new() }
        };
        let known = owners.ranges.iter().map(|(range, _)| *range).collect();
        let own = dumps.iter().map(here).collect();
        Self { own, others: Vec::new(), local_sources: local_sources.clone(), known }
    }

    /// Ranges of pods: those that rules attribute to their own node, and the rest to others.
    fn give_ranges(&mut self, known: &Known, each: &[Known], node_ranges: &[Option<IpNet>], owners: &ShownNodes) {
        for family in Family::ALL {
            let of_family = |range: &IpNet| Family::of(range.addr()) == family;
            let of_rules: BTreeSet<IpNet> = node_ranges.iter().flatten().copied().filter(of_family).collect();
            let of_objects = owners.ranges.iter().map(|(range, _)| *range).filter(of_family);
            let holds_pods = |range: &IpNet| known.pods.iter().any(|ip| range.contains(ip));
            let is_apart = |range: &IpNet| !of_rules.iter().any(|own| own.contains(range) || range.contains(own));
            let of_objects = of_objects.filter(holds_pods).filter(is_apart);
            let given: BTreeSet<IpNet> = of_objects.chain(of_rules.iter().copied()).collect();
            let mut ranges = known.ranges(family, &given);
            for ((machine, one), node_range) in self.own.iter_mut().zip(each).zip(node_ranges) {
                let own = one.own_range(&ranges, node_range.filter(of_family));
                machine.ranges.extend(own.map(|own| ranges.remove(own)));
            }
            for (number, range) in ranges.into_iter().enumerate() {
                if self.others.len() <= number {
                    self.others.push(Machine::default());
                }
                self.others[number].ranges.push(range);
            }
        }
    }

    /// Addresses of the machines that the text lists, one of each family of the cluster: the one that is an endpoint, as that of an API
    /// server, else the first that is neither a pod bridge's nor a Service's.
    fn give_shown_addresses(&mut self, known: &Known, dumps: &[Dump]) {
        for (machine, dump) in self.own.iter_mut().zip(dumps) {
            let is_on_others =
                |ip: &IpAddr| dumps.iter().any(|other| other.node != dump.node && other.addresses.contains(ip));
            let mut own = own_addresses(&dump.inferred, &dump.addresses);
            own.retain(|ip| !known.services.contains(ip) && !is_on_others(ip));
            for family in known.families() {
                let mut of_family = own.iter().filter(|ip| Family::of(**ip) == family);
                let first = of_family.clone().next();
                let is_known = machine.addresses.iter().any(|ip| Family::of(*ip) == family);
                if !is_known {
                    machine.addresses.extend(of_family.find(|ip| known.machines.contains(ip)).or(first));
                }
            }
        }
    }

    /// Addresses of machines: a node that has the endpoint and no address of its family, or another machine.
    fn give_addresses(&mut self, known: &Known, each: &[Known]) {
        for ip in &known.machines {
            if self.own.iter().any(|machine| machine.addresses.contains(ip)) {
                continue;
            }
            let lacks_family =
                |machine: &Machine| machine.addresses.iter().all(|own| Family::of(*own) != Family::of(*ip));
            let mut here =
                self.own.iter_mut().zip(each).filter(|(machine, one)| one.here.contains(ip) && lacks_family(machine));
            match here.next() {
                Some((machine, _)) => drop(machine.addresses.insert(*ip)),
                None => self.others.push(Machine { addresses: BTreeSet::from([*ip]), ..Machine::default() }),
            }
        }
    }

    /// Where nothing shows a pod of the node, its local endpoints need a range.
    fn give_local_ranges(&mut self, families: impl IntoIterator<Item = Family>, owners: &ShownNodes) {
        for family in families {
            let free = self.free(family);
            let is_of_family = |range: &IpNet| Family::of(range.addr()) == family;
            if let Some(first) = self.own.first_mut().filter(|first| !first.ranges.iter().any(is_of_family)) {
                let own = owners.ranges.iter().find(|(range, node)| is_of_family(range) && *node == first.name);
                first.ranges.extend(own.map(|(range, _)| *range).or(free));
            }
        }
    }

    /// Adds a machine for endpoints of each family that are elsewhere. Returns their addresses.
    fn add_elsewhere(
        &mut self,
        families: impl IntoIterator<Item = Family>,
        owners: &ShownNodes,
    ) -> BTreeMap<Family, IpAddr> {
        let mut elsewhere = BTreeMap::new();
        for family in families {
            let Some(range) = self.free(family) else { continue };
            let is_free = |ip: &IpAddr| !owners.taken.contains(ip);
            elsewhere.extend(range.hosts().skip(9).find(is_free).map(|ip| (family, ip)));
            self.others.push(Machine { ranges: vec![range], ..Machine::default() });
        }
        elsewhere
    }

    /// A range for pods that no machine has: near others, else in the range that rules take for that of pods.
    fn free(&self, family: Family) -> Option<IpNet> {
        let is_of_family = |range: &&IpNet| Family::of(range.addr()) == family;
        let all = self.own.iter().chain(&self.others).flat_map(|machine| &machine.ranges).chain(&self.known);
        let taken: Vec<IpNet> = all.copied().filter(|range| is_of_family(&range)).collect();
        let (usual, length) = if family == Family::Ipv4 { ("10.244.0.0/24", 24) } else { ("fd00:10:244::/64", 64) };
        let by_rules = || self.local_sources.iter().find(is_of_family).copied();
        let near = taken.first().copied().or_else(by_rules).or(usual.parse().ok())?;
        let length = if taken.is_empty() { near.prefix_len().max(length) } else { near.prefix_len() };
        let mut all = wide(near, family).subnets(length).ok()?.take(taken.len() + 2);
        all.find(|range| !taken.iter().any(|other| other.contains(range) || range.contains(other)))
    }

    /// All machines; those without a name get one.
    fn named(self) -> Vec<Machine> {
        let Self { own: mut machines, others, .. } = self;
        let taken: BTreeSet<String> = machines.iter().map(|machine| machine.name.clone()).collect();
        let mut names = (2..).map(|number| format!("node-{number}")).filter(|name| !taken.contains(name));
        machines.extend(others.into_iter().map(|other| Machine { name: names.next().unwrap_or_default(), ..other }));
        machines
    }
}

/// Endpoints by what the rules say about them.
struct Known {
    /// Addresses of pods.
    pods: BTreeSet<IpAddr>,
    /// Addresses of nodes.
    machines: BTreeSet<IpAddr>,
    /// Endpoints on the node of the rules.
    here: BTreeSet<IpAddr>,
    /// Endpoints of which one at least is on the node of the rules.
    some_here: Vec<BTreeSet<IpAddr>>,
    /// Endpoints on other nodes.
    there: BTreeSet<IpAddr>,
    /// The ranges of local sources.
    local_sources: BTreeSet<IpNet>,
    /// Addresses of services.
    services: BTreeSet<IpAddr>,
    /// Addresses of pods on the nodes of the rules that are no endpoints.
    forwarded: BTreeSet<IpAddr>,
}

impl Known {
    fn of(inferred: &Inferred, dumps: &[Dump]) -> Self {
        let local_sources = inferred.proxy.local_sources.clone();
        let of_family = |ip: &IpAddr| {
            local_sources.iter().filter(|range| Family::of(range.addr()) == Family::of(*ip)).collect::<Vec<_>>()
        };
        // The API servers run in the network of their machines.
        let is_api = |port: &&InferredPort| port.service.namespace == "default" && port.service.name == "kubernetes";
        let api: BTreeSet<IpAddr> =
            inferred.ports.iter().filter(is_api).flat_map(|port| &port.endpoints).map(SocketAddr::ip).collect();
        let is_machine = |ip: &IpAddr| {
            let sources = of_family(ip);
            inferred.proxy.node_port_addresses.contains(ip)
                || sources.is_empty() && api.contains(ip)
                || !sources.is_empty() && !sources.iter().any(|range| wide(**range, Family::of(*ip)).contains(ip))
        };
        let all = inferred
            .ports
            .iter()
            .flat_map(|port| port.endpoints.iter().chain(&port.local))
            .map(|endpoint| endpoint.ip());
        let (machines, mut pods): (BTreeSet<IpAddr>, BTreeSet<IpAddr>) = all.partition(is_machine);
        let local = inferred.ports.iter().flat_map(|port| &port.local).map(|endpoint| endpoint.ip());
        let mut here: BTreeSet<IpAddr> = local.chain(inferred.proxy.here.iter().copied()).collect();
        let is_local = |port: &&InferredPort| port.is_external_local || port.is_internal_local;
        // Where one of several is local, and nothing shows which.
        let is_open = |port: &&InferredPort| port.has_local_endpoints && port.local.is_empty();
        let ips = |port: &InferredPort| port.endpoints.iter().map(SocketAddr::ip).collect::<BTreeSet<IpAddr>>();
        let some_here = inferred.ports.iter().filter(is_open).map(ips).filter(|ips| !ips.is_empty()).collect();
        let there = inferred.ports.iter().filter(|port| is_local(port) && !is_open(port));
        let there = there.flat_map(|port| &port.endpoints).map(|endpoint| endpoint.ip());
        let there = there.chain(inferred.proxy.elsewhere.iter().copied()).filter(|ip| !here.contains(ip)).collect();
        let addresses = |port: &InferredPort| {
            let others = port.external_ips.iter().chain(&port.load_balancer);
            port.cluster_ips.iter().chain(others).copied().collect::<Vec<_>>()
        };
        let services: BTreeSet<IpAddr> = inferred.ports.iter().flat_map(addresses).collect();
        // Rules may translate to other machines, too, and to containers that are no pods.
        let is_among_pods = |ip: &IpAddr| {
            let is_near = |pod: &IpAddr| wide(usual_range(*pod), Family::of(*pod)).contains(ip);
            !is_machine(ip) && (!of_family(ip).is_empty() || pods.iter().any(is_near))
        };
        let is_new = |ip: &IpAddr| !pods.contains(ip) && !machines.contains(ip) && !services.contains(ip);
        let forwarded: BTreeSet<IpAddr> =
            dumps.iter().flat_map(Dump::translated_to).filter(|ip| is_new(ip) && is_among_pods(ip)).collect();
        pods.extend(&forwarded);
        here.extend(&forwarded);
        Self { pods, machines, here, some_here, there, local_sources, services, forwarded }
    }

    /// The families of pods, services and machines.
    fn families(&self) -> BTreeSet<Family> {
        self.pods.iter().chain(&self.machines).chain(&self.services).map(|ip| Family::of(*ip)).collect()
    }

    /// With the nodes of endpoints that objects show.
    fn placed(mut self, node: &str, owners: &ShownNodes) -> Self {
        for ip in self.pods.iter().chain(&self.machines) {
            match owners.node(*ip) {
                Some(owner) if owner == node => drop(self.here.insert(*ip)),
                Some(_) if !self.here.contains(ip) => drop(self.there.insert(*ip)),
                _ => {}
            }
        }
        self
    }

    /// Gives nodes whose address of one family is known one of the other family, where pods or services have addresses of it. Nodes of
    /// which none is known get theirs as in any scenario.
    fn complete(&self, machines: &mut [Machine]) {
        let given = self.pods.iter().chain(&self.machines).chain(&self.services);
        let mut taken: Vec<IpNet> = given.copied().map(IpNet::from).collect();
        taken.extend(machines.iter().flat_map(|machine| machine.ranges.iter().copied()));
        let ranges: Vec<IpNet> = NODE_RANGES.iter().filter_map(|range| range.parse().ok()).collect();
        let is_free = |range: &&IpNet| taken.iter().all(|other| !range.contains(other) && !other.contains(*range));
        for family in taken.iter().map(|other| Family::of(other.addr())).collect::<BTreeSet<_>>() {
            let is_of_family = |range: &&IpNet| Family::of(range.addr()) == family;
            let Some(range) = ranges.iter().filter(is_of_family).find(is_free) else { continue };
            let lacks = |machine: &&mut Machine| {
                !machine.addresses.is_empty() && !machine.addresses.iter().any(|ip| Family::of(*ip) == family)
            };
            // The first address is the underlay's.
            for (machine, ip) in machines.iter_mut().filter(lacks).zip(range.hosts().skip(1)) {
                machine.addresses.insert(ip);
            }
        }
    }

    /// The range of local sources, if there are pods of the cluster outside it: then it is the node's own.
    fn node_range(&self, pods: &BTreeSet<IpAddr>) -> Option<IpNet> {
        let is_nodes = |range: &&IpNet| {
            let family = Family::of(range.addr());
            pods.iter().any(|ip| Family::of(*ip) == family && !range.contains(ip))
        };
        self.local_sources.iter().find(is_nodes).copied()
    }

    /// The ranges of nodes that pods of a family are in, those that are given first.
    fn ranges(&self, family: Family, given: &BTreeSet<IpNet>) -> Vec<IpNet> {
        let is_given = |ip: &IpAddr| given.iter().any(|own| own.contains(ip));
        let pods = self.pods.iter().filter(|ip| Family::of(**ip) == family && !is_given(ip));
        let pods: Vec<IpAddr> = pods.copied().collect();
        let (usual, longest) = if family == Family::Ipv4 { (24, 29) } else { (64, 126) };
        // No two nodes have an address in common.
        let is_apart = |range: &IpNet| !given.iter().any(|own| range.contains(own) || own.contains(range));
        let is_free = |range: &IpNet| is_apart(range) && !self.services.iter().any(|ip| range.contains(ip));
        let of_length = |length| pods.iter().map(|ip| IpNet::new_assert(*ip, length).trunc()).collect::<BTreeSet<_>>();
        let fitting = (1..=usual).rev().chain(usual + 1..=longest).map(of_length);
        let apart = fitting.clone().find(|ranges| ranges.iter().all(is_apart));
        let mut fitting = fitting.filter(|ranges| ranges.iter().all(is_free)).peekable();
        let many = fitting.peek().cloned().or(apart);
        let ranges = fitting.find(|ranges| ranges.len() <= MAX_RANGES).or(many).unwrap_or_default();
        ranges.into_iter().chain(given.iter().copied()).collect()
    }

    /// Which of several ranges is that of the rules' own node.
    fn own_range(&self, ranges: &[IpNet], node_range: Option<IpNet>) -> Option<usize> {
        let holds = |range: &IpNet, some: &BTreeSet<IpAddr>| some.iter().any(|ip| range.contains(ip));
        let own = ranges.iter().position(|range| Some(*range) == node_range);
        let with_local = || ranges.iter().position(|range| holds(range, &self.here));
        let not_elsewhere = || ranges.iter().position(|range| !holds(range, &self.there));
        let with_some = || {
            let holds_some = |range: &IpNet| self.some_here.iter().filter(|some| holds(range, some)).count();
            let most = ranges.iter().enumerate().filter(|(_, range)| !holds(range, &self.there));
            let most = most.max_by_key(|(at, range)| (holds_some(range), ranges.len() - at));
            most.filter(|(_, range)| holds_some(range) > 0).map(|(at, _)| at)
        };
        own.or_else(with_local).or_else(with_some).or_else(not_elsewhere)
    }

    /// The families in which services have endpoints on the node of the rules, and the rules show none.
    fn unshown_here(&self, inferred: &Inferred) -> BTreeSet<Family> {
        let with_local = inferred.ports.iter().filter(|port| port.has_local_endpoints);
        with_local.flat_map(|port| port.unshown_endpoints.iter().copied()).collect()
    }
}

/// The families in which services have endpoints on other nodes that the rules do not show.
fn lacking(machines: &[Machine], inferred: &Inferred) -> BTreeSet<Family> {
    let is_elsewhere = |ip: IpAddr| is_elsewhere(machines, ip);
    inferred.ports.iter().flat_map(|port| lacking_elsewhere(port, is_elsewhere)).collect()
}

/// The families in which a service port has endpoints on other nodes, and the rules show none.
pub(super) fn lacking_elsewhere(port: &InferredPort, is_elsewhere: impl Fn(IpAddr) -> bool) -> BTreeSet<Family> {
    let mut lacking = if port.has_endpoints_elsewhere { families(port) } else { port.unshown_endpoints.clone() };
    let known = port.endpoints.iter().chain(&port.local).map(SocketAddr::ip).filter(|ip| is_elsewhere(*ip));
    known.for_each(|ip| _ = lacking.remove(&Family::of(ip)));
    lacking
}

/// The node of an endpoint.
fn node_of(machines: &[Machine], endpoint: IpAddr) -> &str {
    let has = |machine: &&Machine| {
        machine.addresses.contains(&endpoint) || machine.ranges.iter().any(|range| range.contains(&endpoint))
    };
    machines.iter().find(has).or(machines.first()).map_or(HERE, |machine| &machine.name)
}

/// Whether an endpoint is on any machine but the first.
fn is_elsewhere(machines: &[Machine], endpoint: IpAddr) -> bool {
    machines.first().is_some_and(|first| first.name != node_of(machines, endpoint))
}

/// The families of a service port; those of the rules about it where nothing shows an address.
pub(super) fn families(port: &InferredPort) -> BTreeSet<Family> {
    let addresses = port.cluster_ips.iter().chain(&port.external_ips).chain(&port.load_balancer).copied();
    let endpoints = port.endpoints.iter().chain(&port.local).map(|endpoint| endpoint.ip());
    let families: BTreeSet<Family> = addresses.chain(endpoints).map(Family::of).collect();
    if families.is_empty() { port.families.clone() } else { families }
}
