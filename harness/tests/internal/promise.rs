//! Compares the expectations of scenario authors with the promises of the Service API: two sources that are independent
//! of each other and of rules.
//!
//! Scenarios with rules of their own are left out, since these change what happens on purpose.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::scenario::{
    self, Balance, Change, DropPlace, Expectation, ExpectedOutcome, Probe, RejectKind, ReplyExpectation, Scenario,
    SourceExpectation, Step, Target, Vantage,
};
use crate::topology::{self, Topology};
use rstest::rstest;
use svclab_rules::cluster::{Cluster, Family, Protocol};
use svclab_rules::promise::{
    KnownBug, Owner, Promise, PromisedEndpoint, PromisedOutcome, Promises, Question, Rejection, Reply, Source,
    VantagePoint,
};

/// The reason why an expectation is right although the promise differs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Because {
    /// The scenario's network is not as Kubernetes requires.
    Network,
    /// The packet belongs to a connection that is older than the last change of objects. Promises are for new connections.
    OldConnection,
    /// The release does not keep the promise, and the promise says so.
    Release(KnownBug),
}

/// All such tests: file, name of the test, reason. An unneeded exception fails.
const EXCEPTIONS: &[(&str, &str, Because)] = &[
    (
        "bugs/19029-udp-dead-endpoint.yaml",
        "after it, the same port reaches the pod that is gone",
        Because::OldConnection,
    ),
    ("bugs/48370-traffic-before-endpoints.yaml", "after, the same port still goes astray", Because::OldConnection),
    ("bugs/71851-node-name.yaml", "the pod's node drops", Because::Network),
    ("bugs/101607-syn-before-service.yaml", "after, its retry still does", Because::OldConnection),
    (
        "bugs/106651-sctp-dead-endpoint.yaml",
        "after it, INIT from the same port goes to the pod that is gone",
        Because::OldConnection,
    ),
    (
        "bugs/126130-local-policy-udp.yaml",
        "with policy Local and an endpoint on this node, the old port still leaves it",
        Because::OldConnection,
    ),
    (
        "bugs/139629-last-endpoint-gone.yaml",
        "when the last endpoint is gone, the old port still reaches it",
        Because::OldConnection,
    ),
    ("bugs/139629-last-endpoint-gone.yaml", "when the Service is deleted, it still does", Because::OldConnection),
    (
        "bugs/kubespray-524-source-before-dnat.yaml",
        "the node's packet comes by the tunnel with the underlay's address",
        Because::Network,
    ),
    (
        "bugs/flannel-1702-bridge-nf-call-off.yaml",
        "the reply to a neighbour's TCP connection comes from the wrong address",
        Because::Network,
    ),
    ("bugs/flannel-1702-bridge-nf-call-off.yaml", "UDP from a neighbour as well", Because::Network),
    ("bugs/20475-hairpin-off.yaml", "the pod itself", Because::Network),
    ("sysctls/ip-forward.yaml", "a pod of that node", Because::Network),
    ("sysctls/ip-forward.yaml", "an outside host over that node", Because::Network),
    ("sysctls/route-localnet.yaml", "the node whose setting was reset", Because::Network),
    ("bugs/cilium-13130-rp-filter.yaml", "a pod to the strict node's port", Because::Network),
    ("sysctls/of-an-interface.yaml", "to a node that is strict where the packet comes in", Because::Network),
    ("updates/udp-entry-expires.yaml", "the endpoint changes while the client is silent", Because::OldConnection),
    (
        "updates/added-endpoint-udp.yaml",
        "with a second endpoint, two more datagrams from the same port",
        Because::OldConnection,
    ),
    ("nftables/policy-local.yaml", "the node does not", Because::Release(KnownBug::ShortCircuitDropped)),
    (
        "releases/1.33.5-policy-local-nftables.yaml",
        "the node does not",
        Because::Release(KnownBug::ShortCircuitDropped),
    ),
    ("releases/1.32-udp-scale-to-zero.yaml", "when the last endpoint is gone", Because::OldConnection),
    ("releases/1.32-udp-scale-to-zero-nftables.yaml", "when the last endpoint is gone", Because::OldConnection),
    ("releases/1.33-udp-port-changes.yaml", "when the endpoint serves at another port", Because::OldConnection),
    (
        "releases/1.33-udp-port-changes-nftables.yaml",
        "when the endpoint serves at another port",
        Because::OldConnection,
    ),
    (
        "releases/1.14-policy-local.yaml",
        "a node without an endpoint is dropped",
        Because::Release(KnownBug::NoShortCircuitForNodes),
    ),
    (
        "releases/1.18-external-ip.yaml",
        "a pod on worker2 goes the long way over worker",
        Because::Release(KnownBug::ExternalIpsFromInside),
    ),
    (
        "releases/1.18-external-ip.yaml",
        "a process on worker2 goes the long way over worker",
        Because::Release(KnownBug::ExternalIpsFromInside),
    ),
    (
        "releases/1.18-external-ip.yaml",
        "a pod on worker, where the address leads back to, is lost",
        Because::Release(KnownBug::ExternalIpsFromInside),
    ),
    (
        "releases/1.23-internal-policy.yaml",
        "the ClusterIP on another node is rejected",
        Because::Release(KnownBug::InternalPolicyAffectsExternal),
    ),
    (
        "releases/1.23-internal-policy.yaml",
        "the node port of another node is rejected",
        Because::Release(KnownBug::InternalPolicyAffectsExternal),
    ),
    (
        "releases/1.24-source-ranges.yaml",
        "out of the range, the packet is passed on to the load balancer",
        Because::Release(KnownBug::DropIsForwarded),
    ),
    (
        "updates/restored-connections.yaml",
        "a datagram of a known connection goes to the endpoint of then",
        Because::OldConnection,
    ),
    (
        "updates/restored-connections.yaml",
        "a connection that was made before there were rules is never translated",
        Because::OldConnection,
    ),
    ("updates/restored-connections.yaml", "a SYN of an established connection follows it", Because::OldConnection),
    (
        "updates/restored-connections.yaml",
        "a node port's connection goes on without endpoints, from the port that it has",
        Because::OldConnection,
    ),
];

