//! Pods that a machine's network handles alike: each has its own address on its own link, and all links have the same settings. So a set of
//! packets to such pods needs to be followed to only one of them.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use svclab_rules::cluster::{Family, Impairment};
use svclab_rules::walk::{Interface, address_bits};

use super::settings::InterfaceSettings;
use crate::topology::{Carrier, Hop, InterfaceKind, LOOPBACK, Netns, NetnsId, Role, Route, Topology};

/// The pods on a machine's links that are handled alike.
#[derive(Debug, Clone, Default)]
pub(super) struct EquivalentPods {
    /// The interface and the kind of the pod with an address.
    pods: HashMap<IpAddr, (u32, usize)>,
    /// The interface names of these pods, as numbers, each with the pod's address, by family.
    pub(super) named: [Arc<[(u128, u128)]>; 2],
}

/// The common properties of pods that are handled alike: the settings of their interface, the networks on their link, whether they have a
/// gateway, and the state of their link.
type Kind = (InterfaceSettings, Vec<ipnet::IpNet>, bool, Option<(Carrier, u16, Impairment)>);

impl EquivalentPods {
    pub(super) fn of(netns: &Netns, topology: &Topology, settings: &[InterfaceSettings]) -> Self {
        let mut kinds: Vec<Kind> = Vec::new();
        let mut pods = HashMap::new();
        // Shared routes and neighbours lead to other nodes, never to local pods.
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

    /// The kind of the pod that a route leads to; `None` if the pod is not handled like others.
    pub(super) fn kind(&self, route: &Route) -> Option<usize> {
        let (_, kind) = self.pods.get(&route.destination.addr()).filter(|_| is_of_one(route))?;
        Some(*kind)
    }

    /// Whether an address belongs to a pod behind this interface that is handled like others.
    pub(super) fn has(&self, address: IpAddr, interface: u32) -> bool {
        self.pods.get(&address).is_some_and(|(own, _)| *own == interface)
    }
}

fn is_of_one(route: &Route) -> bool {
    route.destination.prefix_len() == route.destination.max_prefix_len()
}

/// The pod that a route leads to, with its address and interface, if the link is the pod's own and the machine has no address on it.
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
