//! Kinds of packet outcomes: as values that can be compared, as text, and as codes for programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use svclab_rules::walk::Packet;

use crate::predict::{Cause, PredictedOutcome, PredictedReply, Prediction};
use crate::scenario::RejectKind;

/// The outcome of a packet, whichever endpoint it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PacketOutcome {
    /// There is no usable source address.
    Unsendable,
    /// It is delivered.
    Delivered {
        /// Whether it is delivered to an address or port other than the one it was sent to.
        is_translated: bool,
        /// Whether its source address is not its sender's.
        is_masqueraded: bool,
        /// The outcome of the reply.
        reply: Reply,
    },
    /// It is rejected: its sender receives an error.
    Rejected {
        /// How it is rejected.
        how: Rejection,
        /// Whether the only reason is that no process listens.
        has_no_listener: bool,
    },
    /// It is dropped on a node.
    DroppedOnNode,
    /// It is dropped in a pod.
    DroppedOnPod,
    /// It is dropped on another machine.
    DroppedOnHost,
    /// It leaves the cluster's machines for an address that no machine has.
    LostOnUnderlay,
    /// A firewall of the node drops it.
    DroppedByFirewall,
    /// A hook does not drop it.
    PassedOn,
    /// A rule that is not modelled decides.
    Unknown,
    /// An open connection continues.
    GoesOn,
    /// A client's later connection goes to any endpoint.
    Anywhere,
    /// A client's later connection goes to the endpoint of the first for this many seconds.
    Returns(u32),
    /// The same for a longer time.
    ReturnsForMoreThan(u32),
}

/// The outcome of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reply {
    /// It comes from the address that the packet was sent to.
    AsAsked,
    /// It comes from another address.
    FromElsewhere,
    /// It does not reach the sender.
    Lost,
}

/// How a packet is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Rejection {
    /// With a TCP reset.
    TcpReset,
    /// With ICMP port unreachable.
    PortUnreachable,
    /// In another way.
    Other,
}

impl PacketOutcome {
    fn of(outcome: &PredictedOutcome, prediction: &Prediction, packet: &Packet) -> Self {
        match outcome {
            PredictedOutcome::Delivered { source, destination, reply, .. } => {
                let port = packet.transport.ports().map_or(0, |(_, port)| port);
                let asked = SocketAddr::new(packet.destination, port);
                // In protocols without ports, the port is an identifier that rules do not translate.
                let has_ports = packet.transport.ports().is_some();
                let is_asked = |to: &SocketAddr| if has_ports { *to == asked } else { to.ip() == asked.ip() };
                let reply = match reply {
                    PredictedReply::From(address) if is_asked(address) => Reply::AsAsked,
                    PredictedReply::From(_) => Reply::FromElsewhere,
                    PredictedReply::Lost { .. } | PredictedReply::Unknown(_) => Reply::Lost,
                };
                let is_masqueraded = source.ip() != prediction.source.ip();
                Self::Delivered { is_translated: !is_asked(destination), is_masqueraded, reply }
            }
            PredictedOutcome::Rejected { kind, cause, .. } => {
                let how = match kind {
                    RejectKind::TcpReset => Rejection::TcpReset,
                    RejectKind::PortUnreachable => Rejection::PortUnreachable,
                    _ => Rejection::Other,
                };
                Self::Rejected { how, has_no_listener: *cause == Cause::NoListener }
            }
            PredictedOutcome::Dropped { at, .. } => match at.split_once('/') {
                Some(("node", _)) => Self::DroppedOnNode,
                Some(("pod", _)) => Self::DroppedOnPod,
                Some(_) => Self::DroppedOnHost,
                None => Self::LostOnUnderlay,
            },
            PredictedOutcome::Unknown { .. } => Self::Unknown,
        }
    }

    /// Returns whether a packet is delivered and its reply returns to the sender.
    pub(super) fn is_delivered(self) -> bool {
        matches!(self, Self::GoesOn | Self::Delivered { reply: Reply::AsAsked | Reply::FromElsewhere, .. })
    }

    /// Returns the unique, stable code for programs.
    fn code(self) -> String {
        match self {
            Self::Unsendable => "unsendable".to_owned(),
            Self::Delivered { is_translated, is_masqueraded, reply } => {
                let untranslated = if is_translated { "" } else { "-untranslated" };
                let masqueraded = if is_masqueraded { "-masqueraded" } else { "" };
                let reply = match reply {
                    Reply::AsAsked => "",
                    Reply::FromElsewhere => "-replies-from-another-address",
                    Reply::Lost => "-replies-lost",
                };
                format!("delivered{untranslated}{masqueraded}{reply}")
            }
            Self::Rejected { how, has_no_listener } => {
                let how = match how {
                    Rejection::TcpReset => "-tcp-reset",
                    Rejection::PortUnreachable => "-port-unreachable",
                    Rejection::Other => "",
                };
                format!("rejected{how}{}", if has_no_listener { "-no-listener" } else { "" })
            }
            Self::DroppedOnNode => "dropped".to_owned(),
            Self::DroppedOnPod => "dropped-on-a-pod".to_owned(),
            Self::DroppedOnHost => "dropped-on-a-host".to_owned(),
            Self::LostOnUnderlay => "lost-on-the-underlay".to_owned(),
            Self::DroppedByFirewall => "dropped-by-the-firewall".to_owned(),
            Self::PassedOn => "passed-on".to_owned(),
            Self::Unknown => "unknown".to_owned(),
            Self::GoesOn => "goes-on".to_owned(),
            Self::Anywhere => "any-endpoint".to_owned(),
            Self::Returns(seconds) => format!("same-endpoint-{seconds}s"),
            Self::ReturnsForMoreThan(seconds) => format!("same-endpoint-over-{seconds}s"),
        }
    }
}

