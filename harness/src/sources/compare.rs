//! Compares an observed or predicted outcome of a flow with its promise.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use svclab_rules::cluster::{Cluster, Protocol, ProxyMode};
use svclab_rules::profile::{Profile, UnknownVersion};
use svclab_rules::promise::{Owner, Promise, PromisedEndpoint, PromisedOutcome, Question, Rejection, Reply, Source};

use super::outcome::{FlowOutcome, outcome_words};
use crate::predict::{PredictedOutcome, Prediction};
use crate::scenario::RejectKind;
use crate::topology::{Role, Topology};

/// The data that a comparison needs in addition to the sources.
pub(crate) struct Comparison {
    /// The addresses of nodes, by the node's name.
    pub(crate) nodes: BTreeMap<String, Vec<IpAddr>>,
    /// The addresses of machines outside of the cluster.
    pub(crate) outside: HashSet<IpAddr>,
    /// The pod ranges of nodes: a packet to an unused address in a range gets as far as its node.
    pub(crate) pod_ranges: Vec<IpNet>,
    /// The number of digits after the decimal point of probabilities in rules.
    pub(crate) digits: usize,
}

impl Comparison {
    /// Collects the data from a lab's plan and its cluster.
    ///
    /// # Errors
    ///
    /// If a kube-proxy release of the cluster is unknown.
    pub(crate) fn of(topology: &Topology, cluster: &Cluster) -> Result<Self, UnknownVersion> {
        let releases: Vec<Profile> = cluster.releases().into_iter().map(str::parse).collect::<Result<_, _>>()?;
        let digits = releases.iter().map(|release| release.probability_digits()).min();
        let digits = digits.filter(|_| cluster.proxy.mode == ProxyMode::Iptables).unwrap_or(10);
        let hosts = topology.namespaces.iter().filter(|netns| netns.role == Role::Host);
        let outside = hosts.flat_map(|netns| &netns.addresses_on_wire).copied().collect();
        let pod_ranges = cluster.nodes.iter().flat_map(|node| node.pod_cidrs.iter().copied()).collect();
        Ok(Self { nodes: topology.node_addresses(), outside, pod_ranges, digits })
    }
}

/// The question about a flow, with its actual source address.
#[derive(Clone, Copy)]
pub(crate) struct Flow<'a> {
    pub(crate) question: &'a Question,
    pub(crate) source: IpAddr,
}

impl Comparison {
    /// Whether a promise admits the outcome of a flow.
    pub(crate) fn admits(&self, promise: &Promise, flow: Flow<'_>, seen: &FlowOutcome) -> bool {
        let Question { to, protocol, .. } = flow.question;
        match (&promise.outcome, seen) {
            (PromisedOutcome::NotPromised, _) => true,
            (
                promised @ PromisedOutcome::Delivered { .. },
                FlowOutcome::Delivered { source, destination, reply, .. },
            ) => promised.endpoint(*destination).is_some_and(|endpoint| {
                self.admits_source(&endpoint.source, flow, source.ip(), *destination)
                    && admits_reply(endpoint, *to, *reply)
            }),
            (PromisedOutcome::Rejected(rejection), FlowOutcome::Rejected(kind)) => {
                is_kind(*rejection, *protocol, *kind)
            }
            // A drop elsewhere proves nothing about the rules that should drop it, unless the packet never reaches them.
            (PromisedOutcome::Dropped | PromisedOutcome::Fails, FlowOutcome::Dropped { at, is_martian, .. }) => {
                *is_martian || is_on(promise.node.as_deref(), at)
            }
            (PromisedOutcome::Fails, FlowOutcome::Rejected(_)) => true,
            (PromisedOutcome::NotAService(owner), seen) => self.admits_of_owner(owner, flow, seen),
            _ => false,
        }
    }

