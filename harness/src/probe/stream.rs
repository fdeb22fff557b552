//! Flows that are sent at a fixed rate during a change.
//!
//! Each is followed like a single flow, but sending continues while packets are in flight, and barriers show only at the end that none is
//! left. A flow whose whole interval passes while the thread does not run is skipped, so that there are no bursts after a pause.

use std::time::{Duration, Instant};

use super::flow::{FlowRequest, Followed, One};
use super::{Limit, ProbeError, Prober};
use crate::lab::Lab;
use crate::observation::{StreamedFlow, longest_pause};
use crate::scenario::{Probe, flows_at_rate};
use crate::topology::Sender;

/// The longest sleep between two reads of the taps.
const NAP: Duration = Duration::from_micros(200);
/// How long a process waits for a reply: less than the second after which its kernel retransmits a SYN, which must not rescue the flow.
const PATIENCE: Duration = Duration::from_millis(800);
/// The fraction of the requested flows that must have been sent.
const ENOUGH: f64 = 0.75;
/// The longest acceptable pause between two flows, as a time and as a number of intervals of the rate.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
const MAX_INTERVALS: u32 = 5;

/// Flows that are sent during a change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream<'p> {
    /// The probes, each sent at the rate.
    pub probes: &'p [&'p Probe],
    /// Flows per second.
    pub rate: u32,
    /// How long flows are sent before the change.
    pub before: Duration,
    /// How long flows are sent after the change.
    pub after: Duration,
}

impl Stream<'_> {
    fn interval(&self) -> Duration {
        Duration::from_secs(1) / self.rate.max(1)
    }
}

/// The progress of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeProgress {
    /// It is not finished and must be polled again.
    UnderWay,
    /// It no longer needs the lab's thread.
    Done,
}

/// A flow that has started.
struct Start {
    /// The number of its probe.
    probe: usize,
    at: Instant,
}

/// The state of a stream while flows are sent.
struct Streaming {
    wanted: Vec<FlowRequest>,
    /// When the next flow of each probe is due.
    next: Vec<Instant>,
    starts: Vec<Start>,
    followed: Followed,
    /// The flows for which a process holds a socket.
    open: Vec<usize>,
}

impl Prober<'_> {
    /// Sends flows at a rate while a change is made: `change` is called when it is due, and then between flows until it is done. Returns
    /// the flows of each probe in the order in which they were sent.
    ///
    /// # Errors
    ///
    /// Those of [`Prober::send`] and of the change, and [`ProbeError::Starved`] if far fewer flows were sent than requested.
    pub(crate) fn stream<E: From<ProbeError>>(
        &mut self,
        stream: &Stream<'_>,
        change: &mut dyn FnMut(&mut Lab) -> Result<ChangeProgress, E>,
    ) -> Result<Vec<Vec<StreamedFlow>>, E> {
        // Paths are not kept for this many flows.
        let record = self.record.take();
        let streamed = self.restoring_raw_listeners(|prober| prober.send_stream(stream, change));
        self.record = record;
        streamed
    }

    fn send_stream<E: From<ProbeError>>(
        &mut self,
        stream: &Stream<'_>,
        change: &mut dyn FnMut(&mut Lab) -> Result<ChangeProgress, E>,
    ) -> Result<Vec<Vec<StreamedFlow>>, E> {
        let wanted = stream.probes.iter().map(|probe| self.wanted(probe)).collect::<Result<Vec<_>, _>>()?;
        self.prepare(stream, &wanted)?;
        let begin = Instant::now();
        let mut streaming = Streaming::begin(stream, wanted, begin);
        while begin.elapsed() < stream.before {
            self.advance(stream, &mut streaming)?;
        }
        let changed = Instant::now();
        let mut progress = change(self.lab)?;
        while changed.elapsed() < stream.after {
            if progress == ChangeProgress::UnderWay {
                progress = change(self.lab)?;
            }
            self.advance(stream, &mut streaming)?;
        }
        self.until_quiet(|prober| prober.look(&mut streaming.followed))?;
        let flows = streaming.finish(changed);
        flows.iter().try_for_each(|flows| check_pace(stream, flows))?;
        Ok(flows)
    }

    /// Opens all sockets in advance, so that no flow has to wait for them.
    fn prepare(&mut self, stream: &Stream<'_>, wanted: &[FlowRequest]) -> Result<(), ProbeError> {
        self.settle()?;
        let flows = flows_at_rate(stream.rate, stream.before + stream.after) as usize + 1;
        self.provide_ports(flows * wanted.len())?;
        for FlowRequest { sender, protocol, .. } in wanted {
            match sender {
                Sender::Wire(netns) => self.wire(*netns).map(drop)?,
                Sender::Process(netns) | Sender::Loopback(netns) => self.listen_in(*netns, *protocol)?,
            }
        }
        Ok(())
    }

    /// Starts the flows that are due, reads the packets of those in flight, and sleeps until there may be something to do.
    fn advance(&mut self, stream: &Stream<'_>, streaming: &mut Streaming) -> Result<(), ProbeError> {
        Limit::check(self.limit)?;
        for probe in 0..streaming.wanted.len() {
            let at = Instant::now();
            if streaming.next[probe] <= at {
                let flow = self.begin(&streaming.wanted[probe])?;
                streaming.start(flow, Start { probe, at }, stream.interval());
            }
        }
        let packets = self.look(&mut streaming.followed)?;
        streaming.close_sockets();
        let due = streaming.next.iter().min().map(|next| next.saturating_duration_since(Instant::now()));
        if packets == 0 {
            std::thread::sleep(due.unwrap_or_default().min(NAP));
        }
        Ok(())
    }
}

