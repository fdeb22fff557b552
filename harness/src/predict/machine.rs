//! A namespace, prepared for walking packets through it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

use ipnet::IpNet;
use svclab_rules::cluster::{Cluster, Family, Node, Protocol};
use svclab_rules::walk::{AddressTable, Environment, Field, Interface, Intervals, RuleId, address_bits};

use super::equivalent_pods::EquivalentPods;
use super::neighbours::Neighbours;
use super::route_table::RouteTable;
use super::rules::Rules;
use super::set_queries::{Set, keys};
use super::settings::{InterfaceSettings, Settings};
use super::{PredictError, RulePlace, bridged};
use crate::documents::Document;
use crate::scenario::served_on;
use crate::topology::{Hop, LOOPBACK, Netns, Route, Topology};

/// A namespace: its plan, its rules, and what they depend on.
#[derive(Clone)]
pub(super) struct Machine {
    pub(super) netns: Netns,
    pub(super) environment: Environment,
    /// Built on first use: in a large cluster, most machines are never visited.
    lookup: Arc<OnceLock<Lookup>>,
    /// The local addresses of each family.
    pub(super) own: [Intervals; 2],
    pub(super) broadcasts: Intervals,
    /// The addresses of its interfaces by family, in the order in which the kernel considers them.
    pub(super) listed: [Vec<(u32, IpNet)>; 2],
    /// The pods on its links that are handled alike.
    pub(super) alike: EquivalentPods,
    settings: Vec<InterfaceSettings>,
    bridges_call: [bool; 2],
    /// The networks behind interfaces that the lab lacks.
    pub(super) bridged: Vec<IpNet>,
    rules: [Option<Arc<Rules>>; 2],
    /// The listeners.
    listeners: HashMap<(Protocol, SocketAddr), String>,
}

/// The lookup structures for routes and neighbours of a machine.
struct Lookup {
    /// Routes by address, for each family.
    ways: [RouteTable; 2],
    neighbours: Neighbours,
}

impl Machine {
    pub(super) fn of(
        netns: &Netns,
        topology: &Topology,
        documents: &[&Document],
        cluster: &Cluster,
        node: Option<&Node>,
    ) -> Result<Self, PredictError> {
        let of_family = |family: Family| {
            let own = documents.iter().copied().filter(|one| one.applies_to(family));
            Rules::of(&own.collect::<Vec<_>>(), family).map(|rules| rules.map(Arc::new))
        };
        let rules = [of_family(Family::ALL[0])?, of_family(Family::ALL[1])?];
        let mut environment = Environment { kernel: cluster.kernel, ..Environment::default() };
        for (index, prefix) in &netns.addresses {
            let Some(interface) = netns.interface(*index).and_then(|one| Interface::new(&one.name)) else { continue };
            environment.addresses.assign_in(*prefix, interface);
        }
        let served = node.map(|node| served_on(cluster, node)).unwrap_or_default();
        let listeners = served.into_iter().map(|(protocol, at, owner)| ((protocol, at), owner)).collect();
        let own = Family::ALL
            .map(|family| environment.addresses.alike(family, |address, table| table.interface_of(address).is_some()));
        let is_broadcast = |address: IpAddr, table: &AddressTable| table.broadcast_of(address).is_some();
        let broadcasts = environment.addresses.alike(Family::Ipv4, is_broadcast);
        let settings = InterfaceSettings::all(netns);
        let alike = EquivalentPods::of(netns, topology, &settings);
        let machine = Self {
            lookup: Arc::default(),
            alike,
            listed: Family::ALL.map(|family| listed(netns, &environment, family)),
            settings,
            bridges_call: [true, false].map(|ipv4| Settings(netns).bridges_call(ipv4)),
            bridged: documents
                .iter()
                .filter_map(|document| document.rules.iptables())
                .flat_map(|rules| bridged::networks(rules, netns))
                .collect(),
            netns: netns.clone(),
            environment,
            own,
            broadcasts,
            rules,
            listeners,
        };
        Ok(machine)
    }

    /// The machine with the settings of another plan, which is otherwise the same.
    pub(super) fn with_settings_of(&self, netns: &Netns, topology: &Topology) -> Self {
        let settings = InterfaceSettings::all(netns);
        let alike = EquivalentPods::of(netns, topology, &settings);
        Self {
            netns: netns.clone(),
            lookup: Arc::default(),
            alike,
            settings,
            bridges_call: [true, false].map(|ipv4| Settings(netns).bridges_call(ipv4)),
            ..self.clone()
        }
    }

