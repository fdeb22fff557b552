//! Groups of senders that differ only in the source address of their packets.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use svclab_rules::cluster::{Family, ObjectName, Protocol};
use svclab_rules::walk::{
    Effect, Environment, Field, Interface, Intervals, Narrowing, Packet, Region, Transport, address_bits,
};

use super::packet_state::{ForkMode, ForkPoint};
use super::set_queries::keys;
use super::{Circumstances, Earlier, Network, PredictedBranch, PredictedOutcome, PredictedReply, Prediction};
use crate::scenario::Vantage;
use crate::topology::{ETH0, InterfaceKind, NetnsId, Role, Sender, UNDERLAY, pod_label};

/// The source port of packets that represent a set.
const SOURCE_PORT: u16 = 33_000;

/// Senders of one family that send in the same way.
#[derive(Debug, Clone)]
pub(crate) struct Senders {
    pub(crate) family: Family,
    /// The node that outside hosts send their packets to, regardless of routes.
    pub(crate) via: Option<String>,
    via_netns: Option<NetnsId>,
    members: Vec<Member>,
    /// The positions of members by their sources.
    by_source: HashMap<IpAddr, usize>,
    way: SenderKind,
    /// The interfaces of their node by which packets arrive, with the sources of these packets.
    inputs: Arc<[(u128, u128)]>,
}

/// One of the senders.
#[derive(Debug, Clone)]
struct Member {
    vantage: Vantage,
    sender: Sender,
    /// The address that it sends from; `None` if its kernel chooses one.
    source: Option<IpAddr>,
    input: Option<Interface>,
}

/// How packets are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SenderKind {
    /// Pods, over their interfaces to this namespace.
    Pods(NetnsId),
    /// Outside hosts on the underlay, with any address.
    Outside,
    /// A process, with an address that its kernel chooses, or with the loopback address if true.
    Process(NetnsId, bool),
}

impl Senders {
    /// Groups the senders at some vantage points by how they send. Outside hosts send by routes, and over each node.
    pub(crate) fn of(network: &Network<'_>, vantages: &[Vantage]) -> Vec<Self> {
        let mut groups: BTreeMap<(Family, SenderKind), Vec<Member>> = BTreeMap::new();
        let places = Places::of(network);
        for vantage in vantages {
            for (family, way, member) in places.members(vantage) {
                groups.entry((family, way)).or_default().push(member);
            }
        }
        let namespaces = network.topology.namespaces.iter().enumerate();
        let nodes = namespaces.filter_map(|(id, netns)| Some((netns.node_name()?.to_owned(), id)));
        let nodes: Vec<(String, NetnsId)> = nodes.collect();
        let mut all = Vec::new();
        for ((family, way), mut members) in groups {
            if !matches!(way, SenderKind::Pods(_) | SenderKind::Outside) {
                // Host-network pods are processes on their node.
                members.truncate(1);
            }
            let inputs = members
                .iter()
                .filter_map(|member| Some((Interface::number(Some(member.input?)), address_bits(member.source?))));
            let inputs: Arc<[(u128, u128)]> = inputs.collect();
            let sources = members.iter().enumerate().filter_map(|(at, member)| Some((member.source?, at)));
            let by_source: HashMap<IpAddr, usize> = sources.collect();
            let of = |via: Option<(String, NetnsId)>| Self {
                family,
                via_netns: via.as_ref().map(|(_, netns)| *netns),
                via: via.map(|(node, _)| node),
                members: members.clone(),
                by_source: by_source.clone(),
                way,
                inputs: Arc::clone(&inputs),
            };
            all.push(of(None));
            if way == SenderKind::Outside {
                all.extend(nodes.iter().cloned().map(Some).map(of));
            }
        }
        all
    }

    /// The key by which to find the same senders in another plan of the same cluster.
    pub(crate) fn key(&self, network: &Network<'_>) -> String {
        let netns = |id: NetnsId| network.topology.namespaces[id].name.as_str();
        let way = match self.way {
            SenderKind::Pods(node) => format!("pods {}", netns(node)),
            SenderKind::Outside => "outside".to_owned(),
            SenderKind::Process(machine, is_loopback) => format!("process {} {is_loopback}", netns(machine)),
        };
        format!("{} {way} {:?}", self.family, self.via)
    }

