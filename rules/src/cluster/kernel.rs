//! Differences between Linux kernels in how they handle the same packet.

use serde::{Deserialize, Serialize};

/// A kernel, with a named property for each difference between kernels, as [`Profile`](crate::profile::Profile) has for releases of
/// kube-proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Kernel {
    version: Version,
    has_sctp: bool,
}

/// Major, minor and patch.
type Version = (u32, u32, u32);

/// The default, used if no kernel is specified: one with all fixes.
impl Default for Kernel {
    fn default() -> Self {
        Self { version: (u32::MAX, 0, 0), has_sctp: false }
    }
}

impl Kernel {
    /// Identifies a kernel by `uname -r` (`6.1.0-50-cloud-amd64`) and `uname -v` (`#1 SMP Debian 6.1.176-1`). A distribution's release
    /// string may lack the upstream version; `build` then contains it: `uname -v`, or on Ubuntu `/proc/version_signature`. A kernel whose
    /// release is not a version behaves as [`default`](Self::default).
    pub fn of(release: &str, build: &str) -> Self {
        let Some(version) = version(release) else { return Self::default() };
        let is_later = |found: &Version| (found.0, found.1) == (version.0, version.1) && *found > version;
        let version = build.split_whitespace().filter_map(self::version).find(is_later).unwrap_or(version);
        Self { version, has_sctp: false }
    }

    /// Sets whether the kernel handles SCTP itself. In most kernels SCTP is a module, loaded when a process first opens an SCTP socket.
    #[must_use]
    pub fn with_sctp(self, has_sctp: bool) -> Self {
        Self { has_sctp, ..self }
    }

    /// Returns whether IPv6 `REDIRECT` picks an address of the destination's scope, and drops the packet if the interface has none (commit
    /// 80abbe8a8263, "netfilter: nat: fix ipv6 nat redirect with mapped and scoped addresses", in 6.7 and the stable releases of November
    /// 2023). Older kernels take the first address of the interface.
    pub fn redirects_within_scope(self) -> bool {
        const CORRECTED: [Version; 6] = [(5, 4, 261), (5, 10, 201), (5, 15, 139), (6, 1, 63), (6, 5, 12), (6, 6, 2)];
        let (major, minor, _) = self.version;
        let is_corrected = |from: &Version| (from.0, from.1) == (major, minor) && self.version >= *from;
        self.version >= (6, 7, 0) || CORRECTED.iter().any(is_corrected)
    }

    /// Returns whether the kernel replies to SCTP packets for ports without an SCTP socket, even if raw sockets receive them
    /// (`sctp_sf_ootb`).
    pub fn replies_to_sctp(self) -> bool {
        self.has_sctp
    }
}

/// Reads the version at the start of a text, two or three numbers: `6.1.176` of `6.1.176-1`.
fn version(text: &str) -> Option<Version> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let mut numbers = text[..end].split('.').filter(|number| !number.is_empty()).map(str::parse);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let patch = numbers.next().and_then(Result::ok).unwrap_or_default();
    Some((major, minor, patch))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::mainline("6.18.0", "#1 SMP Mon Jan 1", true)]
    #[case::mainline_before("6.6.1", "#1 SMP Mon Jan 1", false)]
    #[case::stable("6.1.63", "", true)]
    #[case::stable_before("6.1.62", "", false)]
    #[case::long_term("5.10.201", "", true)]
    #[case::long_term_before("5.10.200", "", false)]
    #[case::without_a_correction("6.2.16", "", false)]
    #[case::debian("6.1.0-50-cloud-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.176-1 (2026-05-01)", true)]
    #[case::debian_before("6.1.0-13-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.55-1 (2023-09-29)", false)]
    #[case::ubuntu(
        "5.15.0-122-generic",
        "#132-Ubuntu SMP Thu Aug 29 2024 Ubuntu 5.15.0-122.132-generic 5.15.163",
        true
    )]
    #[case::ubuntu_before(
        "5.15.0-91-generic",
        "#101-Ubuntu SMP Tue Nov 14 2023 Ubuntu 5.15.0-91.101-generic 5.15.131",
        false
    )]
    #[case::other_number("5.15.0-91-generic", "#101-Ubuntu SMP Tue Nov 14 13:30:08 UTC 2023 6.7.0", false)]
    #[case::no_version("custom", "", true)]
    fn redirect_keeps_the_scope_since_6_7(#[case] release: &str, #[case] build: &str, #[case] expected: bool) {
        assert_eq!(Kernel::of(release, build).redirects_within_scope(), expected);
    }

    #[test]
    fn a_kernel_replies_to_sctp_if_it_has_the_module() {
        let kernel = Kernel::of("6.1.0", "");
        assert!(!kernel.replies_to_sctp() && kernel.with_sctp(true).replies_to_sctp());
    }
}
