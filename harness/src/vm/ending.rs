//! How a machine ended, by the log of its kernel and what qemu says.

use std::fmt;
use std::time::Duration;

use super::guest::COMPLAINT;
use crate::report::Cause;

/// The lines of a log that are shown.
const SHOWN: usize = 20;

/// How a machine ended, with the end of its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) cause: EndingCause,
    /// The last lines of the log.
    lines: Vec<String>,
}

/// Why a machine ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EndingCause {
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
    /// It has not ended, and its kernel has not logged anything for this time.
    NothingLogged(Duration),
}

impl EndingCause {
    /// Whether KVM may be the cause, because the kernel has not logged another one.
    pub(crate) fn may_be_of_accelerator(&self) -> bool {
        match self {
            Self::Hang(_) | Self::Qemu(_) | Self::QemuKilled(_) | Self::NotStarted | Self::Unknown => true,
            Self::Silent(_) | Self::NothingLogged(_) => true,
            Self::Warning(_) | Self::Oops(_) | Self::Panic(_) | Self::Killed(_) => false,
            Self::OutOfMemory | Self::NoInit | Self::NotReady(_) => false,
        }
    }

    /// What kind of error it is, and a sentence that names the fix.
    pub(crate) fn trouble(&self) -> (Cause, &'static str) {
        let help = match self {
            Self::Killed(_) => {
                return (
                    Cause::Internal,
                    "This is a bug in svclab: please report it with the scenario and the kernel's log.",
                );
            }
            Self::Warning(_) | Self::Oops(_) | Self::Panic(_) => {
                "Report it to whoever built the kernel, with the scenario; on another kernel the same scenario may pass."
            }
            Self::Hang(_) | Self::Silent(_) => {
                "Run it again with fewer machines at the same time (`--jobs 1`). If the kernel hangs again, report it to whoever built it."
            }
            Self::OutOfMemory => "Give its machine more memory: `--kernel-memory 1024`.",
            Self::NoInit => "Choose a kernel that is built with CONFIG_BLK_DEV_INITRD and CONFIG_BINFMT_ELF.",
            Self::NotReady(_) => {
                "Choose a kernel with CONFIG_DEVTMPFS, CONFIG_VIRTIO_CONSOLE and netfilter, whose modules belong to it."
            }
            Self::Qemu(_) => "Look at what qemu says; a newer qemu, or less memory (`--kernel-memory`), may help.",
            Self::QemuKilled(_) => {
                "Run it again: something outside of svclab has ended qemu. Look in `dmesg` for \"Out of memory\"."
            }
            Self::NotStarted | Self::NothingLogged(_) => {
                "Compare the kernel image with the one that its package has: it may be damaged, or built without CONFIG_SERIAL_8250_CONSOLE."
            }
            Self::Unknown => "Run it again; if it ends again, report it with the kernel's package.",
        };
        (Cause::Environment, help)
    }
}

impl Ending {
    /// How a machine that wrote this log ended.
    pub(super) fn of(console: &str, messages: &str) -> Self {
        let lines = lines(console);
        Self::with(&lines, cause(&lines), || {
            let said = messages.lines().rfind(|line| !line.contains("terminating on signal"));
            let quiet = if lines.is_empty() { EndingCause::NotStarted } else { EndingCause::Unknown };
            said.map_or(quiet, |said| EndingCause::Qemu(said.to_owned()))
        })
    }

    /// What became of a machine that wrote this log, is still there, and has not responded for this time.
    pub(super) fn silent(console: &str, time: Duration) -> Self {
        let lines = lines(console);
        let stuck = || first(&lines, STUCK).map(|at| (EndingCause::Hang(message(lines[at]).to_owned()), at));
        Self::with(&lines, cause(&lines).or_else(stuck), || {
            if lines.is_empty() { EndingCause::NothingLogged(time) } else { EndingCause::Silent(time) }
        })
    }

    /// That with the cause which a line of the log shows, or else another, and the end of the log.
    fn with(lines: &[&str], shown: Option<(EndingCause, usize)>, other: impl FnOnce() -> EndingCause) -> Self {
        let (cause, shown) = match shown {
            Some((cause, at)) => (cause, excerpt(lines, at)),
            None => (other(), &lines[lines.len().saturating_sub(SHOWN)..]),
        };
        Self { cause, lines: shown.iter().map(|line| (*line).to_owned()).collect() }
    }

