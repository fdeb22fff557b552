//! Timeouts of workers.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::text;

/// The maximum time without a sign of life. A worker gives five per second, so after this time it is stopped or frozen.
pub(super) const SILENCE: Duration = Duration::from_secs(30);

/// The same for a worker whose emulated kernel boots first, which takes some 6 s on an idle host. With KVM it takes less than 2 s.
pub(super) const BOOT: Duration = Duration::from_secs(90);

/// The grace period after the limit of a task, in which flows in flight are awaited and artifacts are collected.
const GRACE: Duration = Duration::from_secs(10);

/// The longest single wait. Only waits are counted, each at most this long, so that the time in which svclab itself is stopped (Ctrl-Z)
/// does not count.
const WAIT: Duration = Duration::from_millis(500);

/// The patience with a worker.
#[derive(Debug)]
pub(crate) struct WorkerTimeout {
    /// The waits without a sign of life, the time that they took, and the maximum.
    silent: Duration,
    elapsed: Duration,
    silence: Duration,
    /// The process, and how long it had waited for a CPU at its last sign of life, once that has been read.
    process: u32,
    starved: Option<Duration>,
    /// The limit of the task that is running, and the time since it started.
    task: Option<(Duration, Duration)>,
}

/// The reason why a worker has timed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TimeoutError {
    /// It gave no sign of life.
    #[error("the worker process of this lab did not respond for {} s, so it was killed", .0.as_secs())]
    Silent(Duration),
    /// Its task took too long, and the worker did not end it.
    #[error("the test took longer than {}; its worker process did not end it within another {} s, so it was killed", text::duration(*limit), grace.as_secs())]
    Overdue {
        /// The limit.
        limit: Duration,
        /// The grace period.
        grace: Duration,
    },
}

impl WorkerTimeout {
    /// Patience with a process whose first sign of life may take this long.
    pub(super) fn with(process: u32, silence: Duration) -> Self {
        Self { silent: Duration::ZERO, elapsed: Duration::ZERO, silence, process, starved: None, task: None }
    }

    /// Records that a task starts, with its time limit, if any.
    pub(crate) fn task_starts(&mut self, limit: Option<Duration>) {
        self.task = limit.map(|limit| (limit, Duration::ZERO));
    }

    /// Records that the task has ended.
    pub(crate) fn task_ended(&mut self) {
        self.task = None;
    }

    /// Records a sign of life.
    pub(super) fn is_alive(&mut self) {
        self.silence = SILENCE;
        self.starts_waiting();
    }

    /// Forgets the waits so far.
    fn starts_waiting(&mut self) {
        (self.silent, self.elapsed, self.starved) = (Duration::ZERO, Duration::ZERO, None);
    }

    /// Adds a wait that took this long; `starved` is how long the process has waited for a CPU so far.
    fn waited(&mut self, elapsed: Duration, starved: Duration) -> Result<(), TimeoutError> {
        let time = elapsed.min(WAIT);
        self.silent += time;
        self.elapsed += elapsed;
        if let Some((limit, taken)) = &mut self.task {
            *taken += time;
            if *taken > limit.saturating_add(GRACE) {
                return Err(TimeoutError::Overdue { limit: *limit, grace: GRACE });
            }
        }
        let of_host = starved.saturating_sub(*self.starved.get_or_insert(starved));
        // On a busy host svclab wakes late as well: what it did not count must not be subtracted.
        if self.silent.min(self.elapsed.saturating_sub(of_host)) > self.silence {
            Err(TimeoutError::Silent(self.silence))
        } else {
            Ok(())
        }
    }

    /// Waits until a pipe is ready.
    fn wait(&mut self, pipe: &impl AsFd, events: PollFlags) -> io::Result<()> {
        let wait = PollTimeout::try_from(WAIT).map_err(io::Error::other)?;
        self.starved.get_or_insert_with(|| waited_for_cpu(self.process));
        loop {
            let begin = Instant::now();
            let ready = match poll(&mut [PollFd::new(pipe.as_fd(), events)], wait) {
                Err(nix::errno::Errno::EINTR) => 0,
                ready => ready?,
            };
            self.waited(begin.elapsed(), waited_for_cpu(self.process)).map_err(io::Error::other)?;
            if ready > 0 {
                return Ok(());
            }
        }
    }
}

/// The longest time that a thread of a process has waited for a CPU: ready to run, but without CPU time because of a busy host or a quota
/// (the second number of `schedstat`). That is not the process's fault, so it does not count. Zero if the kernel does not report it.
fn waited_for_cpu(process: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let waits = threads.filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok());
    let nanoseconds = waits.filter_map(|wait| wait.split_whitespace().nth(1)?.parse().ok());
    Duration::from_nanos(nanoseconds.max().unwrap_or_default())
}

/// Makes this end of a pipe non-blocking, as [`Patient`] requires.
pub(super) fn unblock(pipe: &impl AsFd) -> io::Result<()> {
    fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(())
}

