//! Flows that are sent at a rate while something changes.
//!
//! Each is followed as a single flow is, but nothing waits for it: sending goes on while packets are in flight, and only at the end
//! barriers show that none is left. A flow that falls due while the thread was kept from running for its whole interval is left out, so
//! flows do not come in bursts after a pause.

use std::time::{Duration, Instant};

use super::flow::{Followed, Wanted};
use super::{Limit, ProbeError, Prober};
use crate::lab::Lab;
use crate::observation::StreamedFlow;
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
const MOST_INTERVALS: u32 = 5;

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
        let before = self.raw_listeners.iter().map(|(netns, listeners)| (*netns, listeners.protocols())).collect();
        // So many flows are only counted.
        let record = self.record.take();
        let streamed = self.send_stream(stream, change);
        self.record = record;
        self.hear_only(&before);
        streamed
    }

    fn send_stream<E: From<ProbeError>>(
        &mut self,
        stream: &Stream<'_>,
        change: &mut dyn FnMut(&mut Lab) -> Result<ChangeProgress, E>,
    ) -> Result<Vec<Vec<StreamedFlow>>, E> {
        let wanted = stream.probes.iter().map(|probe| self.wanted(probe)).collect::<Result<Vec<_>, _>>()?;
        self.prepare(stream, &wanted)?;
        let mut followed = Followed::without_paths();
        let mut starts: Vec<Start> = Vec::new();
        // Those for which a process holds a socket.
        let mut open: Vec<usize> = Vec::new();
        let begin = Instant::now();
        // Probes take turns; however low the rate, each has its first flow in time.
        let round = stream.interval().min(stream.before + stream.after);
        let mut next: Vec<Instant> =
            (0..wanted.len()).map(|index| begin + round * index as u32 / wanted.len() as u32).collect();
        let mut changed: Option<(Instant, ChangeProgress)> = None;
        loop {
            Limit::check(self.limit)?;
            match &mut changed {
                None if begin.elapsed() >= stream.before => {
                    let now = Instant::now();
                    changed = Some((now, change(self.lab)?));
                }
                Some((at, _)) if at.elapsed() >= stream.after => break,
                Some((_, progress)) if *progress == ChangeProgress::UnderWay => *progress = change(self.lab)?,
                _ => {}
            }
            for (probe, next) in next.iter_mut().enumerate() {
                let at = Instant::now();
                if *next > at {
                    continue;
                }
                if !matches!(wanted[probe].sender, Sender::Wire(_)) {
                    open.push(starts.len());
                }
                followed.add(self.begin(&wanted[probe])?);
                starts.push(Start { probe, at });
                while *next <= at {
                    *next += stream.interval();
                }
            }
            let packets = self.look(&mut followed)?;
            // A socket whose flow is answered or rejected, or has waited for too long, is closed.
            open.retain(|flow| {
                let is_over = followed.is_decided(*flow) || starts[*flow].at.elapsed() >= PATIENCE;
                if is_over {
                    followed.close(*flow);
                }
                !is_over
            });
            let due = next.iter().min().map(|next| next.saturating_duration_since(Instant::now())).unwrap_or_default();
            if packets == 0 && !due.is_zero() {
                std::thread::sleep(due.min(NAP));
            }
        }
        self.until_quiet(|prober| prober.look(&mut followed))?;
        let changed = changed.map_or(begin, |(at, _)| at);
        let mut flows: Vec<Vec<StreamedFlow>> = vec![Vec::new(); wanted.len()];
        for (Start { probe, at }, seen) in starts.iter().zip(followed.finish()) {
            let from_change = if *at >= changed { 1.0 } else { -1.0 } * abs_diff(*at, changed).as_secs_f64();
            flows[*probe].push(StreamedFlow { at: from_change, seen });
        }
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
}

fn abs_diff(one: Instant, other: Instant) -> Duration {
    one.saturating_duration_since(other) + other.saturating_duration_since(one)
}

/// Makes sure that the sender was not kept from sending: a pause of the sender would look like a pause of the traffic.
fn check_pace(stream: &Stream<'_>, flows: &[StreamedFlow]) -> Result<(), ProbeError> {
    let planned = flows_at_rate(stream.rate, stream.before + stream.after);
    let longest = flows.windows(2).map(|pair| pair[1].at - pair[0].at).fold(0.0, f64::max);
    let pause = Duration::try_from_secs_f64(longest).unwrap_or_default();
    let allowed = LONGEST_PAUSE.max(stream.interval() * MOST_INTERVALS);
    if (flows.len() as f64) < ENOUGH * planned as f64 || pause > allowed {
        return Err(ProbeError::Starved { sent: flows.len() as u64, planned, rate: stream.rate, pause });
    }
    Ok(())
}
