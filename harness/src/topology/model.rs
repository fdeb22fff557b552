//! The plan as plain values.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::scenario::Span;
use crate::wire::Mac;

/// All namespaces of a lab.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Topology {
    /// The namespaces; a [`NetnsId`] is an index of this list. The underlay is the first.
    pub namespaces: Vec<Netns>,
    /// The pod or outside host that has an address outside of the nodes' kernels.
    pub owners: HashMap<IpAddr, NetnsId>,
}

/// An index into [`Topology::namespaces`].
pub(crate) type NetnsId = usize;

/// The index of `lo` in every namespace.
pub(crate) const LOOPBACK: u32 = 1;
/// The index of `eth0` in every namespace that has one.
pub(crate) const ETH0: u32 = 2;

/// The underlay's index.
pub(crate) const UNDERLAY: NetnsId = 0;

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
    pub(super) routes: Vec<Route>,
    /// Its own permanent neighbours.
    pub(super) neighbours: Vec<Neighbour>,
    /// Its own permanent forwarding entries of bridges and VXLAN devices.
    pub(super) fdb: Vec<Fdb>,
    /// Those of a node to reach the others.
    pub(super) peers: Option<OfPeers>,
    /// Kernel settings in the order of writing: before interfaces are made, and those of an interface once it is there.
    pub sysctls: Vec<Sysctl>,
    /// Ranges that are on the link of `eth0`, for packets made on the wire.
    pub on_link: Vec<IpNet>,
    /// Where packets made on the wire go that are not for the link.
    pub gateway: Option<Mac>,
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

/// A route in the main table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    /// The destination.
    pub destination: IpNet,
    /// The next hop.
    pub hop: Hop,
}

/// The next hop of a route. Interfaces are given by their index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Hop {
    /// To a next hop behind an interface.
    Gateway(IpAddr, u32),
    /// To the destination itself, on the link of an interface.
    Link(u32),
    /// To a blackhole: packets are dropped silently.
    Nowhere,
}

impl Hop {
    /// The next hop, where that is another machine than the destination.
    pub(crate) fn gateway(self) -> Option<IpAddr> {
        match self {
            Self::Gateway(address, _) => Some(address),
            Self::Link(_) | Self::Nowhere => None,
        }
    }
}

/// A permanent neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Neighbour {
    /// The index of the interface.
    pub interface: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address.
    pub mac: Mac,
}

/// A permanent forwarding entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fdb {
    /// The index of the bridge's port or of the VXLAN device.
    pub interface: u32,
    /// The hardware address behind it.
    pub mac: Mac,
    /// With VXLAN, the node that has it.
    pub remote: Option<IpAddr>,
}

/// What nodes need to reach each other. Each entry leads to a node, given first, which does not have the entry itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Peers {
    pub(super) routes: Vec<(NetnsId, Route)>,
    pub(super) neighbours: Vec<(NetnsId, Neighbour)>,
    pub(super) fdb: Vec<(NetnsId, Fdb)>,
}

/// The entries of one node among its peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OfPeers {
    pub(super) peers: Arc<Peers>,
    pub(super) own: NetnsId,
}

impl OfPeers {
    fn routes(&self) -> impl DoubleEndedIterator<Item = &Route> {
        self.without_own(&self.peers.routes)
    }

    fn neighbours(&self) -> impl DoubleEndedIterator<Item = &Neighbour> {
        self.without_own(&self.peers.neighbours)
    }

    fn fdb(&self) -> impl DoubleEndedIterator<Item = &Fdb> {
        self.without_own(&self.peers.fdb)
    }

    fn without_own<'p, T>(&self, all: &'p [(NetnsId, T)]) -> impl DoubleEndedIterator<Item = &'p T> + use<'p, T> {
        let own = self.own;
        all.iter().filter(move |(to, _)| *to != own).map(|(_, entry)| entry)
    }
}

/// The hardware address of an interface of a namespace: locally administered and unique in the lab.
pub(crate) fn mac_of(netns: NetnsId, index: u32) -> Mac {
    let [.., high, middle, low] = netns.to_be_bytes();
    let [.., index_high, index_low] = index.to_be_bytes();
    Mac([0x02, high, middle, low, index_high, index_low])
}

impl Topology {
    /// Adds a namespace.
    pub(crate) fn add(&mut self, netns: Netns) -> NetnsId {
        self.namespaces.push(netns);
        self.namespaces.len() - 1
    }

    /// True where any machine has an IPv6 address.
    pub(crate) fn has_ipv6(&self) -> bool {
        let kernels = self.namespaces.iter().flat_map(|netns| &netns.addresses).map(|(_, prefix)| prefix.addr());
        kernels.chain(self.owners.keys().copied()).any(|address| address.is_ipv6())
    }

    /// The namespace of this name.
    pub(crate) fn find(&self, name: &str) -> Option<NetnsId> {
        self.namespaces.iter().position(|netns| netns.name == name)
    }

    /// A name for an interface of a namespace that leads to another: after that one's name where it is short enough and
    /// not taken, else after its number.
    pub(super) fn interface_name(&self, netns: NetnsId, prefix: &str, to: NetnsId) -> String {
        /// IFNAMSIZ of linux/if.h, without the closing zero.
        const LONGEST: usize = 15;
        let name = self.namespaces[to].name.rsplit('/').next().unwrap_or_default();
        let name = format!("{prefix}-{name}");
        let is_taken = self.namespaces[netns].interfaces.iter().any(|interface| interface.name == name);
        if is_taken || name.len() > LONGEST { format!("{prefix}{to}") } else { name }
    }

