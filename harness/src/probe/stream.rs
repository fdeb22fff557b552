//! Flows that are sent at a rate while something changes.
//!
//! Each is followed as a single flow is, but nothing waits for it: sending goes on while packets are in flight, and only at the end
//! barriers show that none is left. A flow that falls due while the thread was kept from running for its whole interval is left out, so
//! flows do not come in bursts after a pause.

use std::time::{Duration, Instant};

use super::flow::{Followed, One, Wanted};
use super::{Limit, ProbeError, Prober};
use crate::lab::Lab;
use crate::observation::{StreamedFlow, longest_pause};
use crate::scenario::{Probe, flows_at_rate};
use crate::topology::Sender;

/// The longest sleep between two looks at the taps.
const NAP: Duration = Duration::from_micros(200);
/// How long a process waits for an answer: its kernel sends a SYN again after a second, and the flow is not to be saved by that.
const PATIENCE: Duration = Duration::from_millis(800);
/// The part of the flows asked for that must have been sent.
const ENOUGH: f64 = 0.75;
/// The longest pause between two flows that says nothing of the sender, and the same in intervals of the rate.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
const MAX_INTERVALS: u32 = 5;

/// Flows that are sent during a change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream<'p> {
    /// What is sent; each at the rate.
    pub probes: &'p [&'p Probe],
    /// Flows per second.
    pub rate: u32,
    /// How long before the change.
    pub before: Duration,
    /// How long from the change on.
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
    /// It is to be asked again.
    UnderWay,
    /// It needs the lab's thread no more.
    Done,
}

/// A flow that has started.
struct Start {
    /// The number of its probe.
    probe: usize,
    at: Instant,
}

/// Flows while they are sent.
struct Streaming {
    wanted: Vec<Wanted>,
    /// When the next flow of each probe is due.
    next: Vec<Instant>,
    starts: Vec<Start>,
    followed: Followed,
    /// Ports for which a process holds a socket.
    open: Vec<usize>,
}

impl Prober<'_> {
    /// Sends flows at a rate, and makes a change meanwhile: `change` is called when its time has come, and between flows until it is done.
    /// Returns the flows of each probe, in the order in which they were sent.
    ///
    /// # Errors
    ///
    /// As [`Prober::send`], those of the change, and [`ProbeError::Starved`] where far fewer flows were sent than asked for.
    pub(crate) fn stream<E: From<ProbeError>>(
        &mut self,
        stream: &Stream<'_>,
        change: &mut dyn FnMut(&mut Lab) -> Result<ChangeProgress, E>,
    ) -> Result<Vec<Vec<StreamedFlow>>, E> {
        // This many flows are only counted.
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

    /// Opens everything that flows need, so that none has to wait for it.
    fn prepare(&mut self, stream: &Stream<'_>, wanted: &[Wanted]) -> Result<(), ProbeError> {
        self.settle()?;
        let flows = flows_at_rate(stream.rate, stream.before + stream.after) as usize + 1;
        self.provide_ports(flows * wanted.len())?;
        for Wanted { sender, protocol, .. } in wanted {
            match sender {
                Sender::Wire(netns) => self.wire(*netns).map(drop)?,
                Sender::Process(netns) | Sender::Loopback(netns) => self.listen_in(*netns, *protocol)?,
            }
        }
        Ok(())
    }

    /// Starts the flows that are due, looks at all that are in flight, and sleeps until there may be something to do.
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
    /// Probes take turns; however low the rate, each has its first flow in time.
    fn begin(stream: &Stream<'_>, wanted: Vec<Wanted>, begin: Instant) -> Self {
        let round = stream.interval().min(stream.before + stream.after);
        let probes = wanted.len() as u32;
        let next = (0..probes).map(|probe| begin + round * probe / probes).collect();
        Self { wanted, next, starts: Vec::new(), followed: Followed::without_paths(), open: Vec::new() }
    }

    /// Adds a flow that was sent. Its probe's next one is the first that is not due yet.
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

/// Makes sure that the sender was not kept from sending: a pause of the sender would look like a pause of the traffic.
fn check_pace(stream: &Stream<'_>, flows: &[StreamedFlow]) -> Result<(), ProbeError> {
    let planned = flows_at_rate(stream.rate, stream.before + stream.after);
    let pause = longest_pause(flows);
    let allowed = LONGEST_PAUSE.max(stream.interval() * MAX_INTERVALS);
    if (flows.len() as f64) < ENOUGH * planned as f64 || pause > allowed {
        return Err(ProbeError::Starved { sent: flows.len() as u64, planned, rate: stream.rate, pause });
    }
    Ok(())
}
