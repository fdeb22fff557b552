//! Predicts the outcome of a flow: walks a packet through the plan of a lab and the rules of its namespaces.
//!
//! No kernel is involved. [`Network::of`] reads a plan and its documents once; [`Network::predict`] then follows the first packet of a flow
//! from its sender to its end, through every branch of random choices, and its reply back. The outcome is a [`Prediction`], plain values in
//! `prediction`:
//!
//! - `rules`: the rules of a namespace, in either language; `matched_rule`: the rules that a packet matched;
//! - `machine`: a namespace with its rules, addresses, routes and `settings`;
//! - `routing`: the kernel's decisions between hooks: local delivery or forwarding, source validation, the outgoing interface;
//!   `source_address`: source address selection;
//! - `packet_state`: a packet between two stages, and how its path ends; `traversal`: its path from hook to hook and from namespace to
//!   namespace; `hooks`: the evaluation of rules at a hook; `connections`: conntrack;
//! - `bridge`: bridges that pass packets to iptables; `tunnel`: VXLAN encapsulation and decapsulation;
//! - `replies`: the reply or error that the sender gets;
//! - `senders`: all packets that a sender may send, as sets with one outcome each; `set_queries`: comparisons of such sets, by
//!   `route_table` and `neighbours`; `equivalent_pods`: pods that are handled alike.
//!
//! Not modelled are earlier connections, except those that a scenario lists (`connections`); the contents of `recent` lists and dynamic
//! sets (they start empty); broadcast and multicast; the number of fragments in which a packet arrives; source ports that a kernel chooses
//! at random or because another flow uses them.

mod bridge;
mod bridged;
mod connections;
mod equivalent_pods;
mod hooks;
mod machine;
mod matched_rule;
mod neighbours;
mod packet_state;
mod prediction;
mod replies;
mod route_table;
mod routing;
mod rules;
mod senders;
mod set_queries;
mod settings;
mod source_address;
mod traversal;
mod tunnel;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use svclab_rules::cluster::{Cluster, Family, Node, Protocol};
use svclab_rules::walk::{Connection, Effect, Environment, Field, Narrowing, Packet, Transport, Tuple, address_bits};

use crate::documents::Document;
use crate::scenario::{Probe, Shape, Vantage};
use crate::topology::{Deviation, NetnsId, Sender, Topology};
use crate::wire::Mac;
use connections::Restored;
use machine::Machine;
use packet_state::{Budget, ForkMode, Origin, PacketState, Remembered};
use set_queries::Set;
use traversal::Traversal;

pub(crate) use matched_rule::{MatchedRule, RuleExit};
pub(crate) use prediction::{Cause, PredictedBranch, PredictedOutcome, PredictedReply, Prediction, RulePlace, Stage};
pub(crate) use senders::{Senders, SetTraversal};
pub(crate) use settings::is_predicted;

/// A new flow, as its sender sends it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct NewFlow {
    /// The sender.
    pub from: Vantage,
    /// The source address, if it is none of the sender's own.
    pub source: Option<IpAddr>,
    /// The port that it sends from.
    pub source_port: u16,
    /// The destination.
    pub to: SocketAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// The node that an outside host sends its packet to, regardless of routes.
    pub via: Option<String>,
    /// The size of its packet, and whether it may be fragmented.
    pub shape: Shape,
}

impl NewFlow {
    /// The flow of a probe with this source port.
    pub(crate) fn of(probe: &Probe, source_port: u16) -> Self {
        Self {
            from: probe.from.clone(),
            source: None,
            source_port,
            to: SocketAddr::new(probe.to.address, probe.to.port),
            protocol: probe.protocol,
            via: probe.to.via.clone(),
            shape: probe.shape,
        }
    }
}

impl fmt::Display for NewFlow {
    /// `host/outside > 192.0.2.1:80 tcp via node/worker`, `host/outside (source 203.0.113.7) > 192.0.2.1:80 tcp`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = self.source.map(|source| format!(" (source {source})")).unwrap_or_default();
        write!(f, "{}{source} > {} {}", self.from, self.to, self.protocol)?;
        self.via.as_ref().map_or(Ok(()), |node| write!(f, " via node/{node}"))
    }
}

/// The reason why nothing can be predicted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PredictError {
    /// The kernel would reject the rules.
    #[error("the rules of {netns} cannot be walked: {}", .errors.join("; "))]
    Unsound {
        /// The namespace.
        netns: String,
        /// What is wrong, at least one error.
        errors: Vec<String>,
    },
}

impl PredictError {
    fn unsound(netns: String, errors: &[impl ToString]) -> Self {
        Self::Unsound { netns, errors: errors.iter().map(ToString::to_string).collect() }
    }
}

