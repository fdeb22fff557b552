//! Where a scenario's capture and artifacts are written to.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// The file name extension of captures.
pub(super) const CAPTURE: &str = ".pcapng";

/// The names for the parent folder and for the root.
const UP: &str = "_up";
const ROOT: &str = "_root";

/// The file of a scenario's capture, at the scenario's place below a folder: `FOLDER/scenarios/seeds/001-kind.yaml.pcapng`. Scenarios in
/// other places are put below `_up` and `_root`, so that no two scenarios share a file.
pub(super) fn place(folder: &Path, scenario: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(below(scenario));
    name.push(ending);
    folder.join(name)
}

/// The files with an extension that earlier runs left for a scenario below a folder, including those of repetitions and retries.
pub(super) fn left(folder: &Path, scenario: &Path, ending: &str) -> Vec<PathBuf> {
    let place = place(folder, scenario, "");
    let (Some(above), Some(name)) = (place.parent(), place.file_name()) else { return Vec::new() };
    let is_own = |found: &OsStr| {
        let rest = found.as_bytes().strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_suffix(ending.as_bytes()));
        rest.and_then(|rest| std::str::from_utf8(rest).ok()).is_some_and(is_suffix)
    };
    let entries = fs::read_dir(above).into_iter().flatten().flatten();
    entries.filter(|entry| is_own(&entry.file_name())).map(|entry| entry.path()).collect()
}

/// Whether a text is the suffix of a repetition or a retry: see `Scheduled::suffix`.
fn is_suffix(text: &str) -> bool {
    let without = |text: &'_ str, word: &str| -> Option<usize> {
        let digits = text.strip_prefix(word)?.bytes().take_while(u8::is_ascii_digit).count();
        (digits > 0).then_some(word.len() + digits)
    };
    let rest = &text[without(text, ".repetition-").unwrap_or(0)..];
    rest[without(rest, ".retry-").unwrap_or(0)..].is_empty()
}

/// A path without components that lead upwards or to the root.
fn below(path: &Path) -> PathBuf {
    let of = |part: Component<'_>| match part {
        Component::Normal(name) => Some(escaped(name.to_os_string())),
        Component::ParentDir => Some(UP.into()),
        Component::RootDir => Some(ROOT.into()),
        Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(of).collect()
}

/// A name that could be mistaken for `_up` or `_root` gets one more underscore.
fn escaped(name: OsString) -> OsString {
    let plain = name.to_string_lossy();
    let is_step = [UP, ROOT].iter().any(|step| plain.trim_start_matches('_') == &step[1..] && plain.starts_with('_'));
    if is_step { format!("_{plain}").into() } else { name }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", true)]
    #[case(".retry-2", true)]
    #[case(".repetition-12", true)]
    #[case(".repetition-1.retry-3", true)]
    #[case(".retry-3.repetition-1", false)]
    #[case(".retry-", false)]
    #[case(".old", false)]
    fn only_own_files_are_left(#[case] suffix: &str, #[case] expected: bool) {
        assert_eq!(is_suffix(suffix), expected);
    }

    #[rstest]
    #[case("scenarios/a.yaml", "c/scenarios/a.yaml.pcapng")]
    #[case::other_ending("scenarios/a.yml", "c/scenarios/a.yml.pcapng")]
    #[case::from_here("./a.yaml", "c/a.yaml.pcapng")]
    #[case::above("../a.yaml", "c/_up/a.yaml.pcapng")]
    #[case::twice_above("../../a.yaml", "c/_up/_up/a.yaml.pcapng")]
    #[case::root("/a.yaml", "c/_root/a.yaml.pcapng")]
    #[case::of_that_name("_up/_root/a.yaml", "c/__up/__root/a.yaml.pcapng")]
    #[case::of_the_escaped_name("__up/up/a.yaml", "c/___up/up/a.yaml.pcapng")]
    fn every_scenario_has_its_own(#[case] scenario: &str, #[case] expected: &str) {
        assert_eq!(place(Path::new("c"), Path::new(scenario), ".pcapng"), Path::new(expected));
    }
}