    /// All routes, in no particular order: those of the plan, and the connected routes of addresses.
    pub(super) fn routes(&self) -> impl Iterator<Item = Route> {
        let is_known = |index| self.netns.interface(index).is_some_and(|one| Interface::new(&one.name).is_some());
        let addresses = self.netns.addresses.iter().filter(move |(index, _)| is_known(*index));
        let linked = addresses.map(|(index, prefix)| Route { destination: prefix.trunc(), hop: Hop::Link(*index) });
        self.netns.routes().cloned().chain(linked)
    }

    /// The routes of a family by address.
    pub(super) fn ways(&self, family: Family) -> &RouteTable {
        &self.lookup().ways[family as usize]
    }

    /// The neighbours of its interfaces.
    pub(super) fn neighbours(&self) -> &Neighbours {
        &self.lookup().neighbours
    }

    fn lookup(&self) -> &Lookup {
        self.lookup.get_or_init(|| {
            let routes: Vec<Route> = self.routes().collect();
            let ways = Family::ALL.map(|family| RouteTable::of(&routes, family, |route| self.alike.kind(route)));
            Lookup { ways, neighbours: Neighbours::of(&self.netns) }
        })
    }

    /// The rules for packets of a family, if there are any.
    pub(super) fn rules(&self, family: Family) -> Option<&Rules> {
        self.rules[family as usize].as_deref()
    }

    /// The owner of the listener at an address.
    pub(super) fn listener(&self, protocol: Protocol, at: SocketAddr, set: Set<'_>) -> Option<&str> {
        if let Some(set) = set {
            let of_protocol =
                || self.listeners.keys().filter(|(own, to)| *own == protocol && to.is_ipv4() == at.is_ipv4());
            let mut ports: Vec<(u128, u128)> =
                of_protocol().map(|(_, to)| (to.port().into(), to.port().into())).collect();
            ports.sort_unstable();
            ports.dedup();
            set.look_up(Field::DestinationPort, at.port().into(), &ports);
            let here = of_protocol().filter(|(_, to)| to.port() == at.port()).map(|(_, to)| to.ip());
            set.look_up(Field::Destination, address_bits(at.ip()), &keys(here));
        }
        self.listeners.get(&(protocol, at)).map(String::as_str)
    }

    /// The settings of an interface.
    pub(super) fn settings(&self, interface: u32) -> &InterfaceSettings {
        self.settings.get(interface as usize).unwrap_or(&self.settings[LOOPBACK as usize])
    }

    /// Whether bridges pass packets of a family to iptables.
    pub(super) fn bridges_call(&self, ipv4: bool) -> bool {
        self.bridges_call[usize::from(!ipv4)]
    }

    /// Whether any process listens for packets of a protocol, on any port.
    pub(super) fn takes(&self, protocol: Protocol) -> bool {
        self.listeners.keys().any(|(taken, _)| *taken == protocol)
    }

    /// The place of a rule of this machine.
    pub(super) fn place(&self, family: Family, rule: RuleId) -> Option<RulePlace> {
        self.rules(family)?.place(&self.netns.name, rule)
    }

    /// The name of the interface with this index; the loopback has index 1.
    pub(super) fn interface(&self, index: u32) -> Option<Interface> {
        if index == LOOPBACK {
            return Some(Interface::LOOPBACK);
        }
        self.netns.interface(index).and_then(|interface| Interface::new(&interface.name))
    }
}

/// All addresses of a family in the order in which the kernel considers them, each with the index of its interface.
fn listed(netns: &Netns, environment: &Environment, family: Family) -> Vec<(u32, IpNet)> {
    let named = |one: &crate::topology::Interface| Some((one.index, Interface::new(&one.name)?));
    let mut interfaces: Vec<(u32, Interface)> = netns.interfaces.iter().filter_map(named).collect();
    interfaces.sort_by_key(|(index, _)| *index);
    let of = |(index, name): (u32, Interface)| {
        environment.addresses.listed(name, family).into_iter().map(move |one| (index, one))
    };
    interfaces.into_iter().flat_map(of).collect()
}

/// The source address of a process that sends from the loopback.
pub(super) fn loopback(ipv4: bool) -> IpAddr {
    if ipv4 { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() }
}