    /// All first packets that they may send, except broadcast, multicast and destinations that no machine can have.
    pub(crate) fn packets(&self, network: &Network<'_>) -> Region {
        let nodes = network.topology.node_addresses();
        let nodes = || nodes.values().flatten().map(|address| (address_bits(*address), address_bits(*address)));
        let to = unicast(self.family).without(&network_addresses(network));
        let mut region = Region::all(self.family).with(Field::Destination, to);
        if self.via.is_some() {
            // Packets to a node's own address go to that node, not over another.
            region = region.with(Field::Destination, region[Field::Destination].without(&nodes().collect()));
        }
        match self.way {
            SenderKind::Pods(_) => region.with(Field::Source, self.sources()),
            SenderKind::Outside => {
                let pods = network.cluster.nodes.iter().flat_map(|node| &node.pod_cidrs);
                let pods = pods.chain(&network.cluster.proxy.cluster_cidrs);
                let pods = pods.filter(|range| Family::of(range.addr()) == self.family);
                let pods = pods.map(|range| (address_bits(range.network()), address_bits(range.broadcast())));
                let pods: Intervals = pods.chain(self.pod_addresses(network)).collect();
                // Pods are not reachable from outside, and packets that a host sends to itself do not leave it.
                let to = region[Field::Destination].without(&pods).without(&self.sources());
                region = region.with(Field::Destination, to);
                let services = network.cluster.services.iter().flat_map(|service| {
                    let balancers = service.load_balancer.iter().map(|ingress| &ingress.ip);
                    service.cluster_ips.iter().chain(&service.external_ips).chain(balancers)
                });
                let services = services.map(|address| (address_bits(*address), address_bits(*address)));
                let loopback = super::set_queries::loopback(self.family);
                let taken: Intervals = nodes().chain(pods.ranges().iter().copied()).chain(services).collect();
                let own = network_addresses(network);
                let sources = unicast(self.family).without(&taken).without(&loopback).without(&own);
                region.with(Field::Source, sources.without(&self.bridged(network)))
            }
            SenderKind::Process(..) => region,
        }
    }

    /// The networks of bridges of nodes, without those in which an outside host or a node has its address: a rule of a VPN may name the
    /// network of the nodes.
    fn bridged(&self, network: &Network<'_>) -> Intervals {
        let ranges = network.machines.iter().flat_map(|machine| &machine.bridged);
        let nodes = network.topology.node_addresses();
        let known = || self.by_source.keys().chain(nodes.values().flatten());
        let has_none = |range: &&IpNet| !known().any(|address| range.contains(address));
        let own = ranges.filter(|range| Family::of(range.addr()) == self.family).filter(has_none);
        own.map(|range| (address_bits(range.network()), address_bits(range.broadcast()))).collect()
    }

    /// The addresses of pods, which may be outside of the ranges.
    fn pod_addresses<'n>(&self, network: &'n Network<'_>) -> impl Iterator<Item = (u128, u128)> + use<'n> {
        let family = self.family;
        let is_pod = |netns: NetnsId| matches!(network.topology.namespaces[netns].role, Role::Pod | Role::RoutingPod);
        let owners = network.topology.owners.iter();
        let pods = owners.filter(move |(address, netns)| Family::of(**address) == family && is_pod(**netns));
        pods.map(|(address, _)| (address_bits(*address), address_bits(*address)))
    }

    fn sources(&self) -> Intervals {
        self.members.iter().filter_map(|one| one.source).map(|one| (address_bits(one), address_bits(one))).collect()
    }

    /// The preferred form of a packet that represents a set.
    pub(crate) fn like(&self) -> Packet {
        let none: IpAddr = match self.family {
            Family::Ipv4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::Ipv6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        let source = self.members.first().and_then(|member| member.source).unwrap_or(none);
        Packet::new(source, none, Transport::opening(Protocol::Tcp, SOURCE_PORT, 1))
    }

    /// The sender of a packet.
    fn member(&self, packet: &Packet) -> Option<&Member> {
        self.by_source.get(&packet.source).map(|at| &self.members[*at]).or(self.members.first())
    }

    /// The vantage point that sends a packet; if no host has the packet's source address, one that can stand in.
    pub(crate) fn vantage(&self, packet: &Packet) -> Option<&Vantage> {
        self.member(packet).map(|member| &member.vantage)
    }

    /// Whether a machine has a packet's source.
    pub(crate) fn has(&self, packet: &Packet) -> bool {
        self.way != SenderKind::Outside || self.by_source.contains_key(&packet.source)
    }

    /// Whether they are pods, which reach their own addresses without using the network.
    pub(crate) fn are_pods(&self) -> bool {
        matches!(self.way, SenderKind::Pods(_))
    }

    /// Whether each sends from an address of its own.
    pub(crate) fn have_sources(&self) -> bool {
        !matches!(self.way, SenderKind::Process(..))
    }

    /// Whether they are outside of the cluster.
    pub(crate) fn is_outside(&self) -> bool {
        self.way == SenderKind::Outside
    }
}

/// The state kept for later packets, by namespace.
type Memory = HashMap<NetnsId, Environment>;

impl Network<'_> {
    /// Predicts the outcome of a set of packets from one of them: the set is narrowed to packets with the same outcome. Also returns the
    /// packet with its actual source; `None` if there is no usable source address.
    pub(crate) fn predict_set(
        &self,
        senders: &Senders,
        witness: &Packet,
        narrowing: Option<&Narrowing>,
        memory: Option<&Memory>,
    ) -> Option<(Packet, Prediction)> {
        self.predict_of_set(senders, witness, narrowing, (memory, ForkMode::No))
    }

