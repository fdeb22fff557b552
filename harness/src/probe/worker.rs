//! A worker: one CPU's part of counting many flows.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

use super::ProbeError;
use super::batch::{BATCH, Outgoing};
use super::count::Count;
use super::drain::until_nothing_is_held;
use super::flow_queue::FlowQueue;
use super::tap::Tap;
use crate::lab::{self, Barrier, Channel, Connections, LabError};
use crate::observation::Tally;
use crate::wire::{Tag, Template};

/// The space that a received frame takes in its socket's buffer at most, including the kernel's own bookkeeping.
const ROOM_OF_A_FRAME: usize = 1024;

/// The socket that flows are written to, and the packet template.
pub(super) struct Outlet {
    /// The sender's namespace.
    pub(super) netns: String,
    pub(super) source: IpAddr,
    pub(super) template: Template,
    pub(super) socket: Outgoing,
}

/// A worker that sends flows from one CPU and counts those that arrive. The whole path of a packet is processed by the
/// CPU that sent it, so workers share only the nodes' conntrack tables.
pub(super) struct Worker {
    /// The barrier of the worker's CPU.
    pub(super) barrier: Barrier,
    /// Taps that see only what this CPU sends out.
    pub(super) taps: Vec<Tap>,
    pub(super) outlet: Outlet,
    /// The conntrack tables of all nodes.
    pub(super) connections: Vec<Connections>,
    pub(super) ports: Range<u16>,
}

/// Returns the number of packets that links hold: see [`until_nothing_is_held`].
pub(super) type Held<'a> = &'a dyn Fn() -> Result<Option<u64>, ProbeError>;

/// Counts packets that arrive elsewhere than at taps, and returns their number.
pub(super) type Receive<'a> = &'a mut dyn FnMut(&mut Count) -> Result<usize, ProbeError>;

impl Worker {
    /// Sends windows of flows until none are left, and counts what arrived.
    ///
    /// Conntrack tables are flushed after each window, so that they never fill and every flow is new.
    pub(super) fn count(
        &mut self,
        work: &FlowQueue,
        receive: Receive<'_>,
        held: Held<'_>,
    ) -> Result<Tally, ProbeError> {
        let mut count = Count::new(work.window());
        let mut ports = self.ports.clone().cycle();
        while let Some(flows) = work.take() {
            work.check_time()?;
            let flushes = work.flushes();
            count.open_window(work.first_tag + flows.start);
            self.send_window(flows.end - flows.start, &mut ports, &mut count, receive)?;
            self.read_until_quiet(&mut count, receive, held)?;
            self.repeat_collided(work, &mut count, receive, held)?;
            self.nothing_missed()?;
            count.close_window();
            work.counted(&flows);
            work.flush_since(flushes, &self.connections)?;
        }
        Ok(count.finish(self.outlet.source))
    }

    /// Sends the same flows as [`Self::count`] without counting, to measure the cost of counting.
    pub(super) fn send_only(&mut self, work: &FlowQueue) -> Result<(), ProbeError> {
        let mut count = Count::new(work.window());
        let mut ports = self.ports.clone().cycle();
        while let Some(flows) = work.take() {
            let flushes = work.flushes();
            count.open_window(work.first_tag + flows.start);
            let mut left = flows.end - flows.start;
            while left > 0 {
                left -= self.send_batch(left, &mut ports, &mut count)?;
            }
            work.flush_since(flushes, &self.connections)?;
        }
        Ok(())
    }

    /// The channels to close when the worker has finished.
    pub(super) fn into_channels(self) -> impl Iterator<Item = Channel> {
        self.taps.into_iter().map(|tap| tap.channel).chain([self.barrier.into_channel()])
    }

    fn send_window(
        &mut self,
        flows: u64,
        ports: &mut impl Iterator<Item = u16>,
        count: &mut Count,
        receive: Receive<'_>,
    ) -> Result<(), ProbeError> {
        let read_after = self.batches_in_room()?;
        let (mut left, mut batches) = (flows, 0);
        while left > 0 {
            left -= self.send_batch(left, ports, count)?;
            // The backlog of a CPU holds 1,000 packets. With a barrier frame after every batch, at most one batch per hop is in flight,
            // however late the kernel processes them.
            self.barrier.pass()?;
            receive(count)?;
            batches += 1;
            if batches % read_after == 0 {
                self.read(count)?;
            }
        }
        Ok(())
    }

    /// Sends the next batch of the remaining flows, and returns their number.
    fn send_batch(
        &self,
        left: u64,
        ports: &mut impl Iterator<Item = u16>,
        count: &mut Count,
    ) -> Result<u64, ProbeError> {
        let size = BATCH.min(usize::try_from(left).unwrap_or(BATCH));
        self.write(ports.take(size).map(|port| (port, count.send(port))))?;
        Ok(size as u64)
    }

