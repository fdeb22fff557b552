//! A network namespace of the plan.

use std::net::IpAddr;

use ipnet::IpNet;
use svclab_rules::cluster::Impairment;

use super::routes::{Fdb, Neighbour, OfPeers, Route};
use super::{NetnsId, mac_of};
use crate::scenario::Span;
use crate::wire::Mac;

/// The role of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// The network between the nodes.
    Underlay,
    /// A node.
    Node,
    /// A pod whose packets svclab makes and answers on the wire.
    Pod,
    /// A pod with addresses, routes and rules in its own kernel.
    RoutingPod,
    /// A machine outside of the cluster, made and answered on the wire as a pod is.
    Host,
}

/// One network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Netns {
    /// `underlay`, `node/worker`, `pod/nginx` (`pod/other/nginx` outside of the namespace `default`), `host/outside`.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Interfaces in the order of their creation, the loopback left out.
    pub interfaces: Vec<Interface>,
    /// Addresses that the kernel has, by interface index.
    pub addresses: Vec<(u32, IpNet)>,
    /// Addresses that svclab sends from and answers for on `eth0`.
    pub addresses_on_wire: Vec<IpAddr>,
    /// Its own routes: see [`Self::routes`].
    pub(in crate::topology) routes: Vec<Route>,
    /// Its own permanent neighbours.
    pub(in crate::topology) neighbours: Vec<Neighbour>,
    /// Its own permanent forwarding entries of bridges and VXLAN devices.
    pub(in crate::topology) fdb: Vec<Fdb>,
    /// Those of a node to reach the others.
    pub(in crate::topology) peers: Option<OfPeers>,
    /// Kernel settings in the order of writing: before interfaces are made, and those of an interface once it is there.
    pub sysctls: Vec<Sysctl>,
    /// Ranges that are on the link of `eth0`, for packets made on the wire.
    pub on_link: Vec<IpNet>,
    /// Where packets made on the wire go that are not for the link.
    pub gateway: Option<Mac>,
    /// Whether the machine is off. Then its link is down, too.
    pub is_off: bool,
}

/// A kernel setting below `net`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sysctl {
    /// Its name without `net.`, as sysctl(8) writes it: `ipv4.ip_forward`, `ipv4.conf.flannel/1.rp_filter`.
    pub name: String,
    /// What it is set to.
    pub value: String,
    /// Where the scenario asks for it; `None` for what svclab sets by itself.
    pub asked_for: Option<Span>,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    /// The interface index, unique in its namespace, from 2.
    pub index: u32,
    /// The interface's name.
    pub name: String,
    /// The hardware address.
    pub mac: Mac,
    /// What kind of device it is.
    pub kind: InterfaceKind,
    /// The index of the bridge that it is a port of.
    pub bridge: Option<u32>,
    /// Whether, as a bridge's port, it sends packets back to where they came from.
    pub hairpin: bool,
    /// Whether its link passes packets; that of a bridge or VXLAN device is as its ports' or its carrier's.
    pub carrier: Carrier,
    /// The size of the largest IP packet that it sends, in bytes.
    pub mtu: u16,
    /// What it does to the packets that it sends.
    pub impairment: Impairment,
}

/// Whether a link passes packets, as one end of it sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Carrier {
    /// It does.
    #[default]
    Up,
    /// It does not: the other end is down.
    Lost,
    /// It does not: this end is down.
    Down,
}

/// The kind of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InterfaceKind {
    /// The end of a veth pair that makes the pair.
    VethOwner(LinkEnd),
    /// The end that comes with it.
    VethPeer(LinkEnd),
    /// A bridge.
    Bridge,
    /// A VXLAN device over an interface.
    Vxlan {
        /// The index of the interface that carries it.
        over: u32,
        /// The source of the outer packets.
        local: IpAddr,
    },
}

