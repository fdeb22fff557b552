//! Counts delivered flows.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::arrival_order::Order;
use super::receivers::Outlets;
use crate::observation::Tally;
use crate::wire::{self, Content, Tag};

/// The count so far. Flows are distinguished only within a window, so that memory stays bounded.
pub(super) struct Count {
    tally: Tally,
    /// The tag of the window's first flow.
    first_tag: u64,
    /// The number of flows of the window that were sent.
    sent: usize,
    /// How often the flow of each tag of the window was delivered.
    seen: Vec<u8>,
    came_out: Vec<(SocketAddr, IpAddr)>,
    /// The source ports of the window's flows, as they were sent.
    ports: Vec<u16>,
    order: Order,
}

/// Marks a flow that has not been delivered.
const NOWHERE: (SocketAddr, IpAddr) = {
    let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    (SocketAddr::new(unspecified, 0), unspecified)
};

impl Count {
    /// An empty count, for windows of at most this many flows.
    pub(super) fn new(room: u64) -> Self {
        let room = usize::try_from(room).unwrap_or_default();
        Self {
            tally: Tally::default(),
            first_tag: 0,
            sent: 0,
            seen: vec![0; room],
            came_out: vec![NOWHERE; room],
            ports: vec![0; room],
            order: Order::new(),
        }
    }

    /// Opens a window of flows whose tags start with this one. Flows that were not added up before are discarded.
    pub(super) fn open_window(&mut self, first_tag: u64) {
        self.first_tag = first_tag;
        self.sent = 0;
    }

    /// Records a flow that is sent from this port, and returns its tag.
    #[inline]
    pub(super) fn send(&mut self, port: u16) -> Tag {
        self.ports[self.sent] = port;
        let tag = Tag::new(self.first_tag + self.sent as u64);
        self.sent += 1;
        tag
    }

    /// The flows of the window that have not been delivered yet, each with its source port and its tag.
    pub(super) fn missing(&self) -> Vec<(u16, Tag)> {
        let flows = self.seen[..self.sent].iter().zip(&self.ports).zip(self.first_tag..);
        flows.filter(|((times, _), _)| **times == 0).map(|((_, port), tag)| (*port, Tag::new(tag))).collect()
    }

    /// Records that this number of flows of the window is sent again.
    pub(super) fn repeat(&mut self, flows: u64) {
        self.tally.resent += flows;
    }

    /// Records a frame that left through an interface.
    #[inline]
    pub(super) fn frame(&mut self, frame: &[u8], interface: u32, outlets: &Outlets) {
        if let Some(key) = wire::peek(frame)
            && let Content::Request(tag) = key.content
            && outlets.receiver(interface, key.flow.destination.ip()).is_some()
        {
            self.came_out(Some(tag), key.flow);
        }
    }

    /// Records a delivered packet; its tag is `None` if it is not part of any flow.
    #[inline]
    pub(super) fn came_out(&mut self, tag: Option<Tag>, flow: wire::Flow) {
        let index =
            tag.and_then(|tag| tag.get().checked_sub(self.first_tag)).and_then(|index| usize::try_from(index).ok());
        let Some(index) = index.filter(|index| *index < self.sent) else {
            self.tally.unattributed += 1;
            return;
        };
        self.seen[index] = self.seen[index].saturating_add(1);
        self.came_out[index] = (flow.destination, flow.source.ip());
    }

    /// Adds the flows of the window to the sum.
    pub(super) fn close_window(&mut self) {
        let sent = std::mem::take(&mut self.sent);
        self.order.pause();
        let came_out = self.seen.iter().zip(&self.came_out).zip(&self.ports);
        for ((times, (destination, source)), port) in came_out.take(sent) {
            self.order.next(*port, (*times == 1).then_some(*destination));
            match times {
                0 => self.tally.lost += 1,
                1 => {
                    *self.tally.delivered.entry(*destination).or_default() += 1;
                    *self.tally.sources.entry(*source).or_default() += 1;
                }
                _ => self.tally.duplicated += 1,
            }
        }
        self.seen.fill(0);
        self.tally.sent += sent as u64;
    }

    /// The sum of all windows.
    pub(super) fn finish(self, sender: IpAddr) -> Tally {
        let (neighbours, ports) = self.order.finish();
        Tally { sender: Some(sender), neighbours, ports, ..self.tally }
    }
}
