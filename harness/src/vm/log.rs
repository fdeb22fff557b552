//! What a machine's kernel logs on its console, and how a machine ended by that.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::time::Duration;

use super::guest::COMPLAINT;

/// The most bytes that are read of a log: its end.
const READ: u64 = 64 << 10;
/// The lines of a log that are shown.
const SHOWN: usize = 20;

/// The log of a machine that runs, and what qemu says. Both are files without a name.
#[derive(Debug)]
pub(crate) struct Log {
    console: File,
    messages: File,
}

impl Log {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { console: tempfile::tempfile()?, messages: tempfile::tempfile()? })
    }

    pub(super) fn console(&self) -> &File {
        &self.console
    }

    pub(super) fn messages(&self) -> io::Result<Stdio> {
        Ok(self.messages.try_clone()?.into())
    }

    /// Whether the machine has written anything.
    pub(super) fn has_started(&self) -> bool {
        self.console.metadata().is_ok_and(|found| found.len() > 0)
    }

    /// How a machine ended, whose qemu ended by this signal, if by any.
    pub(crate) fn ending(&self, signal: Option<i32>) -> Ending {
        let ending = Ending::of(&end_of(&self.console), &end_of(&self.messages));
        match (signal, &ending.cause) {
            (Some(signal), Cause::NotStarted | Cause::Unknown) => Ending { cause: Cause::QemuKilled(signal), ..ending },
            _ => ending,
        }
    }
}

fn end_of(file: &File) -> String {
    let length = file.metadata().map_or(0, |found| found.len());
    let mut bytes = vec![0; length.min(READ) as usize];
    // What cannot be read is missing in a message, which is there for another reason.
    let read = file.read_exact_at(&mut bytes, length.saturating_sub(READ));
    read.map(|()| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// How a machine ended, with the end of its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) cause: Cause,
    /// The last lines of the log.
    lines: Vec<String>,
}

/// Why a machine ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A warning of the kernel, with its first line.
    Warning(String),
    /// An oops.
    Oops(String),
    /// A task, or a processor, that hangs.
    Hang(String),
    /// Any other panic.
    Panic(String),
    /// svclab was killed in it, by this signal.
    Killed(i32),
    /// It has too little memory.
    OutOfMemory,
    /// The kernel unpacks no initial file system, or does not start it.
    NoInit,
    /// svclab could not make it ready, and says why.
    NotReady(String),
    /// qemu says why.
    Qemu(String),
    /// qemu was ended by this signal.
    QemuKilled(i32),
    /// It ended before its kernel logged anything.
    NotStarted,
    /// It ended without saying why.
    Unknown,
    /// It has not ended, and not responded for this time.
    Silent(Duration),
}

impl Ending {
    /// How a machine that wrote this log ended.
    pub(super) fn of(console: &str, messages: &str) -> Self {
        let lines: Vec<&str> =
            console.lines().map(|line| line.trim_end_matches('\r')).filter(|line| !line.is_empty()).collect();
        let (cause, shown) = match cause(&lines) {
            Some((cause, at)) => (cause, excerpt(&lines, at)),
            None => {
                let said = messages.lines().rfind(|line| !line.contains("terminating on signal"));
                let quiet = if lines.is_empty() { Cause::NotStarted } else { Cause::Unknown };
                let cause = said.map_or(quiet, |said| Cause::Qemu(said.to_owned()));
                (cause, &lines[lines.len().saturating_sub(SHOWN)..])
            }
        };
        Self { cause, lines: shown.iter().map(|line| (*line).to_owned()).collect() }
    }

    /// The same of a machine that was still there, and had not responded for this time: only its log counts.
    pub(crate) fn or_silent(mut self, time: Duration) -> Self {
        if matches!(self.cause, Cause::Unknown | Cause::NotStarted | Cause::Qemu(_) | Cause::QemuKilled(_)) {
            self.cause = Cause::Silent(time);
        }
        self
    }
}

/// The lines around one that shows a cause: some before it, and the trace behind it.
fn excerpt<'l, 't>(lines: &'l [&'t str], at: usize) -> &'l [&'t str] {
    let start = at.saturating_sub(SHOWN / 2);
    &lines[start..lines.len().min(start + SHOWN)]
}

