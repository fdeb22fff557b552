//! Network stacks for pods and outside hosts, in which real programs run.

use std::net::IpAddr;

use super::pod::{neighbours_on_link, stack};
use super::{ETH0, Role, Topology};

/// Gives pods and outside hosts addresses, routes and neighbours in their own kernel, in addition to the packets that svclab sends and
/// answers on their wire. While a probe is running, their kernels must be silenced: see [`Lab::silence`](crate::lab::Lab::silence).
pub(crate) fn with_stacks(mut topology: Topology) -> Topology {
    topology.has_stacks = true;
    let mut on_bridges = Vec::new();
    for (id, netns) in topology.namespaces.iter_mut().enumerate() {
        let (Role::Pod | Role::Host, Some(gateway)) = (netns.role, netns.gateway) else { continue };
        if netns.addresses_on_wire.iter().any(IpAddr::is_ipv6) {
            netns.sysctls.clear();
            netns.quiet_ipv6();
        }
        let ips = netns.addresses_on_wire.clone();
        stack(netns, &ips, ETH0, gateway);
        on_bridges.extend(Some(id).filter(|_| !netns.on_link.is_empty()));
    }
    on_bridges.into_iter().for_each(|id| neighbours_on_link(&mut topology, id));
    topology
}
