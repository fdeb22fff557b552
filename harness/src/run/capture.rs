//! Where a scenario's capture and artifacts are written to.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// The names for the parent folder and for the root.
const UP: &str = "_up";
const ROOT: &str = "_root";

/// The file of a scenario's capture, at the scenario's place below a folder: `FOLDER/scenarios/seeds/001-kind.yaml.pcapng`. What
/// lies elsewhere is below `_up` and `_root`: no two files have the same.
pub(super) fn place(folder: &Path, scenario: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(below(scenario));
    name.push(ending);
    folder.join(name)
}

/// A path without steps that lead upwards or to the root.
fn below(path: &Path) -> PathBuf {
    let of = |part: Component<'_>| match part {
        Component::Normal(name) => Some(escaped(name.to_os_string())),
        Component::ParentDir => Some(UP.into()),
        Component::RootDir => Some(ROOT.into()),
        Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(of).collect()
}

/// A name that could be taken for a step gets one more underscore.
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