#[rstest]
fn authors_and_documents_agree(
    #[files("../scenarios/**/*.yaml")]
    #[exclude("/(invalid|manifests|other-rules)/")]
    scenario: PathBuf,
) {
    let scenario = scenario::load(&scenario).unwrap_or_else(|errors| panic!("{errors}"));
    if !scenario.rules.is_empty() {
        return;
    }
    let known: BTreeSet<&str> = exceptions(&scenario.file).map(|(test, _)| test).collect();
    let mut needed = BTreeSet::new();
    let mut troubles = Vec::new();
    for Disagreement { test, probe, known_bug, text } in disagreements(&scenario) {
        let excuse = exceptions(&scenario.file).find(|(name, _)| *name == test).map(|(_, because)| because);
        let holds = match excuse {
            Some(Because::Network | Because::OldConnection) => known_bug.is_none(),
            Some(Because::Release(known)) => known_bug == Some(known),
            None => false,
        };
        if holds {
            needed.insert(test);
        } else {
            troubles.push(format!("{}: {test}: {} to {}: {text}", probe.span, probe.from, probe.to.label));
        }
    }
    assert!(
        troubles.is_empty(),
        "\n{}\nWhere the author is right for a reason that the documents do not know, EXCEPTIONS takes it.",
        troubles.join("\n")
    );
    assert_eq!(needed, known, "exceptions that are none");
}

/// The exceptions of a file: names of tests and reasons.
fn exceptions(file: &Path) -> impl Iterator<Item = (&'static str, Because)> {
    EXCEPTIONS.iter().filter(|(path, ..)| file.ends_with(path)).map(|(_, test, because)| (*test, *because))
}

/// A probe whose expectation differs from the promise.
struct Disagreement<'a> {
    test: &'a str,
    probe: &'a Probe,
    known_bug: Option<KnownBug>,
    text: String,
}

