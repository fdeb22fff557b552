//! `ct state new`, `ct status dnat`: the packet's connection.

use super::{Condition, explain_not, one_of};
use crate::nftables::text::{Line, join, not, one_or_braces};
use crate::walk::{State, Tracked, Tracking};

/// `ct state established,related`: the connection tracking state of the packet is one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct States {
    /// True for `!=`.
    pub negated: bool,
    /// The states, at least one.
    pub states: Vec<ConnectionState>,
}

/// A connection tracking state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// The packet opens a connection.
    New,
    /// The connection has seen packets in both directions.
    Established,
    /// The packet belongs to a connection expected by another one, or is an ICMP error about a connection.
    Related,
    /// The packet belongs to no connection and cannot open one.
    Invalid,
    /// The packet is exempt from connection tracking.
    Untracked,
}

impl ConnectionState {
    /// All states.
    pub const ALL: [Self; 5] = [Self::New, Self::Established, Self::Related, Self::Invalid, Self::Untracked];

    /// Returns nft's keyword.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Established => "established",
            Self::Related => "related",
            Self::Invalid => "invalid",
            Self::Untracked => "untracked",
        }
    }

    /// Whether a word is its keyword, or its bit as `nft -n` prints it (`NF_CT_STATE_BIT`).
    fn is_written(self, word: &str) -> bool {
        let bit = match self {
            Self::Invalid => "0x1",
            Self::Established => "0x2",
            Self::Related => "0x4",
            Self::New => "0x8",
            Self::Untracked => "0x40",
        };
        word == self.as_str() || word == bit
    }

    /// Returns the state that `nft_ct` sees for a packet.
    fn of(tracking: &Tracking) -> Self {
        match tracking {
            Tracking::Invalid => Self::Invalid,
            Tracking::Untracked => Self::Untracked,
            Tracking::Tracked(Tracked { state: State::New, .. }) => Self::New,
            Tracking::Tracked(Tracked { state: State::Established, .. }) => Self::Established,
            Tracking::Tracked(Tracked { state: State::Related, .. }) => Self::Related,
        }
    }
}

/// Parses what follows `ct`.
pub(super) fn parse(line: &mut Line<'_, '_>) -> Option<Condition> {
    match line.next() {
        "state" => {
            let negated = line.negation();
            let is_set = line.peek() == "{";
            let states =
                line.several(|word| ConnectionState::ALL.into_iter().find(|state| state.is_written(word.text)))?;
            // `!= new,established` compares all bits at once, and a packet has only one of them.
            let is_plain = !negated || is_set || states.len() == 1;
            is_plain.then_some(Condition::State(States { negated, states }))
        }
        "status" => {
            let is_dnat = matches!(line.next(), "dnat" | "0x20");
            (is_dnat && line.peek() != ",").then_some(Condition::Translated)
        }
        _ => None,
    }
}

impl States {
    pub(super) fn print(&self, out: &mut String) {
        out.extend(["ct state ", not(self.negated)]);
        let word = |out: &mut String, state: &ConnectionState| out.push_str(state.as_str());
        // After `!=`, several states without braces would be compared as one bit mask.
        if self.negated { one_or_braces(out, &self.states, word) } else { join(out, ",", &self.states, word) }
    }

    pub(super) fn explain(&self) -> String {
        if !self.negated && self.states == [ConnectionState::New] {
            return "of a new connection".to_owned();
        }
        let states = one_of(&self.states, |state| state.as_str().to_owned());
        format!("{}in the connection state {states}", explain_not(self.negated))
    }

    pub(super) fn holds(&self, tracking: &Tracking) -> bool {
        self.states.contains(&ConnectionState::of(tracking)) ^ self.negated
    }
}