/// What starts lines that show a cause, before the panic that follows from it.
const WARNINGS: &[&str] = &["WARNING: "];
const TASKS: &[&str] = &["INFO: task "];
const PROCESSORS: &[&str] = &["watchdog: BUG: "];
const OOPSES: &[&str] = &[
    "BUG: ",
    "Oops: ",
    "general protection fault",
    "kernel BUG at",
    "invalid opcode",
    "divide error",
    "stack segment",
];
/// How the panic starts where memory is short.
const OUT_OF_MEMORY: [&str; 2] = ["Out of memory", "System is deadlocked on memory"];
const PANIC: &str = "Kernel panic - not syncing: ";
/// How the panic starts where the kernel finds nothing to start.
const WITHOUT_INIT: [&str; 3] = ["VFS: ", "No working init", "Requested init"];

/// The cause in a log, and the line that shows it: what stands first, for what comes later follows from it.
fn cause(lines: &[&str]) -> Option<(Cause, usize)> {
    let first =
        |starts: &[&str]| lines.iter().position(|line| starts.iter().any(|start| message(line).starts_with(start)));
    if let Some((at, complaint)) =
        lines.iter().enumerate().rev().find_map(|(at, line)| Some((at, line.strip_prefix(COMPLAINT)?)))
    {
        return Some((Cause::NotReady(complaint.to_owned()), at));
    }
    let at = first(&[PANIC])?;
    let why = &message(lines[at])[PANIC.len()..];
    let shown_by = |starts: &[&str], cause: fn(String) -> Cause| {
        let at = first(starts).unwrap_or(at);
        (cause(message(lines[at]).to_owned()), at)
    };
    Some(match why {
        _ if why.contains("panic_on_warn") => shown_by(WARNINGS, Cause::Warning),
        _ if why.starts_with("hung_task") => shown_by(TASKS, Cause::Hang),
        _ if why.starts_with("softlockup") => shown_by(PROCESSORS, Cause::Hang),
        _ if OUT_OF_MEMORY.iter().any(|start| why.starts_with(start)) => (Cause::OutOfMemory, at),
        _ if WITHOUT_INIT.iter().any(|start| why.starts_with(start)) => (Cause::NoInit, at),
        _ => match signal_of_init(why) {
            Some(signal) => (Cause::Killed(signal), at),
            None if first(OOPSES).is_some() => shown_by(OOPSES, Cause::Oops),
            None => (Cause::Panic(why.to_owned()), at),
        },
    })
}

/// The signal that killed the first process, where that is why the kernel panicked.
fn signal_of_init(why: &str) -> Option<i32> {
    let (_, status) = why.split_once("Attempted to kill init! exitcode=0x")?;
    let signal = i32::from_str_radix(status.trim(), 16).ok()? & 0x7f;
    (signal != 0).then_some(signal)
}

