//! The state of a walk.

use super::branch::{Assumptions, Branch, Effects, HookVerdict};
use super::connection::{SourceNat, Tracked, Tracking};
use super::packet::Packet;
use super::share::Share;
use super::trace::Trace;

/// A packet during the walk through a hook.
#[derive(Debug, Clone)]
pub(crate) struct Walker<T> {
    pub(crate) packet: Packet,
    /// The result of the conntrack lookup, once it has been made.
    pub(super) found: Tracking,
    /// Whether the lookup has been made.
    is_looked_up: bool,
    pub(super) source_nat: Option<SourceNat>,
    /// The mark before the current base chain.
    pub(super) mark_before: u32,
    pub(super) reroute: bool,
    pub(crate) share: Share,
    /// Whether a random rule at the current stop has selected this branch.
    pub(super) is_chosen_at_random: bool,
    pub(crate) effects: Effects,
    pub(crate) assumptions: Assumptions,
    pub(crate) trace: T,
}

impl<T: Trace> Walker<T> {
    pub(super) fn new(packet: &Packet, tracking: Tracking, trace: T) -> Self {
        Self {
            packet: *packet,
            found: tracking,
            is_looked_up: true,
            source_nat: None,
            mark_before: packet.mark,
            reroute: false,
            share: Share::ONE,
            is_chosen_at_random: false,
            effects: Effects::new(),
            assumptions: Assumptions::NONE,
            trace,
        }
    }
}

impl<T> Walker<T> {
    /// Resets the connection before the lookup, unless the packet already has one.
    pub(super) fn reset_lookup(&mut self) {
        self.is_looked_up = !matches!(self.found, Tracking::Tracked(Tracked { attached: false, .. }));
    }

    /// Looks the connection up.
    pub(super) fn look_up(&mut self) {
        self.is_looked_up = true;
        if let Tracking::Tracked(tracked) = &mut self.found {
            tracked.attached = true;
        }
    }

    /// Returns the result of the conntrack lookup so far.
    pub(crate) fn tracking(&self) -> &Tracking {
        if self.is_looked_up { &self.found } else { &Tracking::Invalid }
    }

    /// Returns the packet's conntrack state, if it is known to have a connection.
    pub(crate) fn tracked_mut(&mut self) -> Option<&mut Tracked> {
        match &mut self.found {
            Tracking::Tracked(tracked) if self.is_looked_up => Some(tracked),
            _ => None,
        }
    }

    /// Exempts the packet from the lookup; a packet that already has a connection keeps it (`xt_ct_target`).
    pub(crate) fn exempt(&mut self) {
        if !matches!(self.tracking(), Tracking::Tracked(_)) {
            self.found = Tracking::Untracked;
            self.is_looked_up = true;
        }
    }

    /// Returns whether rules cannot distinguish two packets at the same place.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.packet == other.packet
            && self.found == other.found
            && self.is_looked_up == other.is_looked_up
            && self.source_nat == other.source_nat
            && self.effects == other.effects
            && self.assumptions == other.assumptions
    }

    /// Clears the marks of packet and connection.
    pub(super) fn forget_marks(&mut self) {
        self.packet.mark = 0;
        if let Some(tracked) = self.tracked_mut() {
            tracked.connection.mark = 0;
        }
    }

    /// Adds assumptions.
    pub(crate) fn assume(&mut self, more: Assumptions) {
        self.assumptions = self.assumptions.and(more);
    }

    /// Replaces the source with that of another packet as it entered the hook.
    pub(super) fn with_source(&mut self, original: &Packet) {
        let (from, to) = (self.packet.source, original.source);
        self.packet = Packet { source: to, input: original.input, bridge: original.bridge, ..self.packet };
        if let Tracking::Tracked(tracked) = &mut self.found {
            tracked.connection.with_source(from, to);
        }
    }

    /// Creates the state after a branch whose source has been settled.
    pub(super) fn settled(branch: Branch<T>) -> Self {
        Self {
            packet: branch.packet,
            found: branch.tracking,
            is_looked_up: true,
            source_nat: None,
            mark_before: branch.packet.mark,
            reroute: branch.reroute,
            share: branch.share,
            is_chosen_at_random: false,
            effects: branch.effects,
            assumptions: branch.assumptions,
            trace: branch.trace,
        }
    }

    pub(super) fn end(self, outcome: HookVerdict) -> Branch<T> {
        self.end_at(outcome, None)
    }

    /// Ends the walk for now: it continues at a stop once the source is settled.
    pub(super) fn end_at(self, outcome: HookVerdict, continues_at: Option<usize>) -> Branch<T> {
        Branch {
            continues_at,
            share: self.share,
            outcome,
            packet: self.packet,
            tracking: *self.tracking(),
            source_nat: self.source_nat,
            reroute: self.reroute,
            effects: self.effects,
            assumptions: self.assumptions,
            trace: self.trace,
        }
    }
}