    /// The same of a machine whose qemu ended by this signal, if by any: it counts where nothing else says why.
    pub(super) fn or_killed(mut self, signal: Option<i32>) -> Self {
        if let Some(signal) = signal
            && matches!(self.cause, EndingCause::NotStarted | EndingCause::Unknown)
        {
            self.cause = EndingCause::QemuKilled(signal);
        }
        self
    }
}

/// The lines of a log that say something.
fn lines(console: &str) -> Vec<&str> {
    console.lines().map(|line| line.trim_end_matches('\r')).filter(|line| !line.is_empty()).collect()
}

/// The first line that starts with one of these.
fn first(lines: &[&str], starts: &[&str]) -> Option<usize> {
    lines.iter().position(|line| starts.iter().any(|start| message(line).starts_with(start)))
}

/// The lines around one that shows a cause: some before it, and the trace after it.
fn excerpt<'l, 't>(lines: &'l [&'t str], at: usize) -> &'l [&'t str] {
    let start = at.saturating_sub(SHOWN / 2);
    &lines[start..lines.len().min(start + SHOWN)]
}

/// What starts lines that show a cause, before the panic that follows from it.
const WARNINGS: &[&str] = &["WARNING: "];
const TASKS: &[&str] = &["INFO: task "];
const PROCESSORS: &[&str] = &["watchdog: BUG: "];
/// The same where the kernel does not panic, as a busy host may have made it wait: then it counts once the machine is silent as well.
const STUCK: &[&str] = &["watchdog: BUG: ", "rcu: INFO: rcu_"];
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
fn cause(lines: &[&str]) -> Option<(EndingCause, usize)> {
    if let Some((at, complaint)) =
        lines.iter().enumerate().rev().find_map(|(at, line)| Some((at, line.strip_prefix(COMPLAINT)?)))
    {
        return Some((EndingCause::NotReady(complaint.to_owned()), at));
    }
    let at = first(lines, &[PANIC])?;
    let why = &message(lines[at])[PANIC.len()..];
    let shown_by = |starts: &[&str], cause: fn(String) -> EndingCause| {
        let at = first(lines, starts).unwrap_or(at);
        (cause(message(lines[at]).to_owned()), at)
    };
    Some(match why {
        _ if why.contains("panic_on_warn") => shown_by(WARNINGS, EndingCause::Warning),
        _ if why.starts_with("hung_task") => shown_by(TASKS, EndingCause::Hang),
        _ if why.starts_with("softlockup") => shown_by(PROCESSORS, EndingCause::Hang),
        _ if OUT_OF_MEMORY.iter().any(|start| why.starts_with(start)) => (EndingCause::OutOfMemory, at),
        _ if WITHOUT_INIT.iter().any(|start| why.starts_with(start)) => (EndingCause::NoInit, at),
        _ => match signal_of_init(why) {
            Some(signal) => (EndingCause::Killed(signal), at),
            None if first(lines, OOPSES).is_some() => shown_by(OOPSES, EndingCause::Oops),
            None => (EndingCause::Panic(why.to_owned()), at),
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

impl fmt::Display for EndingCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Warning(line) => write!(f, "the kernel logged a warning: {line}"),
            Self::Oops(line) => write!(f, "the kernel had an oops: {line}"),
            Self::Hang(line) => write!(f, "the kernel hangs: {line}"),
            Self::Panic(why) => write!(f, "the kernel panicked: {why}"),
            Self::Killed(signal) => write!(f, "svclab was killed in the machine by signal {signal}"),
            Self::OutOfMemory => f.write_str("the machine ran out of memory"),
            Self::NoInit => f.write_str("the kernel does not start from an initial file system"),
            Self::NotReady(why) => write!(f, "the machine could not be made ready: {why}"),
            Self::Qemu(said) => write!(f, "the machine ended: {said}"),
            Self::QemuKilled(signal) => write!(f, "qemu was killed by signal {signal}"),
            Self::NotStarted => f.write_str("the machine ended before its kernel started"),
            Self::Unknown => f.write_str("the machine ended without a message"),
            Self::Silent(time) => write!(f, "the machine did not respond for {} s", time.as_secs()),
            Self::NothingLogged(time) => write!(f, "the kernel did not start within {} s", time.as_secs()),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lines.as_slice() {
            [] => write!(f, "{}\nits kernel logged nothing", self.cause),
            lines => write!(f, "{}\nthe end of its kernel's log:\n  {}", self.cause, lines.join("\n  ")),
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
        EndingCause::Warning("WARNING: CPU: 0 PID: 7 at net/core/dev.c:1 f+0x1/0x2 [veth]".to_owned())
    )]
    #[case::oops(
        "[    8.9] BUG: kernel NULL pointer dereference, address: 0000000000000008\n[    8.9] Oops: 0000 [#1] PREEMPT SMP\n",
        "Fatal exception in interrupt",
        EndingCause::Oops("BUG: kernel NULL pointer dereference, address: 0000000000000008".to_owned())
    )]
    #[case::hung_task(
        "[  250.0] INFO: task svclab-worker:1 blocked for more than 120 seconds.\n",
        "hung_task: blocked tasks",
        EndingCause::Hang("INFO: task svclab-worker:1 blocked for more than 120 seconds.".to_owned())
    )]
    #[case::hung_processor(
        "[   50.0] watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [nft:9]\n",
        "softlockup: hung tasks",
        EndingCause::Hang("watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [nft:9]".to_owned())
    )]
    #[case::memory("", "System is deadlocked on memory", EndingCause::OutOfMemory)]
    #[case::memory_error("", "Fatal hardware memory error", EndingCause::Panic("Fatal hardware memory error".to_owned()))]
    #[case::no_init("", "VFS: Unable to mount root fs on unknown-block(0,0)", EndingCause::NoInit)]
    #[case::killed("", "Attempted to kill init! exitcode=0x00000006", EndingCause::Killed(6))]
    #[case::exited("", "Attempted to kill init! exitcode=0x00000200", EndingCause::Panic("Attempted to kill init! exitcode=0x00000200".to_owned()))]
    #[case::other("", "IO-APIC + timer doesn't work!", EndingCause::Panic("IO-APIC + timer doesn't work!".to_owned()))]
    fn causes_are_told_apart(#[case] before: &str, #[case] why: &str, #[case] expected: EndingCause) {
        assert_eq!(ending(&format!("{before}{PANICKED}{why}\n")).cause, expected);
    }

    #[test]
    fn what_svclab_says_in_the_machine_counts_most() {
        let log =
            format!("{COMPLAINT}loading the module veth: exec format error\n[    2.0] reboot: Restarting system\n");
        assert_eq!(ending(&log).cause, EndingCause::NotReady("loading the module veth: exec format error".to_owned()));
    }

    #[test]
    fn without_a_word_of_the_kernel_that_of_qemu_counts() {
        let ended = Ending::of("[    0.1] Linux version 6.1.0\n", "qemu: cannot set up guest memory\n");
        assert_eq!(ended.cause, EndingCause::Qemu("qemu: cannot set up guest memory".to_owned()));
        assert_eq!(Ending::of("", "").cause, EndingCause::NotStarted);
        assert_eq!(Ending::of("[    0.1] Linux version 6.1.0\n", "").cause, EndingCause::Unknown);
    }

    /// A processor in an endless loop is no panic.
    #[test]
    fn a_machine_that_is_silent_hangs_where_its_log_says_so() {
        let time = Duration::from_secs(30);
        let silent = |console: &str| Ending::silent(console, time).cause;
        assert_eq!(silent(""), EndingCause::NothingLogged(time));
        assert_eq!(silent("[    0.1] Linux version 6.1.0\n"), EndingCause::Silent(time));
        for hangs in [
            "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [svclab:1]",
            "rcu: INFO: rcu_preempt self-detected stall on CPU",
        ] {
            let trace: String = (0..2 * SHOWN).map(|number| format!("[   41.0]  frame {number}\n")).collect();
            let console = format!("[    0.1] Linux version 6.1.0\n[   41.0] {hangs}\n{trace}");
            assert_eq!(silent(&console), EndingCause::Hang(hangs.to_owned()));
            // One that has gone on since, and was ended by something else.
            assert_eq!(Ending::of(&console, "").cause, EndingCause::Unknown);
        }
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
