//! Accepted changes, for a gate in CI.

use serde::Deserialize;

use super::merge::Change;

/// A file of accepted changes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accepted {
    /// The changes.
    accepted: Vec<Entry>,
}

/// An accepted change.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Its `id`.
    change: String,
    /// The services that it is accepted for; all services if none is named.
    #[serde(default)]
    services: Vec<String>,
    /// Why it is accepted.
    #[serde(default)]
    reason: String,
}

/// Reads a file of accepted changes.
///
/// # Errors
///
/// The problem, with its line, as a lower-case fragment.
pub fn read(text: &str) -> Result<Accepted, String> {
    serde_yaml::from_str(text).map_err(|error| error.to_string())
}

impl Accepted {
    /// Marks the accepted changes, and returns the entries that match no change.
    pub(super) fn apply(&self, changes: &mut [Change]) -> Vec<String> {
        let mut unused = Vec::new();
        for entry in &self.accepted {
            let fits = |change: &&mut Change| {
                change.id() == entry.change
                    && (entry.services.is_empty() || change.services.iter().all(|one| entry.services.contains(one)))
            };
            let found =
                changes.iter_mut().filter(fits).map(|change| change.accepted = Some(entry.reason.clone())).count();
            if found == 0 {
                unused.push(entry.change.clone());
            }
        }
        unused
    }
}