    /// Joins two namespaces by a veth pair; returns the index of the owner's end and of the peer's.
    pub(crate) fn link(&mut self, owner: (NetnsId, String), peer: (NetnsId, &str)) -> (u32, u32) {
        let (owner_index, peer_index) = (self.namespaces[owner.0].next_index(), self.namespaces[peer.0].next_index());
        let end = |netns, index, name: String, kind| (netns, Interface::new(netns, index, name, kind));
        let ends = [
            end(owner.0, owner_index, owner.1, InterfaceKind::VethOwner(LinkEnd { netns: peer.0, index: peer_index })),
            end(
                peer.0,
                peer_index,
                peer.1.to_owned(),
                InterfaceKind::VethPeer(LinkEnd { netns: owner.0, index: owner_index }),
            ),
        ];
        for (netns, interface) in ends {
            self.namespaces[netns].interfaces.push(interface);
        }
        (owner_index, peer_index)
    }

    /// The hardware address that a packet made on the wire of a namespace is sent to: that of the node which it is handed to, if
    /// there is one, whatever routes say.
    pub(crate) fn first_hop(&self, from: NetnsId, destination: IpAddr, via: Option<NetnsId>) -> Option<Mac> {
        via.map(|node| mac_of(node, ETH0)).or_else(|| self.next_hop(from, destination))
    }

    /// The hardware address that a packet made on the wire of a namespace is sent to by routes.
    pub(crate) fn next_hop(&self, from: NetnsId, destination: IpAddr) -> Option<Mac> {
        let netns = self.namespaces.get(from)?;
        let neighbour =
            self.owners.get(&destination).filter(|_| netns.on_link.iter().any(|net| net.contains(&destination)));
        neighbour.map(|owner| mac_of(*owner, ETH0)).or(netns.gateway)
    }

    /// The same network as Kubernetes expects it: without the settings that a scenario asks for, and with bridges that send packets
    /// back to the port they came from and hand them to iptables.
    pub(crate) fn with_default_settings(&self) -> Self {
        let mut topology = self.clone();
        for netns in topology.namespaces.iter_mut().filter(|netns| netns.role == Role::Node) {
            netns.sysctls.retain(|sysctl| sysctl.asked_for.is_none());
            netns.interfaces.iter_mut().for_each(|interface| interface.hairpin = true);
            for table in ["iptables", "ip6tables"] {
                netns.set(format!("bridge.bridge-nf-call-{table}"), 1);
            }
        }
        topology
    }

    /// The node that the underlay routes packets for a service address to.
    pub(crate) fn entry_node(&self, destination: IpAddr) -> Option<&Netns> {
        let mut routes = self.namespaces[UNDERLAY].routes();
        let route = routes.find(|route| route.destination == IpNet::from(destination))?;
        let gateway = route.hop.gateway()?;
        let mut nodes = self.namespaces.iter().filter(|netns| netns.role == Role::Node);
        nodes.find(|node| node.addresses.iter().any(|(_, address)| address.addr() == gateway))
    }

    /// The addresses that the kernels of nodes have, by the node's name.
    pub(crate) fn node_addresses(&self) -> BTreeMap<String, Vec<IpAddr>> {
        let own = |netns: &Netns| netns.addresses.iter().map(|(_, prefix)| prefix.addr()).collect();
        let nodes = self.namespaces.iter().filter(|netns| netns.role == Role::Node);
        nodes.filter_map(|netns| Some((netns.node_name()?.to_owned(), own(netns)))).collect()
    }

    /// The namespace that a packet gets into which leaves a namespace by an interface.
    pub(crate) fn behind(&self, netns: NetnsId, index: u32) -> Option<NetnsId> {
        match self.namespaces.get(netns)?.interface(index)?.kind {
            InterfaceKind::VethOwner(end) | InterfaceKind::VethPeer(end) => Some(end.netns),
            InterfaceKind::Bridge | InterfaceKind::Vxlan { .. } => None,
        }
    }
}

impl Netns {
    /// All routes.
    pub(crate) fn routes(&self) -> impl DoubleEndedIterator<Item = &Route> {
        self.routes.iter().chain(self.peers.iter().flat_map(OfPeers::routes))
    }

    /// All permanent neighbours.
    pub(crate) fn neighbours(&self) -> impl DoubleEndedIterator<Item = &Neighbour> {
        self.neighbours.iter().chain(self.peers.iter().flat_map(OfPeers::neighbours))
    }

    /// All permanent forwarding entries of bridges and VXLAN devices.
    pub(crate) fn fdb(&self) -> impl DoubleEndedIterator<Item = &Fdb> {
        self.fdb.iter().chain(self.peers.iter().flat_map(OfPeers::fdb))
    }

    /// The node's name, where it is one.
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
        }
    }

    /// The index that the next interface gets: 1 is the loopback's.
    pub(super) fn next_index(&self) -> u32 {
        self.interfaces.last().map_or(1, |last| last.index) + 1
    }

    /// Adds a kernel setting of svclab's own.
    pub(crate) fn set(&mut self, name: impl Into<String>, value: impl ToString) {
        self.sysctls.push(Sysctl { name: name.into(), value: value.to_string(), asked_for: None });
    }

    /// Keeps the kernel from sending anything on its own: no IPv6 address, no router solicitation.
    pub(super) fn silence(&mut self) {
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

    /// The indices of interfaces that have a link when all is up: veths, and bridges with ports. Ports come before their
    /// bridge, which has its link from them.
    pub(crate) fn linked(&self) -> Vec<u32> {
        let has_ports = |index| self.interfaces.iter().any(|port| port.bridge == Some(index));
        let linked = self.interfaces.iter().filter(|interface| match interface.kind {
            InterfaceKind::VethOwner(_) | InterfaceKind::VethPeer(_) => true,
            InterfaceKind::Bridge => has_ports(interface.index),
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
        Self { index, name, mac: mac_of(netns, index), kind, bridge: None, hairpin: false }
    }
}
