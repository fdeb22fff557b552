//! Conntrack entries that kube-proxy deletes when objects change.
//!
//! A UDP conntrack entry lives as long as packets arrive, so a client that never pauses would keep its translation to a removed endpoint,
//! or an untranslated entry from before the service had endpoints. kube-proxy deletes such entries after it has written the new rules. TCP
//! and SCTP entries are not deleted.
//!
//! [`cleanup`] depends on the release:
//!
//! | releases | how | source |
//! | --- | --- | --- |
//! | 1.10 to 1.21 | unknown; [`cleanup`] returns what 1.30 would do, and [`note`] says so | |
//! | 1.22 to 1.31 | [`Deletion`]s, computed from what changed | recorded calls of 1.30, source code of the others |
//! | 1.32 to 1.36 | [`Serving`]: every entry is compared with the endpoints | recordings, in both modes |
//! | 1.37 | the same, also for services without endpoints | source code |

mod changes;
mod comparison;

pub use changes::{Deletion, SentTo};
pub use comparison::{Flow, Serving};

use crate::cluster::{Cluster, ConntrackCleanup, Node, ProxyConfig};
use crate::profile::{Profile, UnknownVersion};

/// What kube-proxy deletes from its node's conntrack table after a change of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cleanup {
    /// The entries that these calls of `conntrack -D` select.
    Calls(Vec<Deletion>),
    /// The entries that are [stale](Serving::is_stale).
    Comparison(Serving),
}

impl Cleanup {
    /// Returns whether no entry can be deleted.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Calls(calls) => calls.is_empty(),
            Self::Comparison(serving) => serving.is_empty(),
        }
    }
}

/// Returns what a node's kube-proxy deletes when the cluster's objects change from `old` to `new`; an empty `old` means that kube-proxy
/// starts. For a release for which [`note`] returns a note, this is what 1.30 would delete.
///
/// # Errors
///
/// If the release of the cleanup (see [`ConntrackCleanup`]) is unknown.
pub fn cleanup(old: &Cluster, new: &Cluster, node: &Node) -> Result<Cleanup, UnknownVersion> {
    let Some(version) = release(&new.proxy) else { return Ok(Cleanup::Calls(Vec::new())) };
    let profile: Profile = version.parse()?;
    Ok(if profile.compares_connections() {
        Cleanup::Comparison(Serving::after(old, new, node, profile))
    } else {
        Cleanup::Calls(changes::deletions(old, new, node, profile))
    })
}

/// Returns the release of the cleanup; `None` if there is no cleanup.
fn release(proxy: &ProxyConfig) -> Option<&str> {
    match &proxy.conntrack_cleanup {
        ConntrackCleanup::SameAsVersion => Some(&proxy.version),
        ConntrackCleanup::Of(version) => Some(version),
        ConntrackCleanup::Off => None,
    }
}

/// Returns a caveat for [`cleanup`] if the release's own cleanup is not modelled and that of another release is used.
pub fn note(proxy: &ProxyConfig) -> Option<String> {
    let profile: Profile = release(proxy)?.parse().ok()?;
    (!profile.cleans_up_after_changes() && !profile.compares_connections())
        .then(|| format!("conntrack cleanup follows kube-proxy 1.30; that of {profile} is not modelled"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{cleanup, note};
    use crate::cluster::{Cluster, ConntrackCleanup, Node, ProxyConfig};

    #[rstest]
    #[case("1.21", true)]
    #[case("1.22", false)]
    #[case("1.31", false)]
    #[case("1.32.1", false)]
    #[case("1.37", false)]
    fn releases_with_an_unknown_clean_up_have_a_note(#[case] version: &str, #[case] has_note: bool) {
        let text = format!("conntrack cleanup follows kube-proxy 1.30; that of {version} is not modelled");
        let proxy = ProxyConfig { version: version.to_owned(), ..ProxyConfig::default() };
        assert_eq!(note(&proxy), has_note.then_some(text.clone()));
        let cleanup = ConntrackCleanup::Of(version.to_owned());
        let proxy = ProxyConfig { conntrack_cleanup: cleanup, ..ProxyConfig::default() };
        assert_eq!(note(&proxy), has_note.then_some(text));
    }

    #[test]
    fn without_a_clean_up_nothing_is_noted_or_deleted() {
        let proxy = ProxyConfig {
            version: "1.20".to_owned(),
            conntrack_cleanup: ConntrackCleanup::Off,
            ..ProxyConfig::default()
        };
        assert_eq!(note(&proxy), None);
        let cluster = Cluster { proxy, ..Cluster::default() };
        assert!(cleanup(&Cluster::default(), &cluster, &Node::default()).unwrap().is_empty());
    }
}
