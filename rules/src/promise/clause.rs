//! Clauses of the documentation, each with a sentence and a citation.

use std::fmt;

/// A clause on which a promise is based. Displayed as its sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "every clause says itself what it is, in `sentence`")]
#[non_exhaustive]
pub enum Clause {
    ClusterIp,
    NodePort,
    ExternalIp,
    LoadBalancerIp,
    AddressConflict,
    UnusedPort,
    Unallocated,
    NotAService,
    NoNodeOnPath,
    NodeAddress,
    PodAddress,
    LoopbackNotForwarded,
    UnknownClient,
    OtherNodesNodePort,
    SourceRanges,
    SourceRangesIncludeNode,
    SourceRangesIncludeSomeAddresses,
    InternalPolicyCluster,
    InternalPolicyLocal,
    ExternalPolicyCluster,
    ExternalPolicyLocal,
    ShortCircuit,
    NoEndpoint,
    NoLocalEndpoint,
    ReadyEndpoints,
    PublishNotReady,
    TerminatingEndpoints,
    ZoneHints,
    NodeHints,
    EvenShares,
    Affinity,
    MasqueradeAll,
    MasqueradeNonPods,
    MasqueradeExternal,
    SourcePreserved,
    SourceUnspecified,
    NoLocalDetector,
    Hairpin,
    HostNetworkEndpoint,
    ReplyBypassesNode,
    OutsideEndpoint,
}

impl Clause {
    /// Returns its sentence, without a full stop.
    pub fn sentence(self) -> &'static str {
        CLAUSES[self as usize].1
    }

    /// Returns the document and the place in it.
    pub fn citation(self) -> &'static str {
        CLAUSES[self as usize].2
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

