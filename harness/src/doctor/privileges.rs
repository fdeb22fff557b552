//! Checks whether this process may create its own namespaces, mounts, settings and packets.

use nix::unistd::{Uid, geteuid};

use super::{Check, read};
use crate::lab::{Backend, LabError, become_privileged, with_lab};
use crate::topology::{Netns, Role, Topology};

/// Becomes privileged and builds an empty lab. The second value is true if that required a user namespace.
pub(super) fn examine() -> (Vec<Check>, bool) {
    const NAME: &str = "root or user namespace";
    let user = geteuid();
    match become_privileged() {
        Ok(()) => {
            let rootless = !is_initial_user_namespace(&read("/proc/self/uid_map").unwrap_or_default());
            let mut checks = vec![Check::ok(NAME, describe(user, rootless))];
            checks.extend(empty_labs());
            (checks, rootless)
        }
        Err(error) => (vec![Check::lacking(NAME, error.to_string(), user_namespace_fix(read))], true),
    }
}

fn describe(user: Uid, rootless: bool) -> String {
    match (user.is_root(), rootless) {
        (true, false) => "root".to_owned(),
        (true, true) => "root of a user namespace".to_owned(),
        (false, false) => format!("user {user} with the capabilities that a lab needs"),
        (false, true) => format!("user {user}, root of a user namespace"),
    }
}

/// The initial user namespace maps every ID to itself (user_namespaces(7)).
fn is_initial_user_namespace(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Returns the fix that enables user namespaces, depending on what forbids them. `read` reads a file in `/proc`.
fn user_namespace_fix(read: impl Fn(&str) -> Option<String>) -> String {
    let setting = |path: &str, forbids: &str| read(path).is_some_and(|value| value == forbids);
    let sudo = "Run svclab with sudo";
    if setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        format!("{sudo}, or allow user namespaces: `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`.")
    } else if setting("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        format!("{sudo}, or allow user namespaces: `sudo sysctl -w kernel.unprivileged_userns_clone=1`.")
    } else if setting("/proc/sys/user/max_user_namespaces", "0") {
        format!("{sudo}, or allow user namespaces: `sudo sysctl -w user.max_user_namespaces=15000`.")
    } else if has_seccomp_filter(&read("/proc/self/status").unwrap_or_default()) {
        "Start the container with --privileged: its seccomp filter forbids user namespaces.".to_owned()
    } else {
        format!("{sudo}; in a container, start it with --privileged.")
    }
}

/// Returns whether a process's status shows a seccomp filter, as container engines set it.
fn has_seccomp_filter(status: &str) -> bool {
    status.lines().filter_map(|line| line.strip_prefix("Seccomp:")).any(|mode| mode.trim() == "2")
}

/// Builds two labs with one empty namespace, first without a kernel setting and then with one.
fn empty_labs() -> Vec<Check> {
    let (namespaces, sockets, settings) = ("namespaces and mounts", "packet sockets", "/proc/sys/net");
    let privileged = "Run svclab with sudo; in a container, start it with --privileged.";
    let mut netns = Netns::new("alone".to_owned(), Role::Underlay);
    let empty = build(netns.clone());
    netns.set("ipv4.ip_forward", 1);
    match empty {
        Err(error @ LabError::Socket { .. }) => {
            let made = Check::ok(namespaces, "created and removed");
            vec![made, Check::lacking(sockets, error.to_string(), privileged)]
        }
        Err(error) => vec![Check::lacking(namespaces, error.to_string(), privileged)],
        Ok(()) => vec![
            Check::ok(namespaces, "created and removed"),
            Check::ok(sockets, "a frame passed through the loopback interface"),
            match build(netns) {
                Ok(()) => Check::ok(settings, "a lab can write its own settings"),
                Err(error) => {
                    let fix = "Mount /proc/sys writable: start the container with --privileged, or run svclab outside a container.";
                    Check::lacking(settings, error.to_string(), fix)
                }
            },
        ],
    }
}

/// Builds a lab with one namespace and sends a barrier frame through its loopback interface.
fn build(netns: Netns) -> Result<(), LabError> {
    let mut topology = Topology::default();
    topology.add(netns);
    with_lab(&topology, &[], Backend::System, |lab| lab.pass_barrier())?
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::everywhere("         0          0 4294967295", true)]
    #[case::rootless("         0       1000          1", false)]
    #[case::unreadable("", false)]
    fn the_first_user_namespace_is_known(#[case] map: &str, #[case] expected: bool) {
        assert_eq!(is_initial_user_namespace(map), expected);
    }

    #[rstest]
    #[case::ubuntu(&[("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1")], "apparmor_restrict_unprivileged_userns=0")]
    #[case::old_debian(&[("/proc/sys/kernel/unprivileged_userns_clone", "0")], "unprivileged_userns_clone=1")]
    #[case::none_allowed(&[("/proc/sys/user/max_user_namespaces", "0")], "max_user_namespaces=15000")]
    #[case::container(&[("/proc/self/status", "NoNewPrivs:\t0\nSeccomp:\t2\nSeccomp_filters:\t1")], "seccomp filter")]
    #[case::unknown(&[("/proc/self/status", "Seccomp:\t0"), ("/proc/sys/user/max_user_namespaces", "96365")], "Run svclab with sudo; in")]
    fn the_cause_determines_the_fix(#[case] files: &[(&str, &str)], #[case] expected: &str) {
        let read = |path: &str| files.iter().find(|(known, _)| *known == path).map(|(_, text)| (*text).to_owned());
        let fix = user_namespace_fix(read);
        assert!(fix.contains(expected), "{fix}");
    }
}
