//! The outcome of a flow, according to any of the three sources.

use std::fmt;
use std::net::SocketAddr;

use crate::observation::{Delivery, FlowObservation, ObservedOutcome};
use crate::predict::{Cause, PredictedOutcome, PredictedReply};
use crate::scenario::RejectKind;
use crate::text::{drop_words, is_in_cluster};

/// An observed or predicted outcome of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FlowOutcome {
    /// It was delivered once.
    Delivered {
        /// The receiver.
        at: String,
        /// The source that the receiver saw.
        source: SocketAddr,
        /// The destination that the receiver saw.
        destination: SocketAddr,
        /// The source of the reply, if one reached the sender.
        reply: Option<SocketAddr>,
    },
    /// The sender got a rejection.
    Rejected(RejectKind),
    /// It was dropped silently.
    Dropped {
        /// Where: a node, a pod with rules of its own, or the underlay and what is beyond it.
        at: String,
        /// Whether no rule is the cause: it had left the cluster, or was lost otherwise.
        is_beyond_rules: bool,
        /// Whether it reached a machine where no process listens on the port, and whose kernel leaves the reply to a process that reads all
        /// packets of its protocol, such as a user-space SCTP stack.
        has_no_listener: bool,
        /// Whether a kernel dropped it as a martian, so that it reached no further node.
        is_martian: bool,
    },
    /// An outcome that neither promise nor rules can have, in words.
    Odd(String),
}

impl FlowOutcome {
    /// The outcome of a predicted branch; `None` if it is unknown.
    pub(crate) fn predicted(outcome: &PredictedOutcome) -> Option<Self> {
        Some(match outcome {
            PredictedOutcome::Delivered { at, source, destination, reply } => {
                let reply = match reply {
                    PredictedReply::From(address) => Some(*address),
                    PredictedReply::Lost { .. } => None,
                    PredictedReply::Unknown(_) => return None,
                };
                Self::Delivered { at: at.clone(), source: *source, destination: *destination, reply }
            }
            PredictedOutcome::Rejected { kind, .. } => Self::Rejected(*kind),
            PredictedOutcome::Dropped { at, cause, rejected_at } => {
                let at = rejected_at.as_ref().unwrap_or(at).clone();
                let is_beyond_rules = !is_in_cluster(&at) || !cause.is_by_rule();
                let (has_no_listener, is_martian) = (*cause == Cause::NoListener, *cause == Cause::Martian);
                Self::Dropped { at, is_beyond_rules, has_no_listener, is_martian }
            }
            PredictedOutcome::Unknown { .. } => return None,
        })
    }

    /// The same without a reply.
    pub(crate) fn without_reply(mut self) -> Self {
        if let Self::Delivered { reply, .. } = &mut self {
            *reply = None;
        }
        self
    }

    /// The outcome that a lab observed.
    pub(crate) fn observed(flow: &FlowObservation) -> Self {
        if let Some(rejection) = &flow.contradiction {
            return Self::Odd(format!("delivered, but also rejected by {}: {}", rejection.by, rejection.what));
        }
        match &flow.outcome {
            ObservedOutcome::Delivered(Delivery { at, source, destination, .. }) => {
                Self::Delivered { at: at.clone(), source: *source, destination: *destination, reply: flow.reply }
            }
            ObservedOutcome::Duplicated(deliveries) => {
                let places: Vec<&str> = deliveries.iter().map(|delivery| delivery.at.as_str()).collect();
                Self::Odd(format!("delivered more than once, to {}", places.join(" and ")))
            }
            ObservedOutcome::Rejected(rejection) => Self::Rejected(rejection.kind),
            ObservedOutcome::Dropped { at, left_cluster } => Self::Dropped {
                at: at.clone(),
                is_beyond_rules: *left_cluster,
                has_no_listener: false,
                is_martian: false,
            },
        }
    }

    /// Adopts the cause of a loss from a predicted branch with the same outcome, because taps do not see the cause.
    pub(crate) fn explain(&mut self, outcome: &PredictedOutcome) {
        let predicted = Self::predicted(outcome).filter(|predicted| predicted.is_like(self));
        if let (
            Self::Dropped { is_beyond_rules, has_no_listener, is_martian, .. },
            Some(Self::Dropped { is_beyond_rules: goes, has_no_listener: ends, is_martian: is_rejected, .. }),
        ) = (self, predicted)
        {
            *is_beyond_rules |= goes;
            *has_no_listener |= ends;
            *is_martian |= is_rejected;
        }
    }

    /// Whether a predicted outcome matches the observed one. Only the source's address is compared: the kernel may
    /// choose another port than predicted.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Delivered { at, source, destination, reply },
                Self::Delivered {
                    at: other_at,
                    source: other_source,
                    destination: other_destination,
                    reply: other_reply,
                },
            ) => (at, source.ip(), destination, reply) == (other_at, other_source.ip(), other_destination, other_reply),
            (Self::Rejected(one), Self::Rejected(other)) => one == other || [one, other].contains(&&RejectKind::Any),
            // Taps show which machine lost it, but only machines that forward have taps.
            (Self::Dropped { at: one, .. }, Self::Dropped { at: other, .. }) => {
                is_in_cluster(one) == is_in_cluster(other)
            }
            (one, other) => one == other,
        }
    }
}

impl fmt::Display for FlowOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivered { at, source, destination, reply } => {
                write!(f, "delivered to {at} at {destination}, from {source}, ")?;
                match reply {
                    Some(reply) => write!(f, "reply from {reply}"),
                    None => f.write_str("no reply arrives"),
                }
            }
            Self::Rejected(kind) => write!(f, "rejected: {}", kind_words(*kind)),
            Self::Dropped { at, .. } => f.write_str(&drop_words(at)),
            Self::Odd(words) => f.write_str(words),
        }
    }
}

/// The outcome of a predicted branch in words, without its cause and without the source port: the kernel may choose another port than
/// predicted.
pub(crate) fn outcome_words(outcome: &PredictedOutcome) -> String {
    match FlowOutcome::predicted(outcome) {
        Some(FlowOutcome::Delivered { at, source, destination, reply }) => {
            let reply = reply.map_or("no reply arrives".to_owned(), |reply| format!("reply from {reply}"));
            format!("delivered to {at} at {destination}, from {}, {reply}", source.ip())
        }
        Some(seen) => seen.to_string(),
        None => "unknown".to_owned(),
    }
}

/// A rejection in words.
pub(crate) fn kind_words(kind: RejectKind) -> &'static str {
    match kind {
        RejectKind::Any => "any rejection",
        RejectKind::TcpReset => "TCP reset",
        RejectKind::SctpAbort => "SCTP ABORT",
        RejectKind::PortUnreachable => "port unreachable",
        RejectKind::OtherUnreachable => "unreachable",
        RejectKind::TooBig { .. } => "too big for a link",
        RejectKind::Unsent => "not sent by the sender's kernel",
    }
}
