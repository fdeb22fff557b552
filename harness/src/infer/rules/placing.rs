//! Machines for the endpoints that rules show: those whose rules are shown, and others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use svclab_rules::cluster::Family;

use super::super::node_port_addresses::own_addresses;
use super::super::usual_ranges::wide;
use super::dump::Dump;
use super::known::Known;
use super::machine::Machine;
use super::shown_nodes::ShownNodes;

/// Machines as they are found: those whose rules are shown, and others.
#[derive(Clone)]
pub(super) struct Placing {
    own: Vec<Machine>,
    pub(super) others: Vec<Machine>,
    /// The ranges that rules take for those of pods.
    pub(super) local_sources: BTreeSet<IpNet>,
    /// The pod ranges of nodes among the objects.
    pub(super) known: Vec<IpNet>,
}

impl Placing {
    pub(super) fn of(dumps: &[Dump], local_sources: &BTreeSet<IpNet>, owners: &ShownNodes) -> Self {
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
    pub(super) fn give_ranges(
        &mut self,
        known: &Known,
        each: &[Known],
        own_ranges: &[Vec<IpNet>],
        owners: &ShownNodes,
    ) {
        for family in Family::ALL {
            let of_family = |range: &IpNet| Family::of(range.addr()) == family;
            let of_rules: BTreeSet<IpNet> = own_ranges.iter().flatten().copied().filter(of_family).collect();
            let of_objects = owners.ranges.iter().map(|(range, _)| *range).filter(of_family);
            let holds_pods = |range: &IpNet| known.pods.iter().any(|ip| range.contains(ip));
            let is_apart = |range: &IpNet| !of_rules.iter().any(|own| own.contains(range) || range.contains(own));
            let of_objects = of_objects.filter(holds_pods).filter(is_apart);
            let given: BTreeSet<IpNet> = of_objects.chain(of_rules.iter().copied()).collect();
            let mut ranges = known.ranges(family, &given);
            // What one node's rules prove comes before what those of another leave open.
            let mut open = Vec::new();
            for ((machine, one), own_ranges) in self.own.iter_mut().zip(each).zip(own_ranges) {
                match one.proven_range(&ranges, own_ranges.iter().copied().find(of_family)) {
                    Some(own) => machine.ranges.push(ranges.remove(own)),
                    None => open.push((machine, one)),
                }
            }
            for (machine, one) in open {
                machine.ranges.extend(one.likely_range(&ranges).map(|own| ranges.remove(own)));
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
    pub(super) fn give_shown_addresses(&mut self, known: &Known, dumps: &[Dump]) {
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
    pub(super) fn give_addresses(&mut self, known: &Known, each: &[Known]) {
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
    pub(super) fn give_local_ranges(&mut self, families: impl IntoIterator<Item = Family>, owners: &ShownNodes) {
        for family in families {
            let free = self.free(family);
            let is_of_family = |range: &IpNet| Family::of(range.addr()) == family;
            if let Some(first) = self.own.first_mut().filter(|first| !first.ranges.iter().any(is_of_family)) {
                let own = owners.ranges.iter().find(|(range, node)| is_of_family(range) && *node == first.name);
                first.ranges.extend(own.map(|(range, _)| *range).or(free));
            }
        }
    }

    /// Adds a machine for endpoints of each family that are elsewhere. Returns their addresses, none of which is among those that are shown.
    pub(super) fn add_elsewhere(
        &mut self,
        families: impl IntoIterator<Item = Family>,
        shown: &BTreeSet<IpAddr>,
    ) -> BTreeMap<Family, IpAddr> {
        let mut elsewhere = BTreeMap::new();
        for family in families {
            let Some(range) = self.free(family) else { continue };
            let is_free = |ip: &IpAddr| !shown.contains(ip);
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
    pub(super) fn named(self) -> Vec<Machine> {
        let Self { own: mut machines, others, .. } = self;
        let taken: BTreeSet<String> = machines.iter().map(|machine| machine.name.clone()).collect();
        // `node2` and `node-2` are hard to distinguish.
        let is_free = |name: &String| !taken.iter().any(|other| other.replace('-', "") == name.replace('-', ""));
        let mut names = (2..).map(|number| format!("node-{number}")).filter(is_free);
        machines.extend(others.into_iter().map(|other| Machine { name: names.next().unwrap_or_default(), ..other }));
        machines
    }
}
