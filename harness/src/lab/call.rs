//! Runs a program with limits on its time and output.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::kernel::patience;

/// The folders of system administration programs, which users often do not have in `PATH`.
pub(super) const ADMINISTRATORS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The time that a program may take in addition to the time for its input: many times the longest call seen on a busy machine. On an
/// emulated kernel, all times are longer: see [`patience`].
const TIME: Duration = Duration::from_secs(60);
/// The least input rate, in bytes per second, that a program must keep up with. iptables-restore manages 10 MB/s and more.
const BYTES_PER_SECOND: u64 = 100 << 10;
/// The maximum size of standard output in bytes. The rules of a node with 10,000 services take 20 MB.
const RESULT: usize = 256 << 20;
/// The maximum size of standard error in bytes.
const MESSAGES: usize = 1 << 20;
/// The number of bytes of the error output that messages quote.
const QUOTED: usize = 400;
/// The longest wait between two checks whether a program that keeps its output open has exited.
const LOOK: Duration = Duration::from_millis(50);
/// The first such wait.
const FIRST_LOOK: Duration = Duration::from_micros(100);

/// The limits of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Run time.
    pub(super) time: Duration,
    /// Bytes on standard output.
    pub(super) result: usize,
    /// Bytes on standard error.
    pub(super) messages: usize,
}

impl Limits {
    /// The limits of a program with this many bytes of input.
    pub(super) fn of(input: &[u8]) -> Self {
        let time = TIME + Duration::from_secs(input.len() as u64 / BYTES_PER_SECOND);
        Self { time: patience(time), result: RESULT, messages: MESSAGES }
    }
}

/// The reason why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// The program could not be started, or its output could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The program took too long and was killed.
    #[error("still running after {} s, so it was killed; {}", .limit.as_secs(), last_output(.said))]
    TooLong {
        /// The time limit.
        limit: Duration,
        /// The end of what it wrote to standard error.
        said: String,
    },
    /// The program wrote too much and was killed.
    #[error("wrote more than {} MiB, so it was killed; {}", .limit >> 20, last_output(.said))]
    TooMuch {
        /// The output limit, in bytes.
        limit: usize,
        /// The end of what it wrote to standard error.
        said: String,
    },
}

fn last_output(said: &str) -> String {
    if said.is_empty() { "it printed no error".to_owned() } else { format!("its last output: {said}") }
}

/// Runs a program with an input and waits until it exits or exceeds a limit. The program gets its own process group, which is killed when
/// the program exceeds a limit, or has exited while a child still holds its output open.
///
/// # Errors
///
/// See [`CallError`]. The caller checks the exit status.
pub(super) fn call(command: &mut Command, input: &[u8], limits: Limits) -> Result<Output, CallError> {
    let deadline = Instant::now() + limits.time;
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::of(piped.process_group(0).spawn()?, input)?;
    let ended = running.follow(limits, deadline);
    if !matches!(ended, Ok(End::Silent)) {
        running.kill_group();
    }
    let status = running.child.wait()?;
    let said = last_words(&running.messages.bytes);
    match ended? {
        End::Silent | End::Ended => Ok(Output { status, stdout: running.result.bytes, stderr: running.messages.bytes }),
        End::TooLong => Err(CallError::TooLong { limit: limits.time, said }),
        End::TooMuch(limit) => Err(CallError::TooMuch { limit, said }),
    }
}

/// The reason to stop reading the output of a program.
enum End {
    /// The program has exited, and its output is closed.
    Silent,
    /// The program has exited, but a child still holds its output open.
    Ended,
    TooLong,
    TooMuch(usize),
}

/// A running program.
struct Running<'i> {
    child: Child,
    /// The input that it has not read yet; `None` once it has closed its standard input.
    input: Option<(ChildStdin, &'i [u8])>,
    result: Reader<ChildStdout>,
    messages: Reader<ChildStderr>,
}

/// One of a program's outputs.
struct Reader<P> {
    /// The pipe, or `None` if it is closed.
    pipe: Option<P>,
    bytes: Vec<u8>,
}

impl<'i> Running<'i> {
    fn of(mut child: Child, input: &'i [u8]) -> io::Result<Self> {
        let stdin = child.stdin.take();
        let result = Reader { pipe: child.stdout.take(), bytes: Vec::new() };
        let messages = Reader { pipe: child.stderr.take(), bytes: Vec::new() };
        let ends = [stdin.as_ref().map(AsFd::as_fd), result.fd(), messages.fd()];
        ends.into_iter().flatten().try_for_each(never_wait)?;
        Ok(Self { child, input: stdin.map(|stdin| (stdin, input)), result, messages })
    }

    /// Writes a program's input and reads its output until it exits or exceeds a limit.
    fn follow(&mut self, limits: Limits, deadline: Instant) -> io::Result<End> {
        let (mut look, mut was_silent) = (FIRST_LOOK, false);
        loop {
            let has_ended = self.has_ended()?;
            self.feed();
            // All that it wrote before it exited has arrived by now.
            let count = self.result.read_available(limits.result)? + self.messages.read_available(limits.messages)?;
            for (bytes, limit) in [(&self.result.bytes, limits.result), (&self.messages.bytes, limits.messages)] {
                if bytes.len() > limit {
                    return Ok(End::TooMuch(limit));
                }
            }
            let is_silent = self.result.pipe.is_none() && self.messages.pipe.is_none();
            match (has_ended, is_silent) {
                (true, true) => return Ok(End::Silent),
                (true, false) if count == 0 => return Ok(End::Ended),
                _ => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(End::TooLong);
            }
            // A program that has closed its output is about to exit.
            look = if is_silent && !was_silent { FIRST_LOOK } else { (look * 2).min(LOOK) };
            was_silent = is_silent;
            self.wait(left.min(look))?;
        }
    }

