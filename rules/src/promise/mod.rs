//! What the Service API promises for a connection.
//!
//! [`Promises::about`] uses only Kubernetes objects and kube-proxy's configuration. It uses no rules and, except for
//! [`profile`](crate::profile), shares no code with their generators: their bugs must not be repeated here. It is derived from these
//! documents, line by line:
//!
//! - the API reference: [Service](https://kubernetes.io/docs/reference/kubernetes-api/service-resources/service-v1/),
//!   [EndpointSlice](https://kubernetes.io/docs/reference/kubernetes-api/service-resources/endpoint-slice-v1/),
//!   [KubeProxyConfiguration](https://kubernetes.io/docs/reference/config-api/kube-proxy-config.v1alpha1/);
//! - [Virtual IPs and Service Proxies](https://kubernetes.io/docs/reference/networking/virtual-ips/) and
//!   [Using Source IP](https://kubernetes.io/docs/tutorials/services/source-ip/);
//! - enhancement proposals ([KEP](https://github.com/kubernetes/enhancements/tree/master/keps/sig-network)) that introduced a field.
//!
//! The steps to a promise, each with its clauses in a file of its own:
//!
//! 1. `client_path`: the client, and the nodes that its packet reaches with its original destination;
//! 2. `address_lookup`, `node_ports`: whether one of these nodes handles that destination as a service address. Only the first such node
//!    handles the packet;
//! 3. `handling`: what this node does with it, in the following files;
//! 4. `policy`: whether the client is allowed, and whether endpoints must be local;
//! 5. `endpoints`, `topology`: which of them serve;
//! 6. `source`: the source address that the endpoint sees, and the source of the reply that the client sees.
//!
//! If a release lacks a field or feature, the promise differs accordingly. If a release breaks the promise, the result names the bug:
//! [`KnownBug`].
//!
//! The network between nodes is assumed to satisfy the Kubernetes network model and to do no NAT. [`questions`] lists the connections worth
//! checking in a cluster.

mod address_lookup;
mod clause;
mod client_path;
mod cluster_index;
mod endpoint_candidate;
mod endpoints;
mod handling;
mod known_bug;
mod model;
mod node_ports;
mod outcome;
mod policy;
mod question;
mod questions;
mod release;
mod source;
#[cfg(test)]
mod tests;
mod topology;

pub use clause::Clause;
pub use known_bug::KnownBug;
pub use model::{Owner, Promise, PromisedEndpoint, PromisedOutcome, Rejection, Reply, Share, Source};
pub use question::{Question, VantagePoint};
pub use questions::questions;

use std::collections::HashMap;

use crate::cluster::{Cluster, EndpointSlice, Family, Node, ObjectName, ProxyMode};
use crate::profile::UnknownVersion;
use address_lookup::{Claim, Claims, Meaning};
use client_path::{Client, Place, has_address};
use cluster_index::Setting;
use endpoints::Candidates;
use handling::Handling;

/// The promises of a cluster for connections, indexed for many questions.
pub struct Promises<'a> {
    cluster: &'a Cluster,
    /// The cluster as interpreted by each release of its kube-proxies, the cluster's own first.
    readings: Vec<Reading<'a>>,
    slices: HashMap<&'a ObjectName, Vec<&'a EndpointSlice>>,
}

/// A cluster as interpreted by one release.
struct Reading<'a> {
    release: &'a str,
    setting: Setting<'a>,
    claims: Claims<'a>,
}

impl<'a> Reading<'a> {
    fn of(cluster: &'a Cluster, release: &'a str) -> Result<Self, UnknownVersion> {
        let profile = release.parse()?;
        Ok(Self { release, setting: Setting::new(cluster, profile), claims: Claims::of(cluster, profile) })
    }
}

/// Returns what a cluster promises for one connection.
///
/// # Errors
///
/// The release of a kube-proxy in the cluster is unknown.
pub fn promise(cluster: &Cluster, question: &Question) -> Result<Promise, UnknownVersion> {
    Ok(Promises::of(cluster)?.about(question))
}

impl<'a> Promises<'a> {
    /// Indexes the objects of a cluster.
    ///
    /// # Errors
    ///
    /// The release of a kube-proxy in the cluster is unknown.
    pub fn of(cluster: &'a Cluster) -> Result<Self, UnknownVersion> {
        let releases = cluster.releases().into_iter();
        let readings = releases.map(|release| Reading::of(cluster, release)).collect::<Result<_, _>>()?;
        let mut slices: HashMap<&ObjectName, Vec<&EndpointSlice>> = HashMap::new();
        for slice in &cluster.slices {
            slices.entry(&slice.service).or_default().push(slice);
        }
        Ok(Self { cluster, readings, slices })
    }