fn disagreements(scenario: &Scenario) -> Vec<Disagreement<'_>> {
    let mut topology = topology::plan(scenario);
    let mut cluster = &scenario.cluster;
    let mut found = Vec::new();
    for test in &scenario.tests {
        for step in &test.steps {
            match step {
                Step::Change(Change::State(state)) => {
                    cluster = state;
                    topology = topology::plan_at(scenario, state);
                }
                // How many flows keep their promise during a change depends on the programs.
                Step::During(during) => {
                    if let Change::State(state) = &during.change {
                        cluster = state;
                        topology = topology::plan_at(scenario, state);
                    }
                }
                Step::Change(Change::Restart(_)) | Step::Wait(_) => {}
                // Nodes with stale rules do not keep promises, and lossy links are not part of the API.
                Step::Probe(..) if !cluster.stopped.is_empty() || !cluster.links.is_empty() => {}
                // Promises are about packets that open connections.
                Step::Probe(probe, _) if probe.tcp_flags.is_some() => {}
                // The MTU of links is not part of the API either.
                Step::Probe(_, expectation) if matches!(expectation.outcome, Some(ExpectedOutcome::TooBig(_))) => {}
                Step::Probe(probe, expectation) => {
                    let view = View { scenario, topology: &topology, cluster, probe };
                    let promises = Promises::of(cluster).expect("a known release");
                    let promise = promises.about(&view.question());
                    if let Err(text) = view.compare(expectation, &promise) {
                        let text = format!("{text}\n    promised: {}", promise.outcome);
                        found.push(Disagreement { test: &test.name, probe, known_bug: promise.known_bug, text });
                    }
                }
            }
        }
    }
    found
}

/// One probe with its context.
struct View<'a> {
    scenario: &'a Scenario,
    topology: &'a Topology,
    cluster: &'a Cluster,
    probe: &'a Probe,
}