/// A worker's pipe, with timeouts.
pub(super) struct Patient<'p, P> {
    pub(super) pipe: &'p mut P,
    pub(super) patience: &'p mut WorkerTimeout,
}

impl<P: Read + AsFd> Read for Patient<'_, P> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.pipe.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.patience.wait(self.pipe, PollFlags::POLLIN)?;
                }
                read => return read,
            }
        }
    }
}

impl<P: Write + AsFd> Write for Patient<'_, P> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.pipe.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.patience.wait(self.pipe, PollFlags::POLLOUT)?;
                }
                written => {
                    // A worker that accepts an order is alive.
                    self.patience.starts_waiting();
                    return written;
                }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pipe.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: Duration = Duration::ZERO;
    const MOMENT: Duration = Duration::from_millis(1);

    fn patience() -> WorkerTimeout {
        WorkerTimeout::with(std::process::id(), SILENCE)
    }

    /// Waits of this time together.
    fn wait(patience: &mut WorkerTimeout, time: Duration, starved: Duration) -> Result<(), TimeoutError> {
        (0..time.as_millis() / WAIT.as_millis()).try_for_each(|_| patience.waited(WAIT, starved))
    }

    #[test]
    fn silence_ends_patience_and_signs_of_life_restore_it() {
        let mut patience = patience();
        assert_eq!(wait(&mut patience, SILENCE, NEVER), Ok(()));
        patience.is_alive();
        assert_eq!(wait(&mut patience, SILENCE, NEVER), Ok(()));
        assert_eq!(patience.waited(MOMENT, NEVER), Err(TimeoutError::Silent(SILENCE)));
    }

    /// A virtual machine that boots on a busy host makes progress, however slowly.
    #[test]
    fn silence_does_not_count_while_the_host_has_no_cpu() {
        let mut patience = WorkerTimeout::with(std::process::id(), BOOT);
        let before = Duration::from_secs(1000);
        assert_eq!(patience.waited(Duration::ZERO, before), Ok(()));
        assert_eq!(wait(&mut patience, BOOT + BOOT, before + BOOT), Ok(()));
        assert_eq!(patience.waited(MOMENT, before + BOOT), Err(TimeoutError::Silent(BOOT)));
        // Since the last sign of life, the host has had free CPUs.
        patience.is_alive();
        assert_eq!(wait(&mut patience, SILENCE, before + BOOT), Ok(()));
        assert_eq!(patience.waited(MOMENT, before + BOOT), Err(TimeoutError::Silent(SILENCE)));
    }

    /// svclab itself is woken late on a busy host, by 3 s instead of half a second here.
    #[test]
    fn a_hang_is_noticed_on_a_busy_host() {
        let mut patience = patience();
        let starved = |waits: u32| Duration::from_millis(2700) * waits;
        assert_eq!(patience.waited(Duration::ZERO, NEVER), Ok(()));
        for waits in 1..=100 {
            assert_eq!(patience.waited(Duration::from_secs(3), starved(waits)), Ok(()), "{waits}");
        }
        assert_eq!(patience.waited(Duration::from_secs(3), starved(101)), Err(TimeoutError::Silent(SILENCE)));
    }

    #[test]
    fn the_time_in_which_svclab_is_stopped_does_not_count() {
        let mut patience = patience();
        assert_eq!(patience.waited(Duration::from_secs(3600), NEVER), Ok(()));
        assert_eq!(wait(&mut patience, SILENCE, NEVER), Err(TimeoutError::Silent(SILENCE)));
    }

    #[test]
    fn a_process_that_is_gone_has_not_waited_for_a_cpu() {
        // The maximum PID is 4,194,304.
        assert_eq!(waited_for_cpu(u32::MAX), NEVER);
    }

    #[test]
    fn a_task_has_its_limit_and_some_grace_however_alive_its_worker_is() {
        let mut patience = patience();
        let limit = Duration::from_secs(60);
        patience.task_starts(Some(limit));
        for _ in 0..140 {
            assert_eq!(patience.waited(WAIT, NEVER), Ok(()));
            patience.is_alive();
        }
        assert_eq!(patience.waited(WAIT, NEVER), Err(TimeoutError::Overdue { limit, grace: GRACE }));
        patience.task_starts(None);
        patience.is_alive();
        assert_eq!(patience.waited(WAIT, NEVER), Ok(()));
    }

    /// A worker that reads nothing does not block the command, however long the order is.
    #[test]
    fn an_order_that_no_one_reads_is_given_up() {
        let (_reader, mut pipe) = io::pipe().expect("a pipe");
        unblock(&pipe).expect("a pipe");
        let mut patience = WorkerTimeout::with(std::process::id(), WAIT);
        let written = Patient { pipe: &mut pipe, patience: &mut patience }.write_all(&vec![0; 1 << 20]);
        let error = written.expect_err("the pipe is full");
        assert_eq!(error.to_string(), TimeoutError::Silent(WAIT).to_string());
    }
}