    /// Waits briefly until something can be read or written: the pipes do not show that a program has exited while other processes hold
    /// them open.
    fn wait(&self, longest: Duration) -> io::Result<()> {
        let input = self.input.as_ref().map(|(stdin, _)| PollFd::new(stdin.as_fd(), PollFlags::POLLOUT));
        let outputs = [self.result.fd(), self.messages.fd()].into_iter().flatten();
        let outputs = outputs.map(|pipe| PollFd::new(pipe, PollFlags::POLLIN));
        let mut all: Vec<PollFd<'_>> = input.into_iter().chain(outputs).collect();
        if all.is_empty() {
            thread::sleep(longest);
            return Ok(());
        }
        let timeout = PollTimeout::try_from(longest.max(Duration::from_millis(1))).unwrap_or(PollTimeout::MAX);
        match poll(&mut all, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the program has exited. Its PID remains reserved until the program is waited for.
    fn has_ended(&self) -> io::Result<bool> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(self.pid()), flags) {
            Ok(status) => Ok(status != WaitStatus::StillAlive),
            Err(Errno::EINTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes as much input as the program takes. A program that rejects its input may close it early; then its own error message is more
    /// useful than a write error.
    fn feed(&mut self) {
        while let Some((stdin, rest)) = &mut self.input {
            match stdin.write(rest) {
                Ok(count) if count < rest.len() => *rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => self.input = None,
            }
        }
    }

    fn kill_group(&self) {
        // It may have exited in the meantime.
        let _ = killpg(self.pid(), Signal::SIGKILL);
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }
}

impl<P: Read + AsFd> Reader<P> {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads what is available, up to slightly more than the limit, and returns the number of bytes.
    fn read_available(&mut self, limit: usize) -> io::Result<usize> {
        let before = self.bytes.len();
        let mut buffer = [0; 1 << 14];
        while let Some(pipe) = self.pipe.as_mut().filter(|_| self.bytes.len() <= limit) {
            match pipe.read(&mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => self.bytes.extend(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.bytes.len() - before)
    }
}

fn never_wait(pipe: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(pipe, FcntlArg::F_GETFL)?);
    fcntl(pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// The last lines of a text, as many as are short enough to quote, or the end of a longer line.
fn last_words(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(4 * QUOTED)..]).into_owned();
    let text = text.trim();
    let start = text.char_indices().rev().take(QUOTED).last().map_or(0, |(start, _)| start);
    let start = text[start..].find('\n').filter(|_| start > 0).map_or(start, |end| start + end + 1);
    text[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const LIMITS: Limits = Limits { time: Duration::from_secs(600), result: 1 << 20, messages: 1 << 20 };

    fn shell(script: &str, input: &[u8], limits: Limits) -> Result<Output, CallError> {
        call(Command::new("/bin/sh").args(["-c", script]), input, limits)
    }

    #[test]
    fn what_a_program_reads_and_writes_is_all_there() {
        let input = vec![b'x'; 3 << 20];
        let limits = Limits { result: 4 << 20, ..LIMITS };
        let output = shell("cat; echo done >&2; exit 7", &input, limits).expect("it ends");
        assert_eq!((output.stdout, output.stderr.as_slice()), (input, b"done\n".as_slice()));
        assert_eq!(output.status.code(), Some(7));
    }

    #[test]
    fn a_program_that_reads_nothing_is_no_failure() {
        let output = shell("exec <&-; exit 3", &vec![0; 3 << 20], LIMITS).expect("it ends");
        assert_eq!(output.status.code(), Some(3));
    }

    #[rstest]
    #[case::as_a_program("echo why >&2; exec sleep 1000")]
    #[case::as_a_child("echo why >&2; sleep 1000")]
    #[case::without_its_output("echo why >&2; exec sleep 1000 >&- 2>&-")]
    fn one_that_hangs_is_killed(#[case] script: &str) {
        let limits = Limits { time: Duration::from_millis(300), ..LIMITS };
        let error = shell(script, b"", limits).expect_err("it hangs");
        assert_eq!(error.to_string(), "still running after 0 s, so it was killed; its last output: why");
    }

    #[rstest]
    #[case::messages("while :; do echo again and again; done >&2", "its last output: again")]
    #[case::result("while :; do echo again and again; done", "it printed no error")]
    fn one_that_floods_is_killed(#[case] script: &str, #[case] said: &str) {
        let error = shell(script, b"", LIMITS).expect_err("it never ends");
        assert!(matches!(error, CallError::TooMuch { limit: 1_048_576, .. }), "{error}");
        let error = error.to_string();
        assert!(error.starts_with("wrote more than 1 MiB, so it was killed; ") && error.contains(said), "{error}");
    }

    /// Its exit status is reported, and its children are killed.
    #[test]
    fn one_that_leaves_children_is_not_waited_for() {
        let output = shell("sleep 1000 & echo $!; exit 5", b"", LIMITS).expect("it ends");
        assert_eq!(output.status.code(), Some(5));
        let child = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let state = || std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        while !state().is_empty() && !state().contains(") Z ") {
            thread::yield_now();
        }
    }

    #[rstest]
    #[case::nothing("", "")]
    #[case::short("one\ntwo\n", "one\ntwo")]
    #[case::long_line(&"x".repeat(1000), &"x".repeat(400))]
    #[case::many_lines(&"four\n".repeat(1000), &"four\n".repeat(80)[..399])]
    fn the_last_words_are_short(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(last_words(text.as_bytes()), expected);
    }
}
