//! Links that are not as usual, in the plan.

use svclab_rules::cluster::{Cluster, Link, LinkOwner, LinkState};

use super::model::Carrier;
use super::{ETH0, InterfaceKind, Topology};

/// Makes links what they are in a state of a cluster.
pub(super) fn plan(topology: &mut Topology, cluster: &Cluster) {
    for (owner, link) in &cluster.links {
        change(topology, owner, *link);
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
    topology.namespaces[machine].is_off = link.state == LinkState::MachineOff;
    if link.state.is_up() {
        return;
    }
    // A kernel forgets the routes and neighbours of an interface that is taken down, and keeps those of one that only has no carrier.
    // So the end that has none is taken down: a bridge's port, or the pod's.
    let is_port = topology.namespaces[far.0].interface(far.1).is_some_and(|port| port.bridge.is_some());
    let (down, other) = if is_port { (far, near) } else { (near, far) };
    for ((netns, index), carrier) in [(down, Carrier::Down), (other, Carrier::Lost)] {
        let mut interfaces = topology.namespaces[netns].interfaces.iter_mut();
        if let Some(interface) = interfaces.find(|interface| interface.index == index) {
            interface.carrier = carrier;
        }
    }
}
