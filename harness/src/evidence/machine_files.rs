//! Which files of a folder or archive are of one machine, and its name, by the names of files and folders.

use std::path::Path;

use super::model::{Evidence, HostName};

/// Folders in which collectors of logs sort the files of one machine.
const OF_COLLECTORS: [&str; 14] = [
    "commands",
    "etc",
    "firewall",
    "firewall_tables",
    "host",
    "iptables",
    "kubectl",
    "logs",
    "network",
    "networking",
    "proc",
    "sos_commands",
    "systeminfo",
    "systemlogs",
];

/// Words in the names of files that name a command, its options, a table or a format, and no machine.
const OF_LISTINGS: [&str; 31] = [
    "chain",
    "counters",
    "filter",
    "forward",
    "full",
    "input",
    "ip",
    "ipv4",
    "ipv6",
    "legacy",
    "line",
    "list",
    "log",
    "mangle",
    "nat",
    "nft",
    "nftables",
    "numbers",
    "out",
    "output",
    "postrouting",
    "prerouting",
    "raw",
    "rules",
    "ruleset",
    "save",
    "table",
    "txt",
    "v4",
    "v6",
    "verbose",
];

/// The names of files that contain the name of their machine alone.
const HOST_NAMES: [&str; 2] = ["hostname", "hostnamefqdn"];

/// Stands for a file in the top folder: the name of the bundle is that of its machine.
const OF_BUNDLE: &str = "";

/// The longest name of a host.
const LONGEST: usize = 253;

/// The longest options of iptables without a value that are written together: `-nvxL`.
const LONGEST_OPTION: usize = 4;

/// The folder with the files of a machine that a file is in, without those in which a collector has sorted them.
pub(super) fn folder(file: &str) -> &str {
    let mut folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    loop {
        let (above, last) = folder.rsplit_once('/').unwrap_or(("", folder));
        if last.is_empty() || !OF_COLLECTORS.contains(&last) {
            return folder;
        }
        folder = above;
    }
}

/// What a file's name says apart from tables, commands and their options: nothing for `iptablesnat` and `iptables_-t_nat_-nvL`, `worker-1` for
/// `worker-1-nat.txt`.
pub(crate) fn machine_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or_default().to_lowercase();
    let (before, after) = name.split_once("ip6tables").or_else(|| name.split_once("iptables")).unwrap_or((&name, ""));
    // After the program come its options: `iptables-t-nat-nvL`.
    let is_option = |word: &&str| word.len() <= LONGEST_OPTION && word.bytes().all(|byte| b"cnlstvx46".contains(&byte));
    let words = words_of(before).chain(words_of(after).filter(|word| !is_option(word)));
    words.filter(|word| !OF_LISTINGS.contains(word)).collect::<Vec<_>>().join("-")
}

fn words_of(name: &str) -> impl Iterator<Item = &str> {
    name.split(['_', ' ', '-', '.']).filter(|word| !word.is_empty())
}

/// The machine that the name of a bundle says, before the date: `worker-1` of `sosreport-worker-1-2024-05-02-abcdefg` and of
/// `worker-1-2024-03-01_10_11_12.tar.gz`.
pub(crate) fn machine_of_bundle(name: &str) -> Option<&str> {
    let rest = name.strip_prefix("sosreport-").unwrap_or(name);
    let is_year = |at: usize| {
        let after = &rest.as_bytes()[at + 1..];
        let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
        after.starts_with(b"20") && (digits == 8 || digits == 4 && matches!(after.get(4), Some(b'-' | b'_' | b'.')))
    };
    let end = rest.match_indices(['-', '_']).map(|(at, _)| at).find(|at| is_year(*at))?;
    (end > 0).then(|| &rest[..end])
}

impl Evidence {
    /// Adds the name of its machine that a file contains, which `hostname` has written.
    pub(super) fn add_host_name(&mut self, file: &str, text: &str) {
        let name = text.trim();
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
        let is_name = !name.is_empty() && name.len() <= LONGEST && name.chars().all(is_of_name);
        if is_name && file.rsplit('/').next().is_some_and(|last| HOST_NAMES.contains(&last)) {
            self.hosts.push(HostName { file: Some(file.into()), line: 1, name: name.to_owned() });
        }
    }

    /// Adds the name of the machine that the name of the folder or archive of all files says, unless a file does.
    pub(super) fn add_name_of_bundle(&mut self, path: &Path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_of_bundle = |file: Option<&str>| file.map(folder) == Some(OF_BUNDLE);
        let is_known = self.hosts.iter().any(|host| is_of_bundle(host.file.as_deref()));
        let has_some = self.pieces.iter().any(|piece| is_of_bundle(piece.file.as_deref()));
        if let Some(machine) = machine_of_bundle(&name).filter(|_| !is_known && has_some) {
            self.hosts.push(HostName { file: Some(OF_BUNDLE.into()), line: 1, name: machine.to_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("node-a/networking/iptablessave", "node-a", "")]
    #[case("sos_commands/firewall_tables/iptables_-t_nat_-nvL", "", "")]
    #[case("worker-1/iptables-nat.txt", "worker-1", "")]
    #[case("dumps/worker-1-filter.txt", "dumps", "worker-1")]
    #[case("after.txt", "", "after")]
    #[case("worker-a.txt", "", "worker-a")]
    #[case("node-4.rules", "", "node-4")]
    #[case("x/ip6tables-save.txt", "x", "")]
    #[case("x/iptables-t-nat-L-n-v.txt", "x", "")]
    #[case("x/iptables-legacy-save-c.txt", "x", "")]
    #[case("x/rules.v4", "x", "")]
    #[case("worker-c-iptables-nvxL --line-numbers.txt", "", "worker-c")]
    fn files_name_machines(#[case] file: &str, #[case] of_folder: &str, #[case] of_file: &str) {
        assert_eq!((folder(file), &*machine_name(file)), (of_folder, of_file));
    }

    #[rstest]
    #[case("node-a-2024-03-01", Some("node-a"))]
    #[case("sosreport-worker1-2024-05-02-abcdefg", Some("worker1"))]
    #[case("ip-10-0-1-5-20240301.tar.gz", Some("ip-10-0-1-5"))]
    #[case("2024-03-01", None)]
    #[case("node-2024", None)]
    #[case("worker-1", None)]
    fn bundles_name_machines(#[case] name: &str, #[case] expected: Option<&str>) {
        assert_eq!(machine_of_bundle(name), expected);
    }
}
