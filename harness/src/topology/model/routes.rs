//! Routes, neighbours and forwarding entries, including those that nodes share.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::NetnsId;
use crate::wire::Mac;

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
    /// A gateway behind an interface.
    Gateway(IpAddr, u32),
    /// None: the destination is on the link of an interface.
    Link(u32),
    /// A blackhole: packets are dropped silently.
    Nowhere,
}

impl Hop {
    /// The gateway, if there is one.
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
    /// Its MAC address.
    pub mac: Mac,
}

/// A permanent forwarding entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fdb {
    /// The index of the bridge port or of the VXLAN device.
    pub interface: u32,
    /// The MAC address behind it.
    pub mac: Mac,
    /// For VXLAN, the address of the node that has it.
    pub remote: Option<IpAddr>,
}

/// The entries by which nodes reach each other. Each entry leads to a node, given first, which does not have the entry itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Peers {
    pub(in crate::topology) routes: Vec<(NetnsId, Route)>,
    pub(in crate::topology) neighbours: Vec<(NetnsId, Neighbour)>,
    pub(in crate::topology) fdb: Vec<(NetnsId, Fdb)>,
}

/// The entries of one node among its peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerRoutes {
    pub(in crate::topology) peers: Arc<Peers>,
    pub(in crate::topology) own: NetnsId,
}

impl PeerRoutes {
    pub(super) fn routes(&self) -> impl DoubleEndedIterator<Item = &Route> {
        self.without_own(&self.peers.routes)
    }

    pub(super) fn neighbours(&self) -> impl DoubleEndedIterator<Item = &Neighbour> {
        self.without_own(&self.peers.neighbours)
    }

    pub(super) fn fdb(&self) -> impl DoubleEndedIterator<Item = &Fdb> {
        self.without_own(&self.peers.fdb)
    }

    fn without_own<'p, T>(&self, all: &'p [(NetnsId, T)]) -> impl DoubleEndedIterator<Item = &'p T> + use<'p, T> {
        let own = self.own;
        all.iter().filter(move |(to, _)| *to != own).map(|(_, entry)| entry)
    }
}
