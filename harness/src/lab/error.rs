//! What can go wrong between a plan and a running lab.

use std::io;

use nix::errno::Errno;

use crate::text::reason;

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
    /// A namespace could not be made or entered.
    #[error("network namespace {space}: {}", reason(source))]
    Namespace {
        /// The namespace's name.
        space: String,
        /// What failed.
        source: netns_rs::Error,
    },
    /// A kernel setting could not be written.
    #[error("setting net.{name} = {value} in {space}: {}", reason(source))]
    Setting {
        /// The namespace's name.
        space: String,
        /// The setting, dotted, below `net`.
        name: String,
        /// The value.
        value: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A netlink request was refused.
    #[error("{operation} in {space}: {}", reason(errno.desc()))]
    Netlink {
        /// The namespace's name.
        space: String,
        /// The operation and its object: `adding route 10.244.2.0/24`.
        operation: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The netlink connection broke.
    #[error("netlink in {space}: {what}")]
    Connection {
        /// The namespace's name.
        space: String,
        /// What broke.
        what: String,
    },
    /// A socket could not be made or used.
    #[error("{what} in {space}: {}", reason(source))]
    Socket {
        /// The namespace's name.
        space: String,
        /// The operation.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A program that the lab needs is not there.
    #[error("{program} is not installed")]
    Missing {
        /// The program.
        program: String,
    },
    /// Rules were refused.
    #[error("{program} refused the rules of {space}: {message}")]
    Rules {
        /// The program.
        program: String,
        /// The namespace's name.
        space: String,
        /// What it said.
        message: String,
        /// The rule that the message is about, where it names a line.
        rule: Option<String>,
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
    /// What the user can do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Privileges { .. } => {
                "Run it with sudo, or allow user namespaces (sysctl user.max_user_namespaces, and on Ubuntu \
                 kernel.apparmor_restrict_unprivileged_userns=0). `svclab doctor` tells what is missing."
            }
            Self::Missing { .. } => "Install it: `sudo apt-get install iptables nftables conntrack`, or run ci/run.",
            Self::Setting { .. } => {
                "The kernel lacks the feature, or /proc/sys is read-only (a container without --privileged). \
                 `svclab doctor` tells which."
            }
            Self::Rules { .. } => "Correct the rule. `svclab rules SCENARIO --node NODE` prints the whole document.",
            _ => "Run `svclab doctor` to see what the environment lacks.",
        }
    }
}
