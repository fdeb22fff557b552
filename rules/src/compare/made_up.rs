//! What was chosen for a cluster because no text shows it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

/// Values of a cluster that no text shows: they were chosen for it, so no rule about them is missing in any text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MadeUp {
    /// Addresses of services.
    pub addresses: BTreeSet<IpAddr>,
    /// Addresses of endpoints.
    pub endpoints: BTreeSet<IpAddr>,
    /// Node ports, those of health checks included.
    pub node_ports: BTreeSet<u16>,
    /// Ranges of pods in kube-proxy's configuration: without them, it writes no rule about the source of packets.
    pub local_sources: BTreeSet<IpNet>,
}
