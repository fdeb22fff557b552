//! The cluster IPs of service ports, one of each family, from rules that may contradict each other.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::model::InferredPort;
use crate::chains::Policy;
use crate::cluster::Family;
use crate::iptables::ChainHash;

/// The addresses in rules for the cluster IPs of service ports.
#[derive(Debug, Default)]
pub(super) struct ClusterIps {
    /// Those in rules that lead to the service port's chains, or reject its connections.
    leading: BTreeMap<ChainHash, Vec<IpAddr>>,
    /// Those in rules that mark its connections for masquerading, with the policy of the chain. An excerpt may contain an address nowhere else.
    marked: BTreeMap<ChainHash, Vec<(IpAddr, Policy)>>,
}

impl ClusterIps {
    pub(super) fn leads(&mut self, port: ChainHash, ip: IpAddr) {
        self.leading.entry(port).or_default().push(ip);
    }

    pub(super) fn marks(&mut self, port: ChainHash, ip: IpAddr, policy: Policy) {
        self.marked.entry(port).or_default().push((ip, policy));
    }

    /// Gives ports their cluster IPs: the first address that leads to the chains and is marked, else the first that leads there, else the first
    /// that is marked. Others are kept as contradicting ones.
    pub(super) fn give(self, ports: &mut BTreeMap<ChainHash, InferredPort>) {
        for (hash, port) in ports {
            let leading = self.leading.get(hash).map(Vec::as_slice).unwrap_or_default();
            let marked = self.marked.get(hash).map(Vec::as_slice).unwrap_or_default();
            for family in Family::ALL {
                let leading = || leading.iter().filter(|ip| Family::of(**ip) == family);
                let marked = || marked.iter().filter(|(ip, _)| Family::of(*ip) == family);
                let agreed = leading().find(|ip| marked().any(|(other, _)| other == *ip));
                let first = marked().next();
                let Some(own) = agreed.or(leading().next()).or(first.map(|(ip, _)| ip)).copied() else { continue };
                port.cluster_ips.insert(own);
                let is_of_mark = leading().next().is_none();
                port.is_internal_local |= is_of_mark && first.is_some_and(|(_, policy)| *policy == Policy::Local);
                let all = leading().chain(marked().map(|(ip, _)| ip)).copied();
                port.other_cluster_ips.extend(all.filter(|ip| *ip != own));
            }
        }
    }
}
