//! Links with settings other than the default, in the plan.

use svclab_rules::cluster::{Cluster, Link, LinkOwner, LinkState};

use super::model::Carrier;
use super::{ETH0, Interface, InterfaceKind, Netns, NetnsId, Topology};

/// Applies the link settings of a state of a cluster.
pub(super) fn plan(topology: &mut Topology, cluster: &Cluster) {
    for (owner, link) in &cluster.links {
        change(topology, owner, *link);
    }
    topology.namespaces.iter_mut().for_each(follow);
}

/// Gives bridges the smallest MTU of their ports, as the kernel does, and VXLAN devices the MTU of their carrier less the encapsulation
/// overhead, as flannel does.
fn follow(netns: &mut Netns) {
    for index in 0..netns.interfaces.len() {
        let own = &netns.interfaces[index];
        let mtu_of = |index: u32| netns.interface(index).map(|one| one.mtu);
        let mtu = match own.kind {
            InterfaceKind::Bridge => {
                let ports = netns.interfaces.iter().filter(|port| port.bridge == Some(own.index));
                ports.map(|port| port.mtu).min()
            }
            InterfaceKind::Vxlan { over, .. } => mtu_of(over).map(|mtu| mtu - own.kind.overhead()),
            InterfaceKind::VethOwner(_) | InterfaceKind::VethPeer(_) => None,
        };
        netns.interfaces[index].mtu = mtu.unwrap_or(own.mtu);
    }
}

fn change(topology: &mut Topology, owner: &LinkOwner, link: Link) {
    let Some(machine) = topology.find(&owner.to_string()) else { return };
    let Some(InterfaceKind::VethPeer(far) | InterfaceKind::VethOwner(far)) =
        topology.namespaces[machine].interface(ETH0).map(|eth0| &eth0.kind)
    else {
        return;
    };
    let (near, far) = ((machine, ETH0), (far.netns, far.index));
    for (netns, index) in [near, far] {
        if let Some(end) = end_of(topology, netns, index) {
            end.mtu = link.mtu.unwrap_or(end.mtu);
            end.impairment = link.impairment;
        }
    }
    topology.namespaces[machine].is_off = link.state == LinkState::MachineOff;
    if link.state.is_up() {
        return;
    }
    // The kernel deletes the routes and neighbours of an interface that is taken down, and keeps those of one that only loses its carrier.
    // So the end without routes is taken down: a bridge's port, or the pod's.
    let is_port = topology.namespaces[far.0].interface(far.1).is_some_and(|port| port.bridge.is_some());
    let (down, other) = if is_port { (far, near) } else { (near, far) };
    for ((netns, index), carrier) in [(down, Carrier::Down), (other, Carrier::Lost)] {
        if let Some(end) = end_of(topology, netns, index) {
            end.carrier = carrier;
        }
    }
}

fn end_of(topology: &mut Topology, netns: NetnsId, index: u32) -> Option<&mut Interface> {
    topology.namespaces[netns].interfaces.iter_mut().find(|interface| interface.index == index)
}
