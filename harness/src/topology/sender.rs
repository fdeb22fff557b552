//! Where the packets of a vantage point start.

use svclab_rules::cluster::Cluster;

use super::{Role, SpaceId, Topology, pod_label};
use crate::scenario::Vantage;

/// A vantage point in a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    /// Packets are put on the `eth0` of a pod or an outside host.
    Wire(SpaceId),
    /// A process sends through its kernel.
    Process(SpaceId),
    /// A process sends through its kernel, from the loopback address.
    Loopback(SpaceId),
}

impl Sender {
    /// The vantage point of a scenario in a lab; `None` where the lab has no such place.
    pub(crate) fn find(vantage: &Vantage, topology: &Topology, cluster: &Cluster) -> Option<Self> {
        match vantage {
            Vantage::Node(node) => topology.find(&format!("node/{node}")).map(Self::Process),
            Vantage::Localhost(node) => topology.find(&format!("node/{node}")).map(Self::Loopback),
            Vantage::Host(host) => topology.find(&format!("host/{host}")).map(Self::Wire),
            Vantage::Pod(name) => {
                if let Some(pod) = cluster.pod(name).filter(|pod| pod.host_network) {
                    return topology.find(&format!("node/{}", pod.node)).map(Self::Process);
                }
                let space = topology.find(&pod_label(name))?;
                let routing = topology.spaces[space].role == Role::RoutingPod;
                Some(if routing { Self::Process(space) } else { Self::Wire(space) })
            }
        }
    }

    /// The namespace that it is in.
    pub(crate) fn space(self) -> SpaceId {
        match self {
            Self::Wire(space) | Self::Process(space) | Self::Loopback(space) => space,
        }
    }
}
