//! The kernel's trace events about a packet.

use serde::{Deserialize, Serialize};

use super::headers::{Header, Passage};
use crate::topology::NetnsId;

/// A rule that a packet matched, or the end of a chain, as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Traced {
    /// The namespace.
    pub netns: NetnsId,
    /// The packet of the flow that it is about.
    pub passage: Passage,
    /// The table.
    pub table: String,
    /// The chain.
    pub chain: String,
    /// The event.
    pub what: TracedWhat,
    /// The part of the kernel that reported it.
    pub trace_source: TraceSource,
}

/// A part of the kernel that traces rules. Events of different ones have no common order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TraceSource {
    /// nftables, which also reports iptables-nft's rules.
    Nftables,
    /// iptables-legacy.
    Legacy,
}

/// An event of a packet in a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TracedWhat {
    /// A rule matched and was executed: its number in the chain, from 1; `None` if the rule is gone.
    Rule(Option<usize>),
    /// The end of a chain: the packet returns to the calling chain.
    Return,
    /// The end of a base chain: the policy applies.
    Policy,
}

/// An event as received from a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) header: Option<Header>,
    pub(super) table: String,
    pub(super) chain: String,
    pub(super) what: TracedWhat,
    pub(super) trace_source: TraceSource,
}