/// What is known about a packet in addition to what its sender sets.
#[derive(Default)]
struct Circumstances<'a> {
    /// The source ports that namespaces chose where rules leave the choice to chance.
    chosen: Option<&'a HashMap<NetnsId, u16>>,
    /// The state that namespaces keep about earlier packets.
    memory: Option<&'a HashMap<NetnsId, Environment>>,
    /// The set of packets that it represents.
    narrowing: Option<&'a Narrowing>,
    /// The state after earlier packets of its connection, if it is not the first.
    earlier: Option<Earlier<'a>>,
    /// Whether conntrack classifies it as `INVALID`.
    is_invalid: bool,
    /// Sources of the set that are handled differently in one branch.
    fork_mode: ForkMode<'a>,
    /// The size of the packet, and how it is sent.
    shape: Shape,
}

/// The state that earlier packets of a connection have left in namespaces.
#[derive(Clone, Copy)]
struct Earlier<'a> {
    connections: &'a [(NetnsId, Connection)],
    effects: &'a [(NetnsId, Effect)],
    /// Whether a reply has been seen.
    is_replied: bool,
}

impl Earlier<'_> {
    /// The state of a packet that follows the earlier ones.
    fn state(&self, packet: Packet) -> PacketState {
        let mut state = PacketState::new(packet);
        state.known = self.connections.to_vec();
        state.effects = Remembered(self.effects.to_vec());
        state.is_replied = self.is_replied;
        state
    }
}

/// The reason why nothing is predicted although the rules can be walked.
pub(crate) const NO_ADDRESS: &str = "the sender has no source address for this destination";

/// A lab's plan with its rules, prepared for walking packets through it.
#[derive(Clone)]
pub(crate) struct Network<'a> {
    topology: Cow<'a, Topology>,
    cluster: &'a Cluster,
    machines: Vec<Machine>,
    by_mac: HashMap<Mac, (NetnsId, u32)>,
    /// The sorted addresses of pods and outside hosts on a namespace's link, by the networks of that link.
    near: Arc<Near>,
    restored: Restored,
}

/// Address ranges by the networks of a link.
type Near = HashMap<Vec<IpNet>, Vec<(u128, u128)>>;

impl<'a> Network<'a> {
    /// Reads a plan, and the documents of its namespaces.
    ///
    /// # Errors
    ///
    /// The first document that cannot be walked.
    pub(crate) fn of(
        topology: &'a Topology,
        documents: &[Document],
        cluster: &'a Cluster,
    ) -> Result<Self, PredictError> {
        let mut of_netns: HashMap<&str, Vec<&Document>> = HashMap::new();
        documents.iter().for_each(|document| of_netns.entry(&document.netns).or_default().push(document));
        let nodes: HashMap<&str, &Node> = cluster.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        let machines = topology.namespaces.iter().map(|netns| {
            let own = of_netns.get(netns.name.as_str()).map(Vec::as_slice).unwrap_or_default();
            let node = netns.node_name().and_then(|name| nodes.get(name)).copied();
            Machine::of(netns, topology, own, cluster, node)
        });
        let machines = machines.collect::<Result<_, _>>()?;
        let namespaces = topology.namespaces.iter().enumerate();
        let by_mac = namespaces.flat_map(|(id, netns)| {
            netns.interfaces.iter().map(move |interface| (interface.mac, (id, interface.index)))
        });
        let by_mac = by_mac.collect();
        let near = Arc::new(near(topology));
        let (topology, restored) = (Cow::Borrowed(topology), Restored::default());
        Ok(Self { topology, cluster, machines, by_mac, near, restored })
    }