impl View<'_> {
    fn question(&self) -> Question {
        let to = self.destination();
        let family = Family::of(to.ip());
        let from = match &self.probe.from {
            Vantage::Pod(name) => VantagePoint::Pod(name.clone()),
            Vantage::Node(name) => VantagePoint::Node(name.clone()),
            Vantage::Localhost(name) => VantagePoint::Localhost(name.clone()),
            Vantage::Host(name) => {
                let host = self.scenario.hosts.iter().find(|host| host.name == *name).expect("a host");
                let address = host.ips.iter().copied().find(|ip| Family::of(*ip) == family);
                VantagePoint::Outside(address.expect("an address of the family"))
            }
        };
        let via = self.probe.to.via.clone().or_else(|| self.routed_to(to.ip()));
        Question { from, to, protocol: self.probe.protocol, via }
    }

    fn destination(&self) -> SocketAddr {
        SocketAddr::new(self.probe.to.address, self.probe.to.port)
    }

    /// The node that the lab's router routes an address to.
    fn routed_to(&self, address: IpAddr) -> Option<String> {
        let underlay = &self.topology.namespaces[topology::UNDERLAY];
        let route = underlay.routes().find(|route| route.destination.addr() == address)?;
        let node =
            self.cluster.nodes.iter().find(|node| node.addresses().any(|own| Some(own) == route.hop.gateway()))?;
        Some(node.name.clone())
    }

    fn compare(&self, expectation: &Expectation, promise: &Promise) -> Result<(), String> {
        // Anything may be expected if no document specifies it.
        if promise.outcome == PromisedOutcome::NotPromised {
            return Ok(());
        }
        if let Some(outcome) = &expectation.outcome {
            self.compare_outcome(outcome, promise)?;
        }
        let PromisedOutcome::Delivered { endpoints, affinity_seconds } = &promise.outcome else {
            return self.compare_plain(expectation, promise);
        };
        for endpoint in endpoints {
            if let Some(source) = expectation.source
                && !self.allows_source(&endpoint.source, source)
            {
                return Err(format!("the author expects {source:?}"));
            }
            if let Some(reply) = expectation.reply
                && !self.allows_reply(endpoint, reply)
            {
                return Err(format!("the author expects {reply:?}"));
            }
        }
        match &expectation.balance {
            Some(Balance::Shares(shares)) => compare_shares(shares, endpoints)?,
            Some(Balance::Even | Balance::All) | None => {}
        }
        if expectation.affinity.is_some_and(|affinity| affinity != affinity_seconds.is_some()) {
            return Err("the author expects affinity, or none".to_owned());
        }
        Ok(())
    }

    fn compare_outcome(&self, expected: &ExpectedOutcome, promise: &Promise) -> Result<(), String> {
        let agreed = match (expected, &promise.outcome) {
            (ExpectedOutcome::Delivered(targets), PromisedOutcome::Delivered { endpoints, affinity_seconds }) => {
                let is_promised = |target: &Target| endpoints.iter().any(|endpoint| is_at(target, endpoint.address));
                let is_expected =
                    |endpoint: &PromisedEndpoint| targets.iter().any(|target| is_at(target, endpoint.address));
                // With affinity, an author may know which endpoint the client has reached before.
                targets.iter().all(is_promised) && (affinity_seconds.is_some() || endpoints.iter().all(is_expected))
            }
            (ExpectedOutcome::Delivered(targets), PromisedOutcome::NotAService(_)) => {
                targets.iter().all(|target| is_at(target, self.destination()))
            }
            (ExpectedOutcome::Rejected(kind), PromisedOutcome::Rejected(rejection)) => self.is_kind(*kind, *rejection),
            (ExpectedOutcome::Rejected(kind), PromisedOutcome::NotAService(Owner::Node(_))) => {
                self.is_kind(*kind, Rejection::NoListener)
            }
            (
                ExpectedOutcome::Dropped(DropPlace::Underlay) | ExpectedOutcome::Rejected(RejectKind::OtherUnreachable),
                PromisedOutcome::NotAService(Owner::Outside),
            ) => !self.scenario.hosts.iter().any(|host| host.ips.contains(&self.probe.to.address)),
            // The network routes a load balancer's address back to a node, until the packet's TTL expires.
            (ExpectedOutcome::Dropped(DropPlace::InCluster), PromisedOutcome::NotAService(Owner::Outside)) => {
                let balanced = self.scenario.cluster.services.iter().flat_map(|service| &service.load_balancer);
                balanced.into_iter().any(|entry| entry.ip == self.probe.to.address)
            }
            (ExpectedOutcome::Dropped(place), PromisedOutcome::Dropped | PromisedOutcome::Fails) => match place {
                DropPlace::InCluster => true,
                DropPlace::At(place) => promise.node.as_ref().is_some_and(|node| *place == format!("node/{node}")),
                DropPlace::Underlay => false,
            },
            (ExpectedOutcome::Rejected(_), PromisedOutcome::Fails) => true,
            (
                ExpectedOutcome::Fails,
                PromisedOutcome::Rejected(_) | PromisedOutcome::Dropped | PromisedOutcome::Fails,
            ) => true,
            _ => false,
        };
        if agreed { Ok(()) } else { Err(format!("the author expects {expected:?}")) }
    }

    /// Compares the expectation for a packet that is not for a service.
    fn compare_plain(&self, expectation: &Expectation, promise: &Promise) -> Result<(), String> {
        let source = match &promise.outcome {
            PromisedOutcome::NotAService(Owner::Pod(_, source)) => source.clone(),
            PromisedOutcome::NotAService(_) => Source::Preserved,
            _ => return Ok(()),
        };
        match expectation.source {
            Some(expected) if !self.allows_source(&source, expected) => Err(format!("the author expects {expected:?}")),
            _ => Ok(()),
        }
    }

    fn is_kind(&self, expected: RejectKind, promised: Rejection) -> bool {
        let kinds: &[RejectKind] = match (promised, self.probe.protocol) {
            (Rejection::PortUnreachable, _) | (Rejection::NoListener, Protocol::Udp) => &[RejectKind::PortUnreachable],
            (Rejection::NoListener, Protocol::Tcp) => &[RejectKind::TcpReset],
            (Rejection::NoListener, Protocol::Sctp) => &[RejectKind::SctpAbort, RejectKind::OtherUnreachable],
        };
        expected == RejectKind::Any || kinds.contains(&expected)
    }

    fn allows_source(&self, promised: &Source, expected: SourceExpectation) -> bool {
        let is_own_node = |node: &str| match &self.probe.from {
            Vantage::Node(own) | Vantage::Localhost(own) => own == node,
            Vantage::Pod(name) => self.cluster.pod(name).is_some_and(|pod| pod.host_network && pod.node == node),
            Vantage::Host(_) => false,
        };
        match (promised, expected) {
            (Source::Preserved | Source::PreservedOrNode(_), SourceExpectation::Preserved)
            | (Source::Node(_) | Source::PreservedOrNode(_), SourceExpectation::Masqueraded) => true,
            (Source::Preserved, SourceExpectation::Masqueraded) => false,
            (Source::Node(node), SourceExpectation::Preserved) => is_own_node(node),
            (Source::Preserved, SourceExpectation::Address(address)) => self.is_own(address),
            (Source::Node(node), SourceExpectation::Address(address)) => self.is_of_node(node, address),
            (Source::PreservedOrNode(node), SourceExpectation::Address(address)) => {
                self.is_own(address) || self.is_of_node(node, address)
            }
        }
    }

    /// Whether an address is the sender's own.
    fn is_own(&self, address: IpAddr) -> bool {
        match &self.probe.from {
            Vantage::Pod(name) => self.cluster.pod(name).is_some_and(|pod| pod.ips.contains(&address)),
            Vantage::Node(name) | Vantage::Localhost(name) => self.is_of_node(name, address),
            Vantage::Host(name) => {
                self.scenario.hosts.iter().any(|host| host.name == *name && host.ips.contains(&address))
            }
        }
    }

    /// Whether an interface of a node has an address.
    fn is_of_node(&self, node: &str, address: IpAddr) -> bool {
        let label = format!("node/{node}");
        let netns = self.topology.namespaces.iter().find(|netns| netns.name == label);
        netns.is_some_and(|netns| netns.addresses.iter().any(|(_, prefix)| prefix.addr() == address))
    }

    fn allows_reply(&self, endpoint: &PromisedEndpoint, expected: ReplyExpectation) -> bool {
        match (endpoint.reply, expected) {
            (Reply::FromDestination | Reply::Unspecified, ReplyExpectation::FromVip)
            | (Reply::BypassesNode | Reply::Unspecified, ReplyExpectation::Nothing) => true,
            (Reply::FromDestination, ReplyExpectation::From(address)) => address == self.probe.to.address,
            (Reply::BypassesNode, ReplyExpectation::From(address)) => address == endpoint.address.ip(),
            _ => false,
        }
    }
}

/// Whether an author's shares, as decimal numbers, are those of the endpoints.
fn compare_shares(expected: &[(Target, f64)], endpoints: &[PromisedEndpoint]) -> Result<(), String> {
    let unexpected =
        endpoints.iter().find(|endpoint| !expected.iter().any(|(target, _)| is_at(target, endpoint.address)));
    if let Some(endpoint) = unexpected {
        return Err(format!("the author does not expect {}", endpoint.address));
    }
    for (target, share) in expected {
        let promised: f64 = endpoints
            .iter()
            .filter(|endpoint| is_at(target, endpoint.address))
            .map(|one| 1.0 / one.share.one_in as f64)
            .sum();
        if (promised - share).abs() > 1e-6 {
            return Err(format!("the author expects {share} at {}", target.label));
        }
    }
    Ok(())
}

fn is_at(target: &Target, address: SocketAddr) -> bool {
    target.address == address.ip() && target.port.is_none_or(|port| port == address.port())
}
