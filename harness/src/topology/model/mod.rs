//! The plan as plain values.

mod deviations;
mod netns;
mod routes;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;

pub(crate) use self::deviations::Deviation;
pub(crate) use self::netns::{Carrier, Interface, InterfaceKind, LinkEnd, Netns, Role, Sysctl};
pub(crate) use self::routes::{Fdb, Hop, Neighbour, Route};
pub(super) use self::routes::{PeerRoutes, Peers};
use crate::wire::Mac;

/// All namespaces of a lab.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Topology {
    /// The namespaces; a [`NetnsId`] is an index of this list. The underlay is the first.
    pub namespaces: Vec<Netns>,
    /// The pod or outside host that has an address outside of the nodes' kernels.
    pub owners: HashMap<IpAddr, NetnsId>,
    /// Whether pods and outside hosts have addresses in their own kernel, too.
    pub has_stacks: bool,
}

/// An index into [`Topology::namespaces`].
pub(crate) type NetnsId = usize;

/// The index of `lo` in every namespace.
pub(crate) const LOOPBACK: u32 = 1;

/// The index of `eth0` in every namespace that has one.
pub(crate) const ETH0: u32 = 2;

/// The underlay's index.
pub(crate) const UNDERLAY: NetnsId = 0;

/// The MAC address of an interface of a namespace: locally administered and unique in the lab.
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

    /// Whether any machine has an IPv6 address.
    pub(crate) fn has_ipv6(&self) -> bool {
        let kernels = self.namespaces.iter().flat_map(|netns| &netns.addresses).map(|(_, prefix)| prefix.addr());
        kernels.chain(self.owners.keys().copied()).any(|address| address.is_ipv6())
    }

    /// The namespace of this name.
    pub(crate) fn find(&self, name: &str) -> Option<NetnsId> {
        self.namespaces.iter().position(|netns| netns.name == name)
    }

    /// A name for an interface that leads to another namespace: with the name of that namespace if it is short enough
    /// and unused, otherwise with its number.
    pub(in crate::topology) fn interface_name(&self, netns: NetnsId, prefix: &str, to: NetnsId) -> String {
        /// IFNAMSIZ of linux/if.h, without the closing zero.
        const LONGEST: usize = 15;
        let name = self.namespaces[to].name.rsplit('/').next().unwrap_or_default();
        let name = format!("{prefix}-{name}");
        let is_taken = self.namespaces[netns].interfaces.iter().any(|interface| interface.name == name);
        if is_taken || name.len() > LONGEST { format!("{prefix}{to}") } else { name }
    }

    /// Connects two namespaces by a veth pair, and returns the indices of the owner's and the peer's end.
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

    /// The MAC address to which a packet injected on the wire of a namespace is sent: that of the node `via` if it is given, regardless of
    /// routes.
    pub(crate) fn first_hop(&self, from: NetnsId, destination: IpAddr, via: Option<NetnsId>) -> Option<Mac> {
        via.map(|node| mac_of(node, ETH0)).or_else(|| self.next_hop(from, destination))
    }

    /// The MAC address to which routes send a packet injected on the wire of a namespace.
    pub(crate) fn next_hop(&self, from: NetnsId, destination: IpAddr) -> Option<Mac> {
        let netns = self.namespaces.get(from)?;
        let neighbour =
            self.owners.get(&destination).filter(|_| netns.on_link.iter().any(|net| net.contains(&destination)));
        neighbour.map(|owner| mac_of(*owner, ETH0)).or(netns.gateway)
    }

    /// The node that the underlay routes packets for a service address to.
    pub(crate) fn entry_node(&self, destination: IpAddr) -> Option<&Netns> {
        let mut routes = self.namespaces[UNDERLAY].routes();
        let route = routes.find(|route| route.destination == IpNet::from(destination))?;
        let gateway = route.hop.gateway()?;
        let mut nodes = self.namespaces.iter().filter(|netns| netns.role == Role::Node);
        nodes.find(|node| node.addresses.iter().any(|(_, address)| address.addr() == gateway))
    }

    /// The addresses of nodes, by the node's name.
    pub(crate) fn node_addresses(&self) -> BTreeMap<String, Vec<IpAddr>> {
        let own = |netns: &Netns| netns.addresses.iter().map(|(_, prefix)| prefix.addr()).collect();
        let nodes = self.namespaces.iter().filter(|netns| netns.role == Role::Node);
        nodes.filter_map(|netns| Some((netns.node_name()?.to_owned(), own(netns)))).collect()
    }

    /// The namespace that a packet enters when it leaves this namespace through an interface.
    pub(crate) fn behind(&self, netns: NetnsId, index: u32) -> Option<NetnsId> {
        match self.namespaces.get(netns)?.interface(index)?.kind {
            InterfaceKind::VethOwner(end) | InterfaceKind::VethPeer(end) => Some(end.netns),
            InterfaceKind::Bridge | InterfaceKind::Vxlan { .. } => None,
        }
    }

    /// The owner of the link between two namespaces: the one farther from the underlay.
    pub(crate) fn link_owner(&self, one: NetnsId, other: NetnsId) -> &str {
        let distance = |netns: NetnsId| match self.namespaces[netns].role {
            Role::Underlay => 0,
            Role::Node => 1,
            Role::Pod | Role::RoutingPod | Role::Host => 2,
        };
        let owner = if distance(one) > distance(other) { one } else { other };
        &self.namespaces[owner].name
    }
}
