//! The source that an endpoint sees, and the source of the reply that the client sees.

use std::net::{IpAddr, SocketAddr};

use super::address_lookup::AddressKind;
use super::clause::Clause;
use super::client_path::{Client, Place, has_address};
use super::cluster_index::Setting;
use super::handling::Handling;
use super::model::{Reply, Source};
use super::policy::{Detected, is_external_local};
use crate::profile::Profile;

/// What a node does to the source of a connection that it handles, whichever endpoint is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Masquerade {
    /// It is replaced by an address of the node.
    Yes,
    /// It is preserved.
    No,
    /// One or the other.
    Unspecified,
}

impl Handling<'_, '_> {
    /// Returns whether the node masquerades the client: for external addresses, it does with policy Cluster, so that replies return on the
    /// same path, and does not with policy Local.
    ///
    /// Virtual IPs and Service Proxies, "iptables proxy mode", "Example"; Using Source IP, "Source IP for Services with
    /// Type=NodePort"; ServiceSpec `externalTrafficPolicy`.
    pub(super) fn masquerade(&self, because: &mut Vec<Clause>) -> Masquerade {
        let (masquerade, clause) = if self.claim.kind == AddressKind::ClusterIp {
            self.masquerade_at_cluster_ip()
        } else if is_external_local(self.claim.service, self.setting.profile) {
            (Masquerade::No, Clause::SourcePreserved)
        } else if self.may_keep_pod() {
            (Masquerade::Unspecified, Clause::SourceUnspecified)
        } else {
            (Masquerade::Yes, Clause::MasqueradeExternal)
        };
        because.push(clause);
        masquerade
    }

    /// Returns whether the node masquerades a client of a cluster IP: pods keep their address; traffic that `detectLocalMode` does not
    /// detect as a pod's is masqueraded, so that replies return to the node that translated it. If pods cannot be detected, no client is
    /// masqueraded. With `masqueradeAll`, all clients are.
    ///
    /// Virtual IPs and Service Proxies, "iptables proxy mode", "Example"; KubeProxyConfiguration `clusterCIDR`,
    /// `iptables.masqueradeAll`, `nftables.masqueradeAll`.
    fn masquerade_at_cluster_ip(&self) -> (Masquerade, Clause) {
        if self.setting.config().masquerade_all {
            return (Masquerade::Yes, Clause::MasqueradeAll);
        }
        match self.detect_local() {
            Detected::Pod => (Masquerade::No, Clause::SourcePreserved),
            Detected::Other => (Masquerade::Yes, Clause::MasqueradeNonPods),
            Detected::Unknown => (Masquerade::No, Clause::NoLocalDetector),
        }
    }

    /// Returns whether the client is a pod that uses an external IP, in a release that does not masquerade it there.
    fn may_keep_pod(&self) -> bool {
        self.claim.kind == AddressKind::ExternalIp
            && keeps_pods_at_external_ips(self.setting.profile)
            && self.detect_local() == Detected::Pod
    }

    /// Returns the source that an endpoint sees, and the reply that the client sees.
    pub(super) fn seen_by(
        &self,
        endpoint: SocketAddr,
        masquerade: Masquerade,
        because: &mut Vec<Clause>,
    ) -> (Source, Reply) {
        let node = || self.node.name.clone();
        let unchanged = || unchanged(&self.client, endpoint.ip(), self.setting);
        if endpoint.ip() == self.client.address {
            note(because, Clause::Hairpin);
            return (Source::Node(node()), Reply::FromDestination);
        }
        if has_address(self.node, endpoint.ip()) {
            note(because, Clause::HostNetworkEndpoint);
            return (unchanged(), Reply::FromDestination);
        }
        match masquerade {
            Masquerade::Yes => (Source::Node(node()), Reply::FromDestination),
            Masquerade::Unspecified => (Source::PreservedOrNode(node()), Reply::FromDestination),
            Masquerade::No => (unchanged(), self.reply_to_unchanged(endpoint.ip(), because)),
        }
    }

    /// Returns the reply to a client that is not masqueraded. It comes from the address that the client sent to if it passes the node that
    /// translated the request: that is so if the endpoint or the client is on that node. An endpoint outside the cluster need not have a
    /// route to pods.
    ///
    /// The network model promises pods a path to each other without NAT, and so a reply that passes only their own nodes.
    fn reply_to_unchanged(&self, endpoint: IpAddr, because: &mut Vec<Clause>) -> Reply {
        let is_here = |name: &str| name == self.node.name;
        match self.setting.location(endpoint) {
            Some(location) if is_here(&location.name) || self.client.is_on(self.node) => Reply::FromDestination,
            None if self.client.is_process_of(self.node) => Reply::FromDestination,
            Some(_) => {
                note(because, Clause::ReplyBypassesNode);
                Reply::BypassesNode
            }
            None => {
                note(because, Clause::OutsideEndpoint);
                Reply::Unspecified
            }
        }
    }
}

/// Returns whether a pod that uses an external IP with policy Cluster keeps its address: it does from 1.21 to 1.23; before and after, it is
/// masqueraded like every client of an external address. No document specifies this.
fn keeps_pods_at_external_ips(profile: Profile) -> bool {
    !profile.guards_external_ips() && !profile.external_chains()
}

/// Returns the source of a packet that kube-proxy has not masqueraded. A process on a node has an address of its node. Between pods there
/// is no NAT; to other destinations, a CNI plugin may masquerade pods.
///
/// Services, Load Balancing, and Networking, "The Kubernetes network model".
pub(super) fn unchanged(client: &Client<'_>, to: IpAddr, setting: &Setting<'_>) -> Source {
    match client.place {
        Place::Outside => Source::Preserved,
        Place::Process(node) => Source::Node(node.name.clone()),
        Place::Pod(node) if !setting.is_pod(to) => Source::PreservedOrNode(node.name.clone()),
        Place::Pod(_) => Source::Preserved,
    }
}

fn note(because: &mut Vec<Clause>, clause: Clause) {
    if !because.contains(&clause) {
        because.push(clause);
    }
}
