//! The selection of tests.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::scenario::{InvalidTag, Scenario, Tag, Test};

/// The tests to run: those that meet every condition. By default all.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Selection {
    /// The test's name contains this text.
    pub filter: Option<String>,
    /// The test has at least one of the required tags, if there are any, and none of the excluded ones.
    pub tags: Vec<TagCondition>,
    /// The test's name is one of these; `None` for any.
    pub only: Option<Vec<String>>,
}

/// A tag that a test must have, or must not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagCondition {
    /// The tag.
    pub tag: Tag,
    /// Whether tests with it are left out.
    pub is_negated: bool,
}

impl FromStr for TagCondition {
    type Err = InvalidTag;

    /// `slow`, or `!slow` for tests without it.
    fn from_str(text: &str) -> Result<Self, InvalidTag> {
        let is_negated = text.starts_with('!');
        Ok(Self { tag: text.strip_prefix('!').unwrap_or(text).parse()?, is_negated })
    }
}

impl Selection {
    /// Whether a test is run.
    pub fn chooses(&self, test: &Test) -> bool {
        let is_named = self.only.as_ref().is_none_or(|names| names.contains(&test.name));
        let contains = self.filter.as_ref().is_none_or(|text| test.name.contains(text.as_str()));
        let (unwanted, wanted): (Vec<_>, Vec<_>) = self.tags.iter().partition(|condition| condition.is_negated);
        let has = |condition: &&TagCondition| test.tags.contains(&condition.tag);
        is_named && contains && !unwanted.iter().any(has) && (wanted.is_empty() || wanted.iter().any(has))
    }

    /// The tests of a scenario that are run, in order.
    pub fn of<'s>(&self, scenario: &'s Scenario) -> impl Iterator<Item = &'s Test> {
        scenario.tests.iter().filter(|test| self.chooses(test))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::input::Span;

    #[rstest]
    #[case::any(&[], true)]
    #[case::one_of_two(&["nodeport", "slow"], true)]
    #[case::none(&["slow"], false)]
    #[case::unwanted(&["!ipv6"], false)]
    #[case::both(&["nodeport", "!ipv6"], false)]
    #[case::without(&["!slow"], true)]
    fn tests_are_chosen_by_tags(#[case] conditions: &[&str], #[case] expected: bool) {
        let tags = ["nodeport", "ipv6"].map(|tag| tag.parse().unwrap()).into();
        let test = Test { name: "a".to_owned(), span: Span::start_of("a.yaml".as_ref()), tags, steps: Vec::new() };
        let tags = conditions.iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(Selection { tags, ..Selection::default() }.chooses(&test), expected);
    }
}
