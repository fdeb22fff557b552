//! A network namespace of the plan.

use std::net::IpAddr;

use ipnet::IpNet;
use svclab_rules::cluster::Impairment;

use super::routes::{Fdb, Neighbour, PeerRoutes, Route};
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
    /// A pod whose packets svclab sends and answers on the wire.
    Pod,
    /// A pod with addresses, routes and rules in its own kernel.
    RoutingPod,
    /// A machine outside of the cluster, whose packets svclab sends and answers on the wire.
    Host,
}

/// One network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Netns {
    /// `underlay`, `node/worker`, `pod/nginx` (`pod/other/nginx` outside of the namespace `default`), `host/outside`.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Interfaces in the order of their creation, without the loopback.
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
    /// The entries by which a node reaches the others.
    pub(in crate::topology) peers: Option<PeerRoutes>,
    /// Kernel settings in the order of writing: before interfaces are created, and those of an interface once it exists.
    pub sysctls: Vec<Sysctl>,
    /// The on-link prefixes of `eth0`, for packets injected on the wire.
    pub on_link: Vec<IpNet>,
    /// The MAC address of the gateway, for packets injected on the wire that are not on-link.
    pub gateway: Option<Mac>,
    /// Whether the machine is off, and therefore its link down, too.
    pub is_off: bool,
}

/// A kernel setting below `net`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sysctl {
    /// Its name without `net.`, as sysctl(8) writes it: `ipv4.ip_forward`, `ipv4.conf.flannel/1.rp_filter`.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The place in the scenario that asks for it; `None` for svclab's own settings.
    pub asked_for: Option<Span>,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    /// The interface index, unique in its namespace, from 2.
    pub index: u32,
    /// The interface's name.
    pub name: String,
    /// The MAC address.
    pub mac: Mac,
    /// The kind of device.
    pub kind: InterfaceKind,
    /// The index of the bridge that it is a port of.
    pub bridge: Option<u32>,
    /// Whether it is a bridge port in hairpin mode.
    pub hairpin: bool,
    /// Whether its link passes packets; a bridge or VXLAN device follows its ports or its carrier.
    pub carrier: Carrier,
    /// The size of the largest IP packet that it sends, in bytes.
    pub mtu: u16,
    /// The impairments of the packets that it sends.
    pub impairment: Impairment,
}

/// Whether a link passes packets, seen from one of its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Carrier {
    /// It passes packets.
    #[default]
    Up,
    /// It does not pass packets because the other end is down.
    Lost,
    /// It does not pass packets because this end is down.
    Down,
}