/// Every clause, in the order of the type, with its sentence and its citation.
const CLAUSES: [(Clause, &str, &str); 41] = [
    (
        Clause::ClusterIp,
        "every node captures traffic to a service's cluster IP and port, and redirects it to an endpoint",
        "Virtual IPs and Service Proxies",
    ),
    (
        Clause::NodePort,
        "every node serves the node port on its own addresses, as restricted by nodePortAddresses",
        "ServiceSpec type; KubeProxyConfiguration nodePortAddresses",
    ),
    (
        Clause::ExternalIp,
        "nodes accept traffic for a service's external IPs, wherever it comes from",
        "ServiceSpec externalIPs",
    ),
    (
        Clause::LoadBalancerIp,
        "packets to a load balancer's address with ipMode VIP reach nodes with that destination, and nodes serve it",
        "LoadBalancerIngress ipMode; KEP-1860",
    ),
    (
        Clause::AddressConflict,
        "several service ports claim this address, and the API does not specify which one gets the traffic",
        "Virtual IPs and Service Proxies, \"Avoiding collisions\"",
    ),
    (
        Clause::UnusedPort,
        "in nftables mode, traffic to ports of a cluster IP that its service does not have is rejected",
        "KEP-3866, \"Behavior of service IPs\"",
    ),
    (
        Clause::Unallocated,
        "in nftables mode, traffic to unallocated cluster IPs is dropped",
        "KEP-3866, \"Behavior of service IPs\"",
    ),
    (
        Clause::NotAService,
        "no service has this address with this port and protocol, so the packet is routed normally",
        "Virtual IPs and Service Proxies, \"IP address assignment to Services\"",
    ),
    (
        Clause::NoNodeOnPath,
        "no route outside the cluster leads to a node for this address, so no kube-proxy handles the packet; append \
         @NODE to send it to a node",
        "ServiceSpec type, ClusterIP; Virtual IPs and Service Proxies",
    ),
    (
        Clause::NodeAddress,
        "the address is a node's own and the port is not a node port, so the packet is for the node's own processes",
        "ServiceSpec type",
    ),
    (
        Clause::PodAddress,
        "the address is a pod's own, and pods and nodes reach it without NAT",
        "Services, Load Balancing, and Networking, \"The Kubernetes network model\"",
    ),
    (
        Clause::LoopbackNotForwarded,
        "packets from or to a loopback address do not leave their host, except to node ports on localhost",
        "RFC 1122, 3.2.1.3; RFC 4291, 2.5.3; KubeProxyIPTablesConfiguration localhostNodePorts",
    ),
    (
        Clause::UnknownClient,
        "the client does not exist, or has no address of the destination's family",
        "ServiceSpec ipFamilies; KEP-563",
    ),
    (
        Clause::OtherNodesNodePort,
        "a node port is handled by the node whose address is used; the client's node forwards the packet unchanged",
        "ServiceSpec type; KubeProxyConfiguration nodePortAddresses",
    ),
    (
        Clause::SourceRanges,
        "the load balancer's address is for clients in its source ranges only",
        "ServiceSpec loadBalancerSourceRanges",
    ),
    (
        Clause::SourceRangesIncludeNode,
        "source ranges that allow the node also allow the load balancer's own addresses, because a packet from the \
         node may have one of them as its source",
        "ServiceSpec loadBalancerSourceRanges; kube-proxy, pkg/proxy/iptables/proxier.go, allowFromNode",
    ),
    (
        Clause::SourceRangesIncludeSomeAddresses,
        "source ranges allow some of the node's addresses, and the kernel chooses which one its packets have",
        "ServiceSpec loadBalancerSourceRanges; RFC 6724",
    ),
    (
        Clause::InternalPolicyCluster,
        "with internalTrafficPolicy Cluster, the cluster IP leads to endpoints on all nodes",
        "ServiceSpec internalTrafficPolicy",
    ),
    (
        Clause::InternalPolicyLocal,
        "with internalTrafficPolicy Local, the cluster IP leads only to endpoints on the client's own node",
        "ServiceSpec internalTrafficPolicy; KEP-2086",
    ),
    (
        Clause::ExternalPolicyCluster,
        "with externalTrafficPolicy Cluster, external addresses lead to endpoints on all nodes",
        "ServiceSpec externalTrafficPolicy",
    ),
    (
        Clause::ExternalPolicyLocal,
        "with externalTrafficPolicy Local, external addresses lead only to endpoints on the node that received the \
         packet",
        "ServiceSpec externalTrafficPolicy",
    ),
    (
        Clause::ShortCircuit,
        "from within the cluster, external addresses have the semantics of Cluster whatever the policy",
        "ServiceSpec externalTrafficPolicy",
    ),
    (
        Clause::NoEndpoint,
        "a service without any usable endpoint rejects connections",
        "Virtual IPs and Service Proxies, \"Traffic policies\"; KEP-3866, \"Dropping or rejecting packets for \
         services with no endpoints\"",
    ),
    (
        Clause::NoLocalEndpoint,
        "with policy Local, a node without a local endpoint drops the packets",
        "Virtual IPs and Service Proxies, \"Internal traffic policy\" and \"External traffic policy\"",
    ),
    (Clause::ReadyEndpoints, "only endpoints with condition ready serve", "EndpointConditions ready"),
    (
        Clause::PublishNotReady,
        "with publishNotReadyAddresses all endpoints count as ready, whatever the state of their pods",
        "ServiceSpec publishNotReadyAddresses",
    ),
    (
        Clause::TerminatingEndpoints,
        "if no endpoint in the policy's scope is ready, serving terminating endpoints are used",
        "KEP-1669; Virtual IPs and Service Proxies, \"Traffic to terminating endpoints\"",
    ),
    (
        Clause::ZoneHints,
        "each zone uses only the endpoints that are hinted for it",
        "KEP-2433, \"Kube-Proxy\"; KEP-4444",
    ),
    (Clause::NodeHints, "each node uses only the endpoints that are hinted for it", "KEP-3015; EndpointHints forNodes"),
    (
        Clause::EvenShares,
        "all endpoints that serve get the same share of new connections",
        "ServiceSpec externalTrafficPolicy and internalTrafficPolicy; Virtual IPs and Service Proxies",
    ),
    (
        Clause::Affinity,
        "connections from one client address go to the same endpoint until the timeout expires",
        "ServiceSpec sessionAffinity; Virtual IPs and Service Proxies, \"Session stickiness timeout\"",
    ),
    (
        Clause::MasqueradeAll,
        "with masqueradeAll, every client of a cluster IP is masqueraded",
        "KubeProxyIPTablesConfiguration masqueradeAll",
    ),
    (
        Clause::MasqueradeNonPods,
        "traffic to a cluster IP from clients other than pods is masqueraded, so that replies return through the same \
         node",
        "KubeProxyConfiguration clusterCIDR and detectLocalMode; KEP-2450",
    ),
    (
        Clause::MasqueradeExternal,
        "traffic to an external address with policy Cluster is masqueraded, so that replies return through the \
         same node",
        "Virtual IPs and Service Proxies; Using Source IP, \"Source IP for Services \
         with Type=NodePort\"",
    ),
    (
        Clause::SourcePreserved,
        "the client's address is kept",
        "Using Source IP, \"Source IP for Services with Type=ClusterIP\"; ServiceSpec externalTrafficPolicy",
    ),
    (
        Clause::SourceUnspecified,
        "whether a pod that uses an external IP is masqueraded differs between releases, and the API does not specify \
         it",
        "ServiceSpec externalTrafficPolicy",
    ),
    (
        Clause::NoLocalDetector,
        "without a range or interface for detectLocalMode, no client is masqueraded at cluster IPs",
        "KubeProxyConfiguration clusterCIDR and detectLocalMode",
    ),
    (
        Clause::Hairpin,
        "a pod that is load-balanced to itself is masqueraded, because its reply would not return to the node \
         otherwise",
        "Debug Services, \"Edge case: A Pod fails to reach itself via the Service IP\"",
    ),
    (
        Clause::HostNetworkEndpoint,
        "the endpoint is in the node's own network namespace, so the packet leaves through no interface and keeps its \
         source",
        "Virtual IPs and Service Proxies, \"IP address assignment to Services\"",
    ),
    (
        Clause::ReplyBypassesNode,
        "the reply goes directly to the client, not through the node that translated: neither endpoint nor client is \
         on that node, and the source was preserved",
        "ServiceSpec externalTrafficPolicy, on node ports from within the cluster; kubernetes#44916",
    ),
    (
        Clause::OutsideEndpoint,
        "the endpoint is outside the cluster and need not have a route to the client",
        "Services, Load Balancing, and Networking, \"The Kubernetes network model\"",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clause_stands_at_its_place_and_cites_a_document() {
        for (place, (clause, sentence, citation)) in CLAUSES.into_iter().enumerate() {
            assert_eq!(clause as usize, place, "{clause:?}");
            assert!(!sentence.ends_with('.') && !citation.is_empty(), "{clause:?}");
        }
    }
}