    /// Like [`Self::predict_set`], but sources that differ only in one branch of a random choice are forked off. They stay in the set, and
    /// [`SetTraversal::predict_source`] returns the outcome of each.
    pub(crate) fn predict_forked(
        &self,
        senders: &Senders,
        witness: &Packet,
        narrowing: &Narrowing,
    ) -> Option<SetTraversal> {
        let places = RefCell::default();
        let given = (None, ForkMode::Record(&places));
        let (packet, prediction) = self.predict_of_set(senders, witness, Some(narrowing), given)?;
        Some(SetTraversal { packet, prediction, places: places.into_inner() })
    }

    fn predict_of_set(
        &self,
        senders: &Senders,
        witness: &Packet,
        narrowing: Option<&Narrowing>,
        (memory, fork_mode): (Option<&Memory>, ForkMode<'_>),
    ) -> Option<(Packet, Prediction)> {
        let member = senders.member(witness)?;
        let mut packet = *witness;
        if let SenderKind::Process(netns, _) = senders.way {
            if let Some(narrowing) = narrowing {
                narrowing.choose_source();
                // A process that sends to its own machine uses the destination address as its source.
                let own = self.topology.namespaces[netns].addresses.iter().map(|(_, own)| own.addr());
                let own = keys(own.filter(|address| Family::of(*address) == senders.family));
                narrowing.look_up(Field::Destination, address_bits(packet.destination), &own);
            }
            packet.source = self.source_of(member.sender, packet.destination, narrowing)?;
        }
        if let Some((narrowing, input)) = narrowing.zip(member.input) {
            narrowing.name_interfaces(Field::Source, input, &senders.inputs);
        }
        let given = Circumstances { memory, narrowing, fork_mode, ..Circumstances::default() };
        Some((packet, self.follow(member.sender, senders.via_netns, packet, given)))
    }

    /// Returns the state that namespaces have this many seconds after these effects.
    pub(crate) fn memory<'e>(&self, effects: impl IntoIterator<Item = &'e (NetnsId, Effect)>, age: u32) -> Memory {
        let mut memory = Memory::new();
        for (netns, effect) in effects {
            let environment = memory.entry(*netns).or_insert_with(|| self.environment(*netns).clone());
            match effect {
                Effect::Add { list, address } => environment.recent.add(list, *address, age),
                Effect::Remove { list, address } => environment.recent.remove(list, *address),
            }
        }
        memory
    }

    /// Predicts another first packet, this many seconds after the one that a branch of a prediction represents.
    pub(crate) fn predict_again(
        &self,
        senders: &Senders,
        packet: &Packet,
        first: &PredictedBranch,
        age: u32,
    ) -> Option<Prediction> {
        let memory = self.memory(&first.remembered, age);
        self.predict_set(senders, packet, None, Some(&memory)).map(|(_, prediction)| prediction)
    }

    /// Predicts a later packet from the sender of the packet that a branch of a prediction represents, perhaps with other TCP flags.
    /// `is_replied` states whether a reply to the earlier one has been seen.
    pub(crate) fn predict_later(
        &self,
        senders: &Senders,
        packet: &Packet,
        (first, is_replied): (&PredictedBranch, bool),
        narrowing: Option<&Narrowing>,
    ) -> Option<Prediction> {
        let member = senders.member(packet)?;
        let unreplied = first.unreplied.as_ref().filter(|_| !is_replied);
        let connections = unreplied.unwrap_or(&first.connections);
        let earlier = Some(Earlier { connections, effects: &first.remembered, is_replied });
        let given = Circumstances { earlier, narrowing, ..Circumstances::default() };
        Some(self.follow(member.sender, senders.via_netns, *packet, given))
    }

