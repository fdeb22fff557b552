//! The pods and hosts behind the interfaces of a forwarding namespace.

use std::net::IpAddr;

use crate::topology::{NetnsId, Role, Topology};

/// The pods and hosts that one namespace delivers packets to, by interface.
///
/// A packet is delivered when it leaves through the interface of the pod or host that has its destination address. Pods with rules of their
/// own forward packets, so entering such a pod is not a delivery.
pub(super) struct Outlets {
    behind: Vec<Option<Outlet>>,
}

struct Outlet {
    netns: NetnsId,
    addresses: Vec<IpAddr>,
}

impl Outlets {
    /// The outlets of a namespace.
    pub(super) fn of(topology: &Topology, netns: NetnsId) -> Self {
        let mut behind = Vec::new();
        for interface in &topology.namespaces[netns].interfaces {
            let index = interface.index as usize;
            behind.resize_with(behind.len().max(index + 1), || None);
            behind[index] = topology.behind(netns, interface.index).and_then(|netns| {
                let outlet = &topology.namespaces[netns];
                let at_wire = matches!(outlet.role, Role::Pod | Role::Host);
                at_wire.then(|| Outlet { netns, addresses: outlet.addresses_on_wire.clone() })
            });
        }
        Self { behind }
    }

    /// The receiver of a packet that leaves through an interface, if it leads to the pod or host with the destination address.
    #[inline]
    pub(super) fn receiver(&self, interface: u32, destination: IpAddr) -> Option<NetnsId> {
        let outlet = self.behind.get(interface as usize)?.as_ref()?;
        outlet.addresses.contains(&destination).then_some(outlet.netns)
    }

    /// The lowest index of an interface that leads to a pod or host.
    pub(super) fn first(&self) -> Option<u32> {
        self.behind.iter().position(Option::is_some).and_then(|index| u32::try_from(index).ok())
    }
}
