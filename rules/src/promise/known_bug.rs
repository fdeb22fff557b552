//! Known bugs of kube-proxy releases.

use std::fmt;

/// A known bug of a release: its rules deviate from the documented promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KnownBug {
    /// Up to 1.20, external IPs are not served to processes of nodes, nor to pods on a bridge.
    ExternalIpsFromInside,
    /// In 1.22 and 1.23, `internalTrafficPolicy: Local` restricts external addresses to local endpoints too, rejects instead of dropping,
    /// and has no effect alongside an external policy Local.
    InternalPolicyAffectsExternal,
    /// Up to 1.24, packets to be dropped are only marked, and are forwarded if they are not for the node itself.
    DropIsForwarded,
    /// Before 1.15, a node's own processes have no short-circuit path with `externalTrafficPolicy: Local`.
    NoShortCircuitForNodes,
    /// In nftables mode before 1.33.6, a node without endpoints drops packets of its own processes to external and load-balancer IPs
    /// instead of using the short-circuit path (kubernetes#131765).
    ShortCircuitDropped,
    /// Before 1.26, a connection to a node port at `::1` is translated and lost.
    Ipv6LoopbackLost,
    /// In iptables mode, a node port without endpoints is rejected on all addresses of a node, including those that serve no node ports: a
    /// process that listens there is unreachable.
    RejectedAtEveryAddress,
    /// In iptables mode, a node does not reject packets of its own processes to external and load-balancer IPs of a service without
    /// endpoints: the packet leaves the node.
    NodeTrafficNotRejected,
    /// In nftables mode from 1.36, a node does not masquerade a connection that it sends back to its client, unless the client is a local
    /// endpoint: the set `hairpin-connections` contains only local endpoints.
    RemoteHairpinNotMasqueraded,
    /// Up to 1.35, of several entries with the same address the local one wins, even if it is not ready and another one is.
    LocalDuplicateWins,
}

impl KnownBug {
    /// Returns where it is documented: a URL, or a file in svclab's repository.
    pub fn document(self) -> &'static str {
        match self {
            Self::ExternalIpsFromInside => "https://github.com/kubernetes/kubernetes/pull/96296",
            Self::InternalPolicyAffectsExternal => "scenarios/releases/1.23-internal-policy.yaml",
            Self::DropIsForwarded => "https://github.com/kubernetes/kubernetes/pull/110290",
            Self::NoShortCircuitForNodes => "scenarios/releases/1.14-policy-local.yaml",
            Self::ShortCircuitDropped => "https://github.com/kubernetes/kubernetes/issues/131765",
            Self::Ipv6LoopbackLost => "https://github.com/kubernetes/kubernetes/pull/108250",
            Self::RejectedAtEveryAddress | Self::NodeTrafficNotRejected => {
                "https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/3866-nftables-proxy"
            }
            Self::RemoteHairpinNotMasqueraded => "https://github.com/kubernetes/kubernetes/pull/136499",
            Self::LocalDuplicateWins => "https://github.com/kubernetes/kubernetes/pull/135593",
        }
    }
}

impl fmt::Display for KnownBug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ExternalIpsFromInside => {
                "up to 1.20, external IPs are not served to processes of nodes, nor to pods on a bridge"
            }
            Self::InternalPolicyAffectsExternal => {
                "in 1.22 and 1.23, internalTrafficPolicy Local also restricts external traffic, and rejects instead of \
                 dropping"
            }
            Self::DropIsForwarded => {
                "up to 1.24, packets to be dropped are only marked, and are forwarded if they are not for the node itself"
            }
            Self::NoShortCircuitForNodes => "before 1.15, a node's own processes have no short-circuit path to other nodes' endpoints",
            Self::ShortCircuitDropped => {
                "in nftables mode before 1.33.6, a node without endpoints drops packets of its own processes"
            }
            Self::NodeTrafficNotRejected => {
                "in iptables mode, a node does not reject packets of its own processes to external addresses without \
                 endpoints"
            }
            Self::RemoteHairpinNotMasqueraded => {
                "in nftables mode from 1.36, a node does not masquerade connections that it sends back to an endpoint \
                 on another node"
            }
            Self::LocalDuplicateWins => {
                "up to 1.35, of several entries with the same address the local one wins, even if it is not ready"
            }
            Self::RejectedAtEveryAddress => {
                "in iptables mode, a node port without endpoints is rejected even at addresses that serve no node ports"
            }
            Self::Ipv6LoopbackLost => "before 1.26, a connection to a node port at ::1 is translated and lost",
        })
    }
}