/// The other end of a veth pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkEnd {
    /// Its namespace.
    pub netns: NetnsId,
    /// Its index there.
    pub index: u32,
}

impl Netns {
    /// All routes.
    pub(crate) fn routes(&self) -> impl DoubleEndedIterator<Item = &Route> {
        self.routes.iter().chain(self.peers.iter().flat_map(OfPeers::routes))
    }

    /// The routes that no other node has too, with those to its pods.
    pub(crate) fn own_routes(&self) -> &[Route] {
        &self.routes
    }

    /// The neighbours that no other node has too, with its pods.
    pub(crate) fn own_neighbours(&self) -> &[Neighbour] {
        &self.neighbours
    }

    /// All permanent neighbours.
    pub(crate) fn neighbours(&self) -> impl DoubleEndedIterator<Item = &Neighbour> {
        self.neighbours.iter().chain(self.peers.iter().flat_map(OfPeers::neighbours))
    }

    /// All permanent forwarding entries of bridges and VXLAN devices.
    pub(crate) fn fdb(&self) -> impl DoubleEndedIterator<Item = &Fdb> {
        self.fdb.iter().chain(self.peers.iter().flat_map(OfPeers::fdb))
    }

    /// The node's name, if it is one.
    pub(crate) fn node_name(&self) -> Option<&str> {
        self.name.strip_prefix("node/")
    }

    /// A namespace with nothing in it.
    pub(crate) fn new(name: String, role: Role) -> Self {
        Self {
            name,
            role,
            interfaces: Vec::new(),
            addresses: Vec::new(),
            addresses_on_wire: Vec::new(),
            routes: Vec::new(),
            neighbours: Vec::new(),
            fdb: Vec::new(),
            peers: None,
            sysctls: Vec::new(),
            on_link: Vec::new(),
            gateway: None,
            is_off: false,
        }
    }

    /// The index that the next interface gets: 1 is the loopback's.
    pub(in crate::topology) fn next_index(&self) -> u32 {
        self.interfaces.last().map_or(1, |last| last.index) + 1
    }

    /// Adds a kernel setting of svclab's own.
    pub(crate) fn set(&mut self, name: impl Into<String>, value: impl ToString) {
        self.sysctls.push(Sysctl { name: name.into(), value: value.to_string(), asked_for: None });
    }

    /// Keeps the kernel from sending anything on its own: no IPv6 address, no router solicitation.
    pub(in crate::topology) fn silence(&mut self) {
        self.set("ipv6.conf.default.disable_ipv6", 1);
    }

    /// IPv6 without what only takes time: no duplicate address detection, no link-local address, no autoconfiguration.
    pub(crate) fn quiet_ipv6(&mut self) {
        self.set("ipv6.conf.default.accept_dad", 0);
        self.set("ipv6.conf.all.accept_dad", 0);
        self.set("ipv6.conf.default.addr_gen_mode", 1);
        self.set("ipv6.conf.default.accept_ra", 0);
        self.set("ipv6.conf.default.router_solicitations", 0);
    }

    /// Makes the kernel forward packets, without reverse-path filters and redirects, and send every ICMP error. By default
    /// ICMP errors to one destination are limited to one a second after the first few, and a lab's probes follow each other faster.
    pub(crate) fn forward_packets(&mut self) {
        self.set("ipv4.ip_forward", 1);
        // Where the host forwards, that was no change, and a new namespace has the host's `default`.
        self.set("ipv4.conf.default.forwarding", 1);
        self.set("ipv6.conf.all.forwarding", 1);
        self.set("ipv6.conf.default.forwarding", 1);
        // A mask of no type of message; in IPv6 a list, which cannot be empty: 0 is reserved.
        self.set("ipv4.icmp_ratemask", 0);
        self.set("ipv6.icmp.ratemask", 0);
        for scope in ["all", "default"] {
            self.set(format!("ipv4.conf.{scope}.rp_filter"), 0);
            self.set(format!("ipv4.conf.{scope}.send_redirects"), 0);
        }
    }

