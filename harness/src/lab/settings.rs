//! Kernel settings of a namespace.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::LabError;
use crate::topology::{Netns, Sysctl};

/// The folder of a namespace's settings.
const NET: &str = "/proc/sys/net";

/// The stage of building a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Only the loopback exists.
    Empty,
    /// All interfaces are up.
    Up,
}

/// Whether the kernel supports IPv6. It does not when it was booted with `ipv6.disable=1` or lacks the module.
pub(crate) fn has_ipv6() -> bool {
    Path::new(NET).join("ipv6/conf").exists()
}

/// Writes a namespace's settings that are due at a stage. The calling thread must be inside the namespace: `/proc/sys/net` shows the
/// reader's own.
///
/// # Errors
///
/// The first setting that the kernel rejects or does not know. It is not an error if the kernel lacks a feature that svclab only wanted to
/// disable.
pub(super) fn write(netns: &Netns, stage: Stage, ipv6: bool) -> Result<(), LabError> {
    for sysctl in netns.sysctls.iter().filter(|sysctl| netns.is_about_interface(sysctl) == (stage == Stage::Up)) {
        let written = path(&sysctl.name).and_then(|path| fs::write(path, &sysctl.value));
        match written {
            Err(error) if error.kind() == ErrorKind::NotFound && is_dispensable(sysctl, ipv6) => {}
            Err(source) => {
                let sysctl = Box::new(sysctl.clone());
                return Err(LabError::Setting { netns: netns.name.clone(), sysctl, source });
            }
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Whether a setting may be missing: those that silence IPv6, in a kernel without IPv6, and those that hide bridged packets from rules, in
/// a kernel without br_netfilter.
fn is_dispensable(sysctl: &Sysctl, ipv6: bool) -> bool {
    let without_bridge = sysctl.name.starts_with("bridge.") && sysctl.value == "0";
    let without_ipv6 = sysctl.name.starts_with("ipv6.") && !ipv6;
    sysctl.asked_for.is_none() && (without_bridge || without_ipv6)
}

/// The file of a setting. As with sysctl(8), a slash in a name stands for a dot: `ipv4.conf.flannel/1.rp_filter`.
fn path(name: &str) -> io::Result<PathBuf> {
    let parts: Vec<String> = name.split('.').map(|part| part.replace('/', ".")).collect();
    // Interfaces cannot have such names either (`dev_valid_name` in net/core/dev.c).
    if parts.iter().any(|part| ["", ".", ".."].contains(&part.as_str())) {
        return Err(ErrorKind::InvalidInput.into());
    }
    Ok(Path::new(NET).join(parts.join("/")))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::scenario::Span;

    #[rstest]
    #[case("ipv4.ip_forward", Some("/proc/sys/net/ipv4/ip_forward"))]
    #[case("ipv4.conf.flannel/1.rp_filter", Some("/proc/sys/net/ipv4/conf/flannel.1/rp_filter"))]
    #[case::out_of_the_folder("//.//.//.kernel.core_pattern", None)]
    #[case::absolute(".etc.passwd", None)]
    #[case::nothing("", None)]
    fn a_name_stays_below_the_networks_settings(#[case] name: &str, #[case] expected: Option<&str>) {
        assert_eq!(path(name).ok(), expected.map(PathBuf::from));
    }

    #[rstest]
    #[case::quiet_ipv6("ipv6.conf.default.accept_ra", "0", false, false, true)]
    #[case::ipv6_is_there("ipv6.conf.default.accept_ra", "0", false, true, false)]
    #[case::asked_for("ipv6.conf.default.accept_ra", "0", true, false, false)]
    #[case::ipv4("ipv4.ip_forward", "1", false, false, false)]
    #[case::bridges_unseen("bridge.bridge-nf-call-iptables", "0", false, true, true)]
    #[case::bridges_seen("bridge.bridge-nf-call-iptables", "1", false, true, false)]
    fn a_kernel_may_lack(
        #[case] name: &str,
        #[case] value: &str,
        #[case] asked_for: bool,
        #[case] ipv6: bool,
        #[case] expected: bool,
    ) {
        let asked_for = asked_for.then(|| Span { file: "s.yaml".into(), line: 1, column: 1 });
        let sysctl = Sysctl { name: name.to_owned(), value: value.to_owned(), asked_for };
        assert_eq!(is_dispensable(&sysctl, ipv6), expected);
    }
}