/// The kind of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InterfaceKind {
    /// The end of a veth pair that creates the pair.
    VethOwner(LinkEnd),
    /// The peer that is created with it.
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
        self.routes.iter().chain(self.peers.iter().flat_map(PeerRoutes::routes))
    }

    /// The routes that it does not share with other nodes, including those to its pods.
    pub(crate) fn own_routes(&self) -> &[Route] {
        &self.routes
    }

    /// The neighbours that it does not share with other nodes, including its pods.
    pub(crate) fn own_neighbours(&self) -> &[Neighbour] {
        &self.neighbours
    }

    /// All permanent neighbours.
    pub(crate) fn neighbours(&self) -> impl DoubleEndedIterator<Item = &Neighbour> {
        self.neighbours.iter().chain(self.peers.iter().flat_map(PeerRoutes::neighbours))
    }

    /// All permanent forwarding entries of bridges and VXLAN devices.
    pub(crate) fn fdb(&self) -> impl DoubleEndedIterator<Item = &Fdb> {
        self.fdb.iter().chain(self.peers.iter().flat_map(PeerRoutes::fdb))
    }

    /// The node's name, if it is a node.
    pub(crate) fn node_name(&self) -> Option<&str> {
        self.name.strip_prefix("node/")
    }

    /// An empty namespace.
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

    /// The index of the next interface: 1 is the loopback's.
    pub(in crate::topology) fn next_index(&self) -> u32 {
        self.interfaces.last().map_or(1, |last| last.index) + 1
    }

    /// Adds a kernel setting of svclab's own.
    pub(crate) fn set(&mut self, name: impl Into<String>, value: impl ToString) {
        self.sysctls.push(Sysctl { name: name.into(), value: value.to_string(), asked_for: None });
    }

    /// Keeps the kernel from sending packets on its own: no IPv6 address, no router solicitation.
    pub(in crate::topology) fn silence(&mut self) {
        self.set("ipv6.conf.default.disable_ipv6", 1);
    }

    /// Disables the parts of IPv6 that only take time: duplicate address detection, link-local addresses, autoconfiguration.
    pub(crate) fn quiet_ipv6(&mut self) {
        self.set("ipv6.conf.default.accept_dad", 0);
        self.set("ipv6.conf.all.accept_dad", 0);
        self.set("ipv6.conf.default.addr_gen_mode", 1);
        self.set("ipv6.conf.default.accept_ra", 0);
        self.set("ipv6.conf.default.router_solicitations", 0);
    }

    /// Makes the kernel forward packets, without reverse-path filters and redirects, and send every ICMP error. By default, ICMP errors to
    /// one destination are limited to one per second after the first few, but a lab's probes follow each other faster.
    pub(crate) fn forward_packets(&mut self) {
        self.set("ipv4.ip_forward", 1);
        // If the host forwards, setting this changes nothing, and a new namespace inherits the host's `default`.
        self.set("ipv4.conf.default.forwarding", 1);
        self.set("ipv6.conf.all.forwarding", 1);
        self.set("ipv6.conf.default.forwarding", 1);
        // An empty mask of message types; for IPv6 it is a list, which cannot be empty: type 0 is reserved.
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

    /// Whether the namespace's kernel has addresses, or forwards packets.
    pub(crate) fn has_stack(&self) -> bool {
        self.forwards() || !self.addresses.is_empty()
    }

    /// The indices of interfaces that delay packets, which may wait there for a long time.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = u32> {
        let may_queue = |impairment: Impairment| !impairment.delay.is_zero() || impairment.rate.is_some();
        let waiting = self.interfaces.iter().filter(move |interface| may_queue(interface.impairment));
        waiting.map(|interface| interface.index)
    }

    /// The indices of interfaces with a carrier: veths whose links are up, and bridges with such ports. Ports come before their bridge,
    /// because it gets its carrier from them.
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

    /// Whether a setting belongs to one of the namespace's interfaces, so that it exists only once the interface does.
    pub(crate) fn is_about_interface(&self, sysctl: &Sysctl) -> bool {
        let mut parts = sysctl.name.split('.');
        let (family, table, name) = (parts.next(), parts.next(), parts.next().unwrap_or_default());
        matches!((family, table), (Some("ipv4" | "ipv6"), Some("conf" | "neigh")))
            && self.interfaces.iter().any(|interface| interface.name == name.replace('/', "."))
    }

    /// The interface with this index.
    pub(crate) fn interface(&self, index: u32) -> Option<&Interface> {
        // Indices are consecutive, starting at 2.
        let expected =
            self.interfaces.get((index as usize).checked_sub(2)?).filter(|interface| interface.index == index);
        expected.or_else(|| self.interfaces.iter().find(|interface| interface.index == index))
    }
}

impl Interface {
    /// An interface with the MAC address for its namespace and index.
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
}

/// The MTU of Ethernet.
const ETHERNET: u16 = 1500;

impl InterfaceKind {
    /// The default MTU.
    pub(crate) fn usual_mtu(&self) -> u16 {
        ETHERNET - self.overhead()
    }

    /// The number of bytes that it adds to a packet.
    pub(crate) fn overhead(&self) -> u16 {
        match self {
            // The headers of IP, UDP, VXLAN and Ethernet.
            Self::Vxlan { local: IpAddr::V4(_), .. } => 20 + 8 + 8 + 14,
            Self::Vxlan { local: IpAddr::V6(_), .. } => 40 + 8 + 8 + 14,
            Self::VethOwner(_) | Self::VethPeer(_) | Self::Bridge => 0,
        }
    }
}