    /// Writes at most a batch of flows, each from its port and with its tag.
    fn write(&self, flows: impl Iterator<Item = (u16, Tag)>) -> Result<(), ProbeError> {
        let mut frames = [[0; Template::MAX_LEN]; BATCH];
        let mut size = 0;
        for (frame, (port, tag)) in frames.iter_mut().zip(flows) {
            self.outlet.template.fill(SocketAddr::new(self.outlet.source, port), tag, frame);
            size += 1;
        }
        let sending = self.outlet.socket.send(&frames[..size], self.outlet.template.len());
        Ok(sending.map_err(LabError::socket(&self.outlet.netns, "sending many packets"))?)
    }

    /// Sends flows again that nodes dropped because of collisions, if the nodes' statistics can account for all missing flows.
    ///
    /// A masquerade chooses an unused port, but connections are confirmed only when their packet leaves. If two CPUs choose the same port
    /// at the same moment, the packet that leaves later is dropped: about one flow in several millions. A flow that is dropped twice is
    /// lost for another reason, for example because rules leave too few ports.
    fn repeat_collided(
        &mut self,
        work: &FlowQueue,
        count: &mut Count,
        receive: Receive<'_>,
        held: Held<'_>,
    ) -> Result<(), ProbeError> {
        let missing = count.missing();
        let lost = missing.len() as u64;
        if lost == 0 || !work.may_repeat(lost, collisions(&self.connections)?) {
            return Ok(());
        }
        count.repeat(lost);
        for batch in missing.chunks(BATCH) {
            self.write(batch.iter().copied())?;
            self.barrier.pass()?;
        }
        self.read_until_quiet(count, receive, held)
    }

    /// Reads until nothing is in flight.
    fn read_until_quiet(&mut self, count: &mut Count, receive: Receive<'_>, held: Held<'_>) -> Result<(), ProbeError> {
        until_nothing_is_held(held, || {
            self.barrier.pass()?;
            Ok(self.read(count)? + receive(count)?)
        })
    }

    /// The number of batches that may be sent before taps are read: each packet may arrive twice, and half of the buffer stays free.
    fn batches_in_room(&self) -> Result<usize, LabError> {
        const MAX: usize = 16;
        let rooms = self.taps.iter().map(|tap| tap.channel.room()).collect::<Result<Vec<_>, _>>()?;
        let least = rooms.into_iter().min().unwrap_or_default();
        Ok((least / (4 * BATCH * ROOM_OF_A_FRAME)).clamp(1, MAX))
    }

    /// Reads the packets that have arrived, and returns their number.
    fn read(&self, count: &mut Count) -> Result<usize, LabError> {
        let read = |tap: &Tap| tap.read_many(|frame, interface| count.frame(frame, interface, &tap.outlets));
        self.taps.iter().map(read).sum()
    }

    /// Checks that no receive buffer has overflowed since the last check.
    fn nothing_missed(&self) -> Result<(), ProbeError> {
        for tap in &self.taps {
            let count = tap.channel.newly_lost()?;
            if count > 0 {
                return Err(ProbeError::Overrun { place: tap.channel.netns().to_owned(), count });
            }
        }
        Ok(())
    }
}

/// The number of packets that nodes have dropped because of collisions so far.
pub(super) fn collisions(connections: &[Connections]) -> Result<u64, LabError> {
    connections.iter().map(Connections::collisions).sum()
}

/// Runs workers in parallel: the first in the calling thread, which stays on its CPU, each other in a thread of its own. A worker that gets
/// no thread leaves its share to the others.
///
/// # Errors
///
/// The first error of a worker; the remaining work is then abandoned.
pub(super) fn run_together<T: Send>(
    workers: &mut [Worker],
    work: &FlowQueue,
    first: impl FnOnce(&mut Worker) -> Result<T, ProbeError>,
    other: impl Fn(&mut Worker) -> Result<T, ProbeError> + Sync,
) -> Result<Vec<T>, ProbeError> {
    let Some((own, others)) = workers.split_first_mut() else { return Ok(Vec::new()) };
    let other = |worker: &mut Worker| {
        lab::stay_on(worker.barrier.cpu()).map_err(|errno| LabError::Thread { source: errno.into() })?;
        other(worker)
    };
    thread::scope(|scope| {
        let begin = |worker| {
            let run = || other(worker).inspect_err(|_| work.abandon());
            thread::Builder::new().spawn_scoped(scope, run)
        };
        let begun: Vec<_> = others.iter_mut().filter_map(|worker| begin(worker).ok()).collect();
        let first = first(own).inspect_err(|_| work.abandon());
        let join = |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        [first].into_iter().chain(begun.into_iter().map(join)).collect()
    })
}