    /// Whether a packet reaches the owner of its destination address.
    fn admits_of_owner(&self, owner: &Owner, flow: Flow<'_>, seen: &FlowOutcome) -> bool {
        let Question { to, protocol, .. } = flow.question;
        match (owner, seen) {
            (Owner::Node(_), FlowOutcome::Rejected(kind)) => is_kind(Rejection::NoListener, *protocol, *kind),
            (Owner::Node(node), FlowOutcome::Dropped { at, has_no_listener: true, .. }) => {
                *protocol == Protocol::Sctp && is_on(Some(node), at)
            }
            (Owner::Node(_) | Owner::Outside, FlowOutcome::Delivered { destination, .. }) => destination == to,
            (Owner::Pod(_, promised), FlowOutcome::Delivered { source, destination, .. }) => {
                destination == to && self.admits_source(promised, flow, source.ip(), *destination)
            }
            // If a machine outside of the cluster has the address, that is the owner.
            (Owner::Outside, FlowOutcome::Dropped { is_beyond_rules, .. }) => {
                let leads_into_cluster = || self.pod_ranges.iter().any(|range| range.contains(&to.ip()));
                !self.outside.contains(&to.ip()) && (*is_beyond_rules || leads_into_cluster())
            }
            // A router may have no route; only the host with the address can reject a closed port.
            (Owner::Outside, FlowOutcome::Rejected(kind)) => {
                !matches!(kind, RejectKind::PortUnreachable | RejectKind::TcpReset | RejectKind::SctpAbort)
            }
            _ => false,
        }
    }

    fn admits_source(&self, promised: &Source, flow: Flow<'_>, source: IpAddr, destination: SocketAddr) -> bool {
        let is_of = |node: &String| self.nodes.get(node).is_some_and(|own| own.contains(&source));
        match promised {
            Source::Preserved => source == flow.source,
            // A process may reach its own node from a loopback address, but no other host.
            Source::Node(node) => {
                is_of(node) || (source.is_loopback() && source == flow.source && self.is_node(destination.ip()))
            }
            Source::PreservedOrNode(node) => source == flow.source || is_of(node),
        }
    }

    /// The outcome of a predicted branch in words, which are equal for outcomes that the promise does not distinguish.
    pub(crate) fn words(&self, promise: &Promise, outcome: &PredictedOutcome) -> String {
        match (&promise.outcome, FlowOutcome::predicted(outcome)) {
            (PromisedOutcome::NotPromised, _) => "nothing is promised".to_owned(),
            (PromisedOutcome::Fails, Some(FlowOutcome::Rejected(_) | FlowOutcome::Dropped { .. })) => {
                "rejected".to_owned()
            }
            (promised, Some(FlowOutcome::Delivered { at, source, destination, reply })) => {
                let (promised_source, promised_reply) = promised_ends(promised, destination);
                let source = match promised_source {
                    Some(Source::PreservedOrNode(_)) => "any source".to_owned(),
                    _ => self.source_owner(source.ip(), destination),
                };
                let reply = match promised_reply {
                    Reply::FromDestination => format!("reply from {reply:?}"),
                    Reply::BypassesNode | Reply::Unspecified => "answered or not".to_owned(),
                };
                format!("delivered to {at} at {destination}, from {source}, {reply}")
            }
            _ => outcome_words(outcome),
        }
    }

    /// The owner of a source address: a node, otherwise the address itself.
    pub(super) fn source_owner(&self, source: IpAddr, at: SocketAddr) -> String {
        let at = if source.is_loopback() { at.ip() } else { source };
        let node = self.nodes.iter().find(|(_, own)| own.contains(&at));
        node.map_or_else(|| source.to_string(), |(name, _)| format!("node {name}"))
    }

    /// Whether an address is a node's.
    fn is_node(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.nodes.values().any(|own| own.contains(&address))
    }

    /// Whether the branches of a prediction reach all promised endpoints, each with its share. A rule's probability is truncated to its
    /// digits and then to 31 bits, so each rule may add that error.
    pub(crate) fn has_shares(&self, promise: &Promise, prediction: &Prediction) -> bool {
        self.uneven(promise, prediction).is_none()
    }

