//! Traffic policies, short-circuit paths and source ranges.

use std::net::IpAddr;

use ipnet::IpNet;

use super::address_lookup::{self, AddressKind};
use super::clause::Clause;
use super::client_path::Place;
use super::cluster_index::Setting;
use super::handling::Handling;
use crate::cluster::{DetectLocal, ExternalTrafficPolicy, Family, InternalTrafficPolicy, Service, ServiceType};
use crate::profile::Profile;

/// The scope of endpoints for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Endpoints on any node.
    Anywhere,
    /// Endpoints on the node that handles the packet.
    OnNode,
}

/// The client type that a node detects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detected {
    /// A pod.
    Pod,
    /// Something else.
    Other,
    /// It cannot be detected.
    Unknown,
}

impl Handling<'_, '_> {
    /// Returns the scope of endpoints.
    pub(super) fn scope(&self, because: &mut Vec<Clause>) -> Scope {
        let (service, profile) = (self.claim.service, self.setting.profile);
        let (scope, clause) = if self.claim.kind == AddressKind::ClusterIp {
            if is_internal_local(service, profile) {
                (Scope::OnNode, Clause::InternalPolicyLocal)
            } else {
                (Scope::Anywhere, Clause::InternalPolicyCluster)
            }
        } else if !is_external_local(service, profile) {
            (Scope::Anywhere, Clause::ExternalPolicyCluster)
        } else if self.takes_short_circuit() {
            (Scope::Anywhere, Clause::ShortCircuit)
        } else {
            (Scope::OnNode, Clause::ExternalPolicyLocal)
        };
        because.push(clause);
        scope
    }

    /// Returns whether the client counts as inside the cluster for external addresses: it is a process on the node, or the node detects it
    /// as a pod.
    ///
    /// ServiceSpec `externalTrafficPolicy`: traffic to external and load-balancer IPs from within the cluster always gets
    /// the semantics of Cluster. For node ports the documentation only says that the policy may need to be taken into account; kube-proxy
    /// gives clients on its own node the same short-circuit path.
    fn takes_short_circuit(&self) -> bool {
        self.client.is_process_of(self.node) || self.detect_local() == Detected::Pod
    }

    /// Returns the client type by `detectLocalMode`: by source address, or by input interface, which only pods on the node itself can
    /// match.
    ///
    /// KubeProxyConfiguration `detectLocalMode`, `clusterCIDR`; DetectLocalConfiguration; KEP-2450.
    pub(super) fn detect_local(&self) -> Detected {
        let config = self.setting.config();
        let ranges = match &config.detect_local {
            DetectLocal::ClusterCidr => &config.cluster_cidrs,
            DetectLocal::NodeCidr => &self.node.pod_cidrs,
            DetectLocal::BridgeInterface(_) | DetectLocal::InterfaceNamePrefix(_) => {
                let is_pod = matches!(self.client.place, Place::Pod(own) if own.name == self.node.name);
                return if is_pod { Detected::Pod } else { Detected::Other };
            }
        };
        match is_in(self.client.address, ranges) {
            None => Detected::Unknown,
            Some(true) => Detected::Pod,
            Some(false) => Detected::Other,
        }
    }

    /// Returns whether source ranges allow the client. They apply only to the load balancer's address, also for clients inside the cluster.
    /// Ranges of one family do not affect the other.
    ///
    /// ServiceSpec `loadBalancerSourceRanges`.
    pub(super) fn admission(&self, because: &mut Vec<Clause>) -> Admission {
        if self.claim.kind != AddressKind::LoadBalancerIp {
            return Admission::Allowed;
        }
        let is_admitted = self.is_in_source_ranges(self.client.address);
        if self.client.other_sources().any(|source| self.is_in_source_ranges(source) != is_admitted) {
            because.push(Clause::SourceRangesIncludeSomeAddresses);
            return Admission::Unspecified;
        }
        if is_admitted {
            return Admission::Allowed;
        }
        let clause = if self.is_admitted_as_node() { Clause::SourceRangesIncludeNode } else { Clause::SourceRanges };
        because.push(clause);
        if clause == Clause::SourceRangesIncludeNode { Admission::Allowed } else { Admission::Denied }
    }

    /// Returns whether the client has one of the load balancer's own addresses and the ranges allow the node. A node with that address
    /// sends from it, and kube-proxy cannot distinguish it from any other client with the address.
    ///
    /// kube-proxy, `pkg/proxy/iptables/proxier.go`, `allowFromNode`.
    fn is_admitted_as_node(&self) -> bool {
        let Setting { profile, .. } = self.setting;
        let address = self.client.address;
        let is_own = address_lookup::addresses(self.claim.service, *profile, self.setting.config())
            .contains(&(address, AddressKind::LoadBalancerIp));
        let node = self.node.internal_ips.iter().copied().find(|ip| Family::of(*ip) == Family::of(address));
        is_own && profile.source_ranges_know_node() && node.is_some_and(|node| self.is_in_source_ranges(node))
    }

    fn is_in_source_ranges(&self, address: IpAddr) -> bool {
        is_in(address, &self.claim.service.source_ranges).unwrap_or(true)
    }
}

/// Whether source ranges allow a client.
pub(super) enum Admission {
    Allowed,
    Denied,
    /// That depends on the address that the kernel chooses for a node's own packets.
    Unspecified,
}

/// Returns whether one of the ranges of an address's family contains it. `None` if there is no range of the family.
fn is_in(address: IpAddr, ranges: &[IpNet]) -> Option<bool> {
    let mut of_family = ranges.iter().filter(|range| Family::of(range.addr()) == Family::of(address)).peekable();
    of_family.peek()?;
    Some(of_family.any(|range| range.contains(&address)))
}

/// Returns whether the cluster IP leads only to endpoints on the client's own node.
///
/// ServiceSpec `internalTrafficPolicy`; KEP-2086 (on by default from 1.22).
pub(super) fn is_internal_local(service: &Service, profile: Profile) -> bool {
    profile.internal_policy() && service.internal_traffic_policy == InternalTrafficPolicy::Local
}

/// Returns whether external addresses lead only to endpoints on the node that received the packet.
///
/// ServiceSpec `externalTrafficPolicy`: it applies to node ports, external IPs and load-balancer IPs. Before 1.29, a
/// service that is not of type NodePort or LoadBalancer has no such policy.
pub(super) fn is_external_local(service: &Service, profile: Profile) -> bool {
    let published = matches!(service.kind, ServiceType::NodePort | ServiceType::LoadBalancer);
    let has_policy = published || (profile.external_policy_covers_external_ips() && !service.external_ips.is_empty());
    has_policy && service.external_traffic_policy == ExternalTrafficPolicy::Local
}
