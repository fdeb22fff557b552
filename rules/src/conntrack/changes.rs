//! Cleanup by change: the calls of the `conntrack` program by kube-proxy 1.22 to 1.31.
//!
//! As in 1.30 (`pkg/proxy/conntrack/cleanup.go`, and `detectStaleConnections` in `pkg/proxy/endpoints.go`), verified against recorded
//! calls; for the other releases, according to their source code ([`Profile::cleans_up_after_changes`]).

use std::collections::HashSet;
use std::net::IpAddr;

use crate::cluster::{Cluster, Family, Node, ObjectName, Protocol};
use crate::profile::Profile;
use crate::selection::{EndpointView, ServicePortView, Slices, service_ports};

/// One call of `conntrack -D` for UDP entries of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Deletion {
    /// The family of the entries.
    pub family: Family,
    /// The original destination.
    pub sent_to: SentTo,
    /// The endpoint that it was translated to; `None` selects entries with any endpoint or none.
    pub endpoint: Option<IpAddr>,
}

/// The original destination of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SentTo {
    /// This address, on any port.
    Address(IpAddr),
    /// This port, on any address.
    NodePort(u16),
}

impl Deletion {
    /// Returns the arguments of the `conntrack` program, in kube-proxy's order.
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

/// Returns what a node's kube-proxy deletes when the cluster's objects change from `old` to `new`.
///
/// - A service port was removed (the whole service, or its port's name or protocol): every entry of its cluster IP. Entries of its node
///   port and other addresses are kept, and so are those of the old address if a port's address changed.
/// - A service port has its first ready endpoints: every entry of all its addresses and its node port.
/// - A ready endpoint was removed, became unready, or moved to or from this node: its entries for all addresses and the node port of its
///   service.
///
/// Each call is listed once. The groups are in kube-proxy's order; within a group, kube-proxy's order is random.
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

/// Deletions without duplicates.
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

/// The change of the endpoints of an existing service port.
struct Change<'a> {
    view: &'a ServicePortView<'a>,
    /// Whether it has its first ready endpoints.
    newly_active: bool,
    /// The addresses of formerly ready endpoints that changed.
    stale: Vec<IpAddr>,
}

impl<'a> Change<'a> {
    /// Compares with the endpoints in the old slices, whether or not their service existed.
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

/// Returns kube-proxy's key of a service port.
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
