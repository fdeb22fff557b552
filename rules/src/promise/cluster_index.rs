//! The cluster and its kube-proxy, with indexes of pods and nodes by address.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::cluster::{Cluster, Node, ObjectName, Pod, ProxyConfig};
use crate::profile::Profile;

/// The context of every clause: objects, configuration, release.
pub(super) struct Setting<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) profile: Profile,
    /// Pods with their own addresses.
    pods: HashMap<IpAddr, &'a Pod>,
    by_name: HashMap<&'a ObjectName, &'a Pod>,
    /// Nodes by address, and by name.
    nodes: HashMap<IpAddr, &'a Node>,
    nodes_by_name: HashMap<&'a str, &'a Node>,
}

impl<'a> Setting<'a> {
    pub(super) fn new(cluster: &'a Cluster, profile: Profile) -> Self {
        let own = cluster.pods.iter().filter(|pod| !pod.host_network);
        let pods = own.flat_map(|pod| pod.ips.iter().map(move |ip| (*ip, pod))).collect();
        // Of several with the same name, the first counts.
        let by_name = cluster.pods.iter().rev().map(|pod| (&pod.name, pod)).collect();
        let nodes = cluster.nodes.iter().rev().flat_map(|node| node.addresses().map(move |address| (address, node)));
        let nodes_by_name = cluster.nodes.iter().rev().map(|node| (node.name.as_str(), node)).collect();
        Self { cluster, profile, pods, by_name, nodes: nodes.collect(), nodes_by_name }
    }

    pub(super) fn config(&self) -> &'a ProxyConfig {
        &self.cluster.proxy
    }

    /// Returns the node of an address in the network, whatever an endpoint's `nodeName` says: the node that has the address, the node of
    /// the pod that has it, or the node whose `podCIDRs` contain it.
    pub(super) fn location(&self, address: IpAddr) -> Option<&'a Node> {
        let nodes = &self.cluster.nodes;
        let own = self.nodes.get(&address).copied();
        let of_pod = || self.pods.get(&address).and_then(|pod| self.nodes_by_name.get(pod.node.as_str()).copied());
        let in_range = || nodes.iter().find(|node| node.pod_cidrs.iter().any(|range| range.contains(&address)));
        own.or_else(of_pod).or_else(in_range)
    }

    /// Returns whether an address is a pod's own, so that pods reach it without NAT.
    ///
    /// Services, Load Balancing, and Networking, "The Kubernetes network model".
    pub(super) fn is_pod(&self, address: IpAddr) -> bool {
        !self.nodes.contains_key(&address) && self.location(address).is_some()
    }

    /// Returns the pod of this name.
    pub(super) fn pod(&self, name: &ObjectName) -> Option<&'a Pod> {
        self.by_name.get(name).copied()
    }

    /// Returns the pod with this address, if it is the pod's own.
    pub(super) fn pod_at(&self, address: IpAddr) -> Option<&'a ObjectName> {
        self.pods.get(&address).map(|pod| &pod.name)
    }
}
