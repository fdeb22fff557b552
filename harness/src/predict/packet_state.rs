//! A packet between two hooks, and how its path ends.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use svclab_rules::cluster::{Family, Protocol};
use svclab_rules::walk::{
    Assumptions, Connection, Effect, Effects, Environment, Field, Fork, ForkedSources, Hook, Narrowed, Narrowing,
    Packet, RejectResponse, RuleId, Share, State, Tracked, Tracking, Transport, Tuple,
};

use super::prediction::{Cause, PredictedBranch, PredictedOutcome, RulePlace, Stage};
use super::set_queries::Set;
use crate::scenario::Shape;
use crate::topology::NetnsId;

/// Linux' default time to live.
const TTL: u8 = 64;

/// A packet, and what is known about it at a point of its path.
#[derive(Debug, Clone)]
pub(super) struct PacketState {
    pub(super) share: Share,
    pub(super) packet: Packet,
    pub(super) tracking: Tracking,
    /// Whether OUTPUT changed a field that routing depends on.
    pub(super) reroute: bool,
    /// The connections that namespaces have added to their conntrack tables.
    pub(super) known: Vec<(NetnsId, Connection)>,
    /// Whether its connection has seen a reply.
    pub(super) is_replied: bool,
    /// Whether conntrack classifies it as INVALID, for example because it is outside of the TCP window.
    pub(super) is_invalid: bool,
    /// Whether it goes to one of many equivalent pods, so that other packets of its set go to other pods.
    pub(super) is_at_one_of_many: bool,
    pub(super) ttl: u8,
    /// Its size.
    pub(super) extent: Extent,
    /// The packet encapsulated in this tunnel packet.
    pub(super) carried: Option<Arc<Carried>>,
    /// The packet that this ICMP error quotes, as translated so far.
    pub(super) quoted: Option<Tuple>,
    pub(super) assumptions: Assumptions,
    /// The state that namespaces keep about it for later packets.
    pub(super) effects: Remembered,
    pub(super) trail: PassedHooks,
    /// The sources of its set that are handled differently.
    pub(super) forked: Vec<ForkedSources>,
}

/// The state that namespaces keep about a packet, in order; empty for nearly all packets.
#[derive(Debug, Clone, Default)]
pub(super) struct Remembered(pub(super) Vec<(NetnsId, Effect)>);

impl Remembered {
    /// The effects in a namespace.
    pub(super) fn of(&self, netns: NetnsId) -> Effects {
        self.0.iter().filter(|(own, _)| *own == netns).map(|(_, effect)| effect.clone()).collect()
    }

    /// Replaces the effects in a namespace.
    pub(super) fn with(mut self, netns: NetnsId, effects: Effects) -> Self {
        self.0.retain(|(own, _)| *own != netns);
        self.0.extend(effects.into_iter().map(|effect| (netns, effect)));
        self
    }
}

/// The size of a packet with its IP header; 0 for one that fits every link.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extent {
    /// The size of the reassembled packet.
    pub(super) size: u16,
    /// The size of its largest fragment.
    pub(super) largest: u16,
    /// Whether routers may fragment it.
    pub(super) may_fragment: bool,
}

/// The packet encapsulated in a tunnel packet.
#[derive(Debug, Clone)]
pub(super) struct Carried {
    pub(super) packet: Packet,
    pub(super) ttl: u8,
    pub(super) extent: Extent,
    /// The packet that it quotes, if it is an ICMP error.
    pub(super) quoted: Option<Tuple>,
    /// The packet encapsulated in it, if it is a tunnel packet itself.
    pub(super) inside: Option<Arc<Self>>,
}

impl Carried {
    /// The number of nested packets.
    pub(super) fn depth(&self) -> usize {
        1 + self.inside.as_ref().map_or(0, |inside| inside.depth())
    }
}

/// The hooks passed, last first; branches share their common part.
#[derive(Debug, Clone, Default)]
pub(super) struct PassedHooks(Option<Arc<(Arc<Stage>, PassedHooks)>>);

impl PassedHooks {
    /// Appends a hook.
    pub(super) fn and(self, stage: Stage) -> Self {
        Self(Some(Arc::new((Arc::new(stage), self))))
    }
}

impl PacketState {
    pub(super) fn new(packet: Packet) -> Self {
        Self {
            share: Share::ONE,
            packet,
            tracking: Tracking::Untracked,
            reroute: false,
            known: Vec::new(),
            is_replied: false,
            is_invalid: false,
            is_at_one_of_many: false,
            ttl: TTL,
            extent: Extent::default(),
            carried: None,
            quoted: None,
            assumptions: Assumptions::NONE,
            effects: Remembered::default(),
            trail: PassedHooks::default(),
            forked: Vec::new(),
        }
    }

