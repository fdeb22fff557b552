//! The client, and the nodes that its packets reach before DNAT.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::question::{Question, VantagePoint};
use crate::cluster::{Cluster, Family, Node, ObjectName, Pod};

/// The client of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Client<'a> {
    /// The initial source of its packets.
    pub(super) address: IpAddr,
    /// Where its packets start.
    pub(super) place: Place<'a>,
}

/// Where a client's packets start.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// In a pod with its own network namespace, on this node.
    Pod(&'a Node),
    /// In this node's own network namespace.
    Process(&'a Node),
    /// On a machine that is not in the cluster.
    Outside,
}

impl<'a> Client<'a> {
    /// Finds the client; `find_pod` finds pods by name. `None` if there is no such client, or it has no address of the destination's
    /// family.
    pub(super) fn of(
        cluster: &'a Cluster,
        question: &Question,
        find_pod: impl Fn(&ObjectName) -> Option<&'a Pod>,
    ) -> Option<Self> {
        let to = question.to.ip();
        let family = Family::of(to);
        match &question.from {
            VantagePoint::Pod(name) => {
                let pod = find_pod(name)?;
                let node = cluster.node(&pod.node)?;
                if pod.host_network {
                    return Self::process(node, to);
                }
                let address = pod.ips.iter().copied().find(|ip| Family::of(*ip) == family)?;
                Some(Self { address, place: Place::Pod(node) })
            }
            VantagePoint::Node(name) => Self::process(cluster.node(name)?, to),
            VantagePoint::Localhost(name) => {
                let place = Place::Process(cluster.node(name)?);
                Some(Self { address: localhost(family), place })
            }
            VantagePoint::Outside(address) => {
                (Family::of(*address) == family).then_some(Self { address: *address, place: Place::Outside })
            }
        }
    }

    /// Returns a process on a node. The kernel uses the destination as source if it is the node's own address, otherwise the address of the
    /// output interface, assumed to be the node's first.
    fn process(node: &'a Node, to: IpAddr) -> Option<Self> {
        let place = Place::Process(node);
        if to.is_loopback() {
            return Some(Self { address: localhost(Family::of(to)), place });
        }
        let asked = Some(to).filter(|to| has_address(node, *to));
        let first = || node.addresses().find(|ip| Family::of(*ip) == Family::of(to));
        let address = asked.or_else(first)?;
        Some(Self { address, place })
    }

    /// The other addresses that its packets may have instead: those of the node for a process that sends from one of them.
    pub(super) fn other_sources(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let of_node = match self.place {
            Place::Process(node) => node.internal_ips.as_slice(),
            Place::Pod(_) | Place::Outside => &[],
        };
        let is_alike = |ip: &IpAddr| Family::of(*ip) == Family::of(self.address);
        of_node.iter().copied().filter(move |ip| of_node.contains(&self.address) && is_alike(ip) && *ip != self.address)
    }

    /// Returns the node that it is on.
    pub(super) fn node(&self) -> Option<&'a Node> {
        match self.place {
            Place::Pod(node) | Place::Process(node) => Some(node),
            Place::Outside => None,
        }
    }

    /// Returns whether it is on this node.
    pub(super) fn is_on(&self, node: &Node) -> bool {
        self.node().is_some_and(|own| own.name == node.name)
    }

    /// Returns whether it is a process on this node.
    pub(super) fn is_process_of(&self, node: &Node) -> bool {
        matches!(self.place, Place::Process(own) if own.name == node.name)
    }

    /// Returns the nodes whose kube-proxy sees the packet with its original destination, in order: the client's own node, or for an outside
    /// host the node that the network forwards the packet to; then the node that has the address.
    ///
    /// A node handles a packet if the address is a service's address on every node, or one of its own node ports. So a pod's packet to
    /// another node's node port passes its own node untranslated.
    pub(super) fn nodes_on_the_way(&self, cluster: &'a Cluster, question: &Question) -> Vec<&'a Node> {
        let via = question.via.as_ref().filter(|_| matches!(self.place, Place::Outside));
        let first = self.node().or_else(|| cluster.node(via?));
        let last = cluster.nodes.iter().find(|node| has_address(node, question.to.ip()));
        let last = last.filter(|last| first.is_none_or(|first| first.name != last.name));
        first.into_iter().chain(last).collect()
    }
}

/// Returns whether an address is a node's own.
pub(super) fn has_address(node: &Node, address: IpAddr) -> bool {
    node.addresses().any(|own| own == address)
}

fn localhost(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => Ipv4Addr::LOCALHOST.into(),
        Family::Ipv6 => Ipv6Addr::LOCALHOST.into(),
    }
}