    /// The share that is farthest from its promise, in words; `None` if all are as promised.
    pub(super) fn uneven(&self, promise: &Promise, prediction: &Prediction) -> Option<String> {
        let PromisedOutcome::Delivered { endpoints, .. } = &promise.outcome else { return None };
        let mut shares: HashMap<SocketAddr, f64> = HashMap::with_capacity(endpoints.len());
        for branch in &prediction.branches {
            if let PredictedOutcome::Delivered { destination, .. } = &branch.outcome {
                *shares.entry(*destination).or_default() += branch.share.to_f64();
            }
        }
        let digits = i32::try_from(self.digits).unwrap_or(i32::MAX);
        let of_a_rule = 0.5 * 10_f64.powi(-digits) + 2_f64.powi(-31);
        let allowed = of_a_rule * endpoints.len() as f64;
        let off = endpoints.iter().map(|endpoint| {
            let share = shares.get(&endpoint.address).copied().unwrap_or_default();
            (endpoint, share, (share - 1.0 / endpoint.share.one_in as f64).abs())
        });
        // Among equal deviations, one that gets too little.
        let far = |one: &(&PromisedEndpoint, f64, f64)| (one.2 / allowed).round();
        let (endpoint, share, off) =
            off.max_by(|one, other| far(one).total_cmp(&far(other)).then(other.1.total_cmp(&one.1)))?;
        (off > allowed)
            .then(|| format!("{} gets {:.4} % instead of {}", endpoint.address, share * 100.0, endpoint.share))
    }

    /// The destination that gets more than its promised share; `None` if none does.
    pub(super) fn favoured(&self, promise: &Promise, prediction: &Prediction) -> Option<SocketAddr> {
        let PromisedOutcome::Delivered { endpoints, .. } = &promise.outcome else { return None };
        self.uneven(promise, prediction)?;
        let mut shares: BTreeMap<SocketAddr, f64> = BTreeMap::new();
        for branch in &prediction.branches {
            if let PredictedOutcome::Delivered { destination, .. } = &branch.outcome {
                *shares.entry(*destination).or_default() += branch.share.to_f64();
            }
        }
        let excess = |address: &SocketAddr, share: f64| {
            let own = endpoints.iter().find(|endpoint| endpoint.address == *address);
            share - own.map_or(0.0, |endpoint| 1.0 / endpoint.share.one_in as f64)
        };
        let most = shares.iter().max_by(|one, other| excess(one.0, *one.1).total_cmp(&excess(other.0, *other.1)))?;
        Some(*most.0)
    }
}

/// The promised source for the receiver at a destination, if there is one, and the promised reply.
fn promised_ends(promised: &PromisedOutcome, destination: SocketAddr) -> (Option<&Source>, Reply) {
    match promised {
        promised @ PromisedOutcome::Delivered { .. } => {
            let endpoint = promised.endpoint(destination);
            endpoint.map_or((None, Reply::FromDestination), |one| (Some(&one.source), one.reply))
        }
        PromisedOutcome::NotAService(Owner::Pod(_, source)) => (Some(source), Reply::FromDestination),
        _ => (None, Reply::FromDestination),
    }
}

/// Whether a place is this node.
fn is_on(node: Option<&str>, place: &str) -> bool {
    place.strip_prefix("node/").is_some_and(|name| node == Some(name))
}

fn admits_reply(endpoint: &PromisedEndpoint, to: SocketAddr, reply: Option<SocketAddr>) -> bool {
    match endpoint.reply {
        Reply::FromDestination => reply == Some(to),
        Reply::BypassesNode => reply.is_none_or(|reply| reply == endpoint.address),
        Reply::Unspecified => true,
    }
}

fn is_kind(promised: Rejection, protocol: Protocol, kind: RejectKind) -> bool {
    let kinds: &[RejectKind] = match (promised, protocol) {
        (Rejection::PortUnreachable, _) | (Rejection::NoListener, Protocol::Udp) => &[RejectKind::PortUnreachable],
        (Rejection::NoListener, Protocol::Tcp) => &[RejectKind::TcpReset],
        (Rejection::NoListener, Protocol::Sctp) => &[RejectKind::SctpAbort, RejectKind::OtherUnreachable],
    };
    kinds.contains(&kind) || (kind == RejectKind::Any && protocol == Protocol::Sctp)
}