    /// Sets the size and fragments of the packet.
    pub(super) fn with_shape(self, shape: Shape) -> Self {
        let size = shape.size.unwrap_or(0);
        let largest = shape.largest_fragment(self.packet.destination).unwrap_or(size);
        Self { extent: Extent { size, largest, may_fragment: shape.may_fragment }, ..self }
    }

    /// The hooks passed, in order.
    pub(super) fn stages(&self) -> Vec<Arc<Stage>> {
        let mut stages = Vec::new();
        let mut rest = &self.trail;
        while let PassedHooks(Some(last)) = rest {
            stages.push(Arc::clone(&last.0));
            rest = &last.1;
        }
        stages.reverse();
        stages
    }

    /// The last hook passed.
    pub(super) fn last_stage(&self) -> Option<&Stage> {
        self.trail.0.as_ref().map(|last| &*last.0)
    }

    /// The number of hooks that it has passed.
    pub(super) fn passed(&self) -> usize {
        std::iter::successors(self.trail.0.as_deref(), |(_, rest)| rest.0.as_deref()).count()
    }

    /// The branch of a packet that ends with this outcome.
    pub(super) fn branch(&self, outcome: PredictedOutcome) -> PredictedBranch {
        let (share, assumptions) = (self.share, self.assumptions);
        let remembered = self.effects.0.clone();
        let connections = self.known.clone();
        PredictedBranch {
            share,
            outcome,
            assumptions,
            remembered,
            connections,
            unreplied: None,
            stages: self.stages(),
            back: Vec::new(),
            forked: self.forked.clone(),
        }
    }

    /// Adds the end of its reply or rejection.
    pub(super) fn branch_with(&self, returned: &End, outcome: PredictedOutcome) -> PredictedBranch {
        let share = self.share.within(returned.state.share);
        let (back, remembered) = (returned.state.stages(), returned.state.effects.0.clone());
        let branch = self.branch(outcome);
        let marks = |known: &[(NetnsId, Connection)]| known.iter().map(|(_, one)| one.mark).collect::<Vec<_>>();
        let connections = returned.state.known.clone();
        let unreplied = (marks(&connections) != marks(&branch.connections)).then_some(branch.connections);
        let assumptions = branch.assumptions.and(returned.state.assumptions);
        PredictedBranch { share, assumptions, back, remembered, connections, unreplied, ..branch }
    }

    /// Marks it as an ICMP error about a packet.
    pub(super) fn about(self, quoted: Tuple) -> Self {
        Self { quoted: Some(quoted), ..self }
    }

    /// Restarts the state for a new packet, such as the outer packet of a tunnel.
    pub(super) fn restart(&mut self, packet: Packet) {
        (self.packet, self.ttl, self.tracking) = (packet, TTL, Tracking::Untracked);
    }

    /// The cost of a hook, charged to the [`Budget`].
    fn cost(&self) -> usize {
        1 + usize::from(TTL - self.ttl)
    }

    /// Whether its connection is already attached, so that conntrack does no lookup.
    pub(super) fn is_attached(&self) -> bool {
        matches!(self.tracking, Tracking::Tracked(Tracked { attached: true, .. }))
    }

    /// Confirms its connection in a machine's conntrack table, after the machine's last hook.
    pub(super) fn enter_in_table(&mut self, netns: NetnsId) {
        if self.quoted.is_some() {
            // The quoted packet is translated back along with the error.
            self.quoted = self.tracking.connection().map(|connection| connection.original).or(self.quoted);
            return;
        }
        // A rejection does not confirm the connection that it belongs to.
        let is_new = !matches!(self.tracking, Tracking::Tracked(Tracked { state: State::Related, .. }));
        if let Some(connection) = self.tracking.connection().filter(|_| is_new) {
            let mut known = self.known.iter_mut();
            match known.find(|(of, known)| *of == netns && known.original == connection.original) {
                Some((_, known)) => *known = *connection,
                None => self.known.push((netns, *connection)),
            }
        }
    }

    /// Its protocol, if it is one with ports.
    pub(super) fn protocol(&self, set: Set<'_>) -> Option<Protocol> {
        let number = u128::from(self.packet.transport.protocol());
        if let Some(set) = set.filter(|set| set.is_open(Field::Protocol, number)) {
            let known = [6, 17, 132].contains(&number);
            let numbers = if known { vec![(number, number)] } else { vec![(6, 6), (17, 17), (132, 132)] };
            set.ask(Field::Protocol, number, &numbers.into_iter().collect());
        }
        match self.packet.transport {
            Transport::Tcp { .. } => Some(Protocol::Tcp),
            Transport::Udp { .. } => Some(Protocol::Udp),
            Transport::Sctp { .. } => Some(Protocol::Sctp),
            Transport::Icmp { .. } | Transport::Other(_) => None,
        }
    }