    /// The network without some of its deviations from what Kubernetes expects.
    pub(crate) fn without_deviations<'d>(&self, deviations: impl IntoIterator<Item = &'d Deviation>) -> Self {
        let topology = self.topology.without_deviations(deviations);
        let machines = self.machines.iter().zip(&topology.namespaces);
        let machines = machines.map(|(machine, netns)| machine.with_settings_of(netns, &topology)).collect();
        let (by_mac, near) = (self.by_mac.clone(), Arc::clone(&self.near));
        let restored = self.restored.clone();
        Self { topology: Cow::Owned(topology), cluster: self.cluster, machines, by_mac, near, restored }
    }

    /// Predicts the outcome of a flow's first packet. `None` if the sender is not in the lab or has no source address
    /// for the destination.
    pub(crate) fn predict(&self, sent: &NewFlow) -> Option<Prediction> {
        self.predict_given(sent, None)
    }

    #[cfg(test)]
    /// Predicts a flow for which the source ports that rules leave to chance are known.
    pub(crate) fn predict_where(&self, sent: &NewFlow, chosen: &HashMap<NetnsId, u16>) -> Option<Prediction> {
        self.predict_given(sent, Some(chosen))
    }

    fn predict_given(&self, sent: &NewFlow, chosen: Option<&HashMap<NetnsId, u16>>) -> Option<Prediction> {
        let sender = Sender::find(&sent.from, &self.topology, self.cluster)?;
        let source = self.source_of(sender, sent.to.ip(), None)?;
        let transport = Transport::opening(sent.protocol, sent.source_port, sent.to.port());
        let packet = Packet::new(source, sent.to.ip(), transport);
        let via = sent.via.as_ref().and_then(|node| self.topology.find(&format!("node/{node}")));
        Some(self.follow(sender, via, packet, Circumstances { chosen, shape: sent.shape, ..Circumstances::default() }))
    }

    /// Follows a packet from its sender to its end, and its reply or rejection back.
    fn follow(&self, sender: Sender, via: Option<NetnsId>, packet: Packet, given: Circumstances<'_>) -> Prediction {
        let Circumstances { chosen, memory, narrowing, earlier, fork_mode, is_invalid: _, shape } = given;
        let state = earlier.map_or_else(|| PacketState::new(packet), |earlier| earlier.state(packet)).with_shape(shape);
        let budget = Budget::default();
        let sent = state.packet.tuple();
        let none = HashMap::new();
        let chosen = chosen.unwrap_or(&none);
        let origin = Origin { netns: sender.netns(), sent, budget: &budget, chosen, memory, narrowing, fork_mode };
        let mut traversal = Traversal::there(self, origin);
        match sender {
            Sender::Wire(netns) => {
                let mac = match via {
                    Some(node) => self.topology.first_hop(netns, packet.destination, Some(node)),
                    None => self.next_hop(netns, packet.destination, narrowing),
                };
                traversal.send_from_wire(netns, mac, state);
            }
            Sender::Process(netns) | Sender::Loopback(netns) => traversal.send_from_socket(netns, state),
        }
        let source = SocketAddr::new(packet.source, sent.source_port);
        let branches = traversal.finish().into_iter().flat_map(|end| self.branches(end, origin));
        Prediction { source, branches: branches.collect() }
    }

    /// Follows a segment from the receiver of a flow's packet back to the flow's sender.
    fn follow_reply(
        &self,
        receiver: NetnsId,
        reply: Packet,
        (sender, sent): (Sender, Tuple),
        given: Circumstances<'_>,
    ) -> Vec<PredictedReply> {
        let mut state = given.earlier.map_or_else(|| PacketState::new(reply), |earlier| earlier.state(reply));
        state.is_invalid = given.is_invalid;
        let (budget, chosen) = (Budget::default(), HashMap::new());
        let Circumstances { memory, narrowing, .. } = given;
        let fork_mode = ForkMode::No;
        let origin =
            Origin { netns: sender.netns(), sent, budget: &budget, chosen: &chosen, memory, narrowing, fork_mode };
        self.replies(receiver, state, origin).iter().map(|end| self.reply(end)).collect()
    }

    /// The MAC address to which routes send a packet that is injected on the wire of a namespace.
    fn next_hop(&self, from: NetnsId, to: IpAddr, set: Set<'_>) -> Option<Mac> {
        if let Some(set) = set {
            let on_link = &self.topology.namespaces[from].on_link;
            let of_family = on_link.iter().filter(|net| net.contains(&to) || Family::of(net.addr()) == Family::of(to));
            let ranges = of_family.map(|net| (address_bits(net.network()), address_bits(net.broadcast())));
            let is_on_link = set.ask(Field::Destination, address_bits(to), &ranges.collect());
            if is_on_link {
                let near = self.near.get(on_link).map(Vec::as_slice).unwrap_or_default();
                set.look_up(Field::Destination, address_bits(to), near);
            }
        }
        self.topology.next_hop(from, to)
    }

    /// The text of a rule, by its place; numbers count from 1.
    pub(crate) fn rule_text(
        &self,
        netns: NetnsId,
        family: Family,
        table: &str,
        chain: &str,
        number: usize,
    ) -> Option<String> {
        let rules = self.machines[netns].rules(family)?;
        Some(rules.numbered(table, chain, number)?.print(family, chain))
    }

    /// The environment that the rules of a namespace depend on.
    pub(crate) fn environment(&self, netns: NetnsId) -> &Environment {
        &self.machines[netns].environment
    }

    /// The plan of the network.
    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The source address of a sender's packets.
    fn source_of(&self, sender: Sender, to: IpAddr, set: Set<'_>) -> Option<IpAddr> {
        match sender {
            Sender::Wire(netns) => {
                let own = &self.topology.namespaces[netns].addresses_on_wire;
                own.iter().copied().find(|address| address.is_ipv4() == to.is_ipv4())
            }
            Sender::Loopback(_) => Some(machine::loopback(to.is_ipv4())),
            Sender::Process(netns) => self.machines[netns].source_toward(to, set),
        }
    }
}

/// The addresses of pods and outside hosts on each kind of link.
fn near(topology: &Topology) -> Near {
    let mut all = HashMap::new();
    for netns in topology.namespaces.iter().filter(|netns| !netns.on_link.is_empty()) {
        all.entry(netns.on_link.clone()).or_insert_with(|| {
            let is_near = |address: &&IpAddr| netns.on_link.iter().any(|net| net.contains(*address));
            set_queries::keys(topology.owners.keys().filter(is_near).copied())
        });
    }
    all
}
