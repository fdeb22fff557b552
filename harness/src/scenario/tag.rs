//! Tags, by which tests are selected.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Maximum length of a tag, as of a label value in Kubernetes.
const LONGEST: usize = 63;

/// A tag of a test: 1 to 63 ASCII letters, digits, `-`, `_` and `.`, with a letter or digit first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Tag(String);

/// The error for a text that is not a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a tag has 1 to 63 ASCII letters, digits, `-`, `_` and `.`, and starts with a letter or digit")]
pub struct InvalidTag;

impl Tag {
    /// Returns the tag as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Tag {
    type Err = InvalidTag;

    fn from_str(text: &str) -> Result<Self, InvalidTag> {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let starts = text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
        let fits = text.len() <= LONGEST && text.bytes().all(is_fine);
        if starts && fits { Ok(Self(text.to_owned())) } else { Err(InvalidTag) }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("slow", true)]
    #[case("1.30", true)]
    #[case("", false)]
    #[case("-slow", false)]
    #[case("!slow", false)]
    #[case("two words", false)]
    #[case("größe", false)]
    fn tags_are_names(#[case] text: &str, #[case] is_tag: bool) {
        assert_eq!(text.parse::<Tag>().is_ok(), is_tag);
        assert!("a".repeat(LONGEST).parse::<Tag>().is_ok() && "a".repeat(LONGEST + 1).parse::<Tag>().is_err());
    }
}
