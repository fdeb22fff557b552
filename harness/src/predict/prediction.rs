//! Predictions: plain values.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use svclab_rules::cluster::Family;
use svclab_rules::walk::{
    Assumptions, Connection, Effect, ForkedSources, Hook, Packet, Path, RejectResponse, Share, Tracking,
};

use crate::scenario::RejectKind;
use crate::text::drop_words;
use crate::topology::NetnsId;

/// All outcomes of a flow's first packet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prediction {
    /// The source address and port that the sender uses.
    pub source: SocketAddr,
    /// The branches; their shares add up to one.
    pub branches: Vec<PredictedBranch>,
}

/// One outcome of a packet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PredictedBranch {
    /// The share of such flows that take this branch.
    pub share: Share,
    /// How it ends.
    pub outcome: PredictedOutcome,
    /// The assumptions that the prediction depends on.
    pub assumptions: Assumptions,
    /// The state that namespaces keep about the packet for later ones: `recent` lists and dynamic sets.
    pub remembered: Vec<(NetnsId, Effect)>,
    /// The connections that namespaces have added for it, after its reply.
    pub connections: Vec<(NetnsId, Connection)>,
    /// The same before its reply, if the reply changed their marks.
    pub unreplied: Option<Vec<(NetnsId, Connection)>>,
    /// The hooks on its path, in order.
    pub stages: Vec<Arc<Stage>>,
    /// The hooks on the return path of the reply or the rejection.
    pub back: Vec<Arc<Stage>>,
    /// The sources of the packet's set that have another outcome.
    pub forked: Vec<ForkedSources>,
}

impl Prediction {
    /// The outcomes with their shares, one line each, `most` at most: branches may differ in their rules alone.
    pub(crate) fn outcome_lines(&self, most: usize) -> Vec<String> {
        let mut outcomes: Vec<(Share, &PredictedOutcome)> = Vec::new();
        for PredictedBranch { share, outcome, .. } in &self.branches {
            match outcomes.iter_mut().find(|(_, known)| *known == outcome) {
                Some((all, _)) => *all = all.plus(*share),
                None => outcomes.push((*share, outcome)),
            }
        }
        let line = |(share, outcome): (Share, &PredictedOutcome)| match share {
            Share::ONE => outcome.to_string(),
            share => format!("{share}: {outcome}"),
        };
        let more = outcomes.len().saturating_sub(most);
        let more = (more > 0).then(|| format!("and {more} more"));
        outcomes.into_iter().take(most).map(line).chain(more).collect()
    }
}

impl PredictedBranch {
    /// Whether packets of a source have another outcome.
    pub(super) fn is_forked(&self, source: u128) -> bool {
        self.forked.iter().any(|forked| forked.has(source))
    }

    /// The branch for a packet from another source that is handled in the same way.
    pub(super) fn with_source(&self, from: IpAddr, to: IpAddr) -> Self {
        let mut own = self.clone();
        if let PredictedOutcome::Delivered { source, .. } = &mut own.outcome
            && source.ip() == from
        {
            source.set_ip(to);
        }
        let all = own.connections.iter_mut().chain(own.unreplied.iter_mut().flatten());
        all.for_each(|(_, connection)| connection.with_source(from, to));
        for (_, effect) in &mut own.remembered {
            let (Effect::Add { address, .. } | Effect::Remove { address, .. }) = effect;
            if *address == from {
                *address = to;
            }
        }
        own
    }
}

/// How a packet's path ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PredictedOutcome {
    /// It is delivered.
    Delivered {
        /// The receiver, as a scenario names it.
        at: String,
        /// The source that the receiver sees. If rules leave the port to chance, it is one of the ports that the kernel may choose.
        source: SocketAddr,
        /// The destination that the receiver sees.
        destination: SocketAddr,
        /// The outcome of the reply.
        reply: PredictedReply,
    },
    /// The sender gets a rejection.
    Rejected {
        /// How.
        kind: RejectKind,
        /// The namespace whose kernel rejects it.
        at: String,
        /// The reason.
        cause: Cause,
    },
    /// It is lost.
    Dropped {
        /// The namespace in which it is lost.
        at: String,
        /// The reason.
        cause: Cause,
        /// The namespace that rejected the packet, if the rejection is what was lost.
        rejected_at: Option<String>,
    },
    /// It cannot be determined.
    Unknown {
        /// The rule that the outcome depends on.
        rule: RulePlace,
        /// Why, as a lower-case fragment.
        why: Arc<str>,
    },
}

impl PredictedOutcome {
    /// The outcome of the reply, if it is delivered.
    pub(crate) fn reply(&self) -> Option<&PredictedReply> {
        match self {
            Self::Delivered { reply, .. } => Some(reply),
            _ => None,
        }
    }
}

impl fmt::Display for PredictedOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivered { at, source, destination, reply } => {
                write!(f, "delivered to {at} at {destination}, from {source}, {reply}")
            }
            Self::Rejected { at, cause, .. } => write!(f, "rejected on {at}: {cause}"),
            Self::Dropped { at, cause, rejected_at: None } => write!(f, "{}: {cause}", drop_words(at)),
            Self::Dropped { at, cause, rejected_at: Some(place) } => {
                write!(f, "rejected on {place}, but the sender does not receive it: {}: {cause}", drop_words(at))
            }
            Self::Unknown { rule, why } => write!(f, "unknown: {why}; {rule}"),
        }
    }
}

