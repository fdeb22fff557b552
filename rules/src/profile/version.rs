//! Parsing of release versions.

use std::cmp::Ordering;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::backports::Backport;

/// The known minor releases of Kubernetes 1.
pub(super) const KNOWN: RangeInclusive<u8> = 10..=37;

/// A kube-proxy release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Profile {
    pub(super) minor: u8,
    pub(super) patch: Option<u8>,
}

/// A version that is not a known kube-proxy release.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kube-proxy version `{0}` (known: 1.{first} to 1.{last})", first = KNOWN.start(), last = KNOWN.end())]
pub struct UnknownVersion(pub String);

/// Ordered by age: a release without a patch number is the newest of its minor release.
impl Ord for Profile {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |one: &Self| (one.minor, one.patch.unwrap_or(u8::MAX));
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Profile {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for Profile {
    type Err = UnknownVersion;

    /// Parses `1.30`, `v1.30` or `1.30.2`. Vendor suffixes, as in `v1.31.4-eks-1a2b3c` or `v1.30.2+k3s1`, are ignored.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownVersion(text.to_owned());
        let (release, suffix) = text.split_at(text.find(['-', '+']).unwrap_or(text.len()));
        let is_suffix = |letter: char| letter.is_ascii_alphanumeric() || "-+.".contains(letter);
        if suffix.len() == 1 || !suffix.chars().all(is_suffix) {
            return Err(unknown());
        }
        let mut parts = release.trim_start_matches('v').split('.');
        let (major, minor, patch) = (parts.next(), parts.next(), parts.next());
        let minor = minor.and_then(|part| part.parse().ok()).filter(|minor| KNOWN.contains(minor));
        let patch = patch.map(|part| part.parse().map_err(|_| unknown())).transpose()?;
        match (major, minor, parts.next()) {
            (Some("1"), Some(minor), None) => Ok(Self { minor, patch }),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}

impl Profile {
    /// Returns the newest patch release of every known minor release, the oldest first.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> {
        KNOWN.map(|minor| Self { minor, patch: None })
    }

    /// Returns whether the release has the change: it is not older than the backport to its minor release.
    pub(super) fn has_backport(self, since: &[Backport]) -> bool {
        let patch = self.patch.unwrap_or(u8::MAX);
        since.iter().any(|(minor, first)| self.minor == *minor && patch >= *first)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1.30", "1.30")]
    #[case("v1.18", "1.18")]
    #[case("1.18.3", "1.18.3")]
    #[case("v1.31.4-eks-1a2b3c", "1.31.4")]
    #[case("v1.30.2+k3s1", "1.30.2")]
    #[case("v1.30.3-gke.100", "1.30.3")]
    fn versions_are_read(#[case] text: &str, #[case] shown: &str) {
        assert_eq!(text.parse::<Profile>().unwrap().to_string(), shown);
    }

    #[rstest]
    #[case("1.9")]
    #[case("1.99")]
    #[case("2.0")]
    #[case("1")]
    #[case("1.30.x")]
    #[case("1.30.1.1")]
    #[case("1.30.1-")]
    #[case("1.30.1-a b")]
    #[case("latest")]
    fn unknown_versions_name_the_known_ones(#[case] text: &str) {
        let error = text.parse::<Profile>().unwrap_err().to_string();
        assert_eq!(error, format!("unknown kube-proxy version `{text}` (known: 1.10 to 1.37)"));
    }

    #[rstest]
    #[case("1.18.3", false)]
    #[case("1.18.4", true)]
    #[case("1.18", true)]
    #[case("1.17.6", false)]
    #[case("1.15.12", false)]
    #[case("1.19.0", true)]
    fn backports_count_from_their_patch_release(#[case] version: &str, #[case] drops: bool) {
        assert_eq!(version.parse::<Profile>().unwrap().drops_external_localnet(), drops);
    }
}
