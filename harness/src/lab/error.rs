//! What can go wrong between a plan and a running lab.

use std::borrow::Cow;
use std::io;

use nix::errno::Errno;
use nix::sys::signal::Signal;

use super::call::ADMINISTRATORS;
use crate::scenario::Span;
use crate::text::reason;
use crate::topology::Sysctl;

/// What somebody can do who lacks a program.
pub(crate) const INSTALL: &str =
    "Install it: `sudo apt-get install iptables nftables conntrack util-linux`, or run ci/setup.";

/// What iptables-nft says where its message does not fit into a netlink socket's buffer (`EMSGSIZE`).
const TOO_LONG: &str = "Message too long";

/// A failure of the environment or of the kernel, with the operation and the object that it failed on.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The process has no privileges, and no user namespace could be had either.
    #[error("no privileges to make network namespaces: {what}: {}", reason(source))]
    Privileges {
        /// The step that failed.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Something of the lab's own place in the file system failed.
    #[error("preparing the lab's private /run: {what}: {}", reason(source))]
    Sandbox {
        /// The step that failed.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A namespace could not be made.
    #[error("making network namespace {netns}: {}", reason(source))]
    NoNamespace {
        /// The namespace's name.
        netns: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A namespace could not be entered.
    #[error("network namespace {netns}: {}", reason(source))]
    Namespace {
        /// The namespace's name.
        netns: String,
        /// What failed.
        source: netns_rs::Error,
    },
    /// A kernel setting could not be written.
    #[error("setting net.{} = {} in {netns}: {}", sysctl.name, sysctl.value, reason(source))]
    Setting {
        /// The namespace's name.
        netns: String,
        /// The setting.
        sysctl: Box<Sysctl>,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The lab has IPv6 addresses, and the kernel no IPv6.
    #[error("the scenario has IPv6 addresses, and this kernel speaks no IPv6")]
    NoIpv6,
    /// Something was asked of a namespace that the lab does not have.
    #[error("the lab has no network namespace {netns}")]
    Unknown {
        /// The name.
        netns: String,
    },
    /// A netlink request was refused.
    #[error("{operation} in {netns}: {}", reason(errno.desc()))]
    Netlink {
        /// The namespace's name.
        netns: String,
        /// The operation and its object: `adding route 10.244.2.0/24`.
        operation: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The netlink connection broke.
    #[error("netlink in {netns}: {what}")]
    Connection {
        /// The namespace's name.
        netns: String,
        /// What broke.
        what: String,
    },
    /// A socket could not be made or used.
    #[error("{what} in {netns}: {}", reason(source))]
    Socket {
        /// The namespace's name.
        netns: String,
        /// The operation.
        what: Cow<'static, str>,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A packet of svclab's own making cannot be written down.
    #[error("a packet of {netns} cannot be written: {why}")]
    Unwritable {
        /// The sender's namespace.
        netns: String,
        /// What is wrong with it.
        why: String,
    },
    /// No thread can be had.
    #[error("starting a thread: {}", reason(source))]
    Thread {
        /// The kernel's answer.
        source: io::Error,
    },
    /// A program failed.
    #[error("{program} in {netns}: {message}")]
    Program {
        /// The program.
        program: String,
        /// The namespace's name.
        netns: String,
        /// What it said, or why it could not be run.
        message: String,
    },
    /// A program was ended from outside.
    #[error("{program} in {netns}: killed by signal {signal}{}", name_of(*signal))]
    Killed {
        /// The program.
        program: String,
        /// The namespace's name.
        netns: String,
        /// The signal's number.
        signal: i32,
    },
    /// A program reached a limit of its time or of its output, and was killed.
    #[error("{program} in {netns}: {how}")]
    LimitExceeded {
        /// The program.
        program: String,
        /// The namespace's name.
        netns: String,
        /// Which limit, and what it said last.
        how: String,
    },
    /// A program that the lab needs is not there.
    #[error("{program} {}", absent(path.as_deref()))]
    Missing {
        /// The program.
        program: String,
        /// The folders in which it was looked for; `None` where `PATH` is empty.
        path: Option<String>,
    },
    /// A program is there, and the kernel does not execute it.
    #[error("{program} cannot be executed: {why}")]
    NotExecutable {
        /// The program.
        program: String,
        /// The file and the kernel's reason, or what a shell said.
        why: String,
    },
    /// Rules were refused.
    #[error("{program} refused the rules of {netns}: {message}")]
    Rules {
        /// The program.
        program: String,
        /// The namespace's name.
        netns: String,
        /// What it said.
        message: String,
        /// The rule that the message is about, where it names a line.
        rule: Option<String>,
    },
    /// A program has succeeded, and its rules are not there.
    #[error("{program} reported success, but table {table} of {netns} lacks {what}")]
    NotInstalled {
        /// The program.
        program: String,
        /// The namespace's name.
        netns: String,
        /// The table: `nat`, or nft's with its family.
        table: String,
        /// The first rule, chain or policy that is missing.
        what: String,
    },
    /// The kernel does not hand packets on as fast as a lab needs.
    #[error("a marker packet did not come back within {millis} ms: {what}")]
    Stalled {
        /// How long was waited.
        millis: u128,
        /// What was waited for.
        what: String,
    },
}

impl LabError {
    /// The error of a socket in a namespace, from the kernel's answer.
    pub(crate) fn socket(netns: &str, what: impl Into<Cow<'static, str>>) -> impl FnOnce(io::Error) -> Self {
        let (netns, what) = (netns.to_owned(), what.into());
        move |source| Self::Socket { netns, what, source }
    }

    /// True where not the environment is at fault but what the scenario asks for.
    pub(crate) fn is_of_scenario(&self) -> bool {
        use io::ErrorKind::{InvalidInput, IsADirectory, NotFound, PermissionDenied};
        match self {
            Self::Rules { message, .. } => !message.contains(TOO_LONG),
            // What is denied is a setting of the whole machine: svclab sets its own before, in the same namespace.
            Self::Setting { sysctl, source, .. } => {
                let refused = matches!(source.kind(), InvalidInput | IsADirectory | NotFound | PermissionDenied);
                refused && sysctl.asked_for.is_some()
            }
            _ => false,
        }
    }

    /// Where the scenario asks for what failed.
    pub(crate) fn span(&self) -> Option<&Span> {
        match self {
            Self::Setting { sysctl, .. } => sysctl.asked_for.as_ref(),
            _ => None,
        }
    }

    /// What the user can do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Privileges { .. } => {
                "Run it with sudo, or allow user namespaces (sysctl user.max_user_namespaces, and on Ubuntu \
                 kernel.apparmor_restrict_unprivileged_userns=0). `svclab doctor` tells what is missing."
            }
            Self::Missing { path: None, .. } => {
                "Set PATH to the folders of programs: `PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`."
            }
            Self::Missing { .. } => INSTALL,
            Self::NotExecutable { .. } => {
                "Install the program for this machine again, or put the folder of one that can be executed first in PATH."
            }
            Self::LimitExceeded { .. } => {
                "Run the program by hand to see what it waits for or writes; `svclab rules SCENARIO --node NODE` prints its input. \
                 Where the machine is too busy, run fewer labs at the same time (`--jobs`)."
            }
            Self::Killed { .. } => {
                "Find out who ended it: the kernel does where memory is short (`dmesg` tells), or a container's limit."
            }
            Self::Setting { .. } if self.is_of_scenario() => {
                "Correct the node's `sysctls`: the kernel has no such setting for a single network namespace, or not with such \
                 a value. The machine's own settings cannot be a node's."
            }
            Self::NoIpv6 => {
                "Leave IPv6 addresses and ranges out, or switch IPv6 on: start the kernel without `ipv6.disable=1`, and \
                 load the module: `sudo modprobe ipv6`."
            }
            Self::Setting { .. } => {
                "The kernel lacks the feature, or /proc/sys is read-only (a container without --privileged). \
                 `svclab doctor` tells which."
            }
            Self::Rules { message, .. } if message.contains(TOO_LONG) => {
                "iptables-nft sends all rules in one netlink message, which without root may have net.core.wmem_default bytes. \
                 Run it with sudo, or with --backend legacy, or allow more: `sudo sysctl net.core.wmem_default=4194304`."
            }
            Self::Rules { .. } => "Correct the rule. `svclab rules SCENARIO --node NODE` prints the whole document.",
            Self::NotInstalled { .. } => {
                "Make sure that the first such program in PATH is the real one, and that the program which lists rules is of the same \
                 implementation: `iptables-restore --version`, `iptables-save --version`."
            }
            Self::Unwritable { .. } => "This is a mistake of svclab's: please report it with the scenario.",
            Self::Thread { .. } => {
                "Run fewer labs at the same time (`--jobs`), or allow more processes (`ulimit -u`, or the container's limit)."
            }
            _ => "Run `svclab doctor` to see what the environment lacks.",
        }
    }
}

/// That a program is in none of the folders of `PATH`.
fn absent(path: Option<&str>) -> String {
    let others = ADMINISTRATORS.join(", ");
    match path {
        Some(path) => format!("is not installed: it is in none of {path} (PATH), {others}"),
        None => format!("is not found: PATH is empty, and it is in none of {others}"),
    }
}

/// A signal's name in brackets: ` (SIGKILL)`; nothing for a number without one.
fn name_of(signal: i32) -> String {
    Signal::try_from(signal).map(|signal| format!(" ({signal})")).unwrap_or_default()
}