    /// Returns the promise for a connection.
    pub fn about(&self, question: &Question) -> Promise {
        let cluster = self.cluster;
        let Some(client) = Client::of(cluster, question, |name| self.setting().pod(name)) else {
            return unserved(PromisedOutcome::NotPromised, Clause::UnknownClient);
        };
        for node in client.nodes_on_the_way(cluster, question) {
            let Reading { setting, claims, .. } = self.reading(node);
            let meaning = claims.meaning(node, question.to, question.protocol);
            if self.is_kept_by_loopback(&client, node, question, &meaning) {
                return unserved(PromisedOutcome::NotPromised, Clause::LoopbackNotForwarded);
            }
            let mode = setting.config().mode;
            let treated = match meaning {
                Meaning::Service(claim) => {
                    let handling = Handling { setting, client, node, claim, to: question.to };
                    handling.promise(self.slices_of(&claim))
                }
                Meaning::AddressConflict => unserved(PromisedOutcome::NotPromised, Clause::AddressConflict),
                Meaning::UnusedPort if mode == ProxyMode::Nftables => {
                    unserved(PromisedOutcome::Rejected(Rejection::PortUnreachable), Clause::UnusedPort)
                }
                Meaning::Unallocated => unserved(PromisedOutcome::Dropped, Clause::Unallocated),
                Meaning::UnusedPort | Meaning::Unknown => continue,
            };
            return Promise { node: Some(node.name.clone()), ..treated };
        }
        self.goes_where_its_address_leads(&client, question)
    }

    /// Returns whether nothing is promised because of a loopback address: as a destination, from another host; as a source, to any
    /// destination except the node itself, and to its node ports if they are not served on localhost. To packets from `::1`, a kernel does
    /// not even reply on the host's other addresses.
    fn is_kept_by_loopback(
        &self,
        client: &Client<'_>,
        node: &Node,
        question: &Question,
        meaning: &Meaning<'_>,
    ) -> bool {
        let to = question.to.ip();
        if to.is_loopback() {
            return !client.is_process_of(node);
        }
        let is_translated = matches!(meaning, Meaning::Service(_));
        let setting = &self.reading(node).setting;
        let is_open = node_ports::loopback_is_open(setting.config(), setting.profile);
        let is_free = to.is_ipv4() && has_address(node, to) && (is_open || !is_translated);
        client.address.is_loopback() && !is_free
    }

    /// Returns the promise for a packet that no kube-proxy handles.
    fn goes_where_its_address_leads(&self, client: &Client<'_>, question: &Question) -> Promise {
        let to = question.to.ip();
        let own = client.node().filter(|_| to.is_loopback() && matches!(client.place, Place::Process(_)));
        let owner = own.or_else(|| self.cluster.nodes.iter().find(|node| has_address(node, to)));
        if to.is_loopback() && own.is_none() || client.address.is_loopback() && owner.is_none() {
            return unserved(PromisedOutcome::NotPromised, Clause::LoopbackNotForwarded);
        }
        if let Some(node) = owner {
            let owner = Owner::Node(node.name.clone());
            let known_bug = self.known_bug_of_own_port(node, question);
            return Promise { known_bug, ..unserved(PromisedOutcome::NotAService(owner), Clause::NodeAddress) };
        }
        if let Some(pod) = self.setting().pod_at(to) {
            let source = source::unchanged(client, to, self.setting());
            return unserved(PromisedOutcome::NotAService(Owner::Pod(pod.clone(), source)), Clause::PodAddress);
        }
        let is_lost = client.nodes_on_the_way(self.cluster, question).is_empty();
        let because = if is_lost { Clause::NoNodeOnPath } else { Clause::NotAService };
        unserved(PromisedOutcome::NotAService(Owner::Outside), because)
    }

    /// Returns the known bug for a node port's number on an address of the node that does not serve node ports.
    fn known_bug_of_own_port(&self, node: &Node, question: &Question) -> Option<KnownBug> {
        let family = Family::of(question.to.ip());
        let Reading { setting, claims, .. } = self.reading(node);
        let claim = claims.node_port(question.to.port(), question.protocol, family)?;
        if setting.config().mode != ProxyMode::Iptables {
            return None;
        }
        let candidates = Candidates::of(self.slices_of(&claim), claim.port, family, setting);
        let is_local = policy::is_external_local(claim.service, setting.profile);
        let rejects = !candidates.any_usable() || (is_local && candidates.on_node(node, &mut Vec::new()).is_empty());
        let is_lost = question.to.ip().is_loopback() && !setting.profile.knows_localhost_node_ports();
        if rejects { Some(KnownBug::RejectedAtEveryAddress) } else { is_lost.then_some(KnownBug::Ipv6LoopbackLost) }
    }

    /// Returns the cluster as interpreted by the kube-proxy of a node.
    fn reading(&self, node: &Node) -> &Reading<'a> {
        let release = self.cluster.release_on(node);
        self.readings.iter().find(|reading| reading.release == release).unwrap_or(&self.readings[0])
    }

    /// Returns the objects, which are the same for all releases.
    fn setting(&self) -> &Setting<'a> {
        &self.readings[0].setting
    }

    fn slices_of(&self, claim: &Claim<'_>) -> &[&'a EndpointSlice] {
        self.slices.get(&claim.service.name).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Returns the promise for a connection that no service serves.
fn unserved(outcome: PromisedOutcome, clause: Clause) -> Promise {
    Promise { outcome, node: None, service: None, because: vec![clause], known_bug: None }
}
