//! Pods of a machine that its network treats alike: each has an address of its own on a link of its own, and all links are set alike. So a
//! set of packets to them needs to be followed to one of them only.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use svclab_rules::cluster::{Family, Impairment};
use svclab_rules::walk::{Interface, address_bits};

use super::settings::OfInterface;
use crate::topology::{Carrier, Hop, InterfaceKind, LOOPBACK, Netns, NetnsId, Role, Route, Topology};

/// The pods on links of a machine that are handled alike.
#[derive(Debug, Clone, Default)]
pub(super) struct Alike {
    /// The interface and the kind of the pod with an address.
    pods: HashMap<IpAddr, (u32, usize)>,
    /// The interfaces of these pods as rules name them, each with its address, by family.
    pub(super) named: [Arc<[(u128, u128)]>; 2],
}

/// What pods that are handled alike have in common: the settings of their interface, what is on their link, whether they have a gateway, and how
/// their link is.
type Kind = (OfInterface, Vec<ipnet::IpNet>, bool, Option<(Carrier, u16, Impairment)>);

impl Alike {
    pub(super) fn of(netns: &Netns, topology: &Topology, settings: &[OfInterface]) -> Self {
        let mut kinds: Vec<Kind> = Vec::new();
        let mut pods = HashMap::new();
        // Those that nodes share lead to other nodes, never to pods of one's own.
        let neighbours = netns.own_neighbours().iter().map(|one| (one.interface, one.address)).collect();
        for route in netns.own_routes() {
            let Some((address, interface, pod)) = to_pod(route, netns, topology, &neighbours) else { continue };
            let pod = &topology.namespaces[pod];
            let own = settings.get(interface as usize).unwrap_or(&settings[LOOPBACK as usize]);
            let link = netns.interface(interface).map(|one| (one.carrier, one.mtu, one.impairment));
            let kind = (*own, pod.on_link.clone(), pod.gateway.is_some(), link);
            let position = kinds.iter().position(|known| *known == kind).unwrap_or_else(|| {
                kinds.push(kind);
                kinds.len() - 1
            });
            pods.insert(address, (interface, position));
        }
        let of_family = |family: Family| {
            let own = pods.iter().filter(|(address, _)| Family::of(**address) == family);
            let named = own.filter_map(|(address, (interface, _))| {
                let name = Interface::new(&netns.interface(*interface)?.name)?;
                Some((Interface::number(Some(name)), address_bits(*address)))
            });
            named.collect()
        };
        Self { named: Family::ALL.map(of_family), pods }
    }

    /// The kind of the pod that a route leads to; `None` if it is not like others.
    pub(super) fn kind(&self, route: &Route) -> Option<usize> {
        let (_, kind) = self.pods.get(&route.destination.addr()).filter(|_| is_of_one(route))?;
        Some(*kind)
    }

    /// Whether an address is that of a pod behind an interface which is like others.
    pub(super) fn has(&self, address: IpAddr, interface: u32) -> bool {
        self.pods.get(&address).is_some_and(|(own, _)| *own == interface)
    }
}

fn is_of_one(route: &Route) -> bool {
    route.destination.prefix_len() == route.destination.max_prefix_len()
}

/// The pod that a route leads to, with the address and the interface, if the link is the pod's alone and has no address of the machine.
fn to_pod(
    route: &Route,
    netns: &Netns,
    topology: &Topology,
    neighbours: &HashSet<(u32, IpAddr)>,
) -> Option<(IpAddr, u32, NetnsId)> {
    let Hop::Link(index) = route.hop else { return None };
    let interface = netns.interface(index).filter(|interface| interface.bridge.is_none())?;
    let (InterfaceKind::VethOwner(end) | InterfaceKind::VethPeer(end)) = interface.kind else { return None };
    let address = route.destination.addr();
    let pod = &topology.namespaces[end.netns];
    let is_alone = pod.role == Role::Pod
        && is_of_one(route)
        && topology.owners.get(&address) == Some(&end.netns)
        && pod.addresses_on_wire.contains(&address)
        && netns.addresses.iter().all(|(own, _)| *own != index)
        && neighbours.contains(&(index, address));
    is_alone.then_some((address, index, end.netns))
}