    /// Predicts a segment that conntrack classifies as INVALID, for example because it is outside of the TCP window, from the receiver of
    /// the packet that a branch of a prediction represents. Empty if that branch does not end at a receiver.
    pub(crate) fn predict_invalid_reply(
        &self,
        senders: &Senders,
        packet: &Packet,
        first: &PredictedBranch,
        narrowing: Option<&Narrowing>,
    ) -> Vec<PredictedReply> {
        let PredictedOutcome::Delivered { source, destination, .. } = &first.outcome else { return Vec::new() };
        let Some(member) = senders.member(packet) else { return Vec::new() };
        // The receiver is a process on the last machine that the packet reached.
        let owner = self.topology.owners.get(&destination.ip()).copied();
        let receiver = owner.or_else(|| first.stages.last().map(|stage| stage.netns));
        let Some(receiver) = receiver else { return Vec::new() };
        let (source_port, destination_port) = (destination.port(), source.port());
        let flags = Transport::ACK;
        let transport = Transport::Tcp { source: source_port, destination: destination_port, flags };
        let reply = Packet::new(destination.ip(), source.ip(), transport);
        let earlier = Earlier { connections: &first.connections, effects: &first.remembered, is_replied: true };
        let given = Circumstances { earlier: Some(earlier), is_invalid: true, narrowing, ..Circumstances::default() };
        self.follow_reply(receiver, reply, (member.sender, packet.tuple()), given)
    }
}

/// The prediction for a set of packets, except for sources that were forked off.
pub(crate) struct SetTraversal {
    /// One of the packets.
    pub(crate) packet: Packet,
    /// Its prediction. Branches list the sources that have another outcome.
    pub(crate) prediction: Prediction,
    places: Vec<ForkPoint>,
}

impl SetTraversal {
    /// Predicts the packet of a source that was forked off: it is followed separately from the place where it was forked off; in all other
    /// branches it is handled like the packet of the set.
    pub(crate) fn predict_source(
        &self,
        network: &Network<'_>,
        senders: &Senders,
        packet: &Packet,
        narrowing: &Narrowing,
    ) -> Option<Prediction> {
        let own = self.own_branches(network, senders, packet, narrowing)?;
        Some(self.whole(packet.source, own))
    }

    /// Predicts only the branches in which the packet's source was forked off.
    pub(crate) fn own_branches(
        &self,
        network: &Network<'_>,
        senders: &Senders,
        packet: &Packet,
        narrowing: &Narrowing,
    ) -> Option<Vec<PredictedBranch>> {
        let source = address_bits(packet.source);
        let here: Vec<ForkPoint> = self.places.iter().filter(|place| place.fork.forked.has(source)).cloned().collect();
        if here.is_empty() {
            return Some(Vec::new());
        }
        let given = (None, ForkMode::Resume(&here));
        network.predict_of_set(senders, packet, Some(narrowing), given).map(|(_, own)| own.branches)
    }

    /// The branches of the set's packet that the packet of a source does not share.
    pub(crate) fn replaced(&self, source: IpAddr) -> impl Iterator<Item = &PredictedBranch> {
        let source = address_bits(source);
        self.prediction.branches.iter().filter(move |branch| branch.is_forked(source))
    }

    /// Returns some branches as the prediction of a source's packet.
    pub(crate) fn part(&self, source: IpAddr, branches: Vec<PredictedBranch>) -> Prediction {
        Prediction { source: SocketAddr::new(source, self.prediction.source.port()), branches }
    }

    /// Returns a source's own branches together with those that it shares.
    pub(crate) fn whole(&self, source: IpAddr, own: Vec<PredictedBranch>) -> Prediction {
        let number = address_bits(source);
        let alike = self.prediction.branches.iter().filter(|branch| !branch.is_forked(number));
        let alike = alike.map(|branch| branch.with_source(self.packet.source, source));
        self.part(source, alike.chain(own).collect())
    }
}

/// The namespaces and pods of a network by their names.
struct Places<'n, 'a> {
    network: &'n Network<'a>,
    namespaces: HashMap<&'n str, NetnsId>,
    hosted: HashMap<&'n ObjectName, &'n str>,
}

