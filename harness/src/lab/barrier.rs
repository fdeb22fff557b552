//! How a lab knows that no packet is under way any more.
//!
//! A packet that crosses a veth pair, the loopback or a bridge is queued in the backlog of the processor that sent it,
//! and the backlog is worked off in order. A lab sends everything from one processor, and a barrier is for one. So when a marker that was queued
//! after a packet comes out, the packet has got one hop further or has ended. Between two taps a packet waits in no more
//! than three queues, so after six markers in a row without any tap seeing a packet, there is none.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::{Pid, getpid};

use super::channel::Channel;
use super::namespaces::Namespace;
use super::{LabError, filter};
use crate::topology::LOOPBACK;

/// EtherType of markers: the first for local experiments (IEEE 802).
const MARKER: [u8; 2] = [0x88, 0xb5];
/// How often is looked for a marker before it is waited for: mostly it is there at once.
const SPINS: u32 = 50;
/// After how long the kernel is taken to be stuck.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends markers through the backlog of one processor. Only a thread that stays there may pass it.
pub(crate) struct Barrier {
    channel: Channel,
    processor: usize,
}

impl Barrier {
    /// Opens the marker's channel on a loopback that is up.
    pub(super) fn open(namespace: &Namespace, processor: usize) -> Result<Self, LabError> {
        let channel = Channel::open(namespace, LOOPBACK)?;
        // The markers of barriers of other processors would take up the room for its own.
        filter::attach(&channel, &filter::worked_off_by(processor))?;
        Ok(Self { channel, processor })
    }

    /// The processor that it is for.
    pub(crate) fn processor(&self) -> usize {
        self.processor
    }

    /// Ends the barrier; its channel is to be closed.
    pub(crate) fn into_channel(self) -> Channel {
        self.channel
    }

    /// Waits until everything that was queued before has been worked off.
    ///
    /// # Errors
    ///
    /// [`LabError::Stalled`] where the marker does not come back within five seconds.
    pub(crate) fn pass(&mut self) -> Result<(), LabError> {
        // Several barriers see each other's markers, so no two are the same.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut marker = [0; 60];
        marker[12..14].copy_from_slice(&MARKER);
        marker[14..22].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        let mut buffer = [0; 64];
        // Other barriers of this processor may have left so many markers here that there is no room for one more.
        while self.channel.receive(&mut buffer)?.is_some() {}
        self.channel.send(&marker)?;
        let begin = Instant::now();
        let mut looks = 0;
        while begin.elapsed() < PATIENCE {
            match self.channel.receive(&mut buffer)? {
                Some(seen) if !seen.outgoing && buffer[12..22] == marker[12..22] => return Ok(()),
                Some(_) => {}
                None if looks < SPINS => {
                    looks += 1;
                    std::thread::yield_now();
                }
                // The kernel may have left its work to a thread of its own, which needs this processor.
                None => self.channel.wait()?,
            }
        }
        Err(LabError::Stalled {
            millis: PATIENCE.as_millis(),
            what: format!("the backlog of processor {}", self.processor),
        })
    }
}

/// Lets the calling thread run on all processors that the process may use, whatever the thread that it was made by is bound to.
pub(super) fn leave_processor() -> nix::Result<()> {
    // The first thread of the process: labs have threads of their own, so it is bound to none.
    let allowed = sched_getaffinity(getpid())?;
    sched_setaffinity(Pid::from_raw(0), &allowed)
}

/// The processors that the process may use.
pub(crate) fn allowed_processors() -> nix::Result<Vec<usize>> {
    sched_getaffinity(getpid()).map(|allowed| processors_of(&allowed))
}

/// The processors of a set.
pub(super) fn processors_of(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

/// Binds the calling thread to one of the processors that it may run on, and tells which; labs take them in turn.
pub(super) fn stay_on_one_processor() -> nix::Result<usize> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let processors = processors_of(&sched_getaffinity(Pid::from_raw(0))?);
    let pick = NEXT.fetch_add(1, Ordering::Relaxed).checked_rem(processors.len()).unwrap_or_default();
    let processor = *processors.get(pick).ok_or(Errno::EINVAL)?;
    stay_on(processor)?;
    Ok(processor)
}

/// Binds the calling thread to a processor.
pub(crate) fn stay_on(processor: usize) -> nix::Result<()> {
    let mut one = CpuSet::new();
    one.set(processor)?;
    sched_setaffinity(Pid::from_raw(0), &one)
}