impl fmt::Display for PacketOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unsendable => f.write_str("cannot be sent"),
            Self::Delivered { is_translated, is_masqueraded, reply } => {
                f.write_str(if is_translated { "delivered to an endpoint" } else { "delivered untranslated" })?;
                f.write_str(if is_masqueraded { ", masqueraded" } else { "" })?;
                f.write_str(match reply {
                    Reply::AsAsked => "",
                    Reply::FromElsewhere => ", replies from another address",
                    Reply::Lost => ", replies lost",
                })
            }
            Self::Rejected { how, has_no_listener } => {
                f.write_str(match how {
                    Rejection::TcpReset => "rejected with a TCP reset",
                    Rejection::PortUnreachable => "rejected with ICMP port unreachable",
                    Rejection::Other => "rejected",
                })?;
                f.write_str(if has_no_listener { " (no listener)" } else { "" })
            }
            Self::DroppedOnNode => f.write_str("dropped on the node"),
            Self::DroppedOnPod => f.write_str("dropped in a pod"),
            Self::DroppedOnHost => f.write_str("dropped on a host"),
            Self::LostOnUnderlay => f.write_str("lost on the underlay"),
            Self::DroppedByFirewall => f.write_str("dropped by the firewall"),
            Self::PassedOn => f.write_str("passed on"),
            Self::Unknown => f.write_str("unknown"),
            Self::GoesOn => f.write_str("go on"),
            Self::Anywhere => f.write_str("each goes to any endpoint"),
            Self::Returns(seconds) => write!(f, "go to the endpoint of the first for {seconds} s"),
            Self::ReturnsForMoreThan(seconds) => {
                write!(f, "go to the endpoint of the first for more than {seconds} s")
            }
        }
    }
}

/// All possible outcomes of a packet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct PacketOutcomes(BTreeSet<PacketOutcome>);

impl PacketOutcomes {
    /// Returns the possible outcomes of a packet, whichever endpoint it gets.
    pub(super) fn of(prediction: Option<&Prediction>, packet: &Packet) -> Self {
        let Some(prediction) = prediction else { return PacketOutcome::Unsendable.into() };
        Self(prediction.branches.iter().map(|branch| PacketOutcome::of(&branch.outcome, prediction, packet)).collect())
    }

    /// Returns how many of the packets are delivered with their replies.
    pub(super) fn delivered(&self) -> Delivered {
        let number = self.0.iter().filter(|fate| fate.is_delivered()).count();
        match number {
            0 => Delivered::None,
            _ if number < self.0.len() => Delivered::Some,
            _ => Delivered::All,
        }
    }

    /// Returns whether any outcome is of a kind.
    pub(super) fn any(&self, kind: impl Fn(PacketOutcome) -> bool) -> bool {
        self.0.iter().any(|fate| kind(*fate))
    }

    /// Returns the code for programs: `delivered+dropped`.
    pub(super) fn code(&self) -> String {
        self.0.iter().map(|fate| fate.code()).collect::<Vec<_>>().join("+")
    }
}

/// How many of several packets are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Delivered {
    None,
    Some,
    All,
}

impl From<PacketOutcome> for PacketOutcomes {
    fn from(fate: PacketOutcome) -> Self {
        Self(BTreeSet::from([fate]))
    }
}

impl fmt::Display for PacketOutcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&words.join(", or "))
    }
}

/// What differs between packets with the same fates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Aspect {
    /// Some of the endpoints no longer get packets.
    FewerEndpoints,
    /// Endpoints are added.
    MoreEndpoints,
    /// Some endpoints replace others.
    OtherEndpoints,
    /// The same endpoints get other shares.
    Shares,
    /// The endpoint sees another source address.
    Source,
    /// The source port is kept on one side only.
    SourcePort,
    /// The reply comes from another address.
    Reply,
    /// Another machine delivers, rejects or drops.
    Place,
}

/// The possible outcomes of a packet at one endpoint or machine.
type At = BTreeMap<String, f64>;

