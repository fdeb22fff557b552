//! Barrier frames, which show that no packet is in flight.
//!
//! A packet that crosses a veth pair, the loopback or a bridge is queued in the backlog of the CPU that sent it, and the backlog is
//! processed in order. A lab sends everything from one CPU, and a barrier covers one CPU. When a barrier frame that was queued after a
//! packet arrives, the packet has moved one hop on or is gone. Between two taps a packet waits in at most three queues, so after six
//! barrier frames in a row without a packet at any tap, no packet is in flight.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::{Pid, getpid};

use super::channel::Channel;
use super::namespaces::Namespace;
use super::{LabError, filter};
use crate::kernel::patience;
use crate::topology::LOOPBACK;

/// The EtherType of barrier frames: the first one reserved for local experiments (IEEE 802).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
/// The number of polls for a barrier frame before the thread waits for it: it usually arrives at once.
const SPINS: u32 = 50;
/// The time after which the kernel is considered stuck.
const PATIENCE: Duration = Duration::from_secs(5);

/// When a barrier frame came back, since 1970.
struct Arrival {
    /// When the kernel received it, or when it was read.
    stamp: Duration,
    /// Just before it was read.
    read: Duration,
}

/// A sender of barrier frames through the backlog of one CPU. Only a thread that is bound to this CPU may use it.
pub(crate) struct Barrier {
    channel: Channel,
    cpu: usize,
}

impl Barrier {
    /// Opens the channel for barrier frames on the loopback, which must be up.
    pub(super) fn open(namespace: &Namespace, cpu: usize) -> Result<Self, LabError> {
        let channel = Channel::open(namespace, LOOPBACK)?;
        // The frames of barriers of other CPUs would fill the receive buffer.
        filter::attach(&channel, &filter::processed_by(cpu))?;
        Ok(Self { channel, cpu })
    }

    /// The CPU whose backlog the frames pass through.
    pub(crate) fn cpu(&self) -> usize {
        self.cpu
    }

    /// Consumes the barrier and returns its channel, which the caller closes.
    pub(crate) fn into_channel(self) -> Channel {
        self.channel
    }

    /// Waits until everything queued so far has been processed.
    ///
    /// # Errors
    ///
    /// [`LabError::Stalled`] when the barrier frame does not arrive within five seconds.
    pub(crate) fn pass(&mut self) -> Result<(), LabError> {
        self.arrival().map(drop)
    }

    /// Waits until the kernel stamps packets on arrival. The kernel enables this in a kernel worker, which may run late on a busy machine;
    /// until then a packet gets the time at which it is read, and the place whose tap is read last seems to be the last on the path.
    ///
    /// # Errors
    ///
    /// [`LabError::Stalled`] when stamping does not start in time, and the errors of [`Self::pass`].
    pub(super) fn wait_for_stamps(&mut self) -> Result<(), LabError> {
        let begin = Instant::now();
        while begin.elapsed() < patience(PATIENCE) {
            let Arrival { stamp, read } = self.arrival()?;
            if stamp < read {
                return Ok(());
            }
            std::thread::yield_now();
        }
        Err(LabError::Stalled {
            millis: patience(PATIENCE).as_millis(),
            what: "the kernel did not start to time-stamp packets".to_owned(),
        })
    }

    /// Sends a barrier frame and waits until it arrives.
    fn arrival(&mut self) -> Result<Arrival, LabError> {
        // Barriers receive each other's frames, so no two frames are equal.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut frame = [0; 60];
        frame[12..14].copy_from_slice(&ETHERTYPE);
        frame[14..22].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        let mut buffer = [0; 64];
        // Other barriers of this CPU may have filled the receive buffer with their frames.
        while self.channel.receive(&mut buffer)?.is_some() {}
        self.channel.send(&frame)?;
        let begin = Instant::now();
        let mut looks = 0;
        while begin.elapsed() < patience(PATIENCE) {
            let read = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            match self.channel.receive(&mut buffer)? {
                Some(seen) if !seen.outgoing && buffer[12..22] == frame[12..22] => {
                    return Ok(Arrival { stamp: seen.time, read });
                }
                Some(_) => {}
                None if looks < SPINS => {
                    looks += 1;
                    std::thread::yield_now();
                }
                // The kernel may have deferred its work to ksoftirqd, which needs this CPU.
                None => self.channel.wait()?,
            }
        }
        Err(LabError::Stalled {
            millis: patience(PATIENCE).as_millis(),
            what: format!("the backlog of CPU {} was not processed", self.cpu),
        })
    }
}

/// Lets the calling thread run on all CPUs that the process may use, regardless of what its parent thread is bound to.
pub(crate) fn leave_cpu() -> nix::Result<()> {
    // The main thread of the process is never bound to a CPU, because labs have threads of their own.
    let allowed = sched_getaffinity(getpid())?;
    sched_setaffinity(Pid::from_raw(0), &allowed)
}

/// The CPUs that the process may use.
pub(crate) fn allowed_cpus() -> nix::Result<Vec<usize>> {
    sched_getaffinity(getpid()).map(|allowed| cpus_of(&allowed))
}

/// The CPUs that the calling thread may use.
pub(super) fn allowed_to_thread() -> nix::Result<Vec<usize>> {
    sched_getaffinity(Pid::from_raw(0)).map(|allowed| cpus_of(&allowed))
}

/// The CPUs of a set.
pub(super) fn cpus_of(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

/// Binds the calling thread to one of the CPUs that it may run on, and returns that CPU; labs use the CPUs in turn.
pub(super) fn stay_on_one_cpu() -> nix::Result<usize> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let cpus = cpus_of(&sched_getaffinity(Pid::from_raw(0))?);
    let pick = NEXT.fetch_add(1, Ordering::Relaxed).checked_rem(cpus.len()).unwrap_or_default();
    let cpu = *cpus.get(pick).ok_or(Errno::EINVAL)?;
    stay_on(cpu)?;
    Ok(cpu)
}

/// Binds the calling thread to a CPU.
pub(crate) fn stay_on(cpu: usize) -> nix::Result<()> {
    let mut one = CpuSet::new();
    one.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &one)
}
