//! Kinds of releases by the rules they write, and names for several of them.

use std::collections::BTreeSet;

use super::backports;
use super::version::{KNOWN, Profile};

impl Profile {
    /// Returns one release of every known kind, the oldest first: of each minor release the last patch release before every backport, and
    /// the newest.
    pub fn kinds() -> impl DoubleEndedIterator<Item = Self> {
        let of_minor = |minor| {
            let before = changes(minor).into_iter().map(move |patch| Self { minor, patch: Some(patch - 1) });
            before.chain([Self { minor, patch: None }]).collect::<Vec<_>>()
        };
        KNOWN.flat_map(of_minor)
    }

    /// Returns the first release of the same kind: `1.18.4` for 1.18.5, `1.27` for 1.27.3.
    pub fn first_with_same_rules(self) -> String {
        match self.first_patch() {
            Some(patch) if patch > 0 => format!("1.{}.{patch}", self.minor),
            _ => format!("1.{}", self.minor),
        }
    }

    /// Returns whether it is the newest kind of its minor release.
    fn is_newest(self) -> bool {
        self.patch.is_none()
    }

    /// Returns the first patch release of its kind; `None` if it is the only kind of its minor release.
    fn first_patch(self) -> Option<u8> {
        let is_only = changes(self.minor).is_empty();
        let last = self.patch.unwrap_or(u8::MAX);
        (!is_only).then(|| changes(self.minor).range(..=last).next_back().copied().unwrap_or(0))
    }
}

/// Returns the patch releases of a minor release that write different rules than the one before.
fn changes(minor: u8) -> BTreeSet<u8> {
    let all = backports::OF_RULES.into_iter().flatten();
    all.filter(|(own, _)| *own == minor).map(|(_, patch)| *patch).collect()
}

/// Names the releases of several kinds, given in the order of [`Profile::kinds`]: `1.25 to 1.28`, `1.34 or 1.35`,
/// `1.33.0 to 1.33.5, 1.36`.
pub fn named(kinds: &[Profile]) -> String {
    let all: Vec<Profile> = Profile::kinds().collect();
    let chosen: Vec<usize> =
        all.iter().enumerate().filter(|(_, kind)| kinds.contains(kind)).map(|(position, _)| position).collect();
    let runs = chosen.chunk_by(|one, next| one + 1 == *next);
    let names = runs.filter_map(|run| Some(run_named(&all[*run.first()?..=*run.last()?])));
    names.collect::<Vec<_>>().join(", ")
}

/// Names consecutive kinds.
fn run_named(run: &[Profile]) -> String {
    let [first, .., last] = run else { return run.first().map_or(String::new(), |only| kind_named(*only)) };
    let has_all_of = |minor: u8| Profile::kinds().filter(|kind| kind.minor == minor).all(|kind| run.contains(&kind));
    let start = match first.first_patch() {
        Some(patch) if !has_all_of(first.minor) => format!("1.{}.{patch}", first.minor),
        _ => format!("1.{}", first.minor),
    };
    let end = if last.is_newest() { format!("1.{}", last.minor) } else { last.to_string() };
    match last.minor - first.minor {
        0 if start == end => end,
        1 if has_all_of(first.minor) && has_all_of(last.minor) => format!("{start} or {end}"),
        _ => format!("{start} to {end}"),
    }
}

fn kind_named(kind: Profile) -> String {
    match (kind.first_patch(), kind.patch) {
        (None, _) => kind.to_string(),
        (Some(first), Some(last)) if first < last => format!("1.{}.{first} to {kind}", kind.minor),
        (Some(_), Some(_)) => kind.to_string(),
        (Some(first), None) => format!("1.{0} from 1.{0}.{first} on", kind.minor),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::one(&["1.30"], "1.30")]
    #[case::two(&["1.35", "1.36"], "1.35 or 1.36")]
    #[case::several(&["1.25", "1.26", "1.27", "1.28"], "1.25 to 1.28")]
    #[case::apart(&["1.25", "1.30"], "1.25, 1.30")]
    #[case::all_patches(&["1.34.1", "1.34"], "1.34")]
    #[case::all_patches_and_more(&["1.34.1", "1.34", "1.35"], "1.34 or 1.35")]
    #[case::old_patches(&["1.33.5"], "1.33.0 to 1.33.5")]
    #[case::new_patches(&["1.34"], "1.34 from 1.34.2 on")]
    #[case::new_patches_and_more(&["1.34", "1.35"], "1.34.2 to 1.35")]
    #[case::middle_patches(&["1.18.5"], "1.18.4 to 1.18.5")]
    #[case::up_to_a_patch(&["1.33", "1.34.1"], "1.33.6 to 1.34.1")]
    fn releases_are_named_as_ranges(#[case] versions: &[&str], #[case] expected: &str) {
        let kinds: Vec<Profile> = versions.iter().map(|version| version.parse().unwrap()).collect();
        assert_eq!(named(&kinds), expected);
    }

    #[rstest]
    #[case::only_kind("1.27", "1.27")]
    #[case::before_a_backport("1.33.5", "1.33")]
    #[case::between_backports("1.18.5", "1.18.4")]
    #[case::newest("1.33", "1.33.6")]
    fn a_kind_starts_with_a_release(#[case] version: &str, #[case] expected: &str) {
        assert_eq!(version.parse::<Profile>().unwrap().first_with_same_rules(), expected);
    }

    #[test]
    fn every_kind_is_listed_once() {
        let kinds: Vec<Profile> = Profile::kinds().collect();
        assert_eq!(kinds.len(), KNOWN.len() + 8);
        assert_eq!(named(&kinds), format!("1.{} to 1.{}", KNOWN.start(), KNOWN.end()));
    }
}
