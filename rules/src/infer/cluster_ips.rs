//! The cluster IPs of service ports, one of each family, from rules that may contradict each other.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::model::InferredPort;
use crate::chains::Policy;
use crate::cluster::Family;
use crate::iptables::{ChainHash, Rule};

/// The addresses in rules for the cluster IPs of service ports.
#[derive(Debug, Default)]
pub(super) struct ClusterIps {
    /// Those in rules that lead to the service port's chains, or reject its connections.
    leading: BTreeMap<ChainHash, Vec<Address>>,
    /// Those in rules that mark its connections for masquerading, with the policy of the chain. An excerpt may contain an address nowhere else.
    marked: BTreeMap<ChainHash, Vec<(Address, Policy)>>,
}

/// An address in a rule.
#[derive(Debug, Clone, Copy)]
struct Address {
    ip: IpAddr,
    /// Whether a comment says that it is a cluster IP: without one, it may be an external IP.
    is_named: bool,
}

impl Address {
    fn of(rule: &Rule, ip: IpAddr) -> Self {
        Self { ip, is_named: rule.comment().is_some() }
    }
}

impl ClusterIps {
    pub(super) fn leads(&mut self, port: ChainHash, rule: &Rule, ip: IpAddr) {
        self.leading.entry(port).or_default().push(Address::of(rule, ip));
    }

    pub(super) fn marks(&mut self, port: ChainHash, rule: &Rule, ip: IpAddr, policy: Policy) {
        self.marked.entry(port).or_default().push((Address::of(rule, ip), policy));
    }

    /// Gives ports their cluster IPs: the first address that leads to the chains and is marked, else the first that leads there, else the first
    /// that is marked. Others are contradicting ones, or external IPs where no comment says what they are.
    pub(super) fn give(self, ports: &mut BTreeMap<ChainHash, InferredPort>) {
        for (hash, port) in ports {
            let leading = self.leading.get(hash).map(Vec::as_slice).unwrap_or_default();
            let marked = self.marked.get(hash).map(Vec::as_slice).unwrap_or_default();
            for family in Family::ALL {
                let is_of = |address: &Address| Family::of(address.ip) == family;
                let leading = || leading.iter().filter(|address| is_of(address));
                let marked = || marked.iter().filter(|(address, _)| is_of(address));
                let agreed = leading().find(|own| marked().any(|(other, _)| other.ip == own.ip));
                let first = marked().next();
                let Some(own) = agreed.or(leading().next()).or(first.map(|(own, _)| own)) else { continue };
                port.cluster_ips.insert(own.ip);
                let is_of_mark = leading().next().is_none();
                port.is_internal_local |= is_of_mark && first.is_some_and(|(_, policy)| *policy == Policy::Local);
                let all = || leading().chain(marked().map(|(address, _)| address)).filter(|other| other.ip != own.ip);
                port.other_cluster_ips.extend(all().filter(|other| other.is_named).map(|other| other.ip));
                port.external_ips
                    .extend(leading().filter(|other| other.ip != own.ip && !other.is_named).map(|other| other.ip));
            }
        }
    }
}