impl<'n, 'a> Places<'n, 'a> {
    fn of(network: &'n Network<'a>) -> Self {
        let namespaces = network.topology.namespaces.iter().enumerate().map(|(id, netns)| (netns.name.as_str(), id));
        let hosted = network.cluster.pods.iter().filter(|pod| pod.host_network);
        let hosted = hosted.map(|pod| (&pod.name, pod.node.as_str())).collect();
        Self { network, namespaces: namespaces.collect(), hosted }
    }

    /// Where a vantage point's packets start, as [`Sender::find`] determines it.
    fn sender(&self, vantage: &Vantage) -> Option<Sender> {
        let find = |name: String| self.namespaces.get(name.as_str()).copied();
        match vantage {
            Vantage::Node(node) => find(format!("node/{node}")).map(Sender::Process),
            Vantage::Localhost(node) => find(format!("node/{node}")).map(Sender::Loopback),
            Vantage::Host(host) => find(format!("host/{host}")).map(Sender::Wire),
            Vantage::Pod(name) => match self.hosted.get(name) {
                Some(node) => find(format!("node/{node}")).map(Sender::Process),
                None => {
                    let netns = find(pod_label(name))?;
                    let is_routing = self.network.topology.namespaces[netns].role == Role::RoutingPod;
                    Some(if is_routing { Sender::Process(netns) } else { Sender::Wire(netns) })
                }
            },
        }
    }

    /// The ways in which a vantage point sends, with its addresses.
    fn members(&self, vantage: &Vantage) -> Vec<(Family, SenderKind, Member)> {
        let topology = &self.network.topology;
        let Some(sender) = self.sender(vantage) else { return Vec::new() };
        let member = |source, input| Member { vantage: vantage.clone(), sender, source, input };
        match sender {
            Sender::Wire(netns) => {
                let plan = &topology.namespaces[netns];
                let peer = plan.interface(ETH0).and_then(|eth0| match eth0.kind {
                    InterfaceKind::VethOwner(end) | InterfaceKind::VethPeer(end) => Some(end),
                    InterfaceKind::Bridge | InterfaceKind::Vxlan { .. } => None,
                });
                let Some(peer) = peer else { return Vec::new() };
                let way = if plan.role == Role::Host { SenderKind::Outside } else { SenderKind::Pods(peer.netns) };
                let port = topology.namespaces[peer.netns].interface(peer.index).filter(|_| peer.netns != UNDERLAY);
                let input = port.and_then(|port| Interface::new(&port.name));
                let own = plan.addresses_on_wire.iter();
                own.map(|address| (Family::of(*address), way, member(Some(*address), input))).collect()
            }
            Sender::Process(netns) | Sender::Loopback(netns) => {
                let is_loopback = matches!(sender, Sender::Loopback(_));
                let has = |family: &Family| {
                    let mut own = topology.namespaces[netns].addresses.iter();
                    own.any(|(_, network)| Family::of(network.addr()) == *family)
                };
                let of = |family: Family| (family, SenderKind::Process(netns, is_loopback), member(None, None));
                Family::ALL.into_iter().filter(has).map(of).collect()
            }
        }
    }
}

/// The addresses of the lab's own network: its router, the nodes' ends of links to pods, and routing pods. They do not exist in a real
/// cluster.
fn network_addresses(network: &Network<'_>) -> Intervals {
    let named = network.cluster.nodes.iter().flat_map(|node| node.addresses());
    let named: std::collections::HashSet<IpAddr> = named.collect();
    let kernels = network.topology.namespaces.iter();
    let own = kernels.flat_map(|netns| &netns.addresses).map(|(_, own)| own.addr());
    let own = own.filter(|address| !named.contains(address)).map(address_bits).map(|address| (address, address));
    // The router's address on the link is link-local.
    own.chain([(0xa9fe_0000, 0xa9fe_ffff)]).collect()
}

/// All unicast addresses of a family.
fn unicast(family: Family) -> Intervals {
    match family {
        Family::Ipv4 => {
            // The broadcast address of the loopback network.
            Intervals::between(0x0100_0000, 0xdfff_ffff).without(&Intervals::one(0x7fff_ffff))
        }
        Family::Ipv6 => {
            let link_local = (0xfe80_u128 << 112, (0xfec0_u128 << 112) - 1);
            Intervals::between(1, (0xff00_u128 << 112) - 1).without(&[link_local].into_iter().collect())
        }
    }
}
