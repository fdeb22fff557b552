//! Which connection-table entries kube-proxy deletes when objects change.
//!
//! A UDP "connection" is kept as long as packets come, so that a client which never pauses would keep its translation to
//! an endpoint that is gone, or its lack of one from the time before there were endpoints. kube-proxy deletes such entries
//! after it has written the new rules. TCP and SCTP entries are left alone.
//!
//! [`cleanup`] says how a release does that:
//!
//! | releases | how | source |
//! | --- | --- | --- |
//! | 1.10 to 1.21 | not known; [`cleanup`] says what 1.30 would do, and [`note`] says that it does | |
//! | 1.22 to 1.31 | [`Deletion`]s, computed from what changed | recorded calls of 1.30, else by description |
//! | 1.32 to 1.36 | [`Serving`]: every entry is compared with the endpoints | by recording, in both modes |
//! | 1.37 | the same, for services without endpoints too | by description |

mod changes;
mod comparison;

pub use changes::{Deletion, SentTo};
pub use comparison::{Flow, Serving};

use crate::cluster::{Cluster, Node};
use crate::profile::{Profile, UnknownVersion};

/// What a kube-proxy deletes from its node's connection table after a change of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cleanup {
    /// The entries that these calls of `conntrack -D` select.
    Calls(Vec<Deletion>),
    /// The entries that are [stale](Serving::is_stale).
    Comparison(Serving),
}

impl Cleanup {
    /// Whether no entry can be deleted.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Calls(calls) => calls.is_empty(),
            Self::Comparison(serving) => serving.is_empty(),
        }
    }
}

/// What a node's kube-proxy deletes when the cluster's objects change from `old` to `new`; an empty `old` stands for its
/// start. For a release for which [`note`] returns a note, this is what 1.30 would delete.
///
/// # Errors
///
/// Where `new.proxy.version` is no release that is known.
pub fn cleanup(old: &Cluster, new: &Cluster, node: &Node) -> Result<Cleanup, UnknownVersion> {
    let profile: Profile = new.proxy.version.parse()?;
    Ok(if profile.compares_connections() {
        Cleanup::Comparison(Serving::after(old, new, node, profile))
    } else {
        Cleanup::Calls(changes::deletions(old, new, node, profile))
    })
}

/// What must be said alongside the results of [`cleanup`]: for a release whose own clean-up is not known, that they are
/// those of another one.
pub fn note(profile: Profile) -> Option<String> {
    (!profile.cleans_up_after_changes() && !profile.compares_connections()).then(|| {
        format!("connections are forgotten as kube-proxy 1.30 does after a change; how {profile} does is not modelled")
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::note;

    #[rstest]
    #[case("1.21", true)]
    #[case("1.22", false)]
    #[case("1.31", false)]
    #[case("1.32.1", false)]
    #[case("1.37", false)]
    fn releases_with_an_unknown_clean_up_have_a_note(#[case] version: &str, #[case] has_note: bool) {
        let text = format!(
            "connections are forgotten as kube-proxy 1.30 does after a change; how {version} does is not modelled"
        );
        assert_eq!(note(version.parse().unwrap()), has_note.then_some(text));
    }
}
