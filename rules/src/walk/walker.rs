//! What a walk knows of its packet.

use super::address::bits;
use super::branch::{Assumptions, Branch, Effects, Outcome};
use super::connection::{SourceNat, Tracked, Tracking};
use super::interface::Interface;
use super::packet::Packet;
use super::share::Share;
use super::trace::Trace;

/// A packet on its way through a hook.
#[derive(Debug, Clone)]
pub(crate) struct Walker<T> {
    pub(crate) packet: Packet,
    /// The packet's addresses and interfaces as numbers.
    pub(crate) source: u128,
    pub(crate) destination: u128,
    pub(crate) input: u128,
    pub(crate) output: u128,
    /// What the connection table has said so far.
    pub(crate) tracking: Tracking,
    /// What it is going to say.
    found: Option<Tracked>,
    pub(super) source_nat: Option<SourceNat>,
    /// The mark before the present chain of a hook.
    pub(super) mark_before: u32,
    pub(super) reroute: bool,
    pub(crate) share: Share,
    pub(crate) effects: Effects,
    pub(crate) assumptions: Assumptions,
    pub(crate) trace: T,
}

impl<T: Trace> Walker<T> {
    pub(super) fn new(packet: &Packet, tracking: Tracking) -> Self {
        Self {
            packet: *packet,
            source: bits(packet.source),
            destination: bits(packet.destination),
            input: Interface::number(packet.input),
            output: Interface::number(packet.output),
            tracking,
            found: None,
            source_nat: None,
            mark_before: packet.mark,
            reroute: false,
            share: Share::ONE,
            effects: Effects::new(),
            assumptions: Assumptions::NONE,
            trace: T::default(),
        }
    }

    /// The packet has no connection before the table is asked, unless it came with one.
    pub(super) fn forget_connection(&mut self) {
        if let Tracking::Tracked(tracked) = self.tracking
            && !tracked.attached
        {
            self.found = Some(tracked);
            self.tracking = Tracking::Invalid;
        }
    }

    /// The connection table is asked.
    pub(super) fn look_up(&mut self) {
        if let Some(found) = self.found.take() {
            self.tracking = Tracking::Tracked(found);
        }
        if let Tracking::Tracked(tracked) = &mut self.tracking {
            tracked.attached = true;
        }
    }

    /// The table is not to be asked; a packet that came with its connection keeps it (`xt_ct_target`).
    pub(crate) fn exempt(&mut self) {
        if !matches!(self.tracking, Tracking::Tracked(_)) {
            self.found = None;
            self.tracking = Tracking::Untracked;
        }
    }

    /// Notes what is assumed.
    pub(crate) fn assume(&mut self, more: Assumptions) {
        self.assumptions = self.assumptions.and(more);
    }

    pub(super) fn end(self, outcome: Outcome) -> Branch<T> {
        Branch {
            share: self.share,
            outcome,
            packet: self.packet,
            tracking: self.tracking,
            source_nat: self.source_nat,
            reroute: self.reroute,
            effects: self.effects,
            assumptions: self.assumptions,
            trace: self.trace,
        }
    }
}