impl Aspect {
    /// Returns the stable code for programs.
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::FewerEndpoints => "fewer-endpoints",
            Self::MoreEndpoints => "more-endpoints",
            Self::OtherEndpoints => "other-endpoints",
            Self::Shares => "other-shares",
            Self::Source => "another-source-address",
            Self::SourcePort => "another-source-port",
            Self::Reply => "another-reply-address",
            Self::Place => "another-machine",
        }
    }

    /// Returns what differs between two unequal predictions of a packet that have the same fates.
    pub(super) fn between(found: &[Option<Prediction>; 2], packet: &Packet, tolerance: f64) -> BTreeSet<Self> {
        let [Some(before), Some(after)] = found else { return BTreeSet::new() };
        let each = |words: &dyn Fn(&PredictedOutcome) -> Option<String>| {
            [before, after].map(|one| {
                let mut all = At::new();
                for branch in &one.branches {
                    if let Some(words) = words(&branch.outcome) {
                        *all.entry(words).or_default() += branch.share.to_f64();
                    }
                }
                all
            })
        };
        let [was, is] = each(&|outcome| match outcome {
            PredictedOutcome::Delivered { destination, .. } => Some(destination.to_string()),
            _ => None,
        });
        let (lost, added) = (was.keys().any(|to| !is.contains_key(to)), is.keys().any(|to| !was.contains_key(to)));
        let mut found: BTreeSet<Self> = match (lost, added) {
            (true, false) => Some(Self::FewerEndpoints),
            (false, true) => Some(Self::MoreEndpoints),
            (true, true) => Some(Self::OtherEndpoints),
            (false, false) => was.iter().any(|(to, share)| (share - is[to]).abs() >= tolerance).then_some(Self::Shares),
        }
        .into_iter()
        .collect();
        // Other differences of endpoints that both sides have.
        let common = |to: &SocketAddr| was.contains_key(&to.to_string()) && is.contains_key(&to.to_string());
        let port = packet.transport.ports().map(|(port, _)| port);
        let mut compare = |aspect: Self, part: &dyn Fn(&SocketAddr, &PredictedReply, &str) -> String| {
            let [was, is] = each(&|outcome| match outcome {
                PredictedOutcome::Delivered { at, source, destination, reply } if common(destination) => {
                    Some(format!("{destination} {}", part(source, reply, at)))
                }
                _ => None,
            });
            if was.keys().ne(is.keys()) {
                found.insert(aspect);
            }
        };
        compare(Self::Source, &|source, _, _| IpAddr::to_string(&source.ip()));
        compare(Self::SourcePort, &|source, _, _| (Some(source.port()) == port).to_string());
        compare(Self::Reply, &|_, reply, _| match reply {
            PredictedReply::From(address) => address.to_string(),
            PredictedReply::Lost { .. } | PredictedReply::Unknown(_) => String::new(),
        });
        compare(Self::Place, &|_, _, at| at.to_owned());
        let [was, is] = each(&|outcome| match outcome {
            PredictedOutcome::Rejected { at, .. } | PredictedOutcome::Dropped { at, .. } => Some(at.clone()),
            _ => None,
        });
        if was.keys().ne(is.keys()) {
            found.insert(Self::Place);
        } else if was.iter().any(|(at, share)| (share - is[at]).abs() >= tolerance) {
            found.insert(Self::Shares);
        }
        found
    }
}

impl fmt::Display for Aspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FewerEndpoints => "with fewer endpoints",
            Self::MoreEndpoints => "with more endpoints",
            Self::OtherEndpoints => "with other endpoints",
            Self::Shares => "with other shares",
            Self::Source => "with another source address",
            Self::SourcePort => "with another source port",
            Self::Reply => "with another reply address",
            Self::Place => "on another machine",
        })
    }
}

/// The outcome of packets before and after.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Contrast {
    pub(super) was: PacketOutcomes,
    pub(super) is: PacketOutcomes,
    /// What differs although the fates are the same.
    pub(super) aspects: BTreeSet<Aspect>,
}

impl Contrast {
    /// Returns the details in which two fates differ.
    pub(super) fn between(was: impl Into<PacketOutcomes>, is: impl Into<PacketOutcomes>) -> Self {
        Self { was: was.into(), is: is.into(), aspects: BTreeSet::new() }
    }

    /// Returns the outcome after the change as text, with what differs if the fate is the same.
    pub(super) fn is_words(&self) -> String {
        let aspects: Vec<String> = self.aspects.iter().map(ToString::to_string).collect();
        match aspects.as_slice() {
            [] => self.is.to_string(),
            aspects => format!("{}, {}", self.is, aspects.join(" and ")),
        }
    }

    /// Returns the code for programs: `delivered/rejected`, `delivered/fewer-endpoints`.
    pub(super) fn code(&self) -> String {
        if self.aspects.is_empty() {
            return format!("{}/{}", self.was.code(), self.is.code());
        }
        let aspects: Vec<&str> = self.aspects.iter().map(|aspect| aspect.code()).collect();
        format!("{}/{}", self.was.code(), aspects.join("+"))
    }
}
