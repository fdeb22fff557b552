//! Names of machines: those that `uname -a` prints, and those of files and bundles that say which machine they are of.

use super::machine_files::folder;
use super::machine_pieces::folders_of_several;
use super::model::{Evidence, HostName};
use super::node_rules::{NodeRules, is_same_host};

/// The names of machines that lines say.
pub(super) fn find(text: &str) -> Vec<HostName> {
    let of_line = |(line, text): (usize, &str)| Some(HostName { file: None, line, name: name_in(text)?.to_owned() });
    (1..).zip(text.lines()).filter_map(of_line).collect()
}

/// `Linux worker-1 6.8.0-45-generic #45-Ubuntu SMP PREEMPT_DYNAMIC Fri Aug 30 12:02:04 UTC 2024 x86_64 x86_64 x86_64 GNU/Linux`
fn name_in(line: &str) -> Option<&str> {
    let mut words = line.strip_prefix("Linux ")?.split_whitespace();
    let (name, release, build) = (words.next()?, words.next()?, words.next()?);
    let is_release = release.starts_with(|letter: char| letter.is_ascii_digit()) && release.contains('.');
    (is_release && build.starts_with('#')).then_some(name)
}

/// The machine that rules are of, by a line in their file, else in the folder that has the rules of no other machine, without the domain if a line
/// leaves it out; `None` if there are lines of several machines.
pub(crate) fn host_of<'e>(evidence: &'e Evidence, rules: &[NodeRules]) -> Option<&'e str> {
    let of_several = folders_of_several(evidence);
    let is_in_file = |host: &HostName| rules.iter().any(|set| set.file() == host.file.as_deref());
    let is_in_folder = |host: &HostName| {
        let place = host.file.as_deref().map(folder).filter(|place| !of_several.contains(place));
        place.is_some() && rules.iter().any(|set| set.folder() == place)
    };
    let names = |is_there: &dyn Fn(&HostName) -> bool| -> Vec<&'e str> {
        evidence.hosts.iter().filter(|host| is_there(host)).map(|host| host.name.as_str()).collect()
    };
    let names = [names(&is_in_file), names(&is_in_folder)].into_iter().find(|names| !names.is_empty())?;
    let shortest = names.iter().copied().min_by_key(|name| name.len())?;
    names.iter().all(|name| is_same_host(name, shortest)).then_some(shortest)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(
        "Linux worker-1 6.8.0-45-generic #45-Ubuntu SMP Fri Aug 30 12:02:04 UTC 2024 x86_64 GNU/Linux",
        Some("worker-1")
    )]
    #[case("Linux kernel 5.4 or later is needed", None)]
    #[case("Kernel: Linux worker-1 6.8.0 #45", None)]
    fn machines_are_found(#[case] line: &str, #[case] expected: Option<&str>) {
        assert_eq!(name_in(line), expected);
    }
}