    pub(super) fn source(&self) -> SocketAddr {
        SocketAddr::new(self.packet.source, self.packet.tuple().source_port)
    }

    pub(super) fn destination(&self) -> SocketAddr {
        SocketAddr::new(self.packet.destination, self.packet.tuple().destination_port)
    }
}

/// The end of a path.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) state: PacketState,
    pub(super) how: Ended,
}

/// How a path ends.
#[derive(Debug, Clone)]
pub(super) enum Ended {
    /// It is received in this namespace by this receiver.
    Received(NetnsId, String),
    /// A reply has reached the sender.
    Returned,
    Rejected(NetnsId, RejectResponse, Cause),
    Dropped(NetnsId, Cause),
    /// The kernel does not send a process's packet.
    Unsent(NetnsId, Cause),
    Unknown(RulePlace, Arc<str>),
}

/// The origin of a flow: the sender's namespace, and its packet as it was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'b> {
    pub(super) netns: NetnsId,
    pub(super) sent: Tuple,
    pub(super) budget: &'b Budget,
    /// The known source ports, where rules leave the choice to chance.
    pub(super) chosen: &'b HashMap<NetnsId, u16>,
    /// The state that namespaces keep about earlier packets, if there is any.
    pub(super) memory: Option<&'b HashMap<NetnsId, Environment>>,
    /// The set of packets that the flow's packet represents.
    pub(super) narrowing: Option<&'b Narrowing>,
    /// Sources of the set that are handled differently in one branch.
    pub(super) fork_mode: ForkMode<'b>,
}

/// How a walk handles sources that have a different outcome in one branch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum ForkMode<'b> {
    /// They are left to another walk.
    #[default]
    No,
    /// They are forked off and recorded here.
    Record(&'b RefCell<Vec<ForkPoint>>),
    /// The packet has such a source, and is followed from these places on.
    Resume(&'b [ForkPoint]),
}

/// A place where sources of a packet's set were forked off.
#[derive(Debug, Clone)]
pub(crate) struct ForkPoint {
    pub(super) netns: NetnsId,
    pub(super) hook: Hook,
    /// The number of hooks that it had passed.
    pub(super) passed: usize,
    pub(super) fork: Fork<Narrowed>,
}

impl Origin<'_> {
    /// The address and port that the sender sent to.
    pub(super) fn asked(&self) -> SocketAddr {
        SocketAddr::new(self.sent.destination, self.sent.destination_port)
    }
}

/// The maximum cost of all branches of a packet and its replies together. A hook costs one, plus one for each router that the branch has
/// passed, since the path so far is kept. This suffices for the paths to thousands of endpoints, or for some thousand hooks of a loop with
/// a random decision in each round, which doubles the number of paths each time.
const MAX: usize = 1 << 17;

/// The maximum number of branches that random choices after the first one may add. A service's endpoint is chosen at one hook; if each of
/// thousands of branches, or its reply, may also be dropped at random, that adds one for each. If all hooks choose at random, each
/// multiplies the branches.
const MAX_MORE: usize = 1 << 12;

/// The remaining budget for following a flow.
#[derive(Debug)]
pub(super) struct Budget {
    left: Cell<usize>,
    /// The number of branches that may still be added; unlimited before the first random choice.
    more: Cell<Option<usize>>,
    /// The last rule that chose at random.
    chance: Cell<Option<RuleOf>>,
}

/// A rule of a namespace for a family.
type RuleOf = (NetnsId, Family, RuleId);

impl Default for Budget {
    fn default() -> Self {
        Self { left: Cell::new(MAX), more: Cell::new(None), chance: Cell::default() }
    }
}

impl Budget {
    /// Charges for a hook of a branch. If the budget is used up, returns the last rule that chose at random, because of which the outcome
    /// is unknown.
    pub(super) fn spend(&self, state: &PacketState) -> Option<RuleOf> {
        if self.left.get() == 0 {
            return self.chance.get();
        }
        self.left.set(self.left.get().saturating_sub(state.cost()));
        None
    }

    /// Charges for a random choice that leaves this many branches, the first of them by this rule.
    pub(super) fn split(&self, state: &PacketState, branches: usize, rule: Option<RuleOf>) {
        let more = self.more.get().map_or(MAX_MORE, |more| more.saturating_sub(branches - 1));
        self.more.set(Some(more));
        let left = self.left.get().saturating_sub(branches * state.cost());
        self.left.set(if more == 0 { 0 } else { left });
        if rule.is_some() {
            self.chance.set(rule);
        }
    }
}
