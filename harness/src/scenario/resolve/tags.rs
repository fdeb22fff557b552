//! Tags of scenarios and tests.

use std::collections::BTreeSet;

use super::findings::Findings;
use crate::scenario::Tag;
use crate::scenario::schema::OneOrMany;
use crate::yaml::At;

/// Resolves a list of tags, without duplicates.
pub(crate) fn tags(raw: &OneOrMany<String>, at: At<'_>, findings: &mut Findings) -> BTreeSet<Tag> {
    let mut tags = BTreeSet::new();
    for (index, text) in raw.0.iter().enumerate() {
        match text.parse() {
            Ok(tag) => {
                tags.insert(tag);
            }
            Err(error) => {
                findings.wrong(
                    at.item(index),
                    format!("`{text}` is not a tag: {error}"),
                    "Use a name like `nodeport` or `slow`.",
                );
            }
        }
    }
    tags
}
