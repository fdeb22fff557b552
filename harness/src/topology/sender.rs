//! Where the packets of a vantage point start.

use svclab_rules::cluster::Cluster;

use super::{NetnsId, Role, Topology, pod_label};
use crate::scenario::Vantage;

/// A vantage point in a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    /// Packets are sent on the `eth0` of a pod or an outside host.
    Wire(NetnsId),
    /// A process sends through its kernel.
    Process(NetnsId),
    /// A process sends through its kernel, from the loopback address.
    Loopback(NetnsId),
}

impl Sender {
    /// The vantage point of a scenario in a lab; `None` if the lab has no such place.
    pub(crate) fn find(vantage: &Vantage, topology: &Topology, cluster: &Cluster) -> Option<Self> {
        match vantage {
            Vantage::Node(node) => topology.find(&format!("node/{node}")).map(Self::Process),
            Vantage::Localhost(node) => topology.find(&format!("node/{node}")).map(Self::Loopback),
            Vantage::Host(host) => topology.find(&format!("host/{host}")).map(Self::Wire),
            Vantage::Pod(name) => {
                if let Some(pod) = cluster.pod(name).filter(|pod| pod.host_network) {
                    return topology.find(&format!("node/{}", pod.node)).map(Self::Process);
                }
                let netns = topology.find(&pod_label(name))?;
                let routing = topology.namespaces[netns].role == Role::RoutingPod;
                Some(if routing { Self::Process(netns) } else { Self::Wire(netns) })
            }
        }
    }

    /// The namespace of the sender.
    pub(crate) fn netns(self) -> NetnsId {
        match self {
            Self::Wire(netns) | Self::Process(netns) | Self::Loopback(netns) => netns,
        }
    }
}