/// The outcome of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PredictedReply {
    /// It reaches the sender, from this address.
    From(SocketAddr),
    /// It does not reach the sender.
    Lost {
        /// Where its path ends.
        at: String,
        /// The reason.
        cause: Cause,
    },
    /// It cannot be determined, because of this rule.
    Unknown(RulePlace),
}

impl fmt::Display for PredictedReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::From(address) => write!(f, "reply from {address}"),
            Self::Lost { at, cause } => write!(f, "the reply is lost on {at}: {cause}"),
            Self::Unknown(rule) => write!(f, "the reply is unknown because of {rule}"),
        }
    }
}

/// The place of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RulePlace {
    /// The namespace.
    pub netns: String,
    /// The table.
    pub table: String,
    /// The chain.
    pub chain: String,
    /// The position in the chain, from 1.
    pub number: usize,
    /// The rule as iptables-save writes it; one of nftables after the name of its chain.
    pub text: String,
}

impl fmt::Display for RulePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, table {}: {}", self.netns, self.table, self.text)
    }
}

/// The reason why a packet's path ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Cause {
    /// A rule.
    Rule(RulePlace),
    /// The policy of a chain.
    Policy {
        /// The table.
        table: String,
        /// The chain.
        chain: String,
    },
    /// It is local, but no process listens.
    NoListener,
    /// No route leads to its destination.
    NoRoute,
    /// It is a broadcast, which a process must enable (`SO_BROADCAST`), and only for UDP.
    Broadcast,
    /// A blackhole route.
    Blackhole,
    /// No host on the link has the next hop's address.
    NoNeighbour,
    /// The receiver does not have the destination address.
    NotItsAddress,
    /// A loopback address where it is not allowed (`route_localnet` is off), or the machine's own address as a source.
    Martian,
    /// The source is the receiver's own address: an IPv4 kernel drops the packet as a martian; in IPv6, the answer stays within the machine.
    OwnSource,
    /// `rp_filter`: replies would not leave through the interface by which it arrived.
    ReversePath,
    /// The machine does not forward.
    NotForwarding,
    /// The link of this machine is down.
    LinkDown(String),
    /// The link of this machine randomly loses packets.
    Loss(String),
    /// It is larger than this MTU of the next link. A router reports that; a bridge, which has no address, drops the packet.
    TooBig(u16),
    /// A bridge port does not send a packet back to where it came from (no `hairpin`).
    NoHairpin,
    /// `MASQUERADE` finds no address.
    NoAddress,
    /// Its TTL is exceeded because it loops.
    TooManyHops,
}

impl Cause {
    /// Whether the cause is a rule, not the network or a host's default behaviour.
    pub(crate) fn is_by_rule(&self) -> bool {
        matches!(self, Self::Rule(_) | Self::NoAddress)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rule(rule) => return write!(f, "by table {}: {}", rule.table, rule.text),
            Self::Policy { table, chain } => return write!(f, "by the policy of {chain} in table {table}"),
            Self::LinkDown(owner) => return write!(f, "the link of {owner} is down"),
            Self::Loss(owner) => return write!(f, "the link of {owner} loses it by chance"),
            Self::TooBig(mtu) => return write!(f, "it is larger than the MTU of the next link, {mtu}"),
            Self::NoListener => "no process listens",
            Self::NoRoute => "no route to destination",
            Self::Broadcast => "it is a broadcast address",
            Self::Blackhole => "no host has the address",
            Self::NoNeighbour => "no host on the link has the address",
            Self::NotItsAddress => "the receiver does not own the address",
            Self::Martian => "martian address",
            Self::OwnSource => "the source is the receiver's own address",
            Self::ReversePath => "rp_filter: replies would leave through another interface",
            Self::NotForwarding => "forwarding is disabled",
            Self::NoHairpin => "the bridge's port has no hairpin mode",
            Self::NoAddress => "MASQUERADE: no source address",
            Self::TooManyHops => "it loops until its TTL expires",
        })
    }
}

/// A hook that a packet passed, with the rules that it matched.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stage {
    /// The namespace.
    pub netns: NetnsId,
    /// The packet's family.
    pub family: Family,
    /// The hook.
    pub hook: Hook,
    /// The packet on arrival.
    pub came: Packet,
    /// The packet as it left, or as it was when its path ended at this hook.
    pub left: Packet,
    /// What conntrack found for it on arrival.
    pub tracking: Tracking,
    /// The matched rules.
    pub path: Path,
}

/// The kind of a rejection as its sender sees it.
pub(super) fn kind_of(rejection: RejectResponse, cause: &Cause) -> RejectKind {
    match (rejection, cause) {
        (_, Cause::TooBig(mtu)) => RejectKind::TooBig { mtu: *mtu },
        (RejectResponse::TcpReset, _) => RejectKind::TcpReset,
        (RejectResponse::PortUnreachable, _) => RejectKind::PortUnreachable,
        // A kernel with SCTP replies with ABORT.
        (RejectResponse::ProtocolUnreachable, Cause::NoListener) => RejectKind::Any,
        _ => RejectKind::OtherUnreachable,
    }
}
