//! What a walk knows of its packet.

use super::action::ConnmarkChange;
use crate::walk::{
    Assumptions, Branch, Effects, Interface, Outcome, Packet, Share, SourceNat, Trace, Tracked, Tracking, bits,
};

/// A packet on its way through a hook.
#[derive(Debug, Clone)]
pub(super) struct Walker<T> {
    pub(super) packet: Packet,
    /// The packet's addresses and interfaces as numbers.
    pub(super) source: u128,
    pub(super) destination: u128,
    pub(super) input: u128,
    pub(super) output: u128,
    /// What the connection table has said so far.
    pub(super) tracking: Tracking,
    /// What it is going to say.
    found: Option<Tracked>,
    pub(super) source_nat: Option<SourceNat>,
    /// The mark before `mangle`.
    pub(super) mark_before: u32,
    pub(super) reroute: bool,
    pub(super) share: Share,
    pub(super) effects: Effects,
    pub(super) assumptions: Assumptions,
    pub(super) trace: T,
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

    pub(super) fn look_up(&mut self) {
        if let Some(found) = self.found.take() {
            self.tracking = Tracking::Tracked(found);
        }
        if let Tracking::Tracked(tracked) = &mut self.tracking {
            tracked.attached = true;
        }
    }

    /// `NOTRACK`; a packet that came with its connection keeps it (`xt_ct_target`).
    pub(super) fn exempt(&mut self) {
        if !matches!(self.tracking, Tracking::Tracked(_)) {
            self.found = None;
            self.tracking = Tracking::Untracked;
        }
    }

    pub(super) fn assume(&mut self, more: Assumptions) {
        self.assumptions = self.assumptions.and(more);
    }

    pub(super) fn change_marks(&mut self, change: ConnmarkChange) {
        let Tracking::Tracked(tracked) = &mut self.tracking else { return };
        let (mark, of_packet) = (&mut tracked.connection.mark, &mut self.packet.mark);
        match change {
            ConnmarkChange::Set(change) => *mark = (*mark & !change.mask) ^ change.value,
            ConnmarkChange::Save { connection, packet } => *mark = (*mark & !connection) ^ (*of_packet & packet),
            ConnmarkChange::Restore { connection, packet } => {
                *of_packet = (*of_packet & !packet) ^ (*mark & connection)
            }
        }
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
