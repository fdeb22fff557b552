//! Traffic policies, short-circuit paths and source ranges: what a client may use by which address.

use std::net::IpAddr;

use ipnet::IpNet;

use super::address_lookup::{self, AddressKind};
use super::clause::Clause;
use super::client_path::Place;
use super::cluster_index::Setting;
use super::handling::Handling;
use crate::cluster::{DetectLocal, ExternalTrafficPolicy, Family, InternalTrafficPolicy, Service, ServiceType};
use crate::profile::Profile;

/// Which endpoints traffic may go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Endpoints on any node.
    Anywhere,
    /// Endpoints on the node that handles the packet.
    OnNode,
}

/// What a node takes a client for.
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
    /// How far the endpoints may be.
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

    /// Whether the client counts as inside of the cluster for external addresses: it is a process of the node, or the
    /// node takes it for a pod.
    ///
    /// ServiceSpec `externalTrafficPolicy`: traffic to external and load-balancer IPs from within the cluster always gets
    /// the semantics of Cluster. For node ports the field only warns that the policy may have to be minded; kube-proxy
    /// gives clients of its own node the same short-circuit path.
    fn takes_short_circuit(&self) -> bool {
        self.client.is_process_of(self.node) || self.detect_local() == Detected::Pod
    }

    /// What `detectLocalMode` makes of the client: by its source address, or by the interface that its packets come in
    /// by, which only pods of the node itself have.
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

    /// Whether source ranges let the client use a load balancer's address. They are about that address alone, and count
    /// for clients inside of the cluster as well. Ranges of one family say nothing of the other.
    ///
    /// ServiceSpec `loadBalancerSourceRanges`.
    pub(super) fn is_admitted(&self, because: &mut Vec<Clause>) -> bool {
        if self.claim.kind != AddressKind::LoadBalancerIp || self.is_in_source_ranges(self.client.address) {
            return true;
        }
        let clause = if self.is_admitted_as_node() { Clause::SourceRangesIncludeNode } else { Clause::SourceRanges };
        because.push(clause);
        clause == Clause::SourceRangesIncludeNode
    }

    /// Whether the client has one of the load balancer's own addresses and the ranges admit the node. A node that has the
    /// address itself sends from it, and kube-proxy cannot distinguish that from any other client which does.
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

/// Whether one of the ranges of an address's family contains it. `None` if there is no range of the family.
fn is_in(address: IpAddr, ranges: &[IpNet]) -> Option<bool> {
    let mut of_family = ranges.iter().filter(|range| Family::of(range.addr()) == Family::of(address)).peekable();
    of_family.peek()?;
    Some(of_family.any(|range| range.contains(&address)))
}

/// Whether the cluster IP leads to endpoints on the client's own node only.
///
/// ServiceSpec `internalTrafficPolicy`; KEP-2086 (on by default from 1.22).
pub(super) fn is_internal_local(service: &Service, profile: Profile) -> bool {
    profile.internal_policy() && service.internal_traffic_policy == InternalTrafficPolicy::Local
}

/// Whether external addresses lead to endpoints on the node that the packet came to only.
///
/// ServiceSpec `externalTrafficPolicy`: it is about node ports, external IPs and load-balancer IPs. Before 1.29, a
/// service that is not of type NodePort or LoadBalancer has no such policy.
pub(super) fn is_external_local(service: &Service, profile: Profile) -> bool {
    let published = matches!(service.kind, ServiceType::NodePort | ServiceType::LoadBalancer);
    let has_policy = published || (profile.external_policy_covers_external_ips() && !service.external_ips.is_empty());
    has_policy && service.external_traffic_policy == ExternalTrafficPolicy::Local
}