impl Streaming {
    /// Probes take turns, so that each starts its first flow in time even at a low rate.
    fn begin(stream: &Stream<'_>, wanted: Vec<FlowRequest>, begin: Instant) -> Self {
        let round = stream.interval().min(stream.before + stream.after);
        let probes = wanted.len() as u32;
        let next = (0..probes).map(|probe| begin + round * probe / probes).collect();
        Self { wanted, next, starts: Vec::new(), followed: Followed::without_paths(), open: Vec::new() }
    }

    /// Adds a flow that was sent. Its probe's next flow is the first that is not due yet.
    fn start(&mut self, flow: One, start: Start, interval: Duration) {
        let Start { probe, at } = start;
        if !matches!(self.wanted[probe].sender, Sender::Wire(_)) {
            self.open.push(self.starts.len());
        }
        self.followed.add(flow);
        self.starts.push(start);
        while self.next[probe] <= at {
            self.next[probe] += interval;
        }
    }

    /// Closes sockets whose flow is answered or rejected, or has waited for too long.
    fn close_sockets(&mut self) {
        let Self { followed, starts, .. } = self;
        self.open.retain(|flow| {
            let is_over = followed.is_decided(*flow) || starts[*flow].at.elapsed() >= PATIENCE;
            if is_over {
                followed.close(*flow);
            }
            !is_over
        });
    }

    /// The flows of each probe.
    fn finish(self, changed: Instant) -> Vec<Vec<StreamedFlow>> {
        let mut flows: Vec<Vec<StreamedFlow>> = vec![Vec::new(); self.wanted.len()];
        for (Start { probe, at }, seen) in self.starts.iter().zip(self.followed.finish()) {
            let (before, after) = (changed.saturating_duration_since(*at), at.saturating_duration_since(changed));
            flows[*probe].push(StreamedFlow { at: after.as_secs_f64() - before.as_secs_f64(), seen });
        }
        flows
    }
}

/// Checks that the sender kept its pace: a pause of the sender would look like an interruption of the traffic.
fn check_pace(stream: &Stream<'_>, flows: &[StreamedFlow]) -> Result<(), ProbeError> {
    let planned = flows_at_rate(stream.rate, stream.before + stream.after);
    let pause = longest_pause(flows);
    let allowed = LONGEST_PAUSE.max(stream.interval() * MAX_INTERVALS);
    if (flows.len() as f64) < ENOUGH * planned as f64 || pause > allowed {
        return Err(ProbeError::Starved { sent: flows.len() as u64, planned, rate: stream.rate, pause });
    }
    Ok(())
}
