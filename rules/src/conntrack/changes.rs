//! Clean-up by what changed: the calls of the `conntrack` program that kube-proxy 1.22 to 1.31 makes.
//!
//! As in 1.30 (`pkg/proxy/conntrack/cleanup.go`, and `detectStaleConnections` of `pkg/proxy/endpoints.go`), equal to
//! recorded calls; by description for the other releases ([`Profile::cleans_up_after_changes`]).

use std::collections::HashSet;
use std::net::IpAddr;

use crate::cluster::{Cluster, Family, Node, ObjectName, Protocol};
use crate::profile::Profile;
use crate::selection::{EndpointView, ServicePortView, Slices, service_ports};

/// One call of `conntrack -D`: UDP entries that lead, or led, to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Deletion {
    /// The family of the entries.
    pub family: Family,
    /// What the first packet was sent to.
    pub sent_to: SentTo,
    /// The endpoint that it was translated to; entries of any endpoint, or of none, if this is missing.
    pub endpoint: Option<IpAddr>,
}

/// What the first packet of a connection was sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SentTo {
    /// This address, on any port.
    Address(IpAddr),
    /// This port, on any address.
    NodePort(u16),
}

impl Deletion {
    /// The arguments that kube-proxy gives to the `conntrack` program, in its order.
    pub fn arguments(&self) -> Vec<String> {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let endpoint = self.endpoint.map(|endpoint| owned(&["--dst-nat", &endpoint.to_string()])).unwrap_or_default();
        let mut arguments = match self.sent_to {
            SentTo::Address(address) => {
                [owned(&["-D", "--orig-dst", &address.to_string()]), endpoint, owned(&["-p", "udp"])].concat()
            }
            SentTo::NodePort(port) => [owned(&["-D", "-p", "udp", "--dport", &port.to_string()]), endpoint].concat(),
        };
        if self.family == Family::Ipv6 {
            arguments.extend(owned(&["-f", "ipv6"]));
        }
        arguments
    }
}

/// What a node's kube-proxy deletes when the cluster's objects change from `old` to `new`.
///
/// - A service port is gone (the whole service, or its port's name or protocol): every entry of its cluster IP. Its node
///   port and other addresses are left alone, and so is the former address of a port that got another.
/// - A service port has ready endpoints and had none: every entry of all its addresses and its node port.
/// - An endpoint that was ready is gone, is not ready any more, or moved to or from this node: its entries at all
///   addresses and the node port of its service.
///
/// Each call is listed once. kube-proxy's order is random within each of these groups, which follow each other in this
/// order.
pub(super) fn deletions(old: &Cluster, new: &Cluster, node: &Node, profile: Profile) -> Vec<Deletion> {
    let mut deletions = Deletions::default();
    for family in Family::ALL {
        let before = udp_ports(old, node, family, profile);
        let after = udp_ports(new, node, family, profile);
        let stays: HashSet<_> = after.iter().map(key).collect();
        for gone in before.iter().filter(|view| !stays.contains(&key(view))) {
            deletions.push(Deletion { family, sent_to: SentTo::Address(gone.cluster_ip), endpoint: None });
        }
        let slices = Slices::new(old, family);
        let changes: Vec<Change<'_>> = after.iter().map(|view| Change::of(view, &slices, node, profile)).collect();
        for change in changes.iter().filter(|change| change.newly_active) {
            for sent_to in addresses(change.view).chain(node_port(change.view)) {
                deletions.push(Deletion { family, sent_to, endpoint: None });
            }
        }
        for change in &changes {
            for endpoint in &change.stale {
                for sent_to in node_port(change.view).chain(addresses(change.view)) {
                    deletions.push(Deletion { family, sent_to, endpoint: Some(*endpoint) });
                }
            }
        }
    }
    deletions.list
}

fn udp_ports<'a>(cluster: &'a Cluster, node: &'a Node, family: Family, profile: Profile) -> Vec<ServicePortView<'a>> {
    let mut views = service_ports(cluster, node, family, profile);
    views.retain(|view| view.port.protocol == Protocol::Udp);
    views
}

/// Deletions, each once.
#[derive(Default)]
struct Deletions {
    list: Vec<Deletion>,
    known: HashSet<Deletion>,
}

impl Deletions {
    fn push(&mut self, deletion: Deletion) {
        if self.known.insert(deletion) {
            self.list.push(deletion);
        }
    }
}

/// What became of the endpoints of a service port that is there now.
struct Change<'a> {
    view: &'a ServicePortView<'a>,
    /// Ready endpoints now, none before.
    newly_active: bool,
    /// The addresses of endpoints that were ready and changed.
    stale: Vec<IpAddr>,
}

impl<'a> Change<'a> {
    /// Compares with the endpoints in the slices before, whether or not there was a service for them.
    fn of(view: &'a ServicePortView<'a>, old: &Slices<'_>, node: &Node, profile: Profile) -> Self {
        let before = old.endpoints(&view.service.name, view.port, node, profile);
        let state = |endpoint: &EndpointView<'_>| (endpoint.address, endpoint.local, endpoint.endpoint.ready);
        let now: HashSet<_> = view.endpoints.iter().map(state).collect();
        let ready = |endpoints: &[EndpointView<'_>]| endpoints.iter().any(|endpoint| endpoint.endpoint.ready);
        let stale = before.iter().filter(|endpoint| endpoint.endpoint.ready);
        let stale = stale.filter(|endpoint| !now.contains(&state(endpoint)));
        Self {
            view,
            newly_active: ready(&view.endpoints) && !ready(&before),
            stale: stale.map(|endpoint| endpoint.address.ip()).collect(),
        }
    }
}

/// What kube-proxy knows a service port by.
fn key<'a>(view: &ServicePortView<'a>) -> (&'a ObjectName, &'a str) {
    (&view.service.name, &view.port.name)
}

fn addresses(view: &ServicePortView<'_>) -> impl Iterator<Item = SentTo> {
    let all = std::iter::once(&view.cluster_ip).chain(&view.external_ips).chain(&view.load_balancer_ips);
    all.map(|address| SentTo::Address(*address))
}

fn node_port(view: &ServicePortView<'_>) -> impl Iterator<Item = SentTo> {
    view.port.node_port.map(SentTo::NodePort).into_iter()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(SentTo::Address("fd00::10".parse().unwrap()), None, "-D --orig-dst fd00::10 -p udp -f ipv6")]
    #[case(
        SentTo::NodePort(30053),
        Some("fd00:1::2".parse().unwrap()),
        "-D -p udp --dport 30053 --dst-nat fd00:1::2 -f ipv6"
    )]
    fn ipv6_entries_need_a_word_more(
        #[case] sent_to: SentTo,
        #[case] endpoint: Option<IpAddr>,
        #[case] arguments: &str,
    ) {
        let deletion = Deletion { family: Family::Ipv6, sent_to, endpoint };
        assert_eq!(deletion.arguments().join(" "), arguments);
    }
}