    /// Whether the namespace's kernel forwards packets.
    pub(crate) fn forwards(&self) -> bool {
        matches!(self.role, Role::Underlay | Role::Node | Role::RoutingPod)
    }

    /// Whether the namespace's kernel has addresses, or forwards packets of others.
    pub(crate) fn has_stack(&self) -> bool {
        self.forwards() || !self.addresses.is_empty()
    }

    /// The indices of interfaces on which packets may wait for long: those that delay them.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = u32> {
        let may_hold = |impairment: Impairment| !impairment.delay.is_zero() || impairment.rate.is_some();
        let waiting = self.interfaces.iter().filter(move |interface| may_hold(interface.impairment));
        waiting.map(|interface| interface.index)
    }

    /// The indices of interfaces that have a carrier: veths whose links are up, and bridges with such ports. Ports come before
    /// their bridge, which has its carrier from them.
    pub(crate) fn linked(&self) -> Vec<u32> {
        let mut up = self.interfaces.iter().filter(|interface| interface.carrier == Carrier::Up);
        let ports: Vec<u32> = up.clone().filter_map(|port| port.bridge).collect();
        let linked = up.by_ref().filter(|interface| match interface.kind {
            InterfaceKind::VethOwner(_) | InterfaceKind::VethPeer(_) => true,
            InterfaceKind::Bridge => ports.contains(&interface.index),
            InterfaceKind::Vxlan { .. } => false,
        });
        linked.map(|interface| interface.index).rev().collect()
    }

    /// True for a setting that is there only once one of the namespace's interfaces is.
    pub(crate) fn is_of_interface(&self, sysctl: &Sysctl) -> bool {
        let mut parts = sysctl.name.split('.');
        let (family, table, name) = (parts.next(), parts.next(), parts.next().unwrap_or_default());
        matches!((family, table), (Some("ipv4" | "ipv6"), Some("conf" | "neigh")))
            && self.interfaces.iter().any(|interface| interface.name == name.replace('/', "."))
    }

    /// The interface with this index.
    pub(crate) fn interface(&self, index: u32) -> Option<&Interface> {
        // Indices are given one after the other, from 2 on.
        let expected =
            self.interfaces.get((index as usize).checked_sub(2)?).filter(|interface| interface.index == index);
        expected.or_else(|| self.interfaces.iter().find(|interface| interface.index == index))
    }
}

impl Interface {
    /// An interface with the address that its place gives it.
    pub(crate) fn new(netns: NetnsId, index: u32, name: String, kind: InterfaceKind) -> Self {
        let mtu = kind.usual_mtu();
        Self {
            index,
            name,
            mac: mac_of(netns, index),
            kind,
            bridge: None,
            hairpin: false,
            carrier: Carrier::Up,
            mtu,
            impairment: Impairment::default(),
        }
    }

    /// Makes its link as usual.
    pub(super) fn make_usual(&mut self) {
        (self.carrier, self.mtu) = (Carrier::Up, self.kind.usual_mtu());
        self.impairment = Impairment::default();
    }
}

/// The MTU of Ethernet.
const ETHERNET: u16 = 1500;

impl InterfaceKind {
    /// The MTU where no link is unusual.
    pub(crate) fn usual_mtu(&self) -> u16 {
        ETHERNET - self.overhead()
    }

    /// What a packet that leaves by it grows by.
    pub(crate) fn overhead(&self) -> u16 {
        match self {
            // An IP header, and those of UDP, VXLAN and Ethernet.
            Self::Vxlan { local: IpAddr::V4(_), .. } => 20 + 8 + 8 + 14,
            Self::Vxlan { local: IpAddr::V6(_), .. } => 40 + 8 + 8 + 14,
            Self::VethOwner(_) | Self::VethPeer(_) | Self::Bridge => 0,
        }
    }
}
