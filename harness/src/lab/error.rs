//! Errors between a plan and a running lab.

use std::borrow::Cow;
use std::error::Error;
use std::io;

use nix::errno::Errno;
use nix::sys::signal::Signal;

use super::call::ADMINISTRATORS;
use crate::open_files;
use crate::scenario::Span;
use crate::text::reason;
use crate::topology::Sysctl;

/// How to install a missing program.
pub(crate) const INSTALL: &str =
    "Install it: `sudo apt-get install iptables nftables conntrack util-linux`, or run ci/setup.";

/// The message of iptables-nft if its request does not fit into a netlink socket's buffer (`EMSGSIZE`).
const TOO_LONG: &str = "Message too long";

/// A failure of the environment or of the kernel, with the operation and the object that it failed on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum LabError {
    /// The process has no privileges and cannot create a user namespace.
    #[error("no privileges to create network namespaces: {what}: {}", reason(source))]
    Privileges {
        /// The step that failed.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The lab's private mounts could not be set up.
    #[error("preparing the lab's private /run: {what}: {}", reason(source))]
    Sandbox {
        /// The step that failed.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A namespace could not be created.
    #[error("creating network namespace {netns}: {}", reason(source))]
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
    /// The lab has IPv6 addresses, but the kernel has no IPv6 support.
    #[error("the scenario has IPv6 addresses, but this kernel has no IPv6 support")]
    NoIpv6,
    /// The lab has no such namespace.
    #[error("the lab has no network namespace {netns}")]
    Unknown {
        /// The name.
        netns: String,
    },
    /// The kernel rejected a netlink request.
    #[error("{operation} in {netns}: {}", reason(errno.desc()))]
    Netlink {
        /// The namespace's name.
        netns: String,
        /// The operation and its object: `adding route 10.244.2.0/24`.
        operation: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The kernel lacks the queueing discipline that a link with impairments needs.
    #[error("a link of {netns} has loss, delay or a rate limit, but this kernel has no {module}")]
    NoDiscipline {
        /// The namespace's name.
        netns: String,
        /// The kernel module.
        module: &'static str,
    },
    /// The netlink connection broke.
    #[error("netlink in {netns}: {what}")]
    Connection {
        /// The namespace's name.
        netns: String,
        /// What broke.
        what: String,
    },
    /// A socket operation failed.
    #[error("{what} in {netns}: {}", reason(source))]
    Socket {
        /// The namespace's name.
        netns: String,
        /// The operation.
        what: Cow<'static, str>,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A packet that svclab built cannot be encoded.
    #[error("a packet of {netns} cannot be encoded: {why}")]
    Unwritable {
        /// The sender's namespace.
        netns: String,
        /// What is wrong with the packet.
        why: String,
    },
    /// No thread can be started.
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
        /// Its error output, or why it could not be run.
        message: String,
    },
    /// A program was killed by a signal.
    #[error("{program} in {netns}: killed by signal {signal}{}", name_of(*signal))]
    Killed {
        /// The program.
        program: String,
        /// The namespace's name.
        netns: String,
        /// The signal's number.
        signal: i32,
    },
    /// A program exceeded a time or output limit and was killed.
    #[error("{program} in {netns}: {how}")]
    LimitExceeded {
        /// The program.
        program: String,
        /// The namespace's name.
        netns: String,
        /// The limit, and the end of its error output.
        how: String,
    },
    /// A program that the lab needs is not installed.
    #[error("{program} {}", absent(path.as_deref()))]
    Missing {
        /// The program.
        program: String,
        /// The folders that were searched; `None` if `PATH` is empty.
        path: Option<String>,
    },
    /// A program exists, but the kernel does not execute it.
    #[error("{program} cannot be executed: {why}")]
    NotExecutable {
        /// The program.
        program: String,
        /// The file and the kernel's reason, or a shell's message.
        why: String,
    },
    /// A program rejected rules.
    #[error("{program} rejected the rules of {netns}: {message}")]
    Rules {
        /// The program.
        program: String,
        /// The namespace's name.
        netns: String,
        /// Its error message.
        message: String,
        /// The rule that the message is about, if it names a line.
        rule: Option<String>,
    },
    /// A program reported success without installing its rules.
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
    /// The kernel did not process packets in time.
    #[error("timed out after {millis} ms: {what}")]
    Stalled {
        /// The timeout.
        millis: u128,
        /// The event that did not happen.
        what: String,
    },
}

impl LabError {
    /// Returns a function that turns the kernel's answer into the error of a socket in a namespace.
    pub(crate) fn socket(netns: &str, what: impl Into<Cow<'static, str>>) -> impl FnOnce(io::Error) -> Self {
        let (netns, what) = (netns.to_owned(), what.into());
        move |source| Self::Socket { netns, what, source }
    }

    /// Whether the scenario, not the environment, is the cause.
    pub(crate) fn is_about_scenario(&self) -> bool {
        use io::ErrorKind::{InvalidInput, IsADirectory, NotFound, PermissionDenied};
        match self {
            Self::Rules { message, .. } => !message.contains(TOO_LONG),
            // Permission is denied only for settings of the whole machine: svclab has already written its own in the same namespace.
            Self::Setting { sysctl, source, .. } => {
                let refused = matches!(source.kind(), InvalidInput | IsADirectory | NotFound | PermissionDenied);
                refused && sysctl.asked_for.is_some()
            }
            _ => false,
        }
    }

    /// The place in the scenario that asked for the failed setting.
    pub(crate) fn span(&self) -> Option<&Span> {
        match self {
            Self::Setting { sysctl, .. } => sysctl.asked_for.as_ref(),
            _ => None,
        }
    }

    /// Whether the process or the machine has reached its limit on open files.
    fn is_about_open_files(&self) -> bool {
        let mut causes = std::iter::successors(Error::source(self), |error| (*error).source());
        causes.any(|error| error.downcast_ref::<io::Error>().is_some_and(open_files::is_reached))
    }

    /// The fix, as a sentence.
    pub(crate) fn help(&self) -> &'static str {
        match self {
            _ if self.is_about_open_files() => open_files::RAISE,
            Self::Privileges { .. } => {
                "Run it with sudo, or allow user namespaces (sysctl user.max_user_namespaces, and on Ubuntu \
                 kernel.apparmor_restrict_unprivileged_userns=0). `svclab doctor` reports what is missing."
            }
            Self::Missing { path: None, .. } => {
                "Set PATH to the folders of programs: `PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`."
            }
            Self::Missing { .. } => INSTALL,
            Self::NotExecutable { .. } => {
                "Reinstall the program for this architecture, or put a folder with one that can be executed first in PATH."
            }
            Self::LimitExceeded { .. } => {
                "Run the program by hand to see what it is waiting for or writing; `svclab rules SCENARIO --node NODE` prints its input. \
                 If the machine is too busy, run fewer labs in parallel (`--jobs`)."
            }
            Self::Killed { .. } => {
                "Find out what killed it: the kernel's OOM killer (see `dmesg`), or a container's limit."
            }
            Self::Setting { .. } if self.is_about_scenario() => {
                "Correct the node's `sysctls`: the kernel has no such setting for each network namespace, or does not accept this \
                 value. Settings of the whole machine cannot be set for a node."
            }
            Self::NoDiscipline { module: "sch_tbf", .. } => {
                "Load the module: `sudo modprobe sch_tbf` (with `--kernel`, add it to the folder of the kernel). If there is none, the kernel was built without CONFIG_NET_SCH_TBF: leave out the link's `rate`."
            }
            Self::NoDiscipline { .. } => {
                "Load the module: `sudo modprobe sch_netem` (with `--kernel`, add it to the folder of the kernel). If there is none, the kernel was built without CONFIG_NET_SCH_NETEM: run on another one, or \
                 leave out the link's `loss`, `delay`, `jitter`, `duplicate` and `reorder`."
            }
            Self::NoIpv6 => {
                "Remove IPv6 addresses and ranges, or enable IPv6: boot the kernel without `ipv6.disable=1`, and \
                 load the module: `sudo modprobe ipv6`."
            }
            Self::Setting { .. } => {
                "The kernel lacks the feature, or /proc/sys is read-only (a container without --privileged). \
                 `svclab doctor` reports which."
            }
            Self::Rules { message, .. } if message.contains(TOO_LONG) => {
                "iptables-nft sends all rules in one netlink message, limited to net.core.wmem_default bytes without root. \
                 Run svclab with sudo or with --backend legacy, or raise the limit: `sudo sysctl net.core.wmem_default=4194304`."
            }
            Self::Rules { .. } => "Correct the rule. `svclab rules SCENARIO --node NODE` prints the whole document.",
            Self::NotInstalled { .. } => {
                "Make sure that the first such program in PATH is the real one, and that the program which lists rules is of the same \
                 implementation: `iptables-restore --version`, `iptables-save --version`."
            }
            Self::Unwritable { .. } => "This is a bug in svclab: please report it with the scenario.",
            Self::Thread { .. } => {
                "Run fewer labs in parallel (`--jobs`), or allow more processes (`ulimit -u`, or the container's limit)."
            }
            _ => "Run `svclab doctor` to see what the environment lacks.",
        }
    }
}

/// States that a program is in none of the folders of `PATH`.
fn absent(path: Option<&str>) -> String {
    let others = ADMINISTRATORS.join(", ");
    match path {
        Some(path) => format!("is not installed: it is in none of {path} (PATH), {others}"),
        None => format!("is not found: PATH is empty, and it is not in {others}"),
    }
}

/// A signal's name in parentheses, such as ` (SIGKILL)`; empty for a number without a name.
fn name_of(signal: i32) -> String {
    Signal::try_from(signal).map(|signal| format!(" ({signal})")).unwrap_or_default()
}
