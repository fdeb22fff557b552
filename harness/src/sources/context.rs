//! The context of promise, prediction and observation in one state of a cluster.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::OnceLock;

use svclab_rules::cluster::{Cluster, Family};
use svclab_rules::promise::{Promise, Promises, Question, VantagePoint};
use svclab_rules::ruleset::Unsupported;

use super::compare::Comparison;
use crate::documents::Document;
use crate::predict::{Network, PredictError, PredictedOutcome};
use crate::scenario::{ConntrackEntry, Host, Probe, Vantage};
use crate::text::list;
use crate::topology::{Deviation, Netns, Topology};

/// A state of a cluster, with everything that the promise and the prediction for its flows depend on.
pub(crate) struct Context<'a> {
    hosts: &'a [Host],
    /// The plan with its rules.
    pub(crate) network: Network<'a>,
    /// The same rules in networks that deviate less from what Kubernetes expects, built only if a promise is broken; `None` if there is no
    /// deviation.
    repaired: OnceLock<Option<Repaired<'a>>>,
    /// The same network with empty connection tables, `None` where they are empty already: needed in the same place.
    without_connections: OnceLock<Option<Network<'a>>>,
    promises: Promises<'a>,
    pub(super) comparison: Comparison,
}

/// The most deviations of a network that are named.
const MAX_NAMED: usize = 5;

/// The same rules in networks that deviate less from what Kubernetes expects.
struct Repaired<'a> {
    /// Without any deviation.
    all: Network<'a>,
    /// Without one deviation each.
    each: Vec<(Deviation, OnceLock<Network<'a>>)>,
}

impl<'a> Repaired<'a> {
    /// `None` if there is no deviation.
    fn of(network: &Network<'a>) -> Option<Self> {
        let deviations = network.topology().deviations();
        let all = || network.without_deviations(&deviations);
        let all = (!deviations.is_empty()).then(all)?;
        Some(Self { all, each: deviations.into_iter().map(|one| (one, OnceLock::new())).collect() })
    }
}

impl<'a> Context<'a> {
    /// Creates the context from a plan, the documents installed in it, and the cluster that both were made for.
    ///
    /// # Errors
    ///
    /// If a document cannot be walked, or a release of kube-proxy is unknown.
    pub(crate) fn of<E>(
        hosts: &'a [Host],
        topology: &'a Topology,
        documents: &[Document],
        cluster: &'a Cluster,
    ) -> Result<Self, E>
    where
        E: From<PredictError> + From<Unsupported>,
    {
        let promises = Promises::of(cluster).map_err(Unsupported::from)?;
        let comparison = Comparison::of(topology, cluster).map_err(Unsupported::from)?;
        let network = Network::of(topology, documents, cluster)?;
        let (repaired, without_connections) = (OnceLock::new(), OnceLock::new());
        Ok(Self { hosts, network, repaired, without_connections, promises, comparison })
    }

    /// The context with entries in conntrack tables from the start.
    pub(crate) fn with_connections(self, entries: &[ConntrackEntry]) -> Self {
        let (repaired, without_connections) = (OnceLock::new(), OnceLock::new());
        Self { network: self.network.with_connections(entries), repaired, without_connections, ..self }
    }

    /// The question about a probe: see [`question`].
    pub(crate) fn question(&self, probe: &Probe) -> Option<Question> {
        question(self.hosts, self.network.topology(), probe)
    }

    /// The Service API's promise for a question.
    pub(crate) fn promise(&self, question: &Question) -> Promise {
        self.promises.about(question)
    }

    /// Returns a function that words predicted outcomes, equally for outcomes that the question's promise does not distinguish.
    pub(crate) fn words_of_what_is_promised(&self, question: &Question) -> impl Fn(&PredictedOutcome) -> String {
        let promise = self.promise(question);
        move |outcome| self.comparison.words(&promise, outcome)
    }

    /// Deviations of the network from what Kubernetes expects without which a condition holds, in words: one of them, else as few as suffice.
    /// `None` if the condition does not hold without any.
    pub(super) fn cause_in_network(&self, holds: impl Fn(&Network<'_>) -> bool) -> Option<String> {
        let Repaired { all, each } = self.repaired.get_or_init(|| Repaired::of(&self.network)).as_ref()?;
        if !holds(all) {
            return None;
        }
        let topology = self.network.topology();
        let suffices = |(one, network): &&(Deviation, OnceLock<Network<'a>>)| {
            holds(network.get_or_init(|| self.network.without_deviations([one])))
        };
        if let Some((one, _)) = each.iter().find(suffices) {
            return Some(topology.words_of_deviation(one));
        }
        let mut needed: Vec<&Deviation> = each.iter().map(|(one, _)| one).collect();
        for (one, _) in each {
            let fewer: Vec<&Deviation> = needed.iter().copied().filter(|other| *other != one).collect();
            if holds(&self.network.without_deviations(fewer.iter().copied())) {
                needed = fewer;
            }
        }
        let words: BTreeSet<String> = needed.iter().map(|one| topology.words_of_deviation(one)).collect();
        Some(list(words, MAX_NAMED))
    }

    /// The same network with empty connection tables; `None` where they are empty already.
    pub(super) fn without_connections(&self) -> Option<&Network<'a>> {
        self.without_connections.get_or_init(|| self.network.without_connections()).as_ref()
    }
}

/// The question about a probe. An outside host's packet to a service address enters at the node that the network routes it to, unless the
/// probe names one. `None` for an outside host without an address of the destination's family, and for a segment that does not open a
/// connection.
pub(crate) fn question(hosts: &[Host], topology: &Topology, probe: &Probe) -> Option<Question> {
    if probe.tcp_flags.is_some() {
        return None;
    }
    let from = match &probe.from {
        Vantage::Pod(name) => VantagePoint::Pod(name.clone()),
        Vantage::Node(name) => VantagePoint::Node(name.clone()),
        Vantage::Localhost(name) => VantagePoint::Localhost(name.clone()),
        Vantage::Host(name) => {
            let host = hosts.iter().find(|host| host.name == *name)?;
            let own = host.ips.iter().find(|ip| Family::of(**ip) == Family::of(probe.to.address))?;
            VantagePoint::Outside(*own)
        }
    };
    let to = SocketAddr::new(probe.to.address, probe.to.port);
    let is_outside = matches!(from, VantagePoint::Outside(_));
    let entry = || topology.entry_node(to.ip()).filter(|_| is_outside);
    let entry = || entry().and_then(Netns::node_name).map(str::to_owned);
    Some(Question { from, to, protocol: probe.protocol, via: probe.to.via.clone().or_else(entry) })
}