/// A line of the log without its time: `[    3.106990] `.
fn message(line: &str) -> &str {
    let timed = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    timed
        .filter(|(time, _)| time.trim().starts_with(|digit: char| digit.is_ascii_digit()))
        .map_or(line, |(_, rest)| rest)
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Warning(line) => write!(f, "the kernel logged a warning: {line}")?,
            Cause::Oops(line) => write!(f, "the kernel had an oops: {line}")?,
            Cause::Hang(line) => write!(f, "the kernel hangs: {line}")?,
            Cause::Panic(why) => write!(f, "the kernel panicked: {why}")?,
            Cause::Killed(signal) => write!(f, "svclab was killed in the machine by signal {signal}")?,
            Cause::OutOfMemory => f.write_str("the machine ran out of memory")?,
            Cause::NoInit => f.write_str("the kernel does not start from an initial file system")?,
            Cause::NotReady(why) => write!(f, "the machine could not be made ready: {why}")?,
            Cause::Qemu(said) => write!(f, "the machine ended: {said}")?,
            Cause::QemuKilled(signal) => write!(f, "qemu was killed by signal {signal}")?,
            Cause::NotStarted => f.write_str("the machine ended before its kernel started")?,
            Cause::Unknown => f.write_str("the machine ended without a message")?,
            Cause::Silent(time) => write!(f, "the machine did not respond for {} s", time.as_secs())?,
        }
        match self.lines.as_slice() {
            [] => f.write_str("\nits kernel logged nothing"),
            lines => write!(f, "\nthe end of its kernel's log:\n  {}", lines.join("\n  ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const PANICKED: &str = "[    9.1] Kernel panic - not syncing: ";

    fn ending(log: &str) -> Ending {
        Ending::of(log, "")
    }

    #[rstest]
    #[case::warning(
        "[    8.9] ------------[ cut here ]------------\r\n[    8.9] WARNING: CPU: 0 PID: 7 at net/core/dev.c:1 f+0x1/0x2 [veth]\n",
        "kernel: panic_on_warn set ...",
        Cause::Warning("WARNING: CPU: 0 PID: 7 at net/core/dev.c:1 f+0x1/0x2 [veth]".to_owned())
    )]
    #[case::oops(
        "[    8.9] BUG: kernel NULL pointer dereference, address: 0000000000000008\n[    8.9] Oops: 0000 [#1] PREEMPT SMP\n",
        "Fatal exception in interrupt",
        Cause::Oops("BUG: kernel NULL pointer dereference, address: 0000000000000008".to_owned())
    )]
    #[case::hung_task(
        "[  250.0] INFO: task svclab-worker:1 blocked for more than 120 seconds.\n",
        "hung_task: blocked tasks",
        Cause::Hang("INFO: task svclab-worker:1 blocked for more than 120 seconds.".to_owned())
    )]
    #[case::hung_processor(
        "[   50.0] watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [nft:9]\n",
        "softlockup: hung tasks",
        Cause::Hang("watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [nft:9]".to_owned())
    )]
    #[case::memory("", "System is deadlocked on memory", Cause::OutOfMemory)]
    #[case::memory_error("", "Fatal hardware memory error", Cause::Panic("Fatal hardware memory error".to_owned()))]
    #[case::no_init("", "VFS: Unable to mount root fs on unknown-block(0,0)", Cause::NoInit)]
    #[case::killed("", "Attempted to kill init! exitcode=0x00000006", Cause::Killed(6))]
    #[case::exited("", "Attempted to kill init! exitcode=0x00000200", Cause::Panic("Attempted to kill init! exitcode=0x00000200".to_owned()))]
    #[case::other("", "IO-APIC + timer doesn't work!", Cause::Panic("IO-APIC + timer doesn't work!".to_owned()))]
    fn causes_are_told_apart(#[case] before: &str, #[case] why: &str, #[case] expected: Cause) {
        assert_eq!(ending(&format!("{before}{PANICKED}{why}\n")).cause, expected);
    }

    #[test]
    fn what_svclab_says_in_the_machine_counts_most() {
        let log =
            format!("{COMPLAINT}loading the module veth: exec format error\n[    2.0] reboot: Restarting system\n");
        assert_eq!(ending(&log).cause, Cause::NotReady("loading the module veth: exec format error".to_owned()));
    }

    #[test]
    fn without_a_word_of_the_kernel_that_of_qemu_counts() {
        let ended = Ending::of("[    0.1] Linux version 6.1.0\n", "qemu: cannot set up guest memory\n");
        assert_eq!(ended.cause, Cause::Qemu("qemu: cannot set up guest memory".to_owned()));
        let time = Duration::from_secs(90);
        assert_eq!(ended.or_silent(time).cause, Cause::Silent(time));
        assert_eq!(Ending::of("", "").cause, Cause::NotStarted);
        assert_eq!(Ending::of("[    0.1] Linux version 6.1.0\n", "").cause, Cause::Unknown);
    }

    #[test]
    fn a_machine_that_something_ended_says_so() {
        let log = Log::new().expect("files");
        assert_eq!(log.ending(Some(9)).to_string(), "qemu was killed by signal 9\nits kernel logged nothing");
        assert_eq!(
            log.ending(None).to_string(),
            "the machine ended before its kernel started\nits kernel logged nothing"
        );
    }

    #[test]
    fn lines_around_the_cause_are_shown() {
        let lines =
            |count: usize, word: &str| (0..count).map(|number| format!("{word} {number}\n")).collect::<String>();
        let log = format!("{}{PANICKED}why\n{}", lines(30, "before"), lines(30, "trace"));
        let shown = ending(&log);
        assert_eq!(shown.lines.len(), SHOWN);
        assert_eq!(
            (shown.lines[0].as_str(), shown.lines[10].as_str()),
            ("before 20", "[    9.1] Kernel panic - not syncing: why")
        );
        assert!(shown.to_string().starts_with("the kernel panicked: why\nthe end of its kernel's log:\n  before 20\n"));
    }
}
